// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_PLUGIN_H
#define KILN_KILN_PLUGIN_H

/// Plugins of a context: what was loaded, and why others were not.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln_context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_plugin_info {
    uint32_t struct_size;
    uint32_t n_fusers;
    const char *path;
    const char *id;
    const char *version;
    const char *vendor;
    const char *state; ///< "taken", "refused" or "off"
    const char *reason; ///< one line: why
    uint64_t load_ns;
    uint64_t n_operators;
} kiln_plugin_info;

#define KILN_PLUGIN_INFO_INIT                                                                      \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_plugin_info)                                          \
    }

/// Loads one more plugin by path. Call it before the first device is opened. A plugin that was
/// taken stays; one that was refused is judged again; one with the same id from the plugin path is
/// dropped. The code stays loaded for the process. Errors: the loader's, with its reason;
/// FAILED_PRECONDITION after a device was opened.
KILN_NODISCARD KILN_API kiln_status kiln_plugin_load(kiln_context *context, const char *path,
                                                     kiln_error *err);

/// Forgets what the cache holds against the plugin with this id, or against all plugins when `id`
/// is NULL: a failed scan, a process that ended in it, failures of its fusers. It counts for
/// contexts that are made afterwards. Errors: FAILED_PRECONDITION when there is no cache.
KILN_NODISCARD KILN_API kiln_status kiln_plugin_reset(kiln_context *context, const char *id,
                                                      uint32_t *out_count, kiln_error *err);

/// What became of the file with this index, counted from 0 over all files that were looked at.
/// Texts are borrowed and live as long as the context. Errors: NOT_FOUND past the last.
KILN_NODISCARD KILN_API kiln_status kiln_plugin_get(kiln_context *context, size_t index,
                                                    kiln_plugin_info *out_info, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
