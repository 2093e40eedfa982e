// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln man [COMMAND..]`: a manual page, made from the table that the command
// parses with. How pages look is help_pages.c's.

#include "help.h"

#include <stdio.h>
#include <string.h>

typedef struct man_options {
    char command[64]; ///< "kiln", "kiln plugin list"
    const char *folder; ///< of all pages; NULL: one page, to standard output
} man_options;

static const struct argp_option man_options_table[] = {
    {"folder", 'f', "FOLDER", 0, "write every page into a folder, as kiln-COMMAND.1", 0},
    {0},
};

static error_t parse_man_option(int key, char *text, struct argp_state *state)
{
    man_options *options = state->input;
    size_t length = strlen(options->command);
    switch (key) {
    case 'f':
        options->folder = text;
        return 0;
    case ARGP_KEY_ARG:
        snprintf(options->command + length, sizeof(options->command) - length, " %s", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_man(int argc, char **argv)
{
    static const struct argp argp = {man_options_table,
                                     parse_man_option,
                                     "[COMMAND [WORD]]",
                                     "Prints a manual page: kiln man run | man -l -",
                                     NULL,
                                     NULL,
                                     NULL};
    man_options options = {.command = "kiln"};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = options.folder != NULL ? help_write_pages(options.folder, &err)
                                                : help_print_page(options.command, &err);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("man", &err);
}
