// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups of devices: what is checked when one is made, with or without MPI, and how operations find
// it by its number. What is called on a group is in coll_calls.c, how bytes reach a device in
// coll_memory.c; how they travel and combine is collective/'s.

#include "coll_memory.h"
#include "rt_collective.h"
#include "rt_context.h"
#include "rt_device.h"

static kiln_status open_rank(kiln_collective *collective, uint32_t index, kiln_device *device,
                             kiln_error *err)
{
    kilni_collective_rank *rank = &collective->ranks[index];
    kilni_device_memory *memory = NULL;
    kiln_status status = kilni_device_memory_create(device, &memory, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_coll_member_create(collective->group, rank->number, &memory->base,
                                     /*transport=*/NULL, &rank->member, err);
    if (status != KILN_STATUS_OK) {
        memory->base.ops->close(&memory->base);
        return status;
    }
    rank->memory = memory;
    return status;
}

static kiln_status check_devices(kiln_device *const *devices, size_t count,
                                 const kiln_coll_group_options *options, kiln_error *err)
{
    if (options != NULL && options->ranks != 0 && options->ranks != count) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu devices for %u ranks", count, options->ranks);
    }
    for (size_t i = 0; i < count; i++) {
        if (devices[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "device %zu of the group is NULL", i);
        }
        if (kilni_core(devices[i])->context != kilni_core(devices[0])->context) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "device %zu of the group belongs to another context than device 0", i);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status open_ranks(kiln_collective *collective, kiln_device *const *devices,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    size_t count = collective->count;
    collective->count = 0;
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        collective->count = i + 1;
        status = open_rank(collective, (uint32_t)i, devices[i], err);
    }
    return status;
}

/// Makes the group and its members; takes the network over.
static kiln_status open_group(kiln_collective *collective, kiln_device *const *devices,
                              const kiln_coll_group_options *options, kiln_error *err)
{
    kiln_status status =
        kiln_coll_group_create(&collective->context->env, options, &collective->group, err);
    collective->total = options->ranks;
    collective->deadline_ns = options->deadline_ns != 0 ? options->deadline_ns : 30000000000u;
    return status == KILN_STATUS_OK ? open_ranks(collective, devices, err) : status;
}

/// A collective without group and members.
static kiln_status create(kiln_device *const *devices, size_t count,
                          const kiln_coll_group_options *options, kiln_collective **out_collective,
                          kiln_error *err)
{
    if (devices == NULL || count == 0 || count > UINT32_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "a group needs devices");
    }
    kiln_status status = check_devices(devices, count, options, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_context *context = kilni_core(devices[0])->context;
    kiln_collective *collective = kiln_alloc(&context->env, sizeof(*collective));
    kilni_collective_rank *ranks = kiln_alloc_array(&context->env, count, sizeof(*ranks));
    if (collective == NULL || ranks == NULL) {
        kiln_free(&context->env, collective);
        kiln_free(&context->env, ranks);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of devices");
    }
    kilni_context_retain(context);
    collective->context = context;
    collective->ranks = ranks;
    collective->count = count;
    for (size_t i = 0; i < count; i++) {
        ranks[i].number = (uint32_t)i;
    }
    atomic_init(&collective->holds, 1);
    pthread_mutex_init(&collective->lock, NULL);
    *out_collective = collective;
    return KILN_STATUS_OK;
}

// ---- the context's groups ----

static void list_group(kiln_collective *collective)
{
    kiln_context *context = collective->context;
    pthread_mutex_lock(&context->groups_lock);
    collective->id = ++context->last_group;
    collective->next = context->groups;
    context->groups = collective;
    pthread_mutex_unlock(&context->groups_lock);
}

/// Nobody starts a call on it any more.
static void unlist_group(kiln_collective *collective)
{
    kiln_context *context = collective->context;
    pthread_mutex_lock(&context->groups_lock);
    kiln_collective **link = &context->groups;
    while (*link != NULL && *link != collective) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = collective->next;
    }
    while (collective->users > 0) {
        pthread_cond_wait(&context->groups_changed, &context->groups_lock);
    }
    pthread_mutex_unlock(&context->groups_lock);
}

