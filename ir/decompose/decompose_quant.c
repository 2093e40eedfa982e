// SPDX-License-Identifier: MIT OR Apache-2.0
// Dynamic quantisation as reductions over blocks, and products of quantised tensors as products of
// what they stand for. The rounding of scales is that of reference_quant.c.
#include <string.h>

#include "decompose_internal.h"
#include "ir_quant.h"

typedef struct split { ///< x with each blocked axis as two: number of the block, place in it
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank;
    int64_t inner[KILN_MAX_RANK]; ///< axes to reduce
    uint32_t n_inner;
    int64_t padding[2 * KILN_MAX_RANK];
    bool padded;
} split;

static bool add_axis(split *s, int64_t length, bool inner)
{
    if (s->rank == KILN_MAX_RANK) {
        return false;
    }
    if (inner) {
        s->inner[s->n_inner++] = (int64_t)s->rank;
    }
    s->dims[s->rank++] = length;
    return true;
}

static bool split_of(const kiln_tensor_desc *x, const kiln_tensor_desc *out, split *s)
{
    bool ok = true;
    memset(s, 0, sizeof(*s));
    for (uint32_t i = 0; i < x->rank && ok; i++) {
        int64_t block = kiln_scheme_block(out->scheme, i);
        if (block == 0 || block >= x->dims[i]) {
            ok = add_axis(s, x->dims[i], true);
            continue;
        }
        int64_t count = x->dims[i] / block + (x->dims[i] % block != 0 ? 1 : 0);
        s->padding[x->rank + i] = count * block - x->dims[i];
        s->padded = s->padded || s->padding[x->rank + i] > 0;
        ok = add_axis(s, count, false) && add_axis(s, block, true);
    }
    return ok;
}

/// `op` of the elements of each block, with as many axes as blocks lie along.
static kilni_value reduce_blocks(kiln_expander *x, kiln_op op, kilni_value value, const split *s,
                                 uint32_t rank)
{
    if (s->padded) {
        const kiln_attr attrs[] = {
            {.type = KILN_ATTR_I64_LIST, .count = 2 * rank, .v.ints = s->padding},
            {.type = KILN_ATTR_NONE},
            {.type = KILN_ATTR_NONE},
        };
        kilni_value padded = 0;
        kilni_expand_op(x, KILN_OP_PAD, &value, 1, attrs, 3, &padded);
        value = padded;
    }
    value = kilni_expand_reshape(x, value, s->dims, s->rank);
    return s->n_inner > 0 ? kilni_expand_reduce(x, op, value, s->inner, s->n_inner, false) : value;
}

static kilni_value mean_of_blocks(kiln_expander *x, kilni_value value, const split *s)
{
    const kiln_tensor_desc desc = kilni_expand_desc(x, value);
    kilni_value ones = kilni_expand_full(x, desc.dims, desc.rank, desc.dtype, 1);
    kilni_value sum = reduce_blocks(x, KILN_OP_SUM, value, s, desc.rank);
    return kilni_expand_2(x, KILN_OP_DIV, sum, reduce_blocks(x, KILN_OP_SUM, ones, s, desc.rank));
}

/// kilni_ir_quant_scale
static kilni_value scale_from(kiln_expander *x, kilni_value range, kiln_dtype dtype,
                              kiln_dtype scale_dtype)
{
    float factor = (float)(2.0 / (kiln_quant_highest(dtype) - kiln_quant_lowest(dtype)));
    kilni_value scale = kilni_x_scale(x, kilni_expand_cast(x, range, KILN_DTYPE_F32), factor);
    if (scale_dtype == KILN_DTYPE_F32) {
        return scale;
    }
    bool half = scale_dtype == KILN_DTYPE_F16;
    scale = kilni_expand_scalar(x, KILN_OP_CLAMP_MIN, scale, half ? 0x1p-14 : 0x1p-126);
    kilni_value narrow = kilni_expand_cast(x, scale, scale_dtype);
    kilni_value more = kilni_x_scale(x, scale, half ? 1 + 0x1p-10 : 1 + 0x1p-7);
    more = kilni_expand_cast(x, more, scale_dtype);
    kilni_value below =
        kilni_expand_2(x, KILN_OP_LESS, kilni_expand_cast(x, narrow, KILN_DTYPE_F32), scale);
    return kilni_expand_3(x, KILN_OP_WHERE, more, narrow, below);
}

