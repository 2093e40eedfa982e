// SPDX-License-Identifier: MIT OR Apache-2.0
// The public call of an operator of a plugin: decides what makes a call well formed; its attributes
// become one text, which is what a record has. Looking operators up is custom_find.c's.

#include "rt_attrs.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_tensor.h"

static kiln_status check_call(const kiln_device *device, const kiln_custom_call *call,
                              kiln_tensor *const *out_tensors, kiln_error *err)
{
    if (call == NULL || call->struct_size < sizeof(*call) || call->name == NULL ||
        call->inputs == NULL || out_tensors == NULL || (call->n_attrs > 0 && call->attrs == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "a custom call needs name, inputs and results");
    }
    if (call->n_inputs < 1 || call->n_inputs > KILN_MAX_INPUTS) {
        return kiln_fail(err, INVALID_ARGUMENT, "%.80s: %zu inputs, not 1 to %d", call->name,
                         call->n_inputs, KILN_MAX_INPUTS);
    }
    return device != NULL || call->inputs[0] != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "%.80s: input 0 is NULL", call->name);
}

static kiln_status record(kiln_device *device, const kiln_custom_op *op,
                          const kiln_custom_call *call, const kiln_string *text,
                          kiln_tensor **out_tensors, kiln_error *err)
{
    kiln_tensor *made[KILN_MAX_OUTPUTS] = {NULL};
    const kiln_attr attrs[] = {
        kilni_attr_text(op->name),
        kilni_attr_i64(op->version),
        {KILN_ATTR_STRING, (uint32_t)text->length, {.text = text->length > 0 ? text->text : ""}}};
    kiln_status status = kiln_record(device, KILN_OP_CUSTOM, call->inputs, call->n_inputs, attrs,
                                     sizeof(attrs) / sizeof(attrs[0]), made, err);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < op->n_outputs; i++) {
        out_tensors[i] = made[i];
    }
    return status;
}

kiln_status kiln_custom(kiln_device *device, const kiln_custom_call *call,
                        kiln_tensor **out_tensors, size_t n_outputs, kiln_error *err)
{
    const kiln_custom_op *op = NULL;
    kiln_string text;
    for (size_t i = 0; out_tensors != NULL && i < n_outputs; i++) {
        out_tensors[i] = NULL;
    }
    kiln_status status = check_call(device, call, out_tensors, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_device *core = kilni_core(device != NULL ? device : call->inputs[0]->handle);
    status = kiln_custom_find(core, call->name, call->version, &op, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (n_outputs != op->n_outputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s gives %u results, not %zu", op->name,
                         op->n_outputs, n_outputs);
    }
    kiln_string_init(&text, &core->context->env);
    status = kiln_ir_custom_text(op, call->attrs, call->n_attrs, &text, err);
    if (status == KILN_STATUS_OK) {
        status = record(device, op, call, &text, out_tensors, err);
    }
    kiln_string_fini(&text);
    return status;
}
