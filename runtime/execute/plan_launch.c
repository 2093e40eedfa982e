// SPDX-License-Identifier: MIT OR Apache-2.0
// One launch of a block: its formulas as numbers, its arguments, memory for what it writes, and
// what its results depend on.

#include "plan_internal.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_layout.h"
#include "rt_run.h"

#include <string.h>

kiln_status kilni_plan_evaluate(const kilni_block_view *view, const kiln_formula *formula,
                                int64_t *out_value, kiln_error *err)
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

// ---- in place ----

void kilni_plan_candidates_fini(kilni_block_state *state)
{
    const kiln_env *env = &state->device->context->env;
    for (uint32_t i = 0; i < state->n_launches; i++) {
        kiln_free(env, state->candidates[i].first);
        kiln_free(env, state->candidates[i].slots);
    }
    kiln_free(env, state->candidates);
    state->candidates = NULL;
    state->n_launches = 0;
}

/// The slots that die at the step and may be written over by a result of their argument's group;
/// UINT32_MAX for other arguments.
static void list_givers(const kilni_block_view *view, const kiln_plan_step *step,
                        const kiln_program_launch *launch, uint32_t *givers)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        givers[i] = UINT32_MAX;
        if (kilni_arg_gives_way(launch, i, arg->group)) {
            uint32_t slot = kilni_plan_slot_of(view, arg->ref);
            givers[i] = kilni_plan_is_dying(step, slot) ? slot : UINT32_MAX;
        }
    }
}

/// Counts, and lists when there is an array for it, whose memory each tensor may take.
static uint32_t list_candidates(const kilni_block_view *view, const kiln_program_launch *launch,
                                const uint32_t *givers, kilni_in_place_candidates *candidates)
{
    uint32_t count = 0;
    for (uint32_t ref = 0; ref < view->block->n_tensors; ref++) {
        uint32_t group = kilni_arg_group(launch, ref);
        candidates->first[ref] = count;
        for (uint32_t i = 0; i < launch->n_args; i++) {
            if (givers[i] == UINT32_MAX || launch->args[i].group != group) {
                continue;
            }
            if (candidates->slots != NULL) {
                candidates->slots[count] = givers[i];
            }
            count++;
        }
    }
    candidates->first[view->block->n_tensors] = count;
    return count;
}

/// Who may go on in whose memory is the same at each run of a plan, so it is found out once.
/// Without host memory for it nothing is done in place.
static const kilni_in_place_candidates *candidates_of(const kilni_block_view *view,
                                                      const kiln_plan_step *step,
                                                      const kiln_program_launch *launch)
{
    const kiln_env *env = &view->run->device->context->env;
    const kiln_program *program = view->block->program;
    kilni_block_state *state = view->block->state;
    if (state->candidates == NULL) {
        state->candidates = kiln_alloc_array(env, program->n_launches, sizeof(*state->candidates));
        state->n_launches = state->candidates != NULL ? program->n_launches : 0;
    }
    if (state->candidates == NULL) {
        return NULL;
    }
    kilni_in_place_candidates *candidates = &state->candidates[launch - program->launches];
    if (candidates->step == step) {
        return candidates;
    }
    uint32_t givers[KILN_LAUNCH_ARGS_MAX];
    kiln_free(env, candidates->first);
    kiln_free(env, candidates->slots);
    *candidates = (kilni_in_place_candidates){0};
    candidates->first =
        kiln_alloc_array(env, view->block->n_tensors + 1u, sizeof(*candidates->first));
    if (candidates->first == NULL) {
        return NULL;
    }
    list_givers(view, step, launch, givers);
    uint32_t count = list_candidates(view, launch, givers, candidates);
    candidates->slots = kiln_alloc_array(env, count + 1u, sizeof(*candidates->slots));
    if (candidates->slots == NULL) {
        return NULL;
    }
    (void)list_candidates(view, launch, givers, candidates);
    candidates->step = step;
    return candidates;
}

