// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_INTERNAL_H
#define KILN_IR_INTERNAL_H

/// What the files of ir share: the functions and objects that ops.def names, checked arithmetic,
/// texts for errors, geometry of windows and axes that inference and the reference evaluator both
/// need.

#include "ir.h"

// ---- named by the table ----

#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, samples, doc) \
    extern const kiln_op_signature signature;                                                      \
    kiln_status shape(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err);     \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err);                        \
    void samples(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);
#include "ops.def"
#undef KILN_OP

#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, samples, doc)
#define KILN_COMPOSITE(id, name, wire, since, cls, signature, n_out, accept, result, shape,        \
                       samples, doc)                                                               \
    void kiln_decompose_##name(struct kiln_expander *expander);
#include "ops.def"
#undef KILN_OP

/// Whether this is domain::name: letters, digits, `_`, `.` and `-`, no digit first.
bool kilni_ir_custom_name_ok(const char *name, size_t length);

// ---- decompositions of composites ----

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
/// Cast to the dtype of the result, when it has another. Nothing happens with one that is unwanted.
void kilni_expand_output(kiln_expander *expander, unsigned index, kilni_value value);

// ---- arithmetic that says when int64 is exceeded ----

bool kilni_ir_add(int64_t a, int64_t b, int64_t *out_sum);
bool kilni_ir_sub(int64_t a, int64_t b, int64_t *out_difference);
bool kilni_ir_mul(int64_t a, int64_t b, int64_t *out_product);

// ---- texts for errors ----

enum { KILNI_IR_SHAPE_TEXT = 80 };

/// Writes "[2,3]" into `out_text`, shortened with ".." when it does not fit, and returns it.
const char *kilni_ir_dims_text(const int64_t *dims, uint32_t rank,
                               char out_text[KILNI_IR_SHAPE_TEXT]);
const char *kilni_ir_desc_text(const kiln_tensor_desc *desc, char out_text[KILNI_IR_SHAPE_TEXT]);
const char *kilni_ir_op_name(const kiln_op_record *call);

// ---- attributes ----

/// A list attribute; count 0 when absent. A text attribute, or its fallback.
const int64_t *kilni_ir_ints(const kiln_op_record *call, kiln_attr_key key, uint32_t *out_count);
const char *kilni_ir_text(const kiln_op_record *call, kiln_attr_key key);

/// The scale of a block whose values reach `range`, as scale_dtype holds it (reference_quant.c).
float kilni_ir_quant_scale(float range, kiln_dtype dtype, kiln_dtype scale_dtype);

/// Writes a float as an element of a float dtype, rounded once to nearest even.
void kilni_ir_store_float(double value, kiln_dtype dtype, void *out_element);

// ---- axes ----

/// Turns `axis` (negative: from the end) into 0..rank-1; INVALID_ARGUMENT outside.
kiln_status kilni_ir_axis(const kiln_op_record *call, int64_t axis, uint32_t rank,
                          uint32_t *out_axis, kiln_error *err);

/// Attribute `axes` as a set of bits; empty or absent: all. A repeated axis is INVALID_ARGUMENT.
kiln_status kilni_ir_axes_mask(const kiln_op_record *call, uint32_t rank, uint32_t *out_mask,
                               kiln_error *err);

/// Attribute `axes` of permute as source axes; empty: reversed.
kiln_status kilni_ir_permutation(const kiln_op_record *call, uint32_t rank,
                                 uint32_t out_axes[KILN_MAX_RANK], kiln_error *err);

/// Length of diagonal `offset` of a matrix of lengths tail[0] and tail[1], and where it begins.
int64_t kilni_ir_diagonal(const int64_t *tail, int64_t offset, int64_t *out_row,
                          int64_t *out_column);

/// Places by which roll moves along `axis`, in [0, length).
int64_t kilni_ir_shift(const kiln_op_record *call, uint32_t rank, uint32_t axis, int64_t length);

/// Start, step and length of a slice along `axis` of length `dim`, as Python's slice.indices.
void kilni_ir_slice_axis(const kiln_op_record *call, uint32_t axis, int64_t dim, int64_t *out_start,
                         int64_t *out_step, int64_t *out_length);

// ---- windows ----

enum { KILNI_IR_SPATIAL = 3 }; ///< spatial axes of a window at most

/// A window over the last `axes` of three spatial axes (depth, height, width); those in front have
/// length 1, so that loops need not know how many there are.
typedef struct kilni_ir_window {
    uint32_t axes;
    int64_t in[KILNI_IR_SPATIAL];
    int64_t kernel[KILNI_IR_SPATIAL];
    int64_t strides[KILNI_IR_SPATIAL];
    int64_t dilations[KILNI_IR_SPATIAL];
    int64_t begin[KILNI_IR_SPATIAL]; ///< padding before and after
    int64_t end[KILNI_IR_SPATIAL];
    int64_t out[KILNI_IR_SPATIAL]; ///< number of windows
} kilni_ir_window;

/// Reads and checks the window attributes for an input with `axes` spatial lengths `in`. `kernel`
/// NULL: from the attribute. INVALID_ARGUMENT when a value is out of place or the kernel exceeds
/// the padded input.
kiln_status kilni_ir_window_of(const kiln_op_record *call, const int64_t *in, uint32_t axes,
                               const int64_t *kernel, kilni_ir_window *out_window, kiln_error *err);

/// The same for conv_transpose: `in` are the lengths that it writes, `out` those that it reads, so
/// that it is the convolution of this window turned round.
kiln_status kilni_ir_window_transposed(const kiln_op_record *call, const int64_t *lengths,
                                       uint32_t axes, const int64_t *kernel,
                                       kilni_ir_window *out_window, kiln_error *err);

/// Number of elements of the window, of windows, and of the input, over all axes.
int64_t kilni_ir_window_taps(const kilni_ir_window *window);
int64_t kilni_ir_window_count(const kilni_ir_window *window);
int64_t kilni_ir_window_plane(const kilni_ir_window *window);

/// The window of adaptive pooling: `in` and `out` only.
kiln_status kilni_ir_window_adaptive(const kiln_op_record *call, const int64_t *in,
                                     const int64_t *out, uint32_t axes, kilni_ir_window *out_window,
                                     kiln_error *err);

/// Rank-2 or higher shapes that matmul works on, after transposition and NumPy's rule for rank 1.
typedef struct kilni_ir_matmul {
    int64_t m, n, k;
    uint32_t a_row_axis, a_k_axis; ///< in the operand; KILN_MAX_RANK when it has no such axis
    uint32_t b_k_axis, b_column_axis;
    uint32_t a_batch, b_batch; ///< leading batch axes
} kilni_ir_matmul;
kiln_status kilni_ir_matmul_of(const kiln_op_record *call, kilni_ir_matmul *out_shape,
                               kiln_error *err);

/// What attention's scores are multiplied with.
double kilni_ir_attention_scale(const kiln_op_record *call);

/// Elements of the signal of fft, rfft or irfft, whose input has `dim` along the axis.
int64_t kilni_ir_signal_length(const kiln_op_record *call, int64_t dim);

/// Broadcasts `dims` into `out_dims` by NumPy's rule; false when lengths disagree.
bool kilni_ir_broadcast(const int64_t *dims, uint32_t rank, int64_t *out_dims, uint32_t *out_rank);

// ---- tolerance.c, for judge.c ----

/// How far from `expected` a float may be, when the tensor's largest counts as `scale`.
double kilni_tolerance_allowed(kiln_tolerance tolerance, kiln_dtype dtype, double scale,
                               double expected);
double kilni_tolerance_scale(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                             const void *expected);

#endif
