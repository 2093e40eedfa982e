// SPDX-License-Identifier: MIT OR Apache-2.0
// Optimisers that share their state out. Each member has an ordinary optimiser over a set of its
// own, in which every row's part is one parameter. Decides who may be a member, and of what a step
// is made: gradients (sharded_submit.c), what all must know (sharded_agree.c), the step itself and
// the new values (sharded_values.c).
#include "sharded_internal.h"

#include <stdio.h>

// ---- life ----

static kiln_status make_places(kiln_sharded *sharded, kilni_shard_member *self, kiln_error *err)
{
    const kilni_shard_layout *layout = &sharded->layout;
    self->gradients = kiln_alloc_array(sharded->env, layout->count + 1, sizeof(kiln_tensor *));
    self->came = kiln_alloc_array(sharded->env, layout->count + 1, sizeof(*self->came));
    self->parts = kiln_alloc_array(sharded->env, layout->n_rows + 1, sizeof(kiln_tensor *));
    self->whole = kiln_alloc_array(sharded->env, layout->n_rows + 1, sizeof(kiln_tensor *));
    return self->gradients != NULL && self->came != NULL && self->parts != NULL &&
                   self->whole != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an optimiser");
}

/// Adds the parts to the member's own set, as zeros: each step takes their values anew.
static kiln_status add_parts(const kiln_sharded *sharded, kilni_shard_member *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t r = 0; r < sharded->layout.n_rows && status == KILN_STATUS_OK; r++) {
        const kilni_shard_row *row = &sharded->layout.rows[r];
        char name[48];
        snprintf(name, sizeof(name), "%s.%zu", kiln_dtype_name(row->dtype), r);
        status = kiln_params_add(self->own, name, row->dtype, 1, &row->part, NULL, err);
    }
    return status;
}

static kiln_status open_member(kiln_sharded *sharded, size_t index, kiln_params *set,
                               const kiln_optimiser_options *options, kiln_error *err)
{
    kilni_shard_member *self = &sharded->members[index];
    kiln_status status = KILN_STATUS_OK;
    self->sharded = sharded;
    self->set = set;
    (void)kiln_collective_member(sharded->group, index, &self->rank);
    KILN_TRY(out, status, make_places(sharded, self, err));
    KILN_TRY(out, status, kiln_params_create(set->device, /*seed=*/0, &self->own, err));
    KILN_TRY(out, status, add_parts(sharded, self, err));
    KILN_TRY(out, status, kiln_optimiser_create(self->own, options, &self->optimiser, err));
    sharded->clip = self->optimiser->options.clip;
    self->optimiser->options.clip = 0; // of all members together
    if (sharded->late) {
        set->bring = kilni_sharded_bring;
        set->bringer = self;
    }
out:
    return status;
}

