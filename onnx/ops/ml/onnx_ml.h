// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_ML_H
#define KILN_ONNX_ML_H

// What operators of ai.onnx.ml share, in the language of onnx_import.h.

#include "onnx_emit_text.h"
#include "onnx_parts.h"

/// What becomes of scores.
typedef enum kilni_onnx_transform {
    KILNI_ONNX_NONE = 0, ///< numbers of TreeEnsemble's attribute
    KILNI_ONNX_SOFTMAX = 1,
    KILNI_ONNX_LOGISTIC = 2,
    KILNI_ONNX_SOFTMAX_ZERO = 3,
    KILNI_ONNX_PROBIT = 4
} kilni_onnx_transform;

/// The attribute post_transform, a name.
kilni_onnx_transform kilni_onnx_ml_transform(kilni_onnx_call *call);
kilni_onnx_ref kilni_onnx_ml_transformed(kilni_onnx_call *call, kilni_onnx_ref scores,
                                         kilni_onnx_transform transform);

/// An input as a table of floats: a list is one row.
kilni_onnx_ref kilni_onnx_ml_rows(kilni_onnx_call *call, uint32_t index);
/// A list that is an attribute as a table. It has to be there and of this length.
kilni_onnx_ref kilni_onnx_ml_table(kilni_onnx_call *call, const char *name, int64_t rows,
                                   int64_t columns);

/// The attribute with the classes' labels, by the name of its integers or the strings; NULL: none.
kilni_onnx_ref kilni_onnx_ml_labels(kilni_onnx_call *call, const char *ints);
/// The first output: the labels at places, i64 [n]. Without labels they are the places.
void kilni_onnx_ml_choose(kilni_onnx_call *call, kilni_onnx_ref labels, kilni_onnx_ref places);
/// Columns of the first of the largest scores.
kilni_onnx_ref kilni_onnx_ml_largest(kilni_onnx_call *call, kilni_onnx_ref scores);
/// Of two classes with one score: labels where it is above `least`, and two columns of scores,
/// which are one's complement where `shares`, its negative otherwise.
void kilni_onnx_ml_binary(kilni_onnx_call *call, kilni_onnx_ref labels, kilni_onnx_ref score,
                          double least, bool shares, kilni_onnx_transform transform);

#endif
