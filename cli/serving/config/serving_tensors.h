// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_TENSORS_H
#define KILN_SERVING_TENSORS_H

/// A model's inputs and outputs, as its file and its config.pbtxt say. `what` and `key` are "input"
/// or "output", in messages. Errors are INVALID_ARGUMENT where the two differ.

#include "onnx.h"
#include "remote_models.h"
#include "serving_text.h"

/// Errors: UNIMPLEMENTED for tensors that do not travel, and too many.
kiln_status kilni_serving_tensors_fill(const kiln_onnx_value_info *values, size_t count,
                                       const char *what, kiln_model_tensor *out,
                                       uint32_t *out_count, kiln_error *err);

/// Whether the first extents are open and one and the same; `*symbol` is its name, NULL before.
bool kilni_serving_tensors_batched(const kiln_onnx_value_info *values, size_t count,
                                   const char **symbol);

/// Whether the first extents are open.
kiln_status kilni_serving_tensors_check_batch(const kiln_model_tensor *tensors, uint32_t count,
                                              const char *what, uint32_t max_batch,
                                              kiln_error *err);

/// NULL: there is none.
kiln_model_tensor *kilni_serving_tensor_find(kiln_model_tensor *tensors, uint32_t count,
                                             const char *name);

/// Whether the node's `data_type`, where it has one, is the tensor's.
kiln_status kilni_serving_tensor_check_type(const kilni_serving_node *node,
                                            const kiln_model_tensor *tensor, kiln_error *err);

/// What the node's `dims` fix is fixed, from the axis `first` on; what they say otherwise than the
/// model is an error.
kiln_status kilni_serving_tensor_narrow(const kilni_serving_node *node, uint32_t first,
                                        kiln_model_tensor *tensor, kiln_error *err);

/// The same for each tensor that the configuration names behind `key`.
kiln_status kilni_serving_tensors_check(const kilni_serving_node *config, const char *key,
                                        uint32_t first, kiln_model_tensor *tensors, uint32_t count,
                                        kiln_error *err);

#endif