/// Memory for a tensor that the launch writes: that of an input in its last use when the program
/// allows it.
static kiln_status place_written(const kilni_block_view *view, const kiln_plan_step *step,
                                 const kiln_program_launch *launch, uint32_t ref, kiln_error *err)
{
    const kilni_run *run = view->run;
    uint32_t slot = kilni_plan_slot_of(view, ref);
    const kiln_tensor_desc *desc = &run->segment->tensors[slot];
    if (step != NULL && kilni_layout_place(run, slot, desc, run->bindings[slot])) {
        return KILN_STATUS_OK;
    }
    bool in_place = (view->block->program->flags & KILN_PROGRAM_IN_PLACE_SAFE) != 0;
    const kilni_in_place_candidates *candidates =
        in_place && step != NULL ? candidates_of(view, step, launch) : NULL;
    for (uint32_t i = candidates != NULL ? candidates->first[ref] : 0;
         candidates != NULL && i < candidates->first[ref + 1]; i++) {
        const kilni_binding *source = run->bindings[candidates->slots[i]];
        if (kilni_plan_can_reuse(source, desc)) {
            kilni_plan_reuse(run->bindings[slot], source, desc);
            kilni_layout_note(run, slot, run->bindings[slot]);
            return KILN_STATUS_OK;
        }
    }
    kiln_status status = kilni_binding_alloc(run->device, desc, run->bindings[slot], err);
    if (status == KILN_STATUS_OK && step != NULL) {
        kilni_layout_note(run, slot, run->bindings[slot]);
    }
    return status;
}

// ---- arguments ----

static kiln_status set_arg(const kilni_block_view *view, const kiln_plan_step *step,
                           const kiln_program_launch *launch, const kiln_program_arg *arg,
                           const kilni_temp_list *temps, kiln_launch_arg *out_arg, kiln_error *err)
{
    const kilni_run *run = view->run;
    int64_t value = 0;
    const kilni_binding *binding = NULL;
    if (arg->kind == KILN_ARG_TENSOR || arg->kind == KILN_ARG_OFFSET ||
        arg->kind == KILN_ARG_STRIDE) {
        uint32_t slot = kilni_plan_slot_of(view, arg->ref);
        kilni_binding *target = run->bindings[slot];
        if (!target->bound) {
            kiln_status status = place_written(view, step, launch, arg->ref, err);
            if (status != KILN_STATUS_OK) {
                return status;
            }
        }
        binding = target;
    }
    switch (arg->kind) {
    case KILN_ARG_TENSOR:
        *out_arg = (kiln_launch_arg){.kind = KILN_VALUE_BUFFER, .buffer = binding->view.buffer};
        return KILN_STATUS_OK;
    case KILN_ARG_TEMP:
        *out_arg = (kiln_launch_arg){.kind = KILN_VALUE_BUFFER,
                                     .buffer = temps->bindings[arg->ref].view.buffer};
        return KILN_STATUS_OK;
    case KILN_ARG_OFFSET: // a tensor that failed has no view: its block fails before it is launched
        value = binding->fault != NULL || binding->view.buffer == NULL
                    ? 0
                    : binding->view.offset_bytes / (int64_t)kiln_dtype_size(binding->view.dtype);
        break;
    case KILN_ARG_STRIDE:
        value = binding->view.strides[arg->axis];
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
        kiln_status status = kilni_plan_evaluate(view, &arg->value, &value, err);
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

static kiln_status evaluate_size(const kilni_block_view *view, const kiln_formula *formulas,
                                 uint32_t n_dims, size_t out_sizes[3], kiln_error *err)
{
    for (uint32_t i = 0; i < n_dims; i++) {
        int64_t value = 0;
        kiln_status status = kilni_plan_evaluate(view, &formulas[i], &value, err);
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

kiln_status kilni_plan_enqueue(const kilni_block_view *view, const kiln_plan_step *step,
                               uint32_t index, const kilni_temp_list *temps, kiln_error *err)
{
    const kiln_program_launch *launch = &view->block->program->launches[index];
    kiln_device *device = view->run->device;
    kiln_launch_arg args[KILN_LAUNCH_ARGS_MAX];
    kiln_launch ready = {.launch = index, .n_dims = launch->n_dims, .args = args};
    ready.n_args = launch->n_args;
    if (launch->n_args > KILN_LAUNCH_ARGS_MAX) {
        return kiln_fail(err, UNIMPLEMENTED, "kernel %s has %u arguments; at most %d",
                         launch->kernel, launch->n_args, KILN_LAUNCH_ARGS_MAX);
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
    const kilni_block_state *state = view->block->state;
    status = device->backend->program->launch(device->backend, state->built, &ready, err);
    if (view->run->repeat != NULL) {
        kilni_repeat_note(view->run->repeat, view, temps, &ready);
    }
    return status;
}

kiln_status kilni_plan_launch_numbers(const kilni_block_view *view,
                                      const kiln_program_launch *launch, int64_t bytes,
                                      kiln_hash128 *out_numbers, kiln_error *err)
{
    uint64_t numbers[KILN_LAUNCH_ARGS_MAX + 7];
    size_t sizes[6] = {0};
    uint32_t count = 0;
    kiln_status status = evaluate_size(view, launch->global, launch->n_dims, sizes, err);
    if (status == KILN_STATUS_OK && launch->local[0].count > 0) {
        status = evaluate_size(view, launch->local, launch->n_dims, sizes + 3, err);
    }
    for (uint32_t i = 0; i < 6; i++) {
        numbers[count++] = sizes[i];
    }
    numbers[count++] = (uint64_t)bytes;
    for (uint32_t i = 0; i < launch->n_args && status == KILN_STATUS_OK; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind != KILN_ARG_TENSOR && arg->kind != KILN_ARG_TEMP) {
            kiln_launch_arg value = {0};
            status = set_arg(view, NULL, launch, arg, NULL, &value, err);
            numbers[count++] = value.bytes;
        }
    }
    *out_numbers = kiln_hash_bytes(numbers, count * sizeof(numbers[0]));
    return status;
}

bool kilni_plan_writes_something(const kilni_block_view *view, const kiln_program_launch *launch)
{
    bool writes_tensor = false;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_WRITE) != 0) {
            writes_tensor = true;
            if (kiln_desc_count(&view->run->segment->tensors[kilni_plan_slot_of(view, arg->ref)]) >
                0) {
                return true;
            }
        }
    }
    return !writes_tensor;
}

kilni_fault *kilni_plan_input_fault(const kilni_block_view *view, const kiln_program_launch *launch)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_READ) != 0 &&
            kilni_plan_fault_of(view->run,
                                view->run->bindings[kilni_plan_slot_of(view, arg->ref)]) != NULL) {
            return view->run->bindings[kilni_plan_slot_of(view, arg->ref)]->fault;
        }
    }
    return NULL;
}

