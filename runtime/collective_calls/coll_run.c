// SPDX-License-Identifier: MIT OR Apache-2.0
// A collective call on the ranks of this process: every device has its earlier work before any of
// it is waited for, inputs are lent, and results are tensors which are not there yet. Who may use a
// result when is future.c's.

#include "coll_plan.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_execute.h"
#include "rt_tensor.h"
#include "rt_trace.h"

// ---- one rank's part ----

kiln_status kilni_rank_call_lend(kiln_device *device, kilni_rank_call *call,
                                 const kiln_tensor_desc *desc, const kilni_binding *binding,
                                 kiln_error *err)
{
    if (kiln_view_is_contiguous(&binding->view)) {
        kilni_binding_share(&call->input, binding, &binding->view);
        return kilni_storage_settle(device, binding->storage, err);
    }
    return kilni_binding_dense(device, desc, binding, &call->input, err);
}

/// What a call counts: all elements of an input, or of one part where the input has one for each
/// rank.
static uint64_t count_of(const kilni_rank_start *how, const kiln_tensor_desc *input)
{
    bool has_parts = how->kind == KILN_COLL_SCATTER || how->kind == KILN_COLL_ALL_TO_ALL;
    return (uint64_t)kiln_desc_count(input) / (has_parts ? how->collective->total : 1);
}

kiln_status kilni_rank_call_start(const kilni_rank_start *how, const kiln_tensor_desc *input,
                                  kilni_rank_call *prepared, kiln_error *err)
{
    kilni_collective_rank *rank = &how->collective->ranks[how->rank];
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    call.kind = how->kind;
    call.op = how->op;
    call.root = how->root;
    call.dtype = input->dtype;
    call.count = count_of(how, input);
    call.tag = kiln_hash64(input->dims, input->rank * sizeof(input->dims[0]), input->rank);
    call.input = (kiln_coll_buffer *)prepared->input.view.buffer;
    call.input_offset = (uint64_t)prepared->input.view.offset_bytes;
    if (prepared->output.bound) {
        call.output = (kiln_coll_buffer *)prepared->output.view.buffer;
        call.output_offset = (uint64_t)prepared->output.view.offset_bytes;
    }
    call.event = prepared;
    if (kilni_trace_of(rank->memory->device) != NULL) {
        prepared->kind = kiln_coll_kind_name(how->kind);
        prepared->bytes = call.count * kiln_dtype_size(call.dtype);
        call.times = &prepared->times;
    }
    rank->memory->starting = prepared->depends;
    kiln_status status = kiln_coll_start(rank->member, &call, NULL, err);
    rank->memory->starting = NULL;
    return status;
}

// ---- what a call is ----

static kiln_tensor *input_of(const kilni_call_plan *plan, size_t rank)
{
    return plan->inputs[rank - plan->begin];
}

/// Where the result of a rank goes.
static kiln_tensor **place_of(const kilni_call_plan *plan, size_t rank)
{
    return &plan->out_tensors[rank - plan->begin];
}

/// Whether the elements of the rank's input matter, or only its shape.
static bool is_read(const kilni_call_plan *plan, uint32_t rank)
{
    return plan->kind != KILN_COLL_RECEIVE &&
           (plan->kind != KILN_COLL_SCATTER || plan->collective->ranks[rank].number == plan->root);
}

kiln_status kilni_call_plan_check(const kilni_call_plan *plan, kiln_error *err)
{
    const kiln_collective *collective = plan->collective;
    kiln_tensor *const *inputs = plan->inputs;
    for (size_t i = plan->begin; i < plan->end; i++) {
        const kiln_tensor *tensor = input_of(plan, i);
        if (tensor == NULL || tensor->device != collective->ranks[i].memory->device) {
            return kiln_fail(err, INVALID_ARGUMENT, "rank %zu: the tensor is not on device %s", i,
                             collective->ranks[i].memory->device->address);
        }
        if (tensor->desc.small != 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "rank %zu: %s is only stored: cast it first", i,
                             kiln_dtype_name(kiln_tensor_dtype(tensor)));
        }
        if (tensor->desc.dtype != inputs[0]->desc.dtype ||
            !kiln_desc_same_shape(&tensor->desc, &inputs[0]->desc)) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "rank %zu: %s of %lld elements and another shape or dtype than rank 0",
                             i, kiln_dtype_name(tensor->desc.dtype),
                             (long long)kiln_desc_count(&tensor->desc));
        }
    }
    return KILN_STATUS_OK;
}

