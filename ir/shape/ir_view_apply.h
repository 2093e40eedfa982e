// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_VIEW_APPLY_H
#define KILN_IR_VIEW_APPLY_H

/// What operators of class VIEW make of a view.

#include "ir_op.h"
#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The part of a view that the attributes of a slice or slice_assign name.
/// Ownership: borrowed. Lifetime: the buffer's. Thread: any. Errors: none.
KILN_API void kiln_view_slice(const kiln_op_record *record, const kiln_view *input,
                              kiln_view *out_view);

/// Applies an operator of class VIEW to a view without moving data. Gives false when strides cannot
/// express it (a reshape of a non-contiguous tensor): then the operation has to be executed as a
/// copy. Ownership: borrowed. Lifetime: the buffer's. Thread: any. Errors: false.
KILN_API bool kiln_view_apply(const kiln_op_record *record, const kiln_view *input,
                              kiln_view *out_view);

#ifdef __cplusplus
}
#endif

#endif
