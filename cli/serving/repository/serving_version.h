// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_VERSION_H
#define KILN_SERVING_VERSION_H

/// One version of a model: its file, its instances with a thread each, and its queue.

#include "serving_policy.h"
#include "serving_queue.h"
#include "serving_regions.h"
#include "serving_stats.h"

typedef struct kilni_serving_version {
    struct kilni_serving_version *next; ///< of the model; the repository's
    uint64_t number;
    const char *state; ///< as kiln_model_row; under the repository's lock
    char reason[KILN_MODEL_REASON]; ///< why it is not ready
    uint32_t refs; ///< calls that use it; under the repository's lock
    struct kilni_serving_loaded *loaded; ///< NULL: it is not ready
} kilni_serving_version;

typedef struct kilni_serving_loaded kilni_serving_loaded;

/// What a version is made from.
typedef struct kilni_serving_source {
    const kiln_env *env;
    kiln_device *const *devices;
    uint32_t n_devices;
    kilni_serving_defaults defaults;
    const char *name;
    const char *folder; ///< of the version
    const char *file;
    uint64_t number;
    const kilni_serving_node *config; ///< NULL: none
} kilni_serving_source;

/// Reads the file, makes the instances, and runs each once for every size that the policy prefers.
/// Errors: of the file, the configuration, the devices; RESOURCE_EXHAUSTED for a model that is
/// larger than a device's memory.
kiln_status kilni_serving_loaded_open(const kilni_serving_source *source,
                                      kilni_serving_loaded **out_loaded, kiln_error *err);

/// Answers what is queued, and ends. Takes NULL. Nobody uses it.
void kilni_serving_loaded_close(kilni_serving_loaded *loaded);

/// Runs what is queued without waiting for more, and takes nothing else.
void kilni_serving_loaded_drain(kilni_serving_loaded *loaded);

const kiln_model_info *kilni_serving_loaded_info(const kilni_serving_loaded *loaded);
kilni_serving_stats *kilni_serving_loaded_stats(kilni_serving_loaded *loaded);
uint32_t kilni_serving_loaded_queued(kilni_serving_loaded *loaded);
uint32_t kilni_serving_loaded_sequences(kilni_serving_loaded *loaded);

/// Runs a request and waits for it. Errors: as kiln_models' `infer`.
kiln_status kilni_serving_loaded_infer(kilni_serving_loaded *loaded, kilni_serving_regions *regions,
                                       const kiln_model_request *request,
                                       kiln_model_answer *out_answer, kiln_error *err);

#endif
