// SPDX-License-Identifier: MIT OR Apache-2.0
// Collective calls on tensors: what is checked, that every device has its earlier work before any
// of it is waited for, and that results are tensors which are not there yet. An all-reduce is an
// operation like others, recorded on every member's stream; its part on a device starts when that
// stream runs. The other collectives start at once. Who may use a result when is future.c's.

#include "coll_memory.h"
#include "rt_attrs.h"
#include "rt_binding.h"
#include "rt_collective.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"

#include <string.h>

// ---- one rank's part ----

typedef struct rank_start {
    kiln_collective *collective;
    kiln_coll_kind kind;
    kiln_coll_op op;
    uint32_t root;
    uint32_t rank; ///< in this process
} rank_start;

static kiln_status lend_place(kiln_device *device, kilni_rank_call *call,
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
static uint64_t count_of(const rank_start *how, const kiln_tensor_desc *input)
{
    bool has_parts = how->kind == KILN_COLL_SCATTER || how->kind == KILN_COLL_ALL_TO_ALL;
    return (uint64_t)kiln_desc_count(input) / (has_parts ? how->collective->total : 1);
}

/// Hands a prepared call to the rank's worker. Nothing waits. Under the device's lock.
static kiln_status start_rank(const rank_start *how, const kiln_tensor_desc *input,
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
    rank->memory->starting = prepared->depends;
    kiln_status status = kiln_coll_start(rank->member, &call, NULL, err);
    rank->memory->starting = NULL;
    return status;
}

// ---- what a call is ----

/// One call on ranks of this process: all of them, or one that sends or receives.
typedef struct call_plan {
    kiln_collective *collective;
    kiln_coll_kind kind;
    kiln_coll_op op;
    uint32_t root; ///< of a send or receive the other rank
    uint32_t begin; ///< the ranks of this process that take part
    uint32_t end;
    kiln_tensor *const *inputs; ///< one for each of these, all of one shape and dtype
    kiln_tensor **out_tensors; ///< likewise; those without a result stay NULL. NULL: the inputs
                               ///< become the results
} call_plan;

static kiln_tensor *input_of(const call_plan *plan, size_t rank)
{
    return plan->inputs[rank - plan->begin];
}

/// Where the result of a rank goes.
static kiln_tensor **place_of(const call_plan *plan, size_t rank)
{
    return &plan->out_tensors[rank - plan->begin];
}

/// Whether the elements of the rank's input matter, or only its shape.
static bool is_read(const call_plan *plan, uint32_t rank)
{
    return plan->kind != KILN_COLL_RECEIVE &&
           (plan->kind != KILN_COLL_SCATTER || plan->collective->ranks[rank].number == plan->root);
}

static kiln_status check_inputs(const call_plan *plan, kiln_error *err)
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
static bool describe_output(const call_plan *plan, uint32_t rank, kiln_tensor_desc *out_desc)
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

/// What is moved here has to come by the deadline, else the rank fails. Under the device's lock.
static kiln_status await_input(const call_plan *plan, uint32_t rank, kiln_error *err)
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
    return status == KILN_STATUS_OK ? lend_place(device, call, &input->desc, &input->binding, err)
                                    : status;
}

/// The call will bring the value of what lies in `binding`.
static kiln_status expect_output(kiln_device *device, kilni_rank_call *call,
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
        status = expect_output(device, call, &tensor->binding, err);
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
    KILN_TRY(out, status, expect_output(device, call, &call->input, err));
    kilni_binding_clear(device, &tensor->binding);
    kilni_binding_share(&tensor->binding, &call->output, &call->output.view);
    tensor->unresolved = true;
out:
    return status;
}

