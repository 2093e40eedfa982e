// SPDX-License-Identifier: MIT OR Apache-2.0
// What the tape does not hold: with a budget the oldest values that are cheap to have again, and in
// a part that is computed again, which is there to save memory, what elementwise operators make for
// products: these can compute it while they pack it, where a normalisation would run together with
// its gradient. Decides what is cheap, from the class that the operator's row names. A value that
// was let go pins what it is made from, which others hold anyway, so that it can be had whenever an
// entry needs it; backward comes to all who need it before it comes to its maker.
#include "tape_internal.h"

/// A value that was let go is at most so many operations away from one that is held.
enum { MOST_DEPTH = 8 };

static uint64_t bytes_of(const kiln_tensor *tensor)
{
    return (uint64_t)kiln_desc_bytes(kilni_observed_desc(tensor));
}

static void hold(kiln_tape *tape, tape_variable *variable, kiln_tensor *tensor)
{
    variable->held = kiln_retain(tensor);
    variable->held_bytes = variable->leaf ? 0 : bytes_of(tensor); // a leaf is there in any case
    tape->held_bytes += variable->held_bytes;
}

static void drop(kiln_tape *tape, tape_variable *variable)
{
    tape->held_bytes -= variable->held_bytes;
    variable->held_bytes = 0;
    kiln_release(variable->held);
    variable->held = NULL;
}

void kilni_tape_pin(kiln_tape *tape, uint32_t number, kiln_tensor *tensor)
{
    tape_variable *variable = &tape->variables[number];
    if (variable->pins++ == 0) {
        hold(tape, variable, tensor);
        tape->next_to_drop = number < tape->next_to_drop ? number : tape->next_to_drop;
    }
}

void kilni_tape_unpin(kiln_tape *tape, uint32_t number)
{
    tape_variable *variable = &tape->variables[number];
    if (--variable->pins > 0) {
        return;
    }
    drop(tape, variable);
    bool let_go = variable->let_go;
    variable->let_go = false;
    variable->depth = 0;
    for (size_t i = 0; let_go && i < variable->maker->record.n_inputs; i++) {
        kilni_tape_unpin(tape, variable->maker->variables[i]);
    }
}

// ---- letting go ----

/// One pass over memory at most.
static bool is_cheap(kiln_op op)
{
    kiln_op_class class = op < KILN_OP_COUNT ? kiln_op_info_of(op)->cls : KILN_CLASS_CONTROL;
    return class == KILN_CLASS_ELEMENTWISE || class == KILN_CLASS_VIEW || class == KILN_CLASS_ROW;
}

static bool is_elementwise(const tape_entry *maker)
{
    return kiln_op_info_of(maker->record.op)->cls == KILN_CLASS_ELEMENTWISE;
}

void kilni_tape_note_maker(kiln_tape *tape, tape_entry *entry)
{
    const kiln_op_record *record = &entry->record;
    bool can = is_cheap(record->op) && record->n_outputs == 1 && record->n_inputs > 0;
    for (size_t i = 0; i < record->n_inputs; i++) { // what is not tracked is not held for it
        can = can && entry->variables[i] != 0;
    }
    if (can) {
        tape->variables[entry->variables[record->n_inputs]].maker = entry;
    }
}

static int depth_of(const kiln_tape *tape, const tape_variable *variable, int most);

/// How many operations make the value of what is held, at most `most`; -1: it cannot be had so.
static int depth_of_remaking(const kiln_tape *tape, const tape_variable *variable, int most)
{
    int depth = 0;
    if (variable->maker == NULL || variable->leaf || most == 0) {
        return -1;
    }
    for (size_t i = 0; i < variable->maker->record.n_inputs && depth >= 0; i++) {
        const tape_variable *from = &tape->variables[variable->maker->variables[i]];
        int other = depth_of(tape, from, most - 1);
        depth = other < 0 ? -1 : other > depth ? other : depth;
    }
    return depth < 0 ? -1 : depth + 1;
}

/// The same, 0 for what is held.
static int depth_of(const kiln_tape *tape, const tape_variable *variable, int most)
{
    if (variable->like != NULL || variable->held != NULL) {
        return 0;
    }
    if (variable->let_go) {
        return variable->depth <= most ? variable->depth : -1;
    }
    return depth_of_remaking(tape, variable, most);
}

/// The value is made again when it is needed: what it is made from is needed from now on.
static void let_go(kiln_tape *tape, tape_variable *variable)
{
    const tape_entry *maker = variable->maker;
    variable->depth = depth_of_remaking(tape, variable, MOST_DEPTH);
    drop(tape, variable);
    variable->let_go = true;
    for (size_t i = 0; i < maker->record.n_inputs; i++) {
        tape_variable *from = &tape->variables[maker->variables[i]];
        if (from->pins > 0 || from->like != NULL) {
            kilni_tape_pin(tape, maker->variables[i], from->like);
        } else {
            from->pins = 1;
            let_go(tape, from);
        }
    }
}

static void let_go_if_cheap(kiln_tape *tape, tape_variable *variable)
{
    if (variable->held != NULL && !variable->let_go &&
        depth_of_remaking(tape, variable, MOST_DEPTH) > 0) {
        let_go(tape, variable);
    }
}

bool kilni_tape_saves(const kiln_tape *tape)
{
    return tape->budget > 0 || tape->again > 0;
}

