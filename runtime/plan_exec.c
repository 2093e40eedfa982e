// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs plans: evaluates formulas, assigns buffers, enqueues launches and single operations, in the
// plan's order. Decides where results go (a new buffer, or that of an input whose last use this is)
// and what happens when a block cannot be built or launched: its operations run one by one.
// Failures stay with the tensors that they reach.

#include "runtime_internal.h"

/// What the executor keeps with a block of a plan.
typedef struct block_state {
    kiln_device *device;
    kiln_built *built;
    bool failed; ///< never tried again
    bool tuned; ///< measured, or never to be
    bool checked; ///< compared with its operations alone
    bool proven; ///< all of its launches have been seen to end
    kilni_scores scores;
    kilni_kept *kept; ///< per temporary, of a program with PERSISTENT ones
    uint32_t n_kept;
} block_state;

static void block_state_free(void *pointer)
{
    block_state *state = pointer;
    kilni_scores_fini(&state->scores, &state->device->context->env);
    if (state->built != NULL) {
        state->device->backend->ops->program_free(state->device->backend, state->built);
    }
    for (uint32_t i = 0; i < state->n_kept; i++) {
        kilni_kept_clear(state->device, &state->kept[i]);
    }
    kiln_free(&state->device->context->env, state->kept);
    kiln_free(&state->device->context->env, state);
}

bool kilni_plan_block_failed(const kiln_plan_block *block)
{
    const block_state *state = block->state;
    return state != NULL && state->failed;
}

// ---- places
// --------------------------------------------------------------------------------------

static uint32_t operand_slot(const kilni_run *run, uint32_t op, size_t operand)
{
    return ((const kiln_tensor *)run->segment->operands[op][operand])->slot;
}

static bool is_dying(const kiln_plan_step *step, uint32_t slot)
{
    for (uint32_t i = 0; step != NULL && i < step->n_dies; i++) {
        if (step->dies[i] == slot) {
            return true;
        }
    }
    return false;
}

/// Whether `source` may be overwritten by a result like `desc`: nobody else sees its memory.
static bool can_reuse(const kilni_place *source, const kiln_tensor_desc *desc)
{
    if (!source->placed || source->storage == NULL || source->storage->refs != 1 ||
        source->storage->foreign || source->storage->planned || source->view.offset_bytes != 0 ||
        !kiln_view_is_contiguous(&source->view) ||
        kiln_dtype_size(source->view.dtype) != kiln_dtype_size(desc->dtype) ||
        source->view.rank != desc->rank) {
        return false;
    }
    return memcmp(source->view.dims, desc->dims, desc->rank * sizeof(desc->dims[0])) == 0;
}

/// Gives `target` the memory of `source`, seen with the target's dtype.
static void reuse(kilni_place *target, const kilni_place *source, const kiln_tensor_desc *desc)
{
    kiln_view view = kiln_view_dense(desc, source->storage->buffer);
    kilni_place_share(target, source, &view);
}

static void note_failure(const kilni_run *run, const kiln_error *cause)
{
    if (run->device->fault == NULL) {
        run->device->fault = kilni_fault_create(run->device, cause);
    }
}

// ---- one operation alone
// ---------------------------------------------------------------------------

static void fail_outputs(const kilni_run *run, uint32_t op, kilni_fault *fault)
{
    const kiln_op_record *record = &run->segment->ops[op];
    for (size_t i = 0; i < record->n_outputs; i++) {
        kilni_place_fail(run->device, run->places[operand_slot(run, op, record->n_inputs + i)],
                         fault);
    }
}

static kiln_status place_output(const kilni_run *run, const kiln_plan_step *step, uint32_t op,
                                size_t output, kiln_error *err)
{
    const kiln_op_record *record = &run->segment->ops[op];
    const kiln_tensor_desc *desc = &record->outputs[output];
    uint32_t target_slot = operand_slot(run, op, record->n_inputs + output);
    kilni_place *target = run->places[target_slot];
    if (step != NULL && kilni_layout_place(run, target_slot, desc, target)) {
        return KILN_STATUS_OK;
    }
    bool elementwise = kiln_op_info_of(record->op)->cls == KILN_CLASS_ELEMENTWISE;
    for (size_t i = 0; elementwise && i < record->n_inputs; i++) {
        uint32_t slot = operand_slot(run, op, i);
        if (is_dying(step, slot) && can_reuse(run->places[slot], desc)) {
            reuse(target, run->places[slot], desc);
            kilni_layout_note(run, target_slot, target);
            return KILN_STATUS_OK;
        }
    }
    kiln_status status = kilni_place_alloc(run->device, desc, target, err);
    if (status == KILN_STATUS_OK && step != NULL) {
        kilni_layout_note(run, target_slot, target);
    }
    return status;
}

