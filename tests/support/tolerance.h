// SPDX-License-Identifier: MIT OR Apache-2.0
// How far a backend's result may be from the reference: one table by operator, in tolerance.c.
// Values may only be lowered. Integers and bool are always exact.
#ifndef KILN_TESTS_SUPPORT_TOLERANCE_H
#define KILN_TESTS_SUPPORT_TOLERANCE_H

#include "ir.h"

typedef struct kiln_tolerance {
    double ulps; ///< of f32 and f64, in units of the expected value's last place
    double half_ulps; ///< of f16 and bf16, which are computed in f32
    double scaled; ///< instead of ulps: |d| <= scaled * eps * largest |expected| of the tensor
    double half_scaled;
    bool any_zero; ///< the sign of a zero is not compared
} kiln_tolerance;

kiln_tolerance kiln_tolerance_of(kiln_op op);

/// Compares `count` dense elements. False with the first difference in `out_text`.
bool kiln_tolerance_compare(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                            const void *actual, const void *expected, char *out_text,
                            size_t capacity);

/// Compares two quantised tensors: byte for byte, or scales within two units of their last place
/// and values within one step.
bool kiln_quant_compare(const kiln_tensor_desc *desc, bool exact, const void *actual,
                        const void *expected, char *out_text, size_t capacity);

#endif
