// SPDX-License-Identifier: MIT OR Apache-2.0
// What numbers of 8 bits mean for a plan: they are kept in memory as bytes, and whoever reads them
// makes f32 of them once more. Products of bytes by bytes are computed in integers.
#include "convolution_internal.h"

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

/// Do the sums of a convolution fit 32 bits, whatever the elements are?
static uint32_t sums_fit(const cv_region *region, const cv_op *op, const cv_scaled *weights)
{
    int64_t terms = (int64_t)region->values[op->inputs[0]].channels * op->window.lengths[0] *
                    op->window.lengths[1];
    return terms * UINT8_MAX * (cv_weights_shift(region, weights) ? UINT8_MAX : 128) <= INT32_MAX;
}

static uint32_t reads_bytes(cv_plan *plan, const cv_op *op)
{
    const cv_region *region = plan->region;
    cv_scaled image, weights;
    if ((op->kind != CV_CONV || op->groups > 1) && op->kind != CV_DEPTHWISE) {
        return 0;
    }
    return cv_scaled_of(region, op->inputs[0], &image) && region->values[image.value].is_image &&
           (op->kind == CV_DEPTHWISE ||
            (cv_scaled_of(region, op->inputs[1], &weights) && sums_fit(region, op, &weights))) &&
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
