// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_JUDGE_H
#define KILN_IR_JUDGE_H

/// How near is near enough: tolerances of operators, and of what a graph computes.

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
/// the table in tolerance.c, whose values may only be lowered. Integers and bool are exact. `for`:
/// with the least scale that the operands of a call give, whose elements lie dense in `data`.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: none.
KILN_API kiln_tolerance kiln_tolerance_of(kiln_op op, kiln_dtype dtype);
KILN_API kiln_tolerance kiln_tolerance_for(const kiln_op_record *record, unsigned output,
                                           const void *const *data);

/// Compares `count` dense elements; two quantised tensors: byte for byte, or scales within two
/// units of their last place and values within one step; and either for a result of a call, where
/// what `data` says of its operands counts: a result of quantize is exact, what finds scales itself
/// may round a sum otherwise. Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: false with
/// the first difference in `out_text`.
KILN_API bool kiln_tolerance_compare(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                                     const void *actual, const void *expected, char *out_text,
                                     size_t capacity);
KILN_API bool kiln_quant_compare(const kiln_tensor_desc *desc, bool exact, const void *actual,
                                 const void *expected, char *out_text, size_t capacity);
KILN_API bool kiln_tolerance_judge(const kiln_op_record *record, unsigned output,
                                   const void *const *data, const void *actual,
                                   const void *expected, char *out_text, size_t capacity);

/// What a graph means: the values of all its tensors by the reference functions, and how far the
/// results of another may be from them. That is the table's tolerance of the operator that makes a
/// result, and what errors within the tolerances of the operators before it do to it: found by
/// running the reference again with such errors, pseudo-random and the same in every process.
/// Ownership: `inputs` (dense, one for each input) and the graph are borrowed, `*out_judge` is the
/// caller's. Lifetime: the graph must outlive it. Thread: one at a time. Errors: those of the
/// reference functions, RESOURCE_EXHAUSTED.
typedef struct kiln_judge kiln_judge;
KILN_NODISCARD KILN_API kiln_status kiln_judge_create(const kiln_env *env,
                                                      const kiln_ir_graph *graph,
                                                      const void *const *inputs,
                                                      kiln_judge **out_judge, kiln_error *err);
KILN_API void kiln_judge_destroy(kiln_judge *judge);

/// The reference's value of a tensor, dense; and whether `actual` is near enough to an output:
/// to the reference, or, when it is not NULL, to `against`, which may be wrong as far itself.
/// Ownership: borrowed. Lifetime: the judge's. Thread: one at a time. Errors: NULL for an id that
/// is none; false with the first difference in `out_text`.
KILN_API const void *kiln_judge_value(const kiln_judge *judge, uint64_t id);
KILN_API bool kiln_judge_output(kiln_judge *judge, size_t output, const void *actual,
                                const void *against, char *out_text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
