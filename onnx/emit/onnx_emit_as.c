// SPDX-License-Identifier: MIT OR Apache-2.0
// A node as another operator, with other inputs. Decides what the inner call shares with the outer
// one: attributes, values, the first failure; its operator set is the newest.
#include "onnx_emit_as.h"

#include "onnx_run.h"

#include <string.h>

enum { MOST_HANDED_ON = 16 };

/// `handler` with other inputs: outputs are the node's.
static void hand_on(kilni_onnx_call *call, void (*handler)(kilni_onnx_call *call),
                    const kilni_onnx_ref *inputs, uint32_t n_inputs, kilni_onnx_ref *outputs,
                    uint32_t n_outputs)
{
    kilni_onnx_ref given[MOST_HANDED_ON];
    if (kilni_onnx_ok(call) && (n_inputs > MOST_HANDED_ON || call->n_outputs < n_outputs)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u inputs and %u outputs", n_inputs,
                        call->n_outputs);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    memcpy(given, inputs, n_inputs * sizeof(*given));
    kilni_onnx_call inner = *call;
    inner.inputs = given;
    inner.n_inputs = n_inputs;
    inner.outputs = outputs;
    inner.n_outputs = n_outputs;
    inner.version = KILNI_ONNX_NEWEST_OPSET;
    handler(&inner);
    call->temps = inner.temps;
    call->on_host = inner.on_host;
    call->status = inner.status;
}

kilni_onnx_ref kilni_onnx_as(kilni_onnx_call *call, void (*handler)(kilni_onnx_call *call),
                             const kilni_onnx_ref *inputs, uint32_t n_inputs)
{
    kilni_onnx_ref result = NULL;
    hand_on(call, handler, inputs, n_inputs, &result, 1);
    kilni_onnx_release(&call->session->env, result); // the call holds it, or who gave it
    return kilni_onnx_ok(call) ? result : NULL;
}

void kilni_onnx_become(kilni_onnx_call *call, void (*handler)(kilni_onnx_call *call),
                       const kilni_onnx_ref *inputs, uint32_t n_inputs)
{
    hand_on(call, handler, inputs, n_inputs, call->outputs, call->n_outputs);
}
