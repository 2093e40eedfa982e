// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_EMIT_TEXT_H
#define KILN_ONNX_EMIT_TEXT_H

// Strings in the language of onnx_import.h: a tensor of them is one of numbers (onnx_text.c).

#include "onnx_run.h"

/// A list that is an attribute as a constant of rank 1, or the tensor that one is; NULL when
/// absent. It is made once.
kilni_onnx_ref kilni_onnx_attr_list(kilni_onnx_call *call, const char *name);

kilni_onnx_ref kilni_onnx_in_text(kilni_onnx_call *call, uint32_t index); ///< of strings, required
/// The numbers on the host, to compute with; kilni_onnx_text_at gives their texts. NULL as of
/// kilni_onnx_host.
const int32_t *kilni_onnx_text_numbers(kilni_onnx_call *call, kilni_onnx_ref value);
/// The numbers as numbers; what is not of strings as it is.
kilni_onnx_ref kilni_onnx_numbers(kilni_onnx_call *call, kilni_onnx_ref value);
/// The number of a text that the call makes.
int32_t kilni_onnx_text_number(kilni_onnx_call *call, const char *text, size_t length);
/// Zeroed memory on the host for what the call computes there, a constant if its inputs are, to be
/// filled through `owned`; the same for the numbers of strings.
kilni_onnx_ref kilni_onnx_host_made(kilni_onnx_call *call, kiln_dtype dtype, uint32_t rank,
                                    const int64_t *dims);
kilni_onnx_ref kilni_onnx_text_made(kilni_onnx_call *call, uint32_t rank, const int64_t *dims);

#endif
