// SPDX-License-Identifier: MIT OR Apache-2.0
// The public calls: tapes, what they track, gradients. Decides what is refused in words. What is
// kept of operations is tape_record.c's, going backwards tape_backward.c's.
#include "tape_internal.h"

#include <string.h>

kiln_status kiln_tape_create(kiln_device *device, kiln_tape **out_tape, kiln_error *err)
{
    if (out_tape == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tape must not be NULL");
    }
    *out_tape = NULL;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    kiln_tape *tape = kiln_alloc(env, sizeof(*tape));
    if (tape == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tape");
    }
    *tape = (kiln_tape){.device = kiln_device_retain(device), .env = env};
    tape->observer.recorded = kilni_tape_recorded;
    tape->observer.user = tape;
    kilni_observe(device, &tape->observer);
    *out_tape = tape;
    return KILN_STATUS_OK;
}

void kiln_tape_destroy(kiln_tape *tape)
{
    if (tape == NULL) {
        return;
    }
    kiln_device *device = tape->device;
    const kiln_env *env = tape->env;
    kilni_unobserve(device, &tape->observer);
    kilni_tape_cut(tape, 0);
    kilni_tape_clear(tape);
    for (size_t i = 0; i < tape->n_variables; i++) {
        kiln_release(tape->variables[i].sum);
        kiln_release(tape->variables[i].shared);
        kiln_release(tape->variables[i].like);
    }
    kiln_gradsync_release(tape->job);
    kiln_free(env, tape->entries);
    kiln_free(env, tape->variables);
    kiln_free(env, tape);
    kiln_device_release(device);
}

// ---- what is tracked ----

kiln_status kiln_tape_track(kiln_tape *tape, kiln_tensor *tensor, kiln_error *err)
{
    uint32_t variable = 0;
    if (tape == NULL || tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tape and tensor must not be NULL");
    }
    if (!kilni_tape_is_float(tensor)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a tensor of %s has no gradient: only floats have; cast it first",
                         kiln_dtype_name(kiln_tensor_dtype(tensor)));
    }
    if (strcmp(kiln_device_address(kiln_tensor_device(tensor)),
               kiln_device_address(tape->device)) != 0) {
        return kiln_fail(err, FAILED_PRECONDITION, "the tensor is on %s, the tape on %s",
                         kiln_device_address(kiln_tensor_device(tensor)),
                         kiln_device_address(tape->device));
    }
    if (kilni_tape_variable(tape, tensor) == 0 && kilni_is_observed(tensor)) {
        return kiln_fail(err, INVALID_ARGUMENT, "another tape tracks the tensor; detach it");
    }
    kiln_status status = kilni_tape_number(tape, tensor, &variable, err);
    if (status == KILN_STATUS_OK && !tape->variables[variable].leaf) {
        tape->variables[variable].leaf = true;
        tape->variables[variable].like = kiln_retain(tensor);
    }
    return status;
}

bool kiln_tape_tracks(const kiln_tape *tape, const kiln_tensor *tensor)
{
    return tape != NULL && tensor != NULL && kilni_tape_variable(tape, tensor) != 0;
}

void kiln_tape_pause(kiln_tape *tape)
{
    if (tape == NULL) {
        return;
    }
    tape->observer.paused++;
}

void kiln_tape_resume(kiln_tape *tape)
{
    if (tape == NULL) {
        return;
    }
    tape->observer.paused -= tape->observer.paused > 0 ? 1 : 0;
}

kiln_status kiln_detach(kiln_tensor *tensor, kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor must not be NULL");
    }
    return kilni_unobserved(tensor, out_tensor, err);
}

// ---- gradients ----

static kiln_status check(const kiln_tape *tape, const kiln_tensor *loss, kiln_error *err)
{
    if (tape == NULL || loss == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tape and loss must not be NULL");
    }
    return KILN_STATUS_OK;
}

