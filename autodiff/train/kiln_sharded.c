// SPDX-License-Identifier: MIT OR Apache-2.0
// Optimisers that share their state out. Each member has an ordinary optimiser over a set of its
// own, in which every row's part is one parameter; around its step stand the collective calls.
// Decides what all members must know together: the mean, the norm of all gradients, and whether
// they are finite. How rows are cut is shard_rows.c's.
#include "sharded_internal.h"

typedef struct shard_member {
    kiln_params *set; ///< the caller's
    kiln_params *own; ///< row r's part is parameter r
    kiln_optimiser *optimiser; ///< of `own`
    uint32_t rank;
} shard_member;

struct kiln_sharded {
    const kiln_env *env;
    kiln_collective *group;
    kilni_shard_layout layout;
    double clip;
    size_t count; ///< of members in this process
    shard_member members[];
};

/// Of one step: a place for each row of each member, row by row.
typedef struct step_tensors {
    kiln_tensor **all;
    size_t count;
} step_tensors;

// ---- life ----

/// Adds the parts to the member's own set, as zeros: each step takes their values anew.
static kiln_status open_member(kiln_sharded *sharded, size_t index, kiln_params *set,
                               const kiln_optimiser_options *options, kiln_error *err)
{
    shard_member *self = &sharded->members[index];
    kiln_status status = kiln_params_create(set->device, /*seed=*/0, &self->own, err);
    self->set = set;
    (void)kiln_collective_member(sharded->group, index, &self->rank);
    for (size_t r = 0; r < sharded->layout.n_rows && status == KILN_STATUS_OK; r++) {
        const kilni_shard_row *row = &sharded->layout.rows[r];
        status = kiln_params_add(self->own, kiln_dtype_name(row->dtype), row->dtype, 1, &row->part,
                                 NULL, err);
    }
    return status == KILN_STATUS_OK
               ? kiln_optimiser_create(self->own, options, &self->optimiser, err)
               : status;
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
            const kiln_tensor *value = sets[i]->all[p].value;
            const kiln_tensor *first = sets[0]->all[p].value;
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

kiln_status kiln_sharded_create(kiln_collective *group, kiln_params *const *sets, size_t n_sets,
                                const kiln_optimiser_options *options, kiln_sharded **out_sharded,
                                kiln_error *err)
{
    if (group == NULL || out_sharded == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "group and out_sharded must not be NULL");
    }
    *out_sharded = NULL;
    kiln_status status = check_members(group, sets, n_sets, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_sharded *sharded =
        kiln_alloc(sets[0]->env, sizeof(*sharded) + n_sets * sizeof(sharded->members[0]));
    if (sharded == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an optimiser");
    }
    sharded->env = sets[0]->env;
    sharded->group = group;
    sharded->count = n_sets;
    KILN_TRY(out, status,
             kilni_shard_layout_init(sets[0], kiln_collective_ranks(group), &sharded->layout, err));
    for (size_t i = 0; i < n_sets; i++) {
        KILN_TRY(out, status, open_member(sharded, i, sets[i], options, err));
        sharded->clip = sharded->members[i].optimiser->options.clip;
        sharded->members[i].optimiser->options.clip = 0; // of all members together
    }
    *out_sharded = sharded;
    sharded = NULL;
out:
    kiln_sharded_destroy(sharded);
    return status;
}

void kiln_sharded_destroy(kiln_sharded *sharded)
{
    if (sharded == NULL) {
        return;
    }
    for (size_t i = 0; i < sharded->count; i++) {
        kiln_optimiser_destroy(sharded->members[i].optimiser);
        kiln_params_destroy(sharded->members[i].own);
    }
    kilni_shard_layout_fini(&sharded->layout);
    kiln_free(sharded->env, sharded);
}

kiln_optimiser *kiln_sharded_optimiser(const kiln_sharded *sharded, size_t member)
{
    return sharded != NULL && member < sharded->count ? sharded->members[member].optimiser : NULL;
}

// ---- tensors of a step ----

static kiln_status tensors_init(const kiln_sharded *sharded, size_t count,
                                step_tensors *out_tensors, kiln_error *err)
{
    *out_tensors = (step_tensors){
        .all = kiln_alloc_array(sharded->env, count + 1, sizeof(kiln_tensor *)), .count = count};
    return out_tensors->all != NULL ? KILN_STATUS_OK
                                    : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
}

static void tensors_fini(const kiln_sharded *sharded, step_tensors *self)
{
    for (size_t i = 0; i < self->count && self->all != NULL; i++) {
        kiln_release(self->all[i]);
    }
    kiln_free(sharded->env, (void *)self->all);
}

static kiln_status resolve_tensors(const step_tensors *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < self->count && status == KILN_STATUS_OK; i++) {
        status = kiln_collective_resolve(self->all[i], err);
    }
    return status;
}

