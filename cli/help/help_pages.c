// SPDX-License-Identifier: MIT OR Apache-2.0
// Manual pages in man(7)'s language: one for `kiln`, one for each command and each of its
// words. Decides which sections a page has.

#include "help.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct pages {
    const char *folder; ///< NULL: standard output, and only the page of `only`
    const char *only;
    bool *found; ///< set when `only` was written
} pages;

/// Text that roff takes for nothing else: no requests, no hyphens that cannot be searched for.
static void put_text(FILE *file, const char *text)
{
    bool begins = true;
    for (; *text != '\0'; text++) {
        if (begins && (*text == '.' || *text == '\'')) {
            fputs("\\&", file);
        }
        begins = *text == '\n';
        if (*text == '-' || *text == '\\') {
            fputs(*text == '-' ? "\\-" : "\\e", file);
        } else {
            fputc(*text, file);
        }
    }
}

/// Lines that stay as they are: what stands behind the options is a list.
static void put_lines(FILE *file, const char *text)
{
    fprintf(file, ".nf\n");
    put_text(file, text);
    fprintf(file, "\n.fi\n");
}

static void put_option(FILE *file, const help_option *option)
{
    fprintf(file, ".TP\n");
    if (option->letter != '\0') {
        fprintf(file, "\\fB\\-%c\\fR, ", option->letter);
    }
    fprintf(file, "\\fB\\-\\-");
    put_text(file, option->name);
    fprintf(file, "\\fR");
    if (option->argument != NULL) {
        fprintf(file, "%s=\\fI", option->may_lack ? "[" : "");
        put_text(file, option->argument);
        fprintf(file, "\\fR%s", option->may_lack ? "]" : "");
    }
    fputc('\n', file);
    put_text(file, option->doc);
    fputc('\n', file);
}

static void put_head(FILE *file, const char *command, const char *summary)
{
    char title[64];
    snprintf(title, sizeof(title), "%s", command);
    for (char *c = title; *c != '\0'; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
    fprintf(file, ".\\\" Made by `kiln man`.\n.TH ");
    for (const char *c = title; *c != '\0'; c++) {
        fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, file);
    }
    fprintf(file, " 1 \"\" \"kiln %s\" \"Kiln\"\n.SH NAME\n", kiln_version());
    put_text(file, title);
    fprintf(file, " \\- ");
    put_text(file, summary);
    fprintf(file, "\n.SH SYNOPSIS\n");
}

static void put_end(FILE *file)
{
    fprintf(file, ".SH EXIT STATUS\n0, 1 for a failed job, 2 for wrong usage.\n"
                  ".SH SEE ALSO\n.BR kiln (1)\n");
}

static FILE *open_page(const pages *all, const char *command)
{
    char path[4096];
    if (all->folder == NULL) {
        bool same = strcmp(all->only, command) == 0;
        *all->found = *all->found || same;
        return same ? stdout : NULL;
    }
    int used = snprintf(path, sizeof(path), "%s/", all->folder);
    snprintf(path + used, sizeof(path) - (size_t)used, "%s.1", command);
    for (char *c = path + used; *c != '\0'; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "kiln man: %s: %s\n", path, strerror(errno));
        exit(CLI_FAILED);
    }
    return file;
}

static void close_page(FILE *file)
{
    if (file != stdout && (ferror(file) != 0 || fclose(file) != 0)) {
        fprintf(stderr, "kiln man: a page cannot be written: %s\n", strerror(errno));
        exit(CLI_FAILED);
    }
}

/// A line for each form that argp's args_doc has.
static void put_forms(FILE *file, const help_page *page)
{
    const char *form = page->arguments != NULL ? page->arguments : "";
    for (bool more = true; more;) {
        size_t length = strcspn(form, "\n");
        char one[256];
        snprintf(one, sizeof(one), "%.*s", (int)length, form);
        fprintf(file, ".B ");
        put_text(file, page->command);
        fprintf(file, "\n[\\fIOPTION\\fR...] ");
        put_text(file, one);
        more = form[length] != '\0';
        fprintf(file, more ? "\n.br\n" : "\n");
        form += length + more;
    }
}

static void write_page(const help_page *page, void *user)
{
    FILE *file = open_page(user, page->command);
    if (file == NULL) {
        return;
    }
    put_head(file, page->command, page->summary);
    put_forms(file, page);
    fprintf(file, ".SH DESCRIPTION\n");
    put_text(file, page->before);
    fprintf(file, "\n.SH OPTIONS\n");
    for (size_t i = 0; i < page->n_options; i++) {
        put_option(file, &page->options[i]);
    }
    if (page->after[0] != '\0') {
        fprintf(file, ".SH NOTES\n");
        put_lines(file, page->after);
    }
    put_end(file);
    close_page(file);
}

static void write_words(const char *command, const char *summary, const cli_command *words,
                        void *user)
{
    FILE *file = open_page(user, command);
    if (file == NULL) {
        return;
    }
    bool all = strcmp(command, "kiln") == 0;
    put_head(file, command, summary);
    fprintf(file, ".B %s\n\\fI%s\\fR [\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n", command,
            all ? "COMMAND" : "WORD");
    for (; words->name != NULL; words++) {
        fprintf(file, ".TP\n.B ");
        put_text(file, words->name);
        fputc('\n', file);
        put_text(file, words->summary);
        fputc('\n', file);
    }
    if (all) {
        fprintf(file, ".SH ENVIRONMENT\n");
        for (int option = 0; option < KILN_OPTION_COUNT; option++) {
            fprintf(file, ".TP\n.B ");
            put_text(file, kiln_option_environment((kiln_option)option));
            fputc('\n', file);
            put_text(file, kiln_option_help((kiln_option)option));
            fputc('\n', file);
        }
    }
    put_end(file);
    close_page(file);
}

kiln_status help_write_pages(const char *folder, kiln_error *err)
{
    pages all = {.folder = folder};
    const help_writer writer = {write_page, write_words, &all};
    return help_walk(&writer, err);
}

kiln_status help_print_page(const char *command, kiln_error *err)
{
    // The children write; that one of them did is known here only by memory that they share.
    bool *found =
        mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a page");
    }
    pages all = {.only = command, .found = found};
    const help_writer writer = {write_page, write_words, &all};
    kiln_status status = help_walk(&writer, err);
    if (status == KILN_STATUS_OK && !*found) {
        char guess[CLI_GUESS_ROOM];
        const char *word = strchr(command, ' ');
        cli_guess(guess, word != NULL ? word + 1 : command, help_command, NULL);
        status = kiln_fail(err, NOT_FOUND, "there is no command `%s`%s%s `kiln help` lists them",
                           command, guess, guess[0] != '\0' ? "" : ";");
    }
    (void)munmap(found, sizeof(*found));
    return status;
}
