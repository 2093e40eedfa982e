// SPDX-License-Identifier: MIT OR Apache-2.0
// Tournaments: when a block is worth measuring, its candidates and its operations one by one run on
// the tensors at hand, in turns, each into memory of its own. A sample is a small plan, run by
// plan_exec.c like any other; inputs that the block would overwrite are copied before each sample.
// What follows from the times is the fusion host's business.

#include "runtime_internal.h"

enum {
    ROUNDS = 6, ///< the first only warms up
    MORE_ROUNDS = 24, ///< as long as they are short
    HOT = 8, ///< runs after which a block is measured
    CLOSE_RUNS = 2, ///< the same when a rival is close
    CLOSE_PERCENT = 10
};

static const uint64_t longest_ns = 2000000000; ///< a tournament begins no other round after that
static const uint64_t short_ns = 20000000; ///< nor, beyond ROUNDS, after that

kiln_status kilni_tune_mode(const kiln_context *context, kilni_tune *out_mode, kiln_error *err)
{
    const char *text = kiln_config_string(context->env.config, KILN_KNOB_TUNE);
    bool off = kiln_config_bool(context->env.config, KILN_KNOB_DETERMINISTIC);
    if (strcmp(text, "off") != 0 && strcmp(text, "lazy") != 0 && strcmp(text, "full") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "tune is %s; off, lazy and full are known", text);
    }
    *out_mode = off || text[0] == 'o' ? KILNI_TUNE_OFF
                : text[0] == 'l'      ? KILNI_TUNE_LAZY
                                      : KILNI_TUNE_FULL;
    return KILN_STATUS_OK;
}

// ---- what takes part ---------------------------------------------------------------------------

typedef struct contender { ///< the last one is the operations alone, without a program
    kiln_plan plan;
    kiln_plan_block block;
    kiln_plan_step *steps;
    uint32_t *dies; ///< of all steps
    uint64_t best_ns;
    bool failed;
} contender;

typedef struct tournament {
    const kilni_run *run;
    const kiln_plan_block *block;
    uint32_t index;
    const kiln_env *env;
    kilni_place **places; ///< per tensor of the segment: its own, or one of `scratch`
    kilni_place *scratch; ///< per tensor of the block
    bool *made; ///< per tensor of the block: a result
    bool *dying; ///< per tensor of the block: an input that the block may overwrite
    contender entries[KILN_FUSE_MAX_CONTENDERS + 1];
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS];
    uint32_t n_known;
} tournament;

static uint32_t slot_of_operand(const tournament *t, uint32_t op, size_t operand)
{
    return ((const kiln_tensor *)t->run->segment->operands[op][operand])->slot;
}

/// The block's number of a tensor of the segment.
static uint32_t number_of(const tournament *t, uint32_t slot)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->block->tensors[i] == slot) {
            return i;
        }
    }
    return UINT32_MAX;
}

/// Only memory that nobody else sees, from its beginning, is overwritten by a block.
static bool can_die(const kilni_place *place)
{
    return place->placed && place->storage != NULL && place->storage->refs == 1 &&
           !place->storage->foreign && place->view.offset_bytes == 0 &&
           kiln_view_is_contiguous(&place->view);
}

static void see_tensors(tournament *t)
{
    const kiln_plan *plan = t->run->segment->plan;
    for (uint32_t at = 0; at < t->block->n_ops; at++) {
        uint32_t op = t->block->ops[at];
        const kiln_op_record *record = &t->run->segment->ops[op];
        for (size_t i = 0; i < record->n_outputs; i++) {
            uint32_t number = number_of(t, slot_of_operand(t, op, record->n_inputs + i));
            if (number != UINT32_MAX) {
                t->made[number] = true;
            }
        }
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        for (uint32_t k = 0; plan->steps[i].block == t->index && k < plan->steps[i].n_dies; k++) {
            uint32_t number = number_of(t, plan->steps[i].dies[k]);
            if (number != UINT32_MAX && !t->made[number]) {
                t->dying[number] = can_die(t->run->places[plan->steps[i].dies[k]]);
            }
        }
    }
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->made[i] || t->dying[i]) {
            t->places[t->block->tensors[i]] = &t->scratch[i];
        }
    }
}

// ---- small plans -------------------------------------------------------------------------------

static kiln_status make_room(const tournament *t, contender *c, uint32_t n_steps, kiln_error *err)
{
    c->steps = kiln_alloc_array(t->env, (size_t)n_steps + 1, sizeof *c->steps);
    c->dies = kiln_alloc_array(t->env, (size_t)t->block->n_tensors + 1, sizeof *c->dies);
    if (c->steps == NULL || c->dies == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tournament");
    }
    c->plan = *t->run->segment->plan;
    c->plan.blocks = &c->block;
    c->plan.n_blocks = 1;
    c->plan.steps = c->steps;
    c->plan.n_steps = n_steps;
    c->block = *t->block;
    c->block.state = NULL;
    c->block.state_free = NULL;
    return KILN_STATUS_OK;
}

