// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_VIEW_APPLY_H
#define KILN_IR_VIEW_APPLY_H

/// What operators of class VIEW make of a view. All functions are pure: any thread may call them; a
/// view borrows its buffer. No pointer is NULL unless a function takes it.

#include "ir_op.h"
#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The part of a view that the attributes of a slice or slice_assign name.
KILN_API void kiln_view_slice(const kiln_op_record *record, const kiln_view *input,
                              kiln_view *out_view);

/// Applies an operator of class VIEW to a view without moving data. False when strides cannot
/// express the result, as for a reshape of a non-contiguous tensor: then the operation must be
/// executed as a copy.
KILN_API bool kiln_view_apply(const kiln_op_record *record, const kiln_view *input,
                              kiln_view *out_view);

#ifdef __cplusplus
}
#endif

#endif
