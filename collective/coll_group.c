// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups, members and calls: what is checked at the call, who waits for what, and how a failure
// reaches every rank. Each member has one worker that carries its calls out in the order of their
// starts: agree with the others, build the schedule, run it. Algorithms and bytes are left to the
// files below.
#include "collective_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static const uint64_t default_deadline_ns = 30000000000u;
static const uint64_t default_chunk_bytes = 4u << 20; // 4 to 16 MiB reach a link's speed

enum { MOST_RANKS = 4096 };

struct kiln_coll_group {
    const kiln_env *env;
    atomic_size_t holds;
    uint32_t ranks;
    uint64_t deadline_ns;
    uint64_t chunk_bytes;
    char *select;
    uint32_t node; ///< ranks that share a host; 0: not known
    kiln_coll_network *network; ///< NULL: all ranks are in this process
    kiln_coll_hub *hub;
    pthread_mutex_t mutex; ///< guards the two below, and `select`
    bool *taken; ///< by rank
    kiln_coll_transport *transport; ///< one that failures can be asked of
};

struct kiln_coll_request {
    const kiln_env *env;
    kiln_coll_call call;
    kilni_coll_gate *gate;
    struct kiln_coll_request *next;
    bool is_detached; ///< nobody waits for it
    pthread_mutex_t mutex; ///< guards what follows
    pthread_cond_t changed;
    bool ended;
    kiln_status status;
    kiln_error error;
};

struct kiln_coll_member {
    kiln_coll_group *group;
    uint32_t rank;
    kiln_coll_memory *memory;
    kiln_coll_transport *transport;
    uint64_t sequence; ///< the worker's
    kiln_arena arena; ///< the worker's
    pthread_t worker;
    pthread_mutex_t mutex; ///< guards what follows
    pthread_cond_t changed;
    kiln_coll_request *first;
    kiln_coll_request *last;
    bool is_busy;
    bool is_closing;
};

// ---- groups
// -----------------------------------------------------------------------------------------

