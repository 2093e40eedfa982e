// SPDX-License-Identifier: MIT OR Apache-2.0
// What a mistyped option was probably meant to be. argp says that it does not know the option and
// ends the process; this looks behind it, at the options of the command that was called.
#define _GNU_SOURCE // on_exit
#include "help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char **given; // the arguments, ended by NULL; commands put their names in there
static char called[2][64]; // "kiln run", "kiln plugin check": what they may name

static const char *option_name(size_t index, const void *user)
{
    const help_page *page = user;
    return index < page->n_options ? page->options[index].name : NULL;
}

/// As getopt: the beginning of a name is enough.
static bool is_option(const help_page *page, const char *word)
{
    static const char *const always[] = {"help", "usage", "version"};
    size_t length = strlen(word);
    for (size_t i = 0; i < page->n_options; i++) {
        if (strncmp(page->options[i].name, word, length) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        if (strncmp(always[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

static void guess_options(const help_page *page, void *unused)
{
    (void)unused;
    if (strcmp(page->command, called[0]) != 0 && strcmp(page->command, called[1]) != 0) {
        return;
    }
    for (char **word = given; *word != NULL && strcmp(*word, "--") != 0; word++) {
        char name[64], guess[CLI_GUESS_ROOM];
        if (strncmp(*word, "--", 2) != 0) {
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*word + 2, "="), *word + 2);
        if (!is_option(page, name) && *cli_guess(guess, name, option_name, page) != '\0') {
            fprintf(stderr, "%s: there is no option \"%s\"%s\n", page->command, name, guess);
        }
    }
}

static void look_behind(int status, void *unused)
{
    const help_writer writer = {.page = guess_options};
    kiln_error err = KILN_ERROR_INIT;
    (void)unused;
    if (status == CLI_USAGE && called[0][0] != '\0') {
        (void)help_walk_word(&writer, called[0] + strlen("kiln "), &err);
    }
}

void help_guess_begin(int argc, char **argv)
{
    enum { WORDS = 2 };
    given = argv + (argc > 0);
    for (int i = 0; i < WORDS && i + 1 < argc; i++) {
        const char *before = i == 0 ? "kiln" : called[0];
        snprintf(called[i], sizeof(called[i]), "%.20s %.40s", before, given[i]);
    }
    (void)on_exit(look_behind, NULL);
}
