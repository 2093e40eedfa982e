// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_OP_H
#define KILN_IR_OP_H

/// The operator table, records of operations, and the verifier of one operation. All functions are
/// pure: any thread may call them; what they return is static, or borrowed from the record. No
/// pointer is NULL unless a function takes it.

#include "ir_attr.h"
#include "ir_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MAX_INPUTS 64 ///< of one operation (concat)
#define KILN_MAX_NAMED_INPUTS 8
#define KILN_MAX_OUTPUTS 6
#define KILN_MAX_ATTRS 8

/// Dense numbers, in memory only. Permanent numbers: kiln_op_info.wire.
typedef enum kiln_op {
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    KILN_OP_##id,
#include "ops.def"
#undef KILN_OP
    KILN_OP_COUNT
} kiln_op;

typedef enum kiln_op_class {
    KILN_CLASS_ELEMENTWISE = 1,
    KILN_CLASS_VIEW = 2,
    KILN_CLASS_REDUCE = 3,
    KILN_CLASS_CONTRACTION = 4,
    KILN_CLASS_GATHER = 5,
    KILN_CLASS_WINDOW = 6,
    KILN_CLASS_ROW = 7,
    KILN_CLASS_CREATION = 8,
    KILN_CLASS_CONTROL = 9,
    KILN_CLASS_COLLECTIVE = 10,
    KILN_CLASS_CUSTOM = 11 ///< a plugin's: what it does is not in this table
} kiln_op_class;

/// What an operator does where numbers of f32 may be kept in f16 or bf16: of a thread's products
/// (kiln_products_in), and of a model that is kept in such a type (`model-dtype`).
typedef enum kiln_op_precision {
    KILN_PRECISION_WIDE = 0, ///< it stays in f32: reductions, statistics, losses, recurrent layers
    KILN_PRECISION_PRODUCT = 1, ///< its operands become narrow, its sums are of f32
    KILN_PRECISION_FOLLOWS = 2 ///< it is computed in the type that its operands have; rows, whose
                               ///< sums are of f32 all the same, too
} kiln_op_precision;

/// Sets of kiln_dtype_kind that an operator takes. SIGNED: without unsigned and bool.
typedef enum kiln_accept {
    KILN_ACCEPT_LOGIC = KILN_KIND_BOOL,
    KILN_ACCEPT_INTEGER = KILN_KIND_UINT | KILN_KIND_INT,
    KILN_ACCEPT_INTLOGIC = KILN_KIND_UINT | KILN_KIND_INT | KILN_KIND_BOOL,
    KILN_ACCEPT_FLOAT = KILN_KIND_FLOAT,
    KILN_ACCEPT_SIGNED = KILN_KIND_INT | KILN_KIND_FLOAT,
    KILN_ACCEPT_NUMERIC = KILN_KIND_UINT | KILN_KIND_INT | KILN_KIND_FLOAT,
    KILN_ACCEPT_QUANT = KILN_KIND_QUANT,
    KILN_ACCEPT_ANY = KILN_KIND_BOOL | KILN_KIND_UINT | KILN_KIND_INT | KILN_KIND_FLOAT
} kiln_accept;

typedef enum kiln_result {
    KILN_RESULT_SAME = 1, ///< dtype of the first data input
    KILN_RESULT_BOOL = 2,
    KILN_RESULT_INDEX = 3, ///< i64
    KILN_RESULT_ATTR = 4, ///< attribute `dtype`
    KILN_RESULT_NOTHING = 5,
    KILN_RESULT_SAME_INDEX = 6, ///< the first as SAME, the others i64
    KILN_RESULT_RULE = 7 ///< the shape function decides
} kiln_result;

typedef enum kiln_attr_role {
    KILN_ROLE_IDENTITY = 0, ///< part of a plan's identity, shown to fusers by value
    KILN_ROLE_SCALAR =
        1, ///< a number that plans keep as a placeholder and kernels take as argument
    KILN_ROLE_HOST = 2 ///< follows from shapes, or is only used by the host: not in plans
} kiln_attr_role;

typedef struct kiln_attr_spec {
    kiln_attr_key key;
    kiln_attr_role role;
    bool optional; ///< absent means `fallback`: number, truth, empty list, or `fallback_text`
    double fallback;
    const char *fallback_text;
} kiln_attr_spec;

