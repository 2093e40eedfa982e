// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_REPOSITORY_H
#define KILN_SERVING_REPOSITORY_H

/// The models of a folder: which there are, which are loaded, and why others are not.

#include "serving.h"
#include "serving_version.h"

/// A model by its folder's name.
typedef struct kilni_serving_model {
    struct kilni_serving_model *next;
    char name[KILN_MODEL_NAME];
    kilni_serving_version *versions; ///< newest first
    char reason[KILN_MODEL_REASON]; ///< why it has none
    uint64_t signature; ///< of its files when they were read last
} kilni_serving_model;

struct kiln_serving {
    const kiln_env *env;
    kiln_device *devices[64]; ///< held
    uint32_t n_devices;
    char *folder;
    kilni_serving_defaults defaults;
    uint32_t poll_seconds;
    char *load[64]; ///< at the start; those that are NULL: all
    uint32_t n_load;
    bool load_nothing;
    kiln_models table;
    kilni_serving_regions regions;
    pthread_t keeper;
    bool keeping; ///< the keeper's thread runs
    pthread_mutex_t loading; ///< one load or unload at a time; taken before `lock`
    pthread_mutex_t lock; ///< for all below
    pthread_cond_t changed; ///< calls that ended, and the end
    kilni_serving_model *models;
    bool loaded; ///< the start is over
    bool draining;
    bool stopping;
};

/// Loads what the options say, then looks for changes. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_serving_keep(kiln_serving *serving, kiln_error *err);

/// Reads the model's folder and replaces what ran. Errors: NOT_FOUND, UNAVAILABLE with the reason.
kiln_status kilni_serving_load(kiln_serving *serving, const char *name, kiln_error *err);

/// Ends all versions of a model, and waits until nobody uses them.
kiln_status kilni_serving_unload(kiln_serving *serving, const char *name, kiln_error *err);
void kilni_serving_unload_all(kiln_serving *serving);

/// Holds a version that is ready, "" for the newest. Errors: NOT_FOUND, UNAVAILABLE with the
/// reason.
kiln_status kilni_serving_hold(kiln_serving *serving, const char *name, const char *version,
                               kilni_serving_version **out_version, kiln_error *err);
void kilni_serving_drop(kiln_serving *serving, kilni_serving_version *version);

/// Calls `fn` under the repository's lock.
void kilni_serving_index(kiln_serving *serving, bool ready_only, kiln_model_row_fn fn, void *to);

/// Holds the next ready version behind `after` (NULL: the first), in the order of the list; NULL at
/// the end. `after` is dropped.
kilni_serving_version *kilni_serving_next(kiln_serving *serving, kilni_serving_version *after);

/// The versions of a model that are ready.
void kilni_serving_ready_versions(kiln_serving *serving, const char *name, kiln_model_info *info);

#endif
