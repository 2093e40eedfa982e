// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_INDEX_RANGE_H
#define KILN_IR_INDEX_RANGE_H

/// Which values of an index operand name an element. Any thread may call the function; it borrows
/// its arguments. No pointer is NULL unless a function takes it.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Value i of an index operand, row-major, names an element when it is one of first[i % n] to
/// last[i % n].
typedef struct kiln_index_range {
    uint32_t n; ///< numbers that make up one place
    int64_t first[KILN_MAX_RANK];
    int64_t last[KILN_MAX_RANK];
    const char *otherwise; ///< "clamped" or "dropped"
} kiln_index_range;

/// Fills the range of input `input` of a complete and verified record. False when the input holds
/// no indices, or when any value is fine.
KILN_API bool kiln_op_index_range(const kiln_op_record *record, size_t input,
                                  kiln_index_range *out_range);

#ifdef __cplusplus
}
#endif

#endif