typedef struct kiln_op_signature {
    const char *inputs[KILN_MAX_NAMED_INPUTS]; ///< names in order; data inputs first, all of one
                                               ///< dtype unless a bit below says otherwise
    const char *outputs[KILN_MAX_OUTPUTS]; ///< names of the results of an operator with several
    uint8_t min_inputs;
    uint8_t max_inputs; ///< KILN_MAX_INPUTS: variadic, and inputs[0] names the list
    uint8_t mask_inputs; ///< bit i: input i is bool whatever the others are
    uint8_t index_inputs; ///< bit i: input i is i32 or i64 whatever the others are
    uint8_t free_inputs; ///< bit i: the shape function checks the dtype of input i
    uint8_t quant_inputs; ///< bit i: input i may be quantised; all others are refused
    bool foreign; ///< a rule that is not in this table checks inputs and says how many outputs
    uint8_t n_attrs;
    kiln_attr_spec attrs[KILN_MAX_ATTRS];
} kiln_op_signature;

/// One recorded operation: a snapshot of its tensors and its attributes in the order of the schema.
/// All pointers are borrowed from the record's owner.
typedef struct kiln_op_record {
    kiln_op op;
    uint16_t n_inputs;
    uint8_t n_outputs;
    uint8_t n_attrs;
    const kiln_tensor_desc *inputs;
    const kiln_tensor_desc *outputs;
    const kiln_attr *attrs;
    const struct kiln_custom_op *custom; ///< of KILN_OP_CUSTOM: what it stands for; NULL: not
                                         ///< looked up, so outputs are as somebody stated them
} kiln_op_record;

typedef kiln_status (*kiln_shape_fn)(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err);

struct kiln_view;
typedef kiln_status (*kiln_reference_fn)(const kiln_op_record *call, const struct kiln_view *inputs,
                                         const struct kiln_view *outputs, kiln_error *err);

struct kiln_expander;
typedef void (*kiln_decompose_fn)(struct kiln_expander *expander);

/// A row of the table.
typedef struct kiln_op_info {
    const char *name;
    uint16_t wire;
    uint16_t since;
    kiln_op_class cls;
    uint8_t n_outputs;
    kiln_accept accept;
    kiln_result result;
    const kiln_op_signature *signature;
    kiln_shape_fn shape;
    kiln_reference_fn reference;
    kiln_decompose_fn decompose; ///< of a composite, see kiln_ir_expand; else NULL
    const char *doc;
} kiln_op_info;

/// The table's row of an operator; NULL for a number that is none.
KILN_API const kiln_op_info *kiln_op_info_of(kiln_op op);

/// What an operator does in reduced precision; WIDE for a number that is none.
KILN_API kiln_op_precision kiln_op_precision_of(kiln_op op);

/// The operator with this name; KILN_OP_COUNT for an unknown name.
KILN_API kiln_op kiln_op_from_name(const char *name);

/// The operator with this permanent number; KILN_OP_COUNT for an unknown number.
KILN_API kiln_op kiln_op_from_wire(uint16_t wire);

/// The attribute of a record by key. Its type is KILN_ATTR_NONE when the operator has no such
/// attribute.
KILN_API const kiln_attr *kiln_op_attr(const kiln_op_record *record, kiln_attr_key key);

/// A number attribute of a record as i64. A float saturates; NaN gives 0.
KILN_API int64_t kiln_op_attr_i64(const kiln_op_record *record, kiln_attr_key key);

/// A number attribute of a record as f64.
KILN_API double kiln_op_attr_f64(const kiln_op_record *record, kiln_attr_key key);

/// How many of an operation's first inputs may give their memory to a result like them: all where
/// each element of the result follows from those at its place, the first of slice_assign, of which
/// most stays.
static inline uint32_t kiln_op_givers(const kiln_op_record *record)
{
    if (record->op == KILN_OP_SLICE_ASSIGN) {
        return record->inputs[0].id != record->inputs[1].id ? 1 : 0;
    }
    return kiln_op_info_of(record->op)->cls == KILN_CLASS_ELEMENTWISE ? record->n_inputs : 0;
}

/// Checks inputs and attributes of `call` against the table, and fills dtype, rank and dims of its
/// outputs (call->n_outputs of them; ids stay). Absent optional attributes must be present as
/// KILN_ATTR_NONE. This is the verifier of one operation: every origin (API, file, network, fuser)
/// passes here. Of a custom operation that was not looked up only the form is checked: its outputs
/// are what `call` states. Errors: INVALID_ARGUMENT naming operator, shapes and values;
/// OUT_OF_RANGE for sizes beyond int64.
KILN_NODISCARD KILN_API kiln_status kiln_ir_infer(const kiln_op_record *call,
                                                  kiln_tensor_desc *outputs, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
