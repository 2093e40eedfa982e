// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_IMPORT_H
#define KILN_ONNX_IMPORT_H

// What the importer's files share: values, the call of one node, and the small language in which
// the operators are written (onnx_op_*.c). Every function of that language does nothing after the
// first failure of its call and gives NULL, 0 or an empty list, so that an operator reads like a
// formula. A value that a function returns belongs to the call and goes with it; what outlives the
// call is given to kilni_onnx_out.

#include "attr_make.h"
#include "onnx_model.h"

enum {
    KILNI_ONNX_FOLD_ELEMS = 4096, ///< constants up to this size are computed on the host
    KILNI_ONNX_FOLD_MOST = 1 << 22, ///< and what nodes made of them, where that is not done again
    KILNI_ONNX_MAX_STEPS = 1 << 22, ///< nodes of one run
    KILNI_ONNX_MAX_CALLS = 32, ///< functions and branches inside each other
    KILNI_ONNX_MAX_ITEMS = 1 << 20, ///< of a sequence
    KILNI_ONNX_MAX_DEVICES = 16, ///< of a session
    KILNI_ONNX_NEWEST_OPSET = 28
};

typedef enum kilni_onnx_form {
    KILNI_ONNX_TENSOR = 0,
    KILNI_ONNX_SEQUENCE = 1, ///< of tensors; never changed once made
    KILNI_ONNX_NOTHING = 2, ///< an optional without a value; one with a value is that value
    KILNI_ONNX_MAPS = 3 ///< two items: the keys, a list, and a table with the values of a map a row
} kilni_onnx_form;

/// What DequantizeLinear made a value of, all constants of the file.
typedef struct kilni_onnx_source {
    struct kilni_onnx_value *x;
    struct kilni_onnx_value *scale; ///< f32: one, one a column, or one a column and block of rows
    struct kilni_onnx_value *zero; ///< NULL: none; as many as scales
    int64_t block; ///< rows that share a scale; 0: all
} kilni_onnx_source;

/// A bound input that a run lengthens: memory with room behind what is there, so that only what is
/// new is written.
typedef struct kilni_onnx_growth {
    kiln_tensor *store; ///< as long as there is room for; NULL: nothing was lengthened yet
    uint32_t axis;
    int64_t length; ///< what is there along the axis
    int64_t reserve; ///< asked for; 0: as much again as there is
    bool grown; ///< in this run
} kilni_onnx_growth;

/// What is known of a constant's elements once somebody has looked.
typedef enum kilni_onnx_answer {
    KILNI_ONNX_UNKNOWN = 0,
    KILNI_ONNX_YES = 1,
    KILNI_ONNX_NO = 2
} kilni_onnx_answer;

/// A value of the graph: a tensor on the device, on the host, or both; or a list of tensors.
typedef struct kilni_onnx_value {
    uint32_t refs;
    kilni_onnx_form form;
    bool constant; ///< the same in every run: may be computed with on the host
    bool given; ///< an input of the run
    bool looked; ///< its contents on the host decided about something
    kilni_onnx_answer uniform; ///< are all of a constant's elements one number?
    kilni_onnx_answer large; ///< has a constant of f32 finite elements that f16 has no room for, or
                             ///< was the value computed from such?
    bool statistic; ///< a reduction's result, or computed from such alone
    kiln_tensor_desc desc; ///< as the model has it: what `tensor` holds may be narrower
    int32_t narrow; ///< ONNX's number of a type of few bits, which i8 or u8 holds, or of strings,
                    ///< which i32 does; 0: the dtype's
    kiln_tensor *tensor;
    kiln_tensor *other; ///< the same in the other type of a model that is kept in f16 or bf16; of a
                        ///< constant also without `tensor`
    kilni_onnx_growth *growth; ///< a bound input or what it was lengthened to; without a tensor it
                               ///< is the beginning of the store. Borrowed from the session
    const void *host; ///< dense, at any address
    void *owned; ///< `host` when it is ours to free
    kilni_onnx_file *file; ///< of a constant: where `host` lies, held; or NULL
    struct kilni_onnx_value *made; ///< of a constant: what an operator made of it, and keeps
    struct kilni_onnx_value
        *made_with[3]; ///< of what was made: scales, zero points, groups; or NULL
    kilni_onnx_source *source; ///< of a dequantised matrix; NULL: it is none
    struct kilni_onnx_value
        *turned; ///< of a constant matrix that was turned: the constant; or NULL
    struct kilni_onnx_value *elsewhere; ///< of a constant: the same on another device, or NULL
    struct kilni_onnx_value **items; ///< of a SEQUENCE, with a hold on each
    uint32_t n_items;
    struct kilni_onnx_value *next; ///< in the list of a call
} kilni_onnx_value;

