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

/// A cast of bytes, or what takes a zero point off. 1: it joined, else the reason was reported.
uint32_t mm_bytes_push(mm_block *block, const kf_chain_device *device, const kf_host *host,
                       const kf_ew_row *row, const kf_op *op);
/// Are the operands of a product bytes that were taken before?
uint32_t mm_bytes_meet(const mm_block *block, const kf_op *op);
/// Completes the block's operands. 1: it can be done, else the reason was reported.
uint32_t mm_bytes_take(mm_block *block, const kf_host *host, const kf_op *op);
/// Tensor with an operand's zero points; MM_NO_VALUE: it has none, or a number.
uint32_t mm_bytes_zero_value(const mm_block *block, const mm_operand *operand);
/// Has each row of the left operand a zero point of its own?
uint32_t mm_bytes_zero_by_row(const mm_block *block);
/// Axis of the zero points along an operand's rows or columns; -1: there is one for all.
int mm_bytes_zero_axis(const mm_block *block, const mm_operand *operand);

// ---- text ----

/// The right operand, packed: for each panel the sums of its columns, then four terms of each
/// column as one word, and so on. Terms that are missing are 0.
void mm_bytes_formula_packed(kf_formula *f, const mm_plan *plan);
void mm_bytes_emit_functions(kf_text *text, const mm_plan *plan);
void mm_bytes_emit_pack(kf_text *text, const mm_plan *plan);
/// The product behind its batch's indices.
void mm_bytes_emit_product(kf_text *text, const mm_plan *plan);

#endif
