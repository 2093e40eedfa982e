// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators whose result's length depends on contents. Each counts on the device, reads that
// one number, and goes on with it; a capture refuses the read, with the node's name. Decides that
// Unique is written with sort orders and counts of groups, and non-maximum suppression with one
// operator of fixed shape, whose unused places are dropped afterwards.
#include "onnx_import.h"

#include <string.h>

/* Indices [count, rank] of what is not 0. */
static kilni_onnx_ref places_of(kilni_onnx_call *call, kilni_onnx_ref x)
{
    kilni_onnx_ref mask = kilni_onnx_cast(call, x, KILN_DTYPE_BOOL);
    kilni_onnx_ref ones = kilni_onnx_cast(call, mask, KILN_DTYPE_I64);
    kilni_onnx_ref total = kilni_onnx_reduce(call, KILN_OP_SUM, ones, NULL, 0, false);
    kiln_number count = kilni_onnx_value_number(call, total);
    const kiln_attr attr = kilni_onnx_a_i64(count.v.i);
    return kilni_onnx_emit(call, KILN_OP_ARGWHERE, &mask, 1, &attr, 1);
}

/* The same of a list of flags, as indices of rank 1. */
static kilni_onnx_ref flagged(kilni_onnx_call *call, kilni_onnx_ref flags)
{
    kilni_onnx_ref places = places_of(call, flags);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    const int64_t dims[] = {places->desc.dims[0]};
    return kilni_onnx_reshape(call, places, dims, 1);
}

static kilni_onnx_ref flat(kilni_onnx_call *call, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call) || x == NULL) {
        return NULL;
    }
    const int64_t dims[] = {kiln_desc_count(&x->desc)};
    return kilni_onnx_reshape(call, x, dims, 1);
}

void kilni_onnx_op_non_zero(kilni_onnx_call *call)
{
    static const int64_t swapped[] = {1, 0};
    kilni_onnx_ref places = places_of(call, kilni_onnx_in(call, 0));
    kilni_onnx_out(call, 0, kilni_onnx_permute(call, places, swapped, 2));
}

/* Without an axis of the flattened input; a condition that is shorter leaves the rest out. */
void kilni_onnx_op_compress(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref condition = kilni_onnx_in(call, 1);
    bool whole = kilni_onnx_ok(call) && kilni_onnx_attr_find(call, "axis") == NULL;
    x = whole ? flat(call, x) : x;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", 0), x->desc.rank);
    if (kilni_onnx_ok(call) &&
        (condition->desc.rank != 1 || condition->desc.dims[0] > x->desc.dims[axis])) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a condition of rank %u and length %lld for %lld",
                        condition->desc.rank, (long long)condition->desc.dims[0],
                        (long long)x->desc.dims[axis]);
    }
    kilni_onnx_ref places = flagged(call, condition);
    kilni_onnx_out(call, 0, kilni_onnx_indexed(call, KILN_OP_SELECT, x, places, axis));
}

// ---- NonMaxSuppression ------------------------------------------------------

static double threshold(kilni_onnx_call *call, uint32_t input, double fallback)
{
    kilni_onnx_ref given = kilni_onnx_opt(call, input);
    return given == NULL ? fallback : kilni_onnx_value_number(call, given).v.f;
}

void kilni_onnx_op_non_max_suppression(kilni_onnx_call *call)
{
    kilni_onnx_ref boxes = kilni_onnx_in(call, 0);
    kilni_onnx_ref most = kilni_onnx_opt(call, 2);
    kilni_onnx_ref least = kilni_onnx_opt(call, 4);
    int64_t count = most == NULL ? 0 : kilni_onnx_value_number(call, most).v.i;
    bool center = kilni_onnx_attr_int(call, "center_point_box", 0) != 0;
    const kilni_onnx_ref inputs[] = {boxes, kilni_onnx_in(call, 1)};
    const kiln_attr attrs[] = {
        kilni_onnx_a_i64(count < 0 ? 0 : count), kilni_onnx_a_f64(threshold(call, 3, 0)),
        least == NULL ? kilni_onnx_a_none() : kilni_onnx_a_f64(threshold(call, 4, 0)),
        kilni_onnx_a_bool(center)};
    kilni_onnx_ref chosen = kilni_onnx_emit(call, KILN_OP_NMS, inputs, 2, attrs, 4);
    kilni_onnx_ref used = kilni_onnx_scalar_int(call, KILN_OP_GREATER_EQUAL_SCALAR, chosen, 0);
    kilni_onnx_ref places = places_of(call, used);
    kilni_onnx_ref numbers = flat(call, chosen);
    kilni_onnx_ref kept =
        kilni_onnx_indexed(call, KILN_OP_SELECT, numbers, flagged(call, flat(call, used)), 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const int64_t column[] = {places->desc.dims[0], 1};
    const kilni_onnx_ref parts[] = {kilni_onnx_slice_axis(call, places, 1, 0, 2, 1),
                                    kilni_onnx_reshape(call, kept, column, 2)};
    kilni_onnx_out(call, 0, kilni_onnx_concat(call, parts, 2, 1));
}
