// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_CUSTOM_H
#define KILN_IR_CUSTOM_H

/// Custom operators: what plugins bring. One row of the table, `custom`, stands for all of them.
/// Its attributes `name` ("domain::name") and `version` say which operator it is. Its attribute
/// `attributes` holds the operator's own, in canonical text, all of them in the order of its
/// parameters, such as `clip=6.0, axes=[0,1], mode="near"`. So records are printed, parsed, sent,
/// hashed and kept like all others, also by code that does not know the operator. To infer or run
/// one it must be looked up in the registry of the context that it is for.
///
/// Any thread may call these functions; arguments are borrowed for the call. No pointer is NULL
/// unless a function takes it.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KILN_CUSTOM_MAX_PARAMS = 16, KILN_CUSTOM_MAX_TEXT = 4096, KILN_CUSTOM_MAX_NAME = 127 };

typedef struct kiln_custom_param {
    const char *name;
    kiln_attr_type type; ///< I64, F64, BOOL, DTYPE, I64_LIST, F64_LIST or STRING
    bool required;
    kiln_attr fallback; ///< of the type, unless required
} kiln_custom_param;

typedef struct kiln_custom_attr { ///< an attribute as a caller gives it
    const char *name;
    kiln_attr value;
} kiln_custom_attr;

/// An operator that a plugin brings. `gradient`, of the same version and parameters, takes its
/// inputs, its outputs and the gradients of outputs of floats, and gives those of inputs of floats.
/// `values`: one for each parameter. `infer` gets a call whose
/// form and inputs are checked and fills the outputs' dtype, rank and dims; `reference` evaluates
/// on the host: `memory` holds the address of the first element of inputs, then of outputs; NULL
/// for a tensor without elements. Both are pure functions and may be called from any thread.
typedef struct kiln_custom_op {
    const kiln_env *env;
    const char *name; ///< "domain::name"
    uint32_t version;
    uint32_t min_inputs; ///< at least 1
    uint32_t max_inputs;
    uint32_t n_outputs;
    uint32_t n_params;
    const kiln_custom_param *params;
    const char *gradient; ///< the operator that gives its gradients; NULL: none
    kiln_status (*infer)(const struct kiln_custom_op *self, const kiln_op_record *call,
                         const kiln_attr *values, kiln_tensor_desc *outputs, kiln_error *err);
    kiln_status (*reference)(const struct kiln_custom_op *self, const kiln_op_record *call,
                             const kiln_attr *values, const struct kiln_view *inputs,
                             const struct kiln_view *outputs, void *const *memory, kiln_error *err);
} kiln_custom_op;

/// Writes attributes that are given by name as canonical text. Absent ones get their default; an
/// I64 is taken where an F64 is wanted. Errors: INVALID_ARGUMENT naming what is missing,
/// superfluous, given twice or of another type; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_custom_text(const kiln_custom_op *op,
                                                        const kiln_custom_attr *attrs,
                                                        size_t n_attrs, kiln_string *out_text,
                                                        kiln_error *err);

/// Reads canonical text. `*out_values` has one value for each parameter, in `arena`. Errors:
/// INVALID_ARGUMENT for any other text, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_custom_values(const kiln_custom_op *op,
                                                          const char *text, kiln_arena *arena,
                                                          const kiln_attr **out_values,
                                                          kiln_error *err);

/// Whether a record is of this operator and version.
KILN_API bool kiln_ir_custom_is(const kiln_op_record *record, const char *name, uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
