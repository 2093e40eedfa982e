// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CLI_H
#define KILN_CLI_H

/// What the subcommands of `kiln` share: the options that open a device, and how errors are told.
/// Exit status: 0, 1 for a failed job, 2 for wrong usage. Results go to standard output; errors are
/// one line on standard error.

#include "kiln.h"

#include <argp.h>

typedef struct cli_command {
    const char *name;
    const char *summary; ///< one line for help
    int (*run)(int argc, char **argv);
} cli_command;

#define KILN_COMMAND(id, needs, name, summary) int cmd_##id(int argc, char **argv);
#include "commands.def"
#undef KILN_COMMAND
int cmd_cache_prepare(int argc, char **argv); ///< `kiln cache prepare`

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/// Is the operator recorded as simpler ones on every device, so that no fuser ever sees it?
bool cli_op_is_always_expanded(kiln_op op);
/// The names of the operators that a composite is recorded as, each once; "" of any other.
void cli_op_expansion(kiln_op op, char *out_text, size_t capacity);

/// The options --device, --no-fusion, --plugin, --tune, --check and --set; put cli_device_argp
/// among an argp's children with a cli_device_options as its input.
typedef struct cli_device_options {
    const char *device; ///< NULL: as configured, or the first
    bool no_fusion;
    const char *tune; ///< NULL: as configured
    const char *tune_default; ///< when nobody configured it; NULL: its default
    const char *check; ///< NULL: as configured
    bool afresh; ///< failures of plugins that the cache remembers do not count
    const char *plugins[16];
    size_t n_plugins;
    const char *settings[32]; ///< NAME=VALUE
    size_t n_settings;
} cli_device_options;

extern const struct argp cli_device_argp;

/// For an argp parser: takes one file into `*path` and wants one; `which` goes on "say ".
error_t cli_parse_file(int key, char *text, struct argp_state *state, const char *which,
                       const char **path);

/// A context with the settings and plugins of the options, and no blame for plugins where a signal
/// of the user ends the process while it is open; and the device that they name.
kiln_status cli_open_context(const cli_device_options *options, kiln_context **out_context,
                             kiln_error *err);
void cli_close_context(kiln_context *context);
kiln_status cli_open_device(const cli_device_options *options, kiln_context *context,
                            kiln_device **out_device, kiln_error *err);

/// Of a device behind a server: that plans, fuses and compiles, and here is nothing of it to see.
bool cli_is_remote(const kiln_device *device);
/// Prints how many operations ran, and in how many blocks where that is not the server's to say.
void cli_print_fused(bool remote, uint64_t ops, uint64_t fused, uint64_t blocks);
/// Fails there. `command` is what to run on the server's machine instead.
kiln_status cli_check_local(const kiln_device *device, const char *command, kiln_error *err);

/// Prints "kiln COMMAND: text" on standard error and gives the exit status that fits.
int cli_fail(const char *command, const kiln_error *err);
int cli_usage(const char *command, const char *format, ...) KILN_PRINTF(2, 3);

/// In place. What a model, a plugin or a file's name holds, for JSON and XML: where it is not
/// UTF-8, bytes beyond ASCII become question marks. For a terminal: control characters do.
void cli_make_utf8(char *text);
void cli_make_shown(char *text);

/// A list of names for an error's line, "a, b and 3 more", in a buffer of the caller's:
/// `cli_names names = {.text = buffer, .capacity = sizeof(buffer)}`, names added, and the end.
typedef struct cli_names {
    char *text;
    size_t capacity;
    size_t length;
    unsigned more; ///< that there is no room for
} cli_names;
void cli_names_add(cli_names *names, const char *name);
const char *cli_names_end(cli_names *names); ///< "none" of no names

/// "1.23 ms", "4.5 MiB": written into a buffer of the caller.
const char *cli_format_ns(char out_text[32], double ns);
const char *cli_format_bytes(char out_text[32], double bytes);
/// "[0,3]": where in a shape the element of a dense array lies. Of any rank; a long one is cut.
enum { CLI_INDEX_ROOM = 64 };
const char *cli_format_index(char out_text[CLI_INDEX_ROOM], size_t rank, const int64_t *dims,
                             size_t element);

#endif
