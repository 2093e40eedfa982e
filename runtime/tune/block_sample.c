// SPDX-License-Identifier: MIT OR Apache-2.0
// A block, or its operations one by one, run on the tensors at hand beside the run that it belongs
// to: results go to memory of their own, inputs that the block would overwrite are copied before. A
// sample is a small plan, run by plan_exec.c like any other. What it is for (times, a check) is the
// caller's business.

#include "rt_binding.h"
#include "rt_block_sample.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_run.h"
#include "rt_tensor.h"

#include <string.h>

static uint32_t slot_of_operand(const kilni_sample *t, uint32_t op, size_t operand)
{
    return ((const kiln_tensor *)t->run->segment->operands[op][operand])->slot;
}

uint32_t kilni_shadow_number(const kilni_sample *t, uint32_t slot)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->block->tensors[i] == slot) {
            return i;
        }
    }
    return UINT32_MAX;
}

/// Only memory that nobody else sees, from its beginning, is overwritten by a block.
static bool can_die(const kilni_binding *binding)
{
    return binding->bound && binding->storage != NULL && binding->storage->refs == 1 &&
           !binding->storage->foreign && binding->view.offset_bytes == 0 &&
           kiln_view_is_contiguous(&binding->view);
}

static void see_tensors(kilni_sample *t)
{
    const kiln_plan *plan = t->run->segment->plan;
    for (uint32_t at = 0; at < t->block->n_ops; at++) {
        uint32_t op = t->block->ops[at];
        const kiln_op_record *record = &t->run->segment->ops[op];
        for (size_t i = 0; i < record->n_outputs; i++) {
            uint32_t number = kilni_shadow_number(t, slot_of_operand(t, op, record->n_inputs + i));
            if (number != UINT32_MAX) {
                t->made[number] = true;
            }
        }
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        for (uint32_t k = 0; plan->steps[i].block == t->index && k < plan->steps[i].n_dies; k++) {
            uint32_t number = kilni_shadow_number(t, plan->steps[i].dies[k]);
            if (number != UINT32_MAX && !t->made[number]) {
                t->dying[number] = can_die(t->run->bindings[plan->steps[i].dies[k]]);
            }
        }
    }
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->made[i] || t->dying[i]) {
            t->bindings[t->block->tensors[i]] = &t->scratch[i];
        }
    }
}

// ---- small plans ----

static kiln_status make_room(const kilni_sample *t, kilni_small_plan *c, uint32_t n_steps,
                             kiln_error *err)
{
    c->steps = kiln_alloc_array(t->env, (size_t)n_steps + 1, sizeof(*c->steps));
    c->dies = kiln_alloc_array(t->env, (size_t)t->block->n_tensors + 1, sizeof(*c->dies));
    if (c->steps == NULL || c->dies == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a sample");
    }
    c->plan = *t->run->segment->plan;
    c->plan.blocks = &c->block;
    c->plan.n_blocks = 1;
    c->plan.steps = c->steps;
    c->plan.n_steps = n_steps;
    c->plan.memory = NULL;
    c->plan.memory_free = NULL;
    c->block = *t->block;
    c->block.state = NULL;
    c->block.state_free = NULL;
    return KILN_STATUS_OK;
}

kiln_status kilni_shadow_fused(const kilni_sample *t, kilni_small_plan *c,
                               const kiln_program *program, kiln_error *err)
{
    kiln_status status = make_room(t, c, program->n_steps, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    c->block.program = program;
    for (uint32_t i = 0; i < program->n_steps; i++) {
        const kiln_program_step *step = &program->steps[i];
        bool launch = step->kind == KILN_STEP_LAUNCH;
        c->steps[i] = (kiln_plan_step){.kind = step->kind,
                                       .block = 0,
                                       .index = launch ? step->index : t->block->ops[step->index]};
    }
    if (program->n_steps == 0) {
        return KILN_STATUS_OK; // all its results are dropped
    }
    kiln_plan_step *last = &c->steps[program->n_steps - 1];
    last->dies = c->dies;
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->dying[i]) {
            c->dies[last->n_dies++] = t->block->tensors[i];
        }
    }
    return KILN_STATUS_OK;
}

