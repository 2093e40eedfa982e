// SPDX-License-Identifier: MIT OR Apache-2.0
// Scripts that complete `kiln`: a head and an end for each shell, and between them a line or two
// for each command. A command's place is written "run" or "plugin/list".

#include "help.h"

#include <stdio.h>
#include <string.h>

static void put_place(const char *command)
{
    const char *place = strchr(command, ' ');
    for (place = place != NULL ? place + 1 : ""; *place != '\0'; place++) {
        putchar(*place == ' ' ? '/' : *place);
    }
}

/// Text between single quotes, as all three shells read it; a colon ends a name for zsh.
static void put_quoted(const char *text, bool colons)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else if (*text == ':' && colons) {
            fputs("\\:", stdout);
        } else {
            putchar(*text == '\n' ? ' ' : *text);
        }
    }
}

/// The words in lower case that a command's arguments may be, as in "stat|clear"; places in upper
/// case are files. Calls `put` with each.
static void for_each_choice(const help_page *page,
                            void (*put)(const char *command, const char *choice))
{
    for (const char *at = page->arguments != NULL ? page->arguments : ""; *at != '\0';) {
        char word[32];
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        if (length > 0 && length < sizeof(word)) {
            snprintf(word, sizeof(word), "%.*s", (int)length, at);
            put(page->command, word);
        }
        at += length > 0 ? length : 1;
    }
}

// ---- bash ----

static void put_bash_word(const char *unused, const char *word)
{
    (void)unused;
    printf("%s ", word);
}

static void bash_page(const help_page *page, void *unused)
{
    (void)unused;
    printf("_kiln_options[");
    put_place(page->command);
    printf("]='");
    for (size_t i = 0; i < page->n_options; i++) {
        const help_option *option = &page->options[i];
        printf("--%s%s ", option->name, option->argument != NULL && !option->may_lack ? "=" : "");
    }
    printf("'\n_kiln_words[");
    put_place(page->command);
    printf("]='");
    for_each_choice(page, put_bash_word);
    printf("'\n");
}

static void bash_words(const char *command, const char *summary, const cli_command *words,
                       void *unused)
{
    (void)unused;
    (void)summary;
    const char *place = strchr(command, ' ') != NULL ? "" : "/";
    printf("_kiln_options[%s", place);
    put_place(command);
    printf("]='--help --version'\n_kiln_words[%s", place);
    put_place(command);
    printf("]='");
    for (; words->name != NULL; words++) {
        put_bash_word(command, words->name);
    }
    printf("'\n");
}

static const char bash_head[] = "# Made by `kiln completion bash`.\n"
                                "declare -gA _kiln_options=() _kiln_words=()\n";
static const char bash_end[] =
    "_kiln()\n{\n"
    "    local place=/ part word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    for part in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
    "        [[ $place == / ]] || part=$place/$part\n"
    "        [[ -n ${_kiln_options[$part]+x} ]] || break\n"
    "        place=$part\n"
    "    done\n"
    "    COMPREPLY=()\n"
    "    if [[ $word == = || $before == = ]]; then\n"
    "        return\n"
    "    elif [[ $word == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"${_kiln_options[$place]}\" -- \"$word\"))\n"
    "        [[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>/dev/null\n"
    "    else\n"
    "        COMPREPLY=($(compgen -W \"${_kiln_words[$place]}\" -- \"$word\"))\n"
    "    fi\n"
    "}\n"
    "complete -o default -F _kiln kiln\n";

// ---- zsh ----

static void put_zsh_word(const char *unused, const char *word)
{
    (void)unused;
    printf("%s\n", word);
}

static void zsh_page(const help_page *page, void *unused)
{
    (void)unused;
    printf("_kiln_options[");
    put_place(page->command);
    printf("]='");
    for (size_t i = 0; i < page->n_options; i++) {
        const help_option *option = &page->options[i];
        printf("--%s%s:", option->name, option->argument != NULL && !option->may_lack ? "=" : "");
        put_quoted(option->doc, true);
        putchar('\n');
    }
    printf("'\n_kiln_words[");
    put_place(page->command);
    printf("]='");
    for_each_choice(page, put_zsh_word);
    printf("'\n");
}

