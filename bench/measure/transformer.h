// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_TRANSFORMER_H
#define KILN_BENCH_TRANSFORMER_H

/// A transformer block before its norm (Xiong et al., 2020): 2 sequences of 48 tokens, 128
/// features, 4 heads, GELU between 512. Written on kiln.h alone.

#include "kiln.h"

enum {
    TRANSFORMER_X,
    TRANSFORMER_NORM1,
    TRANSFORMER_BIAS1,
    TRANSFORMER_NORM2,
    TRANSFORMER_BIAS2,
    TRANSFORMER_WQ,
    TRANSFORMER_WK,
    TRANSFORMER_WV,
    TRANSFORMER_WO,
    TRANSFORMER_UP,
    TRANSFORMER_UP_BIAS,
    TRANSFORMER_DOWN,
    TRANSFORMER_DOWN_BIAS,
    TRANSFORMER_PARTS,
    TRANSFORMER_ELEMENTS = 2 * 48 * 128 ///< of the result, 2 x 48 x 128
};

/// The input and the weights, random and always the same. The caller releases all parts, also after
/// an error. Errors: of creating tensors.
kiln_status transformer_make(kiln_device *device, kiln_tensor *out_parts[TRANSFORMER_PARTS],
                             kiln_error *err);

/// Records the block; every intermediate is let go as soon as it can be. The caller releases the
/// result. Errors: of recording.
kiln_status transformer_record(kiln_tensor *const *parts, kiln_tensor **out_result,
                               kiln_error *err);

#endif
