// SPDX-License-Identifier: MIT OR Apache-2.0
// One launch of a block: its formulas as numbers, its arguments, memory for what it writes, and
// what its results depend on.

#include "plan_internal.h"

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

/// Memory for a tensor that the launch writes: that of an input in its last use when the program
/// allows it.
static kiln_status place_written(const kilni_block_view *view, const kiln_plan_step *step,
                                 const kiln_program_launch *launch, uint32_t ref, kiln_error *err)
{
    const kilni_run *run = view->run;
    uint32_t slot = kilni_plan_slot_of(view, ref);
    const kiln_tensor_desc *desc = &run->segment->tensors[slot];
    if (step != NULL && kilni_layout_place(run, slot, desc, run->places[slot])) {
        return KILN_STATUS_OK;
    }
    bool in_place = (view->block->program->flags & KILN_PROGRAM_IN_PLACE_SAFE) != 0;
    uint32_t group = kilni_arg_group(launch, ref);
    for (uint32_t i = 0; in_place && i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (!kilni_arg_gives_way(launch, i, group)) {
            continue;
        }
        uint32_t source = kilni_plan_slot_of(view, arg->ref);
        if (kilni_plan_is_dying(step, source) && kilni_plan_can_reuse(run->places[source], desc)) {
            kilni_plan_reuse(run->places[slot], run->places[source], desc);
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
static kiln_status set_arg(const kilni_block_view *view, const kiln_plan_step *step,
                           const kiln_program_launch *launch, const kiln_program_arg *arg,
                           const kilni_temp_list *temps, kiln_launch_arg *out_arg, kiln_error *err)
{
    const kilni_run *run = view->run;
    int64_t value = 0;
    const kilni_place *place = NULL;
    if (arg->kind == KILN_ARG_TENSOR || arg->kind == KILN_ARG_OFFSET ||
        arg->kind == KILN_ARG_STRIDE) {
        uint32_t slot = kilni_plan_slot_of(view, arg->ref);
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
    return device->backend->ops->program_launch(device->backend, state->built, &ready, err);
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
            kilni_plan_fault_of(view->run, view->run->places[kilni_plan_slot_of(view, arg->ref)]) !=
                NULL) {
            return view->run->places[kilni_plan_slot_of(view, arg->ref)]->fault;
        }
    }
    return NULL;
}

kiln_status kilni_plan_follow_launch(const kilni_block_view *view,
                                     const kiln_program_launch *launch, kilni_waits **waits,
                                     kiln_error *err)
{
    const kiln_env *env = &view->run->device->context->env;
    bool followed = true;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_READ) != 0) {
            const kilni_place *place = view->run->places[kilni_plan_slot_of(view, arg->ref)];
            followed = followed && kilni_waits_add(waits, env, kilni_place_waits(place));
        }
    }
    for (uint32_t i = 0; *waits != NULL && i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && (arg->access & KILN_ACCESS_WRITE) != 0) {
            kilni_storage *storage = view->run->places[kilni_plan_slot_of(view, arg->ref)]->storage;
            followed = followed && kilni_storage_await(storage, env, *waits);
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
