// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_KEPT_H
#define KILN_ONNX_KEPT_H

// A model of f32 that is kept in f16 or bf16 (`model-dtype`): which operations read their floats in
// which type. Handlers know nothing of it: to them a value has the type that the model says.

#include "onnx_run.h"

/// The type in which an operation reads its operands of f32: the session's, or f32. NONE: it has
/// none, or the model is kept as it is.
kiln_dtype kilni_onnx_reads_in(const kilni_onnx_call *call, const kiln_op_record *op,
                               const kilni_onnx_ref *inputs);

/// What later operations have to know of a result that was computed on floats of `reads_in`: its
/// type is the model's again.
void kilni_onnx_note_result(const kilni_onnx_call *call, const kiln_op_record *op,
                            const kilni_onnx_ref *inputs, kiln_dtype reads_in, uint32_t index,
                            kilni_onnx_ref value);

/// A cast between f32 and the session's type, which the value is there in already or becomes as
/// operands do: a tensor for the result, borrowed. NULL: it is another cast.
kiln_tensor *kilni_onnx_cast_kept(kilni_onnx_call *call, const kiln_op_record *op,
                                  const kilni_onnx_ref *inputs);

#endif
