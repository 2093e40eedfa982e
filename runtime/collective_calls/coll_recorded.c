// SPDX-License-Identifier: MIT OR Apache-2.0
// An all-reduce is an operation like others, recorded on every member's stream; its part on a
// device starts when that stream runs. Decides which group an operation means, and that all members
// record it or none.

#include "coll_plan.h"
#include "rt_attrs.h"
#include "rt_collective.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_execute.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"

#include <string.h>

// ---- two devices with memory of their own ----

// Such devices exchange their values whole, which is as many bytes as a ring sends, and each
// combines them in its own queue, behind the wait for the exchange. On an auxiliary queue the
// combining could wait for all that the device's own queue has been given: NVIDIA's driver runs
// kernels of all queues of a context in the order of their coming, only copies beside them.

typedef struct combination {
    kilni_behind behind; ///< comes first
    kiln_view result; ///< of the storage that has this
    kilni_binding both; ///< the values of rank 0, then those of rank 1
    kiln_coll_op op;
} combination;

static bool exchanges(const kiln_collective *collective, kiln_dtype dtype)
{
    bool does = collective->count == 2 && collective->total == 2 &&
                (dtype == KILN_DTYPE_F32 || dtype == KILN_DTYPE_F64);
    for (uint32_t i = 0; i < 2 && does; i++) {
        does = collective->ranks[i].memory->base.stream != NULL;
    }
    return does;
}

static kiln_status combine(kiln_device *device, kilni_behind *base, kiln_error *err)
{
    combination *self = (combination *)base;
    kiln_view halves[2];
    kiln_view result = self->result;
    int64_t count = self->both.view.dims[0] / 2;
    for (int i = 0; i < 2; i++) {
        halves[i] = self->both.view;
        halves[i].dims[0] = count;
        halves[i].offset_bytes += i * count * (int64_t)kiln_dtype_size(result.dtype);
    }
    result.rank = 1;
    result.dims[0] = count;
    result.strides[0] = 1;
    kiln_status status = kilni_execute_flat(device->backend, kilni_coll_operation(self->op), halves,
                                            2, NULL, &result, err);
    if (status == KILN_STATUS_OK && self->op == KILN_COLL_MEAN) {
        const kiln_attr two = kilni_attr_f64(2);
        status =
            kilni_execute_flat(device->backend, KILN_OP_DIV_SCALAR, &result, 1, &two, &result, err);
    }
    return status;
}

static void free_combination(kiln_device *device, kilni_behind *base)
{
    combination *self = (combination *)base;
    kilni_binding_clear(device, &self->both);
    kiln_free(&device->context->env, self);
}

/// The call brings both values, to memory of its own, and `output` is what they are combined into.
static kiln_status expect_exchange(kiln_device *device, kilni_rank_call *call,
                                   const kiln_tensor_desc *desc, const kilni_binding *output,
                                   kiln_coll_op op, kiln_error *err)
{
    const kiln_tensor_desc both = {.id = kilni_tensor_ids(1),
                                   .dtype = desc->dtype,
                                   .rank = 1,
                                   .dims = {2 * kiln_desc_count(desc)}};
    combination *self = kiln_alloc(&device->context->env, sizeof(*self));
    if (self == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    *self = (combination){
        .behind = {.run = combine, .free = free_combination}, .result = output->view, .op = op};
    kiln_status status = kilni_binding_alloc(device, &both, &self->both, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rank_call_expect(device, call, output, err);
    }
    if (status != KILN_STATUS_OK) {
        free_combination(device, &self->behind);
        return status;
    }
    kilni_binding_clear(device, &call->output);
    kilni_binding_share(&call->output, &self->both, &self->both.view);
    kilni_storage_set_behind(device, output->storage, &self->behind);
    return KILN_STATUS_OK;
}

// ---- operations ----

/// The member's part of a recorded all-reduce. Under the device's lock.
static kiln_status run_all_reduce(kiln_device *device, kilni_rank_start *how,
                                  const kiln_tensor_desc *desc, const kilni_binding *input,
                                  kilni_binding *output, kiln_error *err)
{
    kilni_rank_call *call = kiln_alloc(&device->context->env, sizeof(*call));
    kiln_status status = KILN_STATUS_OK;
    if (call == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    kilni_device_sweep(device);
    KILN_TRY(out, status, kilni_rank_call_lend(device, call, desc, input, err));
    call->depends = kilni_dependencies_retain(kilni_binding_dependencies(&call->input));
    if (!output->bound) {
        KILN_TRY(out, status, kilni_binding_alloc(device, desc, output, err));
    }
    if (kiln_desc_count(desc) > 0 && exchanges(how->collective, desc->dtype)) {
        KILN_TRY(out, status, expect_exchange(device, call, desc, output, how->op, err));
        how->kind = KILN_COLL_ALL_GATHER;
    } else {
        KILN_TRY(out, status, kilni_rank_call_expect(device, call, output, err));
    }
    KILN_TRY(out, status, kilni_rank_call_start(how, desc, call, err));
    call = NULL; // the event's now
    KILN_TRY(out, status, device->backend->device->flush(device->backend, err));
out:
    if (call != NULL) {
        kilni_rank_call_free(device, call, err);
    }
    return status;
}

static kiln_status find_rank(kiln_device *device, const kiln_op_record *record,
                             kilni_rank_start *out_how, kiln_error *err)
{
    int64_t id = record->attrs[1].v.i;
    int64_t member = record->attrs[2].v.i;
    char name[8] = {0};
    memcpy(name, record->attrs[0].v.text, record->attrs[0].count); // checked with the shape
    kiln_collective *collective = kilni_collective_enter(device->context, id);
    *out_how = (kilni_rank_start){.collective = collective,
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
    kilni_rank_start how;
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
static kiln_status check_capture(const kilni_call_plan *plan, uint32_t rank, bool *out_captures,
                                 kiln_error *err)
{
    const kilni_collective_rank *ranks = plan->collective->ranks;
    kiln_device *device = ranks[rank].memory->device;
    kilni_stream *stream = NULL;
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_call_plan_await(plan, rank, err);
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

static kiln_status record_rank(const kilni_call_plan *plan, const char *op, uint32_t rank,
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
static kiln_status submit_rank(const kilni_call_plan *plan, uint32_t rank, kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory->device;
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_tensor_bind(plan->out_tensors[rank], err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kilni_call_plan_record(const kilni_call_plan *plan, const char *op, kiln_error *err)
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
