// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_CAST_TEXT_H
#define KILN_ONNX_CAST_TEXT_H

#include "onnx_emit_text.h"

/// Strings of numbers, and numbers of strings. Errors: INVALID_ARGUMENT for a string that is none.
kilni_onnx_ref kilni_onnx_to_text(kilni_onnx_call *call, kilni_onnx_ref x);
kilni_onnx_ref kilni_onnx_from_text(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype);

#endif
