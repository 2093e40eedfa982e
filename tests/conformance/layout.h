// SPDX-License-Identifier: MIT OR Apache-2.0
// Ways to lay a dense tensor out in memory, to try views on backends.
#ifndef KILN_TESTS_CONFORMANCE_LAYOUT_H
#define KILN_TESTS_CONFORMANCE_LAYOUT_H

#include "ir.h"

typedef enum layout_kind {
    LAYOUT_DENSE = 0,
    LAYOUT_PADDED = 1, ///< an offset, gaps between elements and rows
    LAYOUT_FLIPPED = 2, ///< first axis fastest, all axes backwards
    LAYOUT_EXPANDED = 3, ///< one axis repeats its first element
    LAYOUT_COUNT = 4
} layout_kind;

/// Makes a view (without buffer) of `desc` and the bytes that its buffer has to hold so that the
/// view shows `data`. EXPANDED changes the tensor, so `*out_dense` gets what the view really shows,
/// dense. Both outputs are the caller's (free). False when there is no memory.
bool layout_make(layout_kind kind, const kiln_tensor_desc *desc, const void *data,
                 kiln_view *out_view, void **out_memory, size_t *out_bytes, void **out_dense);

#endif
