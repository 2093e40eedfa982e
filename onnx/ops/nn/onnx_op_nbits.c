// SPDX-License-Identifier: MIT OR Apache-2.0
// com.microsoft's MatMulNBits: rows times the transposed of a constant weight of 2, 4 or 8 bits,
// with a scale and perhaps a zero point for each block along the sum. The weight becomes a
// quantised tensor of Kiln's, made once and kept with the constant: with its first bit flipped it
// counts from the middle of its range, as Kiln's values do (2 bits are made 4). Other zero points
// are another product, of the sums of the blocks' terms with what each block's values are off. A
// weight whose columns have groups of their own (g_idx), or an odd number of terms, becomes floats.
#include "ir_quant.h"
#include "onnx_run.h"

#include <string.h>

typedef struct nbits {
    int64_t k, n, bits, block;
    int64_t blocks; ///< along k
    kilni_onnx_ref b, scales, zeros;
    kilni_onnx_ref groups; ///< the block of each term; NULL: they follow each other
} nbits;

static bool is_block(int64_t length)
{
    return length >= 16 && length <= 16384 && (length & (length - 1)) == 0;
}

static bool has_constant(kilni_onnx_call *call, kilni_onnx_ref value, const char *name,
                         int64_t count)
{
    if (!kilni_onnx_ok(call)) {
        return false;
    }
    if (!value->constant || value->host == NULL) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "%s is no constant of the file", name);
    } else if (kiln_desc_count(&value->desc) != count) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%s has %lld elements, expected %lld", name,
                        (long long)kiln_desc_count(&value->desc), (long long)count);
    }
    return kilni_onnx_ok(call);
}

/// Bytes of `count` values packed.
static int64_t packed_bytes(const nbits *x, int64_t count)
{
    return (count * x->bits + 7) / 8;
}

/// Zero points have the type of the scales or are packed as the weight is, a row for each column.
static bool has_zeros(kilni_onnx_call *call, const nbits *x)
{
    if (x->zeros == NULL) {
        return true;
    }
    bool packed = x->zeros->desc.dtype == KILN_DTYPE_U8;
    if (!packed && x->zeros->desc.dtype != x->scales->desc.dtype) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "zero points of %s",
                        kiln_dtype_name(x->zeros->desc.dtype));
    }
    return has_constant(call, x->zeros, "the zero points",
                        x->n * (packed ? packed_bytes(x, x->blocks) : x->blocks));
}

static bool has_groups(kilni_onnx_call *call, const nbits *x)
{
    if (x->groups == NULL) {
        return true;
    }
    if (x->groups->desc.dtype != KILN_DTYPE_I32) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "g_idx of %s, not i32",
                        kiln_dtype_name(x->groups->desc.dtype));
    }
    if (!has_constant(call, x->groups, "g_idx", x->k)) {
        return false;
    }
    for (int64_t i = 0; i < x->k; i++) {
        int32_t group = 0;
        memcpy(&group, (const uint8_t *)x->groups->host + 4 * i, 4);
        if (group < 0 || group >= x->blocks) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "g_idx names block %d of %lld", group,
                            (long long)x->blocks);
            return false;
        }
    }
    return true;
}

