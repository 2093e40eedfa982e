// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups, members and the start of calls: what is checked at the call, and who holds what for how
// long. Carrying a call out is coll_worker.c's.
#include "coll_member.h"

#include <string.h>

static const uint64_t default_deadline_ns = 30000000000u;
static const uint64_t default_chunk_bytes = 4u << 20; // 4 to 16 MiB reach a link's speed

enum { MOST_RANKS = 4096 };

// ---- groups ----

static void group_drop(kiln_coll_group *group)
{
    if (atomic_fetch_sub(&group->holds, 1) != 1) {
        return;
    }
    const kiln_env *env = group->env;
    kilni_coll_guard_stop(group);
    if (group->network != NULL) {
        group->network->ops->detach(group->network);
    }
    kilni_coll_hub_destroy(group->hub);
    pthread_mutex_destroy(&group->mutex);
    kiln_free(env, group->taken);
    kiln_free(env, group->select);
    kiln_free(env, group);
}

static kiln_status check_options(const kiln_coll_group_options *options, kiln_error *err)
{
    if (options == NULL || options->struct_size < sizeof(*options)) {
        return kiln_fail(err, INVALID_ARGUMENT, "options of a group without their size");
    }
    if (options->ranks == 0 || options->ranks > MOST_RANKS) {
        return kiln_fail(err, INVALID_ARGUMENT, "a group of %u ranks, where 1 to %d are possible",
                         options->ranks, MOST_RANKS);
    }
    return kilni_coll_select_check(options->select, err);
}

static kiln_status fill_group(const kiln_env *env, kiln_coll_group *group,
                              const kiln_coll_group_options *options, kiln_coll_group **out_group,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    group->env = env;
    group->network = options->network;
    atomic_init(&group->holds, 1);
    group->ranks = options->ranks;
    group->node = options->ranks_per_node;
    group->deadline_ns = options->deadline_ns == 0 ? default_deadline_ns : options->deadline_ns;
    group->chunk_bytes = options->chunk_bytes == 0 ? default_chunk_bytes : options->chunk_bytes;
    pthread_mutex_init(&group->mutex, NULL);
    KILN_TRY(out, status, kilni_coll_guard_start(group, err));
    group->taken = kiln_alloc_array(env, group->ranks, sizeof(*group->taken));
    group->select = options->select == NULL ? NULL : kiln_strdup(env, options->select);
    if (group->taken == NULL || (options->select != NULL && group->select == NULL)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group");
        goto out;
    }
    KILN_TRY(out, status, kilni_coll_hub_create(env, group->ranks, &group->hub, err));
    group->transport = kilni_coll_hub_end(group->hub, 0);
    if (group->network != NULL) {
        kilni_coll_hub_set_network(group->hub);
        KILN_TRY(out, status,
                 group->network->ops->attach(group->network, group->hub, group->deadline_ns, err));
    }
    *out_group = group;
    group = NULL;
out:
    kiln_coll_group_destroy(group);
    return status;
}

kiln_status kiln_coll_group_create(const kiln_env *env, const kiln_coll_group_options *options,
                                   kiln_coll_group **out_group, kiln_error *err)
{
    *out_group = NULL;
    kiln_coll_group *group = NULL;
    kiln_status status = check_options(options, err);
    if (status == KILN_STATUS_OK && (group = kiln_alloc(env, sizeof(*group))) == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group");
    }
    if (status == KILN_STATUS_OK) {
        return fill_group(env, group, options, out_group, err);
    }
    if (options != NULL && options->struct_size >= sizeof(*options) && options->network != NULL) {
        options->network->ops->detach(options->network);
    }
    return status;
}

void kiln_coll_group_destroy(kiln_coll_group *group)
{
    if (group != NULL) {
        group_drop(group);
    }
}