/// A program's steps; inputs that the block may overwrite die with the last of them.
static kiln_status make_fused(const tournament *t, contender *c, const kiln_program *program,
                              kiln_error *err)
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

/// Which step of the operations alone touches the tensor last.
static uint32_t last_touch(const tournament *t, const contender *c, uint32_t slot)
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

static bool is_dropped(const tournament *t, uint32_t slot)
{
    for (uint32_t at = 0; at < t->block->n_ops; at++) {
        uint32_t op = t->block->ops[at];
        if (t->run->segment->ops[op].op == KILN_OP_DROP && slot_of_operand(t, op, 0) == slot) {
            return true;
        }
    }
    return false;
}

static kiln_status make_alone(const tournament *t, contender *c, kiln_error *err)
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
            if ((t->dying[i] || (t->made[i] && is_dropped(t, slot))) &&
                last_touch(t, c, slot) == step) {
                dies[c->steps[step].n_dies++] = slot;
            }
        }
        dies += c->steps[step].n_dies;
    }
    return KILN_STATUS_OK;
}

// ---- samples -----------------------------------------------------------------------------------

static void clear_scratch(tournament *t)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        kilni_place_clear(t->run->device, &t->scratch[i]);
    }
}

static kiln_status copy_dying(tournament *t, kiln_error *err)
{
    const kiln_backend_ops *ops = t->run->device->backend->ops;
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        uint32_t slot = t->block->tensors[i];
        const kilni_place *from = t->run->places[slot];
        if (!t->dying[i]) {
            continue;
        }
        const kiln_tensor_desc *desc = &t->run->segment->tensors[slot];
        kiln_status status = kilni_place_alloc(t->run->device, desc, &t->scratch[i], err);
        if (status == KILN_STATUS_OK && t->scratch[i].storage != NULL) {
            status =
                ops->copy(t->run->device->backend, from->storage->buffer, 0,
                          t->scratch[i].storage->buffer, 0, (size_t)kiln_desc_bytes(desc), err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return ops->sync(t->run->device->backend, err);
}

static bool came_out(const tournament *t)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->scratch[i].fault != NULL) {
            return false;
        }
    }
    return true;
}

static kiln_status sample(tournament *t, contender *c, kiln_error *err)
{
    kiln_fuse_segment segment = *t->run->segment;
    kiln_device *device = t->run->device;
    segment.plan = &c->plan;
    kilni_run run = *t->run;
    run.segment = &segment;
    run.places = t->places;
    kiln_status status = copy_dying(t, err);
    device->starved = false;
    if (status == KILN_STATUS_OK) {
        uint64_t start = kiln_time_ns();
        kilni_plan_run(&run);
        status = device->backend->ops->sync(device->backend, err);
        uint64_t ns = kiln_time_ns() - start;
        c->best_ns = c->best_ns == 0 || ns < c->best_ns ? ns : c->best_ns;
    }
    c->failed = c->failed || !came_out(t);
    clear_scratch(t);
    if (status == KILN_STATUS_OK && device->starved) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "there is no memory for a sample's results");
    }
    return status;
}

/// A program that cannot be built or launched runs its operations alone: the time is not its own.
static void note_failures(tournament *t)
{
    kiln_fuse_contender now[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    uint32_t count = kiln_fuse_contenders(t->run->engine, t->run->segment->plan, t->index, now,
                                          KILN_FUSE_MAX_CONTENDERS);
    for (uint32_t i = 0; i < count; i++) {
        t->entries[i].failed = t->entries[i].failed || now[i].failed;
    }
}

static kiln_status play(tournament *t, kiln_error *err)
{
    uint64_t start = kiln_time_ns();
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t round = 0; round < MORE_ROUNDS; round++) {
        uint64_t limit = round < ROUNDS ? longest_ns : short_ns;
        if (round > 1 && kiln_time_ns() - start > limit) {
            break;
        }
        for (uint32_t i = 0; i <= t->n_known && status == KILN_STATUS_OK; i++) {
            if (!t->entries[i].failed) {
                status = sample(t, &t->entries[i], err);
            }
        }
        note_failures(t);
        for (uint32_t i = 0; i <= t->n_known && round == 0; i++) {
            t->entries[i].best_ns = 0; // warmed up
        }
        start = round == 0 ? kiln_time_ns() : start;
    }
    return status;
}

