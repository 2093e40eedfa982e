// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_MATMUL_BYTES_H
#define KILN_PLUGINS_MATMUL_BYTES_H

/// Products of 8-bit integers with sums of 32 bits, on processors: which operations make one
/// (matmul_bytes.c), and its text (matmul_bytes_text.c). Rows, columns, epilogue and launches are
/// those of any product.
///
/// The product is of operands as they lie, u8 or i8. Zero points come to the sums afterwards:
///     (a - za) (b - zb) = ab - za * sum(b) - zb * (sum(a) - k * za), all modulo 2^32
/// The instruction takes unsigned bytes times signed ones. So the right operand, which is packed
/// anyway, is made the opposite of the left one: where it is not, its first bit is flipped and 128
/// moves into its zero point.

#include "kf_dot.h"
#include "matmul_internal.h"

enum { MM_BYTES_LANES = 16 }; ///< of a vector of kf_dot4

// ---- which operations ----

/// Are the operands and zero points those of a product that is done on this device?
uint32_t mm_bytes_done(const mm_block *block, const kf_chain_device *device, const kf_op *op);
/// Completes the block's operands. 1: it can be done, else the reason was reported.
uint32_t mm_bytes_take(mm_block *block, const kf_host *host, const kf_op *op);
/// Has each row of the left operand a zero point of its own?
uint32_t mm_bytes_zero_by_row(const mm_block *block);
/// Axis of the zero points along an operand's rows or columns; -1: there is one for all, or none.
int mm_bytes_zero_axis(const mm_block *block, const mm_operand *operand);

// ---- text ----

void mm_bytes_emit_functions(kf_text *text, const mm_plan *plan);
/// The right operand, packed: for each panel the sums of its columns, then four terms of each
/// column as one word, and so on. Terms that are missing are 0.
void mm_bytes_emit_pack(kf_text *text, const mm_plan *plan);
/// The product behind its batch's indices.
void mm_bytes_emit_product(kf_text *text, const mm_plan *plan);

#endif
