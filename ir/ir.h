// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_H
#define KILN_IR_H

/// ir: what an operation is. The operator table, tensor descriptions, operation records, inference
/// of shapes and dtypes, verifier, text and wire forms, the reference evaluator; and what lies
/// between the one who decides and the one who computes: programs, plans and the backend interface.
/// Nothing here runs on a device or knows a fuser.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MAX_RANK 8
#define KILN_MAX_INPUTS 64 ///< of one operation (concat)
#define KILN_MAX_NAMED_INPUTS 8
#define KILN_MAX_OUTPUTS 6
#define KILN_MAX_ATTRS 8

// ---- operators ----

/// Dense numbers, in memory only. Permanent numbers: kiln_op_info.wire.
typedef enum kiln_op {
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, samples, doc) \
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

// ---- attributes: a closed set of types, no pointers to anything that lives ----

typedef enum kiln_attr_type {
    KILN_ATTR_NONE = 0, ///< absent optional attribute
    KILN_ATTR_I64 = 1,
    KILN_ATTR_F64 = 2,
    KILN_ATTR_BOOL = 3,
    KILN_ATTR_DTYPE = 4,
    KILN_ATTR_I64_LIST = 5,
    KILN_ATTR_F64_LIST = 6,
    KILN_ATTR_STRING = 7,
    KILN_ATTR_TENSOR = 8,
    KILN_ATTR_NUMBER = 9 ///< in a schema only: the value is I64 or F64
} kiln_attr_type;

typedef enum kiln_attr_key { ///< permanent numbers
    KILN_KEY_NONE = 0,
#define KILN_ATTR(id, name, number, type, doc) KILN_KEY_##id = number,
#include "attrs.def"
#undef KILN_ATTR
    KILN_KEY_LIMIT = 256 ///< above every number
} kiln_attr_key;

typedef struct kiln_attr { ///< a value; lists and texts are borrowed from whoever owns the record
    kiln_attr_type type;
    uint32_t count; ///< elements of a list, bytes of a string, 1 otherwise
    union {
        int64_t i; ///< I64, BOOL, DTYPE
        double f;
        const int64_t *ints;
        const double *floats;
        const char *text; ///< terminated
        const struct kiln_tensor_const *tensor;
    } v;
} kiln_attr;

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

// ---- tensors and operation records ----

enum { ///< facts about a tensor's memory, known when `KILN_TENSOR_PLACED`
    KILN_TENSOR_PLACED = 1u, ///< it has memory now; without it the other facts are not known
    KILN_TENSOR_CONTIGUOUS = 2u, ///< dense, row-major
    KILN_TENSOR_CONST = 4u, ///< never changes and outlives plans (weights)
    KILN_TENSOR_ZERO_OFFSET = 8u ///< its first element is its buffer's first
};

typedef struct kiln_tensor_desc {
    uint64_t id; ///< unique in the process, never 0, never used again
    kiln_dtype dtype;
    uint8_t rank;
    uint8_t flags; ///< KILN_TENSOR_*
    uint8_t align_log2; ///< of its first byte, when placed
    uint8_t reserved;
    int64_t dims[KILN_MAX_RANK]; ///< 0 beyond the rank
    uint64_t scheme; ///< of a quantised tensor (kiln_scheme_make); 0 otherwise
} kiln_tensor_desc;

// ---- quantised tensors ----
//
// An element is its value times the scale of its block, times the tensor's global scale where there
// is one. Blocks are rectangles along the axes; those at an end may be shorter. In memory: values
// in row-major order, packed into u32 from the low bits up; then the scales of the blocks in
// row-major order, filled up with zeros to 4 bytes; then the global scale, an f32.

/// A scheme: dtype of the scales (f32, f16, bf16), whether there is a global scale, and the length
/// of a block along each axis: a power of 2 up to 16384, or 0 for the whole axis; no blocks: one
/// scale for the tensor. 0 when that is no scheme.
/// Ownership: a value. Lifetime: n/a. Thread: any. Errors: 0.
KILN_API uint64_t kiln_scheme_make(kiln_dtype scale, bool global, const int64_t *blocks,
                                   size_t n_blocks);
KILN_API kiln_dtype kiln_scheme_scale(uint64_t scheme);
KILN_API bool kiln_scheme_has_global(uint64_t scheme);
KILN_API int64_t kiln_scheme_block(uint64_t scheme, size_t axis); ///< 0: the whole axis

/// Of a quantised dtype: bits of a value, the smallest and the largest value.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: 0 for other dtypes.
KILN_API uint32_t kiln_quant_bits(kiln_dtype dtype);
KILN_API int32_t kiln_quant_lowest(kiln_dtype dtype);
KILN_API int32_t kiln_quant_highest(kiln_dtype dtype);

/// Where the parts of a quantised tensor lie, in bytes from its start, and how many blocks there
/// are along each axis.
/// Ownership: the caller's struct. Lifetime: n/a. Thread: any. Errors: false for other dtypes, a
/// scheme that is none, and sizes beyond int64.
typedef struct kiln_quant_layout {
    int64_t count; ///< elements
    int64_t words; ///< u32 of packed values
    int64_t scales; ///< number of them
    int64_t scales_at;
    int64_t global_at; ///< -1: none
    int64_t bytes; ///< all of it
    int64_t blocks[KILN_MAX_RANK]; ///< along each axis
} kiln_quant_layout;
KILN_API bool kiln_quant_layout_of(const kiln_tensor_desc *desc, kiln_quant_layout *out_layout);

typedef struct kiln_tensor_const { ///< a small constant inside an attribute; dense, row-major
    kiln_tensor_desc desc;
    const void *data;
} kiln_tensor_const;

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
struct kiln_sample_sink;
typedef void (*kiln_samples_fn)(kiln_op op, kiln_dtype dtype, struct kiln_sample_sink *sink);

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
    kiln_samples_fn samples;
    kiln_decompose_fn decompose; ///< of a composite, see kiln_ir_expand; else NULL
    const char *doc;
} kiln_op_info;

/// The table's row; NULL for a number that is no operator. Names and wire numbers to operators;
/// KILN_OP_COUNT when there is none.
/// Ownership: static storage. Lifetime: the process. Thread: any. Errors: none.
KILN_API const kiln_op_info *kiln_op_info_of(kiln_op op);
KILN_API kiln_op kiln_op_from_name(const char *name);
KILN_API kiln_op kiln_op_from_wire(uint16_t wire);