static kiln_status execute_on(const kilni_run *run, const kiln_plan_step *step,
                              const kiln_op_record *record, const kiln_view *inputs,
                              const kiln_view *outputs, kiln_error *err)
{
    kiln_backend *backend = run->device->backend;
    bool planned = step != NULL && run->layout != NULL;
    uint32_t number = planned ? (uint32_t)(step - run->segment->plan->steps) : 0;
    if (planned) {
        kilni_layout_lend(run, number);
    }
    kiln_status status = backend->ops->execute(backend, record, inputs, outputs, err);
    if (planned) {
        kilni_layout_learn(run, number);
    }
    return status;
}

static kiln_status ask_backend(const kilni_run *run, const kiln_plan_step *step,
                               const kiln_op_record *record, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    kiln_backend *backend = run->device->backend;
    if (record->op == KILN_OP_CUSTOM && backend->ops->runs != NULL &&
        !backend->ops->runs(backend, record)) {
        return kilni_custom_on_host(run->device, record, inputs, outputs, err);
    }
    kiln_status status = execute_on(run, step, record, inputs, outputs, err);
    if (status == KILN_STATUS_OK && kilni_collective_is(record)) { // other members wait for it
        status = backend->ops->flush(backend, err);
    }
    return status;
}

static kiln_status execute_op(const kilni_run *run, const kiln_plan_step *step, uint32_t op,
                              kiln_error *err)
{
    kiln_view inputs[KILN_MAX_INPUTS];
    kiln_view outputs[KILN_MAX_OUTPUTS];
    const kiln_op_record *record = &run->segment->ops[op];
    for (size_t i = 0; i < record->n_inputs; i++) {
        inputs[i] = run->places[operand_slot(run, op, i)]->view;
    }
    kilni_place *first = run->places[operand_slot(run, op, record->n_inputs)];
    uint32_t slot = operand_slot(run, op, 0);
    if (kilni_collective_is(record) &&
        !kilni_collective_is_served(run->device, record, run->places[slot])) {
        if (record->op == KILN_OP_ALL_REDUCE && is_dying(step, slot) &&
            can_reuse(run->places[slot], &record->outputs[0])) {
            reuse(first, run->places[slot], &record->outputs[0]);
        }
        return kilni_collective_execute(run->device, record, run->places[slot], first, err);
    }
    const kiln_device_info *device = kiln_device_info_of(run->device);
    if (kiln_op_info_of(record->op)->cls == KILN_CLASS_VIEW &&
        (device->features & KILN_FEATURE_OWN_VIEWS) == 0 &&
        kiln_view_apply(record, &inputs[0], &outputs[0])) {
        kilni_place_share(first, run->places[operand_slot(run, op, 0)], &outputs[0]);
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        kiln_status status = place_output(run, step, op, i, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        outputs[i] = run->places[operand_slot(run, op, record->n_inputs + i)]->view;
    }
    return ask_backend(run, step, record, inputs, outputs, err);
}

/// The fault of a value that came from elsewhere and failed on its way; NULL otherwise. The
/// place's from then on.
static kilni_fault *fault_of(const kilni_run *run, kilni_place *place)
{
    kiln_error err = KILN_ERROR_INIT;
    if (place->fault == NULL && kilni_place_waits(place) != NULL &&
        kilni_waits_status(kilni_place_waits(place), NULL, &err) != KILN_STATUS_OK) {
        kilni_fault *fault = kilni_fault_create(run->device, &err);
        kilni_place_fail(run->device, place, fault);
        kilni_fault_release(run->device, fault);
    }
    return place->fault;
}

/// Results depend on what the inputs depend on.
static kiln_status follow_inputs(const kilni_run *run, uint32_t op, kiln_error *err)
{
    const kiln_op_record *record = &run->segment->ops[op];
    for (size_t i = 0; i < record->n_inputs; i++) {
        kilni_waits *waits = kilni_place_waits(run->places[operand_slot(run, op, i)]);
        for (size_t k = 0; waits != NULL && k < record->n_outputs; k++) {
            const kilni_place *target = run->places[operand_slot(run, op, record->n_inputs + k)];
            if (!kilni_storage_await(target->storage, &run->device->context->env, waits)) {
                return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a tensor's value");
            }
        }
    }
    return KILN_STATUS_OK;
}

static void run_op(const kilni_run *run, const kiln_plan_step *step, uint32_t op)
{
    const kiln_op_record *record = &run->segment->ops[op];
    if (kiln_op_info_of(record->op)->cls == KILN_CLASS_CONTROL) {
        return;
    }
    kiln_error err = KILN_ERROR_INIT;
    for (size_t i = 0; i < record->n_inputs; i++) {
        kilni_place *place = run->places[operand_slot(run, op, i)];
        if (fault_of(run, place) != NULL) {
            fail_outputs(run, op, place->fault);
            return;
        }
        if (!place->placed) {
            (void)kiln_fail(&err, INTERNAL, "%s: input %zu has no value",
                            kiln_op_info_of(record->op)->name, i);
        }
    }
    if (err.code == 0 && run->device->check != KILNI_CHECK_OFF && !run->device->measuring) {
        kilni_check_indices(run, op);
    }
    if (err.code == 0 && execute_op(run, step, op, &err) == KILN_STATUS_OK &&
        follow_inputs(run, op, &err) == KILN_STATUS_OK) {
        return;
    }
    kilni_fault *fault = kilni_fault_create(run->device, &err);
    fail_outputs(run, op, fault);
    note_failure(run, &err);
    kilni_fault_release(run->device, fault);
}

// ---- one launch of a block
// ---------------------------------------------------------------------------

/// A block's numbers resolved to values: what formulas and arguments refer to.
typedef struct block_view {
    const kilni_run *run;
    const kiln_plan_block *block;
    int64_t *symbols;
} block_view;

static uint32_t slot_of(const block_view *view, uint32_t ref)
{
    return view->block->tensors[ref];
}

static kiln_status evaluate(const block_view *view, const kiln_formula *formula, int64_t *out_value,
                            kiln_error *err)
{
    return kiln_formula_eval(formula, view->symbols, view->block->n_symbols,
                             view->run->device->facts, KILN_FACT_COUNT, out_value, err);
}

/// Puts a number into an argument in the form of the kernel's parameter.
static void set_number(kiln_launch_arg *arg, kiln_dtype dtype, bool is_float, int64_t i, double f)
{
    arg->kind = KILN_VALUE_BYTES;
    arg->length = (uint32_t)kiln_dtype_size(dtype);
    arg->bytes = 0;
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
        const kiln_attr number = {KILN_ATTR_F64, 1, {.f = is_float ? f : (double)i}};
        (void)kiln_number_store(&number, dtype, &arg->bytes); // fits: checked when it was recorded
        return;
    }
    int64_t integer = i;
    if (is_float) {
        integer = f != f                        ? 0
                  : f >= 9.2233720368547758e18  ? INT64_MAX
                  : f <= -9.2233720368547758e18 ? INT64_MIN
                                                : (int64_t)f;
    }
    memcpy(&arg->bytes, &integer, 8); // little-endian: the low bytes come first
}

