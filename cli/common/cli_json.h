// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CLI_JSON_H
#define KILN_CLI_JSON_H

/// The option --json, which means the same everywhere: the command's result as JSON instead of
/// text, on standard output; with --json=FILE, in a file. Put cli_json_argp among an argp's
/// children with a cli_json_options as its input.

#include "cli.h"

#include <jansson.h>

typedef struct cli_json_options {
    bool wanted;
    const char *path; ///< NULL or "-": standard output
} cli_json_options;

extern const struct argp cli_json_argp;

/// Whether JSON goes to standard output, so that no text may.
bool cli_json_is_shown(const cli_json_options *options);
/// Writes a value, NULL when there was no memory for it. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE.
kiln_status cli_json_write(const cli_json_options *options, json_t *take_value, kiln_error *err);
/// A string; bytes that are no UTF-8 become question marks. null for NULL.
json_t *cli_json_text(const char *text);
/// A number; null for one that is not finite or not above 0, as for figures that are not known.
json_t *cli_json_figure(double value);

#endif