static bool read_node(kilni_onnx_call *call, nbits *x)
{
    memset(x, 0, sizeof(*x));
    x->k = kilni_onnx_attr_int(call, "K", 0);
    x->n = kilni_onnx_attr_int(call, "N", 0);
    x->bits = kilni_onnx_attr_int(call, "bits", 4);
    x->block = kilni_onnx_attr_int(call, "block_size", 0);
    x->b = kilni_onnx_in(call, 1);
    x->scales = kilni_onnx_in(call, 2);
    x->zeros = kilni_onnx_opt(call, 3);
    x->groups = kilni_onnx_opt(call, 4);
    int64_t prepacked = kilni_onnx_attr_int(call, "weight_prepacked", 0);
    if (!kilni_onnx_ok(call)) {
        return false;
    }
    if ((x->bits != 2 && x->bits != 4 && x->bits != 8) || prepacked != 0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED,
                        "values of %lld bits, weight_prepacked %lld: 2, 4 and 8 bits are supported "
                        "as the tools write them",
                        (long long)x->bits, (long long)prepacked);
    } else if (!is_block(x->block) || x->k < 1 || x->n < 1 || x->k > INT32_MAX ||
               x->n > INT32_MAX || x->b->desc.dtype != KILN_DTYPE_U8 ||
               !kilni_onnx_is_float(x->scales) || x->scales->desc.dtype == KILN_DTYPE_F64) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "K %lld, N %lld, blocks of %lld, a weight of %s and scales of %s",
                        (long long)x->k, (long long)x->n, (long long)x->block,
                        kiln_dtype_name(x->b->desc.dtype), kiln_dtype_name(x->scales->desc.dtype));
    }
    x->blocks = x->k / (x->block > 0 ? x->block : 1) + (x->block > 0 && x->k % x->block != 0);
    return has_constant(call, x->b, "the weight", x->n * x->blocks * (x->block * x->bits / 8)) &&
           has_constant(call, x->scales, "the scales", x->n * x->blocks) && has_zeros(call, x) &&
           has_groups(call, x);
}

// ---- the weight ----

static uint32_t packed_value(const nbits *x, const kilni_onnx_value *packed, int64_t row_bytes,
                             int64_t row, int64_t at)
{
    const uint8_t *from = packed->host;
    int64_t bit = at * x->bits;
    return (uint32_t)from[row * row_bytes + bit / 8] >> (bit % 8) & ((1U << x->bits) - 1);
}

/// Two values of 2 bits, counted from 2, as a byte of Kiln's of 4.
static uint8_t widened(const nbits *x, int64_t row, int64_t at)
{
    int64_t row_bytes = packed_bytes(x, x->blocks * x->block);
    uint32_t low = packed_value(x, x->b, row_bytes, row, at) - 2;
    uint32_t high = packed_value(x, x->b, row_bytes, row, at + 1) - 2;
    return (uint8_t)((low & 15) | high << 4);
}

static void pack(const nbits *x, const kiln_quant_layout *layout, uint8_t *to)
{
    const uint8_t *from = x->b->host;
    uint8_t flip = x->bits == 4 ? 0x88 : 0x80;
    size_t row = (size_t)(x->bits == 8 ? x->k : x->k / 2);
    size_t padded = (size_t)packed_bytes(x, x->blocks * x->block);
    for (size_t i = 0; i < (size_t)x->n; i++) {
        for (size_t e = 0; e < row; e++) {
            to[i * row + e] =
                x->bits == 2 ? widened(x, (int64_t)i, 2 * (int64_t)e) : from[i * padded + e] ^ flip;
        }
    }
    memcpy(to + layout->scales_at, x->scales->host,
           (size_t)layout->scales * kiln_dtype_size(x->scales->desc.dtype));
}

/// What was made of a constant together with these scales and zero points; NULL: nothing.
static kilni_onnx_ref made_before(const kilni_onnx_value *of, const kilni_onnx_value *scales,
                                  const kilni_onnx_value *zeros, const kiln_tensor_desc *desc)
{
    const kilni_onnx_value *made = of->made;
    bool same = made != NULL && made->made_with[0] == scales && made->made_with[1] == zeros &&
                made->made_with[2] == NULL && made->desc.scheme == desc->scheme &&
                made->desc.dtype == desc->dtype && made->desc.dims[0] == desc->dims[0] &&
                made->desc.dims[1] == desc->dims[1];
    return same ? of->made : NULL;
}

/// Keeps it with the constant, and holds what else it was made of; nodes that share a constant take
/// turns.
static kilni_onnx_ref keep_made(kilni_onnx_call *call, kilni_onnx_ref of, kilni_onnx_ref scales,
                                kilni_onnx_ref zeros, kilni_onnx_ref made)
{
    kilni_onnx_release(&call->session->env, of->made);
    made->made_with[0] = kilni_onnx_retain(scales);
    made->made_with[1] = kilni_onnx_retain(zeros);
    of->made = made;
    return made;
}

