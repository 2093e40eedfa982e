// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln cache stat|clear|prepare`: the database of programs, plans, winners and device
// measurements. Keys and limits belong to the store in base/; here are only its figures and the
// question to empty it, and preparing is cmd_cache_prepare.c's and
// cmd_cache_builtin.c's.

#include "cli_json.h"

#include <stdio.h>
#include <string.h>

typedef struct cache_options {
    const char *action;
    cli_json_options json;
} cache_options;

static error_t parse_cache_option(int key, char *text, struct argp_state *state)
{
    static const char *const actions[] = {"stat", "clear", "prepare", NULL};
    char guess[CLI_GUESS_ROOM];
    cache_options *options = state->input;
    const char **action = &options->action;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->json;
        return 0;
    case ARGP_KEY_ARG:
        if (*action != NULL || (strcmp(text, "stat") != 0 && strcmp(text, "clear") != 0)) {
            argp_error(state, "say stat, clear, prepare MODEL or prepare --builtin, not \"%s\"%s",
                       text, cli_guess(guess, text, cli_listed_name, actions));
        }
        *action = text;
        return 0;
    case ARGP_KEY_END:
        if (*action == NULL) {
            argp_error(state, "say stat, clear, prepare MODEL or prepare --builtin");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *const table_names[KILN_STORE_TABLE_COUNT] = {"programs", "plans",  "winners",
                                                                "devices",  "starts", "digests"};

static json_t *stat_json(const char *folder, const kiln_store_stat *stat)
{
    json_t *root = json_object();
    (void)json_object_set_new(root, "folder", cli_json_text(folder));
    (void)json_object_set_new(root, "bytes", json_integer((json_int_t)stat->file_bytes));
    for (size_t i = 0; i < KILN_STORE_TABLE_COUNT; i++) {
        json_t *table = json_pack("{s:I, s:I}", "entries", (json_int_t)stat->entries[i], "bytes",
                                  (json_int_t)stat->bytes[i]);
        (void)json_object_set_new(root, table_names[i], table);
    }
    return root;
}

static void print_stat(const char *folder, const kiln_store_stat *stat)
{
    char bytes[32];
    printf("%s, %s\n", folder, cli_format_bytes(bytes, (double)stat->file_bytes));
    for (size_t i = 0; i < KILN_STORE_TABLE_COUNT; i++) {
        printf("  %-9s %6llu  %s\n", table_names[i], (unsigned long long)stat->entries[i],
               cli_format_bytes(bytes, (double)stat->bytes[i]));
    }
}

int cmd_cache(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL,
                                     parse_cache_option,
                                     "stat|clear\nprepare MODEL\nprepare --builtin",
                                     "Shows, empties or fills the cache on disk.",
                                     children,
                                     NULL,
                                     NULL};
    cache_options options = {0};
#ifdef KILN_WITH_CL
    if (argc > 2 && strcmp(argv[1], "prepare") == 0 && strcmp(argv[2], "--builtin") == 0) {
        static char name[] = "kiln cache prepare --builtin";
        argv[2] = name;
        return cmd_cache_builtin(argc - 2, argv + 2);
    }
#endif
#ifdef KILN_WITH_ONNX
    if (argc > 1 && strcmp(argv[1], "prepare") == 0) {
        static char name[] = "kiln cache prepare";
        argv[1] = name;
        return cmd_cache_prepare(argc - 1, argv + 1);
    }
#endif
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    cli_device_options none = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    if (cli_open_context(&none, &context, &err) != KILN_STATUS_OK) {
        return cli_fail("cache", &err);
    }
    char folder[4096];
    kiln_status status = kiln_cache_dir(kiln_context_env(context), folder, sizeof(folder), &err);
    kiln_store *store = status == KILN_STATUS_OK ? kiln_context_store(context) : NULL;
    if (status == KILN_STATUS_OK && store == NULL) {
        status = kiln_fail(&err, UNAVAILABLE, "the cache in %s cannot be opened", folder);
    }
    if (status == KILN_STATUS_OK && strcmp(options.action, "clear") == 0) {
        status = kiln_store_clear(store, &err);
    }
    kiln_store_stat stat;
    if (status == KILN_STATUS_OK) {
        status = kiln_store_stat_get(store, &stat, &err);
    }
    if (status == KILN_STATUS_OK && options.json.wanted) {
        status = cli_json_write(&options.json, stat_json(folder, &stat), &err);
    } else if (status == KILN_STATUS_OK) {
        print_stat(folder, &stat);
    }
    cli_close_context(context);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("cache", &err);
}
