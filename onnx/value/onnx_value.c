// SPDX-License-Identifier: MIT OR Apache-2.0
// What a node takes and gives: values, their contents on the host. Decides when something is read
// back from the device: only when an operator asks for contents that are nowhere else.
#include "onnx_run.h"

#include <string.h>

kiln_status kilni_onnx_at_node(kiln_error *err, const kilni_onnx_node *node)
{
    const char *given = "";
    for (uint32_t i = 0; i < node->n_outputs && given[0] == '\0'; i++) {
        given = node->outputs[i];
    }
    return node->name[0] != '\0' || given[0] == '\0'
               ? kiln_error_context(err, "node '%s' (%s)", node->name, node->op_type)
               : kiln_error_context(err, "the node that gives '%s' (%s)", given, node->op_type);
}

static kilni_onnx_ref raw_input(const kilni_onnx_call *call, uint32_t index)
{
    return kilni_onnx_ok(call) && index < call->n_inputs ? call->inputs[index] : NULL;
}

static kilni_onnx_ref required(kilni_onnx_call *call, kilni_onnx_ref value, uint32_t index)
{
    if (value == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is missing", index);
    }
    return value;
}

kilni_onnx_ref kilni_onnx_in(kilni_onnx_call *call, uint32_t index)
{
    return required(call, kilni_onnx_opt(call, index), index);
}

kilni_onnx_ref kilni_onnx_opt(kilni_onnx_call *call, uint32_t index)
{
    kilni_onnx_ref value = raw_input(call, index);
    if (value != NULL && value->form != KILNI_ONNX_TENSOR) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is %s, not a tensor", index,
                        value->form == KILNI_ONNX_SEQUENCE ? "a sequence"
                        : value->form == KILNI_ONNX_MAPS   ? "a map"
                                                           : "an empty optional");
        return NULL;
    }
    return value;
}

kilni_onnx_ref kilni_onnx_in_any(kilni_onnx_call *call, uint32_t index)
{
    return required(call, raw_input(call, index), index);
}

kilni_onnx_ref kilni_onnx_in_sequence(kilni_onnx_call *call, uint32_t index)
{
    kilni_onnx_ref value = kilni_onnx_in_any(call, index);
    if (value != NULL && value->form != KILNI_ONNX_SEQUENCE) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is no sequence", index);
        return NULL;
    }
    return value;
}

bool kilni_onnx_wants(const kilni_onnx_call *call, uint32_t index)
{
    return index < call->n_outputs && call->node->outputs[index][0] != '\0';
}

void kilni_onnx_out(kilni_onnx_call *call, uint32_t index, kilni_onnx_ref value)
{
    if (!kilni_onnx_ok(call) || index >= call->n_outputs) {
        return;
    }
    kilni_onnx_release(&call->session->env, call->outputs[index]);
    call->outputs[index] = kilni_onnx_retain(value);
}

static const void *contents(kilni_onnx_call *call, kilni_onnx_ref value)
{
    if (!kilni_onnx_ok(call) || value == NULL || kiln_desc_count(&value->desc) == 0) {
        return NULL;
    }
    value->looked = value->looked || !value->constant;
    call->session->n_looks += !value->constant;
    if (value->host == NULL) {
        kiln_tensor *tensor = NULL;
        call->session->n_reads++;
        call->status = kilni_onnx_to_device(call->session->device, value, &tensor, call->err);
        if (!kilni_onnx_ok(call)) {
            return NULL;
        }
        size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
        value->owned = kiln_alloc(&call->session->env, bytes);
        if (value->owned == NULL) {
            KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
            return NULL;
        }
        call->status = kiln_read(tensor, value->owned, bytes, call->err);
        if (!kilni_onnx_ok(call)) {
            kiln_free(&call->session->env, value->owned);
            value->owned = NULL;
            return NULL;
        }
        value->host = value->owned;
    }
    return value->host;
}

const void *kilni_onnx_host(kilni_onnx_call *call, kilni_onnx_ref value)
{
    call->on_host = call->on_host || (value != NULL && !value->constant);
    return contents(call, value);
}

kilni_onnx_ints kilni_onnx_value_ints(kilni_onnx_call *call, kilni_onnx_ref value)
{
    kilni_onnx_ints ints = {.count = 0};
    const void *data = contents(call, value);
    if (!kilni_onnx_ok(call) || data == NULL) {
        return ints;
    }
    int64_t count = kiln_desc_count(&value->desc);
    if (kilni_onnx_is_float(value) || count > (int64_t)(sizeof(ints.v) / sizeof(ints.v[0]))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld elements of %s where a few integers belong",
                        (long long)count, kiln_dtype_name(value->desc.dtype));
        return ints;
    }
    for (int64_t i = 0; i < count; i++) {
        ints.v[i] = kilni_onnx_element(value->desc.dtype, data, i).v.i;
    }
    ints.count = (uint32_t)count;
    return ints;
}

int64_t kilni_onnx_value_int_at(kilni_onnx_call *call, kilni_onnx_ref value, int64_t index)
{
    const void *data = contents(call, value);
    if (!kilni_onnx_ok(call) || data == NULL || kilni_onnx_is_float(value) || index < 0 ||
        index >= kiln_desc_count(&value->desc)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "integers are needed");
        return 0;
    }
    return kilni_onnx_element(value->desc.dtype, data, index).v.i;
}

kiln_number kilni_onnx_value_number(kilni_onnx_call *call, kilni_onnx_ref value)
{
    const void *data = contents(call, value);
    if (!kilni_onnx_ok(call) || data == NULL || kiln_desc_count(&value->desc) != 1) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a single number is needed");
        return kiln_i64(0);
    }
    return kilni_onnx_element(value->desc.dtype, data, 0);
}

bool kilni_onnx_is_float(const kilni_onnx_value *value)
{
    return kiln_dtype_kind_of(value->desc.dtype) == KILN_KIND_FLOAT;
}

uint32_t kilni_onnx_axis(kilni_onnx_call *call, int64_t axis, uint32_t rank)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "axis %lld does not fit rank %u", (long long)axis,
                        rank);
        return 0;
    }
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

int64_t kilni_onnx_span_of(const kiln_tensor_desc *desc, uint32_t first, uint32_t end)
{
    // Unsigned: beside a zero the other lengths may be anything.
    uint64_t product = 1;
    for (uint32_t i = first; i < end; i++) {
        product *= (uint64_t)desc->dims[i];
    }
    return (int64_t)product;
}
