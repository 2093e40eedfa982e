// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_PARTS_H
#define KILN_ONNX_PARTS_H

// Pieces of operators that other operators are made of, in the language of onnx_import.h: nothing
// of it does anything after the first failure of its call.

#include "onnx_emit_as.h"

/// x / 2 * (1 + erf(x / sqrt(2))), or its approximation by tanh.
kilni_onnx_ref kilni_onnx_gelu(kilni_onnx_call *call, kilni_onnx_ref x, bool by_tanh);

/// Over the axes from `axis` on, as one row.
kilni_onnx_ref kilni_onnx_softmax_from(kilni_onnx_call *call, kilni_onnx_ref x, int64_t axis);
/// The last axis as axis 1, and back. Of fewer than three axes nothing moves.
kilni_onnx_ref kilni_onnx_channels_second(kilni_onnx_call *call, kilni_onnx_ref x);
kilni_onnx_ref kilni_onnx_channels_behind(kilni_onnx_call *call, kilni_onnx_ref x);
/// ONNX's Gather.
kilni_onnx_ref kilni_onnx_take(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref indices,
                               int64_t axis);

// ---- quantised: onnx_op_quant.c, onnx_op_qlinear.c ----

/// u8 from the range of x with 0 in it; scale and zero point are of rank 0.
typedef struct kilni_onnx_quantised {
    kilni_onnx_ref values, scale, zero;
} kilni_onnx_quantised;

kilni_onnx_quantised kilni_onnx_quantise_by_range(kilni_onnx_call *call, kilni_onnx_ref x);
/// (a - zeros[0]) times (b - zeros[1]) in i32, each turned or not; a zero point may be NULL.
kilni_onnx_ref kilni_onnx_integer_product(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                                          const kilni_onnx_ref zeros[2], const bool turned[2]);
/// The same in f32, in units of both scales.
kilni_onnx_ref kilni_onnx_float_product(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                                        const kilni_onnx_ref scales[2],
                                        const kilni_onnx_ref zeros[2]);
/// A scale of one element as a number; one along an axis with `after` axes behind it.
kilni_onnx_ref kilni_onnx_scale_before(kilni_onnx_call *call, kilni_onnx_ref scale, uint32_t after);
/// A scale for each block of elements along an axis of x: laid out as x is.
kilni_onnx_ref kilni_onnx_over_blocks(kilni_onnx_call *call, kilni_onnx_ref value,
                                      const kiln_tensor_desc *x, uint32_t axis, int64_t block);
/// (x - zero) * scale in f32, of one scale and zero point (NULL: 0) for all.
kilni_onnx_ref kilni_onnx_unquantised(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref scale,
                                      kilni_onnx_ref zero);

// ---- attention: onnx_op_attention.c ----

/// Which scores an attention gives as its output 3.
enum {
    KILNI_ONNX_SCORES_RAW,
    KILNI_ONNX_SCORES_CAPPED,
    KILNI_ONNX_SCORES_BIASED,
    KILNI_ONNX_SHARES
};

typedef struct kilni_onnx_attention {
    kilni_onnx_ref query; ///< [batch, heads, rows, size]
    kilni_onnx_ref key; ///< [batch, key heads, keys, size]
    kilni_onnx_ref value;
    kilni_onnx_ref bias; ///< added to the scores; NULL: none. All masks have four axes
    kilni_onnx_ref hidden; ///< true where a key is not seen; NULL: all are, but for `places`
    kilni_onnx_ref places[2]; ///< of keys and rows; NULL: none
    kiln_op compare; ///< of places: true where a key is not seen
    kilni_onnx_ref blind; ///< true where a row sees no key; NULL: there is none such
    kilni_onnx_ref first; ///< the place of the first row among the keys of each sample; or NULL
    int64_t offset; ///< and that of all samples where `first` is NULL
    int64_t batch, heads, groups, rows, keys;
    double scale; ///< of the scores
    double cap; ///< scores become cap * tanh(scores / cap); 0: they stay
    kiln_dtype precision; ///< of the softmax; NONE: the scores' own
    int64_t given_step;
    kilni_onnx_ref sink; ///< [1, heads, 1, 1]: a score beside the keys', of nothing; NULL: none
    bool flat; ///< heads of the result lie side by side: three axes
} kilni_onnx_attention;

/// [batch, length, heads * size] as [batch, heads, length, size]; `name` is the attribute that says
/// how many heads there are.
kilni_onnx_ref kilni_onnx_heads_apart(kilni_onnx_call *call, kilni_onnx_ref x, int64_t heads,
                                      const char *name);
/// The numbers of heads, rows and keys from query and key.
void kilni_onnx_attention_measure(kilni_onnx_call *call, kilni_onnx_attention *a);
/// Adds to `bias`: numbers of four axes.
void kilni_onnx_add_bias(kilni_onnx_call *call, kilni_onnx_attention *a, kilni_onnx_ref bias);
/// 0, 1, .. count - 1 along axis 2 (rows) or 3 (keys), counted from `first`.
kilni_onnx_ref kilni_onnx_places(kilni_onnx_call *call, int64_t count, uint32_t axis,
                                 int64_t first);
/// 1 / sqrt(size)
double kilni_onnx_default_scale(const kilni_onnx_attention *a);
/// com.microsoft's attention_bias of four axes, of which the first keys count; NULL: none.
void kilni_onnx_take_bias(kilni_onnx_call *call, kilni_onnx_attention *a, kilni_onnx_ref bias);
/// Hides the keys whose distance behind (op LESS) or in front of (GREATER) the row is more than
/// `most`.
void kilni_onnx_hide_far(kilni_onnx_call *call, kilni_onnx_attention *a, kiln_op op, int64_t most);
/// Hides the keys from `lengths` on: [batch, 1, 1, 1].
void kilni_onnx_hide_from(kilni_onnx_call *call, kilni_onnx_attention *a, kilni_onnx_ref lengths);
/// softmax(query key^T * scale, masked) value
kilni_onnx_ref kilni_onnx_attend(kilni_onnx_call *call, kilni_onnx_attention *a);

// ---- rotary positions: onnx_op_decoder.c ----

typedef struct kilni_onnx_rotation {
    kilni_onnx_ref cosine, sine; ///< tables
    kilni_onnx_ref positions; ///< where in the tables; NULL: they are of these rows
    int64_t size; ///< columns that are turned; 0: all
    bool neighbours; ///< pairs stand side by side, not one in each half
} kilni_onnx_rotation;

/// x as [batch, rows, heads, size], its pairs turned.
kilni_onnx_ref kilni_onnx_rotate(kilni_onnx_call *call, kilni_onnx_ref x,
                                 const kilni_onnx_rotation *by);

#endif
