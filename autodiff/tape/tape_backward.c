// SPDX-License-Identifier: MIT OR Apache-2.0
// Backwards through a tape: the rule of each entry whose results have a gradient, the last first.
// Decides in which order contributions are added, and what is let go on the way. What stands for
// several operations, a composite or a part, is recorded again and gone through in its place.
#include "ir_expand.h"
#include "tape_internal.h"

#include <string.h>

/// Adds to what has arrived at a variable; takes the contribution.
static kiln_status arrive(kiln_tape *tape, uint32_t variable, kiln_tensor *take_part,
                          kiln_error *err)
{
    kiln_tensor *before = tape->variables[variable].gradient;
    kiln_status status = KILN_STATUS_OK;
    if (before != NULL) {
        kiln_tensor *sum = NULL;
        status = kiln_add(before, take_part, &sum, err);
        kiln_release(before);
        kiln_release(take_part);
        take_part = sum;
    }
    tape->variables[variable].gradient = take_part;
    return status;
}

void kilni_tape_clear(kiln_tape *tape)
{
    for (size_t i = 0; i < tape->n_variables; i++) {
        kiln_release(tape->variables[i].gradient);
        tape->variables[i].gradient = NULL;
    }
}

static uint64_t wanted_inputs(const tape_entry *entry)
{
    uint64_t wanted = 0;
    for (size_t i = 0; i < entry->record.n_inputs; i++) {
        wanted |= entry->variables[i] != 0 ? (uint64_t)1 << i : 0;
    }
    return wanted;
}

/// Hands what a rule or a caller gave to the variables of the inputs.
static kiln_status hand_on(kiln_tape *tape, const tape_entry *entry, kiln_tensor **given,
                           kiln_status status, kiln_error *err)
{
    for (size_t i = 0; i < entry->record.n_inputs; i++) {
        if (given[i] == NULL) {
            continue;
        }
        if (status == KILN_STATUS_OK && entry->variables[i] != 0) {
            status = arrive(tape, entry->variables[i], given[i], err);
        } else {
            kiln_release(given[i]);
        }
    }
    return status;
}

static kiln_status apply_rule(kiln_tape *tape, const tape_entry *entry,
                              const kilni_gradient *gradient, kiln_tensor **grads, kiln_error *err)
{
    kiln_tensor *given[KILN_MAX_INPUTS] = {NULL};
    const uint32_t first = entry->record.n_inputs > 0 ? entry->variables[0] : 0;
    kilni_rule rule = {.call = &entry->record,
                       .arrived = first != 0 ? tape->variables[first].gradient : NULL,
                       .inputs = entry->kept,
                       .outputs = entry->kept + entry->record.n_inputs,
                       .grads = grads,
                       .wanted = wanted_inputs(entry),
                       .given = given,
                       .device = tape->device,
                       .env = tape->env,
                       .err = err};
    gradient->rule(&rule);
    kilni_rule_fini(&rule);
    if (rule.status == KILN_STATUS_OK && rule.added) {
        kiln_release(tape->variables[first].gradient); // the rule may have added variables
        tape->variables[first].gradient = NULL;
    }
    return hand_on(tape, entry, given, rule.status, err);
}

/// By the caller's function, or by the operator of a plugin.
static kiln_status apply_custom(kiln_tape *tape, const tape_entry *entry, kiln_tensor **grads,
                                kiln_error *err)
{
    kiln_tensor *given[KILN_MAX_INPUTS] = {NULL};
    kiln_status status = entry->kind == TAPE_CUSTOM
                             ? entry->backward(entry->user, grads, given, err)
                             : kilni_tape_plugin_apply(tape, entry, grads, given, err);
    for (size_t i = 0; i < entry->record.n_inputs && status == KILN_STATUS_OK; i++) {
        if (given[i] != NULL &&
            !kiln_desc_same_shape(kilni_observed_desc(given[i]), &entry->record.inputs[i])) {
            status = kiln_fail(err, INVALID_ARGUMENT,
                               "gradient %zu of a custom one is not like its input", i);
        }
    }
    return hand_on(tape, entry, given, status, err);
}

// ---- recorded again ----

typedef struct again {
    kiln_tape *tape;
    const tape_entry *entry;
    kiln_tensor **made; ///< made[i] has number n_inputs + i + 1; NULL: dropped
    size_t n_made;
    size_t capacity;
} again;

static kiln_tensor *value_of(const again *self, uint64_t id)
{
    size_t n_inputs = self->entry->record.n_inputs;
    return id <= n_inputs ? self->entry->kept[id - 1] : self->made[id - 1 - n_inputs];
}

