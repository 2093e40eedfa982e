// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs plans in their order: makes blocks ready, gives them their temporaries, enqueues their
// launches, and runs single operations. Decides what happens when a block cannot be built or
// launched: its operations run one by one. The parts are in plan_op.c and plan_launch.c.

#include "plan_internal.h"
#include "rt_binding.h"
#include "rt_check_state.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_layout.h"
#include "rt_persistent_temps.h"
#include "rt_run.h"
#include "rt_trace.h"
#include "rt_tune.h"

static void block_state_free(void *pointer)
{
    kilni_block_state *state = pointer;
    state->device->hooks->scores_free(&state->scores, &state->device->context->env);
    kilni_plan_candidates_fini(state);
    kilni_block_programs_free(state);
    for (uint32_t i = 0; i < state->n_kept; i++) {
        kilni_persistent_temp_clear(state->device, &state->kept[i]);
    }
    kiln_free(&state->device->context->env, state->kept);
    kiln_free(&state->device->context->env, state);
}

bool kilni_plan_block_failed(const kiln_plan_block *block)
{
    const kilni_block_state *state = block->state;
    return state != NULL && state->failed;
}

// ---- blocks ----

static kilni_block_state *make_state(kiln_device *device, kiln_plan_block *block)
{
    kilni_block_state *state = kiln_alloc(&device->context->env, sizeof(*state));
    if (state != NULL) {
        state->device = device;
        block->state = state;
        block->state_free = block_state_free;
    }
    return state;
}

kiln_status kilni_plan_block_build(kiln_device *device, kiln_fuse_engine *engine,
                                   kiln_plan_block *block, kiln_error *err)
{
    kiln_built *built = NULL;
    kilni_block_state *state = block->state;
    if (state != NULL && (state->built != NULL || state->failed)) {
        return KILN_STATUS_OK;
    }
    uint64_t start_ns = kilni_trace_now(device);
    kiln_fuse_block_doing(engine, block, KILN_FUSE_BUILDS);
    kiln_status status =
        device->backend->program->build(device->backend, block->program, &built, err);
    kiln_fuse_block_doing(engine, block, KILN_FUSE_DOES_NOTHING);
    kilni_trace_span(device, KILNI_SPAN_BUILD, block->fuser, start_ns);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    state = state != NULL ? state : make_state(device, block);
    if (state == NULL) {
        device->backend->program->free(device->backend, built);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a block");
    }
    state->built = built;
    return KILN_STATUS_OK;
}

/// A sample needs more memory than the run that it is for: that it found none says nothing about
/// the program.
static bool starves(const kilni_run *run, const kiln_error *cause)
{
    kiln_device *device = run->device;
    bool starved = device->samples.measuring && cause->code == KILN_STATUS_RESOURCE_EXHAUSTED;
    device->samples.starved = device->samples.starved || starved;
    return starved;
}

/// A block could not be built or launched. Is its program to blame, it is not tried again; was
/// memory short, only after some runs, twice as many each time.
static void block_failed(const kilni_run *run, const kiln_plan_block *block,
                         const kiln_error *cause)
{
    enum { MOST_SHORTAGES = 10 };
    kilni_block_state *state = block->state;
    if (state == NULL || starves(run, cause)) {
        return;
    }
    state->failed = kiln_fuse_block_failed(run->engine, block, cause);
    if (!state->failed) {
        state->shortages += state->shortages < MOST_SHORTAGES;
        state->runs_out = (1u << state->shortages) - 2;
    }
}

static kiln_status prepare_block(const kilni_block_view *view, kiln_error *err)
{
    kiln_plan_block *block = (kiln_plan_block *)(uintptr_t)view->block;
    kiln_device *device = view->run->device;
    kilni_block_state *state = block->state;
    if (state != NULL && state->runs_out > 0) {
        state->runs_out--;
        return kiln_fail(err, FAILED_PRECONDITION, "memory was short when this block last ran");
    }
    kiln_status status = kilni_plan_block_build(device, view->run->engine, block, err);
    if (status != KILN_STATUS_OK) {
        if (state == NULL) {
            (void)make_state(device, block);
        }
        block_failed(view->run, block, err);
        return status;
    }
    state = block->state;
    if (state->failed) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the program of %s failed here before; its operations run one by one",
                         block->fuser);
    }
    kilni_block_programs_use(state);
    if (block->program->guard.count > 0) {
        int64_t holds = 0;
        status = kilni_plan_evaluate(view, &block->program->guard, &holds, err);
        if (status != KILN_STATUS_OK || holds == 0) {
            return kiln_fail(err, FAILED_PRECONDITION, "the program's guard does not hold");
        }
    }
    return KILN_STATUS_OK;
}

