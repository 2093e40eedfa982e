// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_EXPAND_INTERNAL_H
#define KILN_EXPAND_INTERNAL_H

/// What decompositions of composites are written with.

#include "attr_make.h"
#include "op_internal.h"

/// What a kiln_decompose_<name> writes to. Values are numbers: inputs of the call, then results of
/// what was written. The first failure stays: what is written after it does nothing and gives 0, so
/// that a decomposition needs no error handling; it must not read the description of value 0.
typedef struct kiln_expander kiln_expander;
typedef uint64_t kilni_value;

const kiln_op_record *kilni_expand_call(const kiln_expander *expander);
/// Input `index` of the call; 0 when it was left out.
kilni_value kilni_expand_input(const kiln_expander *expander, unsigned index);
/// A copy, so that it stays when more is written; of value 0 one without elements.
kiln_tensor_desc kilni_expand_desc(const kiln_expander *expander, kilni_value value);
void kilni_expand_fail(kiln_expander *expander, kiln_status status, const char *text);

/// Writes one operation; `out_values` gets a number for each of its results.
void kilni_expand_op(kiln_expander *expander, kiln_op op, const kilni_value *inputs,
                     size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                     kilni_value *out_values);
kilni_value kilni_expand_1(kiln_expander *expander, kiln_op op, kilni_value x);
kilni_value kilni_expand_2(kiln_expander *expander, kiln_op op, kilni_value a, kilni_value b);
kilni_value kilni_expand_3(kiln_expander *expander, kiln_op op, kilni_value a, kilni_value b,
                           kilni_value c);
kilni_value kilni_expand_scalar(kiln_expander *expander, kiln_op op, kilni_value x, double value);
/// f16 and bf16 as f32, so that a decomposition rounds once, at its end; others as they are.
kilni_value kilni_expand_wide(kiln_expander *expander, kilni_value x);
kilni_value kilni_expand_cast(kiln_expander *expander, kilni_value x, kiln_dtype dtype);
kilni_value kilni_expand_reshape(kiln_expander *expander, kilni_value x, const int64_t *dims,
                                 uint32_t rank);
kilni_value kilni_expand_permute(kiln_expander *expander, kilni_value x, const int64_t *axes,
                                 uint32_t rank);
/// Elements [start, end) along one axis.
kilni_value kilni_expand_slice(kiln_expander *expander, kilni_value x, uint32_t axis, int64_t start,
                               int64_t end);
kilni_value kilni_expand_reduce(kiln_expander *expander, kiln_op op, kilni_value x,
                                const int64_t *axes, uint32_t n_axes, bool keepdims);
kilni_value kilni_expand_matmul(kiln_expander *expander, kilni_value a, kilni_value b,
                                bool transpose_a, bool transpose_b);
kilni_value kilni_expand_full(kiln_expander *expander, const int64_t *dims, uint32_t rank,
                              kiln_dtype dtype, double value);

/// The value is not used any more; all that are left are dropped at the end.
void kilni_expand_drop(kiln_expander *expander, kilni_value value);
/// Does anybody take result `index`? What only others need need not be written.
bool kilni_expand_wants(const kiln_expander *expander, unsigned index);
/// Cast to the dtype of the result, when it has another. Nothing happens with one that is unused.
void kilni_expand_output(kiln_expander *expander, unsigned index, kilni_value value);

#endif
