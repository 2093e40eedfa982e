// SPDX-License-Identifier: MIT OR Apache-2.0
// Where the images of a region's launches lie: in blocks, among as many zeros as their readers
// need, in memory that is used again once nobody reads it.
#include "convolution_form.h"

int32_t cv_plan_blocks(const cv_plan *plan, uint32_t value)
{
    return cv_share(plan->region->values[value].channels, plan->places[value].lanes);
}

int32_t cv_plan_depth(const cv_plan *plan, const cv_step *step)
{
    int32_t blocks = cv_plan_blocks(plan, step->input);
    return step->kind == CV_CONV ? blocks / plan->region->ops[step->op].groups : blocks;
}

int64_t cv_plan_row(const cv_plan *plan, uint32_t value)
{
    const cv_place *place = &plan->places[value];
    return (int64_t)(place->left + plan->region->values[value].width + place->right) * place->lanes;
}

int64_t cv_plan_plane(const cv_plan *plan, uint32_t value)
{
    const cv_place *place = &plan->places[value];
    return cv_plan_row(plan, value) *
           (place->top + plan->region->values[value].height + place->bottom);
}

int64_t cv_plan_batch(const cv_plan *plan, uint32_t value)
{
    int64_t matrix = plan->places[value].matrix;
    return matrix != 0 ? matrix : cv_plan_plane(plan, value) * cv_plan_blocks(plan, value);
}

// ---- places ----

/// Rows or columns of zeros behind an image that a window reaches.
static int32_t behind(const cv_window *w, uint32_t axis, int32_t out, int32_t in)
{
    int32_t last = (out - 1) * w->strides[axis] + (w->lengths[axis] - 1) * w->dilations[axis] + 1;
    return cv_most(last - w->begin[axis] - in, 0);
}

/// Of a transposed convolution: columns of zeros that the results of a row reach before and behind
/// an image.
static void widen_turned(cv_plan *plan, const cv_window *w, const cv_value *out, uint32_t input)
{
    cv_place *place = &plan->places[input];
    int32_t before = (w->lengths[1] - 1) * w->dilations[1] - w->begin[1];
    int32_t left = (before + w->strides[1] - 1) / w->strides[1];
    int32_t last = (out->width - 1 + w->begin[1]) / w->strides[1];
    int32_t right = last - (plan->region->values[input].width - 1);
    plan->failed |= left > UINT8_MAX || right > UINT8_MAX;
    place->left = (uint8_t)cv_most(place->left, left);
    place->right = (uint8_t)cv_most(place->right, right);
}

static void widen(cv_plan *plan, const cv_step *step)
{
    const cv_op *op = &plan->region->ops[step->op];
    const cv_value *in = &plan->region->values[step->input];
    const cv_value *out = &plan->region->values[op->result];
    cv_place *place = &plan->places[step->input];
    int32_t bottom = behind(&op->window, 0, out->height, in->height);
    int32_t right = behind(&op->window, 1, out->width, in->width);
    if (step->kind == CV_TURNED) {
        widen_turned(plan, &op->window, out, step->input);
        return;
    }
    if (step->is_winograd) {
        bottom += out->height % 2;
        right += out->width % 2;
    }
    plan->failed |= bottom > UINT8_MAX || right > UINT8_MAX;
    place->top = (uint8_t)cv_most(place->top, op->window.begin[0]);
    place->left = (uint8_t)cv_most(place->left, op->window.begin[1]);
    place->bottom = (uint8_t)cv_most(place->bottom, bottom);
    place->right = (uint8_t)cv_most(place->right, right);
}

/// Is the value read by convolutions of all channels only?
static uint32_t is_for_products(const cv_plan *plan, uint32_t value)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const cv_step *step = &plan->steps[i];
        for (uint32_t k = 0; k < step->n_images; k++) {
            if (step->images[k] == value) {
                return 0;
            }
        }
        if (step->kind != CV_CONV && cv_step_reads(plan, step, value)) {
            return 0;
        }
    }
    return 1;
}

