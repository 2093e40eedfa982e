// SPDX-License-Identifier: MIT OR Apache-2.0
// The operators of ours as functions over values: each packs its attributes in the order of its
// schema. An operation that would change nothing (a cast to the same type, a reshape to the same
// lengths) is not recorded.
#include "onnx_run.h"

#include <string.h>

static bool has_dims(const kilni_onnx_value *x, const int64_t *dims, uint32_t rank)
{
    return x->desc.rank == rank &&
           (rank == 0 || memcmp(x->desc.dims, dims, rank * sizeof(*dims)) == 0);
}

kilni_onnx_ref kilni_onnx_unary(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x)
{
    return kilni_onnx_emit(call, op, &x, 1, NULL, 0);
}

kilni_onnx_ref kilni_onnx_clamp(kilni_onnx_call *call, kilni_onnx_ref x, double low, double high)
{
    const kiln_attr attrs[] = {kilni_attr_f64(low), kilni_attr_f64(high)};
    return kilni_onnx_emit(call, KILN_OP_CLAMP, &x, 1, attrs, 2);
}

kilni_onnx_ref kilni_onnx_where(kilni_onnx_call *call, kilni_onnx_ref mask, kilni_onnx_ref a,
                                kilni_onnx_ref b)
{
    const kilni_onnx_ref inputs[] = {a, b, mask};
    return kilni_onnx_emit(call, KILN_OP_WHERE, inputs, 3, NULL, 0);
}

kilni_onnx_ref kilni_onnx_mask_fill(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref mask,
                                    double value)
{
    const kilni_onnx_ref inputs[] = {x, mask};
    bool is_float = x != NULL && kilni_onnx_is_float(x);
    const kiln_attr attr = is_float ? kilni_attr_f64(value) : kilni_attr_i64((int64_t)value);
    return kilni_onnx_emit(call, KILN_OP_MASK_FILL, inputs, 2, &attr, 1);
}

kilni_onnx_ref kilni_onnx_cast(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype)
{
    if (!kilni_onnx_ok(call) || x == NULL || x->desc.dtype == dtype) {
        return x;
    }
    const kiln_attr attr = kilni_attr_dtype(dtype);
    return kilni_onnx_emit(call, KILN_OP_CAST, &x, 1, &attr, 1);
}

kilni_onnx_ref kilni_onnx_reshape(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *dims,
                                  uint32_t rank)
{
    if (!kilni_onnx_ok(call) || x == NULL || has_dims(x, dims, rank)) {
        return x;
    }
    const kiln_attr attr = kilni_attr_ints(dims, rank);
    return kilni_onnx_emit(call, KILN_OP_RESHAPE, &x, 1, &attr, 1);
}

kilni_onnx_ref kilni_onnx_expand(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *dims,
                                 uint32_t rank)
{
    if (!kilni_onnx_ok(call) || x == NULL || has_dims(x, dims, rank)) {
        return x;
    }
    const kiln_attr attr = kilni_attr_ints(dims, rank);
    return kilni_onnx_emit(call, KILN_OP_EXPAND, &x, 1, &attr, 1);
}

kilni_onnx_ref kilni_onnx_permute(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *axes,
                                  uint32_t count)
{
    const kiln_attr attr = kilni_attr_ints(axes, count);
    return kilni_onnx_emit(call, KILN_OP_PERMUTE, &x, 1, &attr, 1);
}

kilni_onnx_ref kilni_onnx_slice(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *starts,
                                const int64_t *ends, const int64_t *steps)
{
    if (!kilni_onnx_ok(call) || x == NULL) {
        return NULL;
    }
    const kiln_attr attrs[] = {kilni_attr_ints(starts, x->desc.rank),
                               kilni_attr_ints(ends, x->desc.rank),
                               kilni_attr_ints(steps, x->desc.rank)};
    return kilni_onnx_emit(call, KILN_OP_SLICE, &x, 1, attrs, 3);
}

kilni_onnx_ref kilni_onnx_slice_axis(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis,
                                     int64_t start, int64_t end, int64_t step)
{
    int64_t starts[KILN_MAX_RANK];
    int64_t ends[KILN_MAX_RANK];
    int64_t steps[KILN_MAX_RANK];
    if (!kilni_onnx_ok(call) || x == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        starts[i] = i == axis ? start : 0;
        ends[i] = i == axis ? end : x->desc.dims[i];
        steps[i] = i == axis ? step : 1;
    }
    return kilni_onnx_slice(call, x, starts, ends, steps);
}

kilni_onnx_ref kilni_onnx_reduce(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                 const int64_t *axes, uint32_t count, bool keepdims)
{
    const kiln_attr attrs[] = {kilni_attr_ints(axes, count), kilni_attr_bool(keepdims)};
    return kilni_onnx_emit(call, op, &x, 1, attrs, 2);
}

