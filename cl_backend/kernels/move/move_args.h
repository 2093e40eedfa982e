// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_MOVE_ARGS_H
#define KILN_MOVE_ARGS_H

/// What the kernels of copies and rearrangements are told, for both compilers.

#ifndef __OPENCL_VERSION__
#include "kernel_args.h"
#endif

typedef struct kiln_pad_shape { ///< pad.cl
    kiln_long rank;
    kiln_long count;
    kiln_long each;
    kiln_long out_start;
    kiln_long in_start;
    kiln_long dims[8];
    kiln_long kept[8];
    kiln_long begin[8]; ///< of the kept part in the output
    kiln_long strides[8];
} kiln_pad_shape;

typedef struct kiln_transpose_shape { ///< transpose.cl
    kiln_long x;
    kiln_long y;
    kiln_long in_stride; ///< along x
    kiln_long out_stride; ///< along y
    kiln_long in_start;
    kiln_long out_start;
    kiln_long x_blocks;
    kiln_long y_blocks;
    kiln_long planes;
    kiln_long rank; ///< of the planes
    kiln_long dims[8];
    kiln_long in_strides[8];
    kiln_long out_strides[8];
} kiln_transpose_shape;

typedef struct kiln_tuple { ///< gather.cl
    kiln_long distance;
    kiln_long lengths[8];
    kiln_long strides[8];
} kiln_tuple;

typedef struct kiln_sequence { ///< scatter.cl
    kiln_long count; ///< values of a lane, and how far apart they and their indices are
    kiln_long value_stride;
    kiln_long index_stride;
    kiln_long parts; ///< of the first indexed axis
    kiln_long part_length;
    kiln_long distance;
    kiln_long lengths[8];
    kiln_long strides[8];
} kiln_sequence;

#endif