/// Which step of the unfused operations touches the tensor last.
static uint32_t last_touch(const kilni_sample *t, const kilni_small_plan *c, uint32_t slot)
{
    for (uint32_t step = c->plan.n_steps; step > 0; step--) {
        uint32_t op = c->steps[step - 1].index;
        const kiln_op_record *record = &t->run->segment->ops[op];
        for (size_t i = 0; i < (size_t)record->n_inputs + record->n_outputs; i++) {
            if (slot_of_operand(t, op, i) == slot) {
                return step - 1;
            }
        }
    }
    return UINT32_MAX;
}

bool kilni_shadow_drops(const kilni_sample *t, uint32_t slot)
{
    for (uint32_t at = 0; at < t->block->n_ops; at++) {
        uint32_t op = t->block->ops[at];
        if (t->run->segment->ops[op].op == KILN_OP_DROP && slot_of_operand(t, op, 0) == slot) {
            return true;
        }
    }
    return false;
}

kiln_status kilni_shadow_alone(const kilni_sample *t, kilni_small_plan *c, kiln_error *err)
{
    kiln_status status = make_room(t, c, t->block->n_ops, err);
    uint32_t *dies = c->dies;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    c->plan.n_steps = 0;
    for (uint32_t at = 0; at < t->block->n_ops; at++) {
        if (t->run->segment->ops[t->block->ops[at]].op != KILN_OP_DROP) {
            c->steps[c->plan.n_steps++] = (kiln_plan_step){
                .kind = KILN_STEP_HOST_OP, .block = UINT32_MAX, .index = t->block->ops[at]};
        }
    }
    for (uint32_t step = 0; step < c->plan.n_steps; step++) {
        c->steps[step].dies = dies;
        for (uint32_t i = 0; i < t->block->n_tensors; i++) {
            uint32_t slot = t->block->tensors[i];
            if ((t->dying[i] || (t->made[i] && kilni_shadow_drops(t, slot))) &&
                last_touch(t, c, slot) == step) {
                dies[c->steps[step].n_dies++] = slot;
            }
        }
        dies += c->steps[step].n_dies;
    }
    return KILN_STATUS_OK;
}

// ---- running ----

void kilni_shadow_clear(kilni_sample *t)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        kilni_binding_clear(t->run->device, &t->scratch[i]);
    }
}

int64_t kilni_shadow_dying_bytes(const kilni_sample *t)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->dying[i]) {
            bytes += kiln_desc_bytes(&t->run->segment->tensors[t->block->tensors[i]]);
        }
    }
    return bytes;
}

static void drop_spare(kilni_sample *t)
{
    for (uint32_t i = 0; i < t->n_spare * t->block->n_tensors; i++) {
        kilni_binding_clear(t->run->device, &t->spare[i]);
    }
    kiln_free(t->env, t->spare);
    t->spare = NULL;
    t->n_spare = 0;
}

static kiln_status copy_set(const kilni_sample *t, kilni_binding *to, kiln_error *err)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        uint32_t slot = t->block->tensors[i];
        const kilni_binding *from = t->run->bindings[slot];
        if (!t->dying[i]) {
            continue;
        }
        const kiln_tensor_desc *desc = &t->run->segment->tensors[slot];
        kiln_status status = kilni_binding_alloc(t->run->device, desc, &to[i], err);
        if (status == KILN_STATUS_OK && to[i].storage != NULL) {
            status = t->run->device->backend->transfer->copy(
                t->run->device->backend, from->storage->buffer, 0, to[i].storage->buffer, 0,
                (size_t)kiln_desc_bytes(desc), err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_shadow_copy_inputs(kilni_sample *t, uint32_t runs, kiln_error *err)
{
    drop_spare(t);
    kiln_status status = copy_set(t, t->scratch, err);
    if (runs > 1 && status == KILN_STATUS_OK) {
        uint32_t n = t->block->n_tensors;
        t->spare = kiln_alloc_array(t->env, (size_t)(runs - 1) * n + 1, sizeof(*t->spare));
        if (t->spare == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a sample");
        }
        t->n_spare = runs - 1;
        for (uint32_t i = 0; i < t->n_spare && status == KILN_STATUS_OK; i++) {
            status = copy_set(t, t->spare + (size_t)i * n, err);
        }
    }
    return status == KILN_STATUS_OK
               ? t->run->device->backend->device->sync(t->run->device->backend, err)
               : status;
}

/// What the run before made goes, and its inputs come as they were.
static void take_spare(kilni_sample *t, uint32_t set)
{
    uint32_t n = t->block->n_tensors;
    kilni_binding *from = t->spare + (size_t)set * n;
    kilni_shadow_clear(t);
    for (uint32_t i = 0; i < n; i++) {
        if (t->dying[i]) {
            t->scratch[i] = from[i];
            from[i] = (kilni_binding){0};
        }
    }
}

kiln_status kilni_shadow_run(kilni_sample *t, kilni_small_plan *c, kiln_error *err)
{
    kiln_fuse_segment segment = *t->run->segment;
    kiln_device *device = t->run->device;
    kilni_run run = *t->run;
    segment.plan = &c->plan;
    run.segment = &segment;
    run.bindings = t->bindings;
    kilni_plan_run(&run);
    for (uint32_t i = 0; i < t->n_spare; i++) {
        take_spare(t, i);
        kilni_plan_run(&run);
    }
    return device->backend->device->sync(device->backend, err);
}

const kilni_fault *kilni_shadow_fault(const kilni_sample *t)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->scratch[i].fault != NULL) {
            return t->scratch[i].fault;
        }
    }
    return NULL;
}

