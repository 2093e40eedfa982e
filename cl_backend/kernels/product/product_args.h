// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PRODUCT_ARGS_H
#define KILN_PRODUCT_ARGS_H

/// What the kernels of matrix products, convolutions and quantised ones are told, for both
/// compilers.

#ifndef __OPENCL_VERSION__
#include "kernel_args.h"
#endif

typedef struct kiln_matmul_shape { ///< matmul.cl
    kiln_long m;
    kiln_long n;
    kiln_long k;
    kiln_long batch;
    kiln_long rank; ///< of the batch axes
    kiln_long dims[8];
    kiln_long strides[3][8]; ///< of the result, a, b along the batch axes
    kiln_long start[3];
    kiln_long row_stride[3]; ///< result along m, a along m, b along k
    kiln_long column_stride[3]; ///< result along n, a along k, b along n
} kiln_matmul_shape;

typedef struct kiln_conv_direct_shape { ///< conv.cl
    kiln_long batch;
    kiln_long channels; ///< of x in one group
    kiln_long groups;
    kiln_long outputs; ///< of one group
    kiln_long in[3];
    kiln_long out[3];
    kiln_long taps[3];
    kiln_long strides[3];
    kiln_long dilations[3];
    kiln_long start[4]; ///< result, x, weight, bias
} kiln_conv_direct_shape;

typedef struct kiln_conv_shape { ///< conv.cl
    kiln_window w;
    kiln_long images; ///< batch * groups
    kiln_long groups;
    kiln_long channels; ///< of x in one group
    kiln_long outputs; ///< of one group
    kiln_long positions; ///< results of one channel
    kiln_long depth; ///< channels * taps
    kiln_long tiles; ///< of one image
    kiln_long tiles_each; ///< of a work-item
    kiln_long chunks; ///< of tiles
    kiln_long outputs_each; ///< of a work-item
    kiln_long start[4]; ///< result, x, weight, bias
} kiln_conv_shape;

typedef struct kiln_conv_plane_shape { ///< conv.cl: groups of one channel of two spatial axes
    kiln_long images; ///< batch * groups
    kiln_long each; ///< images of a work-item
    kiln_long groups;
    kiln_long outputs; ///< of one group
    kiln_long in[2];
    kiln_long out[2];
    kiln_long begin[2]; ///< padding
    kiln_long rows; ///< that windows reach, padding counted
    kiln_long part; ///< columns of a part of a row
    kiln_long start[4]; ///< result, x, weight, bias
} kiln_conv_plane_shape;

typedef struct kiln_columns_shape { ///< im2col.cl
    kiln_window w;
    kiln_long rows; ///< n * c * taps * rows of windows
    kiln_long each;
    kiln_long start[2]; ///< result, x
} kiln_columns_shape;

typedef struct kiln_recurrent_shape { ///< recurrent.cl
    kiln_long steps;
    kiln_long batch;
    kiln_long inputs;
    kiln_long hidden;
    kiln_long directions;
    kiln_long reverse; ///< whether the first direction begins with the last step
    kiln_long blocks; ///< of units
    kiln_long rows_each; ///< rows of x for a work-item
    kiln_long batch_each; ///< rows of the batch for a team
    kiln_long teams; ///< in all directions
    kiln_long members; ///< of a team, each with a share of the blocks
    kiln_long packed; ///< whether the weights are already
    kiln_long has[3]; ///< whether there are bias, initial_h, initial_c
    kiln_long start[9]; ///< x, weight, recurrence, these three, values, last_h, last_c
} kiln_recurrent_shape;

typedef struct kiln_quant_shape { ///< quant.cl
    kiln_long count;
    kiln_long words;
    kiln_long each; ///< words for a work-item
    kiln_long rank;
    kiln_long has_global;
    kiln_long dims[8];
    kiln_long shift[8]; ///< log2 of a block's length; 62 for the whole axis
    kiln_long blocks[8];
} kiln_quant_shape;

typedef struct kiln_quant_matmul_shape { ///< quant.cl
    kiln_long m;
    kiln_long n;
    kiln_long k;
    kiln_long k_shift; ///< blocks of the weight along k and n
    kiln_long n_shift;
    kiln_long n_blocks;
    kiln_long has_global;
} kiln_quant_matmul_shape;

typedef struct kiln_quant_dot_shape { ///< quant_dot.cl; starts in elements of their buffers
    kiln_long m;
    kiln_long n;
    kiln_long k;
    kiln_long each; ///< columns of a work-item
    kiln_long k_shift; ///< blocks of the weight along k and n
    kiln_long n_shift;
    kiln_long k_blocks;
    kiln_long has_global;
    kiln_long out_start;
    kiln_long a_start;
    kiln_long weight_start;
    kiln_long scales_start;
    kiln_long global_start;
} kiln_quant_dot_shape;

typedef struct kiln_quant_team_part { ///< a product of quant_team.cl and quant_tensor.cl
    kiln_long n;
    kiln_long n_shift;
    kiln_long has_global;
    kiln_long out_start;
    kiln_long weight_start;
    kiln_long scales_start;
    kiln_long global_start;
    kiln_long groups;
} kiln_quant_team_part;

typedef struct kiln_quant_team_shape { ///< what its products share
    kiln_long m;
    kiln_long k;
    kiln_long k_shift;
    kiln_long k_blocks;
    kiln_long a_start;
    kiln_quant_team_part parts[8];
} kiln_quant_team_shape;

#endif
