// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_OP_INTERNAL_H
#define KILN_OP_INTERNAL_H

/// What the table names, and what operators read of their attributes.

#include "ir_op.h"
#include "ir_view.h"

/// The objects and functions that ops.def names.
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    kiln_status shape(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err);     \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err);
#include "ops.def"
#undef KILN_OP

#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad, doc)
#define KILN_COMPOSITE(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol,   \
                       grad, doc)                                                                  \
    void kiln_decompose_##name(struct kiln_expander *expander);
#include "ops.def"
#undef KILN_OP

/// Name of the record's operator, for errors.
const char *kilni_ir_op_name(const kiln_op_record *call);

/// A list attribute; count 0 when absent. A text attribute, or its fallback.
const int64_t *kilni_ir_ints(const kiln_op_record *call, kiln_attr_key key, uint32_t *out_count);
const char *kilni_ir_text(const kiln_op_record *call, kiln_attr_key key);

/// Writes a float as an element of a float dtype, rounded once to nearest even.
void kilni_ir_store_float(double value, kiln_dtype dtype, void *out_element);

#endif
