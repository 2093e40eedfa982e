// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_GRAPH_INTERNAL_H
#define KILN_GRAPH_INTERNAL_H

/// The inside of a graph, for graph.c, verify.c and the codecs; limits on what comes from outside.

#include "ir_graph.h"
#include "op_internal.h"
#include "tensor_internal.h"

enum {
    KILNI_IR_MAX_OPS = 1 << 20,
    KILNI_IR_MAX_LIST = 1 << 16, ///< elements of a list attribute, bytes of a text
    KILNI_IR_MAX_CONST = 1 << 20, ///< bytes of a tensor constant
    KILNI_IR_MAX_IO = 1 << 16 ///< inputs or outputs of a graph
};

struct kiln_ir_graph {
    const kiln_env *env;
    kiln_arena arena;
    kiln_op_record *ops;
    size_t n_ops;
    size_t capacity;
    const kiln_tensor_desc *inputs;
    size_t n_inputs;
    const uint64_t *outputs;
    size_t n_outputs;
};

/// Copies a record with everything it points to into the arena. INVALID_ARGUMENT for counts beyond
/// the limits, RESOURCE_EXHAUSTED.
kiln_status kilni_ir_record_copy(kiln_arena *arena, const kiln_op_record *record,
                                 kiln_op_record *out_copy, kiln_error *err);

/// Infers and compares with the stored outputs. Every origin of a record passes here.
kiln_status kilni_ir_record_verify(const kiln_op_record *record, kiln_error *err);

/// One attribute's value as the text form has it; reading moves `*text` behind it, and puts lists
/// and texts into `arena`.
void kilni_ir_print_attr(const kiln_attr *attr, kiln_string *out);
kiln_status kilni_ir_parse_value(const char **text, kiln_attr_type type, kiln_arena *arena,
                                 kiln_attr *out_attr, kiln_error *err);

#endif
