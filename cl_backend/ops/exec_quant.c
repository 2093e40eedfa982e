// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches quant.cl: quantising, dequantising and products with quantised operands. Decides when a
// product reads the packed values itself (few rows times a weight of 8 bits; exec_quant_dot.c has
// another such) and when operands are made floats first, for the matrix product that is best for
// them.
#include <string.h>

#include "cl_copy.h"
#include "exec_quant_dot.h"

enum { QUANT_GROUP = 256 };

static kiln_quant_shape shape_of(const kilni_exec *exec, const kiln_tensor_desc *desc,
                                 const kiln_quant_layout *layout)
{
    kiln_quant_shape s = {.count = layout->count, .words = layout->words, .rank = desc->rank};
    s.each = kilni_exec_is_block(exec) ? 1024 : 1;
    s.has_global = layout->global_at >= 0 ? 1 : 0;
    for (uint32_t i = 0; i < desc->rank; i++) {
        s.dims[i] = desc->dims[i];
        s.shift[i] = kilni_exec_quant_shift(desc->scheme, i);
        s.blocks[i] = layout->blocks[i];
    }
    return s;
}

static kiln_status kernel_of(kilni_exec *exec, const char *kernel, const kiln_tensor_desc *desc,
                             kiln_dtype outside, kilni_cl_args *args)
{
    kilni_exec_options options = {.length = 0};
    kilni_exec_define_dtype(&options, "O", outside);
    kilni_exec_define_dtype(&options, "A", kiln_scheme_scale(desc->scheme));
    kilni_exec_define(&options, "BITS", kiln_quant_bits(desc->dtype));
    kilni_exec_define(&options, "LOW", kiln_quant_lowest(desc->dtype));
    kilni_exec_define(&options, "HIGH", kiln_quant_highest(desc->dtype));
    return kilni_exec_kernel(exec, "quant.cl", kernel, &options, args);
}

/// The scales and the global scale of a quantised tensor in buffers of their own: kernels take the
/// start of a buffer, and one of 16-bit scales may begin anywhere.
typedef struct parts {
    kiln_buffer *values;
    kiln_buffer *scales;
    kiln_buffer *global;
} parts;

static kiln_status take(kilni_exec *exec, kiln_buffer *from, int64_t at, int64_t bytes,
                        kiln_buffer **out_buffer)
{
    kiln_status status = kilni_exec_alloc(exec, bytes, out_buffer);
    return status == KILN_STATUS_OK ? kilni_cl_copy(&exec->backend->base, from, (size_t)at,
                                                    *out_buffer, 0, (size_t)bytes, exec->err)
                                    : status;
}

static kiln_status parts_of(kilni_exec *exec, const kiln_tensor_desc *desc, const kiln_view *view,
                            const kiln_quant_layout *layout, parts *out)
{
    int64_t size = (int64_t)kiln_dtype_size(kiln_scheme_scale(desc->scheme));
    int64_t base = view->offset_bytes;
    kiln_status status = KILN_STATUS_OK;
    out->values = view->buffer;
    if (base != 0) {
        KILN_TRY(out, status, take(exec, view->buffer, base, layout->words * 4, &out->values));
    }
    KILN_TRY(
        out, status,
        take(exec, view->buffer, base + layout->scales_at, layout->scales * size, &out->scales));
    out->global = out->scales;
    if (layout->global_at >= 0) {
        KILN_TRY(out, status, take(exec, view->buffer, base + layout->global_at, 4, &out->global));
    }
out:
    return status;
}

static kiln_status copy_dense(kilni_exec *exec, const kiln_view *source, kiln_buffer *target,
                              int64_t at)
{
    kiln_view dense;
    kiln_status status = kilni_exec_dense(exec, source, &dense);
    size_t bytes = (size_t)kilni_exec_count(source) * kiln_dtype_size(source->dtype);
    return status == KILN_STATUS_OK
               ? kilni_cl_copy(&exec->backend->base, dense.buffer, (size_t)dense.offset_bytes,
                               target, (size_t)at, bytes, exec->err)
               : status;
}

