// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CLI_PROGRESS_H
#define KILN_CLI_PROGRESS_H

/// A line on standard error that says what is under way, for who waits at a terminal. It appears
/// when something takes longer than a second, and goes when that ends. Elsewhere nothing is
/// written. One thread at a time.

#include <stdbool.h>

typedef struct cli_progress cli_progress;

/// `what` is borrowed until the next call. NULL where standard error is no terminal.
cli_progress *cli_progress_begin(const char *what);
/// What comes next.
void cli_progress_say(cli_progress *progress, const char *what);
/// Takes the line away before somebody else writes; the next cli_progress_say brings it back.
void cli_progress_clear(cli_progress *progress);
void cli_progress_end(cli_progress *progress);

/// Whether anybody would see a line.
bool cli_progress_is_seen(void);
/// How many kernels there may be to compile, 0: not known; and that another one is being compiled.
/// While a line is shown, it tells how far that is. Any thread.
void cli_progress_expect(unsigned kernels);
void cli_progress_compiling(void);

#endif
