// SPDX-License-Identifier: MIT OR Apache-2.0
// Dtypes of a region, and numbers of 8 bits: which operations make f32 of them (a cast, a zero
// point, a cast, a scale), and how they lie in memory.
#include "convolution_form.h"

uint32_t cv_is_narrow(uint32_t dtype)
{
    return dtype == KF_DTYPE_F16 || dtype == KF_DTYPE_BF16;
}

uint32_t cv_is_float(uint32_t dtype)
{
    return dtype == KF_DTYPE_F32 || cv_is_narrow(dtype);
}

uint32_t cv_is_byte(uint32_t dtype)
{
    return dtype == KF_DTYPE_U8 || dtype == KF_DTYPE_I8;
}

int32_t cv_value_flip(const cv_value *value)
{
    return value->dtype == KF_DTYPE_I8 ? 128 : 0;
}

int32_t cv_value_bytes(const cv_device *device, const cv_value *value)
{
    uint32_t is_narrow = cv_is_narrow(value->dtype) && device->form->keeps_narrow;
    return cv_is_byte(value->dtype) ? 1 : is_narrow ? 2 : 4;
}

// ---- what a value stands for ----

/// The operation that computes the value, if it is of the kind; or NULL.
static const cv_op *made_by(const cv_region *region, uint32_t value, uint32_t kind)
{
    uint32_t op = region->values[value].op;
    const cv_op *made = op == CV_NONE ? NULL : &region->ops[op];
    return made != NULL && made->row != NULL && made->row->op == kind ? made : NULL;
}

static uint32_t dtype_of(const cv_region *region, uint32_t value)
{
    return region->values[value].dtype;
}

uint32_t cv_scaled_of(const cv_region *region, uint32_t value, cv_scaled *out)
{
    *out = (cv_scaled){.zeros = CV_NONE, .scales = CV_NONE, .scale = {.value = 1}};
    if (dtype_of(region, value) != KF_DTYPE_F32) {
        return 0;
    }
    const cv_op *op = made_by(region, value, KF_OP_MUL_SCALAR);
    if (op != NULL) {
        out->scale = op->numbers[0];
        value = op->inputs[0];
    } else if ((op = made_by(region, value, KF_OP_MUL)) != NULL && op->kind == CV_DERIVE) {
        out->scales = op->inputs[1];
        value = op->inputs[0];
    }
    op = made_by(region, value, KF_OP_CAST);
    if (op == NULL || dtype_of(region, op->inputs[0]) != KF_DTYPE_I32) {
        return 0;
    }
    value = op->inputs[0];
    if ((op = made_by(region, value, KF_OP_SUB_SCALAR)) != NULL) {
        out->has_zero = 1;
        out->zero = op->numbers[0];
        value = op->inputs[0];
    } else if ((op = made_by(region, value, KF_OP_SUB)) != NULL) {
        out->has_zero = 1;
        out->zeros = op->inputs[1];
        value = op->inputs[0];
    }
    op = made_by(region, value, KF_OP_CAST);
    if (op == NULL || !cv_is_byte(dtype_of(region, op->inputs[0]))) {
        return 0;
    }
    out->value = op->inputs[0];
    return 1;
}

uint32_t cv_op_scales(const cv_region *region, uint32_t op)
{
    const cv_op *o = &region->ops[op];
    uint32_t from = dtype_of(region, o->inputs[0]), to = dtype_of(region, o->result);
    if (o->kind != CV_MAP) {
        return 0;
    }
    if (o->row->op == KF_OP_MUL_SCALAR) {
        const cv_op *cast = made_by(region, o->inputs[0], KF_OP_CAST);
        return cast != NULL && !cv_is_float(dtype_of(region, cast->inputs[0]));
    }
    return to == KF_DTYPE_I32 || (o->row->op == KF_OP_CAST && !cv_is_float(from));
}

/// Unsigned ones are packed as signed ones, 128 less.
uint32_t cv_weights_shift(const cv_region *region, const cv_scaled *weights)
{
    return weights->has_zero || dtype_of(region, weights->value) == KF_DTYPE_U8;
}
