// SPDX-License-Identifier: MIT OR Apache-2.0
// Small floats, which are u8 below here: a tensor's name for its bits (`desc.small`) is the
// caller's only. A cast becomes one of the bits and their meaning as numbers, what only moves
// elements is recorded as it is and its result gets the name, everything else is refused.

#include "record_internal.h"
#include "rt_attrs.h"
#include "rt_record.h"
#include "rt_tensor.h"

static bool moves_small(kiln_op op)
{
    switch (op) {
    case KILN_OP_RESHAPE:
    case KILN_OP_EXPAND:
    case KILN_OP_PERMUTE:
    case KILN_OP_SLICE:
    case KILN_OP_FLIP:
    case KILN_OP_UNFOLD:
    case KILN_OP_DIAGONAL:
    case KILN_OP_CONTIGUOUS:
    case KILN_OP_WHERE:
    case KILN_OP_SELECT:
    case KILN_OP_GATHER:
    case KILN_OP_CONCAT:
    case KILN_OP_REPEAT:
    case KILN_OP_ROLL:
    case KILN_OP_SLICE_ASSIGN:
    case KILN_OP_EMBEDDING:
    case KILN_OP_REVERSE_SEQUENCE:
    case KILN_OP_DEPTH_TO_SPACE:
    case KILN_OP_SPACE_TO_DEPTH:
        return true;
    default:
        return false;
    }
}

static bool is_small(kiln_dtype dtype)
{
    return kiln_dtype_kind_of(dtype) == KILN_KIND_SMALL;
}

/// What a cast is to; NONE of other operators.
static kiln_dtype cast_target(const kilni_op_call *call)
{
    return call->op == KILN_OP_CAST && call->n_attrs == 1 && call->attrs[0].type == KILN_ATTR_DTYPE
               ? (kiln_dtype)call->attrs[0].v.i
               : KILN_DTYPE_NONE;
}

bool kilni_has_small(const kilni_op_call *call)
{
    for (size_t i = 0; i < call->n_inputs; i++) {
        if (call->inputs[i] != NULL && call->inputs[i]->desc.small != 0) {
            return true;
        }
    }
    return is_small(cast_target(call));
}

/// Replaces the tensor by what `op` makes of it.
static kiln_status step(kiln_op op, kiln_attr attr, kiln_tensor **tensor, kiln_error *err)
{
    kiln_tensor *made = NULL;
    kilni_op_call call = {op, 0, tensor, 1, &attr, 1};
    kiln_status status = kilni_record_call((*tensor)->handle, &call, &made, err);
    kiln_release(*tensor);
    *tensor = made;
    return status;
}

static kiln_status cast_step(kiln_dtype dtype, kiln_tensor **tensor, kiln_error *err)
{
    return (*tensor)->desc.dtype == dtype
               ? KILN_STATUS_OK
               : step(KILN_OP_CAST, kilni_attr_dtype(dtype), tensor, err);
}

static kiln_status decode(kiln_dtype from, kiln_tensor **tensor, kiln_error *err)
{
    kiln_status status = cast_step(KILN_DTYPE_F32, tensor, err);
    return status == KILN_STATUS_OK
               ? step(KILN_OP_DECODE_SMALL, kilni_attr_i64((int64_t)from), tensor, err)
               : status;
}

/// The float that holds all numbers of a dtype, where the device has it: so a cast rounds once.
static kiln_dtype float_of(kiln_device *device, kiln_dtype dtype)
{
    bool wide = dtype == KILN_DTYPE_F64 ||
                (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT && kiln_dtype_size(dtype) > 2);
    uint32_t usage = wide ? kiln_device_dtype_usage(device, KILN_DTYPE_F64) : 0;
    return (usage & KILN_USAGE_ARITHMETIC) != 0 ? KILN_DTYPE_F64 : KILN_DTYPE_F32;
}

static kiln_status encode(kiln_dtype to, kiln_tensor **tensor, kiln_error *err)
{
    kiln_dtype via = float_of((*tensor)->handle, (*tensor)->desc.dtype);
    kiln_status status = cast_step(via, tensor, err);
    if (status == KILN_STATUS_OK) {
        status = step(KILN_OP_ENCODE_SMALL, kilni_attr_i64((int64_t)to), tensor, err);
    }
    if (status == KILN_STATUS_OK) {
        status = cast_step(KILN_DTYPE_U8, tensor, err);
    }
    if (status == KILN_STATUS_OK) {
        (*tensor)->desc.small = (uint8_t)to;
    }
    return status;
}

static kiln_status cast(const kilni_op_call *call, kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_dtype from = (kiln_dtype)call->inputs[0]->desc.small;
    kiln_dtype to = cast_target(call);
    if (from == to) {
        *out_tensor = kiln_retain(call->inputs[0]);
        return KILN_STATUS_OK;
    }
    kiln_tensor *tensor = kiln_retain(call->inputs[0]);
    kiln_status status = from != KILN_DTYPE_NONE ? decode(from, &tensor, err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK) {
        status = is_small(to) ? encode(to, &tensor, err) : cast_step(to, &tensor, err);
    }
    if (status == KILN_STATUS_OK) {
        *out_tensor = tensor;
        tensor = NULL;
    }
    kiln_release(tensor);
    return status;
}

/// All inputs of the element type that moves are of the same dtype.
static kiln_status check_moved(const kilni_op_call *call, kiln_error *err)
{
    const kiln_op_info *info = kiln_op_info_of(call->op);
    for (size_t i = 0; i < call->n_inputs; i++) {
        kiln_dtype first = kiln_tensor_dtype(call->inputs[0]);
        kiln_dtype dtype = kiln_tensor_dtype(call->inputs[i]);
        if (!moves_small(call->op) && is_small(dtype)) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "%s does not take %s (input %zu), which is only stored: cast it first",
                             info->name, kiln_dtype_name(dtype), i);
        }
        if (dtype != first && call->inputs[i]->desc.dtype == call->inputs[0]->desc.dtype) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: input %zu is %s but input 0 is %s",
                             info->name, i, kiln_dtype_name(dtype), kiln_dtype_name(first));
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_record_small(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                               kiln_error *err)
{
    kiln_status status = kilni_record_check(&handle, call, out_tensors, err);
    if (status == KILN_STATUS_OK && cast_target(call) != KILN_DTYPE_NONE) {
        return cast(call, out_tensors, err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_moved(call, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_record_call(handle, call, out_tensors, err);
    }
    if (status == KILN_STATUS_OK) {
        out_tensors[0]->desc.small = call->inputs[0]->desc.small;
    }
    return status;
}

kiln_status kiln_bits_as(kiln_tensor *x, kiln_dtype dtype, kiln_tensor **out_tensor,
                         kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    if (x == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "x must not be NULL");
    }
    if (x->desc.dtype != KILN_DTYPE_U8 || (dtype != KILN_DTYPE_U8 && !is_small(dtype))) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the bits of %s do not become %s: one is u8, the other a small float",
                         kiln_dtype_name(kiln_tensor_dtype(x)),
                         kiln_dtype_name(dtype) != NULL ? kiln_dtype_name(dtype) : "no dtype");
    }
    const kiln_attr dims = kilni_attr_ints(x->desc.dims, x->desc.rank);
    kilni_op_call call = {KILN_OP_RESHAPE, 0, &x, 1, &dims, 1};
    kiln_status status = kilni_record_call(x->handle, &call, out_tensor, err);
    if (status == KILN_STATUS_OK) {
        (*out_tensor)->desc.small = (uint8_t)(is_small(dtype) ? dtype : 0);
    }
    return status;
}
