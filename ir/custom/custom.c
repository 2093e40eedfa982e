// SPDX-License-Identifier: MIT OR Apache-2.0
// The row `custom` of the table: checks what every operator of a plugin must keep, and passes the
// rest to the definition that the record was looked up to. A plugin's rule is not believed: what it
// says about its outputs is checked like a peer's. Which operators there are is fusion_host's
// business; how their attributes are written is custom_text.c's.
#include <string.h>

#include "ir_custom.h"
#include "reference_internal.h"

bool kiln_ir_custom_is(const kiln_op_record *record, const char *name, uint32_t version)
{
    const kiln_attr *own = kiln_op_attr(record, KILN_KEY_NAME);
    return own->type == KILN_ATTR_STRING && own->count == strlen(name) &&
           strcmp(own->v.text, name) == 0 &&
           kiln_op_attr_i64(record, KILN_KEY_VERSION) == (int64_t)version;
}

static bool is_name_part(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool inside = (c >= '0' && c <= '9') || c == '.' || c == '-';
        if (!letter && (i == 0 || !inside)) {
            return false;
        }
    }
    return length > 0;
}

/// Whether this is domain::name: letters, digits, `_`, `.` and `-`, no digit first.
static bool is_name(const char *name, size_t length)
{
    const char *colons = length <= KILN_CUSTOM_MAX_NAME ? strstr(name, "::") : NULL;
    size_t domain = colons != NULL ? (size_t)(colons - name) : 0;
    return colons != NULL && strlen(name) == length && is_name_part(name, domain) &&
           is_name_part(colons + 2, length - domain - 2);
}

/// What can be said of a call without the operator: its name, its version, and the outputs that
/// whoever made the record states.
static kiln_status check_form(const kiln_op_record *call, kiln_error *err)
{
    const kiln_attr *name = kiln_op_attr(call, KILN_KEY_NAME);
    int64_t version = kiln_op_attr_i64(call, KILN_KEY_VERSION);
    if (!is_name(name->v.text, name->count)) {
        return kiln_fail(err, INVALID_ARGUMENT, "custom: \"%.60s\" is no name, as domain::name is",
                         name->v.text);
    }
    if (version < 1 || version > UINT32_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: there is no version %lld", name->v.text,
                         (long long)version);
    }
    if (kiln_op_attr(call, KILN_KEY_ATTRIBUTES)->count > KILN_CUSTOM_MAX_TEXT) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: more than %d bytes of attributes",
                         name->v.text, KILN_CUSTOM_MAX_TEXT);
    }
    return KILN_STATUS_OK;
}

static kiln_status check_output(const char *name, unsigned index, const kiln_tensor_desc *desc,
                                kiln_error *err)
{
    kiln_dtype_kind kind = kiln_dtype_kind_of(desc->dtype);
    if (kind == KILN_KIND_NONE || kind == KILN_KIND_QUANT || desc->scheme != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: output %u has the dtype %d, which is none",
                         name, index, (int)desc->dtype);
    }
    if (desc->rank > KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: output %u has rank %u, the limit is %d", name,
                         index, desc->rank, KILN_MAX_RANK);
    }
    for (unsigned i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: output %u has length %lld along axis %u",
                             name, index, (long long)desc->dims[i], i);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status take_stated(const kiln_op_record *call, const char *name,
                               kiln_tensor_desc *outputs, kiln_error *err)
{
    if (outputs == call->outputs) {
        return kiln_fail(err, NOT_FOUND, "operator %s was not looked up", name);
    }
    for (unsigned i = 0; i < call->n_outputs; i++) {
        const kiln_tensor_desc *stated = &call->outputs[i];
        kiln_status status = check_output(name, i, stated, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        outputs[i].dtype = stated->dtype;
        outputs[i].rank = stated->rank;
        memcpy(outputs[i].dims, stated->dims, stated->rank * sizeof(stated->dims[0]));
    }
    return KILN_STATUS_OK;
}

static kiln_status check_counts(const kiln_op_record *call, kiln_error *err)
{
    const kiln_custom_op *op = call->custom;
    if (!kiln_ir_custom_is(call, op->name, op->version)) {
        return kiln_fail(err, INTERNAL, "custom: a record was looked up as %s", op->name);
    }
    if (call->n_inputs < op->min_inputs || call->n_inputs > op->max_inputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %u inputs given, it takes %u to %u", op->name,
                         call->n_inputs, op->min_inputs, op->max_inputs);
    }
    if (call->n_outputs != op->n_outputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %u outputs asked, it gives %u", op->name,
                         call->n_outputs, op->n_outputs);
    }
    return KILN_STATUS_OK;
}

static kiln_status infer(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_custom_op *op = call->custom;
    const kiln_attr *values = NULL;
    kiln_arena arena;
    kiln_status status = check_counts(call, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (unsigned i = 0; i < call->n_outputs; i++) {
        outputs[i].dtype = KILN_DTYPE_NONE; // so that one that is forgotten is seen
    }
    kiln_arena_init(&arena, op->env);
    status = kiln_ir_custom_values(op, kiln_op_attr(call, KILN_KEY_ATTRIBUTES)->v.text, &arena,
                                   &values, err);
    if (status == KILN_STATUS_OK) {
        status = op->infer(op, call, values, outputs, err);
    }
    kiln_arena_fini(&arena);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_outputs; i++) {
        status = check_output(op->name, i, &outputs[i], err);
    }
    return status;
}

kiln_status kiln_shape_custom(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    kiln_status status = check_form(call, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    return call->custom == NULL
               ? take_stated(call, kiln_op_attr(call, KILN_KEY_NAME)->v.text, outputs, err)
               : infer(call, outputs, err);
}

// ---- evaluation ----

static void *first_element(const kiln_view *view, const kiln_tensor_desc *desc)
{
    bool there = view->buffer != NULL && kiln_desc_count(desc) > 0;
    return there ? view->buffer->data + view->offset_bytes : NULL;
}

kiln_status kiln_ref_custom(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    const kiln_custom_op *op = call->custom;
    void *memory[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {NULL};
    const kiln_attr *values = NULL;
    kiln_arena arena;
    if (op == NULL) {
        return kiln_fail(err, NOT_FOUND, "operator %s was not looked up",
                         kiln_op_attr(call, KILN_KEY_NAME)->v.text);
    }
    for (unsigned i = 0; i < call->n_inputs; i++) {
        memory[i] = first_element(&inputs[i], &call->inputs[i]);
    }
    for (unsigned i = 0; i < call->n_outputs; i++) {
        memory[call->n_inputs + i] = first_element(&outputs[i], &call->outputs[i]);
    }
    kiln_arena_init(&arena, op->env);
    kiln_status status = kiln_ir_custom_values(op, kiln_op_attr(call, KILN_KEY_ATTRIBUTES)->v.text,
                                               &arena, &values, err);
    if (status == KILN_STATUS_OK) {
        status = op->reference(op, call, values, inputs, outputs, memory, err);
    }
    kiln_arena_fini(&arena);
    return status;
}