/// What `rank` of all gets. False when it gets nothing.
static bool describe_output(const kilni_call_plan *plan, uint32_t rank, kiln_tensor_desc *out_desc)
{
    const kiln_tensor_desc *input = &plan->inputs[0]->desc;
    int64_t ranks = (int64_t)plan->collective->total;
    int64_t count = kiln_desc_count(input);
    *out_desc = *input;
    switch (plan->kind) {
    case KILN_COLL_SEND:
        return false;
    case KILN_COLL_REDUCE:
        return rank == plan->root;
    case KILN_COLL_SCATTER:
        out_desc->dims[0] /= ranks;
        return true;
    case KILN_COLL_GATHER:
    case KILN_COLL_ALL_GATHER:
        out_desc->rank = input->rank == 0 ? 1 : input->rank;
        out_desc->dims[0] = input->rank == 0 ? ranks : input->dims[0] * ranks;
        return plan->kind == KILN_COLL_ALL_GATHER || rank == plan->root;
    case KILN_COLL_REDUCE_SCATTER:
        out_desc->rank = 1;
        out_desc->dims[0] = count / ranks + (rank < count % ranks);
        return true;
    default:
        return true;
    }
}

kiln_status kilni_call_plan_await(const kilni_call_plan *plan, uint32_t rank, kiln_error *err)
{
    const kilni_collective_rank *own = &plan->collective->ranks[rank];
    uint64_t deadline_ns = kiln_time_ns() + plan->collective->deadline_ns;
    kiln_tensor *input = input_of(plan, rank);
    kiln_status status =
        kilni_await_futures_until(own->memory->device, &input, 1, deadline_ns, err);
    if (status == KILN_STATUS_DEADLINE_EXCEEDED) {
        kiln_coll_member_abort(own->member, err);
        status = kiln_coll_group_status(plan->collective->group, NULL, err);
    }
    return status;
}

/// Runs what the input needs, and keeps its elements dense.
static kiln_status lend_input(kiln_device *device, kilni_rank_call *call, kiln_tensor *input,
                              kiln_error *err)
{
    kiln_status status = kilni_tensor_bind(input, err);
    return status == KILN_STATUS_OK
               ? kilni_rank_call_lend(device, call, &input->desc, &input->binding, err)
               : status;
}

