// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators that take by index, or compare indices: gathers, one-hot, triangles, and
// resizing, which is a weighted sum of elements taken along one axis after the other. Device code
// clamps indices; here they are only computed.
#include "onnx_import.h"

#include <math.h>
#include <string.h>

/* Indices of the types that the operators take. */
static kilni_onnx_ref as_indices(kilni_onnx_call *call, kilni_onnx_ref indices)
{
    bool fits = !kilni_onnx_ok(call) || indices->desc.dtype == KILN_DTYPE_I32;
    return fits ? indices : kilni_onnx_cast(call, indices, KILN_DTYPE_I64);
}

void kilni_onnx_op_gather(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref indices = kilni_onnx_in(call, 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", 0), x->desc.rank);
    uint32_t rank = x->desc.rank + indices->desc.rank - 1u;
    if (kilni_onnx_ok(call) && rank > KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "rank %u exceeds limit %d", rank, KILN_MAX_RANK);
    }
    if (!kilni_onnx_ok(call)) {
        return;
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
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, taken, dims, rank));
}

void kilni_onnx_op_gather_elements(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref indices = as_indices(call, kilni_onnx_in(call, 1));
    int64_t axis = kilni_onnx_attr_int(call, "axis", 0);
    kilni_onnx_out(call, 0, kilni_onnx_indexed(call, KILN_OP_GATHER, x, indices, axis));
}

/* Row numbers of x, seen as [rows, rest], from tuples of indices along its axes from `first` on. */
static kilni_onnx_ref row_numbers(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref indices,
                                  uint32_t first, uint32_t depth)
{
    uint32_t last_axis = indices->desc.rank - 1u;
    kilni_onnx_ref rows = NULL;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < depth; i++) {
        int64_t stride = kilni_onnx_span_of(&x->desc, first + i + 1, first + depth);
        int64_t length = x->desc.dims[first + i];
        kilni_onnx_ref part = kilni_onnx_slice_axis(call, indices, last_axis, i, i + 1, 1);
        /* The remainder has the sign of the length: a negative index counts from the end. */
        part = kilni_onnx_scalar_int(call, KILN_OP_REM_SCALAR, part, length);
        part = kilni_onnx_scalar_int(call, KILN_OP_MUL_SCALAR, part, stride);
        rows = rows == NULL ? part : kilni_onnx_binary(call, KILN_OP_ADD, rows, part);
    }
    return rows;
}

void kilni_onnx_op_gather_nd(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref indices = kilni_onnx_in(call, 1);
    int64_t batch = kilni_onnx_attr_int(call, "batch_dims", 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t n = indices->desc.rank;
    int64_t depth = n == 0 ? 0 : indices->desc.dims[n - 1];
    if (n == 0 || batch < 0 || batch >= n || depth < 1 || batch + depth > x->desc.rank ||
        n - 1 + x->desc.rank - batch - depth > KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "indices of rank %u and depth %lld for rank %u", n,
                        (long long)depth, x->desc.rank);
        return;
    }
    uint32_t first = (uint32_t)batch;
    uint32_t end = first + (uint32_t)depth;
    int64_t batches = kilni_onnx_span_of(&x->desc, 0, first);
    int64_t rows_each = kilni_onnx_span_of(&x->desc, first, end);
    indices = kilni_onnx_cast(call, indices, KILN_DTYPE_I64);
    kilni_onnx_ref rows = row_numbers(call, x, indices, first, (uint32_t)depth);
    const int64_t grid[] = {batches, kilni_onnx_span_of(&indices->desc, first, n - 1)};
    rows = kilni_onnx_reshape(call, rows, grid, 2);
    if (first > 0) {
        const int64_t column[] = {batches, 1};
        kilni_onnx_ref start =
            kilni_onnx_arange(call, KILN_DTYPE_I64, batches, kiln_i64(0), kiln_i64(rows_each));
        rows =
            kilni_onnx_binary(call, KILN_OP_ADD, rows, kilni_onnx_reshape(call, start, column, 2));
    }
    const int64_t flat[] = {grid[0] * grid[1]};
    const int64_t table[] = {batches * rows_each, kilni_onnx_span_of(&x->desc, end, x->desc.rank)};
    rows = kilni_onnx_reshape(call, rows, flat, 1);
    kilni_onnx_ref taken =
        kilni_onnx_indexed(call, KILN_OP_SELECT, kilni_onnx_reshape(call, x, table, 2), rows, 0);
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i + 1 < n; i++) {
        dims[rank++] = indices->desc.dims[i];
    }
    for (uint32_t i = end; i < x->desc.rank; i++) {
        dims[rank++] = x->desc.dims[i];
    }
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, taken, dims, rank));
}