/// Name, type and documentation of an attribute; NULL and KILN_ATTR_NONE for a number that is none.
/// Ownership: static storage. Lifetime: the process. Thread: any. Errors: none.
KILN_API const char *kiln_attr_name(kiln_attr_key key);
KILN_API kiln_attr_type kiln_attr_type_of(kiln_attr_key key);
KILN_API const char *kiln_attr_doc(kiln_attr_key key);
KILN_API kiln_attr_key kiln_attr_from_name(const char *name);

/// The attribute of a record by key; its type is KILN_ATTR_NONE when the operator has none such.
/// `kiln_attr_number` reads a NUMBER as f64 or i64 as asked (saturating; NaN gives 0).
/// Ownership: borrowed. Lifetime: the record's. Thread: any. Errors: none.
KILN_API const kiln_attr *kiln_op_attr(const kiln_op_record *record, kiln_attr_key key);
KILN_API int64_t kiln_op_attr_i64(const kiln_op_record *record, kiln_attr_key key);
KILN_API double kiln_op_attr_f64(const kiln_op_record *record, kiln_attr_key key);

/// Which values of an index operand name something: value i of it, row-major, is one of
/// first[i % n] to last[i % n]; what kernels do with others is `otherwise`.
typedef struct kiln_index_range {
    uint32_t n; ///< numbers that make up one place
    int64_t first[KILN_MAX_RANK];
    int64_t last[KILN_MAX_RANK];
    const char *otherwise; ///< "clamped" or "dropped"
} kiln_index_range;

/// False: input `input` holds no indices, or any value is fine. The record is complete and
/// verified. Ownership: the caller's struct. Lifetime: static text. Thread: any. Errors: false.
KILN_API bool kiln_op_index_range(const kiln_op_record *record, size_t input,
                                  kiln_index_range *out_range);

/// Writes a number (I64 or F64) as one element of `dtype`, as every operator with a scalar
/// attribute takes it. Floats are rounded to the dtype. For integers and bool the number has to be
/// a value of the dtype; an infinity is its last one. Ownership: `out_element` has kiln_dtype_size
/// bytes. Lifetime: n/a. Thread: any. Errors: false, nothing written.
KILN_API bool kiln_number_store(const kiln_attr *number, kiln_dtype dtype, void *out_element);

/// Elements and bytes of a description; -1 when the product exceeds int64.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: -1.
KILN_API int64_t kiln_desc_count(const kiln_tensor_desc *desc);
KILN_API int64_t kiln_desc_bytes(const kiln_tensor_desc *desc);
KILN_API bool kiln_desc_same_shape(const kiln_tensor_desc *a, const kiln_tensor_desc *b);

/// Checks inputs and attributes of `call` against the table and fills dtype, rank and dims of
/// `outputs` (call->n_outputs of them; ids stay). Absent optional attributes must be present as
/// KILN_ATTR_NONE. This is the verifier of one operation: every origin (API, file, network, fuser)
/// passes here. Of a custom operation that was not looked up only the form is checked: its outputs
/// are what `call` states. Ownership: all borrowed. Lifetime: n/a. Thread: any. Errors:
/// INVALID_ARGUMENT naming operator, shapes and values; OUT_OF_RANGE for sizes beyond int64.
KILN_NODISCARD KILN_API kiln_status kiln_ir_infer(const kiln_op_record *call,
                                                  kiln_tensor_desc *outputs, kiln_error *err);

// ---- custom operators: what plugins bring ----
//
// One row of the table, `custom`, stands for all of them. A record says which: attributes `name`
// ("domain::name") and `version`, and `attributes`: the operator's own, in canonical text, all of
// them in the order of its parameters, such as `clip=6.0, axes=[0,1], mode="near"`. So records are
// printed, parsed, sent, hashed and kept like all others, by those who do not know the operator
// too. To infer or run one it has to be looked up, in the registry of the context that it is for.

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

/// An operator that a plugin brings. `values`: one for each parameter. `infer` gets a call whose
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
    kiln_status (*infer)(const struct kiln_custom_op *self, const kiln_op_record *call,
                         const kiln_attr *values, kiln_tensor_desc *outputs, kiln_error *err);
    kiln_status (*reference)(const struct kiln_custom_op *self, const kiln_op_record *call,
                             const kiln_attr *values, const struct kiln_view *inputs,
                             const struct kiln_view *outputs, void *const *memory, kiln_error *err);
} kiln_custom_op;

/// Writes attributes that are given by name as canonical text: absent ones get their default, an
/// I64 is taken where an F64 is wanted. Ownership: `out_text` is the caller's, with the operator's
/// allocator or another. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT naming what is
/// missing, superfluous, given twice or of another type; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_custom_text(const kiln_custom_op *op,
                                                        const kiln_custom_attr *attrs,
                                                        size_t n_attrs, kiln_string *out_text,
                                                        kiln_error *err);

/// Reads canonical text: `*out_values` has one value for each parameter.
/// Ownership: in `arena`. Lifetime: the arena's. Thread: any. Errors: INVALID_ARGUMENT for any
/// other text, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_custom_values(const kiln_custom_op *op,
                                                          const char *text, kiln_arena *arena,
                                                          const kiln_attr **out_values,
                                                          kiln_error *err);

/// Whether operator and version of a record are these.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: none.
KILN_API bool kiln_ir_custom_is(const kiln_op_record *record, const char *name, uint32_t version);

// ---- composites ----

/// Takes the operations of an expansion one after the other. Ids of their tensors are numbers of
/// the expansion: inputs of the composite are 1, 2, .., results follow in order. A DROP says that a
/// value is not used any more.
typedef struct kiln_expansion_sink {
    kiln_status (*emit)(const kiln_op_record *record, void *user, kiln_error *err);
    void *user;
    uint32_t unwanted; ///< bit i: nobody takes result i, so what only it needs may be left out
} kiln_expansion_sink;

/// Writes a composite operator as simpler ones (which may be composites themselves). `call` has
/// passed kiln_ir_infer and carries its outputs' descriptions; `out_ids` gets the number of each
/// result, none of which is dropped, an input, or another result; 0 of an unwanted one.
/// Ownership: what the sink sees is borrowed. Lifetime: of the call. Thread: any. Errors: those of
/// the sink; INVALID_ARGUMENT for an operator without a decomposition; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_expand(const kiln_env *env, const kiln_op_record *call,
                                                   const kiln_expansion_sink *sink,
                                                   uint64_t *out_ids, kiln_error *err);