/// What has arrived at leaves is added to what they had; of some the job has it.
static kiln_status add_up(kiln_tape *tape, kiln_error *err)
{
    for (size_t i = 0; i < tape->n_variables; i++) {
        tape_variable *variable = &tape->variables[i];
        if (!variable->leaf || variable->gradient == NULL || variable->handed) {
            continue;
        }
        if (variable->sum == NULL) {
            variable->sum = variable->gradient;
            variable->gradient = NULL;
            continue;
        }
        kiln_tensor *sum = NULL;
        kiln_status status = kiln_add(variable->sum, variable->gradient, &sum, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kiln_release(variable->sum);
        variable->sum = sum;
    }
    return KILN_STATUS_OK;
}

/// Goes through all entries, in turns: so the gradients of one parameter come from all tapes at
/// about the same point of what their devices do, and travel beside the rest.
static kiln_status walk_together(kiln_tape *const *tapes, size_t n_tapes, kiln_error *err)
{
    size_t most = 0;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_tapes; i++) {
        most = tapes[i]->n_entries > most ? tapes[i]->n_entries : most;
    }
    for (size_t left = most; left > 0; left--) {
        for (size_t i = 0; i < n_tapes && status == KILN_STATUS_OK; i++) {
            status = tapes[i]->n_entries == left ? kilni_tape_back_one(tapes[i], err) : status;
        }
    }
    for (size_t i = 0; i < n_tapes && status == KILN_STATUS_OK; i++) {
        status = kilni_tape_job_hand(tapes[i], 0, err); // what no entry reads
        status = status == KILN_STATUS_OK ? add_up(tapes[i], err) : status;
    }
    return status;
}

/// Backward without the wait for other members.
static kiln_status go_back(kiln_tape *const *tapes, kiln_tensor *const *losses, size_t n_tapes,
                           kiln_tensor *seed, kiln_error *err)
{
    size_t begun = 0;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_tapes; i++) {
        kiln_tape_pause(tapes[i]);
    }
    while (begun < n_tapes && status == KILN_STATUS_OK) {
        status = kilni_tape_back_begin(tapes[begun], losses[begun], seed, err);
        begun += status == KILN_STATUS_OK;
    }
    if (status == KILN_STATUS_OK) {
        status = walk_together(tapes, n_tapes, err);
    }
    for (size_t i = 0; i < n_tapes; i++) {
        if (i < begun) {
            kilni_tape_back_end(tapes[i]);
        }
        kiln_tape_resume(tapes[i]);
        kilni_tape_clear(tapes[i]);
    }
    return status;
}

static kiln_status await_others(kiln_tape *tape, kiln_error *err)
{
    kiln_tape_pause(tape);
    kiln_status status = kilni_tape_job_sync(tape, err);
    kiln_tape_resume(tape);
    return status;
}

static kiln_status go_back_and_wait(kiln_tape *const *tapes, kiln_tensor *const *losses,
                                    size_t n_tapes, kiln_tensor *seed, kiln_error *err)
{
    kiln_status status = go_back(tapes, losses, n_tapes, seed, err);
    for (size_t i = 0; i < n_tapes && status == KILN_STATUS_OK; i++) {
        status = await_others(tapes[i], err);
    }
    for (size_t i = 0; i < n_tapes; i++) {
        kilni_tape_job_end(tapes[i]);
    }
    return status;
}

kiln_status kiln_backward(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed, kiln_error *err)
{
    kiln_status status = check(tape, loss, err);
    return status == KILN_STATUS_OK ? go_back_and_wait(&tape, &loss, 1, seed, err) : status;
}

kiln_status kiln_backward_all(kiln_tape *const *tapes, kiln_tensor *const *losses, size_t n_tapes,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (tapes == NULL || losses == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tapes and losses must not be NULL");
    }
    for (size_t i = 0; i < n_tapes && status == KILN_STATUS_OK; i++) {
        status = check(tapes[i], losses[i], err);
        for (size_t k = 0; k < i && status == KILN_STATUS_OK; k++) {
            status = tapes[k] != tapes[i]
                         ? status
                         : kiln_fail(err, INVALID_ARGUMENT, "tapes %zu and %zu are the same", k, i);
        }
    }
    return status == KILN_STATUS_OK ? go_back_and_wait(tapes, losses, n_tapes, NULL, err) : status;
}

static kiln_status zeros_like(kiln_tape *tape, const kiln_tensor *tensor, kiln_tensor **out_tensor,
                              kiln_error *err)
{
    return kiln_full(tape->device, kiln_tensor_dims(tensor), kiln_tensor_rank(tensor),
                     kiln_tensor_dtype(tensor), kiln_f64(0), out_tensor, err);
}

