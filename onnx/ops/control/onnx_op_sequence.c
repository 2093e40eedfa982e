// SPDX-License-Identifier: MIT OR Apache-2.0
// Sequences and optionals: lists of values on the host, whose tensors stay where they are.
// Positions are host numbers. Decides that an optional with a value is that value, and that a
// sequence is never changed: each operator makes a new list of the same tensors.
#include "onnx_run.h"

static int64_t position(kilni_onnx_call *call, uint32_t input, int64_t fallback)
{
    kilni_onnx_ref given = kilni_onnx_opt(call, input);
    return given == NULL ? fallback : kilni_onnx_value_number(call, given).v.i;
}

/// An item's place from a position that may count from the end.
static uint32_t place_of(kilni_onnx_call *call, int64_t at, uint32_t count)
{
    int64_t place = at < 0 ? at + (int64_t)count : at;
    if (place < 0 || place >= (int64_t)count) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "position %lld in a sequence of %u", (long long)at,
                        count);
        return 0;
    }
    return (uint32_t)place;
}

static void put_items(kilni_onnx_call *call, kilni_onnx_ref target, uint32_t at,
                      kilni_onnx_ref const *items, uint32_t count)
{
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        target->items[at + i] = kilni_onnx_retain(items[i]);
    }
}

void kilni_onnx_op_sequence_construct(kilni_onnx_call *call)
{
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        (void)kilni_onnx_in(call, i);
    }
    kilni_onnx_ref made = kilni_onnx_sequence(call, call->n_inputs);
    put_items(call, made, 0, call->inputs, call->n_inputs);
    kilni_onnx_out(call, 0, made);
}

void kilni_onnx_op_sequence_empty(kilni_onnx_call *call)
{
    (void)kilni_onnx_attr_dtype(call, "dtype", KILN_DTYPE_F32);
    kilni_onnx_out(call, 0, kilni_onnx_sequence(call, 0));
}

void kilni_onnx_op_sequence_insert(kilni_onnx_call *call)
{
    kilni_onnx_ref from = kilni_onnx_in_sequence(call, 0);
    kilni_onnx_ref item = kilni_onnx_in(call, 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t count = from->n_items;
    int64_t at = position(call, 2, count);
    uint32_t place = at == (int64_t)count ? count : place_of(call, at, count);
    kilni_onnx_ref made = kilni_onnx_sequence(call, (int64_t)count + 1);
    put_items(call, made, 0, from->items, place);
    put_items(call, made, place, &item, 1);
    put_items(call, made, place + 1, from->items + place, count - place);
    kilni_onnx_out(call, 0, made);
}

void kilni_onnx_op_sequence_erase(kilni_onnx_call *call)
{
    kilni_onnx_ref from = kilni_onnx_in_sequence(call, 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t place = place_of(call, position(call, 1, -1), from->n_items);
    kilni_onnx_ref made =
        kilni_onnx_ok(call) ? kilni_onnx_sequence(call, (int64_t)from->n_items - 1) : NULL;
    put_items(call, made, 0, from->items, place);
    put_items(call, made, place, from->items + place + 1, from->n_items - place - 1);
    kilni_onnx_out(call, 0, made);
}

void kilni_onnx_op_sequence_at(kilni_onnx_call *call)
{
    kilni_onnx_ref from = kilni_onnx_in_sequence(call, 0);
    int64_t at = kilni_onnx_value_number(call, kilni_onnx_in(call, 1)).v.i;
    uint32_t place = kilni_onnx_ok(call) ? place_of(call, at, from->n_items) : 0;
    kilni_onnx_out(call, 0, kilni_onnx_ok(call) ? from->items[place] : NULL);
}

void kilni_onnx_op_sequence_length(kilni_onnx_call *call)
{
    kilni_onnx_ref from = kilni_onnx_in_sequence(call, 0);
    kilni_onnx_out(call, 0, kilni_onnx_ok(call) ? kilni_onnx_const_int(call, from->n_items) : NULL);
}

// ---- from and to one tensor ----

/// Lengths of the parts into `out_parts`; without `split` or with one number, as equal as can be.
static int64_t part_count(kilni_onnx_call *call, kilni_onnx_ref split, int64_t length)
{
    if (split != NULL && split->desc.rank == 1) {
        return split->desc.dims[0];
    }
    int64_t each = split == NULL ? 1 : kilni_onnx_value_number(call, split).v.i;
    if (!kilni_onnx_ok(call) || each <= 0 || (split != NULL && split->desc.rank > 1)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "parts of length %lld", (long long)each);
        return 0;
    }
    return length / each + (length % each != 0);
}

static kilni_onnx_ref without_axis(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis)
{
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < x->desc.rank; i++) {
        if (i != axis) {
            dims[rank++] = x->desc.dims[i];
        }
    }
    return kilni_onnx_reshape(call, x, dims, rank);
}

/// The length of part `i`: from the list, or from the one number, the last as long as is left.
static int64_t part_length(kilni_onnx_call *call, kilni_onnx_ref split, int64_t i, int64_t left)
{
    if (split == NULL) {
        return 1;
    }
    if (split->desc.rank == 0) {
        int64_t each = kilni_onnx_value_number(call, split).v.i;
        return each < left ? each : left;
    }
    return kilni_onnx_value_int_at(call, split, i);
}