typedef kilni_onnx_value *kilni_onnx_ref;

struct kilni_onnx_frame;

typedef struct kilni_onnx_row kilni_onnx_row;

/// One node being turned into operations.
typedef struct kilni_onnx_call {
    kiln_onnx_session *session;
    struct kilni_onnx_frame *frame;
    const kilni_onnx_node *node;
    const kilni_onnx_row *row;
    int64_t version; ///< of the operator set
    kilni_onnx_ref *inputs; ///< NULL where left out
    kilni_onnx_ref *outputs;
    uint32_t n_inputs;
    uint32_t n_outputs;
    kilni_onnx_ref temps;
    bool on_host; ///< contents that are no constant were computed with on the host
    bool has_body; ///< its graphs' nodes computed the outputs
    bool in_f32; ///< what it computes stays in f32, where the model is kept in a narrower type
    kiln_status status;
    kiln_error *err;
} kilni_onnx_call;

/// A row of onnx_ops.def or onnx_contrib.def.
struct kilni_onnx_row {
    const char *op_type;
    int32_t first; ///< versions of the operator set
    int32_t last;
    uint32_t least; ///< inputs, those that may be left out among them
    uint32_t most;
    void (*handler)(kilni_onnx_call *call);
    kiln_op op; ///< of a row that is one operator; KILN_OP_COUNT otherwise
    const char *attrs; ///< what it takes of them, each between blanks; NULL: the handler asks
};

/// Which operators there are: those of onnx_ops.def and onnx_contrib.def and those of plugins.
typedef struct kilni_onnx_operators {
    /// The row that serves a node at a version, in static storage; NULL: none. `out_known` says
    /// whether the operator is served at another version. A version newer than
    /// KILNI_ONNX_NEWEST_OPSET counts as that one.
    const kilni_onnx_row *(*find)(kiln_device *device, const kilni_onnx_node *node, int64_t version,
                                  bool *out_known);
    /// Why a standard operator is not served at any version; NULL: it is not among those.
    const char *(*refusal)(const char *op_type);
    /// An attribute of a node that its row does not list; of a standard one, that its operator has
    /// not in the newest set that is known. NULL: there is none, so that a newer set means the same
    /// for all that can be seen.
    const char *(*unknown_attr)(const kilni_onnx_node *node, const kilni_onnx_row *row);
} kilni_onnx_operators;

extern const kilni_onnx_operators kilni_onnx_all_operators;

/// The plugin's operator for a node of a foreign domain, and the handler of such nodes. It lives as
/// long as the device. Errors: NOT_FOUND.
kiln_status kilni_onnx_find_custom(kiln_device *device, const kilni_onnx_node *node,
                                   int64_t version, const kiln_custom_op **out_op, kiln_error *err);
void kilni_onnx_op_custom(kilni_onnx_call *call);

// ---- values ----

kilni_onnx_ref kilni_onnx_value_new(const kiln_env *env);
kilni_onnx_ref kilni_onnx_retain(kilni_onnx_ref value);
void kilni_onnx_release(const kiln_env *env, kilni_onnx_ref value);
/// A value that goes with the call; NULL after failing.
kilni_onnx_ref kilni_onnx_temp(kilni_onnx_call *call);
/// Whether a value is a constant that the host computes with.
bool kilni_onnx_is_small(const kilni_onnx_value *value);

/// A bound input with `x` behind it along an axis, as the beginning of its store; NULL when that is
/// not what `past` is, or it was lengthened in this run already: then it is an ordinary value.
kilni_onnx_ref kilni_onnx_lengthen(kilni_onnx_call *call, kilni_onnx_ref past, kilni_onnx_ref x,
                                   int64_t axis);
/// The beginning of a store as a tensor. Errors: those of recording.
kiln_status kilni_onnx_growth_view(const kilni_onnx_growth *growth, int64_t length,
                                   kiln_tensor **out_tensor, kiln_error *err);
/// Puts a tensor into the store from `start` on.
kiln_status kilni_onnx_growth_write(kilni_onnx_growth *growth, kiln_tensor *tensor, int64_t start,
                                    kiln_error *err);

// ---- inputs, outputs, failure ----