static void run_block_unfused(const kilni_block_view *view)
{
    const kiln_plan_block *block = view->block;
    for (uint32_t at = 0; at < block->n_ops; at++) {
        uint32_t op = block->ops[at];
        const kiln_op_record *record = &view->run->segment->ops[op];
        for (size_t i = 0; i < record->n_outputs; i++) {
            kilni_binding_clear(
                view->run->device,
                view->run->bindings[kilni_plan_operand_slot(view->run, op, record->n_inputs + i)]);
        }
        kilni_plan_run_op(view->run, NULL, op);
    }
}

enum { SMALL_SYMBOLS = 48 };

/// What a segment's run knows of the block that it is in.
typedef struct block_run {
    uint32_t block; ///< UINT32_MAX: none
    bool unfused;
    bool started; ///< a step of the block has been enqueued
    bool counted;
    bool unseen; ///< a launch was not watched
    int64_t symbols[SMALL_SYMBOLS]; ///< memory of view.symbols when it suffices
    kilni_block_view view;
    kilni_temp_list temps;
    kilni_dependencies *dependencies; ///< what its launches so far depend on
    kilni_step_mark mark; ///< of the step that runs
    kilni_fault *lost; ///< why its temporaries do not hold what they should
} block_run;

static void drop_temps(const kilni_run *run, block_run *current)
{
    for (uint32_t i = 0; i < current->temps.count; i++) {
        kilni_binding_clear(run->device, &current->temps.bindings[i]);
    }
    kiln_free(&run->device->context->env, current->temps.bindings);
    current->temps = (kilni_temp_list){0};
}

static void block_end(const kilni_run *run, block_run *current)
{
    const kiln_env *env = &run->device->context->env;
    drop_temps(run, current);
    if (current->started && !current->unfused && current->lost == NULL) {
        kilni_block_state *state = current->view.block->state;
        state->proven = state->proven || !current->unseen;
        state->shortages = 0;
    }
    current->unseen = false;
    kilni_dependencies_release(current->dependencies);
    current->dependencies = NULL;
    kilni_fault_release(run->device, current->lost);
    current->lost = NULL;
    if (current->view.symbols != current->symbols) {
        kiln_free(env, current->view.symbols);
    }
    current->block = UINT32_MAX;
    current->unfused = false;
    current->started = false;
    current->counted = false;
    current->view = (kilni_block_view){0};
}

/// What the temporary was kept as; NULL when it is none that lives with the plan.
static kilni_persistent_temp *kept_of(const block_run *current, uint32_t temp)
{
    const kiln_plan_block *block = current->view.block;
    kilni_block_state *state = block->state;
    uint32_t n_temps = block->program->n_temps;
    if ((block->program->temps[temp].flags & KILN_TEMP_PERSISTENT) == 0) {
        return NULL;
    }
    if (state->kept == NULL) {
        state->kept =
            kiln_alloc_array(&state->device->context->env, n_temps, sizeof(kilni_persistent_temp));
        state->n_kept = state->kept == NULL ? 0 : n_temps;
        for (uint32_t i = 0; i < state->n_kept; i++) {
            state->kept[i].program = block->program->key;
            state->kept[i].number = i;
        }
    }
    return state->kept == NULL ? NULL : &state->kept[temp];
}

