// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_FOLDER_H
#define KILN_SERVING_FOLDER_H

/// What lies in a folder of models. Nothing of it is trusted.

#include "serving_policy.h"

/// Calls `fn` for each folder in `path` that a model's name may be.
void kilni_serving_folder_models(const char *path, void (*fn)(const char *name, void *to),
                                 void *to);

/// Whether a model may have this name: letters, digits, `_`, `-` and `.`, not first a dot.
bool kilni_serving_folder_is_name(const char *name);

/// The numbers of a model's versions, largest first, at most KILN_MODEL_VERSIONS that the choice
/// takes.
uint32_t kilni_serving_folder_versions(const char *path, const kilni_serving_choice *choice,
                                       uint64_t out_numbers[KILN_MODEL_VERSIONS]);

/// Changes when a file of the model does.
uint64_t kilni_serving_folder_signature(const char *path);

/// Reads PATH/config.pbtxt into the arena; `*out_config` is NULL when there is none. Errors:
/// INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
kiln_status kilni_serving_folder_config(kiln_arena *arena, const char *path,
                                        kilni_serving_node **out_config, kiln_error *err);

#endif