kiln_status kiln_gradient(kiln_tape *tape, kiln_tensor *tensor, kiln_tensor **out_gradient,
                          kiln_error *err)
{
    if (out_gradient == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_gradient must not be NULL");
    }
    *out_gradient = NULL;
    kiln_status status = check(tape, tensor, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint32_t variable = kilni_tape_variable(tape, tensor);
    if (variable == 0 || !tape->variables[variable].leaf) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the tensor has no gradient: it was not given to kiln_tape_track");
    }
    const tape_variable *leaf = &tape->variables[variable];
    if (leaf->sum == NULL && leaf->shared == NULL) {
        return zeros_like(tape, tensor, out_gradient, err);
    }
    if (leaf->sum != NULL && leaf->shared != NULL) {
        return kiln_add(leaf->shared, leaf->sum, out_gradient, err);
    }
    *out_gradient = kiln_retain(leaf->sum != NULL ? leaf->sum : leaf->shared);
    return KILN_STATUS_OK;
}

static kiln_status give_arrived(kiln_tape *tape, kiln_tensor *const *tensors, size_t n_tensors,
                                kiln_tensor **out_gradients, kiln_error *err)
{
    for (size_t i = 0; i < n_tensors; i++) {
        kiln_tensor *found = tape->variables[kilni_tape_variable(tape, tensors[i])].gradient;
        out_gradients[i] = kiln_retain(found);
        if (found != NULL) {
            continue;
        }
        kiln_status status = zeros_like(tape, tensors[i], &out_gradients[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

/// Makes the tensors leaves for a walk, so that what arrives at them stays; `was` has what they
/// were.
static void mark_leaves(kiln_tape *tape, kiln_tensor *const *tensors, size_t n_tensors, bool *was,
                        bool begin)
{
    for (size_t k = n_tensors; k > 0; k--) {
        size_t i = begin ? n_tensors - k : k - 1;
        tape_variable *variable = &tape->variables[kilni_tape_variable(tape, tensors[i])];
        was[i] = begin ? variable->leaf : was[i];
        variable->leaf = begin || was[i];
    }
}

/// How many entries come before the first that reads one of the tensors: none of these leads from
/// them to a loss.
static size_t entries_before(const kiln_tape *tape, kiln_tensor *const *tensors, size_t n_tensors)
{
    size_t first = tape->n_entries;
    for (size_t i = 0; i < n_tensors; i++) {
        size_t use = tape->variables[kilni_tape_variable(tape, tensors[i])].first_use;
        first = use > 0 && use - 1 < first ? use - 1 : first;
    }
    return first;
}

/// What has arrived at variables changes places with `held`: a part that is computed again within a
/// walk may take gradients of its own.
static void swap_arrived(kiln_tape *tape, kiln_tensor **held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_tensor *arrived = tape->variables[i].gradient;
        tape->variables[i].gradient = held[i];
        held[i] = arrived;
    }
}

/// The walk between, with nothing arrived before and after.
static kiln_status walk_for(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed,
                            kiln_tensor *const *tensors, size_t n_tensors, bool *was,
                            kiln_tensor **out_gradients, kiln_error *err)
{
    size_t to = entries_before(tape, tensors, n_tensors);
    mark_leaves(tape, tensors, n_tensors, was, true);
    kiln_status status = kilni_tape_walk(tape, loss, seed, to, err);
    mark_leaves(tape, tensors, n_tensors, was, false);
    if (status == KILN_STATUS_OK) {
        status = give_arrived(tape, tensors, n_tensors, out_gradients, err);
    }
    kilni_tape_clear(tape);
    return status;
}

kiln_status kiln_gradients(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed,
                           kiln_tensor *const *tensors, size_t n_tensors,
                           kiln_tensor **out_gradients, kiln_error *err)
{
    if ((tensors == NULL || out_gradients == NULL) && n_tensors > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensors and out_gradients must not be NULL");
    }
    kiln_status status = check(tape, loss, err);
    for (size_t i = 0; i < n_tensors && status == KILN_STATUS_OK; i++) {
        out_gradients[i] = NULL;
        if (!kiln_tape_tracks(tape, tensors[i])) {
            status = kiln_fail(err, INVALID_ARGUMENT, "tensor %zu is not tracked", i);
        }
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t n_variables = tape->n_variables;
    bool *was = kiln_alloc_array(tape->env, n_tensors + 1, sizeof(*was));
    kiln_tensor **held = kiln_alloc_array(tape->env, n_variables + 1, sizeof(*held));
    if (was != NULL && held != NULL) {
        swap_arrived(tape, held, n_variables);
        status = walk_for(tape, loss, seed, tensors, n_tensors, was, out_gradients, err);
        swap_arrived(tape, held, n_variables);
    } else {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for gradients");
    }
    kiln_free(tape->env, was);
    kiln_free(tape->env, held);
    for (size_t i = 0; i < n_tensors && status != KILN_STATUS_OK; i++) {
        kiln_release(out_gradients[i]);
        out_gradients[i] = NULL;
    }
    return status;
}

// ---- in the caller's words ----

static kiln_status check_part(const kiln_tape *tape, kiln_tensor *const *inputs, size_t n_inputs,
                              kiln_tensor *const *outputs, size_t n_outputs, kiln_error *err)
{
    if (tape == NULL || (inputs == NULL && n_inputs > 0) || (outputs == NULL && n_outputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "tape, inputs and outputs must not be NULL");
    }
    if (n_inputs > KILN_MAX_INPUTS || n_outputs > KILN_MAX_OUTPUTS) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%zu inputs and %zu outputs; at most %d and %d are possible", n_inputs,
                         n_outputs, KILN_MAX_INPUTS, KILN_MAX_OUTPUTS);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_tape_custom(kiln_tape *tape, kiln_tensor *const *inputs, size_t n_inputs,
                             kiln_tensor *const *outputs, size_t n_outputs,
                             kiln_gradient_fn backward, void (*drop_user)(void *user), void *user,
                             kiln_error *err)
{
    const tape_entry like = {
        .kind = TAPE_CUSTOM, .backward = backward, .drop_user = drop_user, .user = user};
    kiln_status status = check_part(tape, inputs, n_inputs, outputs, n_outputs, err);
    if (status == KILN_STATUS_OK && backward == NULL) {
        status = kiln_fail(err, INVALID_ARGUMENT, "backward must not be NULL");
    }
    if (status == KILN_STATUS_OK) {
        return kilni_tape_add(tape, &like, inputs, n_inputs, outputs, n_outputs, false, err);
    }
    if (drop_user != NULL) {
        drop_user(user);
    }
    return status;
}

kiln_status kiln_tape_checkpoint(kiln_tape *tape, kiln_part_fn part, void (*drop_user)(void *user),
                                 void *user, kiln_tensor *const *inputs, size_t n_inputs,
                                 kiln_tensor **out_outputs, size_t n_outputs, kiln_error *err)
{
    const tape_entry like = {.kind = TAPE_PART, .part = part, .drop_user = drop_user, .user = user};
    for (size_t i = 0; i < n_outputs && out_outputs != NULL; i++) {
        out_outputs[i] = NULL;
    }
    kiln_status status = check_part(tape, inputs, n_inputs, out_outputs, n_outputs, err);
    if (status == KILN_STATUS_OK && part == NULL) {
        status = kiln_fail(err, INVALID_ARGUMENT, "part must not be NULL");
    }
    if (status == KILN_STATUS_OK) {
        kiln_tape_pause(tape);
        tape->in_part++;
        status = part(user, inputs, out_outputs, err);
        tape->in_part--;
        kiln_tape_resume(tape);
    }
    if (status != KILN_STATUS_OK) {
        if (drop_user != NULL) {
            drop_user(user);
        }
    } else if (tape->observer.paused == 0) {
        status = kilni_tape_add(tape, &like, inputs, n_inputs, out_outputs, n_outputs, true, err);
    } else if (drop_user != NULL) {
        drop_user(user);
    }
    for (size_t i = 0; i < n_outputs && out_outputs != NULL && status != KILN_STATUS_OK; i++) {
        kiln_release(out_outputs[i]);
        out_outputs[i] = NULL;
    }
    return status;
}
