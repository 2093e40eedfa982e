// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups: their options, the choice of algorithms, and the hub, network and guard that live as long
// as the group or any member.
#include "coll_algorithms.h"
#include "coll_member.h"

static const uint64_t default_deadline_ns = 30000000000u;
static const uint64_t default_chunk_bytes = 4u << 20; // 4 to 16 MiB reach a link's speed

enum { MOST_RANKS = 4096 };

void kilni_coll_group_release(kiln_coll_group *group)
{
    if (atomic_fetch_sub(&group->refs, 1) != 1) {
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
    atomic_init(&group->refs, 1);
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
        kilni_coll_group_release(group);
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
