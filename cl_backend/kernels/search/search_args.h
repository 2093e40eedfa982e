// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SEARCH_ARGS_H
#define KILN_SEARCH_ARGS_H

/// What the kernels of searching and sorting are told, for both compilers.

#ifndef __OPENCL_VERSION__
#include "kernel_args.h"
#endif

typedef struct kiln_argwhere_shape { ///< argwhere.cl
    kiln_long elems;
    kiln_long chunk;
    kiln_long chunks;
    kiln_long count; ///< rows of the result
    kiln_long rank;
    kiln_long mask_start;
    kiln_long out_start;
    kiln_long dims[8];
} kiln_argwhere_shape;

typedef struct kiln_nms_shape { ///< nms.cl
    kiln_long boxes; ///< of a batch
    kiln_long classes;
    kiln_long most; ///< places of the result for each class
    kiln_long boxes_start;
    kiln_long scores_start;
    kiln_long out_start;
} kiln_nms_shape;

typedef struct kiln_trees_shape { ///< trees.cl
    kiln_long rows;
    kiln_long each; ///< rows of a work-item
    kiln_long columns; ///< of x
    kiln_long count; ///< columns of the result
    kiln_long nodes;
    kiln_long trees;
    kiln_long weights;
    kiln_long out_start;
    kiln_long x_start;
    kiln_long thresholds_start;
    kiln_long weights_start;
    kiln_long features_start;
    kiln_long others_start;
    kiln_long roots_start;
    kiln_long targets_start;
} kiln_trees_shape;

typedef struct kiln_sort_shape { ///< sort.cl
    kiln_long lines;
    kiln_long
        each; ///< lines of a work-item; places of a merge; sorted keys of a selecting work-group
    kiln_long length; ///< of a line
    kiln_long tile; ///< keys of a tile, a run, or of one of the two runs that become one
    kiln_long tiles; ///< of a line
    kiln_long
        keep; ///< keys of each tile or run that are written; those of a line follow one another
    kiln_long start; ///< of the elements
    kiln_long padded; ///< GPU: places in the tile that a short line takes, a power of 2
} kiln_sort_shape;

#endif
