// SPDX-License-Identifier: MIT OR Apache-2.0
// Repeat, roll, triangles and identity matrices as views, copies and comparisons of places, which
// elementwise fusers can take in.
#include <string.h>

#include "decompose_internal.h"
#include "expand_internal.h"
#include "shape_internal.h"

// ---- repeat ----

static kilni_value expand_to(kiln_expander *expander, kilni_value x, const int64_t *dims,
                             uint32_t rank)
{
    const kiln_attr attr = kilni_attr_ints(dims, rank);
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_EXPAND, &x, 1, &attr, 1, &result);
    return result;
}

/// Repeats the axes from `first` on of which bits are set in `mask`: each gets a new axis before
/// it, along which it is broadcast.
static kilni_value repeat_axes(kiln_expander *expander, kilni_value x, const int64_t *repeats,
                               uint32_t mask)
{
    const kiln_tensor_desc desc = kilni_expand_desc(expander, x);
    int64_t apart[KILN_MAX_RANK];
    int64_t wide[KILN_MAX_RANK];
    int64_t joined[KILN_MAX_RANK];
    uint32_t rank = 0;
    bool run = false;
    for (uint32_t i = 0; i < desc.rank; i++) {
        bool repeated = (mask >> i & 1u) != 0;
        joined[i] = desc.dims[i] * (repeated ? repeats[i] : 1);
        if (repeated) {
            apart[rank] = 1;
            wide[rank++] = repeats[i];
        }
        if (repeated || !run) {
            apart[rank] = wide[rank] = desc.dims[i];
            rank++;
        } else {
            apart[rank - 1] = wide[rank - 1] = apart[rank - 1] * desc.dims[i];
        }
        run = true;
    }
    x = kilni_expand_reshape(expander, x, apart, rank);
    x = expand_to(expander, x, wide, rank);
    return kilni_expand_reshape(expander, x, joined, desc.rank);
}

/// As many axes at once as the rank allows: each repeated axis takes two, and may end a run.
void kiln_decompose_repeat(kiln_expander *expander)
{
    uint32_t count = 0;
    const int64_t *repeats = kilni_ir_ints(kilni_expand_call(expander), KILN_KEY_REPEATS, &count);
    kilni_value x = kilni_expand_input(expander, 0);
    uint32_t mask = 0;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (repeats[i] != 1) {
            mask |= 1u << i;
            taken++;
        }
        if (taken == KILN_MAX_RANK / 2 - 1 || (i + 1 == count && taken > 0)) {
            x = repeat_axes(expander, x, repeats, mask);
            mask = taken = 0;
        }
    }
    kilni_expand_output(expander, 0, x);
}

// ---- roll ----

void kiln_decompose_roll(kiln_expander *expander)
{
    kilni_value x = kilni_expand_input(expander, 0);
    const kiln_tensor_desc desc = kilni_expand_desc(expander, x);
    for (uint32_t i = 0; i < desc.rank; i++) {
        int64_t length = desc.dims[i];
        int64_t shift = kilni_ir_shift(kilni_expand_call(expander), desc.rank, i, length);
        if (shift == 0) {
            continue;
        }
        const kiln_attr axis = {.type = KILN_ATTR_I64, .count = 1, .v.i = i};
        const kilni_value parts[] = {kilni_expand_slice(expander, x, i, length - shift, length),
                                     kilni_expand_slice(expander, x, i, 0, length - shift)};
        kilni_value joined = 0;
        kilni_expand_op(expander, KILN_OP_CONCAT, parts, 2, &axis, 1, &joined);
        kilni_expand_drop(expander, x);
        x = joined;
    }
    kilni_expand_output(expander, 0, x);
}

// ---- diagonals ----

/// start, start + 1, ... down the rows or along the columns of a matrix.
static kilni_value places(kiln_expander *expander, int64_t count, int64_t start, bool down)
{
    const int64_t column[] = {count, 1};
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_I64, .count = 1, .v.i = count},
        {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = KILN_DTYPE_I64},
        {.type = KILN_ATTR_I64, .count = 1, .v.i = start},
        {.type = KILN_ATTR_NONE},
    };
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_ARANGE, NULL, 0, attrs, 4, &result);
    return down ? kilni_expand_reshape(expander, result, column, 2) : result;
}