kiln_status kilni_plan_follow_launch(const kilni_block_view *view,
                                     const kiln_program_launch *launch,
                                     kilni_dependencies **dependencies, kiln_error *err)
{
    const kiln_env *env = &view->run->device->context->env;
    bool followed = true;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_READ) != 0) {
            const kilni_binding *binding = view->run->bindings[kilni_plan_slot_of(view, arg->ref)];
            followed = followed && kilni_dependencies_add(dependencies, env,
                                                          kilni_binding_dependencies(binding));
        }
    }
    for (uint32_t i = 0; *dependencies != NULL && i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_WRITE) != 0) {
            kilni_storage *storage =
                view->run->bindings[kilni_plan_slot_of(view, arg->ref)]->storage;
            followed = followed && kilni_storage_await(storage, env, *dependencies);
        }
    }
    return followed ? KILN_STATUS_OK
                    : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a tensor's value");
}

void kilni_plan_each_written(const kilni_block_view *view, const kiln_program_launch *launch,
                             kilni_fault *fault)
{
    kiln_error err = KILN_ERROR_INIT;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind != KILN_ARG_TENSOR || (arg->access & KILN_ACCESS_WRITE) == 0) {
            continue;
        }
        uint32_t slot = kilni_plan_slot_of(view, arg->ref);
        kilni_binding *binding = view->run->bindings[slot];
        if (fault != NULL) {
            kilni_binding_fail(view->run->device, binding, fault);
        } else if (!binding->bound) {
            // No elements, so no memory, so no failure.
            (void)kilni_binding_alloc(view->run->device, &view->run->segment->tensors[slot],
                                      binding, &err);
        }
    }
}
