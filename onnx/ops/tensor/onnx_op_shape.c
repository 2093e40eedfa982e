// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's operators that change shapes and layout. Lengths, axes and repeats are host numbers:
// attributes of older versions, inputs of newer ones. Most become views.
#include "onnx_import.h"

#include <string.h>

void kilni_onnx_op_identity(kilni_onnx_call *call)
{
    kilni_onnx_out(call, 0, kilni_onnx_in_any(call, 0));
}

/// Python's clamped index for start and end of Shape.
static uint32_t clamp_index(int64_t index, uint32_t rank)
{
    index += index < 0 ? (int64_t)rank : 0;
    return (uint32_t)(index < 0 ? 0 : index > (int64_t)rank ? (int64_t)rank : index);
}

void kilni_onnx_op_shape(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t rank = x->desc.rank;
    uint32_t start = clamp_index(kilni_onnx_attr_int(call, "start", 0), rank);
    uint32_t end = clamp_index(kilni_onnx_attr_int(call, "end", rank), rank);
    uint32_t count = end > start ? end - start : 0;
    kilni_onnx_out(call, 0, kilni_onnx_const_ints(call, x->desc.dims + start, count));
}

void kilni_onnx_op_size(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    if (kilni_onnx_ok(call)) {
        kilni_onnx_out(call, 0, kilni_onnx_const_int(call, kiln_desc_count(&x->desc)));
    }
}

/// Numbers from an attribute, or from the input of newer versions. False when neither is there.
static bool numbers(kilni_onnx_call *call, const char *attr, uint32_t input,
                    kilni_onnx_ints *out_ints)
{
    if (kilni_onnx_attr_ints(call, attr, out_ints)) {
        return true;
    }
    kilni_onnx_ref value = kilni_onnx_opt(call, input);
    if (value == NULL) {
        return false;
    }
    *out_ints = kilni_onnx_value_ints(call, value);
    return kilni_onnx_ok(call);
}

static bool check_rank(kilni_onnx_call *call, uint32_t rank)
{
    if (rank > KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "rank %u exceeds limit %d", rank, KILN_MAX_RANK);
    }
    return kilni_onnx_ok(call);
}

void kilni_onnx_op_reshape(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints shape = {.count = 0};
    bool allow_zero = kilni_onnx_attr_int(call, "allowzero", 0) != 0;
    if (!numbers(call, "shape", 1, &shape)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the shape is missing");
    }
    if (!kilni_onnx_ok(call) || !check_rank(call, shape.count)) {
        return;
    }
    for (uint32_t i = 0; i < shape.count; i++) {
        if (shape.v[i] == 0 && !allow_zero) {
            if (i >= x->desc.rank) {
                KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                                "length 0 at axis %u of an input of rank %u", i, x->desc.rank);
                return;
            }
            shape.v[i] = x->desc.dims[i];
        }
    }
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, x, shape.v, shape.count));
}

void kilni_onnx_op_flatten(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    int64_t axis = kilni_onnx_attr_int(call, "axis", 1);
    uint32_t rank = x->desc.rank;
    uint32_t at = axis == (int64_t)rank ? rank : kilni_onnx_axis(call, axis, rank);
    const int64_t dims[] = {kilni_onnx_span_of(&x->desc, 0, at),
                            kilni_onnx_span_of(&x->desc, at, rank)};
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, x, dims, 2));
}

void kilni_onnx_op_transpose(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints axes;
    kilni_onnx_attr_ints(call, "perm", &axes);
    kilni_onnx_ref y = kilni_onnx_permute(call, x, axes.v, axes.count);
    if (kilni_onnx_ok(call) && x->constant && !y->constant && x->desc.rank == 2 &&
        y->turned == NULL && (axes.count == 0 || axes.v[0] == 1)) {
        y->turned = kilni_onnx_retain(x);
    }
    kilni_onnx_out(call, 0, y);
}

