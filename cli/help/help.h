// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_HELP_H
#define KILN_HELP_H

/// Manual pages and completion, made from the argp tables that the commands parse with: no option
/// is written down twice. A command is asked for its table by running it with --version in a child
/// process; argp then calls a hook that sees the table.

#include "cli.h"

/// Finds the word argv[1] among `words`, which a row of NULLs ends, and runs its function with
/// "PROGRAM WORD" as its name. Serves help, -h, --help, -V and --version itself; for a word that is
/// not there, lists the words and says which one was probably meant. The exit status.
int help_run_word(const char *program, const cli_command *words, int argc, char **argv);

/// One option as a table has it.
typedef struct help_option {
    const char *name; ///< long name; NULL: none
    char letter; ///< '\0': none
    const char *argument; ///< NULL: none
    bool may_lack; ///< the argument is optional
    const char *doc;
} help_option;

enum { HELP_MOST_OPTIONS = 64 };

/// What a command's table says.
typedef struct help_page {
    const char *command; ///< "kiln run"
    const char *summary;
    const char *arguments; ///< argp's args_doc; NULL: none
    const char *before; ///< text before the options
    const char *after; ///< and behind them
    help_option options[HELP_MOST_OPTIONS]; ///< by name
    size_t n_options;
} help_page;

/// Called in a child process, once for each command or word.
typedef struct help_writer {
    void (*page)(const help_page *page, void *user);
    /// A command that has words: `words` ends with a row of NULLs. Its words' pages follow.
    void (*words)(const char *command, const char *summary, const cli_command *words, void *user);
    void *user;
} help_writer;

/// Walks through all commands. `user` is each child's copy. Errors: UNAVAILABLE without processes,
/// INTERNAL for a command that does not parse by argp.
kiln_status help_walk(const help_writer *writer, kiln_error *err);
/// The same for one command and its words; nothing where there is no such command.
kiln_status help_walk_word(const help_writer *writer, const char *word, kiln_error *err);
/// Whether this process describes commands; then it has described the words of `program` too.
bool help_describes_words(const char *program, const cli_command *words);
/// First of all: what all commands of `kiln` are, behind which a row of NULLs stands. Makes
/// --version of each command print Kiln's.
void help_begin(const cli_command *commands);

/// From now on a process that ends for wrong usage says which option a mistyped one was probably
/// meant to be. `argv` stays as long as the process.
void help_guess_begin(int argc, char **argv);

/// Every page of `kiln` into FOLDER/kiln-COMMAND.1, or the one of `command` to standard output.
kiln_status help_write_pages(const char *folder, kiln_error *err);
kiln_status help_print_page(const char *command, kiln_error *err);

/// As cli_name_fn, over the commands of `kiln`.
const char *help_command(size_t index, const void *unused);

/// The script that completes `kiln` in a shell: bash, zsh or fish.
kiln_status help_print_completion(const char *shell, kiln_error *err);
const char *help_shell(size_t index, const void *unused); ///< as cli_name_fn

#endif
