// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KERNEL_ARGS_H
#define KILN_KERNEL_ARGS_H

/// Arguments of kernels that are structures, for both compilers: files that launch include these
/// headers as C, the device code as OpenCL C. They hold kiln_long and arrays of it alone, so there
/// is nothing to pad, and a field that moves does so on both sides.

#ifdef __OPENCL_VERSION__
typedef long kiln_long;
#else
#include <stdint.h>
typedef int64_t kiln_long;
_Static_assert(sizeof(kiln_long) == 8, "as long of OpenCL C");
#endif

/// Lengths and attributes over three spatial axes; those in front of a smaller problem have
/// length 1.
typedef struct kiln_window {
    kiln_long in[3];
    kiln_long out[3];
    kiln_long taps[3];
    kiln_long strides[3];
    kiln_long dilations[3];
    kiln_long begin[3]; ///< padding
    kiln_long end[3];
} kiln_window;

/// `inner` elements run along one axis, of which a piece takes `chunk`; the other axes form rows,
/// of which it takes `rows_each`. Strides are in elements; [7] is the inner axis. Operand 0 is the
/// result.
typedef struct kiln_shape {
    kiln_long inner;
    kiln_long chunk;
    kiln_long chunks;
    kiln_long rows;
    kiln_long rows_each;
    kiln_long items;
    kiln_long rank;
    kiln_long n_operands;
    kiln_long dims[8];
    kiln_long start[4];
    kiln_long stride[4][8];
} kiln_shape;

#endif
