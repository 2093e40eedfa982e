// SPDX-License-Identifier: MIT OR Apache-2.0
// The public call, which all operators come to. Decides only whether it is a product that computes
// in another dtype, and which results of several the caller gets.

#include "record_internal.h"
#include "rt_record.h"

static kiln_status record_any(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                              kiln_error *err)
{
    if ((call->inputs == NULL && call->n_inputs > 0) ||
        (call->attrs == NULL && call->n_attrs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "inputs and attributes must not be NULL");
    }
    kiln_dtype dtype = kilni_product_dtype(call);
    return dtype != KILN_DTYPE_NONE ? kilni_record_product(handle, call, dtype, out_tensors, err)
                                    : kilni_record_any(handle, call, out_tensors, err);
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
