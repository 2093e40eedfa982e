// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators that take by index, or compare indices: gathers, one-hot, triangles. Device code
// clamps indices; here they are only passed on.
#include "onnx_parts.h"

/// Indices of the types that the operators take.
static kilni_onnx_ref as_indices(kilni_onnx_call *call, kilni_onnx_ref indices)
{
    bool fits = !kilni_onnx_ok(call) || indices->desc.dtype == KILN_DTYPE_I32;
    return fits ? indices : kilni_onnx_cast(call, indices, KILN_DTYPE_I64);
}

kilni_onnx_ref kilni_onnx_take(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref indices,
                               int64_t along)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    uint32_t axis = kilni_onnx_axis(call, along, x->desc.rank);
    uint32_t rank = x->desc.rank + indices->desc.rank - 1u;
    if (kilni_onnx_ok(call) && rank > KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "rank %u exceeds limit %d", rank, KILN_MAX_RANK);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    int64_t dims[KILN_MAX_RANK];
    uint32_t at = 0;
    for (uint32_t i = 0; i < axis; i++) {
        dims[at++] = x->desc.dims[i];
    }
    for (uint32_t i = 0; i < indices->desc.rank; i++) {
        dims[at++] = indices->desc.dims[i];
    }
    for (uint32_t i = axis + 1; i < x->desc.rank; i++) {
        dims[at++] = x->desc.dims[i];
    }
    const int64_t flat[] = {kiln_desc_count(&indices->desc)};
    indices = kilni_onnx_reshape(call, as_indices(call, indices), flat, 1);
    kilni_onnx_ref taken = kilni_onnx_indexed(call, KILN_OP_SELECT, x, indices, axis);
    return kilni_onnx_reshape(call, taken, dims, rank);
}

void kilni_onnx_op_gather(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref indices = kilni_onnx_in(call, 1);
    int64_t axis = kilni_onnx_attr_int(call, "axis", 0);
    kilni_onnx_out(call, 0, kilni_onnx_take(call, x, indices, axis));
}

void kilni_onnx_op_gather_elements(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref indices = as_indices(call, kilni_onnx_in(call, 1));
    int64_t axis = kilni_onnx_attr_int(call, "axis", 0);
    kilni_onnx_out(call, 0, kilni_onnx_indexed(call, KILN_OP_GATHER, x, indices, axis));
}

void kilni_onnx_op_gather_nd(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0),
                                     as_indices(call, kilni_onnx_in(call, 1))};
    const kiln_attr batch = kilni_attr_i64(kilni_onnx_attr_int(call, "batch_dims", 0));
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_GATHER_ND, inputs, 2, &batch, 1));
}

// ---- comparing indices ----

void kilni_onnx_op_one_hot(kilni_onnx_call *call)
{
    kiln_number depth = kilni_onnx_value_number(call, kilni_onnx_in(call, 1));
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 2),
                                     kilni_onnx_cast(call, kilni_onnx_in(call, 0), KILN_DTYPE_I64)};
    const kiln_attr attrs[] = {kilni_attr_i64(depth.is_integer ? depth.v.i : (int64_t)depth.v.f),
                               kilni_attr_i64(kilni_onnx_attr_int(call, "axis", -1))};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_ONE_HOT, inputs, 2, attrs, 2));
}

void kilni_onnx_op_trilu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref offset = kilni_onnx_opt(call, 1);
    int64_t k = offset == NULL ? 0 : kilni_onnx_value_number(call, offset).v.i;
    bool upper = kilni_onnx_attr_int(call, "upper", 1) != 0;
    const kiln_attr attr = kilni_attr_i64(k);
    kiln_op op = upper ? KILN_OP_TRIU : KILN_OP_TRIL;
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, op, &x, 1, &attr, 1));
}

void kilni_onnx_op_eye_like(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t k = kilni_onnx_attr_int(call, "k", 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "dtype", x->desc.dtype);
    const kiln_attr attrs[] = {kilni_attr_ints(x->desc.dims, x->desc.rank), kilni_attr_dtype(dtype),
                               kilni_attr_i64(k)};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_EYE, NULL, 0, attrs, 3));
}