/// Every set has its member's device, and what the first one has.
static kiln_status check_members(const kiln_collective *group, kiln_params *const *sets,
                                 size_t n_sets, kiln_error *err)
{
    kiln_status status = kilni_params_check_alike(sets, n_sets, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (kiln_collective_member(group, n_sets - 1, NULL) == NULL ||
        kiln_collective_member(group, n_sets, NULL) != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu sets of parameters for another group", n_sets);
    }
    for (size_t i = 0; i < n_sets; i++) {
        const kiln_device *device = kiln_collective_member(group, i, NULL);
        for (size_t p = 0; p < sets[i]->count; p++) {
            const kiln_tensor *value = kiln_params_tensor(sets[i], p);
            const kiln_tensor *first = kiln_params_tensor(sets[0], p);
            if (kiln_tensor_device(value) != device ||
                kiln_tensor_dtype(value) != kiln_tensor_dtype(first) ||
                kiln_tensor_count(value) != kiln_tensor_count(first)) {
                return kiln_fail(err, INVALID_ARGUMENT,
                                 "parameter %.64s of set %zu is on another device, or is not as in "
                                 "set 0",
                                 sets[i]->all[p].name, i);
            }
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_options(const kiln_sharded_options *options, kiln_params *const *sets,
                                 size_t n_sets, kiln_error *err)
{
    if (options->struct_size < sizeof(*options)) {
        return kiln_fail(err, INVALID_ARGUMENT, "options of an optimiser without their size");
    }
    for (size_t i = 0; i < n_sets; i++) {
        if (sets[i]->bring != NULL) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "set %zu gets its values late from another optimiser", i);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_sharded_create(kiln_collective *group, kiln_params *const *sets, size_t n_sets,
                                const kiln_sharded_options *options, kiln_sharded **out_sharded,
                                kiln_error *err)
{
    const kiln_sharded_options none = KILN_SHARDED_OPTIONS_INIT;
    kiln_sharded *sharded = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (group == NULL || out_sharded == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "group and out_sharded must not be NULL");
    }
    *out_sharded = NULL;
    options = options != NULL ? options : &none;
    KILN_TRY(out, status, check_members(group, sets, n_sets, err));
    KILN_TRY(out, status, check_options(options, sets, n_sets, err));
    sharded = kiln_alloc(sets[0]->env, sizeof(*sharded) + n_sets * sizeof(sharded->members[0]));
    if (sharded == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an optimiser");
    }
    sharded->env = sets[0]->env;
    sharded->group = group;
    sharded->late = options->late != 0;
    KILN_TRY(out, status,
             kilni_shard_layout_init(sets[0], kiln_collective_ranks(group), options->bucket_bytes,
                                     &sharded->layout, err));
    sharded->missing =
        kiln_alloc_array(sharded->env, sharded->layout.n_rows + 1, sizeof(*sharded->missing));
    if (sharded->missing == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an optimiser");
        goto out;
    }
    for (; sharded->count < n_sets && status == KILN_STATUS_OK; sharded->count++) {
        status =
            open_member(sharded, sharded->count, sets[sharded->count], options->optimiser, err);
    }
    if (status == KILN_STATUS_OK) {
        kilni_sharded_forget(sharded);
        *out_sharded = sharded;
        sharded = NULL;
    }
out:
    kiln_sharded_destroy(sharded);
    return status;
}

static void close_member(const kiln_sharded *sharded, kilni_shard_member *self)
{
    if (self->set->bringer == self) {
        (void)kilni_sharded_bring_all(self, NULL); // the parameters stay
        self->set->bring = NULL;
        self->set->bringer = NULL;
    }
    for (size_t r = 0; r < sharded->layout.n_rows && self->whole != NULL; r++) {
        kiln_release(self->whole[r]);
    }
    kiln_optimiser_destroy(self->optimiser);
    kiln_params_destroy(self->own);
    kiln_free(sharded->env, (void *)self->gradients);
    kiln_free(sharded->env, self->came);
    kiln_free(sharded->env, (void *)self->parts);
    kiln_free(sharded->env, (void *)self->whole);
}

void kiln_sharded_destroy(kiln_sharded *sharded)
{
    if (sharded == NULL) {
        return;
    }
    kilni_sharded_forget(sharded);
    for (size_t i = 0; i < sharded->count; i++) {
        close_member(sharded, &sharded->members[i]);
    }
    kilni_shard_layout_fini(&sharded->layout);
    kiln_free(sharded->env, sharded->missing);
    kiln_free(sharded->env, sharded);
}

kiln_optimiser *kiln_sharded_optimiser(const kiln_sharded *sharded, size_t member)
{
    return sharded != NULL && member < sharded->count ? sharded->members[member].optimiser : NULL;
}

// ---- a step ----

/// The gradients that the caller brings now are what is missing, and nothing else.
static kiln_status check_gradients(const kiln_sharded *sharded, kiln_tensor *const *gradients,
                                   kiln_error *err)
{
    const size_t count = sharded->layout.count;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sharded->count * count && status == KILN_STATUS_OK; i++) {
        const kilni_shard_member *self = &sharded->members[i / count];
        kiln_tensor *gradient = gradients != NULL ? gradients[i] : NULL;
        if (gradient != NULL || !self->came[i % count]) {
            status = kilni_sharded_check(self, i % count, gradient, err);
        }
    }
    return status;
}

static kiln_status resolve_parts(const kiln_sharded *sharded, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t m = 0; m < sharded->count; m++) {
        for (size_t r = 0; r < sharded->layout.n_rows && status == KILN_STATUS_OK; r++) {
            status = kiln_collective_resolve(sharded->members[m].parts[r], err);
        }
    }
    return status;
}

/// With parts that are unscaled where the loss was scaled.
static kiln_status step_parts(kiln_sharded *sharded, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (sharded->clip != 0 && sharded->layout.n_rows > 0) {
        status = kilni_sharded_clip(sharded, err);
    }
    return status == KILN_STATUS_OK ? kilni_sharded_update(sharded, err) : status;
}

static kiln_status step_scaled_parts(kiln_sharded *sharded, kiln_error *err)
{
    bool finite = true;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_sharded_agree_on_finite(sharded, &finite, err));
    if (finite) {
        KILN_TRY(out, status, kilni_sharded_unscale(sharded, err));
        KILN_TRY(out, status, step_parts(sharded, err));
    }
    for (size_t m = 0; m < sharded->count; m++) {
        kilni_optimiser_adapt_scale(sharded->members[m].optimiser, finite);
    }
out:
    return status;
}

kiln_status kiln_sharded_step(kiln_sharded *sharded, kiln_tensor *const *gradients,
                              size_t n_gradients, kiln_error *err)
{
    const size_t count = sharded != NULL ? sharded->layout.count : 0;
    const size_t members = sharded != NULL ? sharded->count : 0;
    if (sharded == NULL || n_gradients != (gradients != NULL ? members * count : 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu gradients for %zu parameters of %zu members",
                         gradients != NULL ? n_gradients : 0, count, members);
    }
    kiln_status status = check_gradients(sharded, gradients, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < n_gradients; i++) {
        if (gradients[i] != NULL) {
            KILN_TRY(
                out, status,
                kilni_sharded_take(&sharded->members[i / count], i % count, gradients[i], err));
        }
    }
    KILN_TRY(out, status, resolve_parts(sharded, err));
    status = members > 0 && sharded->members[0].optimiser->scale != 0
                 ? step_scaled_parts(sharded, err)
                 : step_parts(sharded, err);
out:
    kilni_sharded_forget(sharded);
    return status;
}
