// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SHAPE_INTERNAL_H
#define KILN_SHAPE_INTERNAL_H

/// Axes, windows and operands as the attributes of a call say them, for shapes and the reference.

#include "op_internal.h"
#include "tensor_internal.h"

/// Gives `out` rank and lengths of x.
void kilni_ir_same_shape(const kiln_tensor_desc *x, kiln_tensor_desc *out);

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

#endif
