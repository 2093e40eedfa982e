// SPDX-License-Identifier: MIT OR Apache-2.0
// From operations to launches: each convolution, pooling or mean takes along the elementwise
// operators behind it, as long as one image results; what nothing can take along is a launch of
// its own. Images from outside and for outside have launches before and behind.
#include "convolution_internal.h"

uint32_t cv_plan_vectors(const cv_plan *plan, uint32_t op)
{
    const cv_op *product = &plan->region->ops[op];
    cv_scaled weights;
    if (!cv_is_product(product->kind)) {
        return 0;
    }
    if (!plan->of_bytes[op]) {
        return 1; // the bias
    }
    if (product->kind == CV_DEPTHWISE) {
        return 2; // and the weights' unit
    }
    return cv_scaled_of(plan->region, product->inputs[1], &weights) &&
                   cv_weights_shift(plan->region, &weights)
               ? 4 // and their sum, and their zero point
               : 3;
}

static uint32_t holds(const cv_step *step, uint32_t op)
{
    for (uint32_t i = 0; i < step->n_behind; i++) {
        if (step->behind[i] == op) {
            return 1;
        }
    }
    return step->op == op || step->norm == op;
}

uint32_t cv_step_reads(const cv_plan *plan, const cv_step *step, uint32_t value)
{
    uint32_t reads = step->input == value && step->kind != CV_IMPORT;
    reads |= step->op != CV_NONE && plan->gates[step->op] == value;
    for (uint32_t k = 0; k < step->n_images; k++) {
        reads |= step->images[k] == value;
    }
    for (uint32_t k = 0; step->kind == CV_CONCAT && k < plan->region->ops[step->op].n_inputs; k++) {
        reads |= cv_plan_input(plan, step->op, k) == value;
    }
    return reads;
}

uint32_t cv_step_makes(const cv_region *region, const cv_step *step, uint32_t value)
{
    uint32_t op = region->values[value].op;
    return op != CV_NONE && holds(step, op);
}

static cv_step *add_step(cv_plan *plan, cv_kind kind, uint32_t op, uint32_t input, uint32_t output)
{
    if (plan->n_steps == CV_MAX_STEPS) {
        plan->failed = 1;
        return &plan->steps[CV_MAX_STEPS - 1];
    }
    cv_step *step = &plan->steps[plan->n_steps++];
    memset(step, 0, sizeof(*step));
    step->kind = kind;
    step->op = (uint16_t)op;
    step->input = (uint16_t)input;
    step->output = (uint16_t)output;
    step->norm = CV_NONE;
    step->pack = CV_NONE;
    return step;
}

/// The step that computes the last of the operation's images; CV_NONE: none does.
static uint32_t latest(const cv_plan *plan, uint32_t index)
{
    uint32_t last = CV_NONE;
    for (uint32_t i = 0; i < plan->region->ops[index].n_inputs; i++) {
        uint32_t from = plan->region->values[cv_plan_input(plan, index, i)].op;
        if (from != CV_NONE && (last == CV_NONE || plan->step_of[from] > last)) {
            last = plan->step_of[from];
        }
    }
    return last;
}

static uint32_t same_size(const cv_value *a, const cv_value *b)
{
    return a->channels == b->channels && a->height == b->height && a->width == b->width;
}

/// Images that an operation reads and the step does not compute, beside those it reads already.
static uint32_t new_images(const cv_plan *plan, cv_step *step, uint32_t index)
{
    const cv_region *region = plan->region;
    for (uint32_t i = 0; i < region->ops[index].n_inputs; i++) {
        uint32_t value = cv_plan_input(plan, index, i), known = 0;
        if (!region->values[value].is_image || cv_step_makes(region, step, value) ||
            ((step->kind == CV_MAP || step->kind == CV_IMPORT) && step->input == value)) {
            continue;
        }
        for (uint32_t k = 0; k < step->n_images; k++) {
            known |= step->images[k] == value;
        }
        if (!known) {
            if (step->n_images == CV_MAX_IMAGES) {
                return 0;
            }
            step->images[step->n_images++] = (uint16_t)value;
        }
    }
    return 1;
}

