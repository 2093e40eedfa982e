// SPDX-License-Identifier: MIT OR Apache-2.0
// The public call, which all operators come to. Decides only whether it moves elements of a
// quantised tensor, or has to do with small floats, which is several operations, which results of
// several the caller gets, and that observers learn of the call as it was made.

#include "record_internal.h"
#include "rt_record.h"

static kiln_status record_plain(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                                kiln_error *err)
{
    if (kilni_moves_quantised(call)) {
        return kilni_record_moved(handle, call, out_tensors, err);
    }
    return kilni_has_small(call) ? kilni_record_small(handle, call, out_tensors, err)
                                 : kilni_record_call(handle, call, out_tensors, err);
}

static kiln_status record_any(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                              kiln_error *err)
{
    const kiln_attr *attrs = call->attrs; // recording may put others in their place
    if ((call->inputs == NULL && call->n_inputs > 0) || (attrs == NULL && call->n_attrs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "inputs and attributes must not be NULL");
    }
    kiln_status status = record_plain(handle, call, out_tensors, err);
    if (status == KILN_STATUS_OK && kilni_is_marked(call)) {
        call->attrs = attrs;
        status = kilni_record_observed(call, out_tensors, err);
    }
    return status;
}

kiln_status kiln_record(kiln_device *handle, kiln_op op, kiln_tensor *const *inputs,
                        size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                        kiln_tensor **out_tensors, kiln_error *err)
{
    kilni_op_call call = {op, 0, inputs, n_inputs, attrs, n_attrs};
    return record_any(handle, &call, out_tensors, err);
}

kiln_status kilni_record_several(kiln_device *device, kiln_op op, kiln_tensor *const *inputs,
                                 size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                                 kiln_tensor **const *outputs, kiln_error *err)
{
    size_t n_outputs = kiln_op_info_of(op)->n_outputs;
    kiln_tensor *made[KILN_MAX_OUTPUTS];
    uint32_t unused = 0;
    for (size_t i = 0; i < n_outputs; i++) {
        unused |= outputs[i] == NULL ? 1u << i : 0;
    }
    kilni_op_call call = {op, unused, inputs, n_inputs, attrs, n_attrs};
    kiln_status status = record_any(device, &call, made, err);
    for (size_t i = 0; i < n_outputs; i++) {
        if (outputs[i] != NULL) {
            *outputs[i] = made[i];
        } else {
            kiln_release(made[i]);
        }
    }
    return status;
}
