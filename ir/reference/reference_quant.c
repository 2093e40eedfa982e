// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of quantised tensors. Decides the rounding: the quotient and the product are
// f32 (f64 for f64), each rounded once.
#include <math.h>
#include <string.h>

#include "ir_quant.h"
#include "reference_internal.h"

typedef struct packed { ///< a quantised tensor in memory
    const kiln_tensor_desc *desc;
    unsigned char *base;
    kiln_quant_layout layout;
} packed;

static packed packed_of(const kiln_tensor_desc *desc, const kiln_view *view)
{
    packed p = {.desc = desc};
    if (kiln_quant_layout_of(desc, &p.layout) && view->buffer != NULL) {
        p.base = view->buffer->data + view->offset_bytes;
    }
    return p;
}

/// Number of the block in which element i (row-major) lies.
static int64_t block_of(const packed *p, int64_t i)
{
    int64_t index = 0;
    int64_t step = 1;
    for (uint32_t d = p->desc->rank; d-- > 0;) {
        int64_t block = kiln_scheme_block(p->desc->scheme, d);
        int64_t at = i % p->desc->dims[d];
        index += (block == 0 ? 0 : at / block) * step;
        step *= p->layout.blocks[d];
        i /= p->desc->dims[d];
    }
    return index;
}

static kiln_view scales_view(const packed *p, struct kiln_buffer *memory)
{
    memory->data = p->base + p->layout.scales_at;
    memory->bytes = (size_t)(p->layout.bytes - p->layout.scales_at);
    return (kiln_view){.buffer = memory, .dtype = kiln_scheme_scale(p->desc->scheme)};
}

static float scale_of(const packed *p, int64_t i)
{
    struct kiln_buffer memory = {0};
    kiln_view scales = scales_view(p, &memory);
    float scale = (float)kilni_ref_load(&scales, block_of(p, i)).f;
    float global = 1;
    if (p->layout.global_at >= 0) {
        memcpy(&global, p->base + p->layout.global_at, sizeof(global));
        scale *= global;
    }
    return scale;
}

static int32_t value_of(const packed *p, int64_t i)
{
    uint32_t word = 0;
    uint32_t bits = kiln_quant_bits(p->desc->dtype);
    int64_t per_word = 32 / (int64_t)bits;
    memcpy(&word, p->base + i / per_word * 4, sizeof(word));
    uint32_t raw = word >> ((uint32_t)(i % per_word) * bits) & ((1u << bits) - 1);
    return (int32_t)raw - ((raw >> (bits - 1)) != 0 ? (int32_t)(1u << bits) : 0);
}

static double element_of(const packed *p, int64_t i, kiln_dtype dtype)
{
    float scale = scale_of(p, i);
    if (dtype == KILN_DTYPE_F64) {
        return (double)value_of(p, i) * (double)scale;
    }
    float product = (float)value_of(p, i) * scale;
    return product;
}

// ---- quantize ----

static int32_t nearest(double x, float scale, kiln_dtype from, kiln_dtype to)
{
    double quotient = from == KILN_DTYPE_F64 ? x / (double)scale : (double)((float)x / scale);
    if (isnan(quotient) || scale == 0) {
        return 0;
    }
    quotient = nearbyint(quotient);
    double low = kiln_quant_lowest(to);
    double high = kiln_quant_highest(to);
    return (int32_t)(quotient < low ? low : quotient > high ? high : quotient);
}

/// The values, when the scales are in place.
static void write_values(packed *p, const kiln_view *x)
{
    uint32_t bits = kiln_quant_bits(p->desc->dtype);
    int64_t per_word = 32 / (int64_t)bits;
    kilni_ref_walk walk;
    int64_t i = 0;
    memset(p->base, 0, (size_t)p->layout.words * 4);
    kilni_ref_walk_init(&walk, x->dims, x->rank);
    kilni_ref_walk_add(&walk, x);
    for (; !walk.done; kilni_ref_walk_next(&walk), i++) {
        uint32_t word = 0;
        int32_t value =
            nearest(kilni_ref_load(x, walk.at[0]).f, scale_of(p, i), x->dtype, p->desc->dtype);
        memcpy(&word, p->base + i / per_word * 4, sizeof(word));
        word |= ((uint32_t)value & ((1u << bits) - 1)) << ((uint32_t)(i % per_word) * bits);
        memcpy(p->base + i / per_word * 4, &word, sizeof(word));
    }
}