kiln_collective *kilni_collective_enter(kiln_context *context, int64_t id)
{
    pthread_mutex_lock(&context->groups_lock);
    kiln_collective *collective = context->groups;
    while (collective != NULL && collective->id != id) {
        collective = collective->next;
    }
    if (collective != NULL) {
        collective->users++;
    }
    pthread_mutex_unlock(&context->groups_lock);
    return collective;
}

void kilni_collective_leave(kiln_collective *collective)
{
    kiln_context *context = collective->context;
    pthread_mutex_lock(&context->groups_lock);
    collective->users--;
    pthread_cond_broadcast(&context->groups_changed);
    pthread_mutex_unlock(&context->groups_lock);
}

// ---- the public calls ----

typedef kiln_status (*settle_fn)(kiln_collective *collective, kiln_coll_group_options *options,
                                 kiln_error *err);

/// The ranks are this process's devices.
static kiln_status settle_local(kiln_collective *collective, kiln_coll_group_options *options,
                                kiln_error *err)
{
    (void)err;
    options->ranks = (uint32_t)collective->count;
    return KILN_STATUS_OK;
}

static kiln_status create_group(kiln_device *const *devices, size_t count,
                                const kiln_coll_group_options *options, settle_fn settle,
                                kiln_collective **out_collective, kiln_error *err)
{
    if (out_collective == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_collective must not be NULL");
    }
    *out_collective = NULL;
    kiln_collective *collective = NULL;
    const kiln_coll_group_options none = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_coll_group_options settled = options != NULL ? *options : none;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, create(devices, count, options, &collective, err));
    KILN_TRY(out, status, settle(collective, &settled, err));
    KILN_TRY(out, status, open_group(collective, devices, &settled, err));
    list_group(collective);
    *out_collective = collective;
    collective = NULL;
out:
    kiln_collective_destroy(collective);
    return status;
}

/// The devices of this process that wish the colour, in the order of their new numbers, which
/// `out_numbers` gets. Returns how many.
static size_t choose_devices(const kiln_collective *whole, const kiln_coll_wish *wishes,
                             int32_t colour, kiln_device **out_devices, uint32_t *out_numbers)
{
    size_t count = 0;
    for (size_t i = 0; i < whole->count; i++) {
        uint32_t rank = whole->ranks[i].number;
        if (wishes[rank].colour != colour) {
            continue;
        }
        uint32_t number = kiln_coll_split_rank(wishes, whole->total, rank);
        size_t at = count++;
        for (; at > 0 && out_numbers[at - 1] > number; at--) {
            out_devices[at] = out_devices[at - 1];
            out_numbers[at] = out_numbers[at - 1];
        }
        out_devices[at] = whole->ranks[i].memory->device;
        out_numbers[at] = number;
    }
    return count;
}

static kiln_status open_part(const kiln_collective *whole, const kiln_coll_wish *wishes,
                             int32_t colour, kiln_collective *collective,
                             kiln_device *const *devices, kiln_error *err)
{
    kiln_status status =
        kiln_coll_group_split(whole->group, wishes, colour, &collective->group, err);
    for (uint32_t i = 0; i < whole->total; i++) {
        collective->total += wishes[i].colour == colour;
    }
    collective->deadline_ns = whole->deadline_ns;
    return status == KILN_STATUS_OK ? open_ranks(collective, devices, err) : status;
}

kiln_status kilni_collective_part(const kiln_collective *whole, const kiln_coll_wish *wishes,
                                  int32_t colour, kiln_collective **out_part, kiln_error *err)
{
    const kiln_env *env = &whole->context->env;
    kiln_device **devices = kiln_alloc_array(env, whole->count, sizeof(kiln_device *));
    uint32_t *numbers = kiln_alloc_array(env, whole->count, sizeof(*numbers));
    kiln_collective *part = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (devices == NULL || numbers == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of devices");
        goto out;
    }
    size_t count = choose_devices(whole, wishes, colour, devices, numbers);
    KILN_TRY(out, status, create(devices, count, /*options=*/NULL, &part, err));
    for (size_t i = 0; i < count; i++) {
        part->ranks[i].number = numbers[i];
    }
    KILN_TRY(out, status, open_part(whole, wishes, colour, part, devices, err));
    list_group(part);
    *out_part = part;
    part = NULL;
out:
    kiln_collective_destroy(part);
    kiln_free(env, (void *)devices);
    kiln_free(env, numbers);
    return status;
}