static kiln_status prepare_locked(const call_plan *plan, uint32_t rank, kilni_rank_call *call,
                                  kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    kiln_tensor_desc desc;
    kiln_status status = KILN_STATUS_OK;
    kilni_device_sweep(device);
    if (is_read(plan, rank)) {
        KILN_TRY(out, status, await_input(plan, rank, err));
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
static kiln_status prepare(const call_plan *plan, uint32_t rank, kilni_rank_call **out_call,
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

static kiln_status start(const call_plan *plan, uint32_t rank, kilni_rank_call *prepared,
                         kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    const rank_start how = {plan->collective, plan->kind, plan->op, plan->root, rank};
    pthread_mutex_lock(&device->lock);
    kiln_status status = start_rank(&how, &plan->inputs[0]->desc, prepared, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/// What was prepared and not started goes, with the cause; a tensor that the result would have
/// replaced has its value still.
static void drop_call(const call_plan *plan, size_t rank, kilni_rank_call *call,
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

static kiln_status run_locked(const call_plan *plan, kilni_rank_call **calls, kiln_error *err)
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

static kiln_status run(call_plan *plan, kiln_error *err)
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

// ---- operations ----

/// The member's part of a recorded all-reduce. Under the device's lock.
static kiln_status run_all_reduce(kiln_device *device, const rank_start *how,
                                  const kiln_tensor_desc *desc, const kilni_binding *input,
                                  kilni_binding *output, kiln_error *err)
{
    kilni_rank_call *call = kiln_alloc(&device->context->env, sizeof(*call));
    kiln_status status = KILN_STATUS_OK;
    if (call == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    kilni_device_sweep(device);
    KILN_TRY(out, status, lend_place(device, call, desc, input, err));
    call->depends = kilni_dependencies_retain(kilni_binding_dependencies(&call->input));
    if (!output->bound) {
        KILN_TRY(out, status, kilni_binding_alloc(device, desc, output, err));
    }
    KILN_TRY(out, status, expect_output(device, call, output, err));
    KILN_TRY(out, status, start_rank(how, desc, call, err));
    call = NULL; // the event's now
    KILN_TRY(out, status, device->backend->device->flush(device->backend, err));
out:
    if (call != NULL) {
        kilni_rank_call_free(device, call, err);
    }
    return status;
}

static kiln_status find_rank(kiln_device *device, const kiln_op_record *record, rank_start *out_how,
                             kiln_error *err)
{
    int64_t id = record->attrs[1].v.i;
    int64_t member = record->attrs[2].v.i;
    char name[8] = {0};
    memcpy(name, record->attrs[0].v.text, record->attrs[0].count); // checked with the shape
    kiln_collective *collective = kilni_collective_enter(device->context, id);
    *out_how = (rank_start){.collective = collective,
                            .kind = KILN_COLL_ALL_REDUCE,
                            .op = kiln_coll_op_from_name(name),
                            .rank = (uint32_t)member};
    if (collective == NULL) {
        return kiln_fail(err, NOT_FOUND, "all_reduce: there is no group %lld", (long long)id);
    }
    if (member < 0 || (uint64_t)member >= collective->count ||
        collective->ranks[member].memory->device != device) {
        kilni_collective_leave(collective);
        return kiln_fail(err, INVALID_ARGUMENT, "all_reduce: %s is not member %lld of group %lld",
                         device->address, (long long)member, (long long)id);
    }
    return KILN_STATUS_OK;
}

bool kilni_collective_is_served(kiln_device *device, const kiln_op_record *record,
                                const kilni_binding *input)
{
    if (strcmp(device->backend->scheme, "grpc") != 0) {
        return false;
    }
    if (record->op == KILN_OP_COLLECTIVE_SYNC) { // of what no call of this process brings
        return kilni_binding_dependencies(input) == NULL;
    }
    kiln_collective *known = kilni_collective_enter(device->context, record->attrs[1].v.i);
    if (known != NULL) {
        kilni_collective_leave(known);
    }
    return known == NULL;
}

kiln_status kilni_collective_execute(kiln_device *device, const kiln_op_record *record,
                                     const kilni_binding *input, kilni_binding *output,
                                     kiln_error *err)
{
    rank_start how;
    if (record->op == KILN_OP_COLLECTIVE_SYNC) {
        bool open = false;
        kilni_binding_share(output, input, &input->view);
        if (kilni_device_has_user_events(device)) {
            return kilni_binding_await(device, output, err);
        }
        // Recording has waited; a graph cannot. Nor may the lock be given up here: what a run has
        // in the device would be another's.
        (void)kilni_dependencies_status(kilni_binding_dependencies(input), &open, NULL);
        return !open ? KILN_STATUS_OK
                     : kiln_fail(err, FAILED_PRECONDITION, "%s cannot wait for a call in its queue",
                                 device->address);
    }
    kiln_error cause = KILN_ERROR_INIT;
    kiln_status status = find_rank(device, record, &how, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = run_all_reduce(device, &how, &record->inputs[0], input, output, &cause);
    if (status != KILN_STATUS_OK) { // the others would wait for it to the deadline
        kiln_coll_member_abort(how.collective->ranks[how.rank].member, &cause);
        if (err != NULL) {
            *err = cause;
        }
    }
    kilni_collective_leave(how.collective);
    return status;
}

// ---- recording an all-reduce on all members ----

/// Whether this thread captures a graph on the member's device; `out_captures` is what it did on
/// those before.
static kiln_status check_capture(const call_plan *plan, uint32_t rank, bool *out_captures,
                                 kiln_error *err)
{
    const kilni_collective_rank *ranks = plan->collective->ranks;
    kiln_device *device = ranks[rank].memory->device;
    kilni_stream *stream = NULL;
    pthread_mutex_lock(&device->lock);
    kiln_status status = await_input(plan, rank, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_current(device, &stream, err);
    }
    if (status == KILN_STATUS_OK && rank > 0 && stream->capturing != *out_captures) {
        status = kiln_fail(err, FAILED_PRECONDITION,
                           "%s captures a graph and %s does not; all members of a call do, or none",
                           ranks[*out_captures ? 0 : rank].memory->device->address,
                           ranks[*out_captures ? rank : 0].memory->device->address);
    }
    *out_captures = status == KILN_STATUS_OK && stream->capturing;
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status record_rank(const call_plan *plan, const char *op, uint32_t rank,
                               kiln_error *err)
{
    kiln_collective *collective = plan->collective;
    kiln_device *device = collective->ranks[rank].memory->device;
    kilni_stream *stream = NULL;
    const kiln_attr attrs[] = {kilni_attr_text(op), kilni_attr_i64(collective->id),
                               kilni_attr_i64(rank)};
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK) {
        const kilni_op_call call = {KILN_OP_ALL_REDUCE, 0, &plan->inputs[rank], 1, attrs, 3};
        status = kilni_stream_record(stream, &call, &plan->out_tensors[rank], err);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/// Submits what the member has recorded, the call with it. Nothing waits.
static kiln_status submit_rank(const call_plan *plan, uint32_t rank, kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_tensor_bind(plan->out_tensors[rank], err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status all_reduce_locked(const call_plan *plan, const char *op, kiln_error *err)
{
    kiln_collective *collective = plan->collective;
    bool captures = false;
    kiln_status status = kiln_coll_group_status(collective->group, NULL, err);
    for (uint32_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        status = check_capture(plan, i, &captures, err);
    }
    uint32_t recorded = 0;
    while (recorded < collective->count && status == KILN_STATUS_OK) {
        status = record_rank(plan, op, recorded, err);
        recorded += status == KILN_STATUS_OK;
    }
    for (uint32_t i = 0; i < collective->count && status == KILN_STATUS_OK && !captures; i++) {
        status = submit_rank(plan, i, err);
    }
    if (status != KILN_STATUS_OK && recorded > 0) { // some will call, others not
        uint32_t guilty = recorded < collective->count ? recorded : recorded - 1;
        kiln_coll_member_abort(collective->ranks[guilty].member, err);
    }
    return status;
}

// ---- the public calls ----

static kiln_status plan_call(kiln_collective *collective, kiln_coll_kind kind, const char *op,
                             uint32_t root, kiln_tensor *const *inputs, kiln_tensor **out_tensors,
                             call_plan *out_plan, kiln_error *err)
{
    if (collective == NULL || inputs == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, inputs and outputs must not be NULL");
    }
    for (size_t i = 0; i < collective->count && out_tensors != NULL; i++) {
        out_tensors[i] = NULL;
    }
    *out_plan = (call_plan){.collective = collective,
                            .kind = kind,
                            .end = (uint32_t)collective->count,
                            .op = op == NULL ? KILN_COLL_OP_COUNT : kiln_coll_op_from_name(op),
                            .root = root,
                            .inputs = inputs,
                            .out_tensors = out_tensors};
    if (out_plan->op == KILN_COLL_OP_COUNT) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "no reduction is named '%s'; there are sum, mean, min, max and prod",
                         op == NULL ? "" : op);
    }
    if (root >= collective->total) {
        return kiln_fail(err, INVALID_ARGUMENT, "root %u of a group of %u", root,
                         collective->total);
    }
    return check_inputs(out_plan, err);
}

/// Rows along axis 0 that a call of `kind` cannot make more or less of.
static kiln_status check_rows(kiln_coll_kind kind, const kiln_tensor_desc *input, uint32_t total,
                              kiln_error *err)
{
    bool gathers = kind == KILN_COLL_ALL_GATHER || kind == KILN_COLL_GATHER;
    bool has_parts = kind == KILN_COLL_SCATTER || kind == KILN_COLL_ALL_TO_ALL;
    if (gathers && input->rank > 0 && input->dims[0] > INT64_MAX / total) { // without elements
        return kiln_fail(err, OUT_OF_RANGE, "%lld rows of each of %u ranks are too many",
                         (long long)input->dims[0], total);
    }
    if (has_parts && (input->rank == 0 || input->dims[0] % total != 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %lld rows cannot be cut into %u equal parts",
                         kiln_coll_kind_name(kind),
                         input->rank == 0 ? 1LL : (long long)input->dims[0], total);
    }
    return KILN_STATUS_OK;
}

static kiln_status call_all(kiln_collective *collective, kiln_coll_kind kind, const char *op,
                            uint32_t root, kiln_tensor *const *inputs, kiln_tensor **out_tensors,
                            kiln_error *err)
{
    call_plan plan;
    if (out_tensors == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, inputs and outputs must not be NULL");
    }
    kiln_status status = plan_call(collective, kind, op, root, inputs, out_tensors, &plan, err);
    if (status == KILN_STATUS_OK) {
        status = check_rows(kind, &inputs[0]->desc, collective->total, err);
    }
    return status == KILN_STATUS_OK ? run(&plan, err) : status;
}

kiln_status kiln_collective_all_reduce(kiln_collective *collective, kiln_tensor *const *inputs,
                                       const char *op, kiln_tensor **out_tensors, kiln_error *err)
{
    call_plan plan;
    kiln_error cause = KILN_ERROR_INIT;
    if (out_tensors == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, inputs and outputs must not be NULL");
    }
    kiln_status status =
        plan_call(collective, KILN_COLL_ALL_REDUCE, op, 0, inputs, out_tensors, &plan, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&collective->lock);
    status = all_reduce_locked(&plan, op, &cause);
    pthread_mutex_unlock(&collective->lock);
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = cause;
    }
    for (size_t i = 0; i < collective->count && status != KILN_STATUS_OK; i++) {
        kiln_release(out_tensors[i]);
        out_tensors[i] = NULL;
    }
    return status;
}

kiln_status kiln_collective_all_reduce_in_place(kiln_collective *collective,
                                                kiln_tensor *const *tensors, const char *op,
                                                kiln_error *err)
{
    call_plan plan;
    kiln_status status =
        plan_call(collective, KILN_COLL_ALL_REDUCE, op, 0, tensors, NULL, &plan, err);
    return status == KILN_STATUS_OK ? run(&plan, err) : status;
}

kiln_status kiln_collective_reduce(kiln_collective *collective, kiln_tensor *const *inputs,
                                   const char *op, uint32_t root, kiln_tensor **out_tensors,
                                   kiln_error *err)
{
    return call_all(collective, KILN_COLL_REDUCE, op, root, inputs, out_tensors, err);
}

kiln_status kiln_collective_broadcast(kiln_collective *collective, kiln_tensor *const *inputs,
                                      uint32_t root, kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_BROADCAST, "sum", root, inputs, out_tensors, err);
}

kiln_status kiln_collective_all_gather(kiln_collective *collective, kiln_tensor *const *inputs,
                                       kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_ALL_GATHER, "sum", 0, inputs, out_tensors, err);
}

kiln_status kiln_collective_reduce_scatter(kiln_collective *collective, kiln_tensor *const *inputs,
                                           const char *op, kiln_tensor **out_tensors,
                                           kiln_error *err)
{
    return call_all(collective, KILN_COLL_REDUCE_SCATTER, op, 0, inputs, out_tensors, err);
}

kiln_status kiln_collective_gather(kiln_collective *collective, kiln_tensor *const *inputs,
                                   uint32_t root, kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_GATHER, "sum", root, inputs, out_tensors, err);
}

kiln_status kiln_collective_scatter(kiln_collective *collective, kiln_tensor *const *inputs,
                                    uint32_t root, kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_SCATTER, "sum", root, inputs, out_tensors, err);
}

kiln_status kiln_collective_all_to_all(kiln_collective *collective, kiln_tensor *const *inputs,
                                       kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_ALL_TO_ALL, "sum", 0, inputs, out_tensors, err);
}

// ---- between two ranks ----

/// A send or receive of rank `own`, which is one of this process.
static kiln_status call_one(kiln_collective *collective, kiln_coll_kind kind, kiln_tensor *tensor,
                            uint32_t own, uint32_t other, kiln_tensor **out_tensor, kiln_error *err)
{
    if (collective == NULL || tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective and tensor must not be NULL");
    }
    call_plan plan = {.collective = collective,
                      .kind = kind,
                      .root = other,
                      .inputs = &tensor,
                      .out_tensors = out_tensor};
    while (plan.begin < collective->count && collective->ranks[plan.begin].number != own) {
        plan.begin++;
    }
    plan.end = plan.begin + 1;
    if (plan.begin == collective->count || other >= collective->total || other == own) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: rank %u is none of this process, or rank %u none of the %u others",
                         kiln_coll_kind_name(kind), own, other, collective->total - 1);
    }
    kiln_status status = check_inputs(&plan, err);
    return status == KILN_STATUS_OK ? run(&plan, err) : status;
}

kiln_status kiln_collective_send(kiln_collective *collective, kiln_tensor *tensor, uint32_t from,
                                 uint32_t to, kiln_error *err)
{
    kiln_tensor *none = NULL;
    return call_one(collective, KILN_COLL_SEND, tensor, from, to, &none, err);
}

kiln_status kiln_collective_receive(kiln_collective *collective, kiln_tensor *like, uint32_t from,
                                    uint32_t to, kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    return call_one(collective, KILN_COLL_RECEIVE, like, to, from, out_tensor, err);
}

// ---- the barrier ----

/// Starts the barrier on all ranks of this process; what was started is waited for.
static kiln_status barrier(kiln_collective *collective, kiln_coll_request **requests,
                           kiln_error *err)
{
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    call.kind = KILN_COLL_BARRIER;
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&collective->lock);
    for (size_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        kiln_error cause = KILN_ERROR_INIT;
        kiln_device *device = collective->ranks[i].memory->device;
        pthread_mutex_lock(&device->lock);
        status = kiln_coll_start(collective->ranks[i].member, &call, &requests[i], &cause);
        pthread_mutex_unlock(&device->lock);
        if (status != KILN_STATUS_OK) {
            kiln_coll_member_abort(collective->ranks[i].member, &cause);
            if (err != NULL) {
                *err = cause;
            }
        }
    }
    pthread_mutex_unlock(&collective->lock);
    for (size_t i = 0; i < collective->count; i++) {
        kiln_error *first = status == KILN_STATUS_OK ? err : NULL;
        kiln_status ended = requests[i] != NULL ? kiln_coll_wait(requests[i], first) : status;
        status = status == KILN_STATUS_OK ? ended : status;
    }
    return status;
}

kiln_status kiln_collective_barrier(kiln_collective *collective, kiln_error *err)
{
    if (collective == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective must not be NULL");
    }
    kiln_coll_request **requests =
        kiln_alloc_array(&collective->context->env, collective->count, sizeof(*requests));
    if (requests == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    kiln_status status = barrier(collective, requests, err);
    kiln_free(&collective->context->env, requests);
    return status;
}