/// The first failure of a call stays; later ones are consequences.
#define KILNI_ONNX_FAIL(call, CODE, ...)                                                           \
    do {                                                                                           \
        if ((call)->status == KILN_STATUS_OK) {                                                    \
            (void)kiln_fail((call)->err, CODE, __VA_ARGS__);                                       \
            (call)->status = KILN_STATUS_##CODE;                                                   \
        }                                                                                          \
    } while (0)

/// Says at which node a call failed: by its name, or by what it gives when it has none. Errors:
/// returns the record's code.
kiln_status kilni_onnx_at_node(kiln_error *err, const kilni_onnx_node *node);

static inline bool kilni_onnx_ok(const kilni_onnx_call *call)
{
    return call->status == KILN_STATUS_OK;
}

kilni_onnx_ref kilni_onnx_in(kilni_onnx_call *call, uint32_t index); ///< a tensor, required
kilni_onnx_ref kilni_onnx_opt(kilni_onnx_call *call, uint32_t index); ///< NULL when left out
/// A value of whatever form; a sequence. Required.
kilni_onnx_ref kilni_onnx_in_any(kilni_onnx_call *call, uint32_t index);
kilni_onnx_ref kilni_onnx_in_sequence(kilni_onnx_call *call, uint32_t index);
void kilni_onnx_out(kilni_onnx_call *call, uint32_t index, kilni_onnx_ref value);
bool kilni_onnx_wants(const kilni_onnx_call *call,
                      uint32_t index); ///< whether the output has a name

/// Contents on the host, read from the device when need be, to compute with: the node counts as the
/// host's then. NULL on failure or when there are no elements.
const void *kilni_onnx_host(kilni_onnx_call *call, kilni_onnx_ref value);

typedef struct kilni_onnx_ints {
    int64_t v[64];
    uint32_t count;
} kilni_onnx_ints;

/// An integer value as numbers; at most 64. Axes and lengths are read so.
kilni_onnx_ints kilni_onnx_value_ints(kilni_onnx_call *call, kilni_onnx_ref value);
/// One element of an integer value.
int64_t kilni_onnx_value_int_at(kilni_onnx_call *call, kilni_onnx_ref value, int64_t index);
/// One element of a dense array at any address.
kiln_number kilni_onnx_element(kiln_dtype dtype, const void *data, int64_t index);
/// A value of one element as a number of its kind.
kiln_number kilni_onnx_value_number(kilni_onnx_call *call, kilni_onnx_ref value);

// ---- attributes ----

/// "a list of floats", for messages.
const char *kilni_onnx_attr_type_name(kilni_onnx_attr_type type);
/// NULL when absent; references of functions are resolved.
const kilni_onnx_attr *kilni_onnx_attr_find(const kilni_onnx_call *call, const char *name);
int64_t kilni_onnx_attr_int(kilni_onnx_call *call, const char *name, int64_t fallback);
double kilni_onnx_attr_float(kilni_onnx_call *call, const char *name, double fallback);
const char *kilni_onnx_attr_text(kilni_onnx_call *call, const char *name, const char *fallback);
bool kilni_onnx_attr_ints(kilni_onnx_call *call, const char *name, kilni_onnx_ints *out_ints);
/// An element type given as ONNX's number, where 0 is as if left out; NONE after failing when Kiln
/// has it not.
kiln_dtype kilni_onnx_attr_dtype(kilni_onnx_call *call, const char *name, kiln_dtype fallback);
/// ONNX's number of a type that another holds: the floats of 8 and 4 bits, the integers of 4 and 2,
/// strings; 0 for every other.
static inline int32_t kilni_onnx_narrow_of(int64_t onnx_type)
{
    bool narrow = onnx_type >= KILNI_ONNX_TYPE_F8E4M3FN && onnx_type <= KILNI_ONNX_TYPE_INT2;
    return narrow || onnx_type == KILNI_ONNX_TYPE_STRING ? (int32_t)onnx_type : 0;
}
/// The dtype that holds a value of ONNX's type: u8 for small floats, i32 for strings.
kiln_dtype kilni_onnx_dtype_of(kilni_onnx_call *call, int64_t onnx_type);

// ---- constants ----

kilni_onnx_ref kilni_onnx_const_ints(kilni_onnx_call *call, const int64_t *values, uint32_t count);
kilni_onnx_ref kilni_onnx_const_int(kilni_onnx_call *call, int64_t value); ///< rank 0
kilni_onnx_ref kilni_onnx_const_data(kilni_onnx_call *call, kiln_dtype dtype, uint32_t rank,
                                     const int64_t *dims, const void *data); ///< copied