/// The network is in a library of its own, so that nothing needs MPI.
static kiln_status settle_mpi(kiln_collective *collective, kiln_coll_group_options *options,
                              kiln_error *err)
{
    union {
        void *address;
        kiln_status (*open)(const kiln_env *env, uint32_t local_ranks, uint64_t deadline_ns,
                            kiln_coll_network **out_network, kiln_coll_place *out_place,
                            kiln_error *err);
    } found;
    kiln_coll_place place = {0};
    uint64_t deadline_ns = options->deadline_ns != 0 ? options->deadline_ns : 30000000000u;
    kiln_status status = kilni_library_symbol(collective->context, "libkiln_mpi.so." KILN_SOVERSION,
                                              "kiln_coll_mpi_open", &found.address, err);
    if (status == KILN_STATUS_OK) {
        status = found.open(&collective->context->env, (uint32_t)collective->count, deadline_ns,
                            &options->network, &place, err);
    }
    if (status == KILN_STATUS_OK) {
        for (size_t i = 0; i < collective->count; i++) {
            collective->ranks[i].number += place.first_rank;
        }
        options->ranks = place.ranks;
        options->ranks_per_node = place.ranks_per_node;
    }
    return status;
}

kiln_status kiln_collective_create(kiln_device *const *devices, size_t count,
                                   const kiln_coll_group_options *options,
                                   kiln_collective **out_collective, kiln_error *err)
{
    return create_group(devices, count, options, settle_local, out_collective, err);
}

kiln_status kiln_collective_create_mpi(kiln_device *const *devices, size_t count,
                                       const kiln_coll_group_options *options,
                                       kiln_collective **out_collective, kiln_error *err)
{
    return create_group(devices, count, options, settle_mpi, out_collective, err);
}

int64_t kiln_collective_id(const kiln_collective *collective)
{
    if (collective == NULL) {
        return 0;
    }
    return collective->id;
}

uint32_t kiln_collective_rank(const kiln_collective *collective)
{
    if (collective == NULL) {
        return 0;
    }
    return collective->ranks[0].number;
}

uint32_t kiln_collective_ranks(const kiln_collective *collective)
{
    if (collective == NULL) {
        return 0;
    }
    return collective->total;
}

kiln_device *kiln_collective_member(const kiln_collective *collective, size_t index,
                                    uint32_t *out_rank)
{
    if (collective == NULL || index >= collective->count) {
        return NULL;
    }
    if (out_rank != NULL) {
        *out_rank = collective->ranks[index].number;
    }
    return collective->ranks[index].memory->device;
}

void kiln_collective_destroy(kiln_collective *collective)
{
    if (collective != NULL && atomic_fetch_sub(&collective->holds, 1) > 1) {
        return;
    }
    bool opened = collective != NULL && collective->group != NULL;
    for (size_t i = 0; opened && i < collective->count; i++) {
        if (collective->ranks[i].member != NULL) {
            kiln_coll_member_drain(collective->ranks[i].member);
        }
    }
    kilni_collective_cancel(collective);
}

void kilni_collective_cancel(kiln_collective *collective)
{
    if (collective == NULL) {
        return;
    }
    kiln_context *context = collective->context;
    unlist_group(collective);
    bool opened = collective->group != NULL; // else no member was made
    for (size_t i = 0; i < collective->count && opened; i++) {
        kiln_coll_member_destroy(collective->ranks[i].member);
    }
    kiln_coll_group_destroy(collective->group);
    pthread_mutex_destroy(&collective->lock);
    kiln_free(&context->env, collective->ranks);
    kiln_free(&context->env, collective);
    kilni_context_release(context);
}

kiln_status kiln_collective_select(kiln_collective *collective, const char *select, kiln_error *err)
{
    if (collective == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective must not be NULL");
    }
    return kiln_coll_group_select(collective->group, select, err);
}

kiln_status kiln_collective_status(kiln_collective *collective, int32_t *out_rank, kiln_error *err)
{
    if (collective == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective must not be NULL");
    }
    return kiln_coll_group_status(collective->group, out_rank, err);
}
