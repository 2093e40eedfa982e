// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_POLICY_H
#define KILN_SERVING_POLICY_H

/// What a model's file and its config.pbtxt say together: its tensors, and how it is run.

#include "onnx.h"
#include "remote_models.h"
#include "serving_text.h"

/// What holds where a configuration is silent.
typedef struct kilni_serving_defaults {
    uint32_t max_batch;
    uint32_t max_queue;
} kilni_serving_defaults;

/// Which versions are served.
typedef enum kilni_serving_which {
    KILNI_SERVING_LATEST,
    KILNI_SERVING_ALL,
    KILNI_SERVING_SPECIFIC
} kilni_serving_which;

typedef struct kilni_serving_choice {
    kilni_serving_which which;
    uint32_t count; ///< of LATEST, and of the list
    uint64_t versions[KILN_MODEL_VERSIONS]; ///< of SPECIFIC
} kilni_serving_choice;

/// Reads what a configuration says of the model as a whole. `config` NULL: there is none. Errors:
/// INVALID_ARGUMENT for another model's configuration and damaged ones, UNIMPLEMENTED for what is
/// not served: other backends, ensembles.
kiln_status kilni_serving_policy_choose(const kilni_serving_node *config, const char *name,
                                        char out_file[KILN_MODEL_NAME],
                                        kilni_serving_choice *out_choice, kiln_error *err);

/// Fills tensors and policy; `name`, `version` and `file` stay. Errors: INVALID_ARGUMENT where
/// configuration and model differ, UNIMPLEMENTED for tensors that do not travel.
kiln_status kilni_serving_policy_fill(const kilni_serving_node *config,
                                      const kiln_onnx_model *model,
                                      const kilni_serving_defaults *defaults, kiln_model_info *info,
                                      kiln_error *err);

/// The devices that instances are made on: `out_devices[i]` is an index below `n_devices`. Errors:
/// INVALID_ARGUMENT for a device that the server has not.
enum { KILNI_SERVING_INSTANCES = 16 };
kiln_status kilni_serving_policy_place(const kilni_serving_node *config, uint32_t n_devices,
                                       uint32_t out_devices[KILNI_SERVING_INSTANCES],
                                       uint32_t *out_count, kiln_error *err);

#endif