/// A member's own, by rows.
static void rows_of(const kiln_sharded *sharded, const step_tensors *self, size_t member,
                    kiln_tensor *out_rows[KILNI_FLOATS])
{
    for (size_t r = 0; r < sharded->layout.n_rows; r++) {
        out_rows[r] = self->all[r * sharded->count + member];
    }
}

// ---- what all members must know ----

/// Each member gets its part of the mean of all gradients.
static kiln_status share_gradients(const kiln_sharded *sharded, kiln_tensor *const *gradients,
                                   step_tensors *out_parts, kiln_error *err)
{
    const kilni_shard_layout *layout = &sharded->layout;
    kiln_status status = KILN_STATUS_OK;
    for (size_t r = 0; r < layout->n_rows && status == KILN_STATUS_OK; r++) {
        step_tensors whole;
        status = tensors_init(sharded, sharded->count, &whole, err);
        for (size_t m = 0; m < sharded->count && status == KILN_STATUS_OK; m++) {
            status = kilni_shard_cut(layout, sharded->members[m].set->device,
                                     &gradients[m * layout->count], r, 0,
                                     layout->rows[r].part * layout->parts, &whole.all[m], err);
        }
        if (status == KILN_STATUS_OK) {
            status = kiln_collective_reduce_scatter(sharded->group, whole.all, "mean",
                                                    &out_parts->all[r * sharded->count], err);
        }
        tensors_fini(sharded, &whole);
    }
    return status == KILN_STATUS_OK ? resolve_tensors(out_parts, err) : status;
}

/// The sum or the largest of one element of each member, on each of this process.
static kiln_status combine(const kiln_sharded *sharded, const step_tensors *own, const char *op,
                           step_tensors *out_combined, kiln_error *err)
{
    kiln_status status =
        kiln_collective_all_reduce(sharded->group, own->all, op, out_combined->all, err);
    return status == KILN_STATUS_OK ? resolve_tensors(out_combined, err) : status;
}

/// Whether the parts of all members in all processes are finite. Waits.
static kiln_status agree_on_finite(const kiln_sharded *sharded, const step_tensors *parts,
                                   bool *out_finite, kiln_error *err)
{
    step_tensors own = {NULL, 0};
    step_tensors worst = {NULL, 0};
    float bad = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, tensors_init(sharded, sharded->count, &own, err));
    KILN_TRY(out, status, tensors_init(sharded, sharded->count, &worst, err));
    for (size_t m = 0; m < sharded->count; m++) {
        kiln_tensor *rows[KILNI_FLOATS] = {NULL};
        bool finite = true;
        rows_of(sharded, parts, m, rows);
        KILN_TRY(out, status,
                 kilni_optimiser_check_finite(sharded->members[m].optimiser, rows, &finite, err));
        const float found = finite ? 0 : 1;
        KILN_TRY(out, status,
                 kiln_tensor_create(sharded->members[m].set->device, KILN_DTYPE_F32, 0, NULL,
                                    &found, &own.all[m], err));
    }
    KILN_TRY(out, status, combine(sharded, &own, "max", &worst, err));
    KILN_TRY(out, status, kiln_read(worst.all[0], &bad, sizeof(bad), err));
    *out_finite = bad == 0;
out:
    tensors_fini(sharded, &own);
    tensors_fini(sharded, &worst);
    return status;
}

/// Multiplies a member's parts by a factor of one element. They are replaced.
static kiln_status scale_rows(const kiln_sharded *sharded, step_tensors *parts, size_t member,
                              kiln_tensor *factor, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t r = 0; r < sharded->layout.n_rows && status == KILN_STATUS_OK; r++) {
        kiln_tensor **part = &parts->all[r * sharded->count + member];
        kiln_tensor *own = NULL;
        kiln_tensor *scaled = NULL;
        status = kiln_cast(factor, sharded->layout.rows[r].dtype, &own, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_mul(*part, own, &scaled, err);
        }
        kiln_release(own);
        if (status == KILN_STATUS_OK) {
            kiln_release(*part);
            *part = scaled;
        }
    }
    return status;
}