/// The value whose memory the step writes on; CV_NONE: memory of its own.
static uint32_t onto_of(const cv_plan *plan, const cv_step *step)
{
    return step->kind == CV_CONCAT ? plan->region->ops[step->op].onto : CV_NONE;
}

static uint32_t suits_winograd(const cv_plan *plan, const cv_step *step)
{
    return step->kind == CV_CONV && !plan->of_bytes[step->op] &&
           cv_op_suits_winograd(plan->region, &plan->region->ops[step->op], plan->device);
}

void cv_blocks_shape(cv_plan *plan)
{
    for (uint32_t v = 0; v < plan->region->n_values; v++) {
        plan->places[v].lanes = CV_LANES;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        uint32_t v = plan->steps[i].output;
        int32_t channels = plan->region->values[v].channels;
        if (plan->steps[i].kind == CV_IMPORT && channels < CV_LANES && is_for_products(plan, v)) {
            uint32_t fours = cv_is_byte(plan->region->values[v].dtype);
            plan->places[v].lanes = (uint8_t)(fours ? (channels + 3) / 4 * 4 : channels);
        }
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        plan->steps[i].is_winograd = (uint8_t)suits_winograd(plan, &plan->steps[i]);
        if (cv_is_product(plan->steps[i].kind)) {
            widen(plan, &plan->steps[i]);
        }
    }
    for (uint32_t i = plan->n_steps; i-- > 0;) { // the parts of a concatenation are one image
        uint32_t onto = onto_of(plan, &plan->steps[i]);
        if (onto != CV_NONE) {
            plan->places[onto] = plan->places[plan->steps[i].output];
        }
    }
}

static uint32_t last_reader(const cv_plan *plan, uint32_t value)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const cv_step *step = &plan->steps[i];
        last = step->input == value || cv_step_reads(plan, step, value) ? i : last;
    }
    return last;
}

/// The free slot that fits best: of those large enough the smallest, or else the largest, grown.
static uint32_t take_slot(cv_plan *plan, const uint32_t *free_from, uint32_t step, int64_t bytes)
{
    uint32_t best = CV_NONE;
    for (uint32_t s = 0; s < plan->n_slots; s++) {
        if (free_from[s] > step) {
            continue;
        }
        int64_t size = plan->slot_bytes[s], chosen = best == CV_NONE ? 0 : plan->slot_bytes[best];
        uint32_t better =
            best == CV_NONE || (chosen < bytes ? size > chosen : size >= bytes && size < chosen);
        best = better ? s : best;
    }
    if (best == CV_NONE) {
        best = plan->n_slots++;
        plan->slot_bytes[best] = 0;
    }
    if (plan->slot_bytes[best] < bytes) {
        plan->slot_bytes[best] = bytes;
    }
    return best;
}

static void give_slots(cv_plan *plan)
{
    uint32_t free_from[CV_MAX_STEPS] = {0}; // per slot: the first step that may write it
    plan->n_slots = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        uint32_t value = plan->steps[i].output;
        if (plan->steps[i].kind != CV_EXPORT) {
            int64_t bytes = cv_plan_batch(plan, value) *
                            cv_value_bytes(plan->device, &plan->region->values[value]);
            uint32_t onto = onto_of(plan, &plan->steps[i]);
            uint32_t slot =
                onto != CV_NONE ? plan->places[onto].slot : take_slot(plan, free_from, i, bytes);
            plan->places[value].slot = (uint16_t)slot;
            free_from[slot] = last_reader(plan, value) + 1;
        }
    }
}

void cv_plan_make(cv_plan *plan, const cv_region *region, const cv_device *device)
{
    plan->region = region;
    plan->device = device;
    plan->failed = 0;
    plan->n_packs = 0;
    cv_plan_bytes(plan);
    cv_plan_gates(plan);
    cv_plan_steps(plan);
    if (!plan->failed) {
        device->form->shape(plan);
        give_slots(plan);
    }
}
