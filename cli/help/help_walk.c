// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks the commands for their argp tables. Each runs in a child process with --version: argp calls
// argp_program_version_hook with the state of the parser, which knows the table of the command, and
// ends the process. Decides which rows are told; how they look is the writers' affair.

#include "help.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const cli_command *all_commands;
static const help_writer *describing; // in the children alone
static const cli_command *described;
static bool failed;

static int by_name(const void *a, const void *b)
{
    const help_option *x = a, *y = b;
    return strcmp(x->name != NULL ? x->name : "", y->name != NULL ? y->name : "");
}

/// Rows that a user may type, of a table and of those below it. A name that two tables have is told
/// once: the first parser gets it.
static void collect_options(const struct argp *argp, help_page *page)
{
    for (const struct argp_option *row = argp->options;
         row != NULL && (row->name != NULL || row->key != 0 || row->doc != NULL); row++) {
        if ((row->flags & (OPTION_HIDDEN | OPTION_DOC)) != 0 || row->name == NULL ||
            page->n_options == HELP_MOST_OPTIONS) {
            continue;
        }
        bool letter = row->key > ' ' && row->key < 0x7f;
        page->options[page->n_options++] = (help_option){
            .name = row->name,
            .letter = letter ? (char)row->key : '\0',
            .argument = row->arg,
            .may_lack = (row->flags & OPTION_ARG_OPTIONAL) != 0,
            .doc = row->doc != NULL ? row->doc : "",
        };
    }
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL;
         child++) {
        collect_options(child->argp, page);
    }
}

/// argp's doc is cut by \v: what comes before the options, and what behind them. The root has the
/// command's own table as its first child, behind it argp's for help and version.
static void fill_page(const struct argp *root, help_page *page)
{
    const struct argp *own = root->children != NULL ? root->children[0].argp : root;
    const char *doc = own->doc != NULL ? own->doc : "";
    size_t before = strcspn(doc, "\v");
    page->arguments = own->args_doc;
    page->before = strndup(doc, before);
    page->after = doc[before] != '\0' ? doc + before + 1 : "";
    if (own->help_filter != NULL) {
        page->after = own->help_filter(ARGP_KEY_HELP_POST_DOC, page->after, NULL);
    }
    collect_options(root, page);
    qsort(page->options, page->n_options, sizeof(*page->options), by_name);
}

static void tell_version(FILE *file, struct argp_state *state)
{
    if (describing == NULL) {
        fprintf(file, "kiln %s\n", kiln_version());
        return;
    }
    help_page page = {.command = state->name, .summary = described->summary};
    fill_page(state->root_argp, &page);
    describing->page(&page, describing->user);
    free((void *)page.before);
    failed = false;
}

void help_begin(const cli_command *commands)
{
    all_commands = commands;
    argp_program_version_hook = tell_version;
}

/// The child's end: `run` comes back only from a command that has words, or no table.
static void describe_in_child(const cli_command *word, char *name)
{
    static char version[] = "--version";
    char *arguments[] = {name, version, NULL};
    described = word;
    int code = word->run(2, arguments);
    exit(failed ? CLI_FAILED : code); // with what standard output holds
}

static kiln_status describe(const help_writer *writer, const char *program, const cli_command *word,
                            kiln_error *err)
{
    char name[64];
    int result = 0;
    snprintf(name, sizeof(name), "%s %s", program, word->name);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        return kiln_fail(err, UNAVAILABLE, "no process for `%s`: %s", name, strerror(errno));
    }
    if (child == 0) {
        describing = writer;
        failed = true;
        describe_in_child(word, name);
    }
    if (waitpid(child, &result, 0) != child || result != 0) {
        return kiln_fail(err, INTERNAL, "`%s` did not tell its options", name);
    }
    return KILN_STATUS_OK;
}

static kiln_status describe_all(const help_writer *writer, const char *program,
                                const cli_command *words, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (writer->words != NULL) {
        const char *summary =
            described != NULL ? described->summary : "a tensor runtime for OpenCL";
        writer->words(program, summary, words, writer->user);
    }
    for (; words->name != NULL && status == KILN_STATUS_OK; words++) {
        status = describe(writer, program, words, err);
    }
    return status;
}

bool help_describes_words(const char *program, const cli_command *words)
{
    if (describing == NULL) {
        return false;
    }
    kiln_error err = KILN_ERROR_INIT;
    failed = describe_all(describing, program, words, &err) != KILN_STATUS_OK;
    return true;
}

kiln_status help_walk_word(const help_writer *writer, const char *word, kiln_error *err)
{
    for (const cli_command *c = all_commands; c->name != NULL; c++) {
        if (strcmp(c->name, word) == 0) {
            return describe(writer, "kiln", c, err);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status help_walk(const help_writer *writer, kiln_error *err)
{
    return describe_all(writer, "kiln", all_commands, err);
}

const char *help_command(size_t index, const void *unused)
{
    (void)unused;
    return all_commands[index].name;
}
