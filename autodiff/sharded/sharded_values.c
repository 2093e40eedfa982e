// SPDX-License-Identifier: MIT OR Apache-2.0
// The step of each member's own parts, and the way of the new values to all sets. Decides when a
// set takes them: with the step, or, where they may come late, row by row when one of the row's
// parameters is asked for; until then what the device does goes on without them.
#include "sharded_internal.h"

/// The values that the member's set has now; borrowed.
static kiln_status look_up(const kilni_shard_member *self, kiln_tensor **out_values,
                           kiln_error *err)
{
    for (size_t p = 0; p < self->set->count; p++) {
        out_values[p] = kiln_params_tensor(self->set, p);
        if (out_values[p] == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the value of a parameter");
        }
    }
    return KILN_STATUS_OK;
}

/// The member's part of what its set has now, and the step of it.
static kiln_status step_member(const kilni_shard_member *self, kiln_error *err)
{
    const kilni_shard_layout *layout = &self->sharded->layout;
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **values = kiln_alloc_array(layout->env, layout->count + 1, sizeof(kiln_tensor *));
    if (values == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    KILN_TRY(out, status, look_up(self, values, err));
    for (size_t r = 0; r < layout->n_rows; r++) {
        kiln_tensor *value = NULL;
        int64_t part = layout->rows[r].part;
        KILN_TRY(out, status,
                 kilni_shard_cut(layout, self->set->device, values, r, part * self->rank, part,
                                 &value, err));
        kilni_params_replace(self->own, r, value);
    }
    KILN_TRY(out, status, kilni_optimiser_step_as_is(self->optimiser, self->parts, err));
out:
    kiln_free(layout->env, (void *)values);
    return status;
}

// ---- new values ----

/// The row's parameters take their new values.
static kiln_status take_row(const kilni_shard_member *self, size_t row, kiln_error *err)
{
    const kilni_shard_layout *layout = &self->sharded->layout;
    kiln_status status = KILN_STATUS_OK;
    for (size_t p = 0; p < layout->count && status == KILN_STATUS_OK; p++) {
        kiln_tensor *value = NULL;
        if (layout->places[p].row == row) {
            status =
                kilni_shard_take(layout, self->whole[row], p, self->set->all[p].value, &value, err);
        }
        if (value != NULL) {
            kilni_params_replace(self->set, p, value);
        }
    }
    return status;
}

/// What was recorded before goes first: the device waits for the row behind it. A late row that
/// failed is what its parameters give then.
static kiln_status bring_row(kilni_shard_member *self, size_t row, kiln_error *err)
{
    const bool late = self->sharded->late;
    kiln_status status = late ? kiln_flush(self->set->device, err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK) {
        kiln_status resolved = kiln_collective_resolve(self->whole[row], err);
        status = late ? KILN_STATUS_OK : resolved;
    }
    if (status == KILN_STATUS_OK) {
        status = take_row(self, row, err);
    }
    if (status == KILN_STATUS_OK || !late) { // else it is asked for again
        kiln_release(self->whole[row]);
        self->whole[row] = NULL;
    }
    return status;
}

bool kilni_sharded_bring(void *member, size_t index)
{
    kilni_shard_member *self = member;
    const kilni_shard_layout *layout = &self->sharded->layout;
    size_t row = index < layout->count ? layout->places[index].row : layout->n_rows;
    return row == layout->n_rows || self->whole[row] == NULL ||
           bring_row(self, row, NULL) == KILN_STATUS_OK;
}

kiln_status kilni_sharded_bring_all(kilni_shard_member *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t r = self->sharded->layout.n_rows; r-- > 0;) {
        if (self->whole[r] != NULL) {
            kiln_status brought = bring_row(self, r, status == KILN_STATUS_OK ? err : NULL);
            status = status == KILN_STATUS_OK ? brought : status;
        }
    }
    return status;
}

/// The rows of the first parameters, which are used first, go first.
static kiln_status send_rows(kiln_sharded *sharded, kiln_tensor **own, kiln_error *err)
{
    const size_t count = sharded->count;
    kiln_tensor **whole = own + count;
    kiln_status status = KILN_STATUS_OK;
    for (size_t r = sharded->layout.n_rows; r-- > 0 && status == KILN_STATUS_OK;) {
        for (size_t m = 0; m < count; m++) {
            own[m] = kiln_params_tensor(sharded->members[m].own, r);
        }
        status = kiln_collective_all_gather(sharded->group, own, whole, err);
        for (size_t m = 0; m < count && status == KILN_STATUS_OK; m++) {
            sharded->members[m].whole[r] = whole[m];
        }
    }
    for (size_t i = 0; i < count * sharded->layout.n_rows && status != KILN_STATUS_OK; i++) {
        kiln_tensor **sent = &sharded->members[i % count].whole[i / count];
        kiln_release(*sent);
        *sent = NULL;
    }
    return status;
}

kiln_status kilni_sharded_update(kiln_sharded *sharded, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **places =
        kiln_alloc_array(sharded->env, 2 * sharded->count, sizeof(kiln_tensor *));
    if (places == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    for (size_t m = 0; m < sharded->count; m++) {
        KILN_TRY(out, status, step_member(&sharded->members[m], err));
    }
    KILN_TRY(out, status, send_rows(sharded, places, err));
    for (size_t m = 0; m < sharded->count && !sharded->late; m++) {
        KILN_TRY(out, status, kilni_sharded_bring_all(&sharded->members[m], err));
    }
out:
    kiln_free(sharded->env, (void *)places);
    return status;
}
