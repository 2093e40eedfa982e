// SPDX-License-Identifier: MIT OR Apache-2.0
// Written by tools/gen_ops from ir/op/ops.def and ir/op/attrs.def.
// The operators as functions: each packs its attributes and calls kiln_record.

#include "kiln.h"
#include "rt_attrs.h"
#include "rt_record.h"

// clang-format off
kiln_status kiln_abs(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ABS, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_neg(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_NEG, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_sign(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SIGN, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_exp(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_EXP, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_expm1(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_EXPM1, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_log(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LOG, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_log1p(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LOG1P, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_erf(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ERF, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_sqrt(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SQRT, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_rsqrt(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_RSQRT, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_recip(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_RECIP, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_sin(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SIN, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_cos(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_COS, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_tan(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_TAN, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_sinh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SINH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_cosh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_COSH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_tanh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_TANH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_asin(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ASIN, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_acos(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ACOS, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_atan(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ATAN, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_asinh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ASINH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_acosh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ACOSH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_atanh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ATANH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_round(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ROUND, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_floor(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_FLOOR, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_ceil(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CEIL, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_trunc(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_TRUNC, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_relu(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_RELU, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_sigmoid(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SIGMOID, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_is_nan(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_IS_NAN, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_is_inf(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_IS_INF, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_logical_not(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LOGICAL_NOT, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_bitwise_not(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_BITWISE_NOT, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_add(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_ADD, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_sub(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_SUB, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_mul(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_MUL, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_div(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_DIV, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_rem(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_REM, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_fmod(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_FMOD, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_pow(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_POW, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_minimum(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_MINIMUM, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_maximum(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_MAXIMUM, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_atan2(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_ATAN2, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_hypot(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_HYPOT, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_EQUAL, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_not_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_NOT_EQUAL, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_less(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_LESS, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_less_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_LESS_EQUAL, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_greater(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_GREATER, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_greater_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_GREATER_EQUAL, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_logical_and(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_LOGICAL_AND, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_logical_or(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_LOGICAL_OR, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_logical_xor(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_LOGICAL_XOR, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_bitwise_and(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_BITWISE_AND, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_bitwise_or(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_BITWISE_OR, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_bitwise_xor(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_BITWISE_XOR, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_shift_left(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_SHIFT_LEFT, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_shift_right(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_SHIFT_RIGHT, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_add_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ADD_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_sub_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SUB_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_mul_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_MUL_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_div_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_DIV_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_rem_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_REM_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_pow_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_POW_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_clamp_min(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CLAMP_MIN, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_clamp_max(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CLAMP_MAX, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_EQUAL_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_not_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_NOT_EQUAL_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_less_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LESS_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_less_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LESS_EQUAL_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_greater_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_GREATER_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_greater_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_GREATER_EQUAL_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_bitwise_and_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_BITWISE_AND_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_bitwise_or_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_BITWISE_OR_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_bitwise_xor_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_BITWISE_XOR_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_shift_left_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SHIFT_LEFT_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_shift_right_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SHIFT_RIGHT_SCALAR, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_clamp(kiln_tensor *x, kiln_number min, kiln_number max, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(min),
        kilni_attr_number(max),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CLAMP, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_leaky_relu(kiln_tensor *x, double slope, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(slope),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LEAKY_RELU, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_gelu(kiln_tensor *x, bool approximate, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_bool(approximate),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_GELU, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_where(kiln_tensor *a, kiln_tensor *b, kiln_tensor *mask, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {a, b, mask};
    return kiln_record(NULL, KILN_OP_WHERE, inputs, 3, NULL, 0, out_tensor, err);
}

kiln_status kiln_mask_fill(kiln_tensor *x, kiln_tensor *mask, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x, mask};
    return kiln_record(NULL, KILN_OP_MASK_FILL, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_cast(kiln_tensor *x, kiln_dtype dtype, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_dtype(dtype),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CAST, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_contiguous(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CONTIGUOUS, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_prelu(kiln_tensor *x, kiln_tensor *slope, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x, slope};
    return kiln_record(NULL, KILN_OP_PRELU, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_hard_sigmoid(kiln_tensor *x, double alpha, double beta, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(alpha),
        kilni_attr_f64(beta),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_HARD_SIGMOID, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_log_sigmoid(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LOG_SIGMOID, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_relu_backward(kiln_tensor *output, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {output, grad};
    return kiln_record(NULL, KILN_OP_RELU_BACKWARD, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_gelu_backward(kiln_tensor *x, kiln_tensor *grad, bool approximate, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_bool(approximate),
    };
    kiln_tensor *const inputs[] = {x, grad};
    return kiln_record(NULL, KILN_OP_GELU_BACKWARD, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_sigmoid_backward(kiln_tensor *output, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {output, grad};
    return kiln_record(NULL, KILN_OP_SIGMOID_BACKWARD, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_log_sigmoid_backward(kiln_tensor *x, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x, grad};
    return kiln_record(NULL, KILN_OP_LOG_SIGMOID_BACKWARD, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_silu(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SILU, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_softplus(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SOFTPLUS, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_elu(kiln_tensor *x, double alpha, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(alpha),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ELU, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_mish(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_MISH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_hard_swish(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_HARD_SWISH, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_reshape(kiln_tensor *x, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_RESHAPE, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_expand(kiln_tensor *x, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_EXPAND, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_permute(kiln_tensor *x, const int64_t *axes, size_t n_axes, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_PERMUTE, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_slice(kiln_tensor *x, const int64_t *starts, size_t n_starts, const int64_t *ends, size_t n_ends, const int64_t *steps, size_t n_steps, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(starts, n_starts),
        kilni_attr_ints(ends, n_ends),
        kilni_attr_ints(steps, n_steps),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SLICE, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_flip(kiln_tensor *x, const int64_t *axes, size_t n_axes, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_FLIP, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_unfold(kiln_tensor *x, int64_t axis, int64_t size, int64_t stride, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_i64(size),
        kilni_attr_i64(stride),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_UNFOLD, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_diagonal(kiln_tensor *x, int64_t offset, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(offset),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_DIAGONAL, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_sum(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SUM, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_mean(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_MEAN, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_prod(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_PROD, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_max(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_MAX, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_min(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_MIN, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_max_abs(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_MAX_ABS, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_any(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ANY, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_all(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(axes, n_axes),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ALL, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_argmax(kiln_tensor *x, int64_t axis, bool keepdims, bool last, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(keepdims),
        kilni_attr_bool(last),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ARGMAX, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_argmin(kiln_tensor *x, int64_t axis, bool keepdims, bool last, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(keepdims),
        kilni_attr_bool(last),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ARGMIN, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_max_with_indices(kiln_tensor *x, int64_t axis, bool keepdims, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    kiln_tensor **const outputs[] = {out_values, out_indices};
    return kilni_record_several(NULL, KILN_OP_MAX_WITH_INDICES, inputs, 1, attrs, 2, outputs, err);
}

kiln_status kiln_min_with_indices(kiln_tensor *x, int64_t axis, bool keepdims, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(keepdims),
    };
    kiln_tensor *const inputs[] = {x};
    kiln_tensor **const outputs[] = {out_values, out_indices};
    return kilni_record_several(NULL, KILN_OP_MIN_WITH_INDICES, inputs, 1, attrs, 2, outputs, err);
}

kiln_status kiln_matmul(kiln_tensor *a, kiln_tensor *b, bool transpose_a, bool transpose_b, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_bool(transpose_a),
        kilni_attr_bool(transpose_b),
    };
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_MATMUL, inputs, 2, attrs, 2, out_tensor, err);
}

kiln_status kiln_conv(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, const kiln_conv_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_conv_options defaults = KILN_CONV_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
    };
    kiln_tensor *const inputs[] = {x, weight, bias};
    return kiln_record(NULL, KILN_OP_CONV, inputs, kilni_count_present(inputs, 3), attrs, 4, out_tensor, err);
}

kiln_status kiln_conv_integer(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *x_zero, kiln_tensor *weight_zero, const kiln_conv_integer_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_conv_integer_options defaults = KILN_CONV_INTEGER_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
    };
    kiln_tensor *const inputs[] = {x, weight, x_zero, weight_zero};
    return kiln_record(NULL, KILN_OP_CONV_INTEGER, inputs, kilni_count_present(inputs, 4), attrs, 4, out_tensor, err);
}

kiln_status kiln_conv_transpose(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, const kiln_conv_transpose_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_conv_transpose_options defaults = KILN_CONV_TRANSPOSE_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
        kilni_attr_ints(options->output_padding, options->n_output_padding),
    };
    kiln_tensor *const inputs[] = {x, weight, bias};
    return kiln_record(NULL, KILN_OP_CONV_TRANSPOSE, inputs, kilni_count_present(inputs, 3), attrs, 5, out_tensor, err);
}

kiln_status kiln_conv_x_backward(kiln_tensor *grad, kiln_tensor *weight, const kiln_conv_x_backward_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_conv_x_backward_options defaults = KILN_CONV_X_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->shape, options->n_shape),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
    };
    kiln_tensor *const inputs[] = {grad, weight};
    return kiln_record(NULL, KILN_OP_CONV_X_BACKWARD, inputs, 2, attrs, 5, out_tensor, err);
}

kiln_status kiln_conv_weight_backward(kiln_tensor *x, kiln_tensor *grad, const kiln_conv_weight_backward_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_conv_weight_backward_options defaults = KILN_CONV_WEIGHT_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->shape, options->n_shape),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
    };
    kiln_tensor *const inputs[] = {x, grad};
    return kiln_record(NULL, KILN_OP_CONV_WEIGHT_BACKWARD, inputs, 2, attrs, 5, out_tensor, err);
}

kiln_status kiln_conv_bias_backward(kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {grad};
    return kiln_record(NULL, KILN_OP_CONV_BIAS_BACKWARD, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_conv_transpose_x_backward(kiln_tensor *grad, kiln_tensor *weight, const kiln_conv_transpose_x_backward_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_conv_transpose_x_backward_options defaults = KILN_CONV_TRANSPOSE_X_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->shape, options->n_shape),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
    };
    kiln_tensor *const inputs[] = {grad, weight};
    return kiln_record(NULL, KILN_OP_CONV_TRANSPOSE_X_BACKWARD, inputs, 2, attrs, 5, out_tensor, err);
}

kiln_status kiln_conv_transpose_weight_backward(kiln_tensor *x, kiln_tensor *grad, const kiln_conv_transpose_weight_backward_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_conv_transpose_weight_backward_options defaults = KILN_CONV_TRANSPOSE_WEIGHT_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->shape, options->n_shape),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
    };
    kiln_tensor *const inputs[] = {x, grad};
    return kiln_record(NULL, KILN_OP_CONV_TRANSPOSE_WEIGHT_BACKWARD, inputs, 2, attrs, 5, out_tensor, err);
}

kiln_status kiln_im2col(kiln_tensor *x, const kiln_im2col_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_im2col_options defaults = KILN_IM2COL_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_IM2COL, inputs, 1, attrs, 4, out_tensor, err);
}

kiln_status kiln_col2im(kiln_tensor *columns, const kiln_col2im_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_col2im_options defaults = KILN_COL2IM_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->output_size, options->n_output_size),
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
    };
    kiln_tensor *const inputs[] = {columns};
    return kiln_record(NULL, KILN_OP_COL2IM, inputs, 1, attrs, 5, out_tensor, err);
}

kiln_status kiln_deform_im2col(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *mask, const kiln_deform_im2col_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_deform_im2col_options defaults = KILN_DEFORM_IM2COL_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->offset_groups),
    };
    kiln_tensor *const inputs[] = {x, offset, mask};
    return kiln_record(NULL, KILN_OP_DEFORM_IM2COL, inputs, kilni_count_present(inputs, 3), attrs, 5, out_tensor, err);
}

kiln_status kiln_deform_im2col_backward(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *mask, kiln_tensor *grad, const kiln_deform_im2col_backward_options *options, kiln_tensor **out_x_grad, kiln_tensor **out_offset_grad, kiln_tensor **out_mask_grad, kiln_error *err) {
    kiln_deform_im2col_backward_options defaults = KILN_DEFORM_IM2COL_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->offset_groups),
    };
    kiln_tensor *const inputs[] = {x, offset, mask, grad};
    kiln_tensor **const outputs[] = {out_x_grad, out_offset_grad, out_mask_grad};
    return kilni_record_several(NULL, KILN_OP_DEFORM_IM2COL_BACKWARD, inputs, 4, attrs, 5, outputs, err);
}

kiln_status kiln_deform_conv(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *weight, kiln_tensor *mask, kiln_tensor *bias, const kiln_deform_conv_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_deform_conv_options defaults = KILN_DEFORM_CONV_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
        kilni_attr_i64(options->offset_groups),
    };
    kiln_tensor *const inputs[] = {x, offset, weight, mask, bias};
    return kiln_record(NULL, KILN_OP_DEFORM_CONV, inputs, kilni_count_present(inputs, 5), attrs, 5, out_tensor, err);
}

kiln_status kiln_deform_conv_backward(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *weight, kiln_tensor *mask, kiln_tensor *grad, const kiln_deform_conv_backward_options *options, kiln_tensor **out_x_grad, kiln_tensor **out_offset_grad, kiln_tensor **out_weight_grad, kiln_tensor **out_mask_grad, kiln_tensor **out_bias_grad, kiln_error *err) {
    kiln_deform_conv_backward_options defaults = KILN_DEFORM_CONV_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_i64(options->groups),
        kilni_attr_i64(options->offset_groups),
    };
    kiln_tensor *const inputs[] = {x, offset, weight, mask, grad};
    kiln_tensor **const outputs[] = {out_x_grad, out_offset_grad, out_weight_grad, out_mask_grad, out_bias_grad};
    return kilni_record_several(NULL, KILN_OP_DEFORM_CONV_BACKWARD, inputs, 5, attrs, 5, outputs, err);
}

kiln_status kiln_max_pool(kiln_tensor *x, const kiln_max_pool_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_max_pool_options defaults = KILN_MAX_POOL_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_bool(options->ceil_mode),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_MAX_POOL, inputs, 1, attrs, 5, out_tensor, err);
}

kiln_status kiln_avg_pool(kiln_tensor *x, const kiln_avg_pool_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_avg_pool_options defaults = KILN_AVG_POOL_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_bool(options->ceil_mode),
        kilni_attr_bool(options->include_pad),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_AVG_POOL, inputs, 1, attrs, 6, out_tensor, err);
}

kiln_status kiln_lp_pool(kiln_tensor *x, const kiln_lp_pool_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_lp_pool_options defaults = KILN_LP_POOL_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_bool(options->ceil_mode),
        kilni_attr_f64(options->p),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LP_POOL, inputs, 1, attrs, 6, out_tensor, err);
}

kiln_status kiln_max_pool_with_indices(kiln_tensor *x, const kiln_max_pool_with_indices_options *options, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err) {
    kiln_max_pool_with_indices_options defaults = KILN_MAX_POOL_WITH_INDICES_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_bool(options->ceil_mode),
    };
    kiln_tensor *const inputs[] = {x};
    kiln_tensor **const outputs[] = {out_values, out_indices};
    return kilni_record_several(NULL, KILN_OP_MAX_POOL_WITH_INDICES, inputs, 1, attrs, 5, outputs, err);
}

kiln_status kiln_max_pool_backward(kiln_tensor *grad, kiln_tensor *indices, const kiln_max_pool_backward_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_max_pool_backward_options defaults = KILN_MAX_POOL_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->shape, options->n_shape),
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_bool(options->ceil_mode),
    };
    kiln_tensor *const inputs[] = {grad, indices};
    return kiln_record(NULL, KILN_OP_MAX_POOL_BACKWARD, inputs, 2, attrs, 6, out_tensor, err);
}

kiln_status kiln_avg_pool_backward(kiln_tensor *grad, const kiln_avg_pool_backward_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_avg_pool_backward_options defaults = KILN_AVG_POOL_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->shape, options->n_shape),
        kilni_attr_ints(options->kernel, options->n_kernel),
        kilni_attr_ints(options->strides, options->n_strides),
        kilni_attr_ints(options->padding, options->n_padding),
        kilni_attr_ints(options->dilations, options->n_dilations),
        kilni_attr_bool(options->ceil_mode),
        kilni_attr_bool(options->include_pad),
    };
    kiln_tensor *const inputs[] = {grad};
    return kiln_record(NULL, KILN_OP_AVG_POOL_BACKWARD, inputs, 1, attrs, 7, out_tensor, err);
}

kiln_status kiln_adaptive_avg_pool(kiln_tensor *x, const int64_t *output_size, size_t n_output_size, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(output_size, n_output_size),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ADAPTIVE_AVG_POOL, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_adaptive_max_pool(kiln_tensor *x, const int64_t *output_size, size_t n_output_size, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(output_size, n_output_size),
    };
    kiln_tensor *const inputs[] = {x};
    kiln_tensor **const outputs[] = {out_values, out_indices};
    return kilni_record_several(NULL, KILN_OP_ADAPTIVE_MAX_POOL, inputs, 1, attrs, 1, outputs, err);
}

kiln_status kiln_adaptive_avg_pool_backward(kiln_tensor *grad, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
    };
    kiln_tensor *const inputs[] = {grad};
    return kiln_record(NULL, KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_max_unpool(kiln_tensor *x, kiln_tensor *indices, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
    };
    kiln_tensor *const inputs[] = {x, indices};
    return kiln_record(NULL, KILN_OP_MAX_UNPOOL, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_interpolate(kiln_tensor *x, const kiln_interpolate_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_interpolate_options defaults = KILN_INTERPOLATE_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->output_size, options->n_output_size),
        kilni_attr_text(options->mode),
        kilni_attr_text(options->coordinates),
        kilni_attr_floats(options->scales, options->n_scales),
        kilni_attr_floats(options->region, options->n_region),
        kilni_attr_f64(options->cubic_a),
        kilni_attr_bool(options->exclude_outside),
        kilni_attr_bool(options->antialias),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_INTERPOLATE, inputs, 1, attrs, 8, out_tensor, err);
}

kiln_status kiln_interpolate_backward(kiln_tensor *grad, const kiln_interpolate_backward_options *options, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_interpolate_backward_options defaults = KILN_INTERPOLATE_BACKWARD_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_ints(options->shape, options->n_shape),
        kilni_attr_text(options->mode),
        kilni_attr_text(options->coordinates),
        kilni_attr_floats(options->scales, options->n_scales),
        kilni_attr_floats(options->region, options->n_region),
        kilni_attr_f64(options->cubic_a),
        kilni_attr_bool(options->exclude_outside),
        kilni_attr_bool(options->antialias),
    };
    kiln_tensor *const inputs[] = {grad};
    return kiln_record(NULL, KILN_OP_INTERPOLATE_BACKWARD, inputs, 1, attrs, 8, out_tensor, err);
}

kiln_status kiln_grid_sample(kiln_tensor *x, kiln_tensor *grid, const char *mode, const char *padding_mode, bool align_corners, double cubic_a, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_text(mode),
        kilni_attr_text(padding_mode),
        kilni_attr_bool(align_corners),
        kilni_attr_f64(cubic_a),
    };
    kiln_tensor *const inputs[] = {x, grid};
    return kiln_record(NULL, KILN_OP_GRID_SAMPLE, inputs, 2, attrs, 4, out_tensor, err);
}

kiln_status kiln_roi_align(kiln_tensor *x, kiln_tensor *boxes, kiln_tensor *batch_indices, const int64_t *output_size, size_t n_output_size, const char *mode, const char *coordinates, int64_t sampling_ratio, double spatial_scale, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(output_size, n_output_size),
        kilni_attr_text(mode),
        kilni_attr_text(coordinates),
        kilni_attr_i64(sampling_ratio),
        kilni_attr_f64(spatial_scale),
    };
    kiln_tensor *const inputs[] = {x, boxes, batch_indices};
    return kiln_record(NULL, KILN_OP_ROI_ALIGN, inputs, 3, attrs, 5, out_tensor, err);
}

kiln_status kiln_softmax(kiln_tensor *x, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SOFTMAX, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_log_softmax(kiln_tensor *x, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_LOG_SOFTMAX, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_batch_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, kiln_tensor *mean, kiln_tensor *variance, double epsilon, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {x, scale, bias, mean, variance};
    return kiln_record(NULL, KILN_OP_BATCH_NORM, inputs, 5, attrs, 1, out_tensor, err);
}

kiln_status kiln_softmin(kiln_tensor *x, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SOFTMIN, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_softmax_backward(kiln_tensor *output, kiln_tensor *grad, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {output, grad};
    return kiln_record(NULL, KILN_OP_SOFTMAX_BACKWARD, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_log_softmax_backward(kiln_tensor *output, kiln_tensor *grad, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {output, grad};
    return kiln_record(NULL, KILN_OP_LOG_SOFTMAX_BACKWARD, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_layer_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, int64_t axis, double epsilon, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {x, scale, bias};
    return kiln_record(NULL, KILN_OP_LAYER_NORM, inputs, kilni_count_present(inputs, 3), attrs, 2, out_tensor, err);
}

kiln_status kiln_rms_norm(kiln_tensor *x, kiln_tensor *scale, int64_t axis, double epsilon, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {x, scale};
    return kiln_record(NULL, KILN_OP_RMS_NORM, inputs, kilni_count_present(inputs, 2), attrs, 2, out_tensor, err);
}

kiln_status kiln_group_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, int64_t groups, double epsilon, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(groups),
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {x, scale, bias};
    return kiln_record(NULL, KILN_OP_GROUP_NORM, inputs, kilni_count_present(inputs, 3), attrs, 2, out_tensor, err);
}

kiln_status kiln_instance_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, double epsilon, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {x, scale, bias};
    return kiln_record(NULL, KILN_OP_INSTANCE_NORM, inputs, kilni_count_present(inputs, 3), attrs, 1, out_tensor, err);
}

kiln_status kiln_layer_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, int64_t axis, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {grad, x, scale};
    kiln_tensor **const outputs[] = {out_x_grad, out_scale_grad, out_bias_grad};
    return kilni_record_several(NULL, KILN_OP_LAYER_NORM_BACKWARD, inputs, kilni_count_present(inputs, 3), attrs, 2, outputs, err);
}

kiln_status kiln_rms_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, int64_t axis, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {grad, x, scale};
    kiln_tensor **const outputs[] = {out_x_grad, out_scale_grad};
    return kilni_record_several(NULL, KILN_OP_RMS_NORM_BACKWARD, inputs, kilni_count_present(inputs, 3), attrs, 2, outputs, err);
}

kiln_status kiln_group_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, int64_t groups, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(groups),
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {grad, x, scale};
    kiln_tensor **const outputs[] = {out_x_grad, out_scale_grad, out_bias_grad};
    return kilni_record_several(NULL, KILN_OP_GROUP_NORM_BACKWARD, inputs, kilni_count_present(inputs, 3), attrs, 2, outputs, err);
}

kiln_status kiln_instance_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {grad, x, scale};
    kiln_tensor **const outputs[] = {out_x_grad, out_scale_grad, out_bias_grad};
    return kilni_record_several(NULL, KILN_OP_INSTANCE_NORM_BACKWARD, inputs, kilni_count_present(inputs, 3), attrs, 1, outputs, err);
}

kiln_status kiln_batch_norm_train(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, kiln_tensor *mean, kiln_tensor *variance, double epsilon, double momentum, kiln_tensor **out_values, kiln_tensor **out_running_mean, kiln_tensor **out_running_variance, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(epsilon),
        kilni_attr_f64(momentum),
    };
    kiln_tensor *const inputs[] = {x, scale, bias, mean, variance};
    kiln_tensor **const outputs[] = {out_values, out_running_mean, out_running_variance};
    return kilni_record_several(NULL, KILN_OP_BATCH_NORM_TRAIN, inputs, 5, attrs, 2, outputs, err);
}

kiln_status kiln_batch_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(epsilon),
    };
    kiln_tensor *const inputs[] = {grad, x, scale};
    kiln_tensor **const outputs[] = {out_x_grad, out_scale_grad, out_bias_grad};
    return kilni_record_several(NULL, KILN_OP_BATCH_NORM_BACKWARD, inputs, kilni_count_present(inputs, 3), attrs, 1, outputs, err);
}

kiln_status kiln_gather(kiln_tensor *x, kiln_tensor *indices, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {x, indices};
    return kiln_record(NULL, KILN_OP_GATHER, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_select(kiln_tensor *x, kiln_tensor *indices, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {x, indices};
    return kiln_record(NULL, KILN_OP_SELECT, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_gather_nd(kiln_tensor *x, kiln_tensor *indices, int64_t batch_dims, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(batch_dims),
    };
    kiln_tensor *const inputs[] = {x, indices};
    return kiln_record(NULL, KILN_OP_GATHER_ND, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_scatter(kiln_tensor *x, kiln_tensor *values, kiln_tensor *indices, int64_t axis, const char *mode, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_text(mode),
    };
    kiln_tensor *const inputs[] = {x, values, indices};
    return kiln_record(NULL, KILN_OP_SCATTER, inputs, 3, attrs, 2, out_tensor, err);
}

kiln_status kiln_scatter_nd(kiln_tensor *x, kiln_tensor *values, kiln_tensor *indices, const char *mode, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_text(mode),
    };
    kiln_tensor *const inputs[] = {x, values, indices};
    return kiln_record(NULL, KILN_OP_SCATTER_ND, inputs, 3, attrs, 1, out_tensor, err);
}

kiln_status kiln_select_assign(kiln_tensor *x, kiln_tensor *values, kiln_tensor *indices, int64_t axis, const char *mode, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_text(mode),
    };
    kiln_tensor *const inputs[] = {x, values, indices};
    return kiln_record(NULL, KILN_OP_SELECT_ASSIGN, inputs, 3, attrs, 2, out_tensor, err);
}

kiln_status kiln_slice_assign(kiln_tensor *x, kiln_tensor *value, const int64_t *starts, size_t n_starts, const int64_t *ends, size_t n_ends, const int64_t *steps, size_t n_steps, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(starts, n_starts),
        kilni_attr_ints(ends, n_ends),
        kilni_attr_ints(steps, n_steps),
    };
    kiln_tensor *const inputs[] = {x, value};
    return kiln_record(NULL, KILN_OP_SLICE_ASSIGN, inputs, 2, attrs, 3, out_tensor, err);
}

kiln_status kiln_embedding(kiln_tensor *weights, kiln_tensor *indices, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {weights, indices};
    return kiln_record(NULL, KILN_OP_EMBEDDING, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_embedding_backward(kiln_tensor *grad, kiln_tensor *indices, int64_t count, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(count),
    };
    kiln_tensor *const inputs[] = {grad, indices};
    return kiln_record(NULL, KILN_OP_EMBEDDING_BACKWARD, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_one_hot(kiln_tensor *values, kiln_tensor *indices, int64_t count, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(count),
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {values, indices};
    return kiln_record(NULL, KILN_OP_ONE_HOT, inputs, 2, attrs, 2, out_tensor, err);
}

kiln_status kiln_reverse_sequence(kiln_tensor *x, kiln_tensor *lengths, int64_t axis, int64_t batch_axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_i64(batch_axis),
    };
    kiln_tensor *const inputs[] = {x, lengths};
    return kiln_record(NULL, KILN_OP_REVERSE_SEQUENCE, inputs, 2, attrs, 2, out_tensor, err);
}

kiln_status kiln_repeat(kiln_tensor *x, const int64_t *repeats, size_t n_repeats, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(repeats, n_repeats),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_REPEAT, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_roll(kiln_tensor *x, const int64_t *shifts, size_t n_shifts, const int64_t *axes, size_t n_axes, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shifts, n_shifts),
        kilni_attr_ints(axes, n_axes),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ROLL, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_tril(kiln_tensor *x, int64_t offset, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(offset),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_TRIL, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_triu(kiln_tensor *x, int64_t offset, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(offset),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_TRIU, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_eye(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, int64_t offset, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
        kilni_attr_dtype(dtype),
        kilni_attr_i64(offset),
    };
    return kiln_record(device, KILN_OP_EYE, NULL, 0, attrs, 3, out_tensor, err);
}

kiln_status kiln_depth_to_space(kiln_tensor *x, int64_t size, const char *mode, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(size),
        kilni_attr_text(mode),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_DEPTH_TO_SPACE, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_space_to_depth(kiln_tensor *x, int64_t size, const char *mode, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(size),
        kilni_attr_text(mode),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SPACE_TO_DEPTH, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_cum_sum(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(exclusive),
        kilni_attr_bool(reverse),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CUM_SUM, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_cum_prod(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(exclusive),
        kilni_attr_bool(reverse),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CUM_PROD, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_cum_max(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(exclusive),
        kilni_attr_bool(reverse),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CUM_MAX, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_cum_min(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(exclusive),
        kilni_attr_bool(reverse),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_CUM_MIN, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_sort(kiln_tensor *x, int64_t axis, bool descending, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(descending),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_SORT, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_argsort(kiln_tensor *x, int64_t axis, bool descending, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(descending),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ARGSORT, inputs, 1, attrs, 2, out_tensor, err);
}

kiln_status kiln_sort_with_indices(kiln_tensor *x, int64_t axis, bool descending, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(descending),
    };
    kiln_tensor *const inputs[] = {x};
    kiln_tensor **const outputs[] = {out_values, out_indices};
    return kilni_record_several(NULL, KILN_OP_SORT_WITH_INDICES, inputs, 1, attrs, 2, outputs, err);
}

kiln_status kiln_top_k(kiln_tensor *x, int64_t count, int64_t axis, bool descending, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(count),
        kilni_attr_i64(axis),
        kilni_attr_bool(descending),
    };
    kiln_tensor *const inputs[] = {x};
    kiln_tensor **const outputs[] = {out_values, out_indices};
    return kilni_record_several(NULL, KILN_OP_TOP_K, inputs, 1, attrs, 3, outputs, err);
}

kiln_status kiln_cross(kiln_tensor *a, kiln_tensor *b, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_CROSS, inputs, 2, attrs, 1, out_tensor, err);
}

kiln_status kiln_argwhere(kiln_tensor *mask, int64_t count, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(count),
    };
    kiln_tensor *const inputs[] = {mask};
    return kiln_record(NULL, KILN_OP_ARGWHERE, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_nms(kiln_tensor *boxes, kiln_tensor *scores, int64_t count, double overlap, double least, bool center, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(count),
        kilni_attr_f64(overlap),
        kilni_attr_f64(least),
        kilni_attr_bool(center),
    };
    kiln_tensor *const inputs[] = {boxes, scores};
    return kiln_record(NULL, KILN_OP_NMS, inputs, 2, attrs, 4, out_tensor, err);
}

kiln_status kiln_concat(kiln_tensor *const *inputs, size_t n_inputs, int64_t axis, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
    };
    return kiln_record(NULL, KILN_OP_CONCAT, inputs, n_inputs, attrs, 1, out_tensor, err);
}

kiln_status kiln_pad(kiln_tensor *x, const int64_t *padding, size_t n_padding, const char *mode, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(padding, n_padding),
        kilni_attr_text(mode),
        kilni_attr_number(value),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_PAD, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_full(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, kiln_number value, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
        kilni_attr_dtype(dtype),
        kilni_attr_number(value),
    };
    return kiln_record(device, KILN_OP_FULL, NULL, 0, attrs, 3, out_tensor, err);
}

kiln_status kiln_arange(kiln_device *device, int64_t count, kiln_dtype dtype, kiln_number start, kiln_number step, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(count),
        kilni_attr_dtype(dtype),
        kilni_attr_number(start),
        kilni_attr_number(step),
    };
    return kiln_record(device, KILN_OP_ARANGE, NULL, 0, attrs, 4, out_tensor, err);
}

kiln_status kiln_random_uniform(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, kiln_number min, kiln_number max, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
        kilni_attr_dtype(dtype),
        kilni_attr_number(min),
        kilni_attr_number(max),
        kilni_attr_none(),
        kilni_attr_none(),
        kilni_attr_none(),
    };
    return kiln_record(device, KILN_OP_RANDOM_UNIFORM, NULL, 0, attrs, 7, out_tensor, err);
}

kiln_status kiln_random_int(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, kiln_number min, kiln_number max, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
        kilni_attr_dtype(dtype),
        kilni_attr_number(min),
        kilni_attr_number(max),
        kilni_attr_none(),
        kilni_attr_none(),
        kilni_attr_none(),
    };
    return kiln_record(device, KILN_OP_RANDOM_INT, NULL, 0, attrs, 7, out_tensor, err);
}

kiln_status kiln_random_normal(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, double mean, double deviation, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
        kilni_attr_dtype(dtype),
        kilni_attr_f64(mean),
        kilni_attr_f64(deviation),
        kilni_attr_none(),
        kilni_attr_none(),
        kilni_attr_none(),
    };
    return kiln_record(device, KILN_OP_RANDOM_NORMAL, NULL, 0, attrs, 7, out_tensor, err);
}

kiln_status kiln_random_bernoulli(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, double probability, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_ints(shape, n_shape),
        kilni_attr_dtype(dtype),
        kilni_attr_f64(probability),
        kilni_attr_none(),
        kilni_attr_none(),
        kilni_attr_none(),
    };
    return kiln_record(device, KILN_OP_RANDOM_BERNOULLI, NULL, 0, attrs, 6, out_tensor, err);
}

kiln_status kiln_linear(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x, weight, bias};
    return kiln_record(NULL, KILN_OP_LINEAR, inputs, kilni_count_present(inputs, 3), NULL, 0, out_tensor, err);
}

kiln_status kiln_linear_x_backward(kiln_tensor *grad, kiln_tensor *weight, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {grad, weight};
    return kiln_record(NULL, KILN_OP_LINEAR_X_BACKWARD, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_linear_weight_backward(kiln_tensor *x, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x, grad};
    return kiln_record(NULL, KILN_OP_LINEAR_WEIGHT_BACKWARD, inputs, 2, NULL, 0, out_tensor, err);
}

kiln_status kiln_linear_bias_backward(kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {grad};
    return kiln_record(NULL, KILN_OP_LINEAR_BIAS_BACKWARD, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_attention(kiln_tensor *query, kiln_tensor *key, kiln_tensor *value, kiln_tensor *mask, kiln_tensor *bias, double scale, double softcap, bool causal, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_f64(scale),
        kilni_attr_f64(softcap),
        kilni_attr_bool(causal),
    };
    kiln_tensor *const inputs[] = {query, key, value, mask, bias};
    return kiln_record(NULL, KILN_OP_ATTENTION, inputs, kilni_count_present(inputs, 5), attrs, 3, out_tensor, err);
}

kiln_status kiln_einsum(kiln_tensor *const *inputs, size_t n_inputs, const char *equation, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_text(equation),
    };
    return kiln_record(NULL, KILN_OP_EINSUM, inputs, n_inputs, attrs, 1, out_tensor, err);
}

kiln_status kiln_lstm(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *recurrence, kiln_tensor *bias, kiln_tensor *initial_h, kiln_tensor *initial_c, kiln_tensor *peephole, kiln_tensor *lengths, const kiln_lstm_options *options, kiln_tensor **out_values, kiln_tensor **out_last_h, kiln_tensor **out_last_c, kiln_error *err) {
    kiln_lstm_options defaults = KILN_LSTM_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_text(options->direction),
        kilni_attr_text(options->activations),
        kilni_attr_floats(options->alphas, options->n_alphas),
        kilni_attr_floats(options->betas, options->n_betas),
        kilni_attr_f64(options->clip),
        kilni_attr_bool(options->input_forget),
    };
    kiln_tensor *const inputs[] = {x, weight, recurrence, bias, initial_h, initial_c, peephole, lengths};
    kiln_tensor **const outputs[] = {out_values, out_last_h, out_last_c};
    return kilni_record_several(NULL, KILN_OP_LSTM, inputs, kilni_count_present(inputs, 8), attrs, 6, outputs, err);
}

kiln_status kiln_gru(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *recurrence, kiln_tensor *bias, kiln_tensor *initial_h, kiln_tensor *lengths, const kiln_gru_options *options, kiln_tensor **out_values, kiln_tensor **out_last_h, kiln_error *err) {
    kiln_gru_options defaults = KILN_GRU_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_text(options->direction),
        kilni_attr_text(options->activations),
        kilni_attr_floats(options->alphas, options->n_alphas),
        kilni_attr_floats(options->betas, options->n_betas),
        kilni_attr_f64(options->clip),
        kilni_attr_bool(options->reset_after),
    };
    kiln_tensor *const inputs[] = {x, weight, recurrence, bias, initial_h, lengths};
    kiln_tensor **const outputs[] = {out_values, out_last_h};
    return kilni_record_several(NULL, KILN_OP_GRU, inputs, kilni_count_present(inputs, 6), attrs, 6, outputs, err);
}

kiln_status kiln_rnn(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *recurrence, kiln_tensor *bias, kiln_tensor *initial_h, kiln_tensor *lengths, const kiln_rnn_options *options, kiln_tensor **out_values, kiln_tensor **out_last_h, kiln_error *err) {
    kiln_rnn_options defaults = KILN_RNN_OPTIONS_INIT;
    options = options == NULL ? &defaults : options;
    const kiln_attr attrs[] = {
        kilni_attr_text(options->direction),
        kilni_attr_text(options->activations),
        kilni_attr_floats(options->alphas, options->n_alphas),
        kilni_attr_floats(options->betas, options->n_betas),
        kilni_attr_f64(options->clip),
    };
    kiln_tensor *const inputs[] = {x, weight, recurrence, bias, initial_h, lengths};
    kiln_tensor **const outputs[] = {out_values, out_last_h};
    return kilni_record_several(NULL, KILN_OP_RNN, inputs, kilni_count_present(inputs, 6), attrs, 5, outputs, err);
}

kiln_status kiln_fft(kiln_tensor *real, kiln_tensor *imaginary, int64_t axis, bool inverse, kiln_tensor **out_real, kiln_tensor **out_imaginary, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_bool(inverse),
    };
    kiln_tensor *const inputs[] = {real, imaginary};
    kiln_tensor **const outputs[] = {out_real, out_imaginary};
    return kilni_record_several(NULL, KILN_OP_FFT, inputs, kilni_count_present(inputs, 2), attrs, 2, outputs, err);
}

kiln_status kiln_rfft(kiln_tensor *x, int64_t axis, int64_t length, kiln_tensor **out_real, kiln_tensor **out_imaginary, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_i64(length),
    };
    kiln_tensor *const inputs[] = {x};
    kiln_tensor **const outputs[] = {out_real, out_imaginary};
    return kilni_record_several(NULL, KILN_OP_RFFT, inputs, 1, attrs, 2, outputs, err);
}

kiln_status kiln_irfft(kiln_tensor *real, kiln_tensor *imaginary, int64_t axis, int64_t length, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        kilni_attr_i64(length),
    };
    kiln_tensor *const inputs[] = {real, imaginary};
    return kiln_record(NULL, KILN_OP_IRFFT, inputs, 2, attrs, 2, out_tensor, err);
}

kiln_status kiln_ctc_loss(kiln_tensor *log_probs, kiln_tensor *targets, kiln_tensor *input_lengths, kiln_tensor *target_lengths, int64_t blank, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(blank),
    };
    kiln_tensor *const inputs[] = {log_probs, targets, input_lengths, target_lengths};
    return kiln_record(NULL, KILN_OP_CTC_LOSS, inputs, 4, attrs, 1, out_tensor, err);
}

kiln_status kiln_ctc_loss_backward(kiln_tensor *log_probs, kiln_tensor *grad, kiln_tensor *targets, kiln_tensor *input_lengths, kiln_tensor *target_lengths, int64_t blank, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(blank),
    };
    kiln_tensor *const inputs[] = {log_probs, grad, targets, input_lengths, target_lengths};
    return kiln_record(NULL, KILN_OP_CTC_LOSS_BACKWARD, inputs, 5, attrs, 1, out_tensor, err);
}

kiln_status kiln_det(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_DET, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_random_permutation(kiln_device *device, int64_t count, kiln_dtype dtype, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_i64(count),
        kilni_attr_dtype(dtype),
        kilni_attr_none(),
        kilni_attr_none(),
        kilni_attr_none(),
    };
    return kiln_record(device, KILN_OP_RANDOM_PERMUTATION, NULL, 0, attrs, 5, out_tensor, err);
}

kiln_status kiln_quantize(kiln_tensor *x, kiln_tensor *scales, kiln_tensor *global, kiln_dtype dtype, const int64_t *blocks, size_t n_blocks, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_dtype(dtype),
        kilni_attr_ints(blocks, n_blocks),
    };
    kiln_tensor *const inputs[] = {x, scales, global};
    return kiln_record(NULL, KILN_OP_QUANTIZE, inputs, kilni_count_present(inputs, 3), attrs, 2, out_tensor, err);
}

kiln_status kiln_dequantize(kiln_tensor *x, kiln_dtype dtype, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_dtype(dtype),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_DEQUANTIZE, inputs, 1, attrs, 1, out_tensor, err);
}

kiln_status kiln_quantize_dynamic(kiln_tensor *x, kiln_dtype dtype, const int64_t *blocks, size_t n_blocks, kiln_dtype scale_dtype, const char *mode, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_dtype(dtype),
        kilni_attr_ints(blocks, n_blocks),
        kilni_attr_dtype(scale_dtype),
        kilni_attr_text(mode),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_QUANTIZE_DYNAMIC, inputs, 1, attrs, 4, out_tensor, err);
}

kiln_status kiln_quantized_scales(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_QUANTIZED_SCALES, inputs, 1, NULL, 0, out_tensor, err);
}

kiln_status kiln_matmul_quantized(kiln_tensor *a, kiln_tensor *b, kiln_dtype dtype, bool transpose_a, bool transpose_b, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_dtype(dtype),
        kilni_attr_bool(transpose_a),
        kilni_attr_bool(transpose_b),
    };
    kiln_tensor *const inputs[] = {a, b};
    return kiln_record(NULL, KILN_OP_MATMUL_QUANTIZED, inputs, 2, attrs, 3, out_tensor, err);
}

kiln_status kiln_linear_quantized(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x, weight, bias};
    return kiln_record(NULL, KILN_OP_LINEAR_QUANTIZED, inputs, kilni_count_present(inputs, 3), NULL, 0, out_tensor, err);
}

kiln_status kiln_all_reduce(kiln_tensor *x, const char *reduction, int64_t group, int64_t member, kiln_tensor **out_tensor, kiln_error *err) {
    const kiln_attr attrs[] = {
        kilni_attr_text(reduction),
        kilni_attr_i64(group),
        kilni_attr_i64(member),
    };
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_ALL_REDUCE, inputs, 1, attrs, 3, out_tensor, err);
}

kiln_status kiln_collective_sync(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err) {
    kiln_tensor *const inputs[] = {x};
    return kiln_record(NULL, KILN_OP_COLLECTIVE_SYNC, inputs, 1, NULL, 0, out_tensor, err);
}

// clang-format on