static void zsh_words(const char *command, const char *summary, const cli_command *words,
                      void *unused)
{
    (void)unused;
    (void)summary;
    const char *place = strchr(command, ' ') != NULL ? "" : "/";
    printf("_kiln_options[%s", place);
    put_place(command);
    printf("]='--help:give help\n--version:print the version\n'\n_kiln_words[%s", place);
    put_place(command);
    printf("]='");
    for (; words->name != NULL; words++) {
        printf("%s:", words->name);
        put_quoted(words->summary, true);
        putchar('\n');
    }
    printf("'\n");
}

static const char zsh_head[] = "#compdef kiln\n# Made by `kiln completion zsh`.\n"
                               "typeset -gA _kiln_options _kiln_words\n";
static const char zsh_end[] = "_kiln()\n{\n"
                              "    local place=/ part\n"
                              "    local -a rows\n"
                              "    for part in ${words[2,CURRENT-1]}; do\n"
                              "        [[ $place == / ]] || part=$place/$part\n"
                              "        (( ${+_kiln_options[$part]} )) || break\n"
                              "        place=$part\n"
                              "    done\n"
                              "    if [[ ${words[CURRENT]} == -*=* ]]; then\n"
                              "        compset -P '*='\n"
                              "        _files\n"
                              "    elif [[ ${words[CURRENT]} == -* ]]; then\n"
                              "        rows=(${(f)_kiln_options[$place]})\n"
                              "        _describe -o option rows -S ''\n"
                              "    elif [[ -n ${_kiln_words[$place]} ]]; then\n"
                              "        rows=(${(f)_kiln_words[$place]})\n"
                              "        _describe word rows\n"
                              "    else\n"
                              "        _files\n"
                              "    fi\n"
                              "}\n"
                              "_kiln \"$@\"\n";

// ---- fish ----

static void put_fish_word(const char *command, const char *word)
{
    printf("complete -c kiln -f -n '__kiln_at ");
    put_place(command);
    printf("' -a %s\n", word);
}

static void fish_page(const help_page *page, void *unused)
{
    (void)unused;
    for (size_t i = 0; i < page->n_options; i++) {
        const help_option *option = &page->options[i];
        printf("complete -c kiln -n '__kiln_below ");
        put_place(page->command);
        printf("' -l %s", option->name);
        if (option->letter != '\0' && option->letter != '?') {
            printf(" -s %c", option->letter);
        }
        printf("%s -d '", option->argument != NULL && !option->may_lack ? " -r" : "");
        put_quoted(option->doc, false);
        printf("'\n");
    }
    for_each_choice(page, put_fish_word);
}

static void fish_words(const char *command, const char *summary, const cli_command *words,
                       void *unused)
{
    (void)unused;
    (void)summary;
    for (; words->name != NULL; words++) {
        printf("complete -c kiln -f -n '__kiln_at ");
        put_place(command);
        printf("' -a %s -d '", words->name);
        put_quoted(words->summary, false);
        printf("'\n");
    }
}

static const char fish_head[] = "# Made by `kiln completion fish`.\n"
                                "function __kiln_at\n"
                                "    set -l given (commandline -opc)\n"
                                "    set -l place (string join / -- $given[2..-1])\n"
                                "    test \"$place\" = \"$argv[1]\"\n"
                                "end\n"
                                "function __kiln_below\n"
                                "    set -l given (commandline -opc)\n"
                                "    set -l place (string join / -- $given[2..-1])\n"
                                "    string match -q -- \"$argv[1]/*\" \"$place/\"\n"
                                "end\n";

// ---- all of them ----

static const struct {
    const char *name;
    const char *head;
    help_writer writer;
    const char *end;
} shells[] = {
    {"bash", bash_head, {bash_page, bash_words, NULL}, bash_end},
    {"zsh", zsh_head, {zsh_page, zsh_words, NULL}, zsh_end},
    {"fish", fish_head, {fish_page, fish_words, NULL}, ""},
};
enum { N_SHELLS = sizeof(shells) / sizeof(shells[0]) };

const char *help_shell(size_t index, const void *unused)
{
    (void)unused;
    return index < N_SHELLS ? shells[index].name : NULL;
}

kiln_status help_print_completion(const char *shell, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < N_SHELLS; i++) {
        if (strcmp(shells[i].name, shell) == 0) {
            fputs(shells[i].head, stdout);
            status = help_walk(&shells[i].writer, err);
            fputs(shells[i].end, stdout);
        }
    }
    return status;
}
