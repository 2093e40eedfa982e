// SPDX-License-Identifier: MIT OR Apache-2.0
// Splitting a group: how all ranks learn what each asks for. Within a process that is known; others
// are told by an all-gather of the group that is split. What becomes of the wishes is
// kiln_coll_group_split's, the making of parts coll_bridge.c's.
#include "coll_memory.h"
#include "rt_context.h"
#include "rt_device.h"

enum { WISH_ITEMS = sizeof(kiln_coll_wish) / sizeof(int32_t) };

/// All ranks' wishes, read from what the first of this process gathered.
static kiln_status gather_wishes(kiln_collective *collective, kiln_tensor *const *inputs,
                                 kiln_tensor **outputs, kiln_coll_wish *out_wishes, kiln_error *err)
{
    size_t bytes = collective->total * sizeof(*out_wishes);
    kiln_status status = kiln_collective_all_gather(collective, inputs, outputs, err);
    for (size_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        status = kiln_collective_resolve(outputs[i], err);
    }
    return status == KILN_STATUS_OK ? kiln_read(outputs[0], out_wishes, bytes, err) : status;
}

static kiln_status exchange_wishes(kiln_collective *collective, const kiln_coll_wish *own,
                                   kiln_coll_wish *out_wishes, kiln_error *err)
{
    const kiln_env *env = &collective->context->env;
    const int64_t dims[] = {1, WISH_ITEMS};
    size_t count = collective->count;
    kiln_tensor **tensors = kiln_alloc_array(env, 2 * count, sizeof(kiln_tensor *));
    kiln_status status = KILN_STATUS_OK;
    if (tensors == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a split");
    }
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = kiln_tensor_create(collective->ranks[i].memory->device, KILN_DTYPE_I32, 2, dims,
                                    &own[i], &tensors[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = gather_wishes(collective, tensors, tensors + count, out_wishes, err);
    }
    for (size_t i = 0; i < 2 * count; i++) {
        kiln_release(tensors[i]);
    }
    kiln_free(env, (void *)tensors);
    return status;
}

/// `own` are the wishes of this process's ranks.
static kiln_status learn_wishes(kiln_collective *collective, const kiln_coll_wish *own,
                                kiln_coll_wish *out_wishes, kiln_error *err)
{
    if (collective->count != collective->total) {
        return exchange_wishes(collective, own, out_wishes, err);
    }
    for (size_t i = 0; i < collective->count; i++) {
        out_wishes[i] = own[i];
    }
    return kiln_coll_group_status(collective->group, NULL, err);
}

/// Each rank gets its part, made when its first one comes.
static kiln_status make_parts(const kiln_collective *collective, const kiln_coll_wish *own,
                              const kiln_coll_wish *wishes, kiln_collective **out_parts,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        size_t first = 0;
        while (own[first].colour != own[i].colour) {
            first++;
        }
        if (own[i].colour >= 0 && first == i) {
            status = kilni_collective_part(collective, wishes, own[i].colour, &out_parts[i], err);
        } else if (own[i].colour >= 0) {
            out_parts[i] = out_parts[first];
            atomic_fetch_add(&out_parts[i]->holds, 1);
        }
    }
    return status;
}

static kiln_status split(kiln_collective *collective, const int32_t *colours, const int32_t *keys,
                         kiln_collective **out_parts, kiln_error *err)
{
    const kiln_env *env = &collective->context->env;
    size_t total = collective->total;
    kiln_coll_wish *wishes = kiln_alloc_array(env, total + collective->count, sizeof(*wishes));
    if (wishes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a split");
    }
    kiln_coll_wish *own = wishes + total;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < collective->count; i++) {
        own[i] = (kiln_coll_wish){.colour = colours[i],
                                  .key = keys == NULL ? 0 : keys[i],
                                  .mark = kiln_coll_group_mark(collective->group)};
    }
    KILN_TRY(out, status, learn_wishes(collective, own, wishes, err));
    KILN_TRY(out, status, make_parts(collective, own, wishes, out_parts, err));
out:
    for (size_t i = 0; i < collective->count && status != KILN_STATUS_OK; i++) {
        kiln_collective_destroy(out_parts[i]);
        out_parts[i] = NULL;
    }
    kiln_free(env, wishes);
    return status;
}

kiln_status kiln_collective_split(kiln_collective *collective, const int32_t *colours,
                                  const int32_t *keys, kiln_collective **out_parts, kiln_error *err)
{
    if (collective == NULL || colours == NULL || out_parts == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, colours and parts must not be NULL");
    }
    for (size_t i = 0; i < collective->count; i++) {
        out_parts[i] = NULL;
    }
    return split(collective, colours, keys, out_parts, err);
}
