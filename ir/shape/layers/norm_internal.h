// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_NORM_INTERNAL_H
#define KILN_NORM_INTERNAL_H

/// What layer, RMS, group, instance and batch normalisation and their derivatives have in common:
/// over which axes mean and deviation are taken, and along which scale and bias run.

#include "shape_internal.h"

typedef struct kilni_norm {
    unsigned x; ///< which input is x; scale and bias follow it
    unsigned n_params; ///< how many of the inputs after x run along `params`
    bool backward; ///< input 0 is the gradient; results: of x, of scale, and of bias if `centred`
    bool centred; ///< false: RMS, the mean is not subtracted
    bool by_channel; ///< parameters are [dims of axis 1] or of rank 0; else like the last axes
    int64_t groups; ///< above 0: the channels are cut into that many groups
    uint32_t first; ///< by_channel is false: the first axis of the parameters
} kilni_norm;

/// Reads and checks attributes and shapes. Errors: INVALID_ARGUMENT.
kiln_status kilni_ir_norm_of(const kiln_op_record *call, kilni_norm *out_norm, kiln_error *err);

#endif