// ---- begin and end ----

/// The block's own plan does not need the constants that are not on the device now, so after the
/// samples, which may, they are not there either.
static void note_absent(kilni_sample *t)
{
    const kiln_backend_memory_ops *memory = t->run->device->backend->memory;
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        const kilni_storage *storage = t->run->bindings[t->block->tensors[i]]->storage;
        t->absent[i] = storage != NULL && storage->comes_again &&
                       !memory->resides(t->run->device->backend, storage->buffer);
    }
}

static void send_back(const kilni_sample *t)
{
    const kiln_backend_memory_ops *memory = t->run->device->backend->memory;
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->absent[i]) { // a device that fails here says so again at its next work
            (void)memory->reside(t->run->device->backend,
                                 t->run->bindings[t->block->tensors[i]]->storage->buffer,
                                 /*there=*/false, NULL);
        }
    }
}

kiln_status kilni_shadow_init(kilni_sample *t, const kilni_run *run, uint32_t block,
                              kiln_error *err)
{
    *t = (kilni_sample){.run = run,
                        .block = &run->segment->plan->blocks[block],
                        .index = block,
                        .env = &run->device->context->env};
    uint32_t n = t->block->n_tensors, all = run->segment->plan->n_tensors;
    t->bindings = kiln_alloc_array(t->env, (size_t)all + 1, sizeof(kilni_binding *));
    t->scratch = kiln_alloc_array(t->env, (size_t)n + 1, sizeof(*t->scratch));
    t->made = kiln_alloc_array(t->env, (size_t)n + 1, sizeof(*t->made));
    t->dying = kiln_alloc_array(t->env, (size_t)n + 1, sizeof(*t->dying));
    t->absent = kiln_alloc_array(t->env, (size_t)n + 1, sizeof(*t->absent));
    if (t->bindings == NULL || t->scratch == NULL || t->made == NULL || t->dying == NULL ||
        t->absent == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a sample");
    }
    memcpy((void *)t->bindings, (const void *)run->bindings, all * sizeof(kilni_binding *));
    see_tensors(t);
    note_absent(t);
    return KILN_STATUS_OK;
}

void kilni_shadow_fini(kilni_sample *t)
{
    if (t->scratch != NULL) {
        kilni_shadow_clear(t);
        drop_spare(t);
    }
    if (t->absent != NULL) {
        send_back(t);
    }
    kiln_free(t->env, t->absent);
    kiln_free(t->env, (void *)t->bindings);
    kiln_free(t->env, t->scratch);
    kiln_free(t->env, t->made);
    kiln_free(t->env, t->dying);
}

void kilni_shadow_plan_fini(const kilni_sample *t, kilni_small_plan *small)
{
    if (small->block.state_free != NULL) {
        small->block.state_free(small->block.state);
    }
    kiln_free(t->env, small->steps);
    kiln_free(t->env, small->dies);
    *small = (kilni_small_plan){0};
}
