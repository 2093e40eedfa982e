// SPDX-License-Identifier: MIT OR Apache-2.0
// From operations that are recorded to entries of the tape. Decides what is tracked, and keeps of
// an operation what the row of its operator says.
#include "tape_internal.h"

#include <string.h>

// ---- variables ----

uint32_t kilni_tape_variable(const kiln_tape *tape, const kiln_tensor *tensor)
{
    uint64_t mark = kilni_mark_of(tensor);
    uint32_t variable = mark >> 32 == tape->observer.number ? (uint32_t)mark : 0;
    return variable < tape->n_forgotten && !tape->variables[variable].leaf ? 0 : variable;
}

bool kilni_tape_is_float(const kiln_tensor *tensor)
{
    return kiln_dtype_kind_of(kiln_tensor_dtype(tensor)) == KILN_KIND_FLOAT;
}

/// Room for one more in an array of `bytes` each.
static kiln_status grow(const kiln_env *env, void **array, size_t count, size_t *capacity,
                        size_t bytes, kiln_error *err)
{
    if (count < *capacity) {
        return KILN_STATUS_OK;
    }
    size_t wanted = *capacity * 2 + 64;
    void *grown = kiln_realloc(env, *array, *capacity * bytes, wanted * bytes);
    if (grown == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tape");
    }
    *array = grown;
    *capacity = wanted;
    return KILN_STATUS_OK;
}

kiln_status kilni_tape_number(kiln_tape *tape, kiln_tensor *tensor, uint32_t *out_variable,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    *out_variable = kilni_tape_variable(tape, tensor);
    if (*out_variable != 0) {
        return status;
    }
    status = grow(tape->env, (void **)&tape->variables, tape->n_variables + 1,
                  &tape->variables_capacity, sizeof(*tape->variables), err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    tape->n_variables += tape->n_variables == 0 ? 2 : 1;
    *out_variable = (uint32_t)(tape->n_variables - 1);
    tape->variables[0] = tape->variables[*out_variable] = (tape_variable){0};
    kilni_mark_set(tensor, kilni_mark_make(&tape->observer, *out_variable));
    return status;
}

// ---- entries ----

static size_t payload_bytes(const kiln_attr *attr)
{
    switch (attr->type) {
    case KILN_ATTR_I64_LIST:
        return attr->count * sizeof(int64_t);
    case KILN_ATTR_F64_LIST:
        return attr->count * sizeof(double);
    case KILN_ATTR_STRING:
        return (attr->count + sizeof(double)) / sizeof(double) * sizeof(double);
    default:
        return 0;
    }
}

/// Copies attributes to `out`, and their lists and texts behind it.
static void copy_attrs(const kiln_attr *attrs, size_t count, kiln_attr *out, char *payload)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = attrs[i];
        size_t bytes = payload_bytes(&attrs[i]);
        if (bytes == 0) {
            continue;
        }
        memset(payload, 0, bytes);
        memcpy(payload, attrs[i].v.text,
               attrs[i].type == KILN_ATTR_STRING ? attrs[i].count : bytes);
        out[i].v.text = payload;
        payload += bytes;
    }
}

static tape_entry *make_entry(const kiln_tape *tape, const kilni_observed *call)
{
    size_t n = call->n_inputs + call->n_outputs;
    size_t payload = 0;
    for (size_t i = 0; i < call->n_attrs; i++) {
        payload += payload_bytes(&call->attrs[i]);
    }
    size_t variables = (n + 1) / 2 * 2;
    size_t bytes = sizeof(tape_entry) + n * (sizeof(kiln_tensor_desc) + sizeof(kiln_tensor *)) +
                   variables * sizeof(uint32_t) + call->n_attrs * sizeof(kiln_attr) + payload;
    tape_entry *made = kiln_alloc(tape->env, bytes);
    if (made == NULL) {
        return NULL;
    }
    memset(made, 0, bytes);
    kiln_tensor_desc *descs = (kiln_tensor_desc *)(made + 1);
    kiln_attr *attrs = (kiln_attr *)(descs + n);
    made->kept = (kiln_tensor **)(attrs + call->n_attrs);
    made->variables = (uint32_t *)(made->kept + n);
    copy_attrs(call->attrs, call->n_attrs, attrs, (char *)(made->variables + variables));
    for (size_t i = 0; i < n; i++) {
        const kiln_tensor *tensor =
            i < call->n_inputs ? call->inputs[i] : call->outputs[i - call->n_inputs];
        if (tensor != NULL) {
            descs[i] = *kilni_observed_desc(tensor);
        }
    }
    made->record = (kiln_op_record){.op = call->op,
                                    .n_inputs = (uint16_t)call->n_inputs,
                                    .n_outputs = (uint8_t)call->n_outputs,
                                    .n_attrs = (uint8_t)call->n_attrs,
                                    .inputs = descs,
                                    .outputs = descs + call->n_inputs,
                                    .attrs = attrs};
    return made;
}

static void free_entry(kiln_tape *tape, tape_entry *entry)
{
    kilni_tape_forget(tape, entry);
    size_t n = (size_t)entry->record.n_inputs + entry->record.n_outputs;
    for (size_t i = 0; i < n; i++) {
        kiln_release(entry->kept[i]);
    }
    if (entry->drop_user != NULL) {
        entry->drop_user(entry->user);
    }
    kiln_free(tape->env, entry);
}

void kilni_tape_cut(kiln_tape *tape, size_t count)
{
    while (tape->n_entries > count) {
        tape_entry *last = tape->entries[--tape->n_entries];
        tape->entries[tape->n_entries] = NULL;
        free_entry(tape, last);
    }
}

