// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_VIEW_H
#define KILN_IR_VIEW_H

/// Views: tensors in memory, by offset and strides. All functions are pure: any thread may call
/// them; a view borrows its buffer. No pointer is NULL unless a function takes it.

#include "ir_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_buffer kiln_buffer; ///< a backend's memory; each backend defines its own

/// A tensor in memory: element (i0, i1, ...) is at offset_bytes + size * sum(i * stride).
typedef struct kiln_view {
    kiln_buffer *buffer; ///< NULL when the tensor has no elements
    int64_t offset_bytes;
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t strides[KILN_MAX_RANK]; ///< in elements; 0 repeats, negative runs backwards
} kiln_view;

/// Dense row-major view of a description at the start of `buffer`.
KILN_API kiln_view kiln_view_dense(const kiln_tensor_desc *desc, kiln_buffer *buffer);

/// Whether the view is dense and row-major. A view without elements is.
KILN_API bool kiln_view_is_contiguous(const kiln_view *view);

/// Whether it is a transposed matrix, or many: not dense, but dense with the last two axes swapped.
KILN_API bool kiln_view_is_turned(const kiln_view *view);

/// Whether elements lie side by side along the axis, counted from the end: 1 is the last one.
KILN_API bool kiln_view_is_dense_along(const kiln_view *view, uint32_t from_end);

/// Lowest byte and one past the highest byte that a view touches, relative to its buffer.
KILN_API void kiln_view_extent(const kiln_view *view, int64_t *out_begin, int64_t *out_end);

#ifdef __cplusplus
}
#endif

#endif
