// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_CONTEXT_H
#define KILN_KILN_CONTEXT_H

/// A context: configuration, cache, kinds of backends.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_context kiln_context;

typedef struct kiln_context_options {
    uint32_t struct_size;
    uint32_t ignore_environment; ///< 1: knobs from the environment are not read
    const char *config_path; ///< file of knobs, or NULL
    const kiln_allocator *allocator; ///< NULL: the C library's
    kiln_log_fn log; ///< NULL: silence
    void *log_user;
} kiln_context_options;

#define KILN_CONTEXT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_context_options)                                      \
    }

/// Makes a context: reads the configuration and opens the cache. Devices and fusers are opened when
/// first used. Ownership: `*out_context` is the caller's (kiln_context_destroy). Lifetime: devices
/// and tensors keep it alive. Thread: any. Errors: INVALID_ARGUMENT and NOT_FOUND from the
/// configuration, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_context_create(const kiln_context_options *options,
                                                        kiln_context **out_context,
                                                        kiln_error *err);

/// Gives up the caller's hold; the context ends with its last device. Takes NULL.
/// Ownership: ends the caller's. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_context_destroy(kiln_context *context);

/// The user ends the process, by Ctrl-C for one: later ones do not hold it against the plugin that
/// is in a call now. Safe in a signal handler. Ownership: borrowed. Lifetime: n/a. Thread: any,
/// while none destroys the context. Errors: none.
KILN_API void kiln_context_interrupted(kiln_context *context);

/// Sets a knob by name, as a command-line flag does. Takes effect for what is opened afterwards;
/// log and cache-limit at once. Ownership: the text is copied. Lifetime: n/a. Thread: one at a
/// time, while others use the context. Errors: NOT_FOUND, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_context_set(kiln_context *context, const char *name,
                                                     const char *value, kiln_error *err);

/// The environment with allocator, log and configuration, for kiln_config_string and its like.
/// Ownership: borrowed. Lifetime: the context's. Thread: any. Errors: none.
KILN_API const kiln_env *kiln_context_env(const kiln_context *context);

/// The cache on disk, or NULL when it is off. Ownership: borrowed. Lifetime: the context's. Thread:
/// any. Errors: none.
KILN_API kiln_store *kiln_context_store(const kiln_context *context);

struct kiln_backend_provider; // ir_backend.h

/// Adds a kind of backend, before a device of its scheme is opened. Built in: opencl, reference,
/// null. Ownership: the provider is borrowed. Lifetime: it must outlive the context. Thread: any.
/// Errors: ALREADY_EXISTS, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_context_add_provider(
    kiln_context *context, const struct kiln_backend_provider *provider, kiln_error *err);

/// Frees a text that a call made for the caller. Takes NULL. Ownership: ends the caller's.
/// Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_text_free(kiln_context *context, char *text);

/// Version of the library, such as "0.1.0". Ownership: static storage. Lifetime: the process.
/// Thread: any. Errors: none.
KILN_API const char *kiln_version(void);

#ifdef __cplusplus
}
#endif

#endif