/// Memory for a tensor that the launch writes: that of an input in its last use when the program
/// allows it.
static kiln_status place_written(const block_view *view, const kiln_plan_step *step,
                                 const kiln_program_launch *launch, uint32_t ref, kiln_error *err)
{
    const kilni_run *run = view->run;
    uint32_t slot = slot_of(view, ref);
    const kiln_tensor_desc *desc = &run->segment->tensors[slot];
    if (step != NULL && kilni_layout_place(run, slot, desc, run->places[slot])) {
        return KILN_STATUS_OK;
    }
    bool in_place = (view->block->program->flags & KILN_PROGRAM_IN_PLACE_SAFE) != 0;
    uint32_t group = kilni_arg_group(launch, ref);
    for (uint32_t i = 0; in_place && i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind != KILN_ARG_TENSOR || arg->access != KILN_ACCESS_READ ||
            arg->group != group) {
            continue;
        }
        uint32_t source = slot_of(view, arg->ref);
        if (is_dying(step, source) && can_reuse(run->places[source], desc)) {
            reuse(run->places[slot], run->places[source], desc);
            kilni_layout_note(run, slot, run->places[slot]);
            return KILN_STATUS_OK;
        }
    }
    kiln_status status = kilni_place_alloc(run->device, desc, run->places[slot], err);
    if (status == KILN_STATUS_OK && step != NULL) {
        kilni_layout_note(run, slot, run->places[slot]);
    }
    return status;
}

