// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BLAS_SEARCH_H
#define KILNI_CL_BLAS_SEARCH_H

#include "base.h"

/// Whether a product of f32 or f64 is the expected one, but for rounding. Never, where what is
/// expected is not finite: no difference is too large beside infinity.
bool kilni_cl_blas_agrees(kiln_dtype dtype, const void *result, const double *expected,
                          size_t count);

#endif
