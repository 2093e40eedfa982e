// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TENSOR_INTERNAL_H
#define KILN_TENSOR_INTERNAL_H

/// Arithmetic that says when int64 is exceeded, and texts of shapes for errors.

#include "ir_tensor.h"

bool kilni_ir_add(int64_t a, int64_t b, int64_t *out_sum);
bool kilni_ir_sub(int64_t a, int64_t b, int64_t *out_difference);
bool kilni_ir_mul(int64_t a, int64_t b, int64_t *out_product);

enum { KILNI_IR_SHAPE_TEXT = 80 };

/// Writes "[2,3]" into `out_text`, shortened with ".." when it does not fit, and returns it.
const char *kilni_ir_dims_text(const int64_t *dims, uint32_t rank,
                               char out_text[KILNI_IR_SHAPE_TEXT]);
const char *kilni_ir_desc_text(const kiln_tensor_desc *desc, char out_text[KILNI_IR_SHAPE_TEXT]);

#endif