/// One temporary of a program while a segment runs.
typedef struct temp_list {
    kilni_place *places;
    uint32_t count;
} temp_list;

static kiln_status set_arg(const block_view *view, const kiln_plan_step *step,
                           const kiln_program_launch *launch, const kiln_program_arg *arg,
                           const temp_list *temps, kiln_launch_arg *out_arg, kiln_error *err)
{
    const kilni_run *run = view->run;
    int64_t value = 0;
    const kilni_place *place = NULL;
    if (arg->kind == KILN_ARG_TENSOR || arg->kind == KILN_ARG_OFFSET ||
        arg->kind == KILN_ARG_STRIDE) {
        uint32_t slot = slot_of(view, arg->ref);
        kilni_place *target = run->places[slot];
        if (!target->placed) {
            kiln_status status = place_written(view, step, launch, arg->ref, err);
            if (status != KILN_STATUS_OK) {
                return status;
            }
        }
        place = target;
    }
    switch (arg->kind) {
    case KILN_ARG_TENSOR:
        *out_arg = (kiln_launch_arg){.kind = KILN_VALUE_BUFFER, .buffer = place->view.buffer};
        return KILN_STATUS_OK;
    case KILN_ARG_TEMP:
        *out_arg = (kiln_launch_arg){.kind = KILN_VALUE_BUFFER,
                                     .buffer = temps->places[arg->ref].view.buffer};
        return KILN_STATUS_OK;
    case KILN_ARG_OFFSET:
        value = place->view.offset_bytes / (int64_t)kiln_dtype_size(place->view.dtype);
        break;
    case KILN_ARG_STRIDE:
        value = place->view.strides[arg->axis];
        break;
    case KILN_ARG_DIM:
        value = view->symbols[arg->ref];
        break;
    case KILN_ARG_SCALAR: {
        const kiln_attr *scalar = &run->segment->scalars[view->block->scalars[arg->ref]];
        bool is_float = scalar->type == KILN_ATTR_F64;
        set_number(out_arg, arg->dtype, is_float, is_float ? 0 : scalar->v.i,
                   is_float ? scalar->v.f : 0);
        return KILN_STATUS_OK;
    }
    case KILN_ARG_LOCAL:
    case KILN_ARG_FORMULA: {
        kiln_status status = evaluate(view, &arg->value, &value, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        if (arg->kind == KILN_ARG_LOCAL) {
            *out_arg = (kiln_launch_arg){.kind = KILN_VALUE_LOCAL, .bytes = (uint64_t)value};
            return value > 0 ? KILN_STATUS_OK
                             : kiln_fail(err, OUT_OF_RANGE, "%lld bytes of local memory",
                                         (long long)value);
        }
        break;
    }
    }
    if (arg->dtype == KILN_DTYPE_I32 && (value > INT32_MAX || value < INT32_MIN)) {
        return kiln_fail(err, OUT_OF_RANGE, "%lld does not fit a 32-bit argument of %s",
                         (long long)value, launch->kernel);
    }
    set_number(out_arg, arg->dtype, /*is_float=*/false, value, 0);
    return KILN_STATUS_OK;
}

static kiln_status evaluate_size(const block_view *view, const kiln_formula *formulas,
                                 uint32_t n_dims, size_t out_sizes[3], kiln_error *err)
{
    for (uint32_t i = 0; i < n_dims; i++) {
        int64_t value = 0;
        kiln_status status = evaluate(view, &formulas[i], &value, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        if (value <= 0) {
            return kiln_fail(err, OUT_OF_RANGE, "a launch of %lld work-items", (long long)value);
        }
        out_sizes[i] = (size_t)value;
    }
    return KILN_STATUS_OK;
}

enum { MAX_LAUNCH_ARGS = 192 };

static kiln_status enqueue(const block_view *view, const kiln_plan_step *step, uint32_t index,
                           const temp_list *temps, kiln_error *err)
{
    const kiln_program_launch *launch = &view->block->program->launches[index];
    kiln_device *device = view->run->device;
    kiln_launch_arg args[MAX_LAUNCH_ARGS];
    kiln_launch ready = {.launch = index, .n_dims = launch->n_dims, .args = args};
    ready.n_args = launch->n_args;
    if (launch->n_args > MAX_LAUNCH_ARGS) {
        return kiln_fail(err, UNIMPLEMENTED, "kernel %s has %u arguments; at most %d",
                         launch->kernel, launch->n_args, MAX_LAUNCH_ARGS);
    }
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < launch->n_args && status == KILN_STATUS_OK; i++) {
        status = set_arg(view, step, launch, &launch->args[i], temps, &args[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = evaluate_size(view, launch->global, launch->n_dims, ready.global, err);
    }
    if (status == KILN_STATUS_OK && launch->local[0].count > 0) {
        status = evaluate_size(view, launch->local, launch->n_dims, ready.local, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const block_state *state = view->block->state;
    return device->backend->ops->program_launch(device->backend, state->built, &ready, err);
}

/// A launch that would write only tensors without elements is left out.
static bool writes_something(const block_view *view, const kiln_program_launch *launch)
{
    bool writes_tensor = false;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_WRITE) != 0) {
            writes_tensor = true;
            if (kiln_desc_count(&view->run->segment->tensors[slot_of(view, arg->ref)]) > 0) {
                return true;
            }
        }
    }
    return !writes_tensor;
}

/// The first fault among what a launch reads, or NULL.
static kilni_fault *input_fault(const block_view *view, const kiln_program_launch *launch)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_READ) != 0 &&
            fault_of(view->run, view->run->places[slot_of(view, arg->ref)]) != NULL) {
            return view->run->places[slot_of(view, arg->ref)]->fault;
        }
    }
    return NULL;
}