kiln_status kiln_coll_group_select(kiln_coll_group *group, const char *select, kiln_error *err)
{
    kiln_status status = kilni_coll_select_check(select == NULL ? "" : select, err);
    char *copy = NULL;
    if (status == KILN_STATUS_OK) {
        copy = kiln_strdup(group->env, select == NULL ? "" : select);
        status = copy != NULL ? KILN_STATUS_OK
                              : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a choice");
    }
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&group->mutex);
        char *before = group->select;
        group->select = copy;
        pthread_mutex_unlock(&group->mutex);
        kiln_free(group->env, before);
    }
    return status;
}

kiln_status kiln_coll_group_status(kiln_coll_group *group, int32_t *out_rank, kiln_error *err)
{
    pthread_mutex_lock(&group->mutex);
    kiln_coll_transport *transport = group->transport;
    pthread_mutex_unlock(&group->mutex);
    return transport->ops->failure(transport, out_rank, err);
}

// ---- members ----

static kiln_status take_rank(kiln_coll_group *group, uint32_t rank, kiln_error *err)
{
    if (rank >= group->ranks) {
        return kiln_fail(err, INVALID_ARGUMENT, "rank %u of a group of %u", rank, group->ranks);
    }
    pthread_mutex_lock(&group->mutex);
    bool taken = group->taken[rank];
    group->taken[rank] = true;
    pthread_mutex_unlock(&group->mutex);
    return taken ? kiln_fail(err, ALREADY_EXISTS, "rank %u is a member already", rank)
                 : KILN_STATUS_OK;
}

static void give_rank_back(kiln_coll_group *group, uint32_t rank)
{
    pthread_mutex_lock(&group->mutex);
    group->taken[rank] = false;
    pthread_mutex_unlock(&group->mutex);
}

void kilni_coll_member_free(kiln_coll_member *member)
{
    kiln_coll_group *group = member->group;
    kiln_coll_memory *memory = member->memory;
    kilni_coll_guard_remove(member);
    kilni_coll_hub_set_watch(group->hub, member->rank, NULL);
    kiln_arena_fini(&member->arena);
    pthread_cond_destroy(&member->changed);
    pthread_mutex_destroy(&member->mutex);
    kiln_free(group->env, member);
    group_drop(group);
    if (memory->ops->close != NULL) {
        memory->ops->close(memory);
    }
}

/// Allocates, and starts the worker.
static kiln_status member_start(kiln_coll_group *group, uint32_t rank, kiln_coll_memory *memory,
                                kiln_coll_transport *transport, kiln_coll_member **out_member,
                                kiln_error *err)
{
    kiln_coll_member *member = kiln_alloc(group->env, sizeof(*member));
    if (member == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for rank %u", rank);
    }
    atomic_fetch_add(&group->holds, 1);
    member->group = group;
    member->rank = rank;
    member->memory = memory;
    member->transport = transport != NULL ? transport : kilni_coll_hub_end(group->hub, rank);
    kiln_arena_init(&member->arena, group->env);
    pthread_mutex_init(&member->mutex, NULL);
    pthread_cond_init(&member->changed, NULL);
    if (pthread_create(&member->worker, NULL, kilni_coll_work, member) != 0) {
        kiln_arena_fini(&member->arena);
        pthread_cond_destroy(&member->changed);
        pthread_mutex_destroy(&member->mutex);
        kiln_free(group->env, member);
        group_drop(group);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for rank %u", rank);
    }
    kilni_coll_hub_set_watch(group->hub, rank, &member->watch);
    kilni_coll_guard_add(member);
    *out_member = member;
    return KILN_STATUS_OK;
}

