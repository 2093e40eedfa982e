// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_CONTEXT_H
#define KILN_KILN_CONTEXT_H

/// A context: configuration, cache, kinds of backends.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; what it returns is borrowed and lives as long as the context; it can fail with
/// INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a
/// function without a status then does nothing and gives 0.
///
/// A process that is forked after a device was opened has none of its threads: it calls nothing of
/// Kiln, where it would wait for ever, and leaves by exec or _exit. Its parent goes on.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_context kiln_context;

typedef struct kiln_context_options {
    uint32_t struct_size;
    uint32_t ignore_environment; ///< 1: options from the environment are not read
    const char *config_path; ///< file of options, or NULL
    const kiln_allocator *allocator; ///< NULL: the C library's
    kiln_log_fn log; ///< NULL: silence
    void *log_user;
} kiln_context_options;

#define KILN_CONTEXT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_context_options)                                      \
    }

/// Makes a context: reads the configuration and opens the cache. Devices and fusers are opened when
/// they are first used. `options` may be NULL. The caller owns `*out_context`
/// (kiln_context_destroy). Errors: also NOT_FOUND when the configuration names a file that is not
/// there.
KILN_NODISCARD KILN_API kiln_status kiln_context_create(const kiln_context_options *options,
                                                        kiln_context **out_context,
                                                        kiln_error *err);

/// Gives up the caller's context. It ends with its last device. Takes NULL.
KILN_API void kiln_context_destroy(kiln_context *context);

/// Says that the user ends the process, as Ctrl-C does. The next process then does not blame the
/// plugin whose call is running now, unless its fuser has not returned for longer than planning may
/// take. Safe in a signal handler, while no thread destroys the
/// context.
KILN_API void kiln_context_interrupted(kiln_context *context);

/// Sets an option by name, as a command-line flag does. Most options count for what is opened
/// afterwards; `log` and `cache-limit` count at once. One thread at a time may set options, while
/// others use the context. Errors: NOT_FOUND for an unknown name, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_context_set(kiln_context *context, const char *name,
                                                     const char *value, kiln_error *err);

/// The environment with allocator, log and configuration, for kiln_config_string and its like.
KILN_API const kiln_env *kiln_context_env(const kiln_context *context);

/// The cache on disk; NULL when it is off.
KILN_API kiln_store *kiln_context_store(const kiln_context *context);

struct kiln_backend_provider; // ir_backend.h

/// Adds a kind of backend. Call it before a device of its scheme is opened. Built in are opencl,
/// reference and null. The provider must outlive the context. Errors: ALREADY_EXISTS,
/// RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_context_add_provider(
    kiln_context *context, const struct kiln_backend_provider *provider, kiln_error *err);

/// Frees a text that a call made for the caller, such as kiln_graph_explain. Takes NULL.
KILN_API void kiln_text_free(kiln_context *context, char *text);

/// Version of the library, such as "0.1.0". The text is static.
KILN_API const char *kiln_version(void);

#ifdef __cplusplus
}
#endif

#endif
