// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of gather_nd, the scatters, assignments, one_hot, embedding and
// reverse_sequence. Decides what an index outside does: it is clamped where elements are taken and
// dropped where they are put. Scatters go through the values in row-major order. Sums and products
// of f16 and bf16 are rounded once, at the end.
#include <string.h>

#include "ir_view_apply.h"
#include "reference_internal.h"

// ---- taking ----

kiln_status kiln_ref_gather_nd(const kiln_op_record *call, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    const kiln_view *indices = &inputs[1];
    uint32_t batch = (uint32_t)kiln_op_attr_i64(call, KILN_KEY_BATCH_DIMS);
    uint32_t tuple_axis = indices->rank - 1;
    uint32_t depth = (uint32_t)indices->dims[tuple_axis];
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK];
        int64_t tuple[KILN_MAX_RANK];
        memcpy(index, walk.index, batch * sizeof(index[0]));
        memcpy(tuple, walk.index, tuple_axis * sizeof(tuple[0]));
        for (uint32_t k = 0; k < depth; k++) {
            tuple[tuple_axis] = k;
            int64_t given = kilni_ref_load(indices, kilni_ref_offset(indices, tuple)).i;
            index[batch + k] = kilni_ref_clamped(given, x->dims[batch + k]);
        }
        for (uint32_t i = batch + depth; i < x->rank; i++) {
            index[i] = walk.index[tuple_axis + i - batch - depth];
        }
        kilni_ref_value value = kilni_ref_load(x, kilni_ref_offset(x, index));
        kilni_ref_store(&outputs[0], walk.at[0], value);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_embedding(const kiln_op_record *call, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *weights = &inputs[0];
    const kiln_view *indices = &inputs[1];
    kilni_ref_walk walk;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t given = kilni_ref_load(indices, kilni_ref_offset(indices, walk.index)).i;
        const int64_t index[] = {kilni_ref_clamped(given, weights->dims[0]),
                                 walk.index[indices->rank]};
        kilni_ref_value value = kilni_ref_load(weights, kilni_ref_offset(weights, index));
        kilni_ref_store(&outputs[0], walk.at[0], value);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_reverse_sequence(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    const kiln_view *lengths = &inputs[1];
    uint32_t axis = 0;
    uint32_t batch = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_BATCH_AXIS), x->rank, &batch, err);
    }
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; status == KILN_STATUS_OK && !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK];
        int64_t length = kilni_ref_load(lengths, walk.index[batch] * lengths->strides[0]).i;
        length = length < x->dims[axis] ? length : x->dims[axis];
        memcpy(index, walk.index, sizeof(index));
        index[axis] = index[axis] < length ? length - 1 - index[axis] : index[axis];
        kilni_ref_value value = kilni_ref_load(x, kilni_ref_offset(x, index));
        kilni_ref_store(&outputs[0], walk.at[0], value);
    }
    return status;
}

kiln_status kiln_ref_one_hot(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *values = &inputs[0];
    const kiln_view *indices = &inputs[1];
    uint32_t axis = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), outputs[0].rank, &axis, err);
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; status == KILN_STATUS_OK && !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK] = {0};
        for (uint32_t i = 0; i < indices->rank; i++) {
            index[i] = walk.index[i < axis ? i : i + 1];
        }
        int64_t given = kilni_ref_load(indices, kilni_ref_offset(indices, index)).i;
        given += given < 0 ? outputs[0].dims[axis] : 0;
        bool hit = given == walk.index[axis];
        kilni_ref_store(&outputs[0], walk.at[0],
                        kilni_ref_load(values, hit ? values->strides[0] : 0));
    }
    return status;
}

// ---- putting ----

typedef enum update_kind { UPDATE_ELEMENTS, UPDATE_SELECT, UPDATE_TUPLES } update_kind;

typedef struct update { ///< values that go to places of the output
    update_kind kind;
    uint32_t axis;
    char mode; ///< first letter, 'i' for min
    const kiln_view *values;
    const kiln_view *indices;
    kiln_view out;
} update;

static bool place_of(const kiln_view *out, uint32_t axis, int64_t given, int64_t *index)
{
    given += given < 0 ? out->dims[axis] : 0;
    index[axis] = given;
    return given >= 0 && given < out->dims[axis];
}

/// Where the value at `from` goes; false when it is dropped.
static bool target_of(const update *u, const int64_t *from, int64_t *out_at)
{
    int64_t index[KILN_MAX_RANK] = {0};
    int64_t tuple[KILN_MAX_RANK] = {0};
    bool inside = true;
    if (u->kind == UPDATE_TUPLES) {
        uint32_t last = u->indices->rank - 1;
        uint32_t depth = (uint32_t)u->indices->dims[last];
        memcpy(tuple, from, last * sizeof(tuple[0]));
        for (uint32_t k = 0; inside && k < depth; k++) {
            tuple[last] = k;
            int64_t at = kilni_ref_offset(u->indices, tuple);
            inside = place_of(&u->out, k, kilni_ref_load(u->indices, at).i, index);
        }
        memcpy(index + depth, from + last, (u->out.rank - depth) * sizeof(index[0]));
    } else {
        int64_t at = u->kind == UPDATE_SELECT ? from[u->axis] * u->indices->strides[0]
                                              : kilni_ref_offset(u->indices, from);
        memcpy(index, from, u->out.rank * sizeof(index[0]));
        inside = place_of(&u->out, u->axis, kilni_ref_load(u->indices, at).i, index);
    }
    *out_at = inside ? kilni_ref_offset(&u->out, index) : 0;
    return inside;
}