kiln_status kiln_coll_member_create(kiln_coll_group *group, uint32_t rank, kiln_coll_memory *memory,
                                    kiln_coll_transport *transport, kiln_coll_member **out_member,
                                    kiln_error *err)
{
    *out_member = NULL;
    kiln_status status = kiln_coll_group_status(group, NULL, err);
    if (status == KILN_STATUS_OK) {
        status = take_rank(group, rank, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = member_start(group, rank, memory, transport, out_member, err);
    if (status != KILN_STATUS_OK) {
        give_rank_back(group, rank);
        return status;
    }
    if (transport != NULL) {
        pthread_mutex_lock(&group->mutex);
        group->transport = transport;
        pthread_mutex_unlock(&group->mutex);
    }
    return KILN_STATUS_OK;
}

void kiln_coll_member_abort(kiln_coll_member *member, const kiln_error *cause)
{
    member->transport->ops->abort(member->transport, cause);
}

void kiln_coll_member_drain(kiln_coll_member *member)
{
    pthread_mutex_lock(&member->mutex);
    while ((member->first != NULL || member->is_busy) && !member->is_stuck) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    pthread_mutex_unlock(&member->mutex);
}

/// Waits for the worker's end. False: it is stuck, and frees the member when it comes back.
static bool await_worker(kiln_coll_member *member)
{
    bool waits = member->memory->ops->close == NULL;
    pthread_mutex_lock(&member->mutex);
    while (!member->is_over && (waits || !member->is_stuck)) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    bool is_over = member->is_over;
    pthread_t worker = member->worker;
    member->is_abandoned = !is_over;
    pthread_mutex_unlock(&member->mutex);
    if (is_over) {
        pthread_join(worker, NULL);
    } else {
        pthread_detach(worker);
    }
    return is_over;
}

void kiln_coll_member_destroy(kiln_coll_member *member)
{
    if (member == NULL) {
        return;
    }
    kiln_coll_group *group = member->group;
    kiln_coll_transport *transport = member->transport;
    pthread_mutex_lock(&member->mutex);
    bool pending = member->first != NULL || member->is_busy;
    member->is_closing = true;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
    if (pending) {
        kiln_error cause = KILN_ERROR_INIT;
        (void)kiln_fail(&cause, CANCELLED, "left with calls pending");
        transport->ops->abort(transport, &cause);
    }
    transport->ops->leave(transport);
    pthread_mutex_lock(&group->mutex);
    if (group->transport == transport) { // the group may outlive a transport from outside
        group->transport = kilni_coll_hub_end(group->hub, 0);
    }
    pthread_mutex_unlock(&group->mutex);
    if (await_worker(member)) {
        kilni_coll_member_free(member);
    }
}

// ---- calls ----

/// What one rank's call needs to have.
static kiln_status check_buffers(const kiln_coll_member *member, const kiln_coll_call *call,
                                 kiln_error *err)
{
    bool is_root = member->rank == call->root;
    bool needs_input = call->kind != KILN_COLL_BROADCAST || is_root;
    bool needs_output = call->kind != KILN_COLL_REDUCE || is_root;
    if (call->kind == KILN_COLL_REDUCE_SCATTER) {
        needs_output = kilni_coll_part(call->count, member->group->ranks, member->rank).count > 0;
    }
    if (call->kind == KILN_COLL_BARRIER || call->count == 0) {
        return KILN_STATUS_OK;
    }
    if ((needs_input && call->input == NULL) || (needs_output && call->output == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s on rank %u needs %s",
                         kiln_coll_kind_name(call->kind), member->rank,
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
    KILN_TRY(out, status, member->transport->ops->failure(member->transport, NULL, err));
    KILN_TRY(out, status, check_call(member, call, err));
    KILN_TRY(out, status, settle_algorithm(member, &settled, err));
    request = kilni_coll_request_create(env, &settled, out_request != NULL);
    if (request == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
        goto out;
    }
    KILN_TRY(
        out, status,
        kilni_coll_gate_open(env, member->memory, member->memory->ops->after, &request->gate, err));
    if (out_request != NULL) {
        *out_request = request;
    }
    enqueue(member, request);
    request = NULL;
out:
    if (request != NULL) { // not started
        atomic_store(&request->holds, 1);
        kilni_coll_request_release(request);
    }
    return status;
}

kiln_status kiln_coll_run(kiln_coll_member *member, const kiln_coll_call *call, kiln_error *err)
{
    kiln_coll_request *request = NULL;
    kiln_status status = kiln_coll_start(member, call, &request, err);
    return request != NULL ? kiln_coll_wait(request, err) : status;
}