/// Floats of the host, NULL when there was no memory for them, kept with a constant.
static kilni_onnx_ref keep_floats(kilni_onnx_call *call, kilni_onnx_ref of, kilni_onnx_ref scales,
                                  kilni_onnx_ref zeros, const kiln_tensor_desc *desc, float *take)
{
    kilni_onnx_ref made = take == NULL ? NULL : kilni_onnx_value_new(&call->session->env);
    if (made == NULL) {
        kiln_free(&call->session->env, take);
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %lld by %lld numbers",
                        (long long)desc->dims[0], (long long)desc->dims[1]);
        return NULL;
    }
    made->desc = *desc;
    made->constant = true;
    made->host = made->owned = take;
    return keep_made(call, of, scales, zeros, made);
}

/// A weight of these bytes, NULL when there was no memory for them, kept with its constant.
static kilni_onnx_ref keep_weight(kilni_onnx_call *call, kilni_onnx_ref of, kilni_onnx_ref scales,
                                  kilni_onnx_ref zeros, const kiln_tensor_desc *desc,
                                  uint8_t *take_bytes)
{
    const kiln_env *env = &call->session->env;
    kilni_onnx_ref made = kilni_onnx_value_new(env);
    if (made == NULL || take_bytes == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for a weight of %lld by %lld values",
                        (long long)desc->dims[0], (long long)desc->dims[1]);
    } else {
        made->desc = *desc;
        call->status =
            kiln_tensor_create_quantised(call->session->device, desc->dtype, desc->scheme, 2,
                                         desc->dims, take_bytes, &made->tensor, call->err);
    }
    kiln_free(env, take_bytes);
    if (!kilni_onnx_ok(call)) {
        kilni_onnx_release(env, made);
        return NULL;
    }
    kiln_tensor_mark_constant(made->tensor);
    return keep_made(call, of, scales, zeros, made);
}

static kilni_onnx_ref quantised(kilni_onnx_call *call, const nbits *x)
{
    const kiln_env *env = &call->session->env;
    const int64_t blocks[] = {1, x->block};
    kiln_quant_layout layout;
    kiln_tensor_desc desc = {.dtype = x->bits == 8 ? KILN_DTYPE_Q8F : KILN_DTYPE_Q4F, .rank = 2};
    desc.dims[0] = x->n;
    desc.dims[1] = x->k;
    desc.scheme = kiln_scheme_make(x->scales->desc.dtype, false, blocks, 2);
    if (!kilni_onnx_ok(call) || made_before(x->b, x->scales, NULL, &desc) != NULL) {
        return x->b->made;
    }
    if (!kiln_quant_layout_of(&desc, &layout)) {
        KILNI_ONNX_FAIL(call, INTERNAL, "a quantised weight has no layout");
        return NULL;
    }
    uint8_t *bytes = kiln_alloc(env, (size_t)layout.bytes);
    if (bytes != NULL) {
        pack(x, &layout, bytes);
    }
    return keep_weight(call, x->b, x->scales, NULL, &desc, bytes);
}

// ---- zero points ----

static float float_at(const kilni_onnx_value *x, int64_t i)
{
    const kiln_dtype dtype = x->desc.dtype;
    const uint8_t *at = (const uint8_t *)x->host + (size_t)i * kiln_dtype_size(dtype);
    uint16_t half = 0;
    float whole = 0;
    if (dtype == KILN_DTYPE_F32) {
        memcpy(&whole, at, sizeof(whole));
        return whole;
    }
    memcpy(&half, at, sizeof(half));
    return dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half);
}

/// What stands for 0 in a block: the middle of the range where nothing is given.
static float zero_of(const nbits *x, int64_t row, int64_t block)
{
    if (x->zeros == NULL) {
        return (float)(1 << (x->bits - 1));
    }
    if (x->zeros->desc.dtype != KILN_DTYPE_U8) {
        return float_at(x->zeros, row * x->blocks + block);
    }
    return (float)packed_value(x, x->zeros, packed_bytes(x, x->blocks), row, block);
}

