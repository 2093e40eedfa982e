// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_EMIT_AS_H
#define KILN_ONNX_EMIT_AS_H

// Operators by means of others' handlers. As all of onnx_import.h's language, nothing happens after
// the first failure of the call.

#include "onnx_import.h"

/// What another operator makes of these inputs, with this node's attributes, as the newest operator
/// set has it: its first output.
kilni_onnx_ref kilni_onnx_as(kilni_onnx_call *call, void (*handler)(kilni_onnx_call *call),
                             const kilni_onnx_ref *inputs, uint32_t n_inputs);
/// The same for all outputs, which are the node's.
void kilni_onnx_become(kilni_onnx_call *call, void (*handler)(kilni_onnx_call *call),
                       const kilni_onnx_ref *inputs, uint32_t n_inputs);

#endif
