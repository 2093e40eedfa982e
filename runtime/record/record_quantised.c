// SPDX-License-Identifier: MIT OR Apache-2.0
// Quantised tensors where an operator does not take them. One that computes gets floats in their
// place, gives floats, and the log says so. One that only moves elements is recorded as dequantise,
// move, quantise: with one scale for the tensor the scale stays and no value changes; with blocks
// the scales are found anew, for the moved elements meet others in their blocks.

#include "record_internal.h"
#include "rt_attrs.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_record.h"
#include "rt_tensor.h"

static bool only_moves(kiln_op op)
{
    switch (op) {
    case KILN_OP_RESHAPE:
    case KILN_OP_EXPAND:
    case KILN_OP_PERMUTE:
    case KILN_OP_SLICE:
    case KILN_OP_FLIP:
    case KILN_OP_CONTIGUOUS:
    case KILN_OP_SELECT:
    case KILN_OP_GATHER:
    case KILN_OP_CONCAT:
        return true;
    default:
        return false;
    }
}

static bool is_quantised(const kiln_tensor *tensor)
{
    return tensor != NULL && kiln_dtype_kind_of(tensor->desc.dtype) == KILN_KIND_QUANT;
}

bool kilni_moves_quantised(const kilni_op_call *call)
{
    return call->n_inputs > 0 && is_quantised(call->inputs[0]) && only_moves(call->op);
}

/// Whether the operator leaves it to the runtime to make floats of this input.
static bool wants_floats(const kilni_op_call *call, size_t i)
{
    const kiln_op_info *info = kiln_op_info_of(call->op);
    bool takes = i < 8 && ((unsigned)info->signature->quant_inputs >> i & 1u) != 0;
    return is_quantised(call->inputs[i]) && !takes &&
           ((unsigned)info->accept & (unsigned)KILN_KIND_FLOAT) != 0;
}

bool kilni_computes_quantised(const kilni_op_call *call)
{
    bool computes = false;
    for (size_t i = 0; i < call->n_inputs && kiln_op_info_of(call->op) != NULL; i++) {
        computes = computes || wants_floats(call, i);
    }
    return computes;
}

/// Blocks of the result, along the axes where they have come to lie.
static kiln_status moved_blocks(kiln_op op, const kiln_tensor *from, const kiln_tensor *to,
                                const kiln_attr *attrs, int64_t *out_blocks, kiln_error *err)
{
    size_t rank = from->desc.rank;
    if (op == KILN_OP_RESHAPE || to->desc.rank != rank) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: the blocks of a quantised tensor do not survive it; dequantize it "
                         "first",
                         kiln_op_info_of(op)->name);
    }
    for (size_t i = 0; i < rank; i++) {
        int64_t source = (int64_t)i;
        if (op == KILN_OP_PERMUTE) {
            source = attrs[0].count > 0 ? attrs[0].v.ints[i] : (int64_t)(rank - 1 - i);
            source += source < 0 ? (int64_t)rank : 0;
        }
        out_blocks[i] = kiln_scheme_block(from->desc.scheme, (size_t)source);
    }
    return KILN_STATUS_OK;
}

static bool has_blocks(const kiln_tensor *tensor)
{
    for (size_t i = 0; i < tensor->desc.rank; i++) {
        if (kiln_scheme_block(tensor->desc.scheme, i) != 0) {
            return true;
        }
    }
    return false;
}

static kiln_status dequantise(kiln_tensor *from, kiln_dtype to, kiln_tensor **out_tensor,
                              kiln_error *err)
{
    const kiln_attr dtype = kilni_attr_dtype(to);
    kilni_op_call call = {KILN_OP_DEQUANTIZE, 0, &from, 1, &dtype, 1};
    return kilni_record_call(NULL, &call, out_tensor, err);
}

/// Records the call with floats in place of quantised inputs.
static kiln_status record_with_floats(kiln_device *handle, const kilni_op_call *call,
                                      kiln_dtype dtype, kiln_tensor **out_tensors, kiln_error *err)
{
    kiln_tensor *plain[KILN_MAX_INPUTS] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < call->n_inputs && status == KILN_STATUS_OK; i++) {
        if (is_quantised(call->inputs[i])) {
            status = dequantise(call->inputs[i], dtype, &plain[i], err);
        } else {
            plain[i] = kiln_retain(call->inputs[i]);
        }
    }
    if (status == KILN_STATUS_OK) {
        kilni_op_call on_floats = *call;
        on_floats.inputs = plain;
        status = kilni_record_call(handle, &on_floats, out_tensors, err);
    }
    for (size_t i = 0; i < call->n_inputs; i++) {
        kiln_release(plain[i]);
    }
    return status;
}

