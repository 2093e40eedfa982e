// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln completion SHELL`: the script that completes commands and options of `kiln`, made from the
// tables that the commands parse with.

#include "help.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct completion_options {
    const char *shell;
    const char *output; ///< NULL: standard output
} completion_options;

static const struct argp_option completion_options_table[] = {
    {"output", 'o', "FILE", 0, "write the script to a file", 0},
    {0},
};

static error_t parse_completion(int key, char *text, struct argp_state *state)
{
    completion_options *options = state->input;
    const char **shell = &options->shell;
    switch (key) {
    case 'o':
        options->output = text;
        return 0;
    case ARGP_KEY_ARG:
        if (*shell != NULL) {
            argp_error(state, "one shell");
        }
        *shell = text;
        return 0;
    case ARGP_KEY_END:
        if (*shell == NULL) {
            argp_error(state, "say which shell: bash, zsh or fish");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_completion(int argc, char **argv)
{
    static const struct argp argp = {
        completion_options_table,
        parse_completion,
        "bash|zsh|fish",
        "Prints the script that completes `kiln` in a shell. An installed Kiln has these scripts "
        "in "
        "place already; else:\v"
        "bash: source <(kiln completion bash), in ~/.bashrc\n"
        "zsh:  kiln completion zsh >FOLDER/_kiln, in a folder of $fpath\n"
        "fish: kiln completion fish >~/.config/fish/completions/kiln.fish",
        NULL,
        NULL,
        NULL};
    completion_options options = {0};
    char guess[CLI_GUESS_ROOM];
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    size_t i = 0;
    while (help_shell(i, NULL) != NULL && strcmp(help_shell(i, NULL), options.shell) != 0) {
        i++;
    }
    if (help_shell(i, NULL) == NULL) {
        cli_guess(guess, options.shell, help_shell, NULL);
        return cli_usage("completion",
                         "no script for the shell \"%.40s\"%s bash, zsh and fish have one",
                         options.shell, guess[0] != '\0' ? guess : ";");
    }
    kiln_error err = KILN_ERROR_INIT;
    if (options.output != NULL && freopen(options.output, "w", stdout) == NULL) {
        (void)kiln_fail(&err, UNAVAILABLE, "%s: %s", options.output, strerror(errno));
        return cli_fail("completion", &err);
    }
    return help_print_completion(options.shell, &err) == KILN_STATUS_OK
               ? CLI_OK
               : cli_fail("completion", &err);
}
