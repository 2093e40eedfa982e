// SPDX-License-Identifier: MIT OR Apache-2.0
// Words with a function each, such as the commands of `kiln`: finds one and runs it, or tells all
// of them. Decides how users ask for help and for the version.

#include "help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(size_t index, const void *user)
{
    return ((const cli_command *)user)[index].name;
}

static const cli_command *find_word(const cli_command *words, const char *name)
{
    for (; words->name != NULL; words++) {
        if (strcmp(words->name, name) == 0) {
            return words;
        }
    }
    return NULL;
}

static void print_words(FILE *file, const char *program, const cli_command *words)
{
    bool all = strcmp(program, "kiln") == 0;
    const char *what = all ? "COMMAND" : "WORD";
    fprintf(file, "%s: %s %s [ARGUMENTS]\n\n", all ? "usage" : "Usage", program, what);
    for (const cli_command *w = words; w->name != NULL; w++) {
        fprintf(file, "  %s%-11s%s %s\n", cli_colour_of(file, CLI_BOLD), w->name,
                cli_colour_of(file, CLI_PLAIN), w->summary);
    }
    fprintf(file, "\n`%s help %s` or `%s %s --help` tells more", program, what, program, what);
    fprintf(file, all ? "; `kiln --version` the version.\n" : ".\n");
}

static int tell_unknown(const char *program, const cli_command *words, const char *name)
{
    char guess[CLI_GUESS_ROOM], text[400];
    cli_names names = {.text = text, .capacity = sizeof(text)};
    for (const cli_command *w = words; w->name != NULL; w++) {
        cli_names_add(&names, w->name);
    }
    cli_guess(guess, name, name_of, words);
    fprintf(stderr, "%s: there is no %s \"%.60s\"%s%s there are %s\n", program,
            strcmp(program, "kiln") == 0 ? "command" : "word", name, guess,
            guess[0] != '\0' ? "" : ";", cli_names_end(&names));
    return CLI_USAGE;
}

/// -h is --help, wherever it stands before "--" or the first word of another program's command.
static void spell_help(int argc, char **argv)
{
    static char help[] = "--help";
    for (int i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
        argv[i] = strcmp(argv[i], "-h") == 0 ? help : argv[i];
    }
    if (argc > 1 && strcmp(argv[argc - 1], "-h") == 0 && argv[1][0] != '-') {
        argv[argc - 1] = help; // `kiln run MODEL -h`
    }
}

static int run_word(const char *program, const cli_command *word, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof(name), "%s %s", program, word->name);
    argv[0] = name;
    spell_help(argc, argv);
    return word->run(argc, argv);
}

/// `kiln help`, or `kiln help WORD..`: that word's own help.
static int help_on(const char *program, const cli_command *words, int argc, char **argv)
{
    static char help[] = "--help";
    char *arguments[3] = {argv[0], help, NULL};
    if (argc < 2) {
        print_words(stdout, program, words);
        return CLI_OK;
    }
    const cli_command *word = find_word(words, argv[1]);
    if (word == NULL) {
        return tell_unknown(program, words, argv[1]);
    }
    if (argc > 2) { // a word's word
        arguments[1] = argv[2];
        arguments[2] = help;
    }
    return run_word(program, word, argc > 2 ? 3 : 2, arguments);
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

int help_run_word(const char *program, const cli_command *words, int argc, char **argv)
{
    if (help_describes_words(program, words)) {
        return CLI_OK;
    }
    if (argc < 2) {
        print_words(stderr, program, words);
        return CLI_USAGE;
    }
    if (is_one_of(argv[1], "--help", "-h") || strcmp(argv[1], "-?") == 0) {
        print_words(stdout, program, words);
        return CLI_OK;
    }
    if (strcmp(argv[1], "help") == 0) {
        return help_on(program, words, argc - 1, argv + 1);
    }
    if (is_one_of(argv[1], "--version", "-V")) {
        printf("kiln %s\n", kiln_version());
        return CLI_OK;
    }
    const cli_command *word = find_word(words, argv[1]);
    return word != NULL ? run_word(program, word, argc - 1, argv + 1)
                        : tell_unknown(program, words, argv[1]);
}
