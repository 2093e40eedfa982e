// SPDX-License-Identifier: MIT OR Apache-2.0
// The public collective calls: what each of them asks of its arguments. All but the all-reduce
// start at once (coll_run.c); that one is recorded (coll_recorded.c).

#include "coll_plan.h"
#include "rt_context.h"
#include "rt_tensor.h"

// ---- the public calls ----

static kiln_status plan_call(kiln_collective *collective, kiln_coll_kind kind, const char *op,
                             uint32_t root, kiln_tensor *const *inputs, kiln_tensor **out_tensors,
                             kilni_call_plan *out_plan, kiln_error *err)
{
    if (collective == NULL || inputs == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, inputs and outputs must not be NULL");
    }
    for (size_t i = 0; i < collective->count && out_tensors != NULL; i++) {
        out_tensors[i] = NULL;
    }
    *out_plan =
        (kilni_call_plan){.collective = collective,
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
    return kilni_call_plan_check(out_plan, err);
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
    kilni_call_plan plan;
    if (out_tensors == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, inputs and outputs must not be NULL");
    }
    kiln_status status = plan_call(collective, kind, op, root, inputs, out_tensors, &plan, err);
    if (status == KILN_STATUS_OK) {
        status = check_rows(kind, &inputs[0]->desc, collective->total, err);
    }
    return status == KILN_STATUS_OK ? kilni_call_plan_run(&plan, err) : status;
}

kiln_status kiln_collective_all_reduce(kiln_collective *collective, kiln_tensor *const *inputs,
                                       const char *op, kiln_tensor **out_tensors, kiln_error *err)
{
    kilni_call_plan plan;
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
    status = kilni_call_plan_record(&plan, op, &cause);
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
    kilni_call_plan plan;
    kiln_status status =
        plan_call(collective, KILN_COLL_ALL_REDUCE, op, 0, tensors, NULL, &plan, err);
    return status == KILN_STATUS_OK ? kilni_call_plan_run(&plan, err) : status;
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
    kilni_call_plan plan = {.collective = collective,
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
    kiln_status status = kilni_call_plan_check(&plan, err);
    return status == KILN_STATUS_OK ? kilni_call_plan_run(&plan, err) : status;
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