/// What the values of each column's blocks are off, the middle of their range less the zero point,
/// times the block's scale.
static kilni_onnx_ref offsets(kilni_onnx_call *call, const nbits *x)
{
    kiln_tensor_desc desc = {.dtype = KILN_DTYPE_F32, .rank = 2, .dims = {x->n, x->blocks}};
    if (made_before(x->zeros, x->scales, NULL, &desc) != NULL) {
        return x->zeros->made;
    }
    float *off = kiln_alloc_array(&call->session->env, (size_t)(x->n * x->blocks), sizeof(*off));
    for (int64_t i = 0; off != NULL && i < x->n * x->blocks; i++) {
        float middle = (float)(1 << (x->bits - 1));
        off[i] = (middle - zero_of(x, i / x->blocks, i % x->blocks)) * float_at(x->scales, i);
    }
    return keep_floats(call, x->zeros, x->scales, NULL, &desc, off);
}

/// Sums of the terms of each block, times what its values are off.
static kilni_onnx_ref correction(kilni_onnx_call *call, const nbits *x, kilni_onnx_ref a)
{
    int64_t dims[KILN_MAX_RANK] = {0}, padding[2 * KILN_MAX_RANK] = {0};
    kilni_onnx_ref off = offsets(call, x);
    if (!kilni_onnx_ok(call) || a->desc.rank >= KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "rows of rank 8 and zero points");
        return NULL;
    }
    uint32_t rank = a->desc.rank, last = rank - 1;
    if (x->k % x->block != 0) {
        padding[rank + last] = x->blocks * x->block - x->k;
        a = kilni_onnx_pad(call, a, padding, "constant", kiln_f64(0));
    }
    memcpy(dims, a->desc.dims, last * sizeof(dims[0]));
    dims[last] = x->blocks;
    dims[rank] = x->block;
    const int64_t inner = rank;
    kilni_onnx_ref sums = kilni_onnx_reshape(call, a, dims, rank + 1);
    sums = kilni_onnx_reduce(call, KILN_OP_SUM, sums, &inner, 1, false);
    return kilni_onnx_matmul(call, sums, off, false, true);
}

// ---- the operator ----

/// The weight as floats: of terms that are in groups of their own, or odd in number.
static kilni_onnx_ref weight_floats(kilni_onnx_call *call, const nbits *x)
{
    kiln_tensor_desc desc = {.dtype = KILN_DTYPE_F32, .rank = 2, .dims = {x->n, x->k}};
    kilni_onnx_ref made = x->b->made;
    if (made != NULL && made->made_with[0] == x->scales && made->made_with[1] == x->zeros &&
        made->made_with[2] == x->groups && kiln_desc_same_shape(&made->desc, &desc) &&
        made->desc.dtype == KILN_DTYPE_F32) {
        return made;
    }
    int64_t row_bytes = packed_bytes(x, x->blocks * x->block);
    float *to = kiln_alloc_array(&call->session->env, (size_t)(x->n * x->k), sizeof(*to));
    for (int64_t i = 0; to != NULL && i < x->n * x->k; i++) {
        int64_t row = i / x->k, at = i % x->k;
        int32_t block = (int32_t)(at / x->block);
        if (x->groups != NULL) {
            memcpy(&block, (const uint8_t *)x->groups->host + 4 * at, 4);
        }
        to[i] = ((float)packed_value(x, x->b, row_bytes, row, at) - zero_of(x, row, block)) *
                float_at(x->scales, row * x->blocks + block);
    }
    made = keep_floats(call, x->b, x->scales, x->zeros, &desc, to);
    if (made != NULL) {
        made->made_with[2] = kilni_onnx_retain(x->groups);
    }
    return made;
}

static kilni_onnx_ref nbits_product(kilni_onnx_call *call, const nbits *x, kilni_onnx_ref a)
{
    a = kilni_onnx_cast(call, a, KILN_DTYPE_F32);
    if (x->groups != NULL || x->k % 2 != 0) {
        return kilni_onnx_matmul(call, a, weight_floats(call, x), false, true);
    }
    const kiln_attr attrs[] = {kilni_attr_dtype(KILN_DTYPE_F32), kilni_attr_bool(false),
                               kilni_attr_bool(true)};
    const kilni_onnx_ref inputs[] = {a, quantised(call, x)};
    kilni_onnx_ref y = kilni_onnx_emit(call, KILN_OP_MATMUL_QUANTIZED, inputs, 2, attrs, 3);
    return x->zeros == NULL || !kilni_onnx_ok(call)
               ? y
               : kilni_onnx_binary(call, KILN_OP_ADD, y, correction(call, x, a));
}