/// That of the floats beside the quantised inputs, or the device's default.
static kiln_dtype floats_beside(const kiln_device *handle, const kilni_op_call *call)
{
    for (size_t i = 0; i < call->n_inputs; i++) {
        kiln_dtype dtype = call->inputs[i]->desc.dtype;
        if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
            return dtype;
        }
    }
    return kiln_device_default_dtype(handle, KILN_KIND_FLOAT);
}

kiln_status kilni_record_dequantised(kiln_device *handle, const kilni_op_call *call,
                                     kiln_tensor **out_tensors, kiln_error *err)
{
    kiln_status status = kilni_record_check(&handle, call, out_tensors, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_dtype dtype = floats_beside(handle, call);
    for (size_t i = 0; i < call->n_inputs; i++) {
        if (wants_floats(call, i)) {
            kiln_log_write(&kilni_core(handle)->context->env, KILN_LOG_INFO, "runtime",
                           "%s computes in %s: input %zu is %s and is dequantized for it",
                           kiln_op_info_of(call->op)->name, kiln_dtype_name(dtype), i,
                           kiln_dtype_name(call->inputs[i]->desc.dtype));
        }
    }
    return record_with_floats(handle, call, dtype, out_tensors, err);
}

/// One scale, which stays that of the result.
static kiln_status requantise_exactly(kiln_tensor *from, kiln_tensor *moved,
                                      kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *scales = NULL;
    kilni_op_call find = {KILN_OP_QUANTIZED_SCALES, 0, &from, 1, NULL, 0};
    kiln_status status = kilni_record_call(NULL, &find, &scales, err);
    if (status == KILN_STATUS_OK) {
        kiln_tensor *const inputs[] = {moved, scales};
        const kiln_attr attrs[] = {kilni_attr_dtype(from->desc.dtype), kilni_attr_ints(NULL, 0)};
        kilni_op_call call = {KILN_OP_QUANTIZE, 0, inputs, 2, attrs, 2};
        status = kilni_record_call(NULL, &call, out_tensor, err);
    }
    kiln_release(scales);
    return status;
}

static kiln_status requantise_anew(const kiln_tensor *from, kiln_tensor *moved,
                                   const int64_t *blocks, kiln_tensor **out_tensor, kiln_error *err)
{
    const kiln_attr attrs[] = {
        kilni_attr_dtype(from->desc.dtype), kilni_attr_ints(blocks, moved->desc.rank),
        kilni_attr_dtype(kiln_scheme_scale(from->desc.scheme)), kilni_attr_none()};
    kilni_op_call call = {KILN_OP_QUANTIZE_DYNAMIC, 0, &moved, 1, attrs, 4};
    return kilni_record_call(NULL, &call, out_tensor, err);
}

static kiln_status requantise(const kilni_op_call *call, kiln_tensor *moved,
                              kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *from = call->inputs[0];
    int64_t blocks[KILN_MAX_RANK] = {0};
    bool alone = call->n_inputs == 1 || !is_quantised(call->inputs[1]);
    if (alone && !has_blocks(from) && !kiln_scheme_has_global(from->desc.scheme) &&
        kiln_tensor_count(from) > 0) {
        return requantise_exactly(from, moved, out_tensor, err);
    }
    kiln_status status = KILN_STATUS_OK;
    if (has_blocks(from)) {
        status = moved_blocks(call->op, from, moved, call->attrs, blocks, err);
    }
    return status == KILN_STATUS_OK ? requantise_anew(from, moved, blocks, out_tensor, err)
                                    : status;
}

kiln_status kilni_record_moved(kiln_device *handle, const kilni_op_call *call,
                               kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *moved = NULL;
    kiln_status status = kilni_record_check(&handle, call, out_tensor, err);
    if (status == KILN_STATUS_OK) {
        status = record_with_floats(handle, call, KILN_DTYPE_F32, &moved, err);
    }
    if (status == KILN_STATUS_OK) {
        status = requantise(call, moved, out_tensor, err);
    }
    kiln_release(moved);
    return status;
}