/// What a launch writes depends on all that its block has read so far: temporaries carry it on.
static kiln_status follow_launch(const block_view *view, const kiln_program_launch *launch,
                                 kilni_waits **waits, kiln_error *err)
{
    const kiln_env *env = &view->run->device->context->env;
    bool followed = true;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_READ) != 0) {
            const kilni_place *place = view->run->places[slot_of(view, arg->ref)];
            followed = followed && kilni_waits_add(waits, env, kilni_place_waits(place));
        }
    }
    for (uint32_t i = 0; *waits != NULL && i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_WRITE) != 0) {
            kilni_storage *storage = view->run->places[slot_of(view, arg->ref)]->storage;
            followed = followed && kilni_storage_await(storage, env, *waits);
        }
    }
    return followed ? KILN_STATUS_OK
                    : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a tensor's value");
}

static void each_written(const block_view *view, const kiln_program_launch *launch,
                         kilni_fault *fault)
{
    kiln_error err = KILN_ERROR_INIT;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind != KILN_ARG_TENSOR || (arg->access & KILN_ACCESS_WRITE) == 0) {
            continue;
        }
        uint32_t slot = slot_of(view, arg->ref);
        kilni_place *place = view->run->places[slot];
        if (fault != NULL) {
            kilni_place_fail(view->run->device, place, fault);
        } else if (!place->placed) {
            // No elements, so no memory, so no failure.
            (void)kilni_place_alloc(view->run->device, &view->run->segment->tensors[slot], place,
                                    &err);
        }
    }
}

// ---- blocks
// --------------------------------------------------------------------------------------

static kiln_status prepare_block(const block_view *view, kiln_error *err)
{
    kiln_plan_block *block = (kiln_plan_block *)(uintptr_t)view->block;
    kiln_device *device = view->run->device;
    block_state *state = block->state;
    if (state == NULL) {
        state = kiln_alloc(&device->context->env, sizeof(*state));
        if (state == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a block");
        }
        state->device = device;
        block->state = state;
        block->state_free = block_state_free;
        uint64_t start_ns = kilni_trace_now(device);
        kiln_fuse_block_doing(view->run->engine, block, KILN_FUSE_BUILDS);
        kiln_status status = device->backend->ops->program_build(device->backend, block->program,
                                                                 &state->built, err);
        kiln_fuse_block_doing(view->run->engine, block, KILN_FUSE_DOES_NOTHING);
        kilni_trace_span(device, KILNI_SPAN_BUILD, block->fuser, start_ns);
        if (status != KILN_STATUS_OK) {
            state->failed = true;
            kiln_fuse_block_failed(view->run->engine, block, err);
            return status;
        }
    }
    if (state->failed) {
        return kiln_fail(err, FAILED_PRECONDITION, "the block failed before");
    }
    if (block->program->guard.count > 0) {
        int64_t holds = 0;
        kiln_status status = evaluate(view, &block->program->guard, &holds, err);
        if (status != KILN_STATUS_OK || holds == 0) {
            return kiln_fail(err, FAILED_PRECONDITION, "the program's guard does not hold");
        }
    }
    return KILN_STATUS_OK;
}