/// The entry that comes next reads the variable; the first one to do so is noted.
static void note_use(kiln_tape *tape, uint32_t variable)
{
    if (variable != 0 && tape->variables[variable].first_use == 0) {
        tape->variables[variable].first_use = tape->n_entries + 1;
    }
}

/// Numbers for tracked inputs and for all results of floats; the entry is the tape's on success.
static kiln_status connect(kiln_tape *tape, tape_entry *entry, const kilni_observed *call,
                           kiln_error *err)
{
    kiln_status status = grow(tape->env, (void **)&tape->entries, tape->n_entries,
                              &tape->entries_capacity, sizeof(*tape->entries), err);
    for (size_t i = 0; i < call->n_inputs && status == KILN_STATUS_OK; i++) {
        entry->variables[i] = kilni_tape_variable(tape, call->inputs[i]);
        note_use(tape, entry->variables[i]);
    }
    for (size_t i = 0; i < call->n_outputs && status == KILN_STATUS_OK; i++) {
        kiln_tensor *output = call->outputs[i];
        if (output != NULL && kilni_tape_is_float(output)) {
            uint32_t *variable = &entry->variables[call->n_inputs + i];
            status = kilni_tape_number(tape, output, variable, err);
            if (status == KILN_STATUS_OK) {
                tape->variables[*variable].made = true;
            }
        }
    }
    if (status == KILN_STATUS_OK) {
        tape->entries[tape->n_entries++] = entry;
    }
    return status;
}

static bool gives_floats(const kilni_observed *call)
{
    for (size_t i = 0; i < call->n_outputs; i++) {
        if (call->outputs[i] != NULL && kilni_tape_is_float(call->outputs[i])) {
            return true;
        }
    }
    return false;
}

static kiln_status check_others(const kiln_tape *tape, const kilni_observed *call, kiln_error *err)
{
    for (size_t i = 0; i < call->n_inputs; i++) {
        uint64_t mark = kilni_mark_of(call->inputs[i]);
        if (mark != 0 && mark >> 32 != tape->observer.number && kilni_is_watched(call->inputs[i])) {
            return kiln_fail(
                err, INVALID_ARGUMENT,
                "input %zu of %s is tracked by another tape than the others; detach it", i,
                kiln_op_info_of(call->op)->name);
        }
    }
    return KILN_STATUS_OK;
}

/// The tape holds a value for the entry's rule: input or result `index`. One that saves may let go
/// of it again.
static void keep_value(kiln_tape *tape, tape_entry *entry, size_t index, kiln_tensor *tensor)
{
    size_t n_inputs = entry->record.n_inputs;
    if (!kilni_tape_saves(tape) || tensor == NULL || entry->variables[index] == 0) {
        entry->kept[index] = kiln_retain(tensor);
        return;
    }
    kilni_tape_pin(tape, entry->variables[index], tensor);
    entry->pinned[index < n_inputs ? 0 : 1] |= UINT64_C(1)
                                               << (index < n_inputs ? index : index - n_inputs);
}

kiln_status kilni_tape_recorded(void *user, const kilni_observed *call, kiln_error *err)
{
    kiln_tape *tape = user;
    const kilni_gradient *gradient = kilni_gradient_of(call->op);
    for (size_t i = 0; i < call->n_inputs && tape->in_part > 0; i++) { // the part will be an entry
        note_use(tape, kilni_tape_variable(tape, call->inputs[i]));
    }
    if (tape->observer.paused > 0 || (gradient->reason != NULL && !gradient->refused) ||
        !gives_floats(call)) {
        return KILN_STATUS_OK;
    }
    kiln_status status = check_others(tape, call, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    tape_entry *entry = make_entry(tape, call);
    if (entry == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tape");
    }
    status = connect(tape, entry, call, err);
    if (status != KILN_STATUS_OK) {
        free_entry(tape, entry);
        return status;
    }
    bool by_plugin = kilni_tape_plugin_gradient(tape, call->op, call->attrs) != NULL;
    for (size_t i = 0; i < call->n_inputs; i++) {
        if (by_plugin || gradient->derived || (i < 16 && (gradient->keeps >> i & 1) != 0)) {
            keep_value(tape, entry, i, call->inputs[i]);
        }
    }
    for (size_t i = 0; i < call->n_outputs; i++) {
        if (by_plugin || (gradient->keeps >> (16 + i) & 1) != 0) {
            keep_value(tape, entry, call->n_inputs + i, call->outputs[i]);
        }
    }
    if (kilni_tape_saves(tape)) {
        kilni_tape_note_maker(tape, entry);
        kilni_tape_save(tape, entry);
    }
    return status;
}

kiln_status kilni_tape_add(kiln_tape *tape, const tape_entry *like, kiln_tensor *const *inputs,
                           size_t n_inputs, kiln_tensor *const *outputs, size_t n_outputs,
                           bool keeps, kiln_error *err)
{
    const kilni_observed call = {.op = KILN_OP_COUNT,
                                 .inputs = inputs,
                                 .n_inputs = n_inputs,
                                 .outputs = outputs,
                                 .n_outputs = n_outputs};
    tape_entry *entry = make_entry(tape, &call);
    if (entry == NULL) {
        if (like->drop_user != NULL) {
            like->drop_user(like->user);
        }
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tape");
    }
    entry->kind = like->kind;
    entry->backward = like->backward;
    entry->part = like->part;
    entry->drop_user = like->drop_user;
    entry->user = like->user;
    kiln_status status = connect(tape, entry, &call, err);
    for (size_t i = 0; i < n_inputs && keeps && status == KILN_STATUS_OK; i++) {
        entry->kept[i] = kiln_retain(inputs[i]);
    }
    if (status != KILN_STATUS_OK) {
        free_entry(tape, entry);
    }
    return status;
}
