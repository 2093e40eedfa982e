// SPDX-License-Identifier: MIT OR Apache-2.0
// Regions of f16 and bf16 on devices of many small work-items: which operations join, where images
// lie and how large tiles are. Images lie with their channels innermost,
// [n][row][column][channels], without a border, so a convolution is a product of a matrix with a
// line for each place of the result, which is read from the image as it lies, and of packed
// weights: a line for each filter. An image whose channels do not fill whole pieces of 16 bytes is
// written out as that matrix when it comes in.
#include "convolution_nhwc.h"

enum {
    MOST_TERMS = 1024, ///< of a line of a matrix that is written out
    NARROW_COLUMNS = 64,
    MIDDLE_COLUMNS = 128
};

// ---- which operations join ----

static int32_t taps_of(const cv_op *op)
{
    return op->window.lengths[0] * op->window.lengths[1];
}

static uint32_t fits(const cv_reader *r, const cv_value *v)
{
    return v->channels <= UINT16_MAX && // of cv_place.lanes
           (int64_t)v->channels * v->height * v->width * r->region->count < INT32_MAX / 2;
}

/// An image with loose channels: only as the only reader of one from outside, with short lines.
static uint32_t takes_loose(const cv_reader *r, uint32_t value)
{
    const cv_value *v = &r->region->values[value];
    cv_value matrix = r->result;
    matrix.channels = (v->channels * taps_of(&r->made) + CV_ITEM_LANES - 1) & -CV_ITEM_LANES;
    for (uint32_t i = 0; i < r->region->n_ops; i++) {
        if (cv_op_reads(&r->region->ops[i], value)) {
            return 0;
        }
    }
    return r->made.kind == CV_CONV && v->op == CV_NONE && matrix.channels <= MOST_TERMS &&
           fits(r, &matrix);
}

static uint32_t images_fit(const cv_reader *r)
{
    for (uint32_t i = 0; i < r->made.n_inputs; i++) {
        const cv_value *v = &r->region->values[r->made.inputs[i]];
        uint32_t loose = v->is_image && v->channels % CV_ITEM_LANES != 0;
        if (v->is_image && (!fits(r, v) || (loose && !takes_loose(r, r->made.inputs[i])))) {
            return 0;
        }
        if (!loose && i == 0 && r->made.kind == CV_CONV && taps_of(&r->made) > CV_MOST_MASK) {
            return 0;
        }
    }
    return r->result.channels % CV_ITEM_LANES == 0 && fits(r, &r->result);
}

uint32_t cv_nhwc_takes(const cv_reader *r)
{
    cv_kind kind = r->made.kind;
    if (kind != CV_CONV && kind != CV_POOL && kind != CV_MEAN && kind != CV_MAP) {
        return cv_decline(r, KF_CODE_UNKNOWN_OP, "not done in a region of 16 bits");
    }
    if (kind == CV_CONV && r->made.groups != 1) {
        return cv_decline(r, KF_CODE_SHAPE, "a convolution in groups");
    }
    r->region->count = cv_extent(r, &r->op->outputs[0]->dims[0]);
    if (r->region->count < CV_LEAST_COUNT) {
        return cv_decline(r, KF_CODE_COST, "few images leave units without work");
    }
    return images_fit(r) ||
           cv_decline(r, KF_CODE_SHAPE, "channels do not fill pieces of 16 bytes, or it is large");
}

// ---- where images lie ----

uint32_t cv_nhwc_is_matrix(const cv_plan *plan, const cv_step *step)
{
    return step->kind == CV_CONV && plan->places[step->input].matrix != 0;
}

int32_t cv_nhwc_terms(const cv_plan *plan, const cv_step *step)
{
    int32_t terms =
        plan->region->values[step->input].channels * taps_of(&plan->region->ops[step->op]);
    return cv_nhwc_is_matrix(plan, step) ? (terms + CV_ITEM_LANES - 1) & -CV_ITEM_LANES : terms;
}

int64_t cv_nhwc_weights(const cv_plan *plan, const cv_step *step)
{
    if (step->kind != CV_CONV) {
        return 0;
    }
    int32_t panels = cv_share(plan->region->values[step->output].channels, step->tile_columns);
    int32_t steps = cv_share(cv_nhwc_terms(plan, step), CV_STEP_TERMS);
    return (int64_t)panels * step->tile_columns * steps * CV_LINE_BYTES / (int64_t)sizeof(float);
}

int64_t cv_nhwc_places(const cv_value *v)
{
    return (int64_t)v->height * v->width;
}

void cv_nhwc_shape(cv_plan *plan)
{
    const cv_region *region = plan->region;
    for (uint32_t v = 0; v < region->n_values; v++) {
        plan->places[v].lanes = (uint16_t)region->values[v].channels;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const cv_step *step = &plan->steps[i];
        if (step->kind == CV_CONV && region->values[step->input].channels % CV_ITEM_LANES != 0) {
            plan->places[step->input].matrix = 1; // so that terms are those of a matrix
            plan->places[step->input].matrix =
                cv_nhwc_places(&region->values[step->output]) * cv_nhwc_terms(plan, step);
        }
    }
}

// ---- tiles ----

/// Cycles of a product, about: tiles come from the second cache at some 30 bytes a cycle, whatever
/// is multiplied, and begin and end as if there were more of them.
static int64_t product_cost(const cv_plan *plan, const cv_step *step, const cv_device *device,
                            int32_t columns)
{
    const cv_value *out = &plan->region->values[step->output];
    int64_t rows = cv_nhwc_places(out) * plan->region->count;
    int64_t groups = (int64_t)cv_share(rows, CV_TILE_ROWS) * cv_share(out->channels, columns);
    int64_t steps = cv_share(cv_nhwc_terms(plan, step), CV_STEP_TERMS);
    int32_t at_once = columns == CV_WIDE_COLUMNS ? 1 : 2;
    int64_t each = steps * 4 * (CV_TILE_ROWS + columns) + 24 * columns + 1500;
    return cv_share(groups, (int64_t)device->units * at_once) * at_once * each;
}

static int32_t choose_columns(const cv_plan *plan, const cv_step *step, const cv_device *device)
{
    int32_t best = NARROW_COLUMNS;
    if (!cv_nhwc_on_tensor(device)) {
        return best;
    }
    for (int32_t columns = MIDDLE_COLUMNS; columns <= CV_WIDE_COLUMNS; columns *= 2) {
        if (product_cost(plan, step, device, columns) < product_cost(plan, step, device, best)) {
            best = columns;
        }
    }
    return best;
}

void cv_nhwc_cut(cv_plan *plan, const cv_device *device)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        cv_step *step = &plan->steps[i];
        step->tile_rows = step->tile_blocks = step->chunks = 1;
        step->tile_columns = step->kind == CV_CONV ? choose_columns(plan, step, device) : 1;
        if (step->n_vectors > 0) {
            step->pack = (uint16_t)plan->n_packs++;
        }
    }
}