kiln_status kiln_ref_quantize(const kiln_op_record *call, const kiln_view *inputs,
                              const kiln_view *outputs, kiln_error *err)
{
    packed p = packed_of(&call->outputs[0], &outputs[0]);
    struct kiln_buffer memory = {0};
    kilni_ref_walk walk;
    int64_t i = 0;
    (void)err;
    if (p.layout.count == 0) {
        return KILN_STATUS_OK;
    }
    kiln_view scales = scales_view(&p, &memory);
    memset(memory.data, 0, memory.bytes);
    kilni_ref_walk_init(&walk, inputs[1].dims, inputs[1].rank);
    kilni_ref_walk_add(&walk, &inputs[1]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(&scales, i++, kilni_ref_load(&inputs[1], walk.at[0]));
    }
    if (p.layout.global_at >= 0) {
        float global = (float)kilni_ref_load(&inputs[2], 0).f;
        memcpy(p.base + p.layout.global_at, &global, sizeof(global));
    }
    write_values(&p, &inputs[0]);
    return KILN_STATUS_OK;
}

// ---- dynamic scales ----

float kilni_ir_quant_scale(float range, kiln_dtype dtype, kiln_dtype scale_dtype)
{
    unsigned char element[4] = {0};
    struct kiln_buffer memory = {.data = element, .bytes = sizeof(element)};
    kiln_view cell = {.buffer = &memory, .dtype = scale_dtype};
    float factor = (float)(2.0 / (kiln_quant_highest(dtype) - kiln_quant_lowest(dtype)));
    float scale = range * factor;
    if (scale_dtype == KILN_DTYPE_F32) {
        return scale;
    }
    float least = scale_dtype == KILN_DTYPE_F16 ? 0x1p-14F : 0x1p-126F;
    float up = scale_dtype == KILN_DTYPE_F16 ? 1 + 0x1p-10F : 1 + 0x1p-7F;
    scale = scale < least ? least : scale;
    kilni_ref_store(&cell, 0, kilni_ref_of_float(scale));
    if (kilni_ref_load(&cell, 0).f < (double)scale) { // up, so that nothing is clamped
        float more = scale * up;
        kilni_ref_store(&cell, 0, kilni_ref_of_float(more));
    }
    return (float)kilni_ref_load(&cell, 0).f;
}

typedef struct magnitudes { ///< of the elements of a block
    double sum;
    double largest;
    int64_t count;
} magnitudes;

static void measure_blocks(const packed *p, const kiln_view *x, magnitudes *blocks)
{
    int64_t i = 0;
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, x->dims, x->rank);
    kilni_ref_walk_add(&walk, x);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        magnitudes *block = &blocks[block_of(p, i++)];
        double value = fabs(kilni_ref_load(x, walk.at[0]).f);
        block->largest = isnan(value) || value > block->largest ? value : block->largest;
        block->sum += value;
        block->count++;
    }
}

kiln_status kiln_ref_quantize_dynamic(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    packed p = packed_of(&call->outputs[0], &outputs[0]);
    struct kiln_buffer memory = {0};
    bool mean = strcmp(kilni_ir_text(call, KILN_KEY_MODE), "abs_mean") == 0;
    if (p.layout.count == 0) {
        return KILN_STATUS_OK;
    }
    magnitudes *blocks = kiln_alloc_array(&env, (size_t)p.layout.scales, sizeof(*blocks));
    if (blocks == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "quantize_dynamic: no memory for the blocks");
    }
    memset(blocks, 0, (size_t)p.layout.scales * sizeof(*blocks));
    measure_blocks(&p, &inputs[0], blocks);
    kiln_view scales = scales_view(&p, &memory);
    memset(memory.data, 0, memory.bytes);
    for (int64_t b = 0; b < p.layout.scales; b++) {
        float range = (float)(mean ? blocks[b].sum / (double)blocks[b].count : blocks[b].largest);
        float scale = kilni_ir_quant_scale(range, p.desc->dtype, scales.dtype);
        kilni_ref_store(&scales, b, kilni_ref_of_float(scale));
    }
    kiln_free(&env, blocks);
    write_values(&p, &inputs[0]);
    return KILN_STATUS_OK;
}

// ---- back ----