void kilni_onnx_op_squeeze(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints axes = {.count = 0};
    bool given = numbers(call, "axes", 1, &axes);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    bool gone[KILN_MAX_RANK] = {false};
    for (uint32_t i = 0; i < axes.count; i++) {
        uint32_t axis = kilni_onnx_axis(call, axes.v[i], x->desc.rank);
        if (kilni_onnx_ok(call) && x->desc.dims[axis] != 1) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "axis %u has length %lld, not 1", axis,
                            (long long)x->desc.dims[axis]);
        }
        gone[axis] = true;
    }
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        bool drop = given ? gone[i] : x->desc.dims[i] == 1;
        if (!drop) {
            dims[rank++] = x->desc.dims[i];
        }
    }
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, x, dims, rank));
}

void kilni_onnx_op_unsqueeze(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints axes = {.count = 0};
    if (!numbers(call, "axes", 1, &axes)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the axes are missing");
    }
    if (!kilni_onnx_ok(call) || !check_rank(call, x->desc.rank + axes.count)) {
        return;
    }
    uint32_t rank = x->desc.rank + axes.count;
    bool fresh[KILN_MAX_RANK] = {false};
    for (uint32_t i = 0; i < axes.count; i++) {
        uint32_t axis = kilni_onnx_axis(call, axes.v[i], rank);
        if (kilni_onnx_ok(call) && fresh[axis]) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "axis %u is named twice", axis);
        }
        fresh[axis] = true;
    }
    int64_t dims[KILN_MAX_RANK];
    uint32_t from = 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < rank; i++) {
        dims[i] = fresh[i] ? 1 : x->desc.dims[from++];
    }
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, x, dims, rank));
}

/// The wanted shape and x's own broadcast each other: a wanted 1 keeps x's length.
void kilni_onnx_op_expand(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints shape = kilni_onnx_value_ints(call, kilni_onnx_in(call, 1));
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t rank = shape.count > x->desc.rank ? shape.count : x->desc.rank;
    int64_t dims[KILN_MAX_RANK];
    for (uint32_t i = 0; check_rank(call, rank) && i < rank; i++) {
        uint32_t from_end = rank - i;
        int64_t own = from_end <= x->desc.rank ? x->desc.dims[x->desc.rank - from_end] : 1;
        int64_t wanted = from_end <= shape.count ? shape.v[shape.count - from_end] : 1;
        dims[i] = wanted == 1 ? own : wanted;
    }
    kilni_onnx_out(call, 0, kilni_onnx_expand(call, x, dims, rank));
}

/// A number that the first version takes in the data's own type.
static kilni_onnx_ref as_integers(kilni_onnx_call *call, uint32_t input)
{
    return kilni_onnx_cast(call, kilni_onnx_in(call, input), KILN_DTYPE_I64);
}

/// Version 1 gives the times and the axis as inputs of one number.
void kilni_onnx_op_tile(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints repeats = kilni_onnx_value_ints(call, as_integers(call, 1));
    if (kilni_onnx_ok(call) && call->version < 6) {
        int64_t axis = kilni_onnx_value_number(call, as_integers(call, 2)).v.i;
        uint32_t at = kilni_onnx_axis(call, axis, x->desc.rank);
        int64_t times = repeats.count > 0 ? repeats.v[0] : 1;
        repeats.count = x->desc.rank;
        for (uint32_t i = 0; i < x->desc.rank; i++) {
            repeats.v[i] = i == at ? times : 1;
        }
    }
    const kiln_attr attr = kilni_attr_ints(repeats.v, repeats.count);
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_REPEAT, &x, 1, &attr, 1));
}

// ---- parts ----

static void slice_to_output(kilni_onnx_call *call, kilni_onnx_ref x, const kilni_onnx_ints *starts,
                            const kilni_onnx_ints *ends, const kilni_onnx_ints *axes,
                            const kilni_onnx_ints *steps)
{
    int64_t first[KILN_MAX_RANK];
    int64_t last[KILN_MAX_RANK];
    int64_t step[KILN_MAX_RANK];
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (ends->count != starts->count || (axes->count != 0 && axes->count != starts->count) ||
        (steps->count != 0 && steps->count != starts->count)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u starts, %u ends, %u axes and %u steps",
                        starts->count, ends->count, axes->count, steps->count);
        return;
    }
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        first[i] = 0;
        last[i] = x->desc.dims[i];
        step[i] = 1;
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < starts->count; i++) {
        uint32_t axis = kilni_onnx_axis(call, axes->count > 0 ? axes->v[i] : i, x->desc.rank);
        first[axis] = starts->v[i];
        last[axis] = ends->v[i];
        step[axis] = steps->count > 0 ? steps->v[i] : 1;
    }
    kilni_onnx_out(call, 0, kilni_onnx_slice(call, x, first, last, step));
}

