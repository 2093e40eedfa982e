// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_HOST_IO_H
#define KILN_ONNX_HOST_IO_H

// Inputs and outputs of a run that are on the host: strings and maps.

#include "onnx_run.h"

/// A value that the caller gives. It is the caller's hold.
KILN_NODISCARD kiln_status kilni_onnx_input_new(const kiln_onnx_session *session,
                                                kilni_onnx_ref *out_value, kiln_error *err);
/// Whether lengths are those of an input. Errors: INVALID_ARGUMENT.
KILN_NODISCARD kiln_status kilni_onnx_check_shape(const kiln_onnx_value_info *info, uint32_t rank,
                                                  const int64_t *dims, kiln_error *err);

KILN_NODISCARD kiln_status kilni_onnx_bind_texts(kiln_onnx_session *session,
                                                 const kiln_onnx_value_info *info,
                                                 const kiln_onnx_value *given,
                                                 kilni_onnx_ref *out_value, kiln_error *err);
KILN_NODISCARD kiln_status kilni_onnx_bind_maps(kiln_onnx_session *session,
                                                const kiln_onnx_value_info *info,
                                                const kiln_onnx_value *given,
                                                kilni_onnx_ref *out_value, kiln_error *err);

/// Copies of what a value holds, read from the device where it is there. Errors: also those of
/// kiln_read.
KILN_NODISCARD kiln_status kilni_onnx_give_texts(kiln_onnx_session *session, kilni_onnx_ref value,
                                                 kiln_onnx_value *out, kiln_error *err);
KILN_NODISCARD kiln_status kilni_onnx_give_maps(kiln_onnx_session *session, kilni_onnx_ref value,
                                                kiln_onnx_value *out, kiln_error *err);
/// Frees such copies.
void kilni_onnx_free_host(const kiln_env *env, kiln_onnx_value *value);

#endif
