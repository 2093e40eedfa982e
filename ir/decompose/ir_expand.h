// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_EXPAND_H
#define KILN_IR_EXPAND_H

/// Composites: operators that are written as simpler ones. Any thread may call the function; it
/// borrows its arguments. No pointer is NULL unless a function takes it.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Takes the operations of an expansion one after the other. Ids of their tensors are numbers of
/// the expansion: inputs of the composite are 1, 2, .., results follow in order. A DROP says that a
/// value is not used any more.
typedef struct kiln_expansion_sink {
    kiln_status (*emit)(const kiln_op_record *record, void *user, kiln_error *err);
    void *user;
    uint32_t unused; ///< bit i: nobody takes result i, so what only it needs may be left out
} kiln_expansion_sink;

/// Writes a composite operator as simpler ones, which may be composites themselves. `call` has
/// passed kiln_ir_infer and carries its outputs' descriptions. `out_ids` gets the number of each
/// result, none of which is dropped, an input, or another result; 0 for an unused one. What the
/// sink sees is borrowed for its call. Errors: those of the sink; INVALID_ARGUMENT for an operator
/// without a decomposition; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_expand(const kiln_env *env, const kiln_op_record *call,
                                                   const kiln_expansion_sink *sink,
                                                   uint64_t *out_ids, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