void kilni_onnx_op_slice_attrs(kilni_onnx_call *call)
{
    kilni_onnx_ints starts;
    kilni_onnx_ints ends;
    kilni_onnx_ints axes;
    kilni_onnx_ints steps = {.count = 0};
    kilni_onnx_attr_ints(call, "starts", &starts);
    kilni_onnx_attr_ints(call, "ends", &ends);
    kilni_onnx_attr_ints(call, "axes", &axes);
    slice_to_output(call, kilni_onnx_in(call, 0), &starts, &ends, &axes, &steps);
}

void kilni_onnx_op_slice(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints starts = kilni_onnx_value_ints(call, kilni_onnx_in(call, 1));
    kilni_onnx_ints ends = kilni_onnx_value_ints(call, kilni_onnx_in(call, 2));
    kilni_onnx_ints axes = kilni_onnx_value_ints(call, kilni_onnx_opt(call, 3));
    kilni_onnx_ints steps = kilni_onnx_value_ints(call, kilni_onnx_opt(call, 4));
    slice_to_output(call, x, &starts, &ends, &axes, &steps);
}

/// Lengths of the parts: given, or as equal as can be with a shorter last one.
static void split_lengths(kilni_onnx_call *call, int64_t length, kilni_onnx_ints *parts)
{
    bool given = kilni_onnx_opt(call, 1) != NULL && call->version < 2;
    if (given) {
        *parts = kilni_onnx_value_ints(call, as_integers(call, 1));
    }
    if (given || numbers(call, "split", 1, parts)) {
        if (parts->count != call->n_outputs) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u lengths for %u outputs", parts->count,
                            call->n_outputs);
        }
        return;
    }
    int64_t count = kilni_onnx_attr_int(call, "num_outputs", call->n_outputs);
    if (!kilni_onnx_ok(call) || count != call->n_outputs ||
        count > (int64_t)(sizeof(parts->v) / sizeof(parts->v[0])) || count == 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld parts for %u outputs", (long long)count,
                        call->n_outputs);
        return;
    }
    int64_t each = (length + count - 1) / count;
    for (uint32_t i = 0; i < call->n_outputs; i++) {
        int64_t left = length - each * (int64_t)i;
        parts->v[i] = left < 0 ? 0 : left < each ? left : each;
    }
    parts->count = call->n_outputs;
}

void kilni_onnx_op_split(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints parts = {.count = 0};
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", 0), x->desc.rank);
    if (kilni_onnx_ok(call)) {
        split_lengths(call, x->desc.dims[axis], &parts);
    }
    int64_t at = 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < parts.count; i++) {
        int64_t length = x->desc.dims[axis];
        if (parts.v[i] < 0 || parts.v[i] > length - at) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "parts exceed the length %lld of axis %u",
                            (long long)length, axis);
            return;
        }
        kilni_onnx_out(call, i, kilni_onnx_slice_axis(call, x, axis, at, at + parts.v[i], 1));
        at += parts.v[i];
    }
}

void kilni_onnx_op_concat(kilni_onnx_call *call)
{
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        (void)kilni_onnx_in(call, i);
    }
    int64_t axis = kilni_onnx_attr_int(call, "axis", 1);
    if (call->n_inputs == 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "no inputs");
    }
    kilni_onnx_out(call, 0, kilni_onnx_concat(call, call->inputs, call->n_inputs, axis));
}

// ---- padding ----

static kiln_number pad_value(kilni_onnx_call *call, const kilni_onnx_value *x)
{
    kilni_onnx_ref given = call->version >= 11 ? kilni_onnx_opt(call, 2) : NULL;
    if (given != NULL) {
        return kilni_onnx_value_number(call, given);
    }
    double value = kilni_onnx_attr_float(call, "value", 0);
    return kilni_onnx_is_float(x) ? kiln_f64(value) : kiln_i64((int64_t)value);
}

