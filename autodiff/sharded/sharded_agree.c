// SPDX-License-Identifier: MIT OR Apache-2.0
// What the members that share an optimiser's state must know together before a step: the norm of
// all gradients, and whether they are finite. Each has its parts alone.
#include "sharded_internal.h"

/// One element of each member of this process, and what was made of those of all.
typedef struct shared_numbers {
    kiln_tensor **own;
    kiln_tensor **all;
    size_t count;
} shared_numbers;

static kiln_status numbers_init(const kiln_sharded *sharded, shared_numbers *out_numbers,
                                kiln_error *err)
{
    kiln_tensor **own = kiln_alloc_array(sharded->env, 2 * sharded->count, sizeof(kiln_tensor *));
    *out_numbers = (shared_numbers){.own = own, .count = sharded->count};
    if (own == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    out_numbers->all = own + sharded->count;
    return KILN_STATUS_OK;
}

static void numbers_fini(const kiln_sharded *sharded, shared_numbers *self)
{
    for (size_t i = 0; i < 2 * self->count && self->own != NULL; i++) {
        kiln_release(self->own[i]);
    }
    kiln_free(sharded->env, (void *)self->own);
}

/// The sum or the largest of all members' numbers, on each of this process.
static kiln_status combine(const kiln_sharded *sharded, const shared_numbers *numbers,
                           const char *op, kiln_error *err)
{
    kiln_status status =
        kiln_collective_all_reduce(sharded->group, numbers->own, op, numbers->all, err);
    for (size_t i = 0; i < numbers->count && status == KILN_STATUS_OK; i++) {
        status = kiln_collective_resolve(numbers->all[i], err);
    }
    return status;
}

kiln_status kilni_sharded_agree_on_finite(const kiln_sharded *sharded, bool *out_finite,
                                          kiln_error *err)
{
    shared_numbers numbers;
    float bad = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, numbers_init(sharded, &numbers, err));
    for (size_t m = 0; m < sharded->count; m++) {
        const kilni_shard_member *self = &sharded->members[m];
        bool finite = true;
        KILN_TRY(out, status,
                 kilni_optimiser_check_finite(self->optimiser, self->parts, &finite, err));
        const float found = finite ? 0 : 1;
        KILN_TRY(out, status,
                 kiln_tensor_create(self->set->device, KILN_DTYPE_F32, 0, NULL, &found,
                                    &numbers.own[m], err));
    }
    KILN_TRY(out, status, combine(sharded, &numbers, "max", err));
    KILN_TRY(out, status, kiln_read(numbers.all[0], &bad, sizeof(bad), err));
    *out_finite = bad == 0;
out:
    numbers_fini(sharded, &numbers);
    return status;
}

/// Multiplies a member's parts by a factor of one element. They are replaced.
static kiln_status scale_parts(const kilni_shard_member *self, kiln_tensor *factor, kiln_error *err)
{
    const kilni_shard_layout *layout = &self->sharded->layout;
    kiln_status status = KILN_STATUS_OK;
    for (size_t r = 0; r < layout->n_rows && status == KILN_STATUS_OK; r++) {
        kiln_tensor *own = NULL;
        kiln_tensor *scaled = NULL;
        status = kiln_cast(factor, layout->rows[r].dtype, &own, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_mul(self->parts[r], own, &scaled, err);
        }
        kiln_release(own);
        if (status == KILN_STATUS_OK) {
            kiln_release(self->parts[r]);
            self->parts[r] = scaled;
        }
    }
    return status;
}

/// The norm is that of the gradients of all parameters: its squares are summed over the members.
kiln_status kilni_sharded_clip(const kiln_sharded *sharded, kiln_error *err)
{
    shared_numbers squares;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, numbers_init(sharded, &squares, err));
    for (size_t m = 0; m < sharded->count; m++) {
        KILN_TRY(out, status,
                 kilni_optimiser_squares_record(sharded->members[m].parts, sharded->layout.n_rows,
                                                &squares.own[m], err));
    }
    KILN_TRY(out, status, combine(sharded, &squares, "sum", err));
    for (size_t m = 0; m < sharded->count && status == KILN_STATUS_OK; m++) {
        const kilni_shard_member *self = &sharded->members[m];
        kiln_tensor *factor = NULL;
        status = kilni_optimiser_clip_factor(self->set->device, squares.all[m], sharded->clip,
                                             &factor, err);
        if (status == KILN_STATUS_OK) {
            status = scale_parts(self, factor, err);
        }
        kiln_release(factor);
    }
out:
    numbers_fini(sharded, &squares);
    return status;
}

kiln_status kilni_sharded_unscale(const kiln_sharded *sharded, kiln_error *err)
{
    const size_t n_rows = sharded->layout.n_rows;
    kiln_tensor **scaled = kiln_alloc_array(sharded->env, n_rows + 1, sizeof(kiln_tensor *));
    kiln_status status = scaled != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    for (size_t m = 0; m < sharded->count && status == KILN_STATUS_OK; m++) {
        const kilni_shard_member *self = &sharded->members[m];
        status = kilni_optimiser_unscale(self->optimiser, self->parts, scaled, err);
        for (size_t r = 0; r < n_rows; r++) {
            kiln_release(status == KILN_STATUS_OK ? self->parts[r] : scaled[r]);
            self->parts[r] = status == KILN_STATUS_OK ? scaled[r] : self->parts[r];
            scaled[r] = NULL;
        }
    }
    kiln_free(sharded->env, (void *)scaled);
    return status;
}
