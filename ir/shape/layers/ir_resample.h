// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_RESAMPLE_H
#define KILN_IR_RESAMPLE_H

/// Interpolation along one axis: what interpolate and its backward operator sum. All functions are
/// pure: any thread may call them. No pointer is NULL unless a function takes it.

#include "ir_op.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/// Errors: INVALID_ARGUMENT for lengths, scales and names that make no sense.
KILN_NODISCARD KILN_API kiln_status kiln_ir_resample(const kiln_op_record *call, uint32_t rank,
                                                     uint32_t axis, int64_t in, int64_t out,
                                                     kiln_resample *out_axis, kiln_error *err);

/// Coordinate of element i of the result in the input, before any rounding.
KILN_API double kiln_resample_place(const kiln_resample *r, int64_t i);

/// Starts element i of the result.
KILN_API void kiln_resample_begin(const kiln_resample *r, int64_t i, kiln_resample_taps *out_taps);

/// Weight and place of tap k, below r->taps. An element of weight 0 is not read.
KILN_API double kiln_resample_tap(const kiln_resample *r, const kiln_resample_taps *taps, int64_t k,
                                  int64_t *out_place);

#ifdef __cplusplus
}
#endif

#endif