static kiln_status emit(const kiln_op_record *record, void *user, kiln_error *err)
{
    again *self = user;
    kiln_tensor *inputs[KILN_MAX_INPUTS];
    if (record->op == KILN_OP_DROP) {
        size_t index = record->inputs[0].id - 1 - self->entry->record.n_inputs;
        kiln_release(self->made[index]);
        self->made[index] = NULL;
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        inputs[i] = value_of(self, record->inputs[i].id);
    }
    if (self->n_made + record->n_outputs > self->capacity) {
        size_t wanted = self->capacity * 2 + 64;
        kiln_tensor **grown = kiln_realloc(
            self->tape->env, self->made, self->capacity * sizeof(*grown), wanted * sizeof(*grown));
        if (grown == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to record an operation again");
        }
        self->made = grown;
        self->capacity = wanted;
    }
    kiln_status status =
        kiln_record(self->tape->device, record->op, inputs, record->n_inputs, record->attrs,
                    record->n_attrs, &self->made[self->n_made], err);
    self->n_made += status == KILN_STATUS_OK ? record->n_outputs : 0;
    return status;
}

/// Records the decomposition of a composite; `out_tensors` are its results, NULL for those that
/// have no gradient.
static kiln_status expand(kiln_tape *tape, const tape_entry *entry, kiln_tensor *const *grads,
                          kiln_tensor **out_tensors, kiln_error *err)
{
    again self = {.tape = tape, .entry = entry};
    kiln_expansion_sink sink = {.emit = emit, .user = &self};
    uint64_t ids[KILN_MAX_OUTPUTS] = {0};
    size_t n_inputs = entry->record.n_inputs;
    for (unsigned i = 0; i < entry->record.n_outputs; i++) {
        sink.unused |= grads[i] == NULL ? 1u << i : 0;
    }
    kiln_status status = kiln_ir_expand(tape->env, &entry->record, &sink, ids, err);
    for (unsigned i = 0; i < entry->record.n_outputs && status == KILN_STATUS_OK; i++) {
        if (ids[i] != 0 && grads[i] != NULL) {
            out_tensors[i] = self.made[ids[i] - 1 - n_inputs];
            self.made[ids[i] - 1 - n_inputs] = NULL;
        }
    }
    for (size_t i = 0; i < self.n_made; i++) {
        kiln_release(self.made[i]);
    }
    kiln_free(tape->env, self.made);
    return status;
}

static kiln_status walk(kiln_tape *tape, size_t from, size_t to, bool keep, kiln_error *err);

/// Records what the entry stands for while the tape watches, moves the gradients to those results,
/// and goes through what was added.
static kiln_status apply_again(kiln_tape *tape, const tape_entry *entry, kiln_tensor **grads,
                               bool keep, kiln_error *err)
{
    kiln_tensor *results[KILN_MAX_OUTPUTS] = {NULL};
    size_t before = tape->n_entries;
    unsigned paused = tape->observer.paused;
    unsigned part = entry->kind == TAPE_PART;
    tape->observer.paused = 0;
    tape->again += part;
    kiln_status status = part ? entry->part(entry->user, entry->kept, results, err)
                              : expand(tape, entry, grads, results, err);
    tape->again -= part;
    tape->observer.paused = paused;
    size_t after = tape->n_entries;
    for (unsigned i = 0; i < entry->record.n_outputs && status == KILN_STATUS_OK; i++) {
        uint32_t variable = results[i] != NULL ? kilni_tape_variable(tape, results[i]) : 0;
        if (variable != 0 && grads[i] != NULL) {
            status = arrive(tape, variable, kiln_retain(grads[i]), err);
        }
    }
    for (unsigned i = 0; i < entry->record.n_outputs; i++) {
        kiln_release(results[i]);
    }
    if (status == KILN_STATUS_OK) {
        status = walk(tape, after, before, keep, err);
    }
    if (!keep) {
        kilni_tape_cut(tape, before);
    }
    return status;
}

// ---- the walk ----

static kiln_status apply(kiln_tape *tape, const tape_entry *entry, kiln_tensor **grads, bool keep,
                         kiln_error *err)
{
    if (entry->kind == TAPE_CUSTOM ||
        kilni_tape_plugin_gradient(tape, entry->record.op, entry->record.attrs) != NULL) {
        return apply_custom(tape, entry, grads, err);
    }
    if (entry->kind == TAPE_PART) {
        return apply_again(tape, entry, grads, keep, err);
    }
    const kilni_gradient *gradient = kilni_gradient_of(entry->record.op);
    if (gradient->refused) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "%s has no gradient here; detach its inputs, or say what it is with "
                         "kiln_tape_custom",
                         kiln_op_info_of(entry->record.op)->name);
    }
    return gradient->derived ? apply_again(tape, entry, grads, keep, err)
                             : apply_rule(tape, entry, gradient, grads, err);
}