/// Compares the column with row + offset; an offset beyond the matrix is as good as its corner.
static kilni_value compare_places(kiln_expander *expander, kiln_op op, const int64_t *tail)
{
    int64_t offset = kiln_op_attr_i64(kilni_expand_call(expander), KILN_KEY_OFFSET);
    offset = offset < -tail[0] ? -tail[0] : offset > tail[1] ? tail[1] : offset;
    kilni_value row = places(expander, tail[0], offset, true);
    kilni_value column = places(expander, tail[1], 0, false);
    return kilni_expand_2(expander, op, column, row);
}

static void triangle(kiln_expander *expander, kiln_op dropped)
{
    kilni_value x = kilni_expand_input(expander, 0);
    const kiln_tensor_desc desc = kilni_expand_desc(expander, x);
    const kiln_attr zero = {.type = KILN_ATTR_I64, .count = 1, .v.i = 0};
    const kilni_value inputs[] = {x, compare_places(expander, dropped, &desc.dims[desc.rank - 2])};
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_MASK_FILL, inputs, 2, &zero, 1, &result);
    kilni_expand_output(expander, 0, result);
}

void kiln_decompose_tril(kiln_expander *expander)
{
    triangle(expander, KILN_OP_GREATER);
}

void kiln_decompose_triu(kiln_expander *expander)
{
    triangle(expander, KILN_OP_LESS);
}

void kiln_decompose_eye(kiln_expander *expander)
{
    const kiln_tensor_desc *out = &kilni_expand_call(expander)->outputs[0];
    kilni_expand_output(expander, 0, compare_places(expander, KILN_OP_EQUAL, out->dims));
}

// ---- blocks ----

/// Through six axes: the channel and each side of the plane apart from the places in a block.
void kiln_decompose_depth_to_space(kiln_expander *expander)
{
    static const int64_t outer[] = {0, 3, 4, 1, 5, 2};
    static const int64_t inner[] = {0, 1, 4, 2, 5, 3};
    const kiln_op_record *call = kilni_expand_call(expander);
    bool dcr = kilni_ir_text(call, KILN_KEY_MODE)[0] == 'd';
    int64_t size = kiln_op_attr_i64(call, KILN_KEY_SIZE);
    const int64_t *d = call->inputs[0].dims;
    const int64_t *to = call->outputs[0].dims;
    const int64_t apart[][6] = {{d[0], to[1], size, size, d[2], d[3]},
                                {d[0], size, size, to[1], d[2], d[3]}};
    kilni_value x = kilni_expand_reshape(expander, kilni_expand_input(expander, 0), apart[dcr], 6);
    x = kilni_expand_permute(expander, x, dcr ? outer : inner, 6);
    kilni_expand_output(expander, 0, kilni_expand_reshape(expander, x, to, 4));
}

void kiln_decompose_space_to_depth(kiln_expander *expander)
{
    static const int64_t outer[] = {0, 3, 5, 1, 2, 4};
    static const int64_t inner[] = {0, 1, 3, 5, 2, 4};
    const kiln_op_record *call = kilni_expand_call(expander);
    bool dcr = kilni_ir_text(call, KILN_KEY_MODE)[0] == 'd';
    int64_t size = kiln_op_attr_i64(call, KILN_KEY_SIZE);
    const int64_t *d = call->inputs[0].dims;
    const int64_t *to = call->outputs[0].dims;
    const int64_t apart[] = {d[0], d[1], to[2], size, to[3], size};
    kilni_value x = kilni_expand_reshape(expander, kilni_expand_input(expander, 0), apart, 6);
    x = kilni_expand_permute(expander, x, dcr ? outer : inner, 6);
    kilni_expand_output(expander, 0, kilni_expand_reshape(expander, x, to, 4));
}
