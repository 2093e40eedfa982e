// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_INDEX_RANGE_H
#define KILN_IR_INDEX_RANGE_H

/// Which values of an index operand name an element.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Which values of an index operand name something: value i of it, row-major, is one of
/// first[i % n] to last[i % n]; what kernels do with others is `otherwise`.
typedef struct kiln_index_range {
    uint32_t n; ///< numbers that make up one place
    int64_t first[KILN_MAX_RANK];
    int64_t last[KILN_MAX_RANK];
    const char *otherwise; ///< "clamped" or "dropped"
} kiln_index_range;

/// False: input `input` holds no indices, or any value is fine. The record is complete and
/// verified. Ownership: the caller's struct. Lifetime: static text. Thread: any. Errors: false.
KILN_API bool kiln_op_index_range(const kiln_op_record *record, size_t input,
                                  kiln_index_range *out_range);

#ifdef __cplusplus
}
#endif

#endif
