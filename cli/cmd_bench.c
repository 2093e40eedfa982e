// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln bench NAME`: options and choice; what is measured is in bench/.
// How a table or a JSON line looks is in bench_report.c.

#include "bench.h"
#include "cli_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct argp_option bench_options_table[] = {
    {"device", 'd', "ADDRESS", 0, "device to measure on", 0},
    {"runs", 'r', "COUNT", 0, "timed runs of each figure", 0},
    {"samples", 'n', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"only", 'o', "WORD", 0,
     "of `kernels`, `ops`, `fusion`, `choice`, `matmul`, `models`: cases whose name contains it",
     0},
    {"model", 'm', "FILE", 0, "model of `start`; three.npy must be beside it", 0},
    {"folder", 'f', "FOLDER", 0,
     "where `models` writes its models, once (default: models in the cache)", 0},
    {"python", 'p', "PROGRAM", 0,
     "interpreter with peers of `models`, such as that of a virtual environment; may be given "
     "several times, the first must have NumPy and onnx (default /usr/bin/python3)",
     0},
    {0},
};

typedef struct bench_arguments {
    bench_options options;
    cli_json_options json;
    const bench_entry *entry;
} bench_arguments;

static const char *bench_name_at(size_t index, const void *unused)
{
    (void)unused;
    return bench_at(index) != NULL ? bench_at(index)->name : NULL;
}

static void ask_for_name(const struct argp_state *state, const char *why, const char *name)
{
    char names[400], guess[CLI_GUESS_ROOM];
    size_t used = 0;
    for (size_t i = 0; bench_at(i) != NULL && used < sizeof(names); i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
                                 bench_at(i)->name);
    }
    cli_guess(guess, name, bench_name_at, NULL);
    argp_error(state, "%s%s%s%s there are %s", why, name, guess, guess[0] != '\0' ? "" : ";",
               names);
}

static const bench_entry *find(const char *name)
{
    for (size_t i = 0; bench_at(i) != NULL; i++) {
        if (strcmp(bench_at(i)->name, name) == 0) {
            return bench_at(i);
        }
    }
    return NULL;
}

/// The bench, or behind it one of its cases.
static void take_name(bench_arguments *arguments, char *text, struct argp_state *state)
{
    bench_options *options = &arguments->options;
    if (arguments->entry != NULL) {
        if (options->n_names == BENCH_MOST_NAMES) {
            argp_error(state, "more than %d cases", BENCH_MOST_NAMES);
        }
        options->names[options->n_names++] = text;
        return;
    }
    arguments->entry = find(text);
    if (arguments->entry == NULL) {
        ask_for_name(state, "there is no bench ", text);
    }
}

static error_t parse_bench_option(int key, char *text, struct argp_state *state)
{
    bench_arguments *arguments = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->json;
        return 0;
    case 'd':
        arguments->options.device = text;
        return 0;
    case 'm':
        arguments->options.model = text;
        return 0;
    case 'o':
        arguments->options.only = text;
        return 0;
    case 'r':
    case 'n': // of --samples, the older name
        arguments->options.samples = (uint32_t)strtoul(text, &end, 10);
        if (*text == '\0' || *end != '\0' || arguments->options.samples == 0) {
            argp_error(state, "--runs %s: a count from 1", text);
        }
        return 0;
    case 'f':
        arguments->options.folder = text;
        return 0;
    case 'p':
        if (arguments->options.n_pythons == BENCH_MOST_PYTHONS) {
            argp_error(state, "more than %d interpreters", BENCH_MOST_PYTHONS);
        }
        arguments->options.pythons[arguments->options.n_pythons++] = text;
        return 0;
    case ARGP_KEY_ARG:
        take_name(arguments, text, state);
        return 0;
    case ARGP_KEY_END:
        if (arguments->entry == NULL) {
            ask_for_name(state, "say which bench", "");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool has_case(const bench_entry *entry, const char *wanted)
{
    for (size_t i = 0; entry->case_name(i) != NULL; i++) {
        if (strcmp(entry->case_name(i), wanted) == 0) {
            return true;
        }
    }
    return false;
}

static bool wants_some(const bench_entry *entry, const bench_options *options)
{
    for (size_t i = 0; entry->case_name(i) != NULL; i++) {
        if (bench_wanted(options, entry->case_name(i))) {
            return true;
        }
    }
    return false;
}

/// A name that is no case, or an --only that fits none, would give a table with less than was
/// asked for.
static int check_cases(const bench_entry *entry, const bench_options *options)
{
    char text[8192]; // the names of all operators are some 3000
    cli_names names = {.text = text, .capacity = sizeof(text)};
    if (options->only == NULL && options->n_names == 0) {
        return CLI_OK;
    }
    if (entry->case_name == NULL) {
        return cli_usage("bench", "%s is measured as a whole, without %s", entry->name,
                         options->only != NULL ? "--only" : "names of cases");
    }
    for (size_t i = 0; entry->case_name(i) != NULL; i++) {
        const char *name = entry->case_name(i);
        if (i == 0 || strcmp(name, entry->case_name(i - 1)) != 0) {
            cli_names_add(&names, name);
        }
    }
    for (size_t i = 0; i < options->n_names; i++) {
        if (!has_case(entry, options->names[i])) {
            return cli_usage("bench", "%s has no case \"%s\"; there are %s", entry->name,
                             options->names[i], cli_names_end(&names));
        }
    }
    return wants_some(entry, options)
               ? CLI_OK
               : cli_usage("bench", "no case of %s has \"%s\" in its name; there are %s",
                           entry->name, options->only, cli_names_end(&names));
}

static char *list_benches(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) {
        return (char *)(uintptr_t)text;
    }
    char *list = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&list, &length);
    for (size_t i = 0; file != NULL && bench_at(i) != NULL; i++) {
        fprintf(file, "%s: %s\n", bench_at(i)->name, bench_at(i)->summary);
    }
    if (file != NULL) {
        fclose(file);
    }
    return list;
}

/// An object a line: some benches take minutes for one.
static kiln_status run_bench(bench_arguments *arguments, kiln_error *err)
{
    bench_options *options = &arguments->options;
    const char *path = arguments->json.path;
    options->json = cli_json_is_shown(&arguments->json);
    options->lines = options->json ? stdout : arguments->json.wanted ? fopen(path, "w") : NULL;
    if (arguments->json.wanted && options->lines == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    kiln_status status = arguments->entry->run(options, err);
    if (options->lines == NULL || options->lines == stdout) {
        return status; // lost standard output is told at the end, for all commands alike
    }
    bool lost = ferror(options->lines) != 0;
    lost = fclose(options->lines) != 0 || lost;
    return status == KILN_STATUS_OK && lost
               ? kiln_fail(err, UNAVAILABLE, "%s cannot be written", path)
               : status;
}

int cmd_bench(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        bench_options_table,
        parse_bench_option,
        "NAME [CASE...]",
        "Measures; every figure beside a peer's of the same run. A ratio is larger when "
        "better.\v",
        children,
        list_benches,
        NULL};
    char self[4096];
    bench_arguments arguments = {.options = {.model = "examples/digits/digits.onnx"}};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    int usage = check_cases(arguments.entry, &arguments.options);
    if (usage != CLI_OK) {
        return usage;
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = '\0';
    arguments.options.program = self;
    kiln_error err = KILN_ERROR_INIT;
    if (run_bench(&arguments, &err) != KILN_STATUS_OK) {
        return cli_fail("bench", &err);
    }
    return CLI_OK;
}
