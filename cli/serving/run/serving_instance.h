// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_INSTANCE_H
#define KILN_SERVING_INSTANCE_H

/// A model on a device, run batch by batch. One thread at a time uses an instance, any thread.

#include "onnx.h"
#include "serving_job.h"
#include "serving_stats.h"

typedef struct kilni_serving_instance kilni_serving_instance;

/// Makes a session of the model on the device. `info` and `model` outlive it. Errors: of
/// kiln_onnx_session_create_with.
kiln_status kilni_serving_instance_open(const kiln_env *env, const kiln_model_info *info,
                                        const kiln_onnx_model *model, kiln_device *device,
                                        kilni_serving_instance **out_instance, kiln_error *err);
void kilni_serving_instance_close(kilni_serving_instance *instance); ///< takes NULL

/// Runs the jobs, `rows` rows together, and fills their answers and statuses. Where they fail
/// together, each is run alone. Calls `ready` once, when another thread may use the instance: that
/// can be before the answers are filled.
void kilni_serving_instance_run(kilni_serving_instance *instance, kilni_serving_job *jobs,
                                uint32_t count, uint64_t rows, kilni_serving_stats *stats,
                                void (*ready)(void *user), void *user);

/// Runs the model with zeros once for `rows` rows, so that programs are there when the first
/// request comes. Extents that are open are 1.
kiln_status kilni_serving_instance_warm(kilni_serving_instance *instance, uint64_t rows,
                                        kiln_error *err);

#endif
