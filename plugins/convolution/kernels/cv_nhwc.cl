// SPDX-License-Identifier: MIT OR Apache-2.0
// What every kernel of a region of 16 bits in groups begins with. An image lies with its channels
// innermost; a work-item has 8 of them, a piece of 16 bytes. The program defines KERNEL and PARAMS,
// VALUES(p), BITS(v) and VALUE(x) between memory and f32, and FINISH(v, at, block, places, 0): what
// becomes of piece `block` of the place `at` among those of all images, by the operators behind.

// The i-th 8 numbers of a pack.
#define LOAD(p, i) (((__global const float8 *)(p))[i])
#define STORE_PIECE(p, v) (*(__global uint4 *)(p) = as_uint4(v))
