// SPDX-License-Identifier: MIT OR Apache-2.0
// One operation of a plan by itself: alone in the plan, a step that a block leaves to the host, or
// one of a block that cannot run. Decides where results go (a new buffer, or that of an input whose
// last use this is). Failures stay with the tensors that they reach.

#include "plan_internal.h"
#include "rt_binding.h"
#include "rt_check_state.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_layout.h"
#include "rt_run.h"

#include <string.h>

bool kilni_plan_is_dying(const kiln_plan_step *step, uint32_t slot)
{
    for (uint32_t i = 0; step != NULL && i < step->n_dies; i++) {
        if (step->dies[i] == slot) {
            return true;
        }
    }
    return false;
}

bool kilni_plan_can_reuse(const kilni_binding *source, const kiln_tensor_desc *desc)
{
    if (!source->bound || source->storage == NULL || source->storage->refs != 1 ||
        source->storage->foreign || source->storage->planned || source->view.offset_bytes != 0 ||
        !kiln_view_is_contiguous(&source->view) ||
        kiln_dtype_size(source->view.dtype) != kiln_dtype_size(desc->dtype) ||
        source->view.rank != desc->rank) {
        return false;
    }
    return memcmp(source->view.dims, desc->dims, desc->rank * sizeof(desc->dims[0])) == 0;
}

void kilni_plan_reuse(kilni_binding *target, const kilni_binding *source,
                      const kiln_tensor_desc *desc)
{
    kiln_view view = kiln_view_dense(desc, source->storage->buffer);
    kilni_binding_share(target, source, &view);
}

void kilni_plan_note_failure(const kilni_run *run, const kiln_error *cause)
{
    if (run->device->faults.first == NULL) {
        run->device->faults.first = kilni_fault_create(run->device, cause);
    }
}

// ---- one unfused operation ----

static void fail_outputs(const kilni_run *run, uint32_t op, kilni_fault *fault)
{
    const kiln_op_record *record = &run->segment->ops[op];
    for (size_t i = 0; i < record->n_outputs; i++) {
        kilni_binding_fail(run->device,
                           run->bindings[kilni_plan_operand_slot(run, op, record->n_inputs + i)],
                           fault);
    }
}

static kiln_status place_output(const kilni_run *run, const kiln_plan_step *step, uint32_t op,
                                size_t output, kiln_error *err)
{
    const kiln_op_record *record = &run->segment->ops[op];
    const kiln_tensor_desc *desc = &record->outputs[output];
    uint32_t target_slot = kilni_plan_operand_slot(run, op, record->n_inputs + output);
    kilni_binding *target = run->bindings[target_slot];
    if (step != NULL && kilni_layout_place(run, target_slot, desc, target)) {
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < kiln_op_givers(record); i++) {
        uint32_t slot = kilni_plan_operand_slot(run, op, i);
        if (kilni_plan_is_dying(step, slot) && kilni_plan_can_reuse(run->bindings[slot], desc)) {
            kilni_plan_reuse(target, run->bindings[slot], desc);
            kilni_layout_note(run, target_slot, target);
            return KILN_STATUS_OK;
        }
    }
    kiln_status status = kilni_binding_alloc(run->device, desc, target, err);
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
    kiln_status status = backend->device->execute(backend, record, inputs, outputs, err);
    if (planned) {
        kilni_layout_learn(run, number);
    }
    if (run->repeat != NULL) {
        kilni_repeat_note_op(run->repeat, run, record, inputs, outputs);
    }
    return status;
}

