// SPDX-License-Identifier: MIT OR Apache-2.0
// Parts of a group: which ranks join which, in which order, and by which number the network of a
// part is known in all its processes. How the ranks learn each other's wishes is the caller's.
#include "coll_member.h"

static bool comes_before(const kiln_coll_wish *wishes, uint32_t one, uint32_t two)
{
    return wishes[one].key < wishes[two].key || (wishes[one].key == wishes[two].key && one < two);
}

uint32_t kiln_coll_split_rank(const kiln_coll_wish *wishes, uint32_t ranks, uint32_t rank)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        number += wishes[i].colour == wishes[rank].colour && comes_before(wishes, i, rank);
    }
    return wishes[rank].colour < 0 ? UINT32_MAX : number;
}

/// The largest mark, and the colour's place among the colours: one process may be in several parts.
static uint32_t number_of_part(const kiln_coll_wish *wishes, uint32_t ranks, int32_t colour)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t mark = (uint32_t)wishes[i].mark;
        number = mark > number ? mark : number;
    }
    for (uint32_t i = 0; i < ranks; i++) { // its first rank stands for a colour
        number += wishes[i].colour >= 0 && wishes[i].colour < colour &&
                  kiln_coll_split_rank(wishes, ranks, i) == 0;
    }
    return number;
}

static kiln_status open_part(kiln_coll_group *group, const kiln_coll_wish *wishes, int32_t colour,
                             const uint32_t *ranks, kiln_coll_group_options *options,
                             kiln_error *err)
{
    kiln_coll_network *network = group->network;
    if (network == NULL) {
        return KILN_STATUS_OK;
    }
    if (network->ops->struct_size < sizeof(kiln_coll_network_ops)) {
        return kiln_fail(err, UNIMPLEMENTED, "a group over %s cannot be split", network->ops->name);
    }
    return network->ops->part(network, ranks, options->ranks,
                              number_of_part(wishes, group->ranks, colour), &options->network, err);
}

/// `ranks[i]`, of the group, becomes rank i. Returns how many there are.
static uint32_t list_part(const kiln_coll_wish *wishes, uint32_t all, int32_t colour,
                          uint32_t *out_ranks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < all; i++) {
        if (wishes[i].colour == colour) {
            out_ranks[kiln_coll_split_rank(wishes, all, i)] = i;
            count++;
        }
    }
    return count;
}

int32_t kiln_coll_group_mark(const kiln_coll_group *group)
{
    kiln_coll_network *network = group->network;
    bool has_parts = network != NULL && network->ops->struct_size >= sizeof(*network->ops);
    return has_parts ? (int32_t)network->ops->next_part(network) : 0;
}

kiln_status kiln_coll_group_split(kiln_coll_group *group, const kiln_coll_wish *wishes,
                                  int32_t colour, kiln_coll_group **out_group, kiln_error *err)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    uint32_t *ranks = kiln_alloc_array(group->env, group->ranks, sizeof(*ranks));
    kiln_status status = KILN_STATUS_OK;
    *out_group = NULL;
    pthread_mutex_lock(&group->mutex);
    bool has_select = group->select != NULL;
    char *select = has_select ? kiln_strdup(group->env, group->select) : NULL;
    pthread_mutex_unlock(&group->mutex);
    if (ranks == NULL || (has_select && select == NULL)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group");
        goto out;
    }
    KILN_TRY(out, status, kiln_coll_group_status(group, NULL, err));
    options.deadline_ns = group->deadline_ns;
    options.chunk_bytes = group->chunk_bytes;
    options.select = select;
    options.ranks = list_part(wishes, group->ranks, colour, ranks);
    if (colour < 0 || options.ranks == 0) {
        status = kiln_fail(err, INVALID_ARGUMENT, "no rank wishes colour %d", colour);
        goto out;
    }
    KILN_TRY(out, status, open_part(group, wishes, colour, ranks, &options, err));
    KILN_TRY(out, status, kiln_coll_group_create(group->env, &options, out_group, err));
out:
    kiln_free(group->env, ranks);
    kiln_free(group->env, select);
    return status;
}
