// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ENV_H
#define KILN_ENV_H

/// What a program hands to Kiln: an allocator, a log, a configuration.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; texts that it returns live as long as the configuration, or are in static storage; it can
/// fail with RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a function
/// without a status then does nothing and gives 0.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kiln_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Memory for everything that Kiln allocates on the host. `alloc` returns NULL when there is none;
/// alignment is a power of two up to 4096. `free` takes NULL. Both may be called from any thread.
typedef struct kiln_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *pointer);
    void *user;
} kiln_allocator;

typedef enum kiln_log_level {
    KILN_LOG_ERROR = 0,
    KILN_LOG_WARN = 1,
    KILN_LOG_INFO = 2,
    KILN_LOG_DEBUG = 3,
    KILN_LOG_TRACE = 4
} kiln_log_level;

typedef struct kiln_log_record {
    uint32_t struct_size;
    kiln_log_level level;
    const char *module; ///< folder name, such as "cl_backend"
    const char *message; ///< one line, valid during the call
} kiln_log_record;

/// Receives what the library has to say, on any thread, possibly from several at once.
typedef void (*kiln_log_fn)(const kiln_log_record *record, void *user);

typedef enum kiln_option {
#define KILN_OPTION(id, name, type, default_value, env, help) KILN_OPTION_##id,
#include "config.def"
#undef KILN_OPTION
    KILN_OPTION_COUNT
} kiln_option;

typedef enum kiln_origin { ///< where an option's value came from; a larger one wins
    KILN_ORIGIN_DEFAULT = 0,
    KILN_ORIGIN_FILE = 1,
    KILN_ORIGIN_ENVIRONMENT = 2,
    KILN_ORIGIN_FLAG = 3
} kiln_origin;

typedef struct kiln_config kiln_config;

/// What a context hands to every module: borrowed by all of them, alive longer than all of them.
typedef struct kiln_env {
    kiln_allocator allocator;
    kiln_log_fn log; ///< NULL: silence
    void *log_user;
    kiln_config *config;
} kiln_env;

/// The C library's allocator.
KILN_API kiln_allocator kiln_allocator_default(void);

/// Makes a configuration: defaults, then the file `path` when not NULL (lines `name = value`, #
/// comments), then the environment when `use_environment` (ignored under elevated privilege).
/// `*out_config` is the caller's (kiln_config_destroy). Errors: also NOT_FOUND, for the file, and
/// INVALID_ARGUMENT with the line.
KILN_NODISCARD KILN_API kiln_status kiln_config_create(const kiln_allocator *allocator,
                                                       const char *path, bool use_environment,
                                                       kiln_config **out_config, kiln_error *err);

/// Frees a configuration. Takes NULL.
KILN_API void kiln_config_destroy(kiln_config *config);

/// Sets an option by name, as a flag does. An origin below the present one is ignored. The text is
/// copied. Not while another thread reads the configuration. Errors: also NOT_FOUND and
/// INVALID_ARGUMENT, with the names or values that there are.
KILN_NODISCARD KILN_API kiln_status kiln_config_set(kiln_config *config, const char *name,
                                                    const char *value, kiln_origin origin,
                                                    kiln_error *err);

/// The value of an option as text. Of NULL: its default, as in the three functions below.
KILN_API const char *kiln_config_string(const kiln_config *config, kiln_option option);

/// The value of an option of type INT.
KILN_API int64_t kiln_config_int(const kiln_config *config, kiln_option option);

/// The value of an option of type BOOL.
KILN_API bool kiln_config_bool(const kiln_config *config, kiln_option option);

/// Where the value of an option came from.
KILN_API kiln_origin kiln_config_origin(const kiln_config *config, kiln_option option);

/// Name of an option, as flags and files have it.
KILN_API const char *kiln_option_name(kiln_option option);

/// What an option does, in one line.
KILN_API const char *kiln_option_help(kiln_option option);

/// The variable of the environment that sets an option.
KILN_API const char *kiln_option_environment(kiln_option option);

#ifdef __cplusplus
}
#endif
#endif