void kilni_onnx_op_matmul_nbits(kilni_onnx_call *call)
{
    nbits x;
    kilni_onnx_ref a = kilni_onnx_in(call, 0), bias = kilni_onnx_opt(call, 5);
    if (!read_node(call, &x)) {
        return;
    }
    if (a->desc.rank < 2 || a->desc.dims[a->desc.rank - 1] != x.k || !kilni_onnx_is_float(a)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "A is no matrix of floats with %lld columns",
                        (long long)x.k);
        return;
    }
    kilni_onnx_ref y = kilni_onnx_cast(call, nbits_product(call, &x, a), a->desc.dtype);
    kilni_onnx_out(call, 0, bias == NULL ? y : kilni_onnx_binary(call, KILN_OP_ADD, y, bias));
}

// ---- few rows by a dequantised matrix ----

enum { FEW_ROWS = 16, WHOLE_STEPS = 128 }; ///< beyond, and between, the floats are multiplied

void kilni_onnx_note_source(kilni_onnx_call *call, kilni_onnx_ref value)
{
    kilni_onnx_ref parts[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1),
                              kilni_onnx_opt(call, 2)};
    int64_t block = kilni_onnx_attr_int(call, "block_size", 0);
    int64_t axis = kilni_onnx_attr_int(call, "axis", 1);
    if (!kilni_onnx_ok(call) || value->desc.rank != 2 || value->desc.dtype != KILN_DTYPE_F32 ||
        value->constant || kilni_onnx_is_bits(parts[0]->narrow) ||
        kilni_onnx_is_bits(parts[1]->narrow) ||
        (parts[0]->desc.dtype != KILN_DTYPE_U8 && parts[0]->desc.dtype != KILN_DTYPE_I8)) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (parts[i] != NULL && (!parts[i]->constant || parts[i]->host == NULL)) {
            return;
        }
    }
    if (parts[2] != NULL && kiln_desc_count(&parts[2]->desc) != kiln_desc_count(&parts[1]->desc)) {
        return;
    }
    bool rows = axis == 0 || axis == -2;
    bool one = kiln_desc_count(&parts[1]->desc) == 1 && block == 0;
    bool fits =
        block == 0 ? one || !rows : rows && is_block(block) && value->desc.dims[0] % block == 0;
    kilni_onnx_source *source = fits ? kiln_alloc(&call->session->env, sizeof(*source)) : NULL;
    if (source != NULL) { // without memory it is multiplied as floats
        source->x = kilni_onnx_retain(parts[0]);
        source->scale = kilni_onnx_retain(parts[1]);
        source->zero = kilni_onnx_retain(parts[2]);
        source->block = block;
        value->source = source;
    }
}

/// Number of the scale and zero point of an element.
static int64_t scale_place(const kilni_onnx_source *from, int64_t row, int64_t col, int64_t columns)
{
    int64_t block = from->block > 0 ? row / from->block : 0;
    return kiln_desc_count(&from->scale->desc) == 1 ? 0 : block * columns + col;
}

static int32_t byte_at(const kilni_onnx_value *x, int64_t i)
{
    return x->desc.dtype == KILN_DTYPE_U8 ? ((const uint8_t *)x->host)[i]
                                          : ((const int8_t *)x->host)[i];
}

static int32_t less_zero(const kilni_onnx_source *from, int64_t row, int64_t col)
{
    int64_t columns = from->x->desc.dims[1];
    int32_t zero =
        from->zero == NULL ? 0 : byte_at(from->zero, scale_place(from, row, col, columns));
    return byte_at(from->x, row * columns + col) - zero;
}

