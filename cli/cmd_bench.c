// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln bench NAME`: options and choice; what is measured is in bench/.
// How a table or a JSON line looks is in bench_report.c.

#include "bench.h"
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct argp_option bench_options_table[] = {
    {"device", 'd', "ADDRESS", 0, "device to measure on", 0},
    {"json", 'j', NULL, 0, "one JSON object a line instead of a table", 0},
    {"samples", 'n', "COUNT", 0, "samples of each figure", 0},
    {"only", 'o', "WORD", 0,
     "of `kernels`, `ops`, `fusion`, `choice`, `matmul`: cases whose name contains it", 0},
    {"model", 'm', "FILE", 0, "model of `start`; three.npy must be beside it", 0},
    {0},
};

typedef struct bench_arguments {
    bench_options options;
    const bench_entry *entry;
} bench_arguments;

static const bench_entry *find(const char *name)
{
    for (size_t i = 0; bench_at(i) != NULL; i++) {
        if (strcmp(bench_at(i)->name, name) == 0) {
            return bench_at(i);
        }
    }
    return NULL;
}

static error_t parse_bench_option(int key, char *text, struct argp_state *state)
{
    bench_arguments *arguments = state->input;
    char *end = NULL;
    switch (key) {
    case 'd':
        arguments->options.device = text;
        return 0;
    case 'j':
        arguments->options.json = true;
        return 0;
    case 'm':
        arguments->options.model = text;
        return 0;
    case 'o':
        arguments->options.only = text;
        return 0;
    case 'n':
        arguments->options.samples = (uint32_t)strtoul(text, &end, 10);
        if (*text == '\0' || *end != '\0' || arguments->options.samples == 0) {
            argp_error(state, "--samples %s: a count from 1", text);
        }
        return 0;
    case ARGP_KEY_ARG:
        arguments->entry = find(text);
        if (arguments->entry == NULL || state->arg_num > 0) {
            argp_error(state, "there is no bench \"%s\"", text);
        }
        return 0;
    case ARGP_KEY_END:
        if (arguments->entry == NULL) {
            argp_error(state, "say which bench");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/// Without a case that --only wants there would be an empty table.
static int check_only(const bench_entry *entry, const bench_options *options)
{
    char text[8192]; // the names of all operators are some 3000
    cli_names names = {.text = text, .capacity = sizeof(text)};
    const char *before = "";
    if (options->only == NULL) {
        return CLI_OK;
    }
    if (entry->case_name == NULL) {
        return cli_usage("bench", "%s is measured as a whole, without --only", entry->name);
    }
    for (size_t i = 0; entry->case_name(i) != NULL; i++) {
        const char *name = entry->case_name(i);
        if (bench_wanted(options, name)) {
            return CLI_OK;
        }
        if (strcmp(name, before) != 0) {
            cli_names_add(&names, name);
        }
        before = name;
    }
    return cli_usage("bench", "no case of %s has \"%s\" in its name; there are %s", entry->name,
                     options->only, cli_names_end(&names));
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

int cmd_bench(int argc, char **argv)
{
    static const struct argp argp = {
        bench_options_table,
        parse_bench_option,
        "NAME",
        "Measures; every figure beside a peer's of the same run. A ratio is larger when "
        "better.\v",
        NULL,
        list_benches,
        NULL};
    char self[4096];
    bench_arguments arguments = {.options = {.model = "examples/digits/digits.onnx"}};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    int usage = check_only(arguments.entry, &arguments.options);
    if (usage != CLI_OK) {
        return usage;
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = '\0';
    arguments.options.program = self;
    kiln_error err = KILN_ERROR_INIT;
    if (arguments.entry->run(&arguments.options, &err) != KILN_STATUS_OK) {
        return cli_fail("bench", &err);
    }
    return CLI_OK;
}