// ---- comparing indices ------------------------------------------------------

/* 0, 1, ... along one axis of a shape of `rank` axes, length 1 elsewhere. */
static kilni_onnx_ref ramp(kilni_onnx_call *call, kiln_dtype dtype, int64_t length, uint32_t axis,
                           uint32_t rank)
{
    int64_t dims[KILN_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == axis ? length : 1;
    }
    kilni_onnx_ref places = kilni_onnx_arange(call, dtype, length, kiln_i64(0), kiln_i64(1));
    return kilni_onnx_reshape(call, places, dims, rank);
}

void kilni_onnx_op_one_hot(kilni_onnx_call *call)
{
    kilni_onnx_ref indices = kilni_onnx_in(call, 0);
    kiln_number depth = kilni_onnx_value_number(call, kilni_onnx_in(call, 1));
    kilni_onnx_ref values = kilni_onnx_in(call, 2);
    int64_t length = depth.is_integer ? depth.v.i : (int64_t)depth.v.f;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t rank = indices->desc.rank + 1u;
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", -1), rank);
    if (rank > KILN_MAX_RANK || length < 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "depth %lld for indices of rank %u",
                        (long long)length, rank - 1);
        return;
    }
    int64_t dims[KILN_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == axis ? 1 : indices->desc.dims[i < axis ? i : i - 1];
    }
    const int64_t whole[] = {1};
    kilni_onnx_ref at = kilni_onnx_cast(call, indices, KILN_DTYPE_I64);
    kilni_onnx_ref negative = kilni_onnx_scalar_int(call, KILN_OP_LESS_SCALAR, at, 0);
    kilni_onnx_ref moved = kilni_onnx_scalar_int(call, KILN_OP_ADD_SCALAR, at, length);
    at = kilni_onnx_reshape(call, kilni_onnx_where(call, negative, moved, at), dims, rank);
    kilni_onnx_ref hit =
        kilni_onnx_binary(call, KILN_OP_EQUAL, at, ramp(call, KILN_DTYPE_I64, length, axis, rank));
    kilni_onnx_ref off = kilni_onnx_slice_axis(call, values, 0, 0, 1, 1);
    kilni_onnx_ref on = kilni_onnx_slice_axis(call, values, 0, 1, 2, 1);
    kilni_onnx_out(call, 0,
                   kilni_onnx_where(call, hit, kilni_onnx_reshape(call, on, whole, 1),
                                    kilni_onnx_reshape(call, off, whole, 1)));
}

/* column - row of a matrix of the given lengths */
static kilni_onnx_ref diagonals(kilni_onnx_call *call, int64_t rows, int64_t columns)
{
    kilni_onnx_ref row = ramp(call, KILN_DTYPE_I64, rows, 0, 2);
    kilni_onnx_ref column = ramp(call, KILN_DTYPE_I64, columns, 1, 2);
    return kilni_onnx_binary(call, KILN_OP_SUB, column, row);
}

void kilni_onnx_op_trilu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref offset = kilni_onnx_opt(call, 1);
    int64_t k = offset == NULL ? 0 : kilni_onnx_value_number(call, offset).v.i;
    bool upper = kilni_onnx_attr_int(call, "upper", 1) != 0;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (x->desc.rank < 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rank %u is no matrix", x->desc.rank);
        return;
    }
    const int64_t *tail = &x->desc.dims[x->desc.rank - 2];
    kilni_onnx_ref diagonal = diagonals(call, tail[0], tail[1]);
    kiln_op outside = upper ? KILN_OP_LESS_SCALAR : KILN_OP_GREATER_SCALAR;
    kilni_onnx_ref mask = kilni_onnx_scalar_int(call, outside, diagonal, k);
    kilni_onnx_out(call, 0, kilni_onnx_mask_fill(call, x, mask, 0));
}

void kilni_onnx_op_eye_like(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t k = kilni_onnx_attr_int(call, "k", 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "dtype", x->desc.dtype);
    if (x->desc.rank != 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rank %u is no matrix", x->desc.rank);
        return;
    }
    kilni_onnx_ref hit = kilni_onnx_scalar_int(
        call, KILN_OP_EQUAL_SCALAR, diagonals(call, x->desc.dims[0], x->desc.dims[1]), k);
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, hit, dtype));
}
