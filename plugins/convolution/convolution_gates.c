// SPDX-License-Identifier: MIT OR Apache-2.0
// Which convolutions take in the gate before them (squeeze-and-excite): an image times one of one
// place, which nobody but the convolution reads, is as well the convolution's weights times that
// image. It saves a launch that reads and writes the image.
#include "convolution_form.h"

/// A window without padding: beside an image are zeros, which a gate that is infinite must not
/// meet.
static uint32_t is_of_places(const cv_window *w)
{
    return w->lengths[0] == 1 && w->lengths[1] == 1 &&
           w->begin[0] + w->begin[1] + w->end[0] + w->end[1] == 0;
}

static uint32_t has_one_reader(const cv_region *region, uint32_t value)
{
    uint32_t readers = 0;
    for (uint32_t i = 0; i < region->n_ops; i++) {
        readers += cv_op_reads(&region->ops[i], value);
    }
    return readers == 1 && !cv_region_gives(region, value);
}

/// Which input of the operation is the gate, when it multiplies an image by one; else CV_NONE.
static uint32_t gate_of(const cv_plan *plan, uint32_t op)
{
    const cv_op *product = &plan->region->ops[op];
    if (product->kind != CV_MAP || product->row->op != KF_OP_MUL || plan->before[op]) {
        return CV_NONE;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const cv_value *gate = &plan->region->values[product->inputs[i]];
        const cv_value *image = &plan->region->values[product->inputs[1 - i]];
        if (gate->is_image && image->is_image && gate->height == 1 && gate->width == 1 &&
            image->height * image->width > 1 && gate->channels == image->channels) {
            return i;
        }
    }
    return CV_NONE;
}

static uint32_t lies_in_memory(const cv_plan *plan, uint32_t value)
{
    return plan->sources[value] == value && plan->region->values[value].dtype == KF_DTYPE_F32;
}

static void take_gate(cv_plan *plan, uint32_t conv)
{
    const cv_region *region = plan->region;
    const cv_op *op = &region->ops[conv];
    uint32_t from = op->kind == CV_CONV ? region->values[op->inputs[0]].op : CV_NONE;
    if (from == CV_NONE || op->groups > 1 || plan->of_bytes[conv] || !is_of_places(&op->window) ||
        !has_one_reader(region, op->inputs[0])) {
        return;
    }
    uint32_t which = gate_of(plan, from);
    if (which == CV_NONE) {
        return;
    }
    uint32_t gate = region->ops[from].inputs[which], image = region->ops[from].inputs[1 - which];
    if (lies_in_memory(plan, gate) && lies_in_memory(plan, image)) {
        plan->gates[conv] = (uint16_t)gate;
        plan->before[from] = 1;
        plan->sources[op->inputs[0]] = (uint16_t)image;
    }
}

void cv_plan_gates(cv_plan *plan)
{
    for (uint32_t i = 0; i < plan->region->n_ops; i++) {
        plan->gates[i] = CV_NONE;
    }
    for (uint32_t i = 0; i < plan->region->n_ops && plan->device->form->gates; i++) {
        take_gate(plan, i);
    }
}
