// SPDX-License-Identifier: MIT OR Apache-2.0
// The command `kiln`: finds the subcommand and hands it its arguments. What each does is in its own
// file.

#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef KILN_WITH_ONNX
#define IF_ONNX(...) __VA_ARGS__
#else
#define IF_ONNX(...)
#endif
#ifdef KILN_WITH_REMOTE
#define IF_REMOTE(...) __VA_ARGS__
#else
#define IF_REMOTE(...)
#endif
#define IF_NOTHING(...) __VA_ARGS__

static const cli_command commands[] = {
#define KILN_COMMAND(id, needs, name, summary) IF_##needs({name, summary, cmd_##id}, )
#include "commands.def"
#undef KILN_COMMAND
};

/// Lost output, on a full disk for one, is a failure of whatever command. At exit, because argp
/// ends the process by itself behind --help.
static void check_output(void)
{
    bool lost = ferror(stdout) != 0;
    bool flushed = fflush(stdout) == 0;
    if (lost || !flushed) {
        fprintf(stderr, "kiln: standard output cannot be written%s%s\n", flushed ? "" : ": ",
                flushed ? "" : strerror(errno));
        _exit(CLI_FAILED);
    }
}

static void print_help(FILE *file)
{
    fprintf(file, "usage: kiln COMMAND [ARGUMENTS]\n\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        fprintf(file, "  %-11s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(file, "\n`kiln COMMAND --help` tells more; `kiln --version` the version.\n");
}

int main(int argc, char **argv)
{
    argp_err_exit_status = CLI_USAGE;
    (void)atexit(check_output);
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("kiln %s\n", kiln_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            char name[32];
            snprintf(name, sizeof(name), "kiln %s", commands[i].name);
            argv[1] = name;
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "kiln: there is no command \"%s\"; `kiln --help` lists them\n", argv[1]);
    return CLI_USAGE;
}
