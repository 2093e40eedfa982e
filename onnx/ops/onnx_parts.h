// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_PARTS_H
#define KILN_ONNX_PARTS_H

// Pieces of operators that other operators are made of, in the language of onnx_import.h: nothing
// of it does anything after the first failure of its call.

#include "onnx_import.h"

/// x / 2 * (1 + erf(x / sqrt(2))), or its approximation by tanh.
kilni_onnx_ref kilni_onnx_gelu(kilni_onnx_call *call, kilni_onnx_ref x, bool by_tanh);

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
    kilni_onnx_ref hidden; ///< true where a key is not seen; NULL: all are
    kilni_onnx_ref blind; ///< true where a row sees no key; NULL: there is none such
    kilni_onnx_ref first; ///< the place of the first row among the keys of each sample; or NULL
    int64_t offset; ///< and that of all samples where `first` is NULL
    int64_t batch, heads, groups, rows, keys;
    double scale; ///< of the scores
    double cap; ///< scores become cap * tanh(scores / cap); 0: they stay
    kiln_dtype precision; ///< of the softmax; NONE: the scores' own
    int64_t given_step;
    bool flat; ///< heads of the result lie side by side: three axes
} kilni_onnx_attention;

/// [batch, length, heads * size] as [batch, heads, length, size]; `name` is the attribute that says
/// how many heads there are.
kilni_onnx_ref kilni_onnx_heads_apart(kilni_onnx_call *call, kilni_onnx_ref x, int64_t heads,
                                      const char *name);
/// The numbers of heads, rows and keys from query and key.
void kilni_onnx_attention_measure(kilni_onnx_call *call, kilni_onnx_attention *a);
/// The attribute `scale`, or 1 / sqrt(size).
double kilni_onnx_score_scale(kilni_onnx_call *call, const kilni_onnx_attention *a);
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
