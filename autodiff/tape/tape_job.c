// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients that are handed over as they come: to a job of gradient synchronisation, which averages
// them, or to a function. Decides when a leaf's gradient is whole: when backward has gone through
// the first entry that reads it. Then it goes, so that its reduction runs beside what is left of
// backward.
#include "tape_internal.h"

#include <stdlib.h>

kiln_status kiln_tape_join(kiln_tape *tape, kiln_gradsync *job, uint32_t member, kiln_error *err)
{
    if (tape == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tape must not be NULL");
    }
    kiln_gradsync *before = tape->job;
    tape->job = kiln_gradsync_retain(job);
    tape->member = member;
    tape->take = job != NULL ? NULL : tape->take;
    kiln_gradsync_release(before);
    return KILN_STATUS_OK;
}

kiln_status kiln_tape_hand(kiln_tape *tape, kiln_leaf_fn take, void *user, kiln_error *err)
{
    if (tape == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tape must not be NULL");
    }
    if (take != NULL) {
        kiln_gradsync_release(tape->job);
        tape->job = NULL;
    }
    tape->take = take;
    tape->taker = user;
    return KILN_STATUS_OK;
}

static kiln_param_id id_of(const tape_variable *variable)
{
    return variable->leaf ? kiln_tensor_param(variable->like) : 0;
}

/// Those that are read last become whole first.
typedef struct due_leaf {
    size_t first_use;
    uint32_t variable;
} due_leaf;

static int compare_due(const void *a, const void *b)
{
    const due_leaf *left = a;
    const due_leaf *right = b;
    if (left->first_use != right->first_use) {
        return left->first_use > right->first_use ? -1 : 1;
    }
    return left->variable < right->variable ? -1 : 1;
}

static size_t gather(const kiln_tape *tape, due_leaf *out_leaves)
{
    size_t count = 0;
    for (size_t i = 1; i < tape->n_variables; i++) {
        if (id_of(&tape->variables[i]) != 0) {
            out_leaves[count++] = (due_leaf){tape->variables[i].first_use, (uint32_t)i};
        }
    }
    qsort(out_leaves, count, sizeof(*out_leaves), compare_due);
    return count;
}

kiln_status kilni_tape_job_begin(kiln_tape *tape, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (tape->job == NULL && tape->take == NULL) {
        return status;
    }
    size_t most = tape->n_variables + 1;
    due_leaf *leaves = kiln_alloc_array(tape->env, most, sizeof(*leaves));
    kiln_param_id *ids = kiln_alloc_array(tape->env, most, sizeof(*ids));
    tape->due = kiln_alloc_array(tape->env, most, sizeof(*tape->due));
    if (leaves == NULL || ids == NULL || tape->due == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for gradients");
        goto out;
    }
    size_t count = gather(tape, leaves);
    for (size_t i = 0; i < count; i++) {
        tape->due[i] = leaves[i].variable;
        ids[i] = id_of(&tape->variables[leaves[i].variable]);
    }
    if (tape->job != NULL) {
        KILN_TRY(out, status, kiln_gradsync_register(tape->job, tape->member, ids, count, err));
    }
    tape->n_due = count;
out:
    kiln_free(tape->env, leaves);
    kiln_free(tape->env, ids);
    return status;
}

/// What was found for the leaf, on this tape alone and since the job was told last.
static kiln_status found_for(const kiln_tape *tape, const tape_variable *leaf,
                             kiln_tensor **out_gradient, kiln_error *err)
{
    if (leaf->sum != NULL && leaf->gradient != NULL) {
        return kiln_add(leaf->sum, leaf->gradient, out_gradient, err);
    }
    if (leaf->sum == NULL && leaf->gradient == NULL) {
        return kiln_full(tape->device, kiln_tensor_dims(leaf->like), kiln_tensor_rank(leaf->like),
                         kiln_tensor_dtype(leaf->like), kiln_f64(0), out_gradient, err);
    }
    *out_gradient = kiln_retain(leaf->sum != NULL ? leaf->sum : leaf->gradient);
    return KILN_STATUS_OK;
}

static kiln_status give(kiln_tape *tape, const tape_variable *leaf, kiln_tensor *gradient,
                        kiln_error *err)
{
    return tape->take != NULL ? tape->take(tape->taker, leaf->like, gradient, err)
                              : kiln_gradsync_submit(tape->job, tape->member, gradient, err);
}

/// Who takes it gets a view: the tensor itself may be another leaf's gradient, too, or the
/// caller's.
static kiln_status hand(kiln_tape *tape, tape_variable *leaf, kiln_error *err)
{
    kiln_tensor *found = NULL;
    kiln_tensor *named = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, found_for(tape, leaf, &found, err));
    KILN_TRY(out, status,
             kiln_reshape(found, kiln_tensor_dims(leaf->like), kiln_tensor_rank(leaf->like), &named,
                          err));
    kiln_tensor_set_param(named, id_of(leaf));
    KILN_TRY(out, status, give(tape, leaf, named, err));
    leaf->handed = true;
    kiln_release(leaf->sum);
    leaf->sum = NULL;
    if (!leaf->made) { // else the entry that made it needs its gradient
        kiln_release(leaf->gradient);
        leaf->gradient = NULL;
    }
out:
    kiln_release(found);
    kiln_release(named);
    return status;
}

kiln_status kilni_tape_job_hand(kiln_tape *tape, size_t left, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (tape->next_due < tape->n_due && status == KILN_STATUS_OK) {
        tape_variable *leaf = &tape->variables[tape->due[tape->next_due]];
        if (leaf->first_use <= left && left > 0) {
            break;
        }
        status = hand(tape, leaf, err);
        tape->next_due++;
    }
    return status;
}

static kiln_status take(const kiln_tape *tape, tape_variable *leaf, kiln_error *err)
{
    kiln_tensor *found = NULL;
    kiln_tensor *total = NULL;
    kiln_status status = kiln_gradsync_gradient(tape->job, tape->member, id_of(leaf), &found, err);
    if (status == KILN_STATUS_OK && leaf->shared != NULL) {
        status = kiln_add(leaf->shared, found, &total, err);
        kiln_release(found);
        found = total;
    }
    if (status == KILN_STATUS_OK) {
        kiln_release(leaf->shared);
        leaf->shared = found;
    }
    return status;
}

kiln_status kilni_tape_job_sync(kiln_tape *tape, kiln_error *err)
{
    if (tape->job == NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_gradsync_sync(tape->job, tape->member, err);
    for (size_t i = 0; i < tape->n_due && status == KILN_STATUS_OK; i++) {
        status = take(tape, &tape->variables[tape->due[i]], err);
    }
    return status;
}

void kilni_tape_job_end(kiln_tape *tape)
{
    for (size_t i = 0; i < tape->n_due; i++) {
        tape->variables[tape->due[i]].handed = false;
    }
    kiln_free(tape->env, tape->due);
    tape->due = NULL;
    tape->n_due = tape->next_due = 0;
}