// ---- when, and what came of it -----------------------------------------------------------------

static bool is_close(const tournament *t)
{
    uint64_t chosen = 0;
    for (uint32_t i = 0; i < t->n_known; i++) {
        chosen = t->known[i].chosen ? t->known[i].predicted_ns : chosen;
    }
    for (uint32_t i = 0; i < t->n_known; i++) {
        if (!t->known[i].chosen &&
            t->known[i].predicted_ns <= chosen + chosen * CLOSE_PERCENT / 100) {
            return true;
        }
    }
    return false;
}

/// What failed before the block says nothing about its candidates.
static bool inputs_failed(const tournament *t)
{
    for (uint32_t i = 0; i < t->block->n_tensors; i++) {
        if (t->run->places[t->block->tensors[i]]->fault != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_time(const tournament *t, uint32_t runs)
{
    return t->run->device->tune == KILNI_TUNE_FULL || runs + 1 >= HOT ||
           (runs + 1 >= CLOSE_RUNS && is_close(t));
}

static kiln_status prepare(tournament *t, kiln_error *err)
{
    uint32_t n = t->block->n_tensors, all = t->run->segment->plan->n_tensors;
    t->places = kiln_alloc_array(t->env, (size_t)all + 1, sizeof(kilni_place *));
    t->scratch = kiln_alloc_array(t->env, (size_t)n + 1, sizeof *t->scratch);
    t->made = kiln_alloc_array(t->env, (size_t)n + 1, sizeof *t->made);
    t->dying = kiln_alloc_array(t->env, (size_t)n + 1, sizeof *t->dying);
    if (t->places == NULL || t->scratch == NULL || t->made == NULL || t->dying == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tournament");
    }
    memcpy((void *)t->places, (const void *)t->run->places, all * sizeof(kilni_place *));
    see_tensors(t);
    kiln_status status = make_alone(t, &t->entries[t->n_known], err);
    for (uint32_t i = 0; i < t->n_known && status == KILN_STATUS_OK; i++) {
        t->entries[i].failed = t->known[i].failed;
        status = make_fused(t, &t->entries[i], t->known[i].program, err);
    }
    return status;
}

static void finish(tournament *t, kiln_status status)
{
    const kiln_plan *plan = t->run->segment->plan;
    uint64_t ns[KILN_FUSE_MAX_CONTENDERS] = {0};
    const contender *alone = &t->entries[t->n_known];
    for (uint32_t i = 0; i < t->n_known; i++) {
        ns[i] = t->entries[i].failed ? 0 : t->entries[i].best_ns;
    }
    if (status == KILN_STATUS_OK) {
        kiln_fuse_settle(t->run->engine, plan, t->index, t->run->segment->symbols, ns,
                         alone->failed ? 0 : alone->best_ns);
    }
    for (uint32_t i = 0; i <= t->n_known; i++) {
        contender *c = &t->entries[i];
        if (c->block.state_free != NULL) {
            c->block.state_free(c->block.state);
        }
        kiln_free(t->env, c->steps);
        kiln_free(t->env, c->dies);
    }
    kiln_free(t->env, (void *)t->places);
    kiln_free(t->env, t->scratch);
    kiln_free(t->env, t->made);
    kiln_free(t->env, t->dying);
}

bool kilni_tune_block(const kilni_run *run, uint32_t block, uint32_t runs)
{
    kiln_device *device = run->device;
    tournament t = {.run = run,
                    .block = &run->segment->plan->blocks[block],
                    .index = block,
                    .env = &device->context->env};
    kiln_error err = KILN_ERROR_INIT;
    t.n_known = kiln_fuse_contenders(run->engine, run->segment->plan, block, t.known,
                                     KILN_FUSE_MAX_CONTENDERS);
    if (t.n_known == 0 || !is_time(&t, runs) || inputs_failed(&t)) {
        return t.n_known == 0;
    }
    kilni_fault *fault = device->fault;
    uint64_t blocks = device->blocks_fused, ops = device->ops_fused;
    device->measuring = true;
    kiln_status status = prepare(&t, &err);
    if (status == KILN_STATUS_OK) {
        status = play(&t, &err);
    }
    finish(&t, status);
    device->measuring = false;
    device->measured = true;
    device->blocks_fused = blocks;
    device->ops_fused = ops;
    if (device->fault != fault) { // a sample's failure is nobody's
        kilni_fault_release(device, device->fault);
        device->fault = fault;
    }
    if (status != KILN_STATUS_OK) {
        kiln_log_write(t.env, KILN_LOG_INFO, "runtime", "a block could not be measured: %s",
                       err.message);
    }
    return true;
}
