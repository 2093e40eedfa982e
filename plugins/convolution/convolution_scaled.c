// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers of 8 bits: which operations make f32 of them (a cast, a zero point, a cast, a scale), and
// what follows for a plan. Such numbers are kept in memory as bytes, and whoever reads them makes
// f32 of them once more. Products of bytes by bytes are computed in integers.
#include "convolution_internal.h"

uint32_t cv_is_byte(uint32_t dtype)
{
    return dtype == KF_DTYPE_U8 || dtype == KF_DTYPE_I8;
}

int32_t cv_value_flip(const cv_value *value)
{
    return value->dtype == KF_DTYPE_I8 ? 128 : 0;
}

int32_t cv_value_bytes(const cv_value *value)
{
    return cv_is_byte(value->dtype) ? 1 : 4;
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
        return cast != NULL && dtype_of(region, cast->inputs[0]) != KF_DTYPE_F32;
    }
    return to == KF_DTYPE_I32 || (o->row->op == KF_OP_CAST && from != KF_DTYPE_F32);
}

/// Unsigned ones are packed as signed ones, 128 less.
uint32_t cv_weights_shift(const cv_region *region, const cv_scaled *weights)
{
    return weights->has_zero || dtype_of(region, weights->value) == KF_DTYPE_U8;
}

// ---- what follows for a plan ----

static uint32_t equal_numbers(const cv_number *a, const cv_number *b)
{
    return a->is_scalar == b->is_scalar &&
           (a->is_scalar ? a->index == b->index : a->value == b->value);
}

/// What stands around the image of 8 bits, for readers that look there, is its zero point; two
/// readers may not want two.
static uint32_t set_pad(cv_plan *plan, const cv_op *op, const cv_scaled *image)
{
    cv_place *place = &plan->places[image->value];
    cv_number pad = image->has_zero ? image->zero : (cv_number){.value = 0};
    int32_t pads =
        op->window.begin[0] + op->window.begin[1] + op->window.end[0] + op->window.end[1];
    if (pads == 0) {
        return 1;
    }
    if (place->has_pad && !equal_numbers(&place->pad, &pad)) {
        return 0;
    }
    place->has_pad = 1;
    place->pad = pad;
    return 1;
}

static uint32_t reads_bytes(cv_plan *plan, const cv_op *op)
{
    const cv_region *region = plan->region;
    cv_scaled image, weights;
    if (op->kind != CV_CONV && op->kind != CV_DEPTHWISE) {
        return 0;
    }
    return cv_scaled_of(region, op->inputs[0], &image) && region->values[image.value].is_image &&
           (cv_scaled_of(region, op->inputs[1], &weights) || op->kind == CV_DEPTHWISE) &&
           set_pad(plan, op, &image);
}

/// May the operation make what it reads of bytes itself?
static uint32_t takes_bytes(const cv_plan *plan, uint32_t reader)
{
    cv_kind kind = plan->region->ops[reader].kind;
    if (cv_op_scales(plan->region, reader)) {
        return plan->before[reader];
    }
    return kind == CV_MAP || kind == CV_NORM || kind == CV_POOL || kind == CV_MEAN ||
           plan->of_bytes[reader];
}

/// Is the result needed nowhere as such?
static uint32_t is_before(const cv_plan *plan, uint32_t index)
{
    const cv_region *region = plan->region;
    uint32_t result = region->ops[index].result;
    if (!cv_op_scales(region, index) || cv_region_gives(region, result)) {
        return 0;
    }
    for (uint32_t i = index + 1; i < region->n_ops; i++) {
        if (cv_op_reads(&region->ops[i], result) && !takes_bytes(plan, i)) {
            return 0;
        }
    }
    return 1;
}

uint32_t cv_plan_input(const cv_plan *plan, uint32_t op, uint32_t input)
{
    uint32_t value = plan->region->ops[op].inputs[input];
    cv_scaled image;
    if (input == 0 && plan->of_bytes[op] && cv_scaled_of(plan->region, value, &image)) {
        return image.value;
    }
    return plan->sources[value];
}

void cv_plan_bytes(cv_plan *plan)
{
    const cv_region *region = plan->region;
    memset(plan->places, 0, region->n_values * sizeof(*plan->places));
    for (uint32_t i = 0; i < region->n_ops; i++) {
        plan->of_bytes[i] = (uint8_t)reads_bytes(plan, &region->ops[i]);
    }
    for (uint32_t i = region->n_ops; i-- > 0;) {
        plan->before[i] = (uint8_t)is_before(plan, i);
    }
    for (uint32_t i = 0; i < region->n_values; i++) {
        uint32_t op = region->values[i].op;
        plan->sources[i] =
            (uint16_t)(op != CV_NONE && plan->before[op] ? plan->sources[region->ops[op].inputs[0]]
                                                         : i);
    }
}
