// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REDUCE_ARGS_H
#define KILN_REDUCE_ARGS_H

/// What the kernels of reductions and scans are told, for both compilers.

#ifndef __OPENCL_VERSION__
#include "kernel_args.h"
#endif

typedef struct kiln_reduce_shape { ///< reduce.cl
    kiln_long outputs;
    kiln_long each; ///< results of a work-item
    kiln_long count; ///< elements of one result, for the mean
    kiln_long parts; ///< = inner_parts * outer_parts
    kiln_long inner_parts;
    kiln_long inner_chunk;
    kiln_long outer_chunk;
    kiln_long inner; ///< innermost reduced axis
    kiln_long inner_stride;
    kiln_long outer; ///< product of the other reduced axes
    kiln_long in_start;
    kiln_long out_start;
    kiln_long columns; ///< innermost kept axis, for kiln_reduce_columns
    kiln_long column_chunk;
    kiln_long column_chunks;
    kiln_long kept_rank;
    kiln_long outer_rank;
    kiln_long kept_dims[8];
    kiln_long kept_strides[8];
    kiln_long outer_dims[8];
    kiln_long outer_strides[8];
} kiln_reduce_shape;

typedef struct kiln_argreduce_shape { ///< argreduce.cl
    kiln_long outputs;
    kiln_long each;
    kiln_long length;
    kiln_long stride;
    kiln_long in_start;
    kiln_long out_start;
    kiln_long columns; ///< neighbouring results, across
    kiln_long rank;
    kiln_long dims[8];
    kiln_long strides[8];
} kiln_argreduce_shape;

typedef struct kiln_scan_shape { ///< scan.cl
    kiln_long lines;
    kiln_long each;
    kiln_long length;
    kiln_long parts;
    kiln_long part_length;
    kiln_long in_stride; ///< along the axis
    kiln_long out_stride;
    kiln_long in_start;
    kiln_long out_start;
    kiln_long columns; ///< neighbouring lines, for kiln_scan_columns
    kiln_long column_chunks;
    kiln_long rank; ///< of the other axes; without the columns
    kiln_long dims[8];
    kiln_long in_strides[8];
    kiln_long out_strides[8];
} kiln_scan_shape;

#endif