kiln_status kilni_exec_quantize(kilni_exec *exec)
{
    const kiln_tensor_desc *desc = &exec->record->outputs[0];
    const kiln_view *out = &exec->outputs[0];
    kiln_quant_layout layout;
    kiln_view x = {0};
    kiln_view scales = {0};
    kiln_view global = {0};
    kilni_cl_args args;
    if (!kiln_quant_layout_of(desc, &layout)) {
        return kiln_fail(exec->err, INTERNAL, "quantize: the result has no layout");
    }
    kiln_quant_shape s = shape_of(exec, desc, &layout);
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[0], &x));
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[1], &scales));
    global = scales;
    if (exec->record->n_inputs > 2) {
        global = exec->inputs[2];
        KILN_TRY(out, status, copy_dense(exec, &global, out->buffer, layout.global_at));
        if (global.offset_bytes != 0) {
            KILN_TRY(out, status,
                     take(exec, global.buffer, global.offset_bytes, 4, &global.buffer));
        }
    }
    KILN_TRY(out, status, copy_dense(exec, &exec->inputs[1], out->buffer, layout.scales_at));
    KILN_TRY(out, status, kernel_of(exec, "kiln_quantize", desc, x.dtype, &args));
    bool odd = kiln_dtype_size(scales.dtype) == 2 && layout.scales % 2 != 0;
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, x.buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&x));
    kilni_cl_push_buffer(&args, scales.buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&scales));
    kilni_cl_push_buffer(&args, global.buffer);
    kilni_cl_push_i64(&args, odd ? layout.scales_at / 2 + layout.scales : -1);
    KILN_TRY(out, status,
             kilni_exec_launch(exec, &args, kilni_exec_ceil_div(s.words, s.each), QUANT_GROUP));
out:
    return status;
}

static kiln_status dequantize(kilni_exec *exec, const kiln_tensor_desc *desc, const kiln_view *in,
                              const kiln_view *out)
{
    kiln_quant_layout layout;
    kilni_cl_args args;
    parts p = {0};
    if (!kiln_quant_layout_of(desc, &layout)) {
        return kiln_fail(exec->err, INTERNAL, "a quantised operand has no layout");
    }
    kiln_quant_shape s = shape_of(exec, desc, &layout);
    kiln_status status = parts_of(exec, desc, in, &layout, &p);
    if (status == KILN_STATUS_OK) {
        status = kernel_of(exec, "kiln_dequantize", desc, out->dtype, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(out));
    kilni_cl_push_buffer(&args, p.values);
    kilni_cl_push_buffer(&args, p.scales);
    kilni_cl_push_buffer(&args, p.global);
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(s.words, s.each), QUANT_GROUP);
}

kiln_status kilni_exec_dequantize(kilni_exec *exec)
{
    return dequantize(exec, &exec->record->inputs[0], &exec->inputs[0], &exec->outputs[0]);
}

kiln_status kilni_exec_quantized_scales(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_quant_layout layout;
    if (!kiln_quant_layout_of(&exec->record->inputs[0], &layout)) {
        return kiln_fail(exec->err, INTERNAL, "a quantised operand has no layout");
    }
    return kilni_cl_copy(&exec->backend->base, exec->inputs[0].buffer,
                         (size_t)(exec->inputs[0].offset_bytes + layout.scales_at), out->buffer,
                         (size_t)out->offset_bytes,
                         (size_t)layout.scales * kiln_dtype_size(out->dtype), exec->err);
}

// ---- products ----

enum { MOST_ROWS = 16 }; ///< beyond, dequantising once costs less than reading values again

