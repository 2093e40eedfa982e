// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FFT_ARGS_H
#define KILN_FFT_ARGS_H

/// What the kernels of Fourier transforms are told, for both compilers.

#ifndef __OPENCL_VERSION__
#include "kernel_args.h"
#endif

typedef struct kiln_fft_lines_shape { ///< fft_lines.cl
    kiln_long length;
    kiln_long points; ///< of the transform: length, or half of it
    kiln_long rows;
    kiln_long items;
    kiln_long work; ///< scratch memory of the first work-item; each has 4 * points vectors
    kiln_long parts; ///< which of real (1) and imaginary (2) parts are there
    kiln_long start[4]; ///< real and imaginary parts, in and out
} kiln_fft_lines_shape;

#endif
