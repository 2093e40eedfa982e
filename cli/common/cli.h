// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CLI_H
#define KILN_CLI_H

/// What the subcommands of `kiln` share: the options that open a device, and how errors are told.
/// Exit status: 0, 1 for a failed job, 2 for wrong usage. Results go to standard output; errors are
/// one line on standard error.

#include "ir_backend.h"
#include "kiln.h"

#include <argp.h>
#include <stdio.h>

typedef struct cli_command {
    const char *name;
    const char *summary; ///< one line for help
    int (*run)(int argc, char **argv);
} cli_command;

#define KILN_COMMAND(id, needs, name, summary) int cmd_##id(int argc, char **argv);
#include "commands.def"
#undef KILN_COMMAND
int cmd_cache_prepare(int argc, char **argv); ///< `kiln cache prepare`
int cmd_cache_builtin(int argc, char **argv); ///< `kiln cache prepare --builtin`
int cmd_tune_blas(int argc, char **argv); ///< `kiln tune blas`

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INCONCLUSIVE = 3 };

/// Names to choose the nearest from; NULL past the last.
typedef const char *(*cli_name_fn)(size_t index, const void *user);
/// "; did you mean \"relu\"?", or "" when nothing is near.
enum { CLI_GUESS_ROOM = 96 };
const char *cli_guess(char out_text[CLI_GUESS_ROOM], const char *name, cli_name_fn names,
                      const void *user);
/// As cli_name_fn, over an array of texts that NULL ends.
const char *cli_listed_name(size_t index, const void *list);

/// Whether every device records the operator as simpler ones, so that no fuser ever sees it.
bool cli_op_is_always_expanded(kiln_op op);
/// Writes the names of the operators that a composite is recorded as, each once; "" for an
/// operator that is no composite.
void cli_op_expansion(kiln_op op, char *out_text, size_t capacity);

enum { CLI_MAX_DEVICES = 16 };
/// The options --device, --device-facts, --no-fusion, --plugin, --tune, --check, --model-dtype and
/// --set; put cli_device_argp among an argp's children with a cli_device_options as its input.
typedef struct cli_device_options {
    const char *device; ///< NULL: as configured, or the first
    const char *more[CLI_MAX_DEVICES - 1]; ///< behind it
    size_t n_more;
    bool several; ///< the command takes more than one
    bool no_fusion;
    const char *tune; ///< NULL: as configured
    const char *tune_default; ///< when nobody configured it; NULL: its default
    const char *check; ///< NULL: as configured
    const char *model_dtype; ///< that models are kept in; NULL: as configured
    const char *facts; ///< a file, of the device to plan for; NULL: for the one that opens
    bool afresh; ///< forget the plugin failures that the cache remembers
    const char *plugins[16];
    size_t n_plugins;
    const char *settings[32]; ///< NAME=VALUE
    size_t n_settings;
} cli_device_options;

extern const struct argp cli_device_argp;

/// For the parser of a command that takes exactly one file: stores it in `*path`. `which` completes
/// the message "say ..." that is shown when there is none.
error_t cli_parse_file(int key, char *text, struct argp_state *state, const char *which,
                       const char **path);

/// Opens a context with the settings and plugins of the options. While it is open, a signal from
/// the user (such as Ctrl-C) ends the process without blaming the plugin that runs at that moment.
kiln_status cli_open_context(const cli_device_options *options, kiln_context **out_context,
                             kiln_error *err);
void cli_close_context(kiln_context *context);

/// What of this goes to the fusers; a build without operators has none (cli_fusers_none.c).
kiln_status cli_fusers_load(const cli_device_options *options, kiln_context *context,
                            kiln_error *err);
kiln_status cli_fusers_leave(kiln_device *device, kiln_error *err); ///< of --no-fusion
void cli_fusers_forgive(kiln_context *context); ///< in a signal's handler

/// From now on the line of progress tells of kernels that this context compiles, if anybody sees
/// it.
kiln_status cli_count_compiling(kiln_context *context, kiln_error *err);
kiln_status cli_open_device(const cli_device_options *options, kiln_context *context,
                            kiln_device **out_device, kiln_error *err);

/// All of them, each for the caller to release; after a failure those before it. `*inout_count` is
/// 0 at first.
kiln_status cli_open_devices(const cli_device_options *options, kiln_context *context,
                             kiln_device *out_devices[CLI_MAX_DEVICES], size_t *inout_count,
                             kiln_error *err);

/// Opens the backend of an OpenCL device, without a runtime above it; its `close` ends it, before
/// the context. Errors: of the device; INVALID_ARGUMENT for a device of another kind.
kiln_status cli_open_opencl(const cli_device_options *options, const kiln_env *env,
                            kiln_backend **out_backend, kiln_error *err);

/// A function of libkiln_remote, which is loaded for it. `out_function` points to a pointer to such
/// a function. Errors: NOT_FOUND without gRPC, FAILED_PRECONDITION.
kiln_status cli_remote_function(const char *name, void *out_function, kiln_error *err);

/// Whether the device is behind a server. Then the server plans, fuses and compiles, and this
/// process cannot show any of it.
bool cli_is_remote(const kiln_device *device);
/// Prints how many operations ran and, for a local device, in how many fused blocks.
void cli_print_fused(bool remote, uint64_t ops, uint64_t fused, uint64_t blocks);
/// Fails for a device behind a server; the message tells the user to run `command` on the server's
/// machine.
kiln_status cli_check_local(const kiln_device *device, const char *command, kiln_error *err);

/// Whether a file could be written, before anything is run for it; changes nothing. "-" can.
/// Errors: UNAVAILABLE.
kiln_status cli_check_output(const char *path, kiln_error *err);

/// Prints "kiln COMMAND: text" on standard error and returns the exit status.
int cli_fail(const char *command, const kiln_error *err);
int cli_usage(const char *command, const char *format, ...) KILN_PRINTF(2, 3);

/// Both change a text that came from a model, a plugin or a file name, in place. `cli_make_utf8` is
/// for JSON and XML: if the text is not UTF-8, its bytes beyond ASCII become question marks.
/// `cli_make_shown` is for a terminal: control characters become question marks.
void cli_make_utf8(char *text);
void cli_make_shown(char *text);

/// Builds the list "a, b and 3 more" for an error message, in the caller's buffer. Start with
/// `cli_names names = {.text = buffer, .capacity = sizeof(buffer)}`, add the names, then call
/// cli_names_end, which returns the text.
typedef struct cli_names {
    char *text;
    size_t capacity;
    size_t length;
    unsigned more; ///< names that did not fit
} cli_names;
void cli_names_add(cli_names *names, const char *name);
const char *cli_names_end(cli_names *names); ///< "none" for an empty list

typedef enum cli_colour { CLI_PLAIN, CLI_RED, CLI_GREEN, CLI_YELLOW, CLI_BOLD } cli_colour;
/// The terminal's sequence for a colour, CLI_PLAIN to end it; "" where the file is no terminal, and
/// where NO_COLOR is set (https://no-color.org) or TERM is dumb.
const char *cli_colour_of(FILE *file, cli_colour colour);

/// "1.23 ms", "4.5 MiB": written into a buffer of the caller.
const char *cli_format_ns(char out_text[32], double ns);
const char *cli_format_bytes(char out_text[32], double bytes);
/// "[0,3]": the position of an element of a dense array. Any rank; a long text is cut.
enum { CLI_INDEX_ROOM = 64 };
const char *cli_format_index(char out_text[CLI_INDEX_ROOM], size_t rank, const int64_t *dims,
                             size_t element);

#endif