static kiln_status ask_backend(const kilni_run *run, const kiln_plan_step *step,
                               const kiln_op_record *record, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    kiln_backend *backend = run->device->backend;
    if (record->op == KILN_OP_CUSTOM && !backend->device->runs(backend, record)) {
        kilni_repeat_refuse(run->repeat);
        return kilni_custom_on_host(run->device, record, inputs, outputs, err);
    }
    kiln_status status = execute_on(run, step, record, inputs, outputs, err);
    if (status == KILN_STATUS_OK && kilni_collective_is(record)) { // other members wait for it
        status = backend->device->flush(backend, err);
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
        inputs[i] = run->bindings[kilni_plan_operand_slot(run, op, i)]->view;
    }
    kilni_binding *first = run->bindings[kilni_plan_operand_slot(run, op, record->n_inputs)];
    uint32_t slot = kilni_plan_operand_slot(run, op, 0);
    if (run->repeat != NULL && (step == NULL || kilni_collective_is(record))) {
        kilni_repeat_refuse(run->repeat);
    }
    if (kilni_collective_is(record) &&
        !run->device->hooks->collective_is_served(run->device, record, run->bindings[slot])) {
        if (record->op == KILN_OP_ALL_REDUCE && kilni_plan_is_dying(step, slot) &&
            kilni_plan_can_reuse(run->bindings[slot], &record->outputs[0])) {
            kilni_plan_reuse(first, run->bindings[slot], &record->outputs[0]);
        }
        return run->device->hooks->collective(run->device, record, run->bindings[slot], first, err);
    }
    const kiln_device_info *device = kiln_device_info_of(run->device);
    if (kiln_op_info_of(record->op)->cls == KILN_CLASS_VIEW &&
        (device->features & KILN_FEATURE_OWN_VIEWS) == 0 &&
        kiln_view_apply(record, &inputs[0], &outputs[0])) {
        kilni_binding_share(first, run->bindings[kilni_plan_operand_slot(run, op, 0)], &outputs[0]);
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        kiln_status status = place_output(run, step, op, i, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        outputs[i] = run->bindings[kilni_plan_operand_slot(run, op, record->n_inputs + i)]->view;
    }
    return ask_backend(run, step, record, inputs, outputs, err);
}

kilni_fault *kilni_plan_fault_of(const kilni_run *run, kilni_binding *binding)
{
    if (binding->fault != NULL || kilni_binding_dependencies(binding) == NULL) {
        return binding->fault;
    }
    kiln_error err = KILN_ERROR_INIT;
    if (kilni_dependencies_status(kilni_binding_dependencies(binding), NULL, &err) !=
        KILN_STATUS_OK) {
        kilni_fault *fault = kilni_fault_create(run->device, &err);
        kilni_binding_fail(run->device, binding, fault);
        kilni_fault_release(run->device, fault);
    }
    return binding->fault;
}

/// Results depend on what the inputs depend on.
static kiln_status follow_inputs(const kilni_run *run, uint32_t op, kiln_error *err)
{
    const kiln_op_record *record = &run->segment->ops[op];
    for (size_t i = 0; i < record->n_inputs; i++) {
        kilni_dependencies *dependencies =
            kilni_binding_dependencies(run->bindings[kilni_plan_operand_slot(run, op, i)]);
        if (dependencies != NULL) {
            kilni_repeat_refuse(run->repeat);
        }
        for (size_t k = 0; dependencies != NULL && k < record->n_outputs; k++) {
            const kilni_binding *target =
                run->bindings[kilni_plan_operand_slot(run, op, record->n_inputs + k)];
            if (!kilni_storage_await(target->storage, &run->device->context->env, dependencies)) {
                return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a tensor's value");
            }
        }
    }
    return KILN_STATUS_OK;
}

/// An error that says nothing yet. All of its text need not be 0, and every operation of a replay
/// begins with one.
static inline void error_begin(kiln_error *err)
{
    err->struct_size = (uint32_t)sizeof(*err);
    err->code = KILN_STATUS_OK;
    err->line = 0;
    err->reserved = 0;
    err->file = NULL;
    err->message[0] = 0;
}

static void fail_op(const kilni_run *run, uint32_t op, const kiln_error *cause)
{
    kilni_repeat_refuse(run->repeat);
    kilni_fault *fault = kilni_fault_create(run->device, cause);
    fail_outputs(run, op, fault);
    kilni_plan_note_failure(run, cause);
    kilni_fault_release(run->device, fault);
}

void kilni_plan_run_op(const kilni_run *run, const kiln_plan_step *step, uint32_t op)
{
    const kiln_op_record *record = &run->segment->ops[op];
    if (kiln_op_info_of(record->op)->cls == KILN_CLASS_CONTROL) {
        return;
    }
    kiln_error err;
    error_begin(&err);
    for (size_t i = 0; i < record->n_inputs; i++) {
        kilni_binding *binding = run->bindings[kilni_plan_operand_slot(run, op, i)];
        if (kilni_plan_fault_of(run, binding) != NULL) {
            kilni_repeat_refuse(run->repeat);
            fail_outputs(run, op, binding->fault);
            return;
        }
        if (!binding->bound) {
            (void)kiln_fail(&err, INTERNAL, "%s: input %zu has no value",
                            kiln_op_info_of(record->op)->name, i);
        }
    }
    if (err.code == 0 && run->device->check.mode != KILNI_CHECK_OFF &&
        !run->device->samples.measuring) {
        run->device->hooks->before_op(run, op);
    }
    if (err.code == 0 && execute_op(run, step, op, &err) == KILN_STATUS_OK &&
        follow_inputs(run, op, &err) == KILN_STATUS_OK) {
        return;
    }
    fail_op(run, op, &err);
}

// ---- operations of one launch ----

/// Whether the step is an unfused product by a quantised weight whose operands are there.
static bool may_join(const kilni_run *run, const kiln_plan_step *step)
{
    if (step->kind == KILN_STEP_LAUNCH || step->block != UINT32_MAX ||
        run->segment->ops[step->index].op != KILN_OP_MATMUL_QUANTIZED) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        kilni_binding *binding = run->bindings[kilni_plan_operand_slot(run, step->index, i)];
        if (kilni_plan_fault_of(run, binding) != NULL || !binding->bound) {
            return false;
        }
    }
    return true;
}

