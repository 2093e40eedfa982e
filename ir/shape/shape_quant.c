// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes, dtypes and schemes of quantised tensors and of what is computed from them. Decides which
// schemes fit a tensor and which scales fit a scheme; where the parts lie in memory is quant.c's.
#include <string.h>

#include "ir_quant.h"
#include "shape_internal.h"

/// A quantised result like x with the attributes dtype and blocks.
static kiln_status quantised_like(const kiln_op_record *call, kiln_dtype scale, bool global,
                                  kiln_tensor_desc *out, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    kiln_dtype dtype = (kiln_dtype)kiln_op_attr_i64(call, KILN_KEY_DTYPE);
    uint32_t n_blocks = 0;
    const int64_t *blocks = kilni_ir_ints(call, KILN_KEY_BLOCKS, &n_blocks);
    kiln_quant_layout layout;
    if (kiln_quant_bits(dtype) == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %s is no quantised dtype",
                         kilni_ir_op_name(call), kiln_dtype_name(dtype));
    }
    if (n_blocks != 0 && n_blocks != x->rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %u block lengths for rank %u",
                         kilni_ir_op_name(call), n_blocks, x->rank);
    }
    kilni_ir_same_shape(x, out);
    out->dtype = dtype;
    out->scheme = kiln_scheme_make(scale, global, blocks, n_blocks);
    if (out->scheme == 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: block lengths are 0 or powers of 2 up to 16384, scales f32, f16 or "
                         "bf16",
                         kilni_ir_op_name(call));
    }
    return kiln_quant_layout_of(out, &layout)
               ? KILN_STATUS_OK
               : kiln_fail(err, OUT_OF_RANGE, "%s: the result exceeds 64-bit sizes",
                           kilni_ir_op_name(call));
}

static void grid_of(const kiln_tensor_desc *x, kiln_tensor_desc *out)
{
    kiln_quant_layout layout;
    if (kiln_quant_layout_of(x, &layout)) {
        out->rank = x->rank;
        memcpy(out->dims, layout.blocks, sizeof(out->dims));
    }
}

kiln_status kiln_shape_quantize(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                kiln_error *err)
{
    const kiln_tensor_desc *scales = &call->inputs[1];
    kiln_tensor_desc grid = {.rank = 0};
    char text[2][KILNI_IR_SHAPE_TEXT];
    bool global = call->n_inputs > 2;
    kiln_status status = quantised_like(call, scales->dtype, global, &outputs[0], err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (global &&
        (call->inputs[2].dtype != KILN_DTYPE_F32 || kiln_desc_count(&call->inputs[2]) != 1)) {
        return kiln_fail(err, INVALID_ARGUMENT, "quantize: the global scale is one f32");
    }
    grid_of(&outputs[0], &grid);
    bool one = kiln_desc_count(&grid) == 1 && kiln_desc_count(scales) == 1;
    if (!one && !kiln_desc_same_shape(&grid, scales)) {
        return kiln_fail(err, INVALID_ARGUMENT, "quantize: scales are %s, the blocks form %s",
                         kilni_ir_desc_text(scales, text[0]), kilni_ir_desc_text(&grid, text[1]));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_quantize_dynamic(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                        kiln_error *err)
{
    const char *mode = kilni_ir_text(call, KILN_KEY_MODE);
    if (strcmp(mode, "min_max") != 0 && strcmp(mode, "abs_mean") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "quantize_dynamic: mode \"%.20s\" is neither min_max nor abs_mean", mode);
    }
    return quantised_like(call, (kiln_dtype)kiln_op_attr_i64(call, KILN_KEY_SCALE_DTYPE), false,
                          &outputs[0], err);
}

static kiln_status check_quantised(const kiln_op_record *call, uint32_t index, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[index];
    kiln_quant_layout layout;
    if (kiln_dtype_kind_of(x->dtype) != KILN_KIND_QUANT || !kiln_quant_layout_of(x, &layout)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: input %u (%s) is not quantised",
                         kilni_ir_op_name(call), index, kiln_dtype_name(x->dtype));
    }
    return KILN_STATUS_OK;
}

static kiln_status check_float(const kiln_op_record *call, kiln_dtype dtype, kiln_error *err)
{
    return kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "%s: does not give %s", kilni_ir_op_name(call),
                           kiln_dtype_name(dtype));
}

kiln_status kiln_shape_dequantize(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                  kiln_error *err)
{
    kiln_status status = check_quantised(call, 0, err);
    kilni_ir_same_shape(&call->inputs[0], &outputs[0]);
    return status == KILN_STATUS_OK ? check_float(call, outputs[0].dtype, err) : status;
}

kiln_status kiln_shape_quantized_scales(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                        kiln_error *err)
{
    kiln_status status = check_quantised(call, 0, err);
    if (status == KILN_STATUS_OK) {
        grid_of(&call->inputs[0], &outputs[0]);
        outputs[0].dtype = kiln_scheme_scale(call->inputs[0].scheme);
    }
    return status;
}

kiln_status kiln_shape_matmul_quantized(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                        kiln_error *err)
{
    kiln_dtype dtype = outputs[0].dtype;
    kiln_status status = check_float(call, dtype, err);
    for (uint32_t i = 0; i < 2 && status == KILN_STATUS_OK; i++) {
        const kiln_tensor_desc *x = &call->inputs[i];
        status = x->dtype == dtype ? KILN_STATUS_OK : check_quantised(call, i, err);
    }
    return status == KILN_STATUS_OK ? kiln_shape_matmul(call, outputs, err) : status;
}

kiln_status kiln_shape_linear_quantized(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                        kiln_error *err)
{
    kiln_status status = check_quantised(call, 1, err);
    if (status == KILN_STATUS_OK && call->inputs[0].rank == 0) {
        status = kiln_fail(err, INVALID_ARGUMENT, "linear_quantized: input x has rank 0");
    }
    return status == KILN_STATUS_OK ? kiln_shape_linear(call, outputs, err) : status;
}
