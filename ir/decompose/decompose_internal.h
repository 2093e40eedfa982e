// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_DECOMPOSE_INTERNAL_H
#define KILN_DECOMPOSE_INTERNAL_H

/// Short names for what the formulas of decompose_*.c write most.

#include "expand_internal.h"

static inline kilni_value kilni_x_add(kiln_expander *x, kilni_value a, kilni_value b)
{
    return kilni_expand_2(x, KILN_OP_ADD, a, b);
}

static inline kilni_value kilni_x_sub(kiln_expander *x, kilni_value a, kilni_value b)
{
    return kilni_expand_2(x, KILN_OP_SUB, a, b);
}

static inline kilni_value kilni_x_mul(kiln_expander *x, kilni_value a, kilni_value b)
{
    return kilni_expand_2(x, KILN_OP_MUL, a, b);
}

static inline kilni_value kilni_x_scale(kiln_expander *x, kilni_value a, double factor)
{
    return kilni_expand_scalar(x, KILN_OP_MUL_SCALAR, a, factor);
}

static inline kilni_value kilni_x_shift(kiln_expander *x, kilni_value a, double term)
{
    return kilni_expand_scalar(x, KILN_OP_ADD_SCALAR, a, term);
}

/// min(max(a, low), high); NaN stays NaN.
static inline kilni_value kilni_x_clamp(kiln_expander *x, kilni_value a, double low, double high)
{
    a = kilni_expand_scalar(x, KILN_OP_CLAMP_MIN, a, low);
    return kilni_expand_scalar(x, KILN_OP_CLAMP_MAX, a, high);
}

/// Input `index` of the call, f16 and bf16 as f32.
static inline kilni_value kilni_x_input(kiln_expander *x, unsigned index)
{
    return kilni_expand_wide(x, kilni_expand_input(x, index));
}

static inline double kilni_x_f64(const kiln_expander *x, kiln_attr_key key)
{
    return kiln_op_attr_f64(kilni_expand_call(x), key);
}

static inline int64_t kilni_x_i64(const kiln_expander *x, kiln_attr_key key)
{
    return kiln_op_attr_i64(kilni_expand_call(x), key);
}

#endif
