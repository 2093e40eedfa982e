// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of repeat, roll, the triangles and eye: each element of the result asks where
// it comes from.
#include <string.h>

#include "reference_internal.h"

kiln_status kiln_ref_repeat(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    kilni_ref_walk walk;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK];
        for (uint32_t i = 0; i < inputs[0].rank; i++) {
            index[i] = walk.index[i] % inputs[0].dims[i];
        }
        kilni_ref_value value = kilni_ref_load(&inputs[0], kilni_ref_offset(&inputs[0], index));
        kilni_ref_store(&outputs[0], walk.at[0], value);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_roll(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, x->dims, x->rank);
    kilni_ref_walk_add(&walk, x);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK];
        for (uint32_t i = 0; i < x->rank; i++) {
            int64_t shift = kilni_ir_shift(call, x->rank, i, x->dims[i]);
            int64_t room = x->dims[i] - shift;
            index[i] = walk.index[i] < room ? walk.index[i] + shift : walk.index[i] - room;
        }
        kilni_ref_store(&outputs[0], kilni_ref_offset(&outputs[0], index),
                        kilni_ref_load(x, walk.at[0]));
    }
    return KILN_STATUS_OK;
}

/// column - row compared with the offset, which may be any number: -1, 0 or 1.
static int side_of(int64_t row, int64_t column, int64_t offset)
{
    int64_t diagonal = column - row;
    return (diagonal > offset) - (diagonal < offset);
}

static void triangle(const kiln_op_record *call, const kiln_view *x, const kiln_view *out,
                     int dropped_side)
{
    int64_t offset = kiln_op_attr_i64(call, KILN_KEY_OFFSET);
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, out->dims, out->rank);
    kilni_ref_walk_add(&walk, out);
    kilni_ref_walk_add(&walk, x);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        const int64_t *tail = &walk.index[out->rank - 2];
        bool dropped = side_of(tail[0], tail[1], offset) == dropped_side;
        kilni_ref_value kept = kilni_ref_load(x, walk.at[1]);
        kilni_ref_store(out, walk.at[0], dropped ? (kilni_ref_value){.u = 0} : kept);
    }
}

kiln_status kiln_ref_tril(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    (void)err;
    triangle(call, &inputs[0], &outputs[0], 1);
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_triu(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    (void)err;
    triangle(call, &inputs[0], &outputs[0], -1);
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_eye(const kiln_op_record *call, const kiln_view *inputs,
                         const kiln_view *outputs, kiln_error *err)
{
    int64_t offset = kiln_op_attr_i64(call, KILN_KEY_OFFSET);
    bool is_float = kilni_ref_is_float(outputs[0].dtype);
    kilni_ref_walk walk;
    (void)inputs;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        bool on = side_of(walk.index[0], walk.index[1], offset) == 0;
        kilni_ref_store(&outputs[0], walk.at[0],
                        is_float ? kilni_ref_of_float(on ? 1 : 0) : kilni_ref_of_bool(on));
    }
    return KILN_STATUS_OK;
}

/// Walks the side with blocks in the plane; `channels` is the other.
static void move_blocks(const kiln_op_record *call, const kiln_view *plane,
                        const kiln_view *channels, bool to_plane)
{
    int64_t size = kiln_op_attr_i64(call, KILN_KEY_SIZE);
    bool outer = kilni_ir_text(call, KILN_KEY_MODE)[0] == 'd';
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, plane->dims, 4);
    kilni_ref_walk_add(&walk, plane);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t place = walk.index[2] % size * size + walk.index[3] % size;
        int64_t channel =
            outer ? place * plane->dims[1] + walk.index[1] : walk.index[1] * size * size + place;
        const int64_t index[] = {walk.index[0], channel, walk.index[2] / size,
                                 walk.index[3] / size};
        int64_t at = kilni_ref_offset(channels, index);
        if (to_plane) {
            kilni_ref_store(plane, walk.at[0], kilni_ref_load(channels, at));
        } else {
            kilni_ref_store(channels, at, kilni_ref_load(plane, walk.at[0]));
        }
    }
}

kiln_status kiln_ref_depth_to_space(const kiln_op_record *call, const kiln_view *inputs,
                                    const kiln_view *outputs, kiln_error *err)
{
    (void)err;
    move_blocks(call, &outputs[0], &inputs[0], true);
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_space_to_depth(const kiln_op_record *call, const kiln_view *inputs,
                                    const kiln_view *outputs, kiln_error *err)
{
    (void)err;
    move_blocks(call, &inputs[0], &outputs[0], false);
    return KILN_STATUS_OK;
}