/// What a temporary of `bytes` is made from.
static kiln_status made_from(const block_run *current, uint32_t temp, int64_t bytes,
                             kilni_temp_origin *out_from, kiln_error *err)
{
    const kiln_program *program = current->view.block->program;
    const kiln_program_launch *launch = &program->launches[program->temps[temp].prepack_launch];
    *out_from = (kilni_temp_origin){.n_sources = KILNI_TEMP_SOURCES + 1};
    if (launch->n_args > KILN_LAUNCH_ARGS_MAX) {
        return KILN_STATUS_OK; // it will not run
    }
    out_from->n_sources = 0;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_READ) != 0) {
            if (out_from->n_sources < KILNI_TEMP_SOURCES) {
                out_from->sources[out_from->n_sources] =
                    current->view.run->bindings[kilni_plan_slot_of(&current->view, arg->ref)];
            }
            out_from->n_sources++;
        }
    }
    return kilni_plan_launch_numbers(&current->view, launch, bytes, &out_from->numbers, err);
}

/// Gives a temporary the memory where it was kept, by this plan or another. False: it was not.
static bool place_kept(block_run *current, uint32_t temp, kilni_persistent_temp *kept,
                       const kilni_temp_origin *from)
{
    kiln_device *device = current->view.run->device;
    if (from->n_sources > KILNI_TEMP_SOURCES) {
        return false;
    }
    if (!kilni_persistent_temp_serves(kept, from)) {
        const kilni_persistent_temp *other =
            kilni_persistent_temp_find(device, kept->program, temp, from);
        if (other == NULL) {
            return false;
        }
        kilni_persistent_temp_set(device, kept, &other->temp, from);
    }
    kilni_binding_share(&current->temps.bindings[temp], &kept->temp, &kept->temp.view);
    return true;
}

static kiln_status place_temp(block_run *current, uint32_t temp, int64_t bytes, kiln_error *err)
{
    kilni_persistent_temp *kept = kept_of(current, temp);
    kilni_binding *binding = &current->temps.bindings[temp];
    kilni_temp_origin from = {0};
    kiln_status status =
        kept != NULL ? made_from(current, temp, bytes, &from, err) : KILN_STATUS_OK;
    if (status != KILN_STATUS_OK || (kept != NULL && place_kept(current, temp, kept, &from))) {
        return status;
    }
    kiln_tensor_desc desc = {.dtype = KILN_DTYPE_U8, .rank = 1, .dims = {bytes}};
    if (kilni_layout_place_temp(current->view.run, current->block, temp, &desc, binding)) {
        return KILN_STATUS_OK;
    }
    return kilni_binding_alloc(current->view.run->device, &desc, binding, err);
}

/// Enqueues a launch; one whose block has not been seen to end before is waited for.
static kiln_status launch_watched(block_run *current, const kiln_plan_step *step, uint32_t index,
                                  bool *out_hung, kiln_error *err)
{
    const kilni_block_view *view = &current->view;
    const kilni_block_state *state = view->block->state;
    uint64_t deadline_ns =
        state->proven ? 0 : view->run->device->hooks->before_launch(view->run, view->block);
    current->unseen = current->unseen || deadline_ns == 0;
    if (deadline_ns != 0 || step == NULL) { // the next run does not wait, or has it
        kilni_repeat_refuse(view->run->repeat);
    }
    kiln_status status = kilni_plan_enqueue(view, step, index, &current->temps, err);
    if (status == KILN_STATUS_OK && deadline_ns != 0 &&
        !view->run->device->hooks->after_launch(view->run, view->block,
                                                view->block->program->launches[index].kernel,
                                                deadline_ns, err)) {
        *out_hung = true;
        status = KILN_STATUS_DEVICE_LOST;
    }
    return status;
}