kilni_onnx_ref kilni_onnx_argreduce(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                    int64_t axis, bool keepdims, bool last)
{
    const kiln_attr attrs[] = {kilni_attr_i64(axis), kilni_attr_bool(keepdims),
                               kilni_attr_bool(last)};
    return kilni_onnx_emit(call, op, &x, 1, attrs, 3);
}

kilni_onnx_ref kilni_onnx_with_axis(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                    int64_t axis)
{
    const kiln_attr attr = kilni_attr_i64(axis);
    return kilni_onnx_emit(call, op, &x, 1, &attr, 1);
}

kilni_onnx_ref kilni_onnx_indexed(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                  kilni_onnx_ref indices, int64_t axis)
{
    const kiln_attr attr = kilni_attr_i64(axis);
    const kilni_onnx_ref inputs[] = {x, indices};
    return kilni_onnx_emit(call, op, inputs, 2, &attr, 1);
}

/// Level by level, so that an element is copied once a level and not once a part.
static uint32_t join_level(kilni_onnx_call *call, kilni_onnx_ref *parts, uint32_t count,
                           const kiln_attr *axis)
{
    uint32_t joined = 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < count; i += KILN_MAX_INPUTS) {
        uint32_t n = count - i < KILN_MAX_INPUTS ? count - i : KILN_MAX_INPUTS;
        parts[joined++] =
            n == 1 ? parts[i] : kilni_onnx_emit(call, KILN_OP_CONCAT, parts + i, n, axis, 1);
    }
    return joined;
}

kilni_onnx_ref kilni_onnx_concat(kilni_onnx_call *call, const kilni_onnx_ref *inputs,
                                 uint32_t count, int64_t axis)
{
    const kiln_attr attr = kilni_attr_i64(axis);
    kilni_onnx_ref few[KILN_MAX_INPUTS];
    kilni_onnx_ref *parts = few;
    if (!kilni_onnx_ok(call) || count == 0) {
        return NULL;
    }
    kilni_onnx_ref longer =
        count == 2 ? kilni_onnx_lengthen(call, inputs[0], inputs[1], axis) : NULL;
    if (longer != NULL) {
        return longer;
    }
    if (count > KILN_MAX_INPUTS) {
        parts = kiln_alloc_array(&call->session->env, count, sizeof(*parts));
        if (parts == NULL) {
            KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %u values", count);
            return NULL;
        }
    }
    memcpy(parts, inputs, count * sizeof(*parts));
    while (kilni_onnx_ok(call) && count > 1) {
        count = join_level(call, parts, count, &attr);
    }
    kilni_onnx_ref whole = kilni_onnx_ok(call) ? parts[0] : NULL;
    if (parts != few) {
        kiln_free(&call->session->env, parts);
    }
    return whole;
}

kilni_onnx_ref kilni_onnx_pad(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *padding,
                              const char *mode, kiln_number value)
{
    if (!kilni_onnx_ok(call) || x == NULL) {
        return NULL;
    }
    const kiln_attr attrs[] = {
        kilni_attr_ints(padding, 2u * x->desc.rank),
        {.type = KILN_ATTR_STRING, .count = (uint32_t)strlen(mode), .v.text = mode},
        kilni_onnx_a_number(value)};
    return kilni_onnx_emit(call, KILN_OP_PAD, &x, 1, attrs, 3);
}

kilni_onnx_ref kilni_onnx_matmul(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                                 bool transpose_a, bool transpose_b)
{
    const kilni_onnx_ref inputs[] = {a, b};
    const kiln_attr attrs[] = {kilni_attr_bool(transpose_a), kilni_attr_bool(transpose_b)};
    return kilni_onnx_emit(call, KILN_OP_MATMUL, inputs, 2, attrs, 2);
}

kilni_onnx_ref kilni_onnx_full(kilni_onnx_call *call, kiln_dtype dtype, const int64_t *dims,
                               uint32_t rank, kiln_number value)
{
    const kiln_attr attrs[] = {kilni_attr_ints(dims, rank), kilni_attr_dtype(dtype),
                               kilni_onnx_a_number(value)};
    return kilni_onnx_emit(call, KILN_OP_FULL, NULL, 0, attrs, 3);
}

kilni_onnx_ref kilni_onnx_arange(kilni_onnx_call *call, kiln_dtype dtype, int64_t count,
                                 kiln_number start, kiln_number step)
{
    const kiln_attr attrs[] = {kilni_attr_i64(count), kilni_attr_dtype(dtype),
                               kilni_onnx_a_number(start), kilni_onnx_a_number(step)};
    return kilni_onnx_emit(call, KILN_OP_ARANGE, NULL, 0, attrs, 4);
}