/// Whether the kernel for weights of 8 bits takes it: f32, [m, k] times [k, n], blocks along n that
/// a vector of 16 columns does not cross.
static bool takes_8_bits(const kilni_exec *exec, kiln_quant_matmul_shape *s)
{
    const kiln_tensor_desc *a = &exec->record->inputs[0];
    const kiln_tensor_desc *b = &exec->record->inputs[1];
    kiln_quant_layout layout;
    if (a->dtype != KILN_DTYPE_F32 || kiln_quant_bits(b->dtype) != 8 || a->rank < 2 ||
        b->rank != 2 || kiln_op_attr_i64(exec->record, KILN_KEY_TRANSPOSE_A) != 0 ||
        kiln_op_attr_i64(exec->record, KILN_KEY_TRANSPOSE_B) != 0 ||
        !kiln_quant_layout_of(b, &layout)) {
        return false;
    }
    int64_t block = kiln_scheme_block(b->scheme, 1);
    *s = (kiln_quant_matmul_shape){.m = kiln_desc_count(a) /
                                        (a->dims[a->rank - 1] > 0 ? a->dims[a->rank - 1] : 1),
                                   .n = b->dims[1],
                                   .k = b->dims[0],
                                   .k_shift = kilni_exec_quant_shift(b->scheme, 0),
                                   .n_shift = kilni_exec_quant_shift(b->scheme, 1),
                                   .n_blocks = layout.blocks[1],
                                   .has_global = layout.global_at >= 0 ? 1 : 0};
    return s->k > 0 && s->m <= MOST_ROWS && (block == 0 || block >= 16);
}

static kiln_status matmul_8_bits(kilni_exec *exec, const kiln_quant_matmul_shape *s)
{
    const kiln_tensor_desc *b = &exec->record->inputs[1];
    const kiln_view *out = &exec->outputs[0];
    kiln_quant_layout layout = {0};
    kiln_view a = {0};
    parts p = {0};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[0], &a);
    if (status == KILN_STATUS_OK && kiln_quant_layout_of(b, &layout)) {
        status = parts_of(exec, b, &exec->inputs[1], &layout, &p);
    }
    kilni_exec_define_dtype(&options, "O", KILN_DTYPE_F32);
    kilni_exec_define_dtype(&options, "A", kiln_scheme_scale(b->scheme));
    kilni_exec_define(&options, "BITS", 8);
    kilni_exec_define(&options, "LOW", kiln_quant_lowest(b->dtype));
    kilni_exec_define(&options, "HIGH", kiln_quant_highest(b->dtype));
    kilni_exec_define(&options, "CONTRACT", 1);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_kernel(exec, "quant.cl", "kiln_quant_matmul", &options, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(out));
    kilni_cl_push_buffer(&args, a.buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&a));
    kilni_cl_push_buffer(&args, p.values);
    kilni_cl_push_buffer(&args, p.scales);
    kilni_cl_push_buffer(&args, p.global);
    int64_t items = kilni_exec_ceil_div(s->n, 16) * kilni_exec_ceil_div(s->m, 4);
    return kilni_exec_launch(exec, &args, items, QUANT_GROUP);
}

/// The operand itself, or what it stands for in scratch memory.
static kiln_status plain(kilni_exec *exec, uint32_t index, kiln_tensor_desc *out_desc,
                         kiln_view *out_view)
{
    *out_desc = exec->record->inputs[index];
    *out_view = exec->inputs[index];
    if (kiln_dtype_kind_of(out_desc->dtype) != KILN_KIND_QUANT) {
        return KILN_STATUS_OK;
    }
    kiln_buffer *buffer = NULL;
    out_desc->dtype = exec->outputs[0].dtype;
    out_desc->scheme = 0;
    kiln_status status = kilni_exec_alloc(exec, kiln_desc_bytes(out_desc), &buffer);
    *out_view = kiln_view_dense(out_desc, buffer);
    if (status != KILN_STATUS_OK || kiln_desc_count(out_desc) == 0) {
        return status;
    }
    return dequantize(exec, &exec->record->inputs[index], &exec->inputs[index], out_view);
}

kiln_status kilni_exec_matmul_quantized(kilni_exec *exec)
{
    kiln_tensor_desc descs[2];
    kiln_view views[2];
    kiln_quant_matmul_shape s;
    kiln_quant_dot_shape dot;
    if (kilni_exec_takes_quant_dot(exec, &dot)) {
        return kilni_exec_quant_dot(exec, &dot);
    }
    if (takes_8_bits(exec, &s)) {
        return matmul_8_bits(exec, &s);
    }
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < 2; i++) {
        status = plain(exec, i, &descs[i], &views[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return kilni_exec_matmul_of(exec, descs, views);
}