void kilni_onnx_op_split_to_sequence(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref split = kilni_onnx_opt(call, 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", 0), x->desc.rank);
    bool drops = split == NULL && kilni_onnx_attr_int(call, "keepdims", 1) == 0;
    int64_t length = kilni_onnx_ok(call) ? x->desc.dims[axis] : 0;
    int64_t count = part_count(call, split, length);
    kilni_onnx_ref made = kilni_onnx_sequence(call, count);
    int64_t at = 0;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        int64_t part = part_length(call, split, i, length - at);
        if (!kilni_onnx_ok(call) || part < 0 || part > length - at) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "parts exceed the length %lld of axis %u",
                            (long long)length, axis);
            return;
        }
        kilni_onnx_ref item = kilni_onnx_slice_axis(call, x, axis, at, at + part, 1);
        made->items[i] = kilni_onnx_retain(drops ? without_axis(call, item, axis) : item);
        at += part;
    }
    if (at != length) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "parts of %lld in all for the length %lld",
                        (long long)at, (long long)length);
    }
    kilni_onnx_out(call, 0, made);
}

void kilni_onnx_op_concat_from_sequence(kilni_onnx_call *call)
{
    kilni_onnx_ref from = kilni_onnx_in_sequence(call, 0);
    int64_t axis = kilni_onnx_attr_int(call, "axis", 0);
    bool fresh = kilni_onnx_attr_int(call, "new_axis", 0) != 0;
    if (kilni_onnx_ok(call) && from->n_items == 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "an empty sequence has nothing to join");
    }
    if (kilni_onnx_ok(call)) {
        kilni_onnx_out(call, 0,
                       fresh ? kilni_onnx_stack(call, from->items, from->n_items, axis)
                             : kilni_onnx_concat(call, from->items, from->n_items, axis));
    }
}

// ---- SequenceMap ----

/// Items of the first sequence; the others are as long, or tensors that every round sees.
static uint32_t map_length(kilni_onnx_call *call)
{
    kilni_onnx_ref first = kilni_onnx_in_sequence(call, 0);
    for (uint32_t i = 1; kilni_onnx_ok(call) && i < call->n_inputs; i++) {
        kilni_onnx_ref input = kilni_onnx_in_any(call, i);
        if (input != NULL && input->form == KILNI_ONNX_SEQUENCE &&
            input->n_items != first->n_items) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "sequences of %u and %u items", first->n_items,
                            input->n_items);
        }
    }
    return kilni_onnx_ok(call) ? first->n_items : 0;
}

static void map_item(kilni_onnx_call *call, const kilni_onnx_plan *body, uint32_t index,
                     kilni_onnx_ref *inputs, kilni_onnx_ref *outputs)
{
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        kilni_onnx_ref input = call->inputs[i];
        inputs[i] = input->form == KILNI_ONNX_SEQUENCE ? input->items[index] : input;
    }
    kilni_onnx_run_body(call, body, inputs, outputs);
    for (uint32_t i = 0; i < body->n_outputs; i++) {
        bool is_tensor = outputs[i] != NULL && outputs[i]->form == KILNI_ONNX_TENSOR;
        if (kilni_onnx_ok(call) && !is_tensor) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "output %u of the body is no tensor", i);
        }
        if (kilni_onnx_ok(call) && i < call->n_outputs) {
            call->outputs[i]->items[index] = outputs[i];
        } else {
            kilni_onnx_release(&call->session->env, outputs[i]);
        }
        outputs[i] = NULL;
    }
}

void kilni_onnx_op_sequence_map(kilni_onnx_call *call)
{
    uint32_t count = map_length(call);
    const kilni_onnx_plan *body = kilni_onnx_body(call, "body", call->n_inputs);
    if (body != NULL && call->n_outputs > body->n_outputs) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the body gives %u values for %u outputs",
                        body->n_outputs, call->n_outputs);
    }
    kilni_onnx_ref *inputs = kilni_onnx_refs(call, call->n_inputs);
    kilni_onnx_ref *outputs = kilni_onnx_refs(call, body == NULL ? 0 : body->n_outputs);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < call->n_outputs; i++) {
        kilni_onnx_out(call, i, kilni_onnx_sequence(call, count));
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        map_item(call, body, i, inputs, outputs);
    }
    kiln_free(&call->session->env, inputs);
    kiln_free(&call->session->env, outputs);
}

// ---- optionals ----

void kilni_onnx_op_optional(kilni_onnx_call *call)
{
    bool empty = call->n_inputs == 0 || call->inputs[0] == NULL;
    kilni_onnx_out(call, 0, empty ? kilni_onnx_nothing(call) : kilni_onnx_in_any(call, 0));
}

void kilni_onnx_op_optional_get_element(kilni_onnx_call *call)
{
    kilni_onnx_ref value = kilni_onnx_in_any(call, 0);
    if (value != NULL && value->form == KILNI_ONNX_NOTHING) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the optional holds nothing");
    }
    kilni_onnx_out(call, 0, value);
}

void kilni_onnx_op_optional_has_element(kilni_onnx_call *call)
{
    kilni_onnx_ref value = call->n_inputs > 0 ? call->inputs[0] : NULL;
    const uint8_t has = value != NULL && value->form != KILNI_ONNX_NOTHING;
    kilni_onnx_out(call, 0, kilni_onnx_const_data(call, KILN_DTYPE_BOOL, 0, NULL, &has));
}