/// The norm is that of the gradients of all parameters: its squares are summed over the members.
static kiln_status clip_parts(const kiln_sharded *sharded, step_tensors *parts, kiln_error *err)
{
    step_tensors squares = {NULL, 0};
    step_tensors sums = {NULL, 0};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, tensors_init(sharded, sharded->count, &squares, err));
    KILN_TRY(out, status, tensors_init(sharded, sharded->count, &sums, err));
    for (size_t m = 0; m < sharded->count; m++) {
        kiln_tensor *rows[KILNI_FLOATS] = {NULL};
        rows_of(sharded, parts, m, rows);
        KILN_TRY(
            out, status,
            kilni_optimiser_squares_record(rows, sharded->layout.n_rows, &squares.all[m], err));
    }
    KILN_TRY(out, status, combine(sharded, &squares, "sum", &sums, err));
    for (size_t m = 0; m < sharded->count; m++) {
        kiln_tensor *factor = NULL;
        KILN_TRY(out, status,
                 kilni_optimiser_clip_factor(sharded->members[m].set->device, sums.all[m],
                                             sharded->clip, &factor, err));
        status = scale_rows(sharded, parts, m, factor, err);
        kiln_release(factor);
        if (status != KILN_STATUS_OK) {
            goto out;
        }
    }
out:
    tensors_fini(sharded, &squares);
    tensors_fini(sharded, &sums);
    return status;
}

// ---- a step ----

/// The member's part of what its set has now, and the step of it.
static kiln_status step_member(const kiln_sharded *sharded, size_t index, const step_tensors *parts,
                               kiln_error *err)
{
    const shard_member *self = &sharded->members[index];
    const kilni_shard_layout *layout = &sharded->layout;
    kiln_tensor *rows[KILNI_FLOATS] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **values =
        kiln_alloc_array(sharded->env, layout->count + 1, sizeof(kiln_tensor *)); // the set's
    if (values == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    for (size_t p = 0; p < layout->count; p++) {
        values[p] = self->set->all[p].value;
    }
    for (size_t r = 0; r < layout->n_rows && status == KILN_STATUS_OK; r++) {
        kiln_tensor *value = NULL;
        int64_t part = layout->rows[r].part;
        status = kilni_shard_cut(layout, self->set->device, values, r, part * self->rank, part,
                                 &value, err);
        if (status == KILN_STATUS_OK) {
            kilni_params_replace(self->own, r, value);
        }
    }
    rows_of(sharded, parts, index, rows);
    if (status == KILN_STATUS_OK) {
        status = kilni_optimiser_step_as_is(self->optimiser, rows, err);
    }
    kiln_free(sharded->env, (void *)values);
    return status;
}

/// All parameters of a member from its whole rows; they are replaced when all are there.
static kiln_status take_values(const kiln_sharded *sharded, size_t index, const step_tensors *whole,
                               kiln_error *err)
{
    const shard_member *self = &sharded->members[index];
    const kilni_shard_layout *layout = &sharded->layout;
    kiln_tensor *rows[KILNI_FLOATS] = {NULL};
    step_tensors values;
    kiln_status status = tensors_init(sharded, layout->count, &values, err);
    rows_of(sharded, whole, index, rows);
    for (size_t p = 0; p < layout->count && status == KILN_STATUS_OK; p++) {
        status = kilni_shard_take(layout, rows[layout->places[p].row], p, self->set->all[p].value,
                                  &values.all[p], err);
    }
    for (size_t p = 0; p < layout->count && status == KILN_STATUS_OK; p++) {
        kilni_params_replace(self->set, p, values.all[p]);
        values.all[p] = NULL;
    }
    tensors_fini(sharded, &values);
    return status;
}

/// Every member gets all parts.
static kiln_status spread_values(const kiln_sharded *sharded, kiln_error *err)
{
    const size_t count = sharded->count;
    step_tensors whole = {NULL, 0};
    kiln_tensor **own = kiln_alloc_array(sharded->env, count, sizeof(kiln_tensor *));
    kiln_status status = own != NULL
                             ? tensors_init(sharded, sharded->layout.n_rows * count, &whole, err)
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    for (size_t r = 0; r < sharded->layout.n_rows && status == KILN_STATUS_OK; r++) {
        for (size_t m = 0; m < count; m++) {
            own[m] = kiln_params_tensor(sharded->members[m].own, r);
        }
        status = kiln_collective_all_gather(sharded->group, own, &whole.all[r * count], err);
    }
    if (status == KILN_STATUS_OK) {
        status = resolve_tensors(&whole, err);
    }
    for (size_t m = 0; m < count && status == KILN_STATUS_OK; m++) {
        status = take_values(sharded, m, &whole, err);
    }
    tensors_fini(sharded, &whole);
    kiln_free(sharded->env, (void *)own);
    return status;
}

/// Divides the parts by the scale of the loss.
static kiln_status unscale_parts(const kiln_sharded *sharded, step_tensors *parts, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t m = 0; m < sharded->count && status == KILN_STATUS_OK; m++) {
        kiln_tensor *rows[KILNI_FLOATS] = {NULL};
        kiln_tensor *own[KILNI_FLOATS] = {NULL};
        rows_of(sharded, parts, m, rows);
        status = kilni_optimiser_unscale(sharded->members[m].optimiser, rows, own, err);
        for (size_t r = 0; r < sharded->layout.n_rows; r++) {
            kiln_tensor **part = &parts->all[r * sharded->count + m];
            kiln_release(status == KILN_STATUS_OK ? *part : own[r]);
            *part = status == KILN_STATUS_OK ? own[r] : *part;
        }
    }
    return status;
}

