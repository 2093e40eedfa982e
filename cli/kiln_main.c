// SPDX-License-Identifier: MIT OR Apache-2.0
// The command `kiln`: the table of the subcommands, and what holds for all of them. What each does
// is in its own file.

#include "help.h"

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
#ifdef KILN_WITH_BENCH
#define IF_BENCH(...) __VA_ARGS__
#else
#define IF_BENCH(...)
#endif
#ifdef KILN_WITH_OPERATORS
#define IF_OPERATORS(...) __VA_ARGS__
#else
#define IF_OPERATORS(...)
#endif
#define IF_NOTHING(...) __VA_ARGS__

static const cli_command commands[] = {
#define KILN_COMMAND(id, needs, name, summary) IF_##needs({name, summary, cmd_##id}, )
#include "commands.def"
#undef KILN_COMMAND
    {0}};

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

int main(int argc, char **argv)
{
    // A message in one write: lines of several processes on one terminal do not mix.
    (void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
    argp_err_exit_status = CLI_USAGE;
    help_begin(commands);
    (void)atexit(check_output);
    help_guess_begin(argc, argv);
    return help_run_word("kiln", commands, argc, argv);
}