static void run_block_unfused(const block_view *view)
{
    const kiln_plan_block *block = view->block;
    for (uint32_t at = 0; at < block->n_ops; at++) {
        uint32_t op = block->ops[at];
        const kiln_op_record *record = &view->run->segment->ops[op];
        for (size_t i = 0; i < record->n_outputs; i++) {
            kilni_place_clear(view->run->device,
                              view->run->places[operand_slot(view->run, op, record->n_inputs + i)]);
        }
        run_op(view->run, NULL, op);
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
    block_view view;
    temp_list temps;
    kilni_waits *waits; ///< what its launches so far depend on
    kilni_step_mark mark; ///< of the step that runs
    kilni_fault *lost; ///< why its temporaries do not hold what they should
} block_run;

static void drop_temps(const kilni_run *run, block_run *current)
{
    for (uint32_t i = 0; i < current->temps.count; i++) {
        kilni_place_clear(run->device, &current->temps.places[i]);
    }
    kiln_free(&run->device->context->env, current->temps.places);
    current->temps = (temp_list){0};
}

static void block_end(const kilni_run *run, block_run *current)
{
    const kiln_env *env = &run->device->context->env;
    drop_temps(run, current);
    if (current->started && !current->unseen && current->lost == NULL) {
        ((block_state *)current->view.block->state)->proven = true;
    }
    current->unseen = false;
    kilni_waits_release(current->waits);
    current->waits = NULL;
    kilni_fault_release(run->device, current->lost);
    current->lost = NULL;
    if (current->view.symbols != current->symbols) {
        kiln_free(env, current->view.symbols);
    }
    current->block = UINT32_MAX;
    current->unfused = false;
    current->started = false;
    current->counted = false;
    current->view = (block_view){0};
}

/// What the temporary was kept as; NULL when it is none that lives with the plan.
static kilni_kept *kept_of(const block_run *current, uint32_t temp)
{
    const kiln_plan_block *block = current->view.block;
    block_state *state = block->state;
    uint32_t n_temps = block->program->n_temps;
    if ((block->program->temps[temp].flags & KILN_TEMP_PERSISTENT) == 0) {
        return NULL;
    }
    if (state->kept == NULL) {
        state->kept = kiln_alloc_array(&state->device->context->env, n_temps, sizeof(kilni_kept));
        state->n_kept = state->kept == NULL ? 0 : n_temps;
        for (uint32_t i = 0; i < state->n_kept; i++) {
            state->kept[i].program = block->program->key;
            state->kept[i].number = i;
        }
    }
    return state->kept == NULL ? NULL : &state->kept[temp];
}

/// The constants that a temporary is made from; more than there is room for are only counted.
static uint32_t sources_of(const block_run *current, uint32_t temp, kilni_place **out_sources)
{
    const kiln_program *program = current->view.block->program;
    const kiln_program_launch *launch = &program->launches[program->temps[temp].prepack_launch];
    uint32_t count = 0;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_READ) != 0) {
            if (count < KILNI_KEPT_SOURCES) {
                out_sources[count] = current->view.run->places[slot_of(&current->view, arg->ref)];
            }
            count++;
        }
    }
    return count;
}

/// Gives a temporary the memory where it was kept, by this plan or another. False: it was not.
static bool place_kept(block_run *current, uint32_t temp, int64_t bytes, kilni_kept *kept)
{
    kilni_place *sources[KILNI_KEPT_SOURCES];
    kiln_device *device = current->view.run->device;
    uint32_t n_sources = sources_of(current, temp, sources);
    if (n_sources > KILNI_KEPT_SOURCES) {
        return false;
    }
    if (!kilni_kept_serves(kept, bytes, sources, n_sources)) {
        const kilni_kept *other =
            kilni_kept_find(device, kept->program, temp, bytes, sources, n_sources);
        if (other == NULL) {
            return false;
        }
        kilni_kept_set(device, kept, &other->temp, bytes, sources, n_sources);
    }
    kilni_place_share(&current->temps.places[temp], &kept->temp, &kept->temp.view);
    return true;
}