/// Zeroed memory on the host that goes with the call, to be filled through `owned`.
kilni_onnx_ref kilni_onnx_scratch(kilni_onnx_call *call, kiln_dtype dtype, uint32_t rank,
                                  const int64_t *dims);
kilni_onnx_ref kilni_onnx_const_tensor(kilni_onnx_call *call, const kilni_onnx_tensor *tensor);
/// What was made of something at this address of the file before, by any run; NULL: nothing was.
kilni_onnx_ref kilni_onnx_kept_of(kilni_onnx_call *call, const void *key);
void kilni_onnx_keep_made(kilni_onnx_call *call, const void *key, kilni_onnx_ref value);

/// Whether i32 holds numbers of strings: equal ones have one number, and the number says no more.
static inline bool kilni_onnx_is_text(const kilni_onnx_value *value)
{
    return value->narrow == KILNI_ONNX_TYPE_STRING;
}

/// A sequence with room for `count` items, each NULL; the maker gives it holds.
kilni_onnx_ref kilni_onnx_sequence(kilni_onnx_call *call, int64_t count);
kilni_onnx_ref kilni_onnx_nothing(kilni_onnx_call *call);

// ---- operations ----

/// Records any operator of the table, or computes it on the host when its inputs are small
/// constants.
kilni_onnx_ref kilni_onnx_emit(kilni_onnx_call *call, kiln_op op, const kilni_onnx_ref *inputs,
                               uint32_t n_inputs, const kiln_attr *attrs, uint32_t n_attrs);
/// The same for an operator with several results: `out_values` has room for all of them.
void kilni_onnx_emit_many(kilni_onnx_call *call, kiln_op op, const kilni_onnx_ref *inputs,
                          uint32_t n_inputs, const kiln_attr *attrs, uint32_t n_attrs,
                          kilni_onnx_ref *out_values);
/// An operator of a plugin, with attributes by name; `out_values` has room for all of its outputs.
void kilni_onnx_emit_custom(kilni_onnx_call *call, const kiln_custom_op *op,
                            const kiln_custom_attr *attrs, size_t n_attrs,
                            const kilni_onnx_ref *inputs, uint32_t n_inputs,
                            kilni_onnx_ref *out_values);
/// Whether the model is kept in a narrower type than its floats have.
bool kilni_onnx_is_kept(const kilni_onnx_call *call);
kilni_onnx_ref kilni_onnx_unary(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x);
/// With broadcasting; a constant operand of one element becomes a scalar attribute.
kilni_onnx_ref kilni_onnx_binary(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref a,
                                 kilni_onnx_ref b);
/// Whether b can be a scalar attribute of an operation on a.
bool kilni_onnx_is_number(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                          kiln_number *out_number);
kilni_onnx_ref kilni_onnx_scalar(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x, double value);
kilni_onnx_ref kilni_onnx_scalar_int(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                     int64_t value);
kilni_onnx_ref kilni_onnx_clamp(kilni_onnx_call *call, kilni_onnx_ref x, double low, double high);
kilni_onnx_ref kilni_onnx_where(kilni_onnx_call *call, kilni_onnx_ref mask, kilni_onnx_ref a,
                                kilni_onnx_ref b);
kilni_onnx_ref kilni_onnx_mask_fill(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref mask,
                                    double value);
/// The value itself when it has the dtype already.
kilni_onnx_ref kilni_onnx_cast(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype);
/// To one of ONNX's types, those of few bits among them: floats are rounded and bounded, integers
/// keep their low bits.
kilni_onnx_ref kilni_onnx_cast_to(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype,
                                  int32_t narrow);

/// How numbers become powers of two in float8e8m0.
typedef enum kilni_onnx_rounding {
    KILNI_ONNX_NEAREST = 0,
    KILNI_ONNX_UP = 1,
    KILNI_ONNX_DOWN = 2
} kilni_onnx_rounding;

/// Whether u8 holds the bits of a small float.
static inline bool kilni_onnx_is_bits(int32_t narrow)
{
    return kiln_dtype_kind_of(kilni_onnx_type_dtype(narrow)) == KILN_KIND_SMALL;
}
/// The numbers that bits stand for, in f32; every other value itself.
kilni_onnx_ref kilni_onnx_decoded(kilni_onnx_call *call, kilni_onnx_ref x);
/// Whether there is a scale for each block of `block` elements of x along the axis.
bool kilni_onnx_blocks_fit(const kiln_tensor_desc *scale, const kiln_tensor_desc *x, uint32_t axis,
                           int64_t block);