/// With parts that are unscaled where the loss was scaled.
static kiln_status step_parts(const kiln_sharded *sharded, step_tensors *parts, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (sharded->clip != 0 && sharded->layout.n_rows > 0) {
        KILN_TRY(out, status, clip_parts(sharded, parts, err));
    }
    for (size_t m = 0; m < sharded->count; m++) {
        KILN_TRY(out, status, step_member(sharded, m, parts, err));
    }
    KILN_TRY(out, status, spread_values(sharded, err));
out:
    return status;
}

static kiln_status step_scaled_parts(const kiln_sharded *sharded, step_tensors *parts,
                                     kiln_error *err)
{
    bool finite = true;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, agree_on_finite(sharded, parts, &finite, err));
    if (finite) {
        KILN_TRY(out, status, unscale_parts(sharded, parts, err));
        KILN_TRY(out, status, step_parts(sharded, parts, err));
    }
    for (size_t m = 0; m < sharded->count; m++) {
        kilni_optimiser_adapt_scale(sharded->members[m].optimiser, finite);
    }
out:
    return status;
}

static kiln_status check_gradients(const kiln_sharded *sharded, kiln_tensor *const *gradients,
                                   kiln_error *err)
{
    const size_t count = sharded->layout.count;
    for (size_t i = 0; i < sharded->count * count; i++) {
        const shard_member *self = &sharded->members[i / count];
        const kiln_tensor *value = self->set->all[i % count].value;
        if (gradients[i] == NULL || kiln_tensor_dtype(gradients[i]) != kiln_tensor_dtype(value) ||
            kiln_tensor_count(gradients[i]) != kiln_tensor_count(value) ||
            kiln_tensor_device(gradients[i]) != kiln_tensor_device(value)) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "member %zu: parameter %.64s has no gradient of its dtype, length and "
                             "device",
                             i / count, self->set->all[i % count].name);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_sharded_step(kiln_sharded *sharded, kiln_tensor *const *gradients,
                              size_t n_gradients, kiln_error *err)
{
    step_tensors parts;
    if (sharded == NULL || gradients == NULL ||
        n_gradients != sharded->count * sharded->layout.count) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu gradients for %zu parameters of %zu members",
                         gradients != NULL ? n_gradients : 0,
                         sharded != NULL ? sharded->layout.count : 0,
                         sharded != NULL ? sharded->count : 0);
    }
    kiln_status status = check_gradients(sharded, gradients, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = tensors_init(sharded, sharded->layout.n_rows * sharded->count, &parts, err);
    if (status == KILN_STATUS_OK) {
        status = share_gradients(sharded, gradients, &parts, err);
    }
    if (status == KILN_STATUS_OK) {
        status = sharded->members[0].optimiser->scale != 0 ? step_scaled_parts(sharded, &parts, err)
                                                           : step_parts(sharded, &parts, err);
    }
    tensors_fini(sharded, &parts);
    return status;
}
