// SPDX-License-Identifier: MIT OR Apache-2.0
// Nodes of foreign domains: an operator that a plugin brings as domain::op_type, in the newest
// version that is not newer than the model's operator set of that domain. Attributes are turned
// into those of its parameters; what they mean is the plugin's business. Where no plugin brings the
// operator, onnx_plan.c refuses the node by name.
#include "onnx_run.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CUSTOM_NUMBERS = 256 };

kiln_status kilni_onnx_find_custom(kiln_device *device, const kilni_onnx_node *node,
                                   int64_t version, const kiln_custom_op **out_op, kiln_error *err)
{
    char name[KILN_CUSTOM_MAX_NAME + 2];
    int length = snprintf(name, sizeof(name), "%s::%s", node->domain, node->op_type);
    *out_op = NULL;
    if (length < 0 || length > KILN_CUSTOM_MAX_NAME || version < 0 || version > UINT32_MAX) {
        return kiln_fail(err, NOT_FOUND, "no plugin brings such an operator");
    }
    return kiln_custom_find(device, name, (uint32_t)version, out_op, err);
}

static const kiln_custom_param *param_of(const kiln_custom_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_params; i++) {
        if (strcmp(op->params[i].name, name) == 0) {
            return &op->params[i];
        }
    }
    return NULL;
}

/// ONNX has no truths and no dtypes among its attributes: integers stand for them.
static kiln_attr integer_as(kilni_onnx_call *call, const kiln_custom_param *param, int64_t value)
{
    kiln_attr attr = {KILN_ATTR_I64, 1, {.i = value}};
    if (param != NULL && param->type == KILN_ATTR_BOOL) {
        attr.type = KILN_ATTR_BOOL;
    } else if (param != NULL && param->type == KILN_ATTR_DTYPE) {
        attr.type = KILN_ATTR_DTYPE;
        attr.v.i = (int64_t)kilni_onnx_dtype_of(call, value);
    }
    return attr;
}

static kiln_attr floats_of(kilni_onnx_call *call, const kilni_onnx_attr *from, double *numbers)
{
    if (from->count > MAX_CUSTOM_NUMBERS) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' has %u values, more than %d",
                        from->name, from->count, MAX_CUSTOM_NUMBERS);
        return (kiln_attr){0};
    }
    for (uint32_t i = 0; i < from->count; i++) {
        numbers[i] = (double)from->floats[i];
    }
    return (kiln_attr){KILN_ATTR_F64_LIST, from->count, {.floats = numbers}};
}

static kiln_attr value_of(kilni_onnx_call *call, const kiln_custom_param *param,
                          const kilni_onnx_attr *from, double *numbers)
{
    switch (from->type) {
    case KILNI_ONNX_ATTR_INT:
        return integer_as(call, param, from->i);
    case KILNI_ONNX_ATTR_FLOAT:
        return (kiln_attr){KILN_ATTR_F64, 1, {.f = (double)from->f}};
    case KILNI_ONNX_ATTR_STRING:
        return (kiln_attr){KILN_ATTR_STRING, (uint32_t)strlen(from->text), {.text = from->text}};
    case KILNI_ONNX_ATTR_INTS:
        return (kiln_attr){KILN_ATTR_I64_LIST, from->count, {.ints = from->ints}};
    case KILNI_ONNX_ATTR_FLOATS:
        return floats_of(call, from, numbers);
    default:
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED,
                        "attribute '%s' is %s; operators of plugins take numbers, strings and "
                        "lists of numbers",
                        from->name, kilni_onnx_attr_type_name(from->type));
        return (kiln_attr){0};
    }
}

/// The node's attributes under their own names; how many.
static size_t take_attrs(kilni_onnx_call *call, const kiln_custom_op *op, kiln_custom_attr *attrs,
                         double (*numbers)[MAX_CUSTOM_NUMBERS])
{
    size_t count = 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < call->node->n_attrs; i++) {
        const char *name = call->node->attrs[i].name;
        const kilni_onnx_attr *from = kilni_onnx_attr_find(call, name);
        if (from == NULL) {
            continue; // stands for one that the function's caller left out
        }
        if (count == KILN_CUSTOM_MAX_PARAMS) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%s has at most %d attributes", op->name,
                            KILN_CUSTOM_MAX_PARAMS);
            return 0;
        }
        attrs[count] =
            (kiln_custom_attr){name, value_of(call, param_of(op, name), from, numbers[count])};
        count++;
    }
    return count;
}

static uint32_t take_custom_inputs(kilni_onnx_call *call, const kiln_custom_op *op,
                                   kilni_onnx_ref *inputs)
{
    uint32_t count = call->n_inputs;
    while (count > 0 && call->inputs[count - 1] == NULL) {
        count--;
    }
    if (count < op->min_inputs || count > op->max_inputs) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%s: %u inputs given, it takes %u to %u", op->name,
                        count, op->min_inputs, op->max_inputs);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (call->inputs[i] == NULL) {
            KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "%s: input %u is left out before others", op->name,
                            i);
        }
        inputs[i] = kilni_onnx_in_any(call, i);
        if (kilni_onnx_ok(call) && inputs[i]->form != KILNI_ONNX_TENSOR) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%s: input %u is no tensor", op->name, i);
        }
    }
    return count;
}

void kilni_onnx_op_custom(kilni_onnx_call *call)
{
    kilni_onnx_ref inputs[KILN_MAX_INPUTS] = {NULL};
    kilni_onnx_ref outputs[KILN_MAX_OUTPUTS] = {NULL};
    kiln_custom_attr attrs[KILN_CUSTOM_MAX_PARAMS] = {{0}};
    double numbers[KILN_CUSTOM_MAX_PARAMS][MAX_CUSTOM_NUMBERS];
    const kiln_custom_op *op = NULL;
    call->status =
        kilni_onnx_find_custom(call->session->device, call->node, call->version, &op, call->err);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (call->n_outputs > op->n_outputs) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%s gives %u outputs, not %u", op->name,
                        op->n_outputs, call->n_outputs);
        return;
    }
    uint32_t n_inputs = take_custom_inputs(call, op, inputs);
    size_t n_attrs = take_attrs(call, op, attrs, numbers);
    kilni_onnx_emit_custom(call, op, attrs, n_attrs, inputs, n_inputs, outputs);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < call->n_outputs; i++) {
        if (kilni_onnx_wants(call, i)) {
            kilni_onnx_out(call, i, outputs[i]);
        }
    }
}