// ---- graphs: a list of operations with inputs and outputs, in files, text and on the wire ----

typedef struct kiln_ir_graph kiln_ir_graph;

/// An empty graph; operations are copied in. Ids inside a graph are the graph's own.
/// Ownership: the caller's (kiln_ir_graph_destroy). Lifetime: until destroyed; `env` must outlive
/// it. Thread: one at a time. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_create(const kiln_env *env,
                                                         kiln_ir_graph **out_graph,
                                                         kiln_error *err);
KILN_API void kiln_ir_graph_destroy(kiln_ir_graph *graph);

/// Appends a copy of `record`; `kiln_ir_graph_verify` checks the whole: every operation infers to
/// its stored outputs, ids are defined once and before use, none is used after its drop, outputs
/// exist. Ownership: copied. Lifetime: n/a. Thread: one at a time. Errors: INVALID_ARGUMENT with
/// the operation's place.
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_append(kiln_ir_graph *graph,
                                                         const kiln_op_record *record,
                                                         kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_set_io(kiln_ir_graph *graph,
                                                         const kiln_tensor_desc *inputs,
                                                         size_t n_inputs,
                                                         const uint64_t *output_ids,
                                                         size_t n_outputs, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_verify(const kiln_ir_graph *graph,
                                                         kiln_error *err);

/// Finds what the custom operations of a graph stand for, and verifies them by it: from then on the
/// reference functions can run them. Copies of a record keep what it was looked up to.
/// Ownership: what `find` gives is borrowed. Lifetime: longer than the graph's use. Thread: one at
/// a time. Errors: those of `find`, and of the verifier, with the operation's place.
typedef kiln_status (*kiln_custom_lookup_fn)(const char *name, uint32_t version,
                                             const kiln_custom_op **out_op, void *user,
                                             kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_graph_look_up(kiln_ir_graph *graph,
                                                          kiln_custom_lookup_fn find, void *user,
                                                          kiln_error *err);
KILN_API size_t kiln_ir_graph_op_count(const kiln_ir_graph *graph);
KILN_API const kiln_op_record *kiln_ir_graph_op(const kiln_ir_graph *graph, size_t index);
KILN_API const kiln_tensor_desc *kiln_ir_graph_inputs(const kiln_ir_graph *graph,
                                                      size_t *out_count);
KILN_API const uint64_t *kiln_ir_graph_outputs(const kiln_ir_graph *graph, size_t *out_count);

/// Text form, one operation a line, such as `%2: f32[2,3] = add(%0: f32[2,3], %1: f32[3])`; the
/// parser takes what the printer writes, and `#` comments. Wire form: ir/proto/kiln/v1/ir.proto.
/// Both parsers verify (see kiln_ir_infer for custom operators). Ownership: `*out_graph` is the
/// caller's; `out` belongs to its builder. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT
/// with line or field; DATA_LOSS for truncated bytes; RESOURCE_EXHAUSTED.
KILN_API void kiln_ir_print_op(const kiln_op_record *record, kiln_string *out);
KILN_NODISCARD KILN_API kiln_status kiln_ir_print(const kiln_ir_graph *graph, kiln_string *out,
                                                  kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_parse(const kiln_env *env, const char *text,
                                                  kiln_ir_graph **out_graph, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_encode(const kiln_env *env, const kiln_ir_graph *graph,
                                                   kiln_blob *out_bytes, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_decode(const kiln_env *env, const void *bytes,
                                                   size_t length, kiln_ir_graph **out_graph,
                                                   kiln_error *err);

/// One operation in the same wire form, for streams of operations. A decoded record is verified
/// alone: whether its ids exist is the caller's to check. Ownership: the blob is the caller's
/// (kiln_free); a decoded record points into `arena`. Lifetime: until the arena is reset. Thread:
/// any. Errors: as encode and decode of graphs.
KILN_NODISCARD KILN_API kiln_status kiln_ir_encode_op(const kiln_env *env,
                                                      const kiln_op_record *record,
                                                      kiln_blob *out_bytes, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_ir_decode_op(kiln_arena *arena, const void *bytes,
                                                      size_t length, kiln_op_record *out_record,
                                                      kiln_error *err);

// =================================================================================================
// For those who implement or decorate a backend, or plan for one. Users can stop reading here.
// =================================================================================================

// ---- memory ----

typedef struct kiln_buffer kiln_buffer; ///< a backend's memory; each backend defines its own

/// A tensor in memory: element (i0, i1, ...) is at offset_bytes + size * sum(i * stride).
typedef struct kiln_view {
    kiln_buffer *buffer; ///< NULL when the tensor has no elements
    int64_t offset_bytes;
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t strides[KILN_MAX_RANK]; ///< in elements; 0 repeats, negative runs backwards
} kiln_view;

/// Dense row-major view of a description at the start of `buffer`.
/// Ownership: borrowed. Lifetime: the buffer's. Thread: any. Errors: none.
KILN_API kiln_view kiln_view_dense(const kiln_tensor_desc *desc, kiln_buffer *buffer);
KILN_API bool kiln_view_is_contiguous(const kiln_view *view);

/// Lowest and one past the highest byte that a view touches, relative to its buffer.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_view_extent(const kiln_view *view, int64_t *out_begin, int64_t *out_end);

/// The part of a view that the attributes of a slice or slice_assign name.
/// Ownership: borrowed. Lifetime: the buffer's. Thread: any. Errors: none.
KILN_API void kiln_view_slice(const kiln_op_record *record, const kiln_view *input,
                              kiln_view *out_view);

/// Applies an operator of class VIEW to a view without moving data. Gives false when strides cannot
/// express it (a reshape of a non-contiguous tensor): then the operation has to be executed as a
/// copy. Ownership: borrowed. Lifetime: the buffer's. Thread: any. Errors: false.
KILN_API bool kiln_view_apply(const kiln_op_record *record, const kiln_view *input,
                              kiln_view *out_view);

// ---- how near is near enough ----

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

// ---- replayable files: a stream of operations with its inputs (docs/replay.md) ----

typedef struct kiln_replay_input { ///< how an input lies in memory, and its elements
    bool strided; ///< else dense, from the start of its buffer
    int64_t offset; ///< of the first element from the buffer's start, in elements
    int64_t strides[KILN_MAX_RANK]; ///< in elements
    const void *data; ///< dense, row-major; NULL: not recorded
    size_t bytes; ///< of `data`
} kiln_replay_input;

typedef struct kiln_replay {
    const kiln_env *env;
    kiln_ir_graph *graph;
    kiln_replay_input *inputs; ///< one for each input of the graph
    size_t n_inputs;
    char *note; ///< for people: the file's comment, lines without #; or NULL
    kiln_arena arena; ///< of everything here but the graph
} kiln_replay;

/// A replay of a graph that was verified; `inputs` may be NULL: dense and without data. Strides and
/// data are checked as hostile. Ownership: `graph` is taken, also on failure; the rest is copied;
/// `*out_replay` is the caller's (kiln_replay_destroy). Lifetime: `env` must outlive it. Thread:
/// any. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_replay_create(const kiln_env *env, kiln_ir_graph *graph,
                                                       const kiln_replay_input *inputs,
                                                       const char *note, kiln_replay **out_replay,
                                                       kiln_error *err);
KILN_API void kiln_replay_destroy(kiln_replay *replay);

/// Gives elements to the inputs that have none: numbers that follow from `seed`, small ones, so
/// that most operators have something to do. Ownership: the replay's. Lifetime: its. Thread: one at
/// a time. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_replay_fill(kiln_replay *replay, uint64_t seed,
                                                     kiln_error *err);

/// The file's form and back; bytes are hostile. `write` replaces a file as a whole. Ownership: the
/// string is initialised and owned by the caller; `*out_replay` is the caller's. Lifetime: `env`
/// must outlive it. Thread: any. Errors: INVALID_ARGUMENT with the line, DATA_LOSS for missing or
/// damaged data, NOT_FOUND, UNAVAILABLE with the system's reason, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_replay_encode(const kiln_replay *replay, kiln_string *out,
                                                       kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_replay_decode(const kiln_env *env, const void *bytes,
                                                       size_t length, kiln_replay **out_replay,
                                                       kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_replay_write(const kiln_replay *replay, const char *path,
                                                      kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_replay_read(const kiln_env *env, const char *path,
                                                     kiln_replay **out_replay, kiln_error *err);

/// The smallest part of a stream for which `fails` still gives true: operations are left out, by
/// halves and one by one, and what they made becomes an input with the reference's value. At most
/// `max_tries` parts are tried. Every input must have data. Ownership: `*out_replay` is the
/// caller's; what `fails` sees is borrowed. Lifetime: `env` must outlive it. Thread: one at a time.
/// Errors: FAILED_PRECONDITION when the whole does not fail; as kiln_judge_create.
typedef bool (*kiln_replay_fails_fn)(const kiln_replay *replay, void *user);
KILN_NODISCARD KILN_API kiln_status kiln_replay_reduce(const kiln_replay *replay,
                                                       kiln_replay_fails_fn fails, void *user,
                                                       uint32_t max_tries, kiln_replay **out_replay,
                                                       kiln_error *err);

// ---- programs: what a fuser describes, in neutral form ----

typedef enum kiln_formula_code { ///< postfix; 64-bit checked; all of it fails closed
    KILN_F_IMM = 1, ///< push imm
    KILN_F_SYM = 2, ///< push the value of dimension symbol `sym`
    KILN_F_FACT = 3, ///< push device fact `arg` (kiln_device_fact)
    KILN_F_ADD = 16,
    KILN_F_SUB = 17,
    KILN_F_MUL = 18,
    KILN_F_FLOOR_DIV = 19,
    KILN_F_CEIL_DIV = 20,
    KILN_F_ROUND_UP = 21, ///< a, b: a rounded up to a multiple of b
    KILN_F_MIN = 22,
    KILN_F_MAX = 23,
    KILN_F_MOD = 24,
    KILN_F_SELECT = 32, ///< c, a, b: a if c is not 0, else b
    KILN_F_EQ = 33,
    KILN_F_LT = 34,
    KILN_F_LE = 35,
    KILN_F_AND = 36,
    KILN_F_OR = 37
} kiln_formula_code;

typedef struct kiln_formula_step {
    uint16_t code;
    uint16_t arg;
    uint32_t sym;
    int64_t imm;
} kiln_formula_step;

typedef struct kiln_formula {
    const kiln_formula_step *steps;
    uint32_t count; ///< 0: absent
} kiln_formula;

typedef enum kiln_arg_kind {
    KILN_ARG_TENSOR = 1, ///< memory of tensor `ref`, at the start of its buffer
    KILN_ARG_TEMP = 2, ///< temporary `ref`
    KILN_ARG_OFFSET = 3, ///< first element of tensor `ref`, in elements from the buffer's start
    KILN_ARG_STRIDE = 4, ///< stride of tensor `ref` along axis `axis`, in elements
    KILN_ARG_DIM = 5, ///< value of symbol `ref`
    KILN_ARG_SCALAR = 6, ///< value of scalar placeholder `ref`
    KILN_ARG_LOCAL = 7, ///< local memory of `value` bytes
    KILN_ARG_FORMULA = 8 ///< `value`
} kiln_arg_kind;

enum { KILN_ACCESS_READ = 1u, KILN_ACCESS_WRITE = 2u };

typedef struct kiln_program_arg {
    kiln_arg_kind kind;
    uint32_t access; ///< of TENSOR and TEMP
    uint32_t ref; ///< block-relative
    uint32_t axis;
    uint32_t group; ///< of TENSOR: a result takes the memory of inputs of its group only
    kiln_dtype dtype; ///< type of the kernel's parameter, of numbers
    kiln_formula value;
} kiln_program_arg;

typedef enum kiln_source_format {
    KILN_SOURCE_OPENCL_C = 1,
    KILN_SOURCE_SPIRV = 2,
    KILN_SOURCE_BINARY = 3
} kiln_source_format;

enum { ///< what a source may assume of arithmetic; 0 is strict
    KILN_MATH_CONTRACT = 1u,
    KILN_MATH_REASSOCIATE = 2u,
    KILN_MATH_FLUSH = 4u,
    KILN_MATH_APPROXIMATE = 8u
};

typedef struct kiln_program_source {
    kiln_source_format format;
    const void *code;
    size_t length;
    const char *const *defines; ///< "NAME=VALUE", terminated
    uint32_t n_defines;
    uint32_t cl_c_version; ///< 100 * major + 10 * minor; 0: 1.2
    uint32_t math; ///< KILN_MATH_*
    kiln_hash128 fingerprint; ///< device that a binary is for
} kiln_program_source;

enum { KILN_LAUNCH_ARGS_MAX = 1024 };

typedef struct kiln_program_launch {
    uint32_t source;
    const char *kernel;
    uint32_t n_dims;
    kiln_formula global[3];
    kiln_formula local[3]; ///< absent: the driver chooses
    const kiln_program_arg *args;
    uint32_t n_args; ///< at most KILN_LAUNCH_ARGS_MAX
} kiln_program_launch;

enum { KILN_TEMP_PERSISTENT = 1u }; ///< filled once by its prepack launch, kept with the plan

typedef struct kiln_program_temp {
    kiln_formula bytes;
    uint32_t align;
    uint32_t flags;
    uint32_t prepack_launch; ///< of a PERSISTENT one
} kiln_program_temp;

typedef enum kiln_step_kind {
    KILN_STEP_LAUNCH = 1, ///< launch `index` of the block's program
    KILN_STEP_HOST_OP = 2 ///< operation `index` of the segment, alone and unfused
} kiln_step_kind;

typedef struct kiln_program_step {
    kiln_step_kind kind;
    uint32_t index; ///< HOST_OP: position in the block
} kiln_program_step;

enum { KILN_PROGRAM_DETERMINISTIC = 1u, KILN_PROGRAM_IN_PLACE_SAFE = 2u };

/// Immutable, owned by whoever made it; `key` names the content: equal key, equal program.
typedef struct kiln_program {
    kiln_hash128 key;
    uint32_t flags;
    const kiln_program_source *sources;
    uint32_t n_sources;
    const kiln_program_launch *launches;
    uint32_t n_launches;
    const kiln_program_temp *temps;
    uint32_t n_temps;
    const kiln_program_step *steps;
    uint32_t n_steps;
    kiln_formula guard; ///< the program serves only shapes for which this is not 0; absent: all
} kiln_program;

typedef enum kiln_device_fact { ///< what formulas may ask for
    KILN_FACT_COMPUTE_UNITS = 0,
    KILN_FACT_MAX_WORK_GROUP = 1,
    KILN_FACT_LOCAL_MEMORY = 2,
    KILN_FACT_COUNT
} kiln_device_fact;

/// Evaluates a formula over the values of symbols and device facts.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: OUT_OF_RANGE on overflow, division by 0
/// or an unknown symbol; INVALID_ARGUMENT for a malformed formula.
KILN_NODISCARD KILN_API kiln_status kiln_formula_eval(const kiln_formula *formula,
                                                      const int64_t *symbols, uint32_t n_symbols,
                                                      const int64_t *facts, uint32_t n_facts,
                                                      int64_t *out_value, kiln_error *err);

// ---- plans: what to do with a segment of operations ----

/// Operations that one program covers. The maps turn block-relative numbers into the segment's.
/// `state` is for the executor, which sets `state_free` with it.
typedef struct kiln_plan_block {
    const kiln_program *program;
    const char *fuser; ///< id of the fuser, for people
    const uint32_t *ops; ///< positions in the segment, ascending; drops among them
    uint32_t n_ops;
    const uint32_t *tensors; ///< block tensor -> segment tensor
    uint32_t n_tensors;
    const uint32_t *symbols; ///< block symbol -> segment symbol
    uint32_t n_symbols;
    const uint32_t *scalars; ///< block scalar -> segment scalar
    uint32_t n_scalars;
    uint64_t predicted_ns;
    uint64_t baseline_ns;
    void *state;
    void (*state_free)(void *state);
} kiln_plan_block;

typedef struct kiln_plan_step {
    kiln_step_kind kind;
    uint32_t block; ///< which block; of an operation that is in none UINT32_MAX
    uint32_t index; ///< LAUNCH: launch of its program; HOST_OP: operation of the segment
    const uint32_t *dies; ///< segment tensors that nobody uses after this step
    uint32_t n_dies;
} kiln_plan_step;

/// Covers the first `n_ops` operations of a segment, drops included. Tensors that no step writes or
/// reads are dead inside a block and get no memory.
typedef struct kiln_plan {
    uint32_t n_ops;
    uint32_t n_tensors;
    uint32_t n_symbols;
    uint32_t n_scalars;
    kiln_plan_block *blocks;
    uint32_t n_blocks;
    const kiln_plan_step *steps;
    uint32_t n_steps;
    void *memory; ///< the executor's: which values share memory; it sets `memory_free` with it
    void (*memory_free)(void *memory);
    uint64_t number; ///< the executor's: of no other plan of the device, ever; 0: not given yet
} kiln_plan;

// ---- explanations: what was decided for a segment and why, for people and their tools ----

/// What one fuser said at one place. Times are nanoseconds for the extents at hand; 0: not known.
typedef struct kiln_explained_candidate {
    const char *fuser;
    const char *name; ///< of what it made
    const char *reason; ///< why it is no candidate, or did not win; "" of the winner
    bool ready; ///< it is a candidate
    bool won;
    uint32_t n_ops; ///< drops among them
    uint32_t n_launches;
    double claimed_ns; ///< by the fuser
    double trust; ///< by what its claims are multiplied; 0: 1
    double floor_ns; ///< roofline
    double predicted_ns; ///< as believed
    double saved_ns; ///< against the operations alone, predicted
    double measured_ns;
} kiln_explained_candidate;

typedef struct kiln_explained_op {
    const char *name;
    const char *kind; ///< class
    const char *text; ///< as the printer writes it
    uint32_t block; ///< UINT32_MAX: alone
    uint32_t step; ///< the first that runs it; UINT32_MAX: none, as of a drop
    const uint32_t *inputs; ///< tensors
    const uint32_t *outputs;
    uint32_t n_inputs;
    uint32_t n_outputs;
    const kiln_explained_candidate *candidates; ///< of an operation alone: each fuser's reason
    uint32_t n_candidates;
} kiln_explained_op;

typedef struct kiln_explained_block {
    const char *fuser;
    const uint32_t *ops;
    uint32_t n_ops;
    double predicted_ns;
    double baseline_ns; ///< predicted of its operations alone
    double alone_ns; ///< measured
    const char *failure; ///< why its program does not run; NULL when it does
    const kiln_program *program;
    const uint32_t *tensors; ///< the program's tensors among the explanation's; UINT32_MAX: none
    uint32_t n_tensors;
    const int64_t *symbols; ///< values of the program's symbols, for its formulas
    uint32_t n_symbols;
    const kiln_attr *scalars; ///< values of the program's scalars, I64 or F64
    uint32_t n_scalars;
    const kiln_explained_candidate *candidates;
    uint32_t n_candidates;
} kiln_explained_block;

typedef struct kiln_explained_tensor {
    const char *text; ///< dtype and dimensions
    uint64_t bytes;
    uint32_t made_by; ///< operation; UINT32_MAX: it is there before
    uint32_t memory; ///< the tensor whose memory it is in, itself for most; UINT32_MAX: in none
    uint32_t first_step; ///< of that memory, when there is some
    uint32_t last_step; ///< UINT32_MAX: it outlives the run
    uint32_t input; ///< place among the graph's inputs, or UINT32_MAX
    uint32_t output;
} kiln_explained_tensor;

typedef struct kiln_explained_step {
    uint32_t block; ///< or UINT32_MAX
    uint32_t op; ///< of an operation alone, or UINT32_MAX
    const char *kernel; ///< of a block's launch, or NULL
    uint64_t live_bytes; ///< while it runs, without buffers that are written in place
    double measured_ns; ///< median of `runs`; 0: not measured
    double start_ns; ///< in the last run, from its first step
    double last_ns; ///< what it took in the last run
    uint32_t runs;
} kiln_explained_step;

typedef struct kiln_explanation {
    kiln_arena arena; ///< of everything here but programs
    const kiln_explained_op *ops;
    kiln_explained_tensor *tensors;
    kiln_explained_step *steps;
    const kiln_explained_block *blocks;
    const char *const *fusers;
    uint32_t n_ops;
    uint32_t n_tensors;
    uint32_t n_steps;
    uint32_t n_blocks;
    uint32_t n_fusers;
    int64_t facts[KILN_FACT_COUNT]; ///< of the device, for the programs' formulas
    uint64_t resident_bytes; ///< of what is there before and stays
    uint64_t peak_bytes; ///< largest live_bytes
    uint64_t total_bytes; ///< of all tensors that get memory
} kiln_explanation;

// ---- the backend interface ----

typedef enum kiln_device_type {
    KILN_DEVICE_CPU = 1,
    KILN_DEVICE_GPU = 2,
    KILN_DEVICE_ACCELERATOR = 3,
    KILN_DEVICE_HOST = 4, ///< no device: reference and null backends
    KILN_DEVICE_REMOTE = 5
} kiln_device_type;

enum { ///< of a dtype on a device
    KILN_USAGE_STORAGE = 1u, ///< tensors of it may lie there; what is not computed in it is in f32
    KILN_USAGE_ARITHMETIC = 2u, ///< the device computes in it
    KILN_USAGE_ACCELERATED = 4u ///< matrix products are a tuned library's, or of units made for it
};

enum { ///< kiln_device_info.features
    KILN_FEATURE_FP16 = 1u,
    KILN_FEATURE_FP64 = 2u,
    KILN_FEATURE_IL_SPIRV = 4u,
    KILN_FEATURE_COMPILER = 8u,
    KILN_FEATURE_UNIFIED_MEMORY = 16u,
    KILN_FEATURE_PROGRAMS = 32u, ///< build and launch are there: fusers make sense
    KILN_FEATURE_OWN_VIEWS = 64u, ///< runs operators of class VIEW itself and gets only dense views
    KILN_FEATURE_PREPARED = 128u, ///< no compiler: takes source of which it has a binary
    KILN_FEATURE_SINGLE_WORK_ITEM = 256u ///< a kernel runs best as one work-item: FPGA
};

typedef struct kiln_device_info { ///< texts belong to the backend
    const char *name;
    const char *vendor;
    const char *platform;
    const char *driver;
    const char *extensions;
    kiln_device_type type;
    uint32_t vendor_id;
    uint32_t features;
    uint32_t compute_units;
    uint32_t vector_bytes; ///< preferred width of explicit vectors
    uint32_t memory_align; ///< bytes at which a buffer starts at least
    uint32_t cl_version; ///< 100 * major + 10 * minor; 0 when not OpenCL
    uint64_t memory_bytes;
    uint64_t max_alloc_bytes;
    uint64_t local_bytes;
    uint64_t cache_bytes; ///< of the last level, a processor's share of it; 0: not known
    uint64_t max_work_group;
    uint64_t max_parameter_bytes; ///< a kernel's arguments together; 0: not known
    uint64_t bytes_per_s; ///< measured copy, read plus written
    uint64_t flops_f32; ///< estimate
    uint64_t launch_ns; ///< measured cost of one more kernel in a queue
    kiln_hash128 fingerprint; ///< name, driver, platform version, extensions
} kiln_device_info;

typedef struct kiln_backend_stats {
    uint64_t ops_executed; ///< calls of execute
    uint64_t kernels_launched;
    uint64_t blas_calls; ///< matmuls that a BLAS library ran
    uint64_t programs_built; ///< from source
    uint64_t programs_loaded; ///< from the cache
    uint64_t build_ns;
    uint64_t bytes_used; ///< held by tensors now
    uint64_t bytes_peak;
    uint64_t bytes_pooled; ///< held by the pool, used or not
    uint64_t buffers_live;
    uint64_t bytes_pooled_peak;
    uint64_t bytes_budget; ///< what the device may hold; 0: no limit is known
    uint64_t pool_reuses; ///< allocations that an idle buffer served
} kiln_backend_stats;

/// Source `source` of a program, built: the options that the compiler got, and the binary.
typedef void (*kiln_program_part_fn)(uint32_t source, const char *options, const void *binary,
                                     size_t bytes, void *user);

typedef struct kiln_launch_arg { ///< a kernel argument with its value
    enum { KILN_VALUE_BUFFER = 1, KILN_VALUE_BYTES = 2, KILN_VALUE_LOCAL = 3 } kind;
    uint32_t length; ///< BYTES: 1 to 8
    kiln_buffer *buffer;
    uint64_t bytes; ///< BYTES: the value, in memory order; LOCAL: how many
} kiln_launch_arg;

typedef struct kiln_launch {
    uint32_t launch; ///< index in the program
    uint32_t n_dims;
    size_t global[3];
    size_t local[3]; ///< local[0] == 0: the driver chooses
    const kiln_launch_arg *args;
    uint32_t n_args;
} kiln_launch;

/// Bytes that one device offers to another of its kind, which fetches them itself.
typedef struct kiln_transfer {
    uint64_t id; ///< unique
    uint64_t bytes;
    uint8_t secret[32];
    char address[320]; ///< where to fetch them
} kiln_transfer;

/// When a command was on the device, in the clock of kiln_time_ns.
typedef struct kiln_device_span {
    uint64_t tag; ///< that stood when it was queued
    uint64_t queued_ns;
    uint64_t submit_ns;
    uint64_t start_ns;
    uint64_t end_ns;
    char name[64]; ///< kernel, or kind of transfer
} kiln_device_span;

typedef struct kiln_backend kiln_backend;
typedef struct kiln_pending kiln_pending; ///< a read on its way; each backend defines its own
typedef struct kiln_built kiln_built; ///< a program made ready; each backend defines its own

/// A device behind a table of functions. All calls may come from any thread, one at a time for each
/// device (the caller's lock); all work is in order, as on one queue, so memory that is freed may
/// be given out again at once. Only `read` and `sync` wait. A failure of queued work is reported by
/// the next `read` or `sync`.
typedef struct kiln_backend_ops {
    uint32_t struct_size;
    const char *scheme;
    void (*close)(kiln_backend *backend);
    const kiln_device_info *(*info)(kiln_backend *backend);
    uint32_t (*dtype_usage)(kiln_backend *backend, kiln_dtype dtype); ///< KILN_USAGE_*
    void (*stats)(kiln_backend *backend, kiln_backend_stats *out_stats);
    kiln_status (*alloc)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                         kiln_error *err);
    void (*free)(kiln_backend *backend, kiln_buffer *buffer);
    void (*trim)(kiln_backend *backend); ///< gives pooled memory back to the device
    kiln_status (*upload)(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                          const void *source, size_t bytes, kiln_error *err);
    kiln_status (*read)(kiln_backend *backend, kiln_buffer *buffer, size_t offset, void *out_data,
                        size_t bytes, kiln_error *err);
    kiln_status (*copy)(kiln_backend *backend, kiln_buffer *source, size_t source_offset,
                        kiln_buffer *target, size_t target_offset, size_t bytes, kiln_error *err);
    /// Runs one operation on views; outputs have memory, dense. Of class ELEMENTWISE an output may
    /// be an input of equal shape and dtype that is dense too; other classes get memory of their
    /// own.
    kiln_status (*execute)(kiln_backend *backend, const kiln_op_record *record,
                           const kiln_view *inputs, const kiln_view *outputs, kiln_error *err);
    /// Whether `execute` runs this operation itself; a composite for which it does not is expanded.
    /// NULL: always.
    bool (*runs)(kiln_backend *backend, const kiln_op_record *record);
    kiln_status (*flush)(kiln_backend *backend, kiln_error *err);
    kiln_status (*sync)(kiln_backend *backend, kiln_error *err);
    // Optional from here: NULL where the backend has nothing better than the calls above.
    /// As alloc, of the exact size and beside the pool, for what lives long.
    kiln_status (*alloc_persistent)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                                    kiln_error *err);
    /// Host memory that travels without another copy; freed by host_free.
    kiln_status (*host_alloc)(kiln_backend *backend, size_t bytes, void **out_memory,
                              kiln_error *err);
    void (*host_free)(kiln_backend *backend, void *memory);
    /// A buffer in the caller's memory. `release` is called once when nothing uses it any more, on
    /// any thread, and must not call the backend. UNIMPLEMENTED: it has to be copied.
    kiln_status (*wrap_host)(kiln_backend *backend, void *memory, size_t bytes,
                             void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                             kiln_error *err);
    /// The bytes of a buffer where they lie, for reading, without waiting for work queued after
    /// the last wait. UNIMPLEMENTED: they have to be copied.
    kiln_status (*map)(kiln_backend *backend, kiln_buffer *buffer, size_t offset, size_t bytes,
                       const void **out_data, kiln_error *err);
    void (*unmap)(kiln_backend *backend, kiln_buffer *buffer, const void *data);
    /// A read in four parts: `begin` takes its place in the order of the queue; `poll` (whether
    /// `wait` would return soon) and `wait` need no lock of the caller's; `end` gives the result
    /// and frees it. With `cancel`, wait only sees to it that `out_data` is not written any more.
    /// No bytes: a wait for everything queued before.
    kiln_status (*read_begin)(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                              void *out_data, size_t bytes, kiln_pending **out_pending,
                              kiln_error *err);
    bool (*read_poll)(kiln_pending *pending);
    void (*read_wait)(kiln_pending *pending, bool cancel);
    kiln_status (*read_end)(kiln_backend *backend, kiln_pending *pending, kiln_error *err);
    // Optional: NULL when the backend takes no programs.
    kiln_status (*program_build)(kiln_backend *backend, const kiln_program *program,
                                 kiln_built **out_built, kiln_error *err);
    void (*program_free)(kiln_backend *backend, kiln_built *built);
    kiln_status (*program_launch)(kiln_backend *backend, kiln_built *built,
                                  const kiln_launch *launch, kiln_error *err);
    /// As launch, but waits and gives the device's time. Drains the queue first.
    kiln_status (*program_time)(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                                uint64_t *out_ns, kiln_error *err);
    /// Also optional, all three: a buffer goes to another device of this table's kind without
    /// passing through the host. `expose` offers what it holds now, once; `obtain` fills a buffer
    /// of as many bytes, and waits: PERMISSION_DENIED when that device may not be asked; `withdraw`
    /// ends an offer.
    kiln_status (*expose)(kiln_backend *backend, kiln_buffer *buffer, kiln_transfer *out_transfer,
                          kiln_error *err);
    void (*withdraw)(kiln_backend *backend, const kiln_transfer *transfer);
    kiln_status (*obtain)(kiln_backend *backend, kiln_buffer *buffer, const kiln_transfer *transfer,
                          kiln_error *err);
    /// Also optional, all three: when commands ran. `trace_set` waits for the queue and begins or
    /// ends noting; commands carry the number that `trace_tag` gave last; `trace_take` waits, and
    /// hands over what was noted since, in order, and how many there was no room for.
    kiln_status (*trace_set)(kiln_backend *backend, bool on, kiln_error *err);
    void (*trace_tag)(kiln_backend *backend, uint64_t tag);
    kiln_status (*trace_take)(kiln_backend *backend,
                              void (*take)(const kiln_device_span *span, void *user), void *user,
                              uint64_t *out_lost, kiln_error *err);
    /// Also optional, both: a buffer to be cut into windows, as alloc_persistent (NULL: any buffer
    /// is); and `bytes` of one from `offset` on, a multiple of the device's `memory_align`, as a
    /// buffer of its own, in no statistics. It goes before that one. Windows may overlap: work in
    /// the queue sees what earlier work wrote. UNIMPLEMENTED: this device has no windows.
    kiln_status (*alloc_arena)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                               kiln_error *err);
    kiln_status (*window)(kiln_backend *backend, kiln_buffer *parent, size_t offset, size_t bytes,
                          kiln_buffer **out_buffer, kiln_error *err);
    /// Also optional, both: the next `execute` takes its temporaries from `buffers`, in order,
    /// where they are long enough; how long those were that the last one asked for.
    void (*lend)(kiln_backend *backend, kiln_buffer *const *buffers, uint32_t count);
    uint32_t (*asked)(kiln_backend *backend, const uint64_t **out_bytes);
    /// Also optional: from now on the device holds at most so many bytes; 0: what it has. What is
    /// held already stays.
    void (*set_budget)(kiln_backend *backend, uint64_t bytes);
    void (*reset_peaks)(kiln_backend *backend); ///< also optional; in the statistics
    /// Also optional: whether program_build would find all that it needs, or compile it.
    /// UNIMPLEMENTED: the device has no compiler and there is no binary, with what to do.
    kiln_status (*program_ready)(kiln_backend *backend, const kiln_program *program,
                                 kiln_error *err);
    /// Also optional: what was queued last does not come back. From now on every call fails with
    /// DEVICE_LOST and this reason, and none waits, closing included; what the queue may still use
    /// is left to it.
    void (*abandon)(kiln_backend *backend, const char *why);
    /// Also optional: the parts of a program as the device has them.
    kiln_status (*program_parts)(kiln_backend *backend, const kiln_program *program,
                                 kiln_program_part_fn take, void *user, kiln_error *err);
    /// Also optional: whether the device has compiled anything. Some say that they do
    /// (KILN_FEATURE_COMPILER) and refuse; with `ask`, what had to be known is found out: a device
    /// that refuses loses the feature, and then gets KILN_FEATURE_PREPARED.
    bool (*compiles)(kiln_backend *backend, bool ask);
} kiln_backend_ops;

struct kiln_backend { ///< first member of every backend
    const kiln_backend_ops *ops;
};

/// Whether this composite is recorded as simpler operations on this backend: always of class
/// ELEMENTWISE, so that fusers see them, and where the backend does not run it itself.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: none.
KILN_API bool kiln_ir_is_expanded(kiln_backend *backend, const kiln_op_record *record);

/// Opens backends whose address starts with `scheme` and a colon, such as "opencl:0".
typedef struct kiln_backend_provider {
    uint32_t struct_size;
    const char *scheme;
    kiln_status (*open)(const kiln_env *env, const char *address, kiln_backend **out_backend,
                        kiln_error *err, void *user);
    /// Describes the n-th device for `kiln devices`: its address and a line; NOT_FOUND past the
    /// last. May be NULL.
    kiln_status (*describe)(const kiln_env *env, size_t index, char out_address[64],
                            char out_line[192], kiln_error *err, void *user);
    void *user;
    /// Type of the n-th device, without opening it; NOT_FOUND past the last. May be NULL.
    kiln_status (*type_of)(const kiln_env *env, size_t index, kiln_device_type *out_type,
                           kiln_error *err, void *user);
} kiln_backend_provider;

/// Two backends of ir itself: "reference" runs every operator's reference function on the host;
/// "null" keeps memory and runs nothing, programs included, for measuring what a host pays.
/// Ownership: static storage. Lifetime: the process. Thread: any. Errors: none.
KILN_API const kiln_backend_provider *kiln_ir_reference_provider(void);
KILN_API const kiln_backend_provider *kiln_ir_null_provider(void);

/// Runs an operation's reference function on memory of the host: inputs, then outputs, each as
/// `bytes` long as it is, with the views' offsets from its start. For what a backend cannot run.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: OUT_OF_RANGE for a view that leaves its
/// memory; those of the operator.
typedef struct kiln_host_memory {
    void *data;
    size_t bytes;
} kiln_host_memory;
KILN_NODISCARD KILN_API kiln_status kiln_ir_reference_run(const kiln_op_record *record,
                                                          const kiln_view *inputs,
                                                          const kiln_view *outputs,
                                                          const kiln_host_memory *memory,
                                                          kiln_error *err);

// ---- interpolation along one axis: what interpolate and its backward operator sum ----

typedef struct kiln_resample { ///< one axis of a call
    int64_t in;
    int64_t out;
    double scale;
    double start; ///< of the region of tf_crop_and_resize
    double end;
    double cubic_a;
    double stretch; ///< of the filter, below 1 with antialias
    int64_t first; ///< of the filter, from the left neighbour on
    int64_t taps; ///< elements of the filter
    int kind;
    int coordinates;
    bool exclude_outside;
    bool antialias;
    bool identity; ///< elements are themselves: nothing to do along this axis
} kiln_resample;

typedef struct kiln_resample_taps { ///< of one element of the result
    double part; ///< in (0, 1]: distance from the left neighbour
    double total; ///< what weights are divided by
    int64_t first; ///< place of tap 0
} kiln_resample_taps;

/// Reads the attributes of interpolate or interpolate_backward for one axis of tensors of `rank`.
/// `begin` starts element i of the result, `tap` gives the weight and the place of tap k, below
/// r->taps; an element of weight 0 is not read. `place` is the coordinate before any rounding.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT for lengths, scales and
/// names that make no sense.
KILN_NODISCARD KILN_API kiln_status kiln_ir_resample(const kiln_op_record *call, uint32_t rank,
                                                     uint32_t axis, int64_t in, int64_t out,
                                                     kiln_resample *out_axis, kiln_error *err);
KILN_API double kiln_resample_place(const kiln_resample *r, int64_t i);
KILN_API void kiln_resample_begin(const kiln_resample *r, int64_t i, kiln_resample_taps *out_taps);
KILN_API double kiln_resample_tap(const kiln_resample *r, const kiln_resample_taps *taps, int64_t k,
                                  int64_t *out_place);

/// Sample calls of an operator for one dtype, for tests and benches: shapes with zero, one and odd
/// lengths, broadcasting, special values. The sink gets each record with dense input data and the
/// ids 1, 2, ...
typedef struct kiln_sample_sink {
    const kiln_env *env;
    void (*take)(const kiln_op_record *record, const void *const *input_data, void *user);
    void *user;
} kiln_sample_sink;

#ifdef __cplusplus
}
#endif
#endif
