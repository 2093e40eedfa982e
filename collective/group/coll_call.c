// SPDX-License-Identifier: MIT OR Apache-2.0
// The start of a call: what is checked before anybody else knows of it, which algorithm it gets,
// and its place among the member's calls. Carrying it out is coll_worker.c's.
#include "coll_algorithms.h"
#include "coll_member.h"

/// What one rank's call needs to have.
static kiln_status check_buffers(const kiln_coll_member *member, const kiln_coll_call *call,
                                 kiln_error *err)
{
    const kiln_coll_kind kind = call->kind;
    bool is_root = member->rank == call->root;
    bool needs_input = kind != KILN_COLL_RECEIVE &&
                       ((kind != KILN_COLL_BROADCAST && kind != KILN_COLL_SCATTER) || is_root);
    bool needs_output = kind != KILN_COLL_SEND &&
                        ((kind != KILN_COLL_REDUCE && kind != KILN_COLL_GATHER) || is_root);
    if (kind == KILN_COLL_REDUCE_SCATTER) {
        needs_output = kilni_coll_part(call->count, member->group->ranks, member->rank).count > 0;
    }
    if (kind == KILN_COLL_BARRIER || call->count == 0) {
        return KILN_STATUS_OK;
    }
    if (kind == KILN_COLL_ALL_TO_ALL && call->input == call->output) {
        return kiln_fail(err, INVALID_ARGUMENT, "all_to_all on rank %u: the output is the input",
                         member->rank);
    }
    if ((needs_input && call->input == NULL) || (needs_output && call->output == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s on rank %u needs %s", kiln_coll_kind_name(kind),
                         member->rank,
                         call->input == NULL && needs_input ? "an input" : "an output");
    }
    return KILN_STATUS_OK;
}

static kiln_status check_call(const kiln_coll_member *member, const kiln_coll_call *call,
                              kiln_error *err)
{
    uint32_t ranks = member->group->ranks;
    if (call->struct_size < sizeof(*call) || kiln_coll_kind_name(call->kind) == NULL ||
        kiln_coll_op_name(call->op) == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "no collective %d with operation %d", call->kind,
                         call->op);
    }
    bool is_barrier = call->kind == KILN_COLL_BARRIER;
    const int numeric = KILN_KIND_UINT | KILN_KIND_INT | KILN_KIND_FLOAT;
    if (!is_barrier && ((int)kiln_dtype_kind_of(call->dtype) & numeric) == 0) {
        const char *dtype = kiln_dtype_name(call->dtype);
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s of %s on rank %u: collectives take integers and floats; cast it first",
                         kiln_coll_kind_name(call->kind), dtype == NULL ? "no dtype" : dtype,
                         member->rank);
    }
    if (call->root >= ranks) {
        return kiln_fail(err, INVALID_ARGUMENT, "root %u of a group of %u", call->root, ranks);
    }
    if (kilni_coll_is_paired(call->kind) && call->root == member->rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "rank %u cannot send to itself", call->root);
    }
    if (call->count > (uint64_t)PTRDIFF_MAX / 8 / ranks) {
        return kiln_fail(err, INVALID_ARGUMENT, "%llu elements for %u ranks are too many",
                         (unsigned long long)call->count, ranks);
    }
    return check_buffers(member, call, err);
}

static kiln_status settle_algorithm(const kiln_coll_member *member, kiln_coll_call *call,
                                    kiln_error *err)
{
    uint32_t ranks = member->group->ranks;
    const kilni_coll_extent extent = {ranks, member->group->node};
    const char *kind = kiln_coll_kind_name(call->kind);
    if (call->algorithm == KILN_COLL_AUTO) {
        uint64_t bytes = call->count * kiln_dtype_size(call->dtype);
        pthread_mutex_lock(&member->group->mutex);
        call->algorithm = kilni_coll_choose(member->group->select, call->kind, bytes, extent);
        pthread_mutex_unlock(&member->group->mutex);
        return call->algorithm != KILN_COLL_AUTO
                   ? KILN_STATUS_OK
                   : kiln_fail(err, UNIMPLEMENTED, "no algorithm of %s for %u ranks", kind, ranks);
    }
    const kiln_coll_algorithm_info *row = kiln_coll_algorithm_row(call->algorithm);
    if (row == NULL || row->kind != call->kind || !kilni_coll_fits(call->algorithm, extent)) {
        return kiln_fail(err, INVALID_ARGUMENT, "algorithm %s is none of %s for %u ranks",
                         row == NULL ? "?" : row->name, kind, ranks);
    }
    return KILN_STATUS_OK;
}

static void enqueue(kiln_coll_member *member, kiln_coll_request *request)
{
    pthread_mutex_lock(&member->mutex);
    if (member->first == NULL) {
        member->first = request;
    } else {
        member->last->next = request;
    }
    member->last = request;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
}

kiln_status kiln_coll_start(kiln_coll_member *member, const kiln_coll_call *call,
                            kiln_coll_request **out_request, kiln_error *err)
{
    if (out_request != NULL) {
        *out_request = NULL;
    }
    const kiln_env *env = member->group->env;
    kiln_coll_call settled = *call;
    kiln_coll_request *request = NULL;
    kiln_status status = KILN_STATUS_OK;
    kilni_coll_call_note(call, KILN_COLL_STARTED);
    KILN_TRY(out, status, member->transport->ops->failure(member->transport, NULL, err));
    KILN_TRY(out, status, check_call(member, call, err));
    KILN_TRY(out, status, settle_algorithm(member, &settled, err));
    request = kilni_coll_request_create(env, &settled, out_request != NULL);
    if (request == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
        goto out;
    }
    KILN_TRY(out, status,
             kilni_coll_marker_set(env, member->memory, member->memory->ops->after,
                                   &request->marker, err));
    if (out_request != NULL) {
        *out_request = request;
    }
    enqueue(member, request);
    request = NULL;
out:
    if (request != NULL) { // not started
        atomic_store(&request->refs, 1);
        kilni_coll_request_release(request);
    }
    return status;
}
