// SPDX-License-Identifier: MIT OR Apache-2.0
// com.microsoft's GatherBlockQuantized: rows of a table whose blocks have scales and zero points.
// What is taken is taken as bytes and becomes floats behind it, so that a large table stays small.
#include "onnx_parts.h"

typedef struct table_of_blocks {
    kilni_onnx_ref data, scales, zeros, indices;
    int64_t bits, block;
    uint32_t axis, along; ///< of the gather; of the blocks
    bool packed; ///< several values in a byte
} table_of_blocks;

/// Bytes of 2 or 4 bits a value, low bits first, as a byte for each: `count` along the last axis.
static kilni_onnx_ref unpacked_bits(kilni_onnx_call *call, kilni_onnx_ref x, int64_t bits,
                                    int64_t count)
{
    kilni_onnx_ref parts[4] = {NULL};
    int64_t dims[KILN_MAX_RANK + 1] = {0};
    int64_t each = 8 / bits;
    if (!kilni_onnx_ok(call) || x == NULL || bits == 8) {
        return x;
    }
    uint32_t rank = x->desc.rank;
    if (rank >= KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "packed values of rank %u", rank);
        return NULL;
    }
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = x->desc.dims[i];
    }
    dims[rank] = 1;
    for (int64_t i = 0; i < each; i++) {
        parts[i] = kilni_onnx_scalar_int(call, KILN_OP_SHIFT_RIGHT_SCALAR, x, i * bits);
        parts[i] = kilni_onnx_scalar_int(call, KILN_OP_BITWISE_AND_SCALAR, parts[i],
                                         (INT64_C(1) << bits) - 1);
        parts[i] = kilni_onnx_reshape(call, parts[i], dims, rank + 1);
    }
    dims[rank - 1] *= each;
    kilni_onnx_ref y = kilni_onnx_concat(call, parts, (uint32_t)each, rank);
    y = kilni_onnx_reshape(call, y, dims, rank);
    return count < dims[rank - 1] ? kilni_onnx_slice_axis(call, y, rank - 1, 0, count, 1) : y;
}

static kilni_onnx_ref taken_from(kilni_onnx_call *call, const table_of_blocks *t, kilni_onnx_ref x)
{
    return x == NULL ? NULL : kilni_onnx_take(call, x, t->indices, t->axis);
}

/// (data - zero points) * scales, blocks along `along`.
static kilni_onnx_ref floats_of_blocks(kilni_onnx_call *call, const table_of_blocks *t,
                                       kilni_onnx_ref data, kilni_onnx_ref scales,
                                       kilni_onnx_ref zeros, uint32_t along)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    kiln_dtype dtype = scales->desc.dtype;
    uint32_t last = data->desc.rank - 1u;
    data = unpacked_bits(call, data, t->packed ? t->bits : 8, INT64_MAX);
    zeros = unpacked_bits(call, zeros, t->packed ? t->bits : 8, scales->desc.dims[last]);
    kilni_onnx_ref y = kilni_onnx_cast(call, data, KILN_DTYPE_F32);
    if (zeros != NULL) {
        zeros = kilni_onnx_over_blocks(call, kilni_onnx_cast(call, zeros, KILN_DTYPE_F32), &y->desc,
                                       along, t->block);
        y = kilni_onnx_binary(call, KILN_OP_SUB, y, zeros);
    } else if (kilni_onnx_ok(call) && t->data->narrow == 0) {
        y = kilni_onnx_scalar(call, KILN_OP_SUB_SCALAR, y, (double)(1 << (t->bits - 1)));
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    scales = kilni_onnx_over_blocks(call, kilni_onnx_cast(call, scales, KILN_DTYPE_F32), &y->desc,
                                    along, t->block);
    return kilni_onnx_cast(call, kilni_onnx_binary(call, KILN_OP_MUL, y, scales), dtype);
}

static void read_table(kilni_onnx_call *call, table_of_blocks *t)
{
    t->data = kilni_onnx_in(call, 0);
    t->indices = kilni_onnx_in(call, 1);
    t->scales = kilni_onnx_in(call, 2);
    t->zeros = kilni_onnx_opt(call, 3);
    t->bits = kilni_onnx_attr_int(call, "bits", 4);
    t->block = kilni_onnx_attr_int(call, "block_size", 128);
    int64_t axis = kilni_onnx_attr_int(call, "gather_axis", 0);
    int64_t along = kilni_onnx_attr_int(call, "quantize_axis", 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t rank = t->data->desc.rank;
    t->axis = kilni_onnx_axis(call, axis, rank);
    t->along = kilni_onnx_axis(call, along, rank);
    bool bytes = t->data->narrow == 0;
    t->packed = bytes && t->bits < 8;
    if (rank < 1 || t->scales->desc.rank != rank || t->block < 1 ||
        (bytes && t->data->desc.dtype != KILN_DTYPE_U8) || !kilni_onnx_is_float(t->scales) ||
        (t->bits != 2 && t->bits != 4 && t->bits != 8) ||
        (bytes && (t->axis != 0 || (t->packed && t->along == 0)))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "data of %s and rank %u, scales of %s and rank %u, %lld bits, blocks of "
                        "%lld along axis %u, taken along axis %u",
                        kiln_dtype_name(t->data->desc.dtype), rank,
                        kiln_dtype_name(t->scales->desc.dtype), t->scales->desc.rank,
                        (long long)t->bits, (long long)t->block, t->along, t->axis);
    } else if (t->zeros != NULL && t->zeros->desc.rank != rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "zero_points of rank %u for data of rank %u",
                        t->zeros->desc.rank, rank);
    }
}

void kilni_onnx_op_gather_block_quantized(kilni_onnx_call *call)
{
    table_of_blocks t = {0};
    read_table(call, &t);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (t.axis == t.along) { // a block is not taken whole
        kilni_onnx_ref all = floats_of_blocks(call, &t, t.data, t.scales, t.zeros, t.along);
        kilni_onnx_out(call, 0, kilni_onnx_take(call, all, t.indices, t.axis));
        return;
    }
    uint32_t along = t.along < t.axis ? t.along : t.along + t.indices->desc.rank - 1u;
    kilni_onnx_out(call, 0,
                   floats_of_blocks(call, &t, taken_from(call, &t, t.data),
                                    taken_from(call, &t, t.scales), taken_from(call, &t, t.zeros),
                                    along));
}