void kilni_tape_save(kiln_tape *tape, const tape_entry *entry)
{
    bool product = entry->record.op < KILN_OP_COUNT &&
                   kiln_op_info_of(entry->record.op)->cls == KILN_CLASS_CONTRACTION;
    for (size_t i = 0; i < entry->record.n_inputs && product && tape->again > 0; i++) {
        tape_variable *variable = &tape->variables[entry->variables[i]];
        if (variable->maker != NULL && is_elementwise(variable->maker)) {
            let_go_if_cheap(tape, variable);
        }
    }
    while (tape->budget > 0 && tape->held_bytes > tape->budget &&
           tape->next_to_drop < tape->n_variables) {
        let_go_if_cheap(tape, &tape->variables[tape->next_to_drop++]);
    }
}

// ---- having it again ----

static kiln_status remake(kiln_tape *tape, uint32_t number, kiln_error *err);

/// The value of a variable with a pin; borrowed.
static kiln_status pinned_value(kiln_tape *tape, uint32_t number, kiln_tensor **out_tensor,
                                kiln_error *err)
{
    kiln_status status =
        tape->variables[number].held != NULL ? KILN_STATUS_OK : remake(tape, number, err);
    *out_tensor = tape->variables[number].held;
    return status;
}

/// Records the maker's operation again. At most MOST_DEPTH such calls lie in each other.
static kiln_status remake(kiln_tape *tape, uint32_t number, kiln_error *err)
{
    const tape_entry *maker = tape->variables[number].maker;
    const kiln_op_record *record = &maker->record;
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *made = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < record->n_inputs && status == KILN_STATUS_OK; i++) {
        status = pinned_value(tape, maker->variables[i], &inputs[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_record(tape->device, record->op, inputs, record->n_inputs, record->attrs,
                             record->n_attrs, &made, err);
    }
    if (status == KILN_STATUS_OK) { // recording may have moved the variables
        kilni_mark_set(made, kilni_mark_make(&tape->observer, number)); // for rules by operations
        hold(tape, &tape->variables[number], made);
    }
    kiln_release(made);
    return status;
}

/// Whether the entry multiplies the rows of its first input by one matrix, and the input's maker
/// gives each element from those in its place: then it may make a matrix of these rows instead,
/// which a kernel can do while it reads them for the product of the gradient.
static bool wants_rows(const kiln_tape *tape, const tape_entry *entry)
{
    const kiln_op_record *record = &entry->record;
    const kiln_tensor_desc *x = &record->inputs[0];
    const tape_variable *variable = &tape->variables[entry->variables[0]];
    bool by_matrix = record->op == KILN_OP_LINEAR ||
                     (record->op == KILN_OP_MATMUL && record->inputs[1].rank == 2 &&
                      kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_A) == 0);
    if (!by_matrix || x->rank < 3 || kiln_desc_count(x) == 0 ||
        kiln_desc_count(&record->outputs[0]) == 0 || variable->held != NULL || !variable->let_go ||
        !is_elementwise(variable->maker)) {
        return false;
    }
    for (size_t i = 0; i < variable->maker->record.n_inputs; i++) {
        if (!kiln_desc_same_shape(&variable->maker->record.inputs[i], x)) {
            return false;
        }
    }
    return true;
}

/// As remake, of a matrix with the same rows, which only the caller gets.
static kiln_status remake_rows(kiln_tape *tape, uint32_t number, kiln_tensor **out_rows,
                               kiln_error *err)
{
    const tape_entry *maker = tape->variables[number].maker;
    const kiln_op_record *record = &maker->record;
    const int64_t dims[] = {-1, record->inputs[0].dims[record->inputs[0].rank - 1]};
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *whole = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < record->n_inputs && status == KILN_STATUS_OK; i++) {
        status = pinned_value(tape, maker->variables[i], &whole, err);
        status = status == KILN_STATUS_OK ? kiln_reshape(whole, dims, 2, &inputs[i], err) : status;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_record(tape->device, record->op, inputs, record->n_inputs, record->attrs,
                             record->n_attrs, out_rows, err);
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        kiln_release(inputs[i]);
    }
    return status;
}

kiln_status kilni_tape_fetch(kiln_tape *tape, tape_entry *entry, kiln_error *err)
{
    size_t n_inputs = entry->record.n_inputs;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_inputs + entry->record.n_outputs; i++) {
        bool is_input = i < n_inputs;
        kiln_tensor *value = NULL;
        if ((entry->pinned[is_input ? 0 : 1] >> (is_input ? i : i - n_inputs) & 1) == 0 ||
            entry->kept[i] != NULL) {
            continue;
        }
        if (i == 0 && wants_rows(tape, entry)) {
            KILN_TRY(out, status, remake_rows(tape, entry->variables[0], &entry->kept[0], err));
            continue;
        }
        KILN_TRY(out, status, pinned_value(tape, entry->variables[i], &value, err));
        entry->kept[i] = kiln_retain(value);
    }
out:
    return status;
}

void kilni_tape_forget(kiln_tape *tape, const tape_entry *entry)
{
    size_t n_inputs = entry->record.n_inputs;
    for (size_t i = 0; i < n_inputs + entry->record.n_outputs; i++) {
        bool is_input = i < n_inputs;
        if ((entry->pinned[is_input ? 0 : 1] >> (is_input ? i : i - n_inputs) & 1) != 0) {
            kilni_tape_unpin(tape, entry->variables[i]);
        }
        if (entry->variables[i] != 0 && tape->variables[entry->variables[i]].maker == entry) {
            tape->variables[entry->variables[i]].maker = NULL;
        }
    }
}

// ---- the public calls ----

kiln_status kiln_tape_set_budget(kiln_tape *tape, uint64_t bytes, kiln_error *err)
{
    if (tape == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tape must not be NULL");
    }
    if (tape->n_entries > 0) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the tape has operations already: a budget comes before");
    }
    tape->budget = bytes;
    return KILN_STATUS_OK;
}

uint64_t kiln_tape_held_bytes(const kiln_tape *tape)
{
    return tape != NULL ? tape->held_bytes : 0;
}