/// The numbers of a weight of small floats and its scale, by DequantizeLinear's attributes, made
/// once. NULL: not of the file, small enough to be folded, or of a zero point.
kilni_onnx_ref kilni_onnx_small_weight(kilni_onnx_call *call, kilni_onnx_ref x,
                                       kilni_onnx_ref scale);
/// Bits of the small float that `narrow` names; saturating, what is too large becomes the largest.
kilni_onnx_ref kilni_onnx_encoded(kilni_onnx_call *call, kilni_onnx_ref x, int32_t narrow,
                                  bool saturate, kilni_onnx_rounding rounding);
kilni_onnx_ref kilni_onnx_reshape(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *dims,
                                  uint32_t rank);
kilni_onnx_ref kilni_onnx_expand(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *dims,
                                 uint32_t rank);
kilni_onnx_ref kilni_onnx_permute(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *axes,
                                  uint32_t count);
/// One axis from `start` to `end` by `step`.
kilni_onnx_ref kilni_onnx_slice_axis(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis,
                                     int64_t start, int64_t end, int64_t step);
kilni_onnx_ref kilni_onnx_slice(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *starts,
                                const int64_t *ends, const int64_t *steps);
kilni_onnx_ref kilni_onnx_reduce(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                 const int64_t *axes, uint32_t count, bool keepdims);
kilni_onnx_ref kilni_onnx_argreduce(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                    int64_t axis, bool keepdims, bool last);
kilni_onnx_ref kilni_onnx_with_axis(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                    int64_t axis);
/// SELECT or GATHER.
kilni_onnx_ref kilni_onnx_indexed(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                  kilni_onnx_ref indices, int64_t axis);
kilni_onnx_ref kilni_onnx_concat(kilni_onnx_call *call, const kilni_onnx_ref *inputs,
                                 uint32_t count, int64_t axis);
/// `padding`: all beginnings, then all ends.
kilni_onnx_ref kilni_onnx_pad(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *padding,
                              const char *mode, kiln_number value);
kilni_onnx_ref kilni_onnx_matmul(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                                 bool transpose_a, bool transpose_b);
/// x, weight and their zero points (NULL: 0) as the attributes of the node say, summed in i32.
kilni_onnx_ref kilni_onnx_conv_integer(kilni_onnx_call *call, const kilni_onnx_ref given[4]);
kilni_onnx_ref kilni_onnx_full(kilni_onnx_call *call, kiln_dtype dtype, const int64_t *dims,
                               uint32_t rank, kiln_number value);
kilni_onnx_ref kilni_onnx_arange(kilni_onnx_call *call, kiln_dtype dtype, int64_t count,
                                 kiln_number start, kiln_number step);

// ---- shapes ----

/// 0 to rank - 1 from an axis that may be negative; fails otherwise. `rank` counts the positions.
uint32_t kilni_onnx_axis(kilni_onnx_call *call, int64_t axis, uint32_t rank);
/// Product of dims[first] up to before dims[end].
int64_t kilni_onnx_span_of(const kiln_tensor_desc *desc, uint32_t first, uint32_t end);
bool kilni_onnx_is_float(const kilni_onnx_value *value);
/// Whether the device computes with a dtype.
bool kilni_onnx_computes(const kilni_onnx_call *call, kiln_dtype dtype);

// ---- attribute values for kilni_onnx_emit ----

static inline kiln_attr kilni_onnx_a_number(kiln_number number)
{
    return number.is_integer ? kilni_attr_i64(number.v.i) : kilni_attr_f64(number.v.f);
}

// ---- the operators (onnx_op_*.c), one declaration for each handler of the table

#define KILN_ONNX_OP(type, first, last, least, most, handler, op)                                  \
    void kilni_onnx_op_##handler(kilni_onnx_call *call);
#include "onnx_ops.def"
#undef KILN_ONNX_OP
#define KILN_ONNX_CONTRIB(domain, type, last, least, most, handler, attributes)                    \
    void kilni_onnx_op_##handler(kilni_onnx_call *call);
#include "onnx_contrib.def"
#undef KILN_ONNX_CONTRIB

/// Notes of a matrix, the result of this call of DequantizeLinear, what it was made from, where
/// that is constant and quantised along the rows.
void kilni_onnx_note_source(kilni_onnx_call *call, kilni_onnx_ref value);
/// Few rows times a dequantised matrix: with its quantised values, made once. NULL: not such a
/// product, or after failing.
kilni_onnx_ref kilni_onnx_matmul_few_rows(kilni_onnx_call *call, kilni_onnx_ref a,
                                          kilni_onnx_ref b);

#endif