static kiln_status place_temp(block_run *current, uint32_t temp, int64_t bytes, kiln_error *err)
{
    kilni_kept *kept = kept_of(current, temp);
    kilni_place *place = &current->temps.places[temp];
    if (kept != NULL && place_kept(current, temp, bytes, kept)) {
        return KILN_STATUS_OK;
    }
    kiln_tensor_desc desc = {.dtype = KILN_DTYPE_U8, .rank = 1, .dims = {bytes}};
    if (kilni_layout_place_temp(current->view.run, current->block, temp, &desc, place)) {
        return KILN_STATUS_OK;
    }
    return kilni_place_alloc(current->view.run->device, &desc, place, err);
}

/// Enqueues a launch; one whose block has not been seen to end before is waited for.
static kiln_status launch_watched(block_run *current, const kiln_plan_step *step, uint32_t index,
                                  bool *out_hung, kiln_error *err)
{
    const block_view *view = &current->view;
    const block_state *state = view->block->state;
    uint64_t deadline_ns = state->proven ? 0 : kilni_watchdog_begin(view->run, view->block);
    current->unseen = current->unseen || deadline_ns == 0;
    kiln_status status = enqueue(view, step, index, &current->temps, err);
    if (status == KILN_STATUS_OK && deadline_ns != 0 &&
        !kilni_watchdog_wait(view->run, view->block, view->block->program->launches[index].kernel,
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
    kilni_place *sources[KILNI_KEPT_SOURCES];
    kilni_kept *kept = kept_of(current, temp);
    const kilni_place *place = &current->temps.places[temp];
    if ((t->flags & KILN_TEMP_PERSISTENT) == 0) {
        return KILN_STATUS_OK;
    }
    const kiln_program_launch *launch = &current->view.block->program->launches[t->prepack_launch];
    const kilni_fault *fault = input_fault(&current->view, launch);
    if (fault != NULL) { // alone, the operations pass it on
        if (err != NULL) {
            *err = fault->error;
        }
        return (kiln_status)fault->error.code;
    }
    if (kept != NULL && kept->temp.placed && kept->temp.storage == place->storage) {
        return follow_launch(&current->view, launch, &current->waits, err);
    }
    bool hung = false;
    kiln_status status = launch_watched(current, NULL, t->prepack_launch, &hung, err);
    if (status == KILN_STATUS_OK) {
        status = follow_launch(&current->view, launch, &current->waits, err);
    }
    if (status == KILN_STATUS_OK && kept != NULL) {
        uint32_t n_sources = sources_of(current, temp, sources);
        kilni_kept_set(current->view.run->device, kept, place, place->view.dims[0], sources,
                       n_sources);
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
    current->temps.places =
        kiln_alloc_array(&device->context->env, program->n_temps, sizeof(kilni_place));
    if (current->temps.places == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for temporaries");
    }
    current->temps.count = program->n_temps;
    for (uint32_t i = 0; i < program->n_temps; i++) {
        int64_t bytes = 0;
        kiln_status status = evaluate(&current->view, &program->temps[i].bytes, &bytes, err);
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
    current->view = (block_view){.run = run, .block = block};
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
    block_state *state = current->view.block->state;
    kiln_device *device = run->device;
    if (device->tune != KILNI_TUNE_OFF && !device->measuring && !device->measured &&
        !state->tuned) {
        uint64_t start_ns = kilni_trace_now(device);
        state->tuned = kilni_tune_block(run, index, &state->scores);
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
    run->device->blocks_fused++;
    for (uint32_t at = 0; at < block->n_ops; at++) {
        if (kiln_op_info_of(run->segment->ops[block->ops[at]].op)->cls != KILN_CLASS_CONTROL) {
            run->device->ops_fused++;
        }
    }
}

/// A sample needs more memory than the run that it is for: that it found none says nothing about
/// the program.
static bool starves(const kilni_run *run, const kiln_error *cause)
{
    kiln_device *device = run->device;
    bool starved = device->measuring && cause->code == KILN_STATUS_RESOURCE_EXHAUSTED;
    device->starved = device->starved || starved;
    return starved;
}

static void give_up_fusion(const kilni_run *run, block_run *current, const kiln_error *cause)
{
    kiln_log_write(&run->device->context->env, starves(run, cause) ? KILN_LOG_DEBUG : KILN_LOG_WARN,
                   "runtime", "block of %s runs unfused: %s", current->view.block->fuser,
                   cause->message);
    current->unfused = true;
    drop_temps(run, current); // the operations alone may need the memory
    run_block_unfused(&current->view);
}

/// Compares the block with its operations alone, in checked mode: the results are theirs then.
static void check_block(const kilni_run *run, uint32_t index, block_run *current)
{
    block_state *state = current->view.block->state;
    kiln_device *device = run->device;
    bool wanted = device->check == KILNI_CHECK_ALWAYS ||
                  (device->check == KILNI_CHECK_FIRST && !state->checked);
    kilni_check *check = wanted && !device->measuring ? kilni_check_begin(run, index) : NULL;
    if (check == NULL) {
        return;
    }
    state->checked = true;
    count_block(run, current);
    current->unfused = true;
    drop_temps(run, current); // the operations alone may need the memory
    run_block_unfused(&current->view);
    state->failed = !kilni_check_end(check);
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

/// An operation alone; one that is a step of a block runs only while the block does.
static void run_host_step(const kilni_run *run, const kiln_plan_step *step, block_run *current)
{
    uint32_t block = step->block;
    if (block == UINT32_MAX) {
        run_op(run, step, step->index);
    } else if (enter_block(run, block, current)) {
        current->started = true;
        run_op(run, step, step->index);
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
    each_written(&current->view, launch, fault);
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
    ((block_state *)current->view.block->state)->failed = true;
    current->unseen = true;
    fail_launch(current, launch, fault);
    note_failure(run, cause);
    kilni_fault_release(run->device, fault);
}

static void run_launch(const kilni_run *run, const kiln_plan_step *step, block_run *current)
{
    kiln_error err = KILN_ERROR_INIT;
    if (!enter_block(run, step->block, current)) {
        return;
    }
    const kiln_program_launch *launch = &current->view.block->program->launches[step->index];
    kilni_fault *fault = input_fault(&current->view, launch);
    if (fault == NULL && uses_temp(launch, KILN_ACCESS_READ)) {
        fault = current->lost;
    }
    if (fault != NULL || !writes_something(&current->view, launch)) {
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
        if (follow_launch(&current->view, launch, &current->waits, &err) == KILN_STATUS_OK) {
            return;
        }
    }
    // Nothing of this launch was enqueued, so its inputs are whole. Later launches may have lost
    // theirs.
    if (!starves(run, &err)) {
        kiln_fuse_block_failed(run->engine, current->view.block, &err);
        ((block_state *)current->view.block->state)->failed = true;
    }
    if (!current->started) {
        give_up_fusion(run, current, &err);
        return;
    }
    fault = kilni_fault_create(run->device, &err);
    fail_launch(current, launch, fault);
    note_failure(run, &err);
    kilni_fault_release(run->device, fault);
}

static void run_steps(const kilni_run *run)
{
    const kiln_plan *plan = run->segment->plan;
    block_run current;
    bool traced = kilni_trace_of(run->device) != NULL;
    run->device->measured = run->device->measured && run->device->measuring;
    current.block = UINT32_MAX;
    current.unfused = false;
    current.started = false;
    current.counted = false;
    current.unseen = false;
    current.temps = (temp_list){0};
    current.view = (block_view){0};
    current.waits = NULL;
    current.lost = NULL;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const kiln_plan_step *step = &plan->steps[i];
        current.mark = traced ? kilni_trace_step_begin(run) : (kilni_step_mark){0};
        if (step->kind == KILN_STEP_LAUNCH) {
            run_launch(run, step, &current);
        } else {
            run_host_step(run, step, &current);
        }
        if (traced) {
            kilni_trace_step_end(run, i, current.mark);
        }
        for (uint32_t k = 0; k < step->n_dies; k++) {
            kilni_place_clear(run->device, run->places[step->dies[k]]);
        }
    }
    block_end(run, &current);
}

void kilni_plan_run(const kilni_run *run)
{
    kilni_run with = *run;
    if (run->device->records && !run->device->measuring) {
        kilni_record_file(run);
    }
    with.layout = kilni_layout_begin(run);
    run_steps(&with);
    if (with.layout != NULL) {
        kilni_layout_end(&with);
    }
}
