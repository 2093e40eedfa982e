// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of members that share an optimiser's state, as they come. Decides when a row is
// averaged: when all members of this process have submitted all of it, and the rows before it are
// on their way, so that all processes issue them in one order.
#include "sharded_internal.h"

void kilni_sharded_forget(kiln_sharded *sharded)
{
    const kilni_shard_layout *layout = &sharded->layout;
    sharded->next_row = 0;
    for (size_t r = 0; r < layout->n_rows && sharded->missing != NULL; r++) {
        sharded->missing[r] = layout->rows[r].n_params * sharded->count;
    }
    for (size_t m = 0; m < sharded->count; m++) {
        kilni_shard_member *self = &sharded->members[m];
        for (size_t p = 0; p < layout->count && self->gradients != NULL && self->came != NULL;
             p++) {
            kiln_release(self->gradients[p]);
            self->gradients[p] = NULL;
            self->came[p] = false;
        }
        for (size_t r = 0; r < layout->n_rows && self->parts != NULL; r++) {
            kiln_release(self->parts[r]);
            self->parts[r] = NULL;
        }
    }
}

kiln_status kilni_sharded_check(const kilni_shard_member *self, size_t index,
                                const kiln_tensor *gradient, kiln_error *err)
{
    const kiln_tensor *value = self->set->all[index].value; // the latest one looks the same
    const char *name = self->set->all[index].name;
    const size_t member = (size_t)(self - self->sharded->members);
    if (self->came[index]) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "member %zu: parameter %.64s got its gradient before", member, name);
    }
    if (gradient == NULL || kiln_tensor_dtype(gradient) != kiln_tensor_dtype(value) ||
        kiln_tensor_count(gradient) != kiln_tensor_count(value) ||
        kiln_tensor_device(gradient) != kiln_tensor_device(value)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "member %zu: parameter %.64s has no gradient of its dtype, length and "
                         "device",
                         member, name);
    }
    return KILN_STATUS_OK;
}

/// The member's whole row; its gradients are given up.
static kiln_status join_gradients(kilni_shard_member *self, size_t row, kiln_tensor **out_whole,
                                  kiln_error *err)
{
    const kilni_shard_layout *layout = &self->sharded->layout;
    kiln_status status = kilni_shard_cut(layout, self->set->device, self->gradients, row, 0,
                                         layout->rows[row].part * layout->parts, out_whole, err);
    for (size_t p = 0; p < layout->count; p++) {
        if (layout->places[p].row == row) {
            kiln_release(self->gradients[p]);
            self->gradients[p] = NULL;
        }
    }
    return status;
}

/// Each member gets its part of the mean of a row.
static kiln_status average_row(kiln_sharded *sharded, size_t row, kiln_error *err)
{
    const size_t count = sharded->count;
    kiln_tensor **whole = kiln_alloc_array(sharded->env, 2 * count, sizeof(kiln_tensor *));
    kiln_status status = KILN_STATUS_OK;
    if (whole == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    kiln_tensor **parts = whole + count;
    for (size_t m = 0; m < count; m++) {
        KILN_TRY(out, status, join_gradients(&sharded->members[m], row, &whole[m], err));
    }
    KILN_TRY(out, status,
             kiln_collective_reduce_scatter(sharded->group, whole, "mean", parts, err));
    for (size_t m = 0; m < count; m++) {
        sharded->members[m].parts[row] = parts[m];
    }
out:
    for (size_t m = 0; m < count; m++) {
        kiln_release(whole[m]);
    }
    kiln_free(sharded->env, (void *)whole);
    return status;
}

kiln_status kilni_sharded_take(kilni_shard_member *self, size_t index, kiln_tensor *gradient,
                               kiln_error *err)
{
    kiln_sharded *sharded = self->sharded;
    kiln_status status = KILN_STATUS_OK;
    self->gradients[index] = kiln_retain(gradient);
    self->came[index] = true;
    sharded->missing[sharded->layout.places[index].row]--;
    while (sharded->next_row < sharded->layout.n_rows && sharded->missing[sharded->next_row] == 0 &&
           status == KILN_STATUS_OK) {
        status = average_row(sharded, sharded->next_row++, err);
    }
    return status;
}

kiln_status kiln_sharded_submit(kiln_sharded *sharded, size_t member, size_t parameter,
                                kiln_tensor *gradient, kiln_error *err)
{
    if (sharded == NULL || member >= sharded->count || parameter >= sharded->layout.count) {
        return kiln_fail(err, INVALID_ARGUMENT, "a gradient needs a member and a parameter");
    }
    kilni_shard_member *self = &sharded->members[member];
    kiln_status status = kilni_sharded_check(self, parameter, gradient, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_sharded_take(self, parameter, gradient, err);
        if (status != KILN_STATUS_OK) {
            kilni_sharded_forget(sharded);
        }
    }
    return status;
}

// ---- from a tape ----

static kiln_status take_leaf(void *user, kiln_tensor *leaf, kiln_tensor *gradient, kiln_error *err)
{
    kilni_shard_member *self = user;
    kiln_param_id id = kiln_tensor_param(leaf);
    size_t index = 0;
    while (index < self->set->count && self->set->all[index].id != id) {
        index++;
    }
    if (index == self->set->count) {
        return kiln_fail(err, INVALID_ARGUMENT, "the tape tracks a parameter of another set");
    }
    return kiln_sharded_submit(self->sharded, (size_t)(self - self->sharded->members), index,
                               gradient, err);
}

kiln_status kiln_sharded_join(kiln_sharded *sharded, size_t member, kiln_tape *tape,
                              kiln_error *err)
{
    if (sharded == NULL || member >= sharded->count) {
        return kiln_fail(err, INVALID_ARGUMENT, "a tape joins a member of an optimiser");
    }
    return kiln_tape_hand(tape, take_leaf, &sharded->members[member], err);
}
