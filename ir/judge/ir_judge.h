// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_JUDGE_H
#define KILN_IR_JUDGE_H

/// How near is near enough: tolerances of operators, and of what a graph computes. Integers and
/// bool are exact.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call. Where it compares, it gives false with the first difference in `out_text`. No pointer is
/// NULL unless a function takes it.

#include "ir_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_tolerance {
    double ulps; ///< in units of the expected value's last place
    double scaled; ///< instead of ulps: |d| <= scaled * eps * largest |expected| of the tensor
    double least_scale; ///< which counts for no less than this: results may cancel to nothing
    bool any_zero; ///< the sign of a zero is not compared
} kiln_tolerance;

/// How far a result may be from the reference, by class of the operator and dtype of the result:
/// the table in tolerance.c, whose values may only be lowered.
KILN_API kiln_tolerance kiln_tolerance_of(kiln_op op, kiln_dtype dtype);

/// The tolerance of a call's output, with the least scale that its operands give. The elements of
/// operand i lie dense at data[i].
KILN_API kiln_tolerance kiln_tolerance_for(const kiln_op_record *record, unsigned output,
                                           const void *const *data);

/// Compares `count` dense elements.
KILN_API bool kiln_tolerance_compare(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                                     const void *actual, const void *expected, char *out_text,
                                     size_t capacity);

/// Compares two quantised tensors: byte for byte when `exact`, otherwise scales within two units of
/// their last place and values within one step.
KILN_API bool kiln_quant_compare(const kiln_tensor_desc *desc, bool exact, const void *actual,
                                 const void *expected, char *out_text, size_t capacity);

/// Compares a result of a call as its operator allows, with what `data` says of its operands. A
/// result of quantize is exact; what finds scales itself may round a sum otherwise.
KILN_API bool kiln_tolerance_judge(const kiln_op_record *record, unsigned output,
                                   const void *const *data, const void *actual,
                                   const void *expected, char *out_text, size_t capacity);

/// What a graph means: the values of all its tensors by the reference functions, and how far the
/// results of another may be from them. That is the tolerance of the operator that makes a result,
/// plus what errors within the tolerances of the operators before it do to it. The latter is found
/// by running the reference again with such errors, pseudo-random and the same in every process.
typedef struct kiln_judge kiln_judge;

/// Makes a judge for `inputs`, dense, one for each input. The graph must outlive it. The caller
/// owns `*out_judge` (kiln_judge_destroy); one thread at a time uses it. Errors: those of the
/// reference functions, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_judge_create(const kiln_env *env,
                                                      const kiln_ir_graph *graph,
                                                      const void *const *inputs,
                                                      kiln_judge **out_judge, kiln_error *err);

/// Frees the judge. Takes NULL.
KILN_API void kiln_judge_destroy(kiln_judge *judge);

/// The reference's value of a tensor, dense; NULL for an id that is none. It lives as long as the
/// judge.
KILN_API const void *kiln_judge_value(const kiln_judge *judge, uint64_t id);

/// Whether `actual` is near enough to an output: to the reference, or, when it is not NULL, to
/// `against`, which may be as far off itself.
KILN_API bool kiln_judge_output(kiln_judge *judge, size_t output, const void *actual,
                                const void *against, char *out_text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