/// Puts the operations before `index` behind the step, as far as they are not there, and it.
static uint32_t put_behind(cv_plan *plan, cv_step *step, uint32_t index)
{
    const cv_region *region = plan->region;
    uint16_t chain[8];
    uint32_t n = 0;
    for (uint32_t i = 0; i < region->ops[index].n_inputs; i++) {
        uint32_t op = region->values[region->ops[index].inputs[i]].op;
        for (n = 0; op != CV_NONE && plan->before[op] && !holds(step, op) && n < 8; n++) {
            chain[n] = (uint16_t)op;
            op = region->values[region->ops[op].inputs[0]].op;
        }
        for (; n > 0 && step->n_behind < CV_MAX_BEHIND; n--) {
            step->behind[step->n_behind++] = chain[n - 1];
        }
    }
    if (step->n_behind == CV_MAX_BEHIND) {
        return 0;
    }
    step->behind[step->n_behind++] = (uint16_t)index;
    return 1;
}

static uint32_t vectors_of(const cv_region *region, const cv_op *op)
{
    uint32_t count = op->kind == CV_NORM ? 2 : 0;
    for (uint32_t i = 0; i < op->n_inputs && op->kind == CV_MAP; i++) {
        count += !region->values[op->inputs[i]].is_image;
    }
    return count;
}

/// Is the norm the only one that wants what the step's product is?
static uint32_t folds(const cv_plan *plan, const cv_step *step, uint32_t index)
{
    const cv_region *region = plan->region;
    if (region->ops[index].kind != CV_NORM || step->n_behind > 0 || step->norm != CV_NONE ||
        !cv_is_product(step->kind) || plan->of_bytes[step->op] ||
        cv_region_gives(region, step->output)) {
        return 0;
    }
    for (uint32_t i = 0; i < region->n_ops; i++) {
        if (i != index && cv_op_reads(&region->ops[i], step->output)) {
            return 0;
        }
    }
    return 1;
}

/// Puts the operation behind those of the step that its last image comes from, or gives 0.
static uint32_t join(cv_plan *plan, uint32_t index)
{
    const cv_region *region = plan->region;
    const cv_op *op = &region->ops[index];
    uint32_t last = latest(plan, index);
    if (last == CV_NONE) {
        return 0;
    }
    cv_step *step = &plan->steps[last], old = *step;
    uint32_t vectors = vectors_of(region, op);
    uint32_t is_part = step->kind == CV_CONCAT && region->ops[step->op].is_part;
    if (is_part || !same_size(&region->values[step->output], &region->values[op->result]) ||
        step->n_vectors + vectors + 1 > CV_MAX_VECTORS) {
        return 0;
    }
    if (folds(plan, step, index)) {
        step->norm = (uint16_t)index;
    } else {
        if (!new_images(plan, step, index) || !put_behind(plan, step, index) ||
            (step->kind == CV_IMPORT && (vectors > 0 || step->n_images > 0))) {
            *step = old;
            return 0;
        }
        step->n_vectors = (uint16_t)(step->n_vectors + vectors);
    }
    step->output = op->result;
    plan->step_of[index] = (uint16_t)last;
    return 1;
}

/// Is the value read, not counting those who compute it again?
static uint32_t reads(const cv_plan *plan, uint32_t index, uint32_t value)
{
    if (plan->gates[index] == value) {
        return 1;
    }
    for (uint32_t i = 0; i < plan->region->ops[index].n_inputs && !plan->before[index]; i++) {
        if (cv_plan_input(plan, index, i) == value) {
            return 1;
        }
    }
    return 0;
}

/// Has the value a reader outside of the step, or outside of the region?
static uint32_t is_wanted(const cv_plan *plan, const cv_step *step, uint32_t value)
{
    const cv_region *region = plan->region;
    if (cv_region_gives(region, value)) {
        return 1;
    }
    for (uint32_t i = region->values[value].op + 1u; i < region->n_ops; i++) {
        if (reads(plan, i, value) && !holds(step, i)) {
            return 1;
        }
    }
    return 0;
}

/// The first operation behind the step's first that must not join, because two images would
/// result; CV_NONE: all is well.
static uint32_t too_much(const cv_plan *plan, const cv_step *step)
{
    const cv_region *region = plan->region;
    uint32_t op = step->norm != CV_NONE ? step->norm : step->op;
    for (uint32_t i = 0; i < step->n_behind; i++) {
        uint32_t next = step->behind[i];
        if (plan->before[next]) {
            continue;
        }
        if (op != CV_NONE && is_wanted(plan, step, region->ops[op].result)) {
            return next;
        }
        op = next;
    }
    return CV_NONE;
}

/// Is the image from outside read by this operation only?
static uint32_t is_for_one(const cv_plan *plan, uint32_t value, uint32_t index)
{
    for (uint32_t i = 0; i < plan->region->n_ops; i++) {
        if (i != index && reads(plan, i, value)) {
            return 0;
        }
    }
    return plan->region->values[value].op == CV_NONE;
}

