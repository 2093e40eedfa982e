// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_WINDOW_ARGS_H
#define KILN_WINDOW_ARGS_H

/// What the kernels of sliding windows and sampling are told, for both compilers.

#ifndef __OPENCL_VERSION__
#include "kernel_args.h"
#endif

typedef struct kiln_pool_shape { ///< pool.cl
    kiln_window w;
    kiln_long planes; ///< n * c
    kiln_long each;
    kiln_long start[3]; ///< values, x, indices
} kiln_pool_shape;

typedef struct kiln_back_shape { ///< window_back.cl
    kiln_window w;
    kiln_long planes; ///< n * c
    kiln_long chunks; ///< of a row
    kiln_long each;
    kiln_long start[3]; ///< result, gradient or columns, indices
} kiln_back_shape;

typedef struct kiln_unpool_shape { ///< max_unpool.cl
    kiln_long planes;
    kiln_long count; ///< of x in one plane
    kiln_long plane; ///< of the result
    kiln_long each;
    kiln_long start[3]; ///< result, x, indices
} kiln_unpool_shape;

typedef struct kiln_resample_shape { ///< resample.cl
    kiln_long outer;
    kiln_long in;
    kiln_long out;
    kiln_long inner;
    kiln_long each;
    kiln_long start[2]; ///< result, x
} kiln_resample_shape;

typedef struct kiln_grid_shape { ///< grid_sample.cl
    kiln_long batch;
    kiln_long channels;
    kiln_long channels_each;
    kiln_long in[3];
    kiln_long points; ///< of one image
    kiln_long each;
    kiln_long start[3]; ///< result, x, grid
} kiln_grid_shape;

typedef struct kiln_roi_shape { ///< roi_align.cl
    kiln_long batch;
    kiln_long channels;
    kiln_long in[2];
    kiln_long boxes;
    kiln_long out[2];
    kiln_long ratio;
    kiln_long each;
    kiln_long start[4]; ///< result, x, boxes, batch indices
} kiln_roi_shape;

typedef struct kiln_deform_shape { ///< deform.cl
    kiln_window w;
    kiln_long batch;
    kiln_long channels;
    kiln_long groups; ///< of channels with the same offsets
    kiln_long each;
    kiln_long start[4]; ///< x, offset, mask, columns
    kiln_long result[3]; ///< of x, offset and mask; [0] of the columns
} kiln_deform_shape;

#endif
