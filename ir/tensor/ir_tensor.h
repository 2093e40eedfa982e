// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_TENSOR_H
#define KILN_IR_TENSOR_H

/// The description of a tensor: dtype, shape, and what is known of its memory. All functions are
/// pure: any thread may call them. No pointer is NULL unless a function takes it.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MAX_RANK 8

enum { ///< facts about a tensor's memory, known when `KILN_TENSOR_PLACED`
    KILN_TENSOR_PLACED = 1u, ///< it has memory now; without it the other facts are not known
    KILN_TENSOR_CONTIGUOUS = 2u, ///< dense, row-major
    KILN_TENSOR_CONST = 4u, ///< never changes and outlives plans (weights)
    KILN_TENSOR_ZERO_OFFSET = 8u, ///< its first element is its buffer's first
    KILN_TENSOR_TURNED = 16u, ///< a transposed matrix: dense once the last two axes are swapped
    KILN_TENSOR_LINES = 32u, ///< neither, but along its last axis elements lie side by side
    KILN_TENSOR_COLUMNS = 64u ///< nothing of these, but along the axis before the last they do
};

typedef struct kiln_tensor_desc {
    uint64_t id; ///< unique in the process, never 0, never used again
    kiln_dtype dtype;
    uint8_t rank;
    uint8_t flags; ///< KILN_TENSOR_*
    uint8_t align_log2; ///< of its first byte, when placed
    uint8_t small; ///< of u8: the small float dtype of the bits, for callers only; 0: u8
    int64_t dims[KILN_MAX_RANK]; ///< 0 beyond the rank
    uint64_t scheme; ///< of a quantised tensor (kiln_scheme_make); 0 otherwise
} kiln_tensor_desc;

typedef struct kiln_tensor_const { ///< a small constant inside an attribute; dense, row-major
    kiln_tensor_desc desc;
    const void *data;
} kiln_tensor_const;

/// Number of elements; -1 when it exceeds int64.
KILN_API int64_t kiln_desc_count(const kiln_tensor_desc *desc);

/// Bytes of all elements, dense; -1 when they exceed int64.
KILN_API int64_t kiln_desc_bytes(const kiln_tensor_desc *desc);

/// Whether rank and lengths are equal.
KILN_API bool kiln_desc_same_shape(const kiln_tensor_desc *a, const kiln_tensor_desc *b);

#ifdef __cplusplus
}
#endif

#endif