static void group_drop(kiln_coll_group *group)
{
    if (atomic_fetch_sub(&group->holds, 1) != 1) {
        return;
    }
    const kiln_env *env = group->env;
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
    if (options == NULL || options->struct_size < sizeof *options) {
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
    group->taken = kiln_alloc_array(env, group->ranks, sizeof *group->taken);
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
    if (status == KILN_STATUS_OK && (group = kiln_alloc(env, sizeof *group)) == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group");
    }
    if (status == KILN_STATUS_OK) {
        return fill_group(env, group, options, out_group, err);
    }
    if (options != NULL && options->struct_size >= sizeof *options && options->network != NULL) {
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

// ---- requests
// ---------------------------------------------------------------------------------------

static kiln_coll_request *request_create(const kiln_env *env, const kiln_coll_call *call)
{
    kiln_coll_request *request = kiln_alloc(env, sizeof *request);
    if (request != NULL) {
        request->env = env;
        request->call = *call;
        pthread_mutex_init(&request->mutex, NULL);
        pthread_cond_init(&request->changed, NULL);
    }
    return request;
}

static void request_free(kiln_coll_request *request)
{
    pthread_cond_destroy(&request->changed);
    pthread_mutex_destroy(&request->mutex);
    kiln_free(request->env, request);
}

static void request_end(kiln_coll_request *request, kiln_status status, const kiln_error *error)
{
    pthread_mutex_lock(&request->mutex);
    request->status = status;
    request->error = *error;
    request->ended = true;
    pthread_cond_signal(&request->changed);
    pthread_mutex_unlock(&request->mutex);
}

kiln_status kiln_coll_wait(kiln_coll_request *request, kiln_error *err)
{
    pthread_mutex_lock(&request->mutex);
    while (!request->ended) {
        pthread_cond_wait(&request->changed, &request->mutex);
    }
    kiln_status status = request->status;
    if (err != NULL && status != KILN_STATUS_OK) {
        *err = request->error;
    }
    pthread_mutex_unlock(&request->mutex);
    request_free(request);
    return status;
}

bool kiln_coll_ended(const kiln_coll_request *request)
{
    kiln_coll_request *locked = (kiln_coll_request *)request; // only its lock is touched
    pthread_mutex_lock(&locked->mutex);
    bool ended = locked->ended;
    pthread_mutex_unlock(&locked->mutex);
    return ended;
}

// ---- the worker
// -------------------------------------------------------------------------------------

static kiln_coll_signature signature_of(const kiln_coll_call *call)
{
    bool combines = call->kind == KILN_COLL_ALL_REDUCE || call->kind == KILN_COLL_REDUCE ||
                    call->kind == KILN_COLL_REDUCE_SCATTER;
    bool has_root = call->kind == KILN_COLL_REDUCE || call->kind == KILN_COLL_BROADCAST;
    return (kiln_coll_signature){
        .kind = (uint32_t)call->kind,
        .op = combines ? (uint32_t)call->op : 0,
        .dtype = (uint32_t)call->dtype,
        .root = has_root ? call->root : 0,
        .algorithm = (uint32_t)call->algorithm,
        .divisor = combines && call->op == KILN_COLL_MEAN ? call->divisor : 0,
        .count = call->count,
        .tag = call->tag,
    };
}

static kiln_status run_schedule(kiln_coll_member *member, const kiln_coll_call *call,
                                kiln_error *err)
{
    kiln_arena_reset(&member->arena);
    kilni_coll_schedule schedule = {.arena = &member->arena};
    kilni_coll_shape shape = {
        .rank = member->rank,
        .ranks = member->group->ranks,
        .root = call->root,
        .node = member->group->node,
        .count = call->count,
        .is_wide = kilni_coll_wide(call->dtype) != call->dtype,
        .is_mean = call->op == KILN_COLL_MEAN,
    };
    kilni_coll_run run = {
        .memory = member->memory,
        .transport = member->transport,
        .call = call,
        .sequence = member->sequence,
        .deadline_ns = member->group->deadline_ns,
        .chunk_bytes = member->group->chunk_bytes,
        .rank = member->rank,
        .divisor = call->divisor != 0 ? call->divisor : member->group->ranks,
        .arena = &member->arena,
    };
    kilni_coll_init_of(call->algorithm)(&schedule, &shape);
    return kilni_coll_execute(&run, &schedule, err);
}

/// One call from beginning to end. An error of this rank's own is told to the others, and then read
/// back, so that every rank reports the same words.
static kiln_status carry_out(kiln_coll_member *member, kiln_coll_request *request, kiln_error *err)
{
    kiln_coll_transport *transport = member->transport;
    const kiln_coll_call *call = &request->call;
    const kiln_coll_signature signature = signature_of(call);
    kiln_status status = KILN_STATUS_OK;
    member->sequence++;
    KILN_TRY(out, status, transport->ops->failure(transport, NULL, err));
    kilni_coll_gate *gate = request->gate;
    request->gate = NULL;
    KILN_TRY(out, status,
             kilni_coll_gate_wait(gate, kiln_time_ns() + member->group->deadline_ns, err));
    KILN_TRY(out, status,
             transport->ops->agree(transport, member->sequence, &signature,
                                   kiln_time_ns() + member->group->deadline_ns, err));
    KILN_TRY(out, status, run_schedule(member, call, err));
out:
    if (request->gate != NULL) {
        kilni_coll_gate_wait(request->gate, /*deadline_ns=*/0, NULL);
    }
    if (status != KILN_STATUS_OK) {
        transport->ops->abort(transport, err);
        status = transport->ops->failure(transport, NULL, err);
    }
    return status;
}

/// The next request, or NULL when the member closes and nothing is left.
static kiln_coll_request *next_request(kiln_coll_member *member)
{
    pthread_mutex_lock(&member->mutex);
    while (member->first == NULL && !member->is_closing) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    kiln_coll_request *request = member->first;
    if (request != NULL) {
        member->first = request->next;
        member->is_busy = true;
    }
    pthread_mutex_unlock(&member->mutex);
    return request;
}

static void set_idle(kiln_coll_member *member)
{
    pthread_mutex_lock(&member->mutex);
    member->is_busy = false;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
}

static void *work(void *user)
{
    kiln_coll_member *member = user;
    for (kiln_coll_request *request; (request = next_request(member)) != NULL;) {
        kiln_error error = KILN_ERROR_INIT;
        kiln_status status = carry_out(member, request, &error);
        error.code = (int32_t)status;
        if (request->call.event != NULL) {
            member->memory->ops->signal(member->memory, request->call.event, &error);
        }
        set_idle(member);
        if (request->is_detached) {
            request_free(request);
        } else {
            request_end(request, status, &error);
        }
    }
    return NULL;
}

// ---- members
// ----------------------------------------------------------------------------------------

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

static void member_free(kiln_coll_member *member)
{
    kiln_coll_group *group = member->group;
    kiln_arena_fini(&member->arena);
    pthread_cond_destroy(&member->changed);
    pthread_mutex_destroy(&member->mutex);
    kiln_free(group->env, member);
    group_drop(group);
}

/// Allocates, and starts the worker.
static kiln_status member_start(kiln_coll_group *group, uint32_t rank, kiln_coll_memory *memory,
                                kiln_coll_transport *transport, kiln_coll_member **out_member,
                                kiln_error *err)
{
    kiln_coll_member *member = kiln_alloc(group->env, sizeof *member);
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
    if (pthread_create(&member->worker, NULL, work, member) != 0) {
        member_free(member);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for rank %u", rank);
    }
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
    while (member->first != NULL || member->is_busy) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    pthread_mutex_unlock(&member->mutex);
}

void kiln_coll_member_destroy(kiln_coll_member *member)
{
    if (member == NULL) {
        return;
    }
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
    pthread_join(member->worker, NULL);
    transport->ops->leave(transport);
    pthread_mutex_lock(&member->group->mutex);
    if (member->group->transport == transport) { // the group may outlive a transport from outside
        member->group->transport = kilni_coll_hub_end(member->group->hub, 0);
    }
    pthread_mutex_unlock(&member->group->mutex);
    member_free(member);
}

// ---- calls
// ------------------------------------------------------------------------------------------

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
    if (call->struct_size < sizeof *call || kiln_coll_kind_name(call->kind) == NULL ||
        kiln_coll_op_name(call->op) == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "no collective %d with operation %d", call->kind,
                         call->op);
    }
    bool is_barrier = call->kind == KILN_COLL_BARRIER;
    const int numeric = KILN_KIND_UINT | KILN_KIND_INT | KILN_KIND_FLOAT;
    if (!is_barrier && ((int)kiln_dtype_kind_of(call->dtype) & numeric) == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s of dtype %d, which is no number",
                         kiln_coll_kind_name(call->kind), call->dtype);
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
    request = request_create(env, &settled);
    if (request == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
        goto out;
    }
    KILN_TRY(
        out, status,
        kilni_coll_gate_open(env, member->memory, member->memory->ops->after, &request->gate, err));
    request->is_detached = out_request == NULL;
    if (out_request != NULL) {
        *out_request = request;
    }
    enqueue(member, request);
    request = NULL;
out:
    if (request != NULL) {
        request_free(request);
    }
    return status;
}

kiln_status kiln_coll_run(kiln_coll_member *member, const kiln_coll_call *call, kiln_error *err)
{
    kiln_coll_request *request = NULL;
    kiln_status status = kiln_coll_start(member, call, &request, err);
    return request != NULL ? kiln_coll_wait(request, err) : status;
}
