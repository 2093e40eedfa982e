// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_BASE_INTERNAL_H
#define KILN_BASE_BASE_INTERNAL_H

/// What the files of base/ share with each other and with nobody else.

#include "base.h"

/// Copies `text` into `out` as one terminated line of UTF-8: control characters become blanks,
/// bytes that are no UTF-8 become '?', and what does not fit is cut between two characters.
/// Returns the length.
size_t kilni_base_one_line(char *out, size_t capacity, const char *text);

/// True for a well-formed value of the LOG option; `out_most` gets the most talkative level in it.
bool kilni_base_log_parse(const char *text, kiln_log_level *out_most);

/// The level of one module in that text: its own item, else the item without a module, else warn.
/// Errors: -1 for an item without a level.
int kilni_base_log_level_of(const char *text, const char *module);

/// The most talkative level that any module has, so that a silent message costs one comparison. Not
/// while a thread sets the environment.
kiln_log_level kilni_base_config_log_most(const kiln_config *config);

/// getenv that sees nothing in a process with elevated privilege. It lives until the environment
/// changes. Not while a thread sets the environment. Errors: NULL.
const char *kilni_base_getenv(const char *name);

#endif