static void begin_map(cv_plan *plan, uint32_t index)
{
    const cv_region *region = plan->region;
    const cv_op *op = &region->ops[index];
    uint32_t input = cv_plan_input(plan, index, 0), vectors = vectors_of(region, op);
    for (uint32_t i = 0; i < op->n_inputs; i++) { // walks along an image of the result's size
        uint32_t value = cv_plan_input(plan, index, i);
        const cv_value *v = &region->values[value];
        if (v->is_image && same_size(v, &region->values[op->result])) {
            input = value;
            break;
        }
    }
    cv_step *step = add_step(plan, CV_MAP, CV_NONE, input, op->result);
    plan->failed |= !new_images(plan, step, index) || !put_behind(plan, step, index);
    step->n_vectors = (uint16_t)vectors;
    if (vectors == 0 && step->n_images == 0 && is_for_one(plan, input, index)) {
        step->kind = CV_IMPORT;
    }
}

static void begin_step(cv_plan *plan, uint32_t index)
{
    const cv_op *op = &plan->region->ops[index];
    if (op->kind == CV_MAP || op->kind == CV_NORM) {
        begin_map(plan, index);
    } else {
        cv_step *step = add_step(plan, op->kind, index, cv_plan_input(plan, index, 0), op->result);
        step->n_vectors = (uint16_t)cv_plan_vectors(plan, index);
    }
    plan->step_of[index] = (uint16_t)(plan->n_steps - 1);
}

/// `apart`: per operation, that it may not join.
static void make_steps(cv_plan *plan, const uint8_t *apart)
{
    plan->n_steps = 0;
    for (uint32_t i = 0; i < plan->region->n_ops && !plan->failed; i++) {
        cv_kind kind = plan->region->ops[i].kind;
        if (kind == CV_DERIVE || plan->before[i]) {
            continue;
        }
        uint32_t may = (kind == CV_MAP || kind == CV_NORM) && !apart[i];
        if (!may || !join(plan, i)) {
            begin_step(plan, i);
        }
    }
}

/// Joins what can be joined; where two images would result, again with the second apart.
static void group(cv_plan *plan)
{
    uint8_t apart[CV_MAX_OPS] = {0};
    for (uint32_t again = 1; again && !plan->failed;) {
        again = 0;
        make_steps(plan, apart);
        for (uint32_t i = 0; i < plan->n_steps && !again; i++) {
            uint32_t op = too_much(plan, &plan->steps[i]);
            if (op != CV_NONE) {
                again = !apart[op];
                plan->failed |= apart[op];
                apart[op] = 1;
            }
        }
    }
}

// ---- images from outside, and for outside ----

static uint32_t is_read_in_blocks(const cv_plan *plan, uint32_t value, uint32_t first)
{
    for (uint32_t i = first; i < CV_MAX_STEPS; i++) {
        if (cv_step_reads(plan, &plan->steps[i], value)) {
            return 1;
        }
    }
    return 0;
}

/// Puts a launch before or behind each step whose image comes from outside or is wanted there.
static void add_ends(cv_plan *plan)
{
    const cv_region *region = plan->region;
    uint32_t n_steps = plan->n_steps, first = CV_MAX_STEPS - n_steps;
    memmove(plan->steps + first, plan->steps, n_steps * sizeof(*plan->steps));
    plan->n_steps = 0;
    for (uint32_t v = 0; v < region->n_values; v++) {
        if (region->values[v].is_image && region->values[v].op == CV_NONE &&
            is_read_in_blocks(plan, v, first)) {
            add_step(plan, CV_IMPORT, CV_NONE, v, v);
        }
    }
    for (uint32_t i = 0; i < n_steps && !plan->failed; i++) {
        if (plan->n_steps + 1 > first + i) {
            plan->failed = 1; // the step at hand would be written over
            return;
        }
        plan->steps[plan->n_steps++] = plan->steps[first + i];
        uint32_t output = plan->steps[plan->n_steps - 1].output;
        if (cv_region_gives(region, output)) {
            if (plan->n_steps > first + i) {
                plan->failed = 1;
                return;
            }
            add_step(plan, CV_EXPORT, CV_NONE, output, output);
        }
    }
}

void cv_plan_steps(cv_plan *plan)
{
    group(plan);
    if (!plan->failed) {
        add_ends(plan);
    }
}
