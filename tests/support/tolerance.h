// SPDX-License-Identifier: MIT OR Apache-2.0
// How far a backend's result may be from the reference: one table by class of operator and dtype,
// in tolerance.c. Values may only be lowered. Integers and bool are always exact.
#ifndef KILN_TESTS_SUPPORT_TOLERANCE_H
#define KILN_TESTS_SUPPORT_TOLERANCE_H

#include "ir.h"

typedef struct kiln_tolerance {
    double ulps; ///< in units of the expected value's last place
    double scaled; ///< instead of ulps: |d| <= scaled * eps * largest |expected| of the tensor
    double least_scale; ///< which counts for no less than this: results may cancel to nothing
    bool any_zero; ///< the sign of a zero is not compared
} kiln_tolerance;

/// By class of the operator and dtype of the result.
kiln_tolerance kiln_tolerance_of(kiln_op op, kiln_dtype dtype);

/// The same with the least scale that the operands of a call give, whose elements lie dense in
/// `data`.
kiln_tolerance kiln_tolerance_for(const kiln_op_record *record, unsigned output,
                                  const void *const *data);

/// Compares `count` dense elements. False with the first difference in `out_text`.
bool kiln_tolerance_compare(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                            const void *actual, const void *expected, char *out_text,
                            size_t capacity);

/// Compares two quantised tensors: byte for byte, or scales within two units of their last place
/// and values within one step.
bool kiln_quant_compare(const kiln_tensor_desc *desc, bool exact, const void *actual,
                        const void *expected, char *out_text, size_t capacity);

/// The two above for a result of a call: what `data` says of its operands counts. A result of
/// quantize is exact; what finds scales itself may round a sum otherwise.
bool kiln_tolerance_judge(const kiln_op_record *record, unsigned output, const void *const *data,
                          const void *actual, const void *expected, char *out_text,
                          size_t capacity);

#endif