kiln_status kiln_ref_dequantize(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    packed p = packed_of(&call->inputs[0], &inputs[0]);
    kilni_ref_walk walk;
    int64_t i = 0;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double value = element_of(&p, i++, outputs[0].dtype);
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_of_float(value));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_quantized_scales(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    packed p = packed_of(&call->inputs[0], &inputs[0]);
    struct kiln_buffer memory = {0};
    kilni_ref_walk walk;
    int64_t i = 0;
    (void)err;
    kiln_view scales = p.base != NULL ? scales_view(&p, &memory) : (kiln_view){0};
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_load(&scales, i++));
    }
    return KILN_STATUS_OK;
}

// ---- products ----

typedef struct operand { ///< quantised or not
    const kiln_view *view;
    packed p;
    bool quantised;
} operand;

static operand operand_of(const kiln_op_record *call, const kiln_view *inputs, uint32_t i)
{
    operand o = {.view = &inputs[i],
                 .quantised = kiln_dtype_kind_of(call->inputs[i].dtype) == KILN_KIND_QUANT};
    if (o.quantised) {
        o.p = packed_of(&call->inputs[i], &inputs[i]);
    }
    return o;
}

/// Element at an index; as `dtype` holds it.
static double load(const operand *o, const int64_t *index, kiln_dtype dtype)
{
    int64_t at = kilni_ref_offset(o->view, index);
    unsigned char element[8];
    struct kiln_buffer memory = {.data = element, .bytes = sizeof(element)};
    kiln_view cell = {.buffer = &memory, .dtype = dtype};
    if (!o->quantised) {
        return kilni_ref_load(o->view, at).f;
    }
    kilni_ref_store(&cell, 0, kilni_ref_of_float(element_of(&o->p, at, dtype)));
    return kilni_ref_load(&cell, 0).f;
}

/// Index into an operand of the element of the result at `out`, its inner axis still open.
static void operand_index(const kiln_view *view, uint32_t batch, uint32_t outer_axis,
                          const int64_t *out, uint32_t out_batch, int64_t outer, int64_t *index)
{
    memset(index, 0, KILN_MAX_RANK * sizeof(*index));
    for (uint32_t i = 0; i < batch; i++) {
        index[i] = view->dims[i] == 1 ? 0 : out[out_batch - batch + i];
    }
    if (outer_axis < KILN_MAX_RANK) {
        index[outer_axis] = outer;
    }
}

kiln_status kiln_ref_matmul_quantized(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *out = &outputs[0];
    const operand a = operand_of(call, inputs, 0);
    const operand b = operand_of(call, inputs, 1);
    kilni_ir_matmul s = {0};
    kilni_ref_walk walk;
    kiln_status status = kilni_ir_matmul_of(call, &s, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint32_t has_rows = s.a_row_axis < KILN_MAX_RANK ? 1 : 0;
    uint32_t has_columns = s.b_column_axis < KILN_MAX_RANK ? 1 : 0;
    uint32_t batch = out->rank - has_rows - has_columns;
    kilni_ref_walk_init(&walk, out->dims, out->rank);
    kilni_ref_walk_add(&walk, out);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t a_index[KILN_MAX_RANK];
        int64_t b_index[KILN_MAX_RANK];
        double sum = 0;
        operand_index(a.view, s.a_batch, s.a_row_axis, walk.index, batch,
                      has_rows != 0 ? walk.index[batch] : 0, a_index);
        operand_index(b.view, s.b_batch, s.b_column_axis, walk.index, batch,
                      has_columns != 0 ? walk.index[out->rank - 1] : 0, b_index);
        for (int64_t k = 0; k < s.k; k++) {
            a_index[s.a_k_axis] = k;
            b_index[s.b_k_axis] = k;
            sum += load(&a, a_index, out->dtype) * load(&b, b_index, out->dtype);
        }
        kilni_ref_store(out, walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_linear_quantized(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *out = &outputs[0];
    const operand x = operand_of(call, inputs, 0);
    const operand weight = operand_of(call, inputs, 1);
    uint32_t last = out->rank - 1;
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, out->dims, out->rank);
    kilni_ref_walk_add(&walk, out);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK];
        int64_t o = walk.index[last];
        double sum =
            call->n_inputs > 2 ? kilni_ref_load(&inputs[2], o * inputs[2].strides[0]).f : 0;
        memcpy(index, walk.index, sizeof(index));
        for (int64_t i = 0; i < inputs[0].dims[last]; i++) {
            const int64_t cell[KILN_MAX_RANK] = {i, o};
            index[last] = i;
            sum += load(&x, index, out->dtype) * load(&weight, cell, out->dtype);
        }
        kilni_ref_store(out, walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}
