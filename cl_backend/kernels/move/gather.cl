// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements, or whole rows, taken by index along KILN_DEPTH axes. An index below 0 counts from the
// end; what is still outside is clamped, so that no index can leave the tensor.
//
//   KILN_O        element type of the result and of operand a (unsigned: elements are only moved)
//   KILN_B        i32 or i64: the indices, operand b
//   KILN_DEPTH    indices that make up one place, `distance` apart
//   KILN_ROWS     1 when an index serves a whole row of neighbours on both sides
//
// Strides of operand a are those of the other axes; those of the indexed axes are in kiln_tuple.

#include "move_args.h"

static inline long place_of(const kiln_tuple *t, __global const K_S(KILN_B) *indices)
{
    long place = 0;
    for (int k = 0; k < KILN_DEPTH; k++) {
        const long given = (long)indices[k * t->distance];
        const long index = given < 0 ? given + t->lengths[k] : given;
        place += clamp(index, 0l, t->lengths[k] - 1) * t->strides[k];
    }
    return place;
}

__kernel void kiln_gather(kiln_shape s, kiln_tuple t, __global K_S(KILN_O) *out,
                          __global const K_S(KILN_O) *in, __global const K_S(KILN_B) *indices)
{
    const kiln_piece piece = k_piece(&s);
    for (long row = piece.first_row; row < piece.last_row; row++) {
        const kiln_offsets at = k_row(&s, row);
        long j = piece.begin;
#if KILN_ROWS
        __global const K_S(KILN_O) *from = in + at.a + place_of(&t, indices + at.b);
        for (; j + KILN_V <= piece.end; j += KILN_V) {
            K_STV(KILN_O, out + at.o + j, K_LDV(KILN_O, from + j));
        }
        for (; j < piece.end; j++) {
            out[at.o + j] = from[j];
        }
#else
        for (; j < piece.end; j++) {
            const long place = place_of(&t, indices + at.b + j * s.stride[2][7]);
            out[at.o + j * s.stride[0][7]] = in[at.a + j * s.stride[1][7] + place];
        }
#endif
    }
}