kiln_status kilni_rank_call_expect(kiln_device *device, kilni_rank_call *call,
                                   const kilni_binding *binding, kiln_error *err)
{
    call->future = kilni_future_create(device);
    if (call->future == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    kilni_binding_share(&call->output, binding, &binding->view);
    bool followed =
        binding->storage == NULL || kilni_storage_expect(binding->storage, call->future);
    kilni_future_release(call->future); // of the two holds the storage has its own
    return followed ? KILN_STATUS_OK : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
}

/// A tensor that is bound and waits for its value.
static kiln_status make_output(kiln_device *device, kilni_rank_call *call,
                               const kiln_tensor_desc *desc, kiln_tensor **out_tensor,
                               kiln_error *err)
{
    kiln_tensor *tensor = kilni_tensor_new(device, desc);
    if (tensor == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
    }
    *out_tensor = tensor;
    kiln_status status = kilni_binding_alloc(device, &tensor->desc, &tensor->binding, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rank_call_expect(device, call, &tensor->binding, err);
    }
    tensor->unresolved = status == KILN_STATUS_OK;
    return status;
}

/// The tensor's own memory gets the result; where others see it too, a copy does, which is the
/// tensor's from then on.
static kiln_status take_in_place(kiln_device *device, kilni_rank_call *call, kiln_tensor *tensor,
                                 kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (tensor->pins > 0) { // what other threads recorded with it sees the value before
        KILN_TRY(out, status, kilni_device_drain(device, err));
    }
    kilni_storage *storage = tensor->binding.storage;
    if (storage != NULL && call->input.storage == storage &&
        (storage->refs > 2 || storage->foreign)) { // the tensor and this call
        kilni_binding_clear(device, &call->input);
        KILN_TRY(out, status,
                 kilni_binding_dense(device, &tensor->desc, &tensor->binding, &call->input, err));
    }
    KILN_TRY(out, status, kilni_rank_call_expect(device, call, &call->input, err));
    kilni_binding_clear(device, &tensor->binding);
    kilni_binding_share(&tensor->binding, &call->output, &call->output.view);
    tensor->unresolved = true;
out:
    return status;
}

static kiln_status prepare_locked(const kilni_call_plan *plan, uint32_t rank, kilni_rank_call *call,
                                  kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    kiln_tensor_desc desc;
    kiln_status status = KILN_STATUS_OK;
    kilni_device_sweep(device);
    if (is_read(plan, rank)) {
        KILN_TRY(out, status, kilni_call_plan_await(plan, rank, err));
        KILN_TRY(out, status, lend_input(device, call, input_of(plan, rank), err));
    }
    // What the input depends on by now, not what the output will.
    call->depends = kilni_dependencies_retain(kilni_binding_dependencies(&call->input));
    if (plan->out_tensors == NULL) {
        KILN_TRY(out, status, take_in_place(device, call, input_of(plan, rank), err));
    } else if (describe_output(plan, plan->collective->ranks[rank].number, &desc)) {
        KILN_TRY(out, status, make_output(device, call, &desc, place_of(plan, rank), err));
    }
    KILN_TRY(out, status, device->backend->device->flush(device->backend, err));
out:
    return status;
}

/// Makes the part of the rank-th device ready. Nothing waits but for inputs that are moved here.
static kiln_status prepare(const kilni_call_plan *plan, uint32_t rank, kilni_rank_call **out_call,
                           kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    kilni_rank_call *call = kiln_alloc(&device->context->env, sizeof(*call));
    if (call == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    *out_call = call;
    pthread_mutex_lock(&device->lock);
    kiln_status status = prepare_locked(plan, rank, call, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status start(const kilni_call_plan *plan, uint32_t rank, kilni_rank_call *prepared,
                         kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    const kilni_rank_start how = {plan->collective, plan->kind, plan->op, plan->root, rank};
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_rank_call_start(&how, &plan->inputs[0]->desc, prepared, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/// What was prepared and not started goes, with the cause; a tensor that the result would have
/// replaced has its value still.
static void drop_call(const kilni_call_plan *plan, size_t rank, kilni_rank_call *call,
                      const kiln_error *cause)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    const kiln_error none = KILN_ERROR_INIT;
    if (call != NULL) {
        pthread_mutex_lock(&device->lock);
        bool keeps_value = plan->out_tensors == NULL && call->future != NULL;
        input_of(plan, rank)->unresolved = !keeps_value && input_of(plan, rank)->unresolved;
        kilni_rank_call_free(device, call, keeps_value ? &none : cause);
        pthread_mutex_unlock(&device->lock);
    }
}

static kiln_status run_locked(const kilni_call_plan *plan, kilni_rank_call **calls, kiln_error *err)
{
    const kiln_collective *collective = plan->collective;
    kiln_status status = kiln_coll_group_status(collective->group, NULL, err);
    // All devices get their work before any of them is waited for.
    for (uint32_t i = plan->begin; i < plan->end && status == KILN_STATUS_OK; i++) {
        status = prepare(plan, i, &calls[i], err);
    }
    for (uint32_t i = plan->begin; i < plan->end && status == KILN_STATUS_OK; i++) {
        status = start(plan, i, calls[i], err);
        if (status != KILN_STATUS_OK &&
            i > plan->begin) { // the others would wait for it to the deadline
            kiln_coll_member_abort(collective->ranks[i].member, err);
        }
        calls[i] = status == KILN_STATUS_OK ? NULL : calls[i]; // the event's now
    }
    return status;
}

kiln_status kilni_call_plan_run(kilni_call_plan *plan, kiln_error *err)
{
    kiln_collective *collective = plan->collective;
    kiln_error cause = KILN_ERROR_INIT;
    kilni_rank_call **calls =
        kiln_alloc_array(&collective->context->env, collective->count, sizeof(*calls));
    if (calls == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    pthread_mutex_lock(&collective->lock);
    kiln_status status = run_locked(plan, calls, &cause);
    pthread_mutex_unlock(&collective->lock);
    for (size_t i = plan->begin; i < plan->end && status != KILN_STATUS_OK; i++) {
        drop_call(plan, i, calls[i], &cause);
        if (plan->out_tensors != NULL) {
            kiln_release(*place_of(plan, i));
            *place_of(plan, i) = NULL;
        }
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = cause;
    }
    kiln_free(&collective->context->env, calls);
    return status;
}