/// The narrowest dtype that holds all values less their zero points; NONE: there is none.
static kiln_dtype narrowest(const kilni_onnx_source *from)
{
    int32_t low = 0, high = 0;
    for (int64_t row = 0; row < from->x->desc.dims[0]; row++) {
        for (int64_t col = 0; col < from->x->desc.dims[1]; col++) {
            int32_t value = less_zero(from, row, col);
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
    }
    return low >= -8 && high <= 7       ? KILN_DTYPE_Q4F
           : low >= -128 && high <= 127 ? KILN_DTYPE_Q8F
                                        : KILN_DTYPE_NONE;
}

/// The matrix with its columns as rows.
static void pack_turned(const kilni_onnx_source *from, const kiln_tensor_desc *desc,
                        const kiln_quant_layout *layout, uint8_t *to)
{
    int64_t n = desc->dims[0], k = desc->dims[1], blocks = layout->blocks[1];
    bool narrow = desc->dtype == KILN_DTYPE_Q4F;
    for (int64_t col = 0; col < n; col++) {
        for (int64_t row = 0; row < k; row += narrow ? 2 : 1) {
            uint32_t value = (uint32_t)less_zero(from, row, col);
            if (narrow) {
                value = (value & 15) | (uint32_t)less_zero(from, row + 1, col) << 4;
            }
            to[(col * k + row) / (narrow ? 2 : 1)] = (uint8_t)value;
        }
    }
    for (int64_t i = 0; i < layout->scales; i++) {
        int64_t row = i % blocks * from->block;
        memcpy(to + layout->scales_at + i * 4,
               (const float *)from->scale->host + scale_place(from, row, i / blocks, n), 4);
    }
}

/// Made at the first use; of dtype NONE where the values are too many.
static kilni_onnx_ref make_turned(kilni_onnx_call *call, kilni_onnx_source *from,
                                  kiln_tensor_desc *desc)
{
    kiln_quant_layout layout;
    desc->dtype = narrowest(from);
    if (desc->dtype == KILN_DTYPE_NONE || !kiln_quant_layout_of(desc, &layout)) {
        kilni_onnx_ref none = kilni_onnx_value_new(&call->session->env);
        if (none != NULL) {
            none->desc = *desc;
            none->desc.dtype = KILN_DTYPE_NONE;
            keep_made(call, from->x, from->scale, from->zero, none);
        }
        return NULL;
    }
    uint8_t *bytes = kiln_alloc(&call->session->env, (size_t)layout.bytes);
    if (bytes != NULL) {
        pack_turned(from, desc, &layout, bytes);
    }
    return keep_weight(call, from->x, from->scale, from->zero, desc, bytes);
}

static kilni_onnx_ref turned_weight(kilni_onnx_call *call, kilni_onnx_source *from)
{
    const kilni_onnx_value *x = from->x;
    const int64_t blocks[] = {1, from->block};
    bool one = kiln_desc_count(&from->scale->desc) == 1;
    kiln_tensor_desc desc = {.rank = 2, .dims = {x->desc.dims[1], x->desc.dims[0]}};
    desc.scheme = kiln_scheme_make(KILN_DTYPE_F32, false, blocks, one ? 0 : 2);
    desc.dtype = x->made == NULL ? KILN_DTYPE_NONE : x->made->desc.dtype;
    if (made_before(x, from->scale, from->zero, &desc) != NULL) {
        return desc.dtype == KILN_DTYPE_NONE ? NULL : x->made;
    }
    return make_turned(call, from, &desc);
}

kilni_onnx_ref kilni_onnx_matmul_few_rows(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b)
{
    if (!kilni_onnx_ok(call) || b->source == NULL || a->desc.dtype != KILN_DTYPE_F32 ||
        a->desc.rank < 2) {
        return NULL;
    }
    int64_t k = b->desc.dims[0];
    if (k == 0 || k % WHOLE_STEPS != 0 || a->desc.dims[a->desc.rank - 1] != k ||
        kiln_desc_count(&a->desc) / k > FEW_ROWS) {
        return NULL;
    }
    const kilni_onnx_ref inputs[] = {a, turned_weight(call, b->source)};
    const kiln_attr attrs[] = {kilni_attr_dtype(KILN_DTYPE_F32), kilni_attr_bool(false),
                               kilni_attr_bool(true)};
    return inputs[1] == NULL ? NULL
                             : kilni_onnx_emit(call, KILN_OP_MATMUL_QUANTIZED, inputs, 2, attrs, 3);
}