/// Steps from `first` on that read the same left operand and no result of each other. Memory that
/// one of them gives up may be another's result, so all but the last give up none.
static uint32_t count_joined(const kilni_run *run, uint32_t first)
{
    const kiln_plan *plan = run->segment->plan;
    const kiln_plan_step *steps = &plan->steps[first];
    uint32_t most =
        plan->n_steps - first < KILN_MAX_JOINED ? plan->n_steps - first : KILN_MAX_JOINED;
    uint32_t n = 0;
    while (n < most && may_join(run, &steps[n]) && (n == 0 || steps[n - 1].n_dies == 0) &&
           kilni_plan_operand_slot(run, steps[n].index, 0) ==
               kilni_plan_operand_slot(run, steps[0].index, 0)) {
        for (uint32_t i = 0; i < n; i++) {
            if (kilni_plan_operand_slot(run, steps[i].index, 2) ==
                kilni_plan_operand_slot(run, steps[n].index, 1)) {
                return n;
            }
        }
        n++;
    }
    return n;
}

/// Gives results memory, of as many operations as there is memory for.
static uint32_t place_joined(const kilni_run *run, const kiln_plan_step *steps, uint32_t n,
                             kiln_view (*inputs)[2], kiln_view *outputs, kiln_joined_op *ops)
{
    for (uint32_t i = 0; i < n; i++) {
        kiln_error ignored = KILN_ERROR_INIT;
        uint32_t op = steps[i].index;
        if (place_output(run, &steps[i], op, 0, &ignored) != KILN_STATUS_OK) {
            return i;
        }
        for (size_t k = 0; k < 2; k++) {
            inputs[i][k] = run->bindings[kilni_plan_operand_slot(run, op, k)]->view;
        }
        outputs[i] = run->bindings[kilni_plan_operand_slot(run, op, 2)]->view;
        ops[i] = (kiln_joined_op){&run->segment->ops[op], inputs[i], &outputs[i]};
    }
    return n;
}

uint32_t kilni_plan_run_joined(const kilni_run *run, uint32_t first)
{
    kiln_backend *backend = run->device->backend;
    const kiln_plan_step *steps = &run->segment->plan->steps[first];
    kiln_joined_op ops[KILN_MAX_JOINED];
    kiln_view inputs[KILN_MAX_JOINED][2];
    kiln_view outputs[KILN_MAX_JOINED];
    if (!may_join(run, steps) || run->device->check.mode != KILNI_CHECK_OFF) {
        return 0;
    }
    uint32_t n = count_joined(run, first);
    n = n > 1 ? place_joined(run, steps, n, inputs, outputs, ops) : 0;
    bool joined = n > 1 && backend->device->execute_joined(backend, ops, n);
    if (joined) { // a repeat knows launches of blocks and operations one by one
        kilni_repeat_refuse(run->repeat);
    }
    for (uint32_t i = 0; i < n; i++) {
        kiln_error err = KILN_ERROR_INIT;
        kiln_status status = joined ? KILN_STATUS_OK
                                    : ask_backend(run, &steps[i], ops[i].record, ops[i].inputs,
                                                  ops[i].outputs, &err);
        if (status != KILN_STATUS_OK ||
            follow_inputs(run, steps[i].index, &err) != KILN_STATUS_OK) {
            fail_op(run, steps[i].index, &err);
        }
    }
    return n;
}