static kilni_value scales_of(kiln_expander *expander, const kiln_quant_layout *layout)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const kiln_tensor_desc *out = &call->outputs[0];
    kiln_dtype scale_dtype = kiln_scheme_scale(out->scheme);
    split s;
    if (layout->count == 0) {
        return kilni_expand_full(expander, layout->blocks, out->rank, scale_dtype, 0);
    }
    if (!split_of(&call->inputs[0], out, &s)) {
        kilni_expand_fail(expander, KILN_STATUS_UNIMPLEMENTED,
                          "rank and blocked axes together exceed 8");
        return 0;
    }
    bool mean = strcmp(kilni_ir_text(call, KILN_KEY_MODE), "abs_mean") == 0;
    kilni_value x = kilni_x_input(expander, 0);
    if (mean || s.n_inner == 0) {
        x = kilni_expand_1(expander, KILN_OP_ABS, x);
    }
    kilni_value range = mean
                            ? mean_of_blocks(expander, x, &s)
                            : reduce_blocks(expander, KILN_OP_MAX_ABS, x, &s, call->inputs[0].rank);
    return kilni_expand_reshape(expander, scale_from(expander, range, out->dtype, scale_dtype),
                                layout->blocks, out->rank);
}

void kiln_decompose_quantize_dynamic(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    kiln_quant_layout layout;
    if (!kiln_quant_layout_of(&call->outputs[0], &layout)) {
        kilni_expand_fail(expander, KILN_STATUS_INTERNAL, "the result has no layout");
        return;
    }
    const kilni_value inputs[] = {kilni_expand_input(expander, 0), scales_of(expander, &layout)};
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_QUANTIZE, inputs, 2, call->attrs, 2, &result);
    kilni_expand_output(expander, 0, result);
}

static kilni_value plain(kiln_expander *expander, uint32_t index, kiln_dtype dtype)
{
    kilni_value x = kilni_expand_input(expander, index);
    if (x == 0 || kiln_dtype_kind_of(kilni_expand_desc(expander, x).dtype) != KILN_KIND_QUANT) {
        return x;
    }
    const kiln_attr attr = {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)dtype};
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_DEQUANTIZE, &x, 1, &attr, 1, &result);
    return result;
}

void kiln_decompose_matmul_quantized(kiln_expander *expander)
{
    kiln_dtype dtype = kilni_expand_call(expander)->outputs[0].dtype;
    kilni_value a = plain(expander, 0, dtype);
    kilni_value b = plain(expander, 1, dtype);
    kilni_expand_output(expander, 0,
                        kilni_expand_matmul(expander, a, b,
                                            kilni_x_i64(expander, KILN_KEY_TRANSPOSE_A) != 0,
                                            kilni_x_i64(expander, KILN_KEY_TRANSPOSE_B) != 0));
}

void kiln_decompose_linear_quantized(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    kilni_value inputs[3] = {kilni_expand_input(expander, 0), kilni_expand_input(expander, 1),
                             kilni_expand_input(expander, 2)};
    kiln_dtype dtype = call->inputs[0].dtype;
    kilni_value result = 0;
    const kiln_tensor_desc *x = &call->inputs[0];
    int64_t rows[2] = {1, x->dims[x->rank - 1]};
    for (uint32_t i = 0; i + 1 < x->rank; i++) {
        rows[0] *= x->dims[i];
    }
    const kiln_attr attrs[] = {{.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)dtype},
                               {.type = KILN_ATTR_NONE},
                               {.type = KILN_ATTR_NONE}};
    const kilni_value operands[] = {kilni_expand_reshape(expander, inputs[0], rows, 2), inputs[1]};
    kilni_expand_op(expander, KILN_OP_MATMUL_QUANTIZED, operands, 2, attrs, 3, &result);
    result = inputs[2] == 0 ? result : kilni_x_add(expander, result, inputs[2]);
    kilni_expand_output(
        expander, 0,
        kilni_expand_reshape(expander, result, call->outputs[0].dims, call->outputs[0].rank));
}