/// Takes what has arrived at the results of an entry. A leaf among them keeps its part.
static bool take_arrived(kiln_tape *tape, const tape_entry *entry, kiln_tensor **out_grads)
{
    const uint32_t *variables = entry->variables + entry->record.n_inputs;
    bool any = false;
    for (unsigned i = 0; i < entry->record.n_outputs; i++) {
        tape_variable *variable = &tape->variables[variables[i]];
        out_grads[i] = NULL;
        if (variables[i] == 0 || variable->gradient == NULL) {
            continue;
        }
        any = true;
        out_grads[i] = variable->leaf ? kiln_retain(variable->gradient) : variable->gradient;
        variable->gradient = variable->leaf ? variable->gradient : NULL;
    }
    return any;
}

/// Goes through the last of the first `count` entries.
static kiln_status walk_one(kiln_tape *tape, size_t count, bool keep, kiln_error *err)
{
    kiln_tensor *grads[KILN_MAX_OUTPUTS] = {NULL};
    tape_entry *entry = tape->entries[count - 1];
    unsigned n_outputs = entry->record.n_outputs;
    kiln_status status = KILN_STATUS_OK;
    if (take_arrived(tape, entry, grads)) {
        status = kilni_tape_fetch(tape, entry, err);
        status = status == KILN_STATUS_OK ? apply(tape, entry, grads, keep, err) : status;
    }
    for (unsigned k = 0; k < n_outputs; k++) {
        kiln_release(grads[k]);
    }
    if (!keep) {
        kilni_tape_cut(tape, count - 1);
    }
    bool hands = status == KILN_STATUS_OK && !keep; // a walk that keeps gives nothing to leaves
    return hands ? kilni_tape_job_hand(tape, count - 1, err) : status;
}

/// Goes through the entries before `from`, down to `to`. What the walk itself adds lies behind
/// `from` and stays out of it.
static kiln_status walk(kiln_tape *tape, size_t from, size_t to, bool keep, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = from; i > to && status == KILN_STATUS_OK; i--) {
        status = walk_one(tape, i, keep, err);
    }
    return status;
}

static kiln_status start(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed, kiln_error *err)
{
    const kiln_tensor_desc *desc = kilni_observed_desc(loss);
    uint32_t variable = kilni_tape_variable(tape, loss);
    if (!kilni_tape_is_float(loss)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the loss has dtype %s; gradients are of floats alone",
                         kiln_dtype_name(kiln_tensor_dtype(loss)));
    }
    if (variable == 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the loss is not tracked: it was computed from no tensor that this tape "
                         "tracks, or before a kiln_backward");
    }
    if (seed == NULL && kiln_desc_count(desc) != 1) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the loss has %lld elements, not one; reduce it, or give a seed",
                         (long long)kiln_desc_count(desc));
    }
    if (seed != NULL && (!kiln_desc_same_shape(kilni_observed_desc(seed), desc) ||
                         kiln_tensor_dtype(seed) != desc->dtype)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the seed is not like the loss: it needs the same shape and dtype");
    }
    kiln_tensor *first = kiln_retain(seed);
    kiln_status status = KILN_STATUS_OK;
    if (first == NULL) {
        status =
            kiln_full(tape->device, desc->dims, desc->rank, desc->dtype, kiln_f64(1), &first, err);
    }
    return status == KILN_STATUS_OK ? arrive(tape, variable, first, err) : status;
}

kiln_status kilni_tape_walk(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed, size_t to,
                            kiln_error *err)
{
    kiln_graph_fix_shapes(tape->device); // rules record lengths as they are
    kiln_status status = start(tape, loss, seed, err);
    return status == KILN_STATUS_OK ? walk(tape, tape->n_entries, to, /*keep=*/true, err) : status;
}

kiln_status kilni_tape_back_begin(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed,
                                  kiln_error *err)
{
    kiln_graph_fix_shapes(tape->device);
    kiln_status status = start(tape, loss, seed, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tape_job_begin(tape, err);
        if (status != KILN_STATUS_OK) {
            kilni_tape_back_end(tape);
        }
    }
    return status;
}

kiln_status kilni_tape_back_one(kiln_tape *tape, kiln_error *err)
{
    return walk_one(tape, tape->n_entries, /*keep=*/false, err);
}

void kilni_tape_back_end(kiln_tape *tape)
{
    kilni_tape_cut(tape, 0);
    tape->n_forgotten = tape->n_variables;
    tape->next_to_drop = 0; // leaves stay
    for (size_t i = 0; i < tape->n_variables; i++) {
        tape->variables[i].first_use = 0;
    }
}
