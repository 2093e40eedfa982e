// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CL_EXEC_QUANT_DOT_H
#define KILN_CL_EXEC_QUANT_DOT_H

/// Few rows times the transposed of a weight of 4 or 8 bits.

#include "exec_internal.h"
#include "product_args.h"

/// log2 of a block's length along an axis; 62 for the whole axis.
int64_t kilni_exec_quant_shift(uint64_t scheme, uint32_t axis);

/// Whether the kernel takes this product of quantised operands, and the shape to launch it with.
bool kilni_exec_takes_quant_dot(const kilni_exec *exec, kiln_quant_dot_shape *out_shape);
kiln_status kilni_exec_quant_dot(kilni_exec *exec, kiln_quant_dot_shape *shape);

#endif
