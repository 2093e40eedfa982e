// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin record -- COMMAND...`: runs a program with the option `record` set, so that it
// writes each kind of stream that it runs as a replayable file, and says what came of it.

#include "ir_replay.h"
#include "plugin_cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct record_options {
    const char *folder;
    char **command;
} record_options;

static const struct argp_option record_options_table[] = {
    {"output", 'o', "DIR", 0, "folder of the files (default streams)", 0},
    {0},
};

static error_t parse_record_option(int key, char *text, struct argp_state *state)
{
    record_options *options = state->input;
    switch (key) {
    case 'o':
        options->folder = text;
        return 0;
    case ARGP_KEY_ARG: // the rest is the program's
        options->command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (options->command == NULL) {
            argp_error(state, "say which COMMAND to run, behind --");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static kiln_status record_streams(const record_options *options, kiln_error *err)
{
    char folder[4096];
    int status = 0;
    if ((mkdir(options->folder, 0777) != 0 && errno != EEXIST) ||
        realpath(options->folder, folder) == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s cannot be made: %s", options->folder, strerror(errno));
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("KILN_RECORD", folder, 1); // the command may change its folder
        execvp(options->command[0], options->command);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return kiln_fail(err, UNAVAILABLE, "no process: %s", strerror(errno));
    }
    if (WIFSIGNALED(status)) {
        return kiln_fail(err, FAILED_PRECONDITION, "%s died of signal %d (%s)", options->command[0],
                         WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) == 127) {
        return kiln_fail(err, NOT_FOUND, "%s cannot be run: is it there, and a program?",
                         options->command[0]);
    }
    return WEXITSTATUS(status) == 0 ? KILN_STATUS_OK
                                    : kiln_fail(err, FAILED_PRECONDITION, "%s ended with status %d",
                                                options->command[0], WEXITSTATUS(status));
}

static int is_stream(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 7 && strcmp(entry->d_name + length - 7, ".replay") == 0;
}

/// Each file with what is in it. Gives their number.
static int list_files(const record_options *options, const kiln_env *env)
{
    struct dirent **entries = NULL;
    int n = scandir(options->folder, &entries, is_stream, alphasort);
    for (int i = 0; i < n; i++) {
        char path[4500];
        kiln_replay *replay = NULL;
        kiln_error err = KILN_ERROR_INIT;
        snprintf(path, sizeof(path), "%.4000s/%.300s", options->folder, entries[i]->d_name);
        if (kiln_replay_read(env, path, &replay, &err) == KILN_STATUS_OK) {
            size_t n_ops = 0, n_outputs = 0;
            for (size_t k = 0; k < kiln_ir_graph_op_count(replay->graph); k++) {
                n_ops += kiln_ir_graph_op(replay->graph, k)->op != KILN_OP_DROP;
            }
            (void)kiln_ir_graph_outputs(replay->graph, &n_outputs);
            printf("%s: %zu %s, %zu %s, %zu %s\n", path, n_ops,
                   kiln_plural(n_ops, "operation", "operations"), replay->n_inputs,
                   kiln_plural(replay->n_inputs, "input", "inputs"), n_outputs,
                   kiln_plural(n_outputs, "output", "outputs"));
        } else {
            printf("%s: %s\n", path, err.message);
        }
        kiln_replay_destroy(replay);
        free(entries[i]);
    }
    free((void *)entries);
    return n;
}

int plugin_record(int argc, char **argv)
{
    static const struct argp argp = {
        record_options_table,
        parse_record_option,
        "[--] COMMAND [ARGUMENTS]",
        "Runs a program that uses Kiln and writes each kind of stream of operations that it runs "
        "as a replayable file, for `kiln plugin run`, `dump`, `bench` and `reduce`.",
        NULL,
        NULL,
        NULL};
    record_options options = {.folder = "streams"};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_context_options wanted = KILN_CONTEXT_OPTIONS_INIT;
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options);
    kiln_status status = record_streams(&options, &err);
    kiln_error opening = KILN_ERROR_INIT;
    if (kiln_context_create(&wanted, &context, &opening) != KILN_STATUS_OK) {
        return cli_fail("plugin record", &opening);
    }
    int n = list_files(&options, kiln_context_env(context));
    kiln_context_destroy(context);
    if (status == KILN_STATUS_OK && n <= 0) {
        status = kiln_fail(&err, FAILED_PRECONDITION,
                           "%s ran no operation: does it use this Kiln, and a device here?",
                           options.command[0]);
    }
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("plugin record", &err);
}