/// Fills a temporary that lives with the plan, unless that was done for the same constants.
static kiln_status prepack(block_run *current, uint32_t temp, kiln_error *err)
{
    const kiln_program_temp *t = &current->view.block->program->temps[temp];
    kilni_temp_origin from = {0};
    kilni_persistent_temp *kept = kept_of(current, temp);
    const kilni_binding *binding = &current->temps.bindings[temp];
    if ((t->flags & KILN_TEMP_PERSISTENT) == 0) {
        return KILN_STATUS_OK;
    }
    const kiln_program_launch *launch = &current->view.block->program->launches[t->prepack_launch];
    const kilni_fault *fault = kilni_plan_input_fault(&current->view, launch);
    if (fault != NULL) { // alone, the operations pass it on
        if (err != NULL) {
            *err = fault->error;
        }
        return (kiln_status)fault->error.code;
    }
    if (kept != NULL && kept->temp.bound && kept->temp.storage == binding->storage) {
        return kilni_plan_follow_launch(&current->view, launch, &current->dependencies, err);
    }
    bool hung = false;
    kiln_status status = launch_watched(current, NULL, t->prepack_launch, &hung, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_plan_follow_launch(&current->view, launch, &current->dependencies, err);
    }
    if (status == KILN_STATUS_OK && kept != NULL) {
        status = made_from(current, temp, binding->view.dims[0], &from, err);
    }
    if (status == KILN_STATUS_OK && kept != NULL) {
        kilni_persistent_temp_set(current->view.run->device, kept, binding, &from);
        kilni_persistent_temp_spare(current->view.run->device, kept);
    }
    return status;
}