static kilni_ref_value combine(char mode, kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    bool is_float = kilni_ref_is_float(dtype);
    switch (mode) {
    case 'a':
        return is_float ? kilni_ref_of_float(a.f + b.f) : (kilni_ref_value){.u = a.u + b.u};
    case 'm':
        return is_float ? kilni_ref_of_float(a.f * b.f) : (kilni_ref_value){.u = a.u * b.u};
    case 'i':
        return kilni_ref_min(a, b, dtype);
    case 'x':
        return kilni_ref_max(a, b, dtype);
    default:
        return b;
    }
}

/// One letter for each mode: 's' assign, 'a' add, 'm' mul, 'i' min, 'x' max.
static char letter_of(const char *mode)
{
    return mode[1] == 'u'   ? 'm'
           : mode[1] == 'd' ? 'a'
           : mode[1] == 's' ? 's'
           : mode[2] == 'n' ? 'i'
                            : 'x';
}

/// Every value in turn. Each step is rounded to the dtype, as a device does that keeps the sums in
/// the result.
static void put_in_order(const update *u)
{
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, u->values->dims, u->values->rank);
    kilni_ref_walk_add(&walk, u->values);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t at = 0;
        if (target_of(u, walk.index, &at)) {
            kilni_ref_value old = kilni_ref_load(&u->out, at);
            kilni_ref_value value = kilni_ref_load(u->values, walk.at[0]);
            kilni_ref_store(&u->out, at, combine(u->mode, old, value, u->out.dtype));
        }
    }
}

/// Every element of the result in turn, so that its sum is rounded once.
static void put_rounded_once(const update *u)
{
    kilni_ref_walk outer;
    kilni_ref_walk_init(&outer, u->out.dims, u->out.rank);
    kilni_ref_walk_add(&outer, &u->out);
    for (; !outer.done; kilni_ref_walk_next(&outer)) {
        kilni_ref_value sum = kilni_ref_load(&u->out, outer.at[0]);
        kilni_ref_walk walk;
        kilni_ref_walk_init(&walk, u->values->dims, u->values->rank);
        kilni_ref_walk_add(&walk, u->values);
        for (; !walk.done; kilni_ref_walk_next(&walk)) {
            int64_t at = 0;
            if (target_of(u, walk.index, &at) && at == outer.at[0]) {
                sum = combine(u->mode, sum, kilni_ref_load(u->values, walk.at[0]), u->out.dtype);
            }
        }
        kilni_ref_store(&u->out, outer.at[0], sum);
    }
}

static void put(const update *u)
{
    bool half = u->out.dtype == KILN_DTYPE_F16 || u->out.dtype == KILN_DTYPE_BF16;
    if (half && (u->mode == 'a' || u->mode == 'm')) {
        put_rounded_once(u);
    } else {
        put_in_order(u);
    }
}

static kiln_status scatter(const kiln_op_record *call, const kiln_view *inputs,
                           const kiln_view *outputs, update_kind kind, kiln_error *err)
{
    update u = {.kind = kind,
                .mode = letter_of(kilni_ir_text(call, KILN_KEY_MODE)),
                .values = &inputs[1],
                .indices = &inputs[2],
                .out = outputs[0]};
    kiln_status status = KILN_STATUS_OK;
    if (kind != UPDATE_TUPLES) {
        status =
            kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), u.out.rank, &u.axis, err);
    }
    if (status == KILN_STATUS_OK) {
        kilni_ref_copy(&inputs[0], &outputs[0]);
        put(&u);
    }
    return status;
}

kiln_status kiln_ref_scatter(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    return scatter(call, inputs, outputs, UPDATE_ELEMENTS, err);
}

kiln_status kiln_ref_select_assign(const kiln_op_record *call, const kiln_view *inputs,
                                   const kiln_view *outputs, kiln_error *err)
{
    return scatter(call, inputs, outputs, UPDATE_SELECT, err);
}

kiln_status kiln_ref_scatter_nd(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    return scatter(call, inputs, outputs, UPDATE_TUPLES, err);
}

/// The gradient has the indices' axes and one more, like the values of a scatter of one index.
kiln_status kiln_ref_embedding_backward(const kiln_op_record *call, const kiln_view *inputs,
                                        const kiln_view *outputs, kiln_error *err)
{
    kiln_view tuples = inputs[1];
    kilni_ref_walk walk;
    (void)call;
    if (tuples.rank == KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "embedding_backward: indices of rank %u",
                         tuples.rank);
    }
    tuples.dims[tuples.rank] = 1;
    tuples.strides[tuples.rank++] = 1;
    const update u = {.kind = UPDATE_TUPLES,
                      .mode = 'a',
                      .values = &inputs[0],
                      .indices = &tuples,
                      .out = outputs[0]};
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(&outputs[0], walk.at[0], (kilni_ref_value){.u = 0});
    }
    put(&u);
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_slice_assign(const kiln_op_record *call, const kiln_view *inputs,
                                  const kiln_view *outputs, kiln_error *err)
{
    kiln_view part;
    (void)err;
    if (inputs[0].buffer != outputs[0].buffer ||
        inputs[0].offset_bytes != outputs[0].offset_bytes) { // else in place
        kilni_ref_copy(&inputs[0], &outputs[0]);
    }
    kiln_view_slice(call, &outputs[0], &part);
    kilni_ref_copy(&inputs[1], &part);
    return KILN_STATUS_OK;
}