/// The amounts of the named axes, spread over all axes.
static void pad_amounts(kilni_onnx_call *call, uint32_t rank, int64_t padding[2 * KILN_MAX_RANK])
{
    kilni_onnx_ints amounts = {.count = 0};
    kilni_onnx_ints axes = {.count = 0};
    if (!numbers(call, call->version < 2 ? "paddings" : "pads", 1, &amounts)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the amounts are missing");
    }
    if (call->version >= 18) {
        axes = kilni_onnx_value_ints(call, kilni_onnx_opt(call, 3));
    }
    uint32_t count = axes.count > 0 ? axes.count : rank;
    if (!kilni_onnx_ok(call) || amounts.count != 2 * count) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u amounts for %u axes", amounts.count, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = kilni_onnx_axis(call, axes.count > 0 ? axes.v[i] : i, rank);
        padding[axis] = amounts.v[i];
        padding[rank + axis] = amounts.v[count + i];
    }
}

/// Elements from the other end, round and round when there are more than one turn of them.
static kilni_onnx_ref wrap_axis(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis,
                                int64_t begin, int64_t end)
{
    int64_t length = x->desc.dims[axis];
    const int64_t dims[] = {length + begin + end};
    if (begin == 0 && end == 0) {
        return x;
    }
    if (length == 0 || dims[0] < 0 || dims[0] > KILNI_ONNX_MAX_LIST || begin > dims[0] - end) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "axis %u of length %lld cannot wrap %lld and %lld",
                        axis, (long long)length, (long long)begin, (long long)end);
        return NULL;
    }
    kilni_onnx_ref indices = kilni_onnx_scratch(call, KILN_DTYPE_I64, 1, dims);
    int64_t *places = indices == NULL ? NULL : indices->owned;
    for (int64_t i = 0; places != NULL && i < dims[0]; i++) {
        places[i] = ((i - begin) % length + length) % length;
    }
    return kilni_onnx_indexed(call, KILN_OP_SELECT, x, indices, axis);
}

void kilni_onnx_op_pad(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    const char *mode = kilni_onnx_attr_text(call, "mode", "constant");
    int64_t padding[2 * KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call)) {
        return;
    }
    bool wraps = call->version >= 19 && strcmp(mode, "wrap") == 0;
    if (!wraps && strcmp(mode, "constant") != 0 && strcmp(mode, "edge") != 0 &&
        strcmp(mode, "reflect") != 0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "padding mode '%s' is not supported", mode);
    }
    pad_amounts(call, x->desc.rank, padding);
    for (uint32_t i = 0; wraps && kilni_onnx_ok(call) && i < x->desc.rank; i++) {
        x = wrap_axis(call, x, i, padding[i], padding[x->desc.rank + i]);
    }
    if (wraps) {
        kilni_onnx_out(call, 0, x);
        return;
    }
    kiln_number value = pad_value(call, x);
    kilni_onnx_out(call, 0, kilni_onnx_pad(call, x, padding, mode, value));
}

// ---- blocks to channels and back ----

static void move_blocks(kilni_onnx_call *call, kiln_op op)
{
    bool dcr = strcmp(kilni_onnx_attr_text(call, "mode", "DCR"), "DCR") == 0;
    const char *mode = dcr ? "dcr" : "crd";
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    const kiln_attr attrs[] = {
        kilni_attr_i64(kilni_onnx_attr_int(call, "blocksize", 0)),
        {.type = KILN_ATTR_STRING, .count = (uint32_t)strlen(mode), .v.text = mode}};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, op, &x, 1, attrs, 2));
}

void kilni_onnx_op_space_to_depth(kilni_onnx_call *call)
{
    move_blocks(call, KILN_OP_SPACE_TO_DEPTH);
}

void kilni_onnx_op_depth_to_space(kilni_onnx_call *call)
{
    move_blocks(call, KILN_OP_DEPTH_TO_SPACE);
}
