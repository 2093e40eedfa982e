// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_JUDGE_INTERNAL_H
#define KILN_JUDGE_INTERNAL_H

/// What tolerance.c tells judge.c.

#include "ir_judge.h"

/// How far from `expected` a float may be, when the tensor's largest counts as `scale`.
double kilni_tolerance_allowed(kiln_tolerance tolerance, kiln_dtype dtype, double scale,
                               double expected);
double kilni_tolerance_scale(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                             const void *expected);

#endif