static kiln_status alloc_temps(block_run *current, kiln_error *err)
{
    const kiln_program *program = current->view.block->program;
    kiln_device *device = current->view.run->device;
    if (program->n_temps == 0) {
        return KILN_STATUS_OK;
    }
    current->temps.bindings =
        kiln_alloc_array(&device->context->env, program->n_temps, sizeof(kilni_binding));
    if (current->temps.bindings == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for temporaries");
    }
    current->temps.count = program->n_temps;
    for (uint32_t i = 0; i < program->n_temps; i++) {
        int64_t bytes = 0;
        kiln_status status =
            kilni_plan_evaluate(&current->view, &program->temps[i].bytes, &bytes, err);
        if (status == KILN_STATUS_OK && bytes <= 0) {
            status = kiln_fail(err, OUT_OF_RANGE, "a temporary of %lld bytes", (long long)bytes);
        }
        if (status == KILN_STATUS_OK) {
            status = place_temp(current, i, bytes, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status block_begin(const kilni_run *run, uint32_t index, block_run *current,
                               kiln_error *err)
{
    const kiln_plan_block *block = &run->segment->plan->blocks[index];
    current->block = index;
    current->view = (kilni_block_view){.run = run, .block = block};
    current->view.symbols = current->symbols;
    if (block->n_symbols > SMALL_SYMBOLS) {
        current->view.symbols =
            kiln_alloc_array(&run->device->context->env, block->n_symbols, sizeof(int64_t));
    }
    if (current->view.symbols == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a block's symbols");
    }
    for (uint32_t i = 0; i < block->n_symbols; i++) {
        current->view.symbols[i] = run->segment->symbols[block->symbols[i]];
    }
    kiln_status status = prepare_block(&current->view, err);
    if (status == KILN_STATUS_OK) {
        status = alloc_temps(current, err);
    }
    for (uint32_t i = 0; i < block->program->n_temps && status == KILN_STATUS_OK; i++) {
        status = prepack(current, i, err);
    }
    return status;
}

/// Lets the candidates of a block compete, before it runs.
static void tune(const kilni_run *run, uint32_t index, const block_run *current)
{
    kilni_block_state *state = current->view.block->state;
    kiln_device *device = run->device;
    if (device->samples.tune != KILNI_TUNE_OFF && !device->samples.measuring &&
        !device->samples.measured && !state->tuned) {
        uint64_t start_ns = kilni_trace_now(device);
        state->tuned = device->hooks->before_block(run, index, &state->scores);
        kilni_trace_span(device, KILNI_SPAN_MEASURE, "tournament", start_ns);
    }
}

static void count_block(const kilni_run *run, block_run *current)
{
    const kiln_plan_block *block = current->view.block;
    if (current->counted) {
        return;
    }
    current->counted = true;
    run->device->counts.blocks_fused++;
    for (uint32_t at = 0; at < block->n_ops; at++) {
        if (kiln_op_info_of(run->segment->ops[block->ops[at]].op)->cls != KILN_CLASS_CONTROL) {
            run->device->counts.ops_fused++;
        }
    }
}

static void leave_fusion(const kilni_run *run, block_run *current)
{
    current->unfused = true;
    kilni_repeat_refuse(run->repeat);
    drop_temps(run, current); // the unfused operations may need the memory
    run_block_unfused(&current->view);
}

static void give_up_fusion(const kilni_run *run, block_run *current, const kiln_error *cause)
{
    kilni_block_state *state = current->view.block->state;
    bool known = starves(run, cause) || (state != NULL && state->told);
    kiln_log_write(&run->device->context->env, known ? KILN_LOG_DEBUG : KILN_LOG_WARN, "runtime",
                   "block of %s runs unfused: %s", current->view.block->fuser, cause->message);
    if (state != NULL && !run->device->samples.measuring) {
        state->told = true;
    }
    leave_fusion(run, current);
}

/// Compares the block with its unfused operations, in checked mode: the results are theirs then.
static void check_block(const kilni_run *run, uint32_t index, block_run *current)
{
    kilni_block_state *state = current->view.block->state;
    kiln_device *device = run->device;
    bool wanted = device->check.mode == KILNI_CHECK_ALWAYS ||
                  (device->check.mode == KILNI_CHECK_FIRST && !state->checked);
    kilni_check *check =
        wanted && !device->samples.measuring ? device->hooks->shadow_begin(run, index) : NULL;
    if (check == NULL) {
        return;
    }
    count_block(run, current);
    current->unfused = true;
    drop_temps(run, current); // the unfused operations may need the memory
    run_block_unfused(&current->view);
    state->failed = !device->hooks->shadow_end(check, &state->checked);
    state->told = state->failed; // with what is wrong
}

/// Makes `block` the current one. False: it runs unfused, or has done so.
static bool enter_block(const kilni_run *run, uint32_t block, block_run *current)
{
    kiln_error err = KILN_ERROR_INIT;
    if (current->block != block) {
        block_end(run, current);
        if (block_begin(run, block, current, &err) != KILN_STATUS_OK) {
            give_up_fusion(run, current, &err);
        } else {
            tune(run, block, current);
            check_block(run, block, current);
            if (current->mark.tag != 0) { // samples have had others
                kilni_trace_tag(run->device, current->mark.tag);
            }
        }
    }
    return !current->unfused;
}

/// An unfused operation; one that is a step of a block runs only while the block does.
static void run_host_step(const kilni_run *run, const kiln_plan_step *step, block_run *current)
{
    uint32_t block = step->block;
    if (block == UINT32_MAX) {
        kilni_plan_run_op(run, step, step->index);
    } else if (enter_block(run, block, current)) {
        current->started = true;
        kilni_plan_run_op(run, step, step->index);
    }
}

static bool uses_temp(const kiln_program_launch *launch, uint32_t access)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        if (launch->args[i].kind == KILN_ARG_TEMP && (launch->args[i].access & access) != 0) {
            return true;
        }
    }
    return false;
}

/// A launch did not run: what it would have written fails, by way of temporaries later on too.
static void fail_launch(block_run *current, const kiln_program_launch *launch, kilni_fault *fault)
{
    kilni_plan_each_written(&current->view, launch, fault);
    if (fault != NULL && current->lost == NULL && uses_temp(launch, KILN_ACCESS_WRITE)) {
        fault->refs++;
        current->lost = fault;
    }
}

/// The launch is in the queue and does not end.
static void fail_hung(const kilni_run *run, block_run *current, const kiln_program_launch *launch,
                      const kiln_error *cause)
{
    kilni_fault *fault = kilni_fault_create(run->device, cause);
    ((kilni_block_state *)current->view.block->state)->failed = true;
    current->unseen = true;
    fail_launch(current, launch, fault);
    kilni_plan_note_failure(run, cause);
    kilni_fault_release(run->device, fault);
}

/// Whether an operation of the block before its `end`th makes the value.
static bool is_made_before(const kilni_run *run, const kiln_plan_block *block, uint32_t end,
                           uint32_t slot)
{
    for (uint32_t at = 0; at < end; at++) {
        const kiln_op_record *record = &run->segment->ops[block->ops[at]];
        for (size_t i = 0; i < record->n_outputs; i++) {
            if (kilni_plan_operand_slot(run, block->ops[at], record->n_inputs + i) == slot) {
                return true;
            }
        }
    }
    return false;
}

/// Whether the block's operations can still run unfused: only what dies is written over, and it
/// loses its place with that.
static bool can_leave(const block_run *current)
{
    const kilni_run *run = current->view.run;
    const kiln_plan_block *block = current->view.block;
    for (uint32_t at = 0; current->started && at < block->n_ops; at++) {
        uint32_t op = block->ops[at];
        for (size_t i = 0; i < run->segment->ops[op].n_inputs; i++) {
            uint32_t slot = kilni_plan_operand_slot(run, op, i);
            if (!is_made_before(run, block, at, slot) && !run->bindings[slot]->bound) {
                return false;
            }
        }
    }
    return true;
}

static void run_launch(const kilni_run *run, const kiln_plan_step *step, block_run *current)
{
    kiln_error err = KILN_ERROR_INIT;
    if (!enter_block(run, step->block, current)) {
        return;
    }
    const kiln_program_launch *launch = &current->view.block->program->launches[step->index];
    kilni_fault *fault = kilni_plan_input_fault(&current->view, launch);
    if (fault == NULL && uses_temp(launch, KILN_ACCESS_READ)) {
        fault = current->lost;
    }
    if (fault != NULL && can_leave(current)) {
        leave_fusion(run, current); // only what depends on what failed fails with it
        return;
    }
    if (fault != NULL || !kilni_plan_writes_something(&current->view, launch)) {
        kilni_repeat_refuse(run->repeat);
        fail_launch(current, launch, fault);
        return;
    }
    bool hung = false;
    kiln_status status = launch_watched(current, step, step->index, &hung, &err);
    if (status == KILN_STATUS_OK || hung) {
        current->started = true;
        count_block(run, current);
    }
    if (hung) {
        fail_hung(run, current, launch, &err);
        return;
    }
    if (status == KILN_STATUS_OK) {
        if (kilni_plan_follow_launch(&current->view, launch, &current->dependencies, &err) ==
            KILN_STATUS_OK) {
            if (current->dependencies != NULL) {
                kilni_repeat_refuse(run->repeat);
            }
            return;
        }
    }
    kilni_repeat_refuse(run->repeat);
    // Nothing of this launch was enqueued, so its inputs are whole; the block's may have died.
    block_failed(run, current->view.block, &err);
    current->unseen = true;
    if (can_leave(current)) {
        give_up_fusion(run, current, &err);
        return;
    }
    fault = kilni_fault_create(run->device, &err);
    fail_launch(current, launch, fault);
    kilni_plan_note_failure(run, &err);
    kilni_fault_release(run->device, fault);
}

static void run_steps(const kilni_run *run)
{
    const kiln_plan *plan = run->segment->plan;
    block_run current;
    bool traced = kilni_trace_of(run->device) != NULL;
    run->device->samples.measured = run->device->samples.measured && run->device->samples.measuring;
    current.block = UINT32_MAX;
    current.unfused = false;
    current.started = false;
    current.counted = false;
    current.unseen = false;
    current.temps = (kilni_temp_list){0};
    current.view = (kilni_block_view){0};
    current.dependencies = NULL;
    current.lost = NULL;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const kiln_plan_step *step = &plan->steps[i];
        current.mark = traced ? kilni_trace_step_begin(run) : (kilni_step_mark){0};
        if (step->kind == KILN_STEP_LAUNCH) {
            run_launch(run, step, &current);
        } else {
            uint32_t joined = kilni_plan_run_joined(run, i);
            if (joined == 0) {
                run_host_step(run, step, &current);
            } else { // nothing dies before the last of them
                i += joined - 1;
                step = &plan->steps[i];
            }
        }
        if (traced) {
            kilni_trace_step_end(run, i, current.mark);
        }
        for (uint32_t k = 0; k < step->n_dies; k++) {
            kilni_binding_clear(run->device, run->bindings[step->dies[k]]);
        }
    }
    block_end(run, &current);
}

void kilni_plan_run(const kilni_run *run)
{
    kilni_run with = *run;
    if (run->device->check.records && !run->device->samples.measuring) {
        run->device->hooks->before_run(run);
    }
    with.layout = kilni_layout_begin(run);
    run_steps(&with);
    if (with.layout != NULL) {
        kilni_layout_end(&with);
    }
}
