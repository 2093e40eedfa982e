// SPDX-License-Identifier: MIT OR Apache-2.0
// What a value is, and the bound of a result: from the table of tolerances, the bounds of operands
// and the magnitudes at hand.

#include <math.h>
#include <string.h>

#include "ir.h"
#include "program.h"

double value_element(const value *v, int64_t i)
{
    const unsigned char *at = v->bytes + (size_t)i * kiln_dtype_size(v->dtype);
    uint16_t half;
    float f;
    double d;
    int64_t wide = 0;
    switch (v->dtype) {
    case KILN_DTYPE_F64:
        memcpy(&d, at, sizeof(d));
        return d;
    case KILN_DTYPE_F32:
        memcpy(&f, at, sizeof(f));
        return f;
    case KILN_DTYPE_F16:
    case KILN_DTYPE_BF16:
        memcpy(&half, at, sizeof(half));
        return v->dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half);
    default:
        memcpy(&wide, at, kiln_dtype_size(v->dtype));
        return (double)wide;
    }
}

bool value_is_float(const value *v)
{
    return kiln_dtype_kind_of(v->dtype) == KILN_KIND_FLOAT;
}

void value_look(value *v)
{
    v->most = 0;
    v->least = INFINITY;
    v->finite = true;
    for (int64_t i = 0; value_is_float(v) && i < v->count; i++) {
        double x = fabs(value_element(v, i));
        v->finite = v->finite && isfinite(x);
        v->most = isfinite(x) && x > v->most ? x : v->most;
        v->least = x < v->least ? x : v->least;
    }
}

static double epsilon_of(kiln_dtype dtype)
{
    return dtype == KILN_DTYPE_F64    ? 0x1p-52
           : dtype == KILN_DTYPE_F32  ? 0x1p-23
           : dtype == KILN_DTYPE_BF16 ? 0x1p-7
                                      : 0x1p-10;
}

/// The largest sum of the magnitudes that a sum may be made of: where they cancel, what rounding
/// left is of that size, not of the result's.
static double summed(kiln_op op, const value *const *in, const value *out)
{
    switch (op) {
    case KILN_OP_SUM:
        return out->count > 0 ? (double)in[0]->count / (double)out->count * in[0]->most : 0;
    case KILN_OP_MEAN:
        return in[0]->most;
    case KILN_OP_MATMUL:
        return (double)in[0]->dims[in[0]->rank - 1] * in[0]->most * in[1]->most;
    default:
        return 0;
    }
}

/// What the operator itself may add, for operands and a result of these magnitudes.
double value_own_bound(kiln_op op, const value *const *in, const value *out)
{
    kiln_tolerance t = kiln_tolerance_of(op, out->dtype);
    double units = t.scaled > t.ulps ? t.scaled : t.ulps;
    kiln_dtype sums = kiln_dtype_size(out->dtype) == 2 ? KILN_DTYPE_F32 : out->dtype;
    return value_is_float(out)
               ? units * epsilon_of(out->dtype) * out->most + epsilon_of(sums) * summed(op, in, out)
               : 0;
}

/// The bound of a result from those of its operands, or a negative number: nothing useful follows.
double value_carried_bound(kiln_op op, const value *const *in, uint32_t n, const value *out)
{
    double a = in[0]->bound, b = n > 1 ? in[1]->bound : 0;
    double rounding = value_is_float(out) ? epsilon_of(out->dtype) * out->most : 0;
    double terms = out->count > 0 ? (double)in[0]->count / (double)out->count : 1;
    switch (op) {
    case KILN_OP_ADD:
    case KILN_OP_SUB:
        return a + b + rounding;
    case KILN_OP_MUL:
        return (in[0]->most + a) * b + (in[1]->most + b) * a + rounding;
    case KILN_OP_DIV:
        return in[1]->least > 0.05 + 2 * b ? (a + out->most * b) / (in[1]->least - b) + rounding
                                           : -1;
    case KILN_OP_EXP:
        return in[0]->most < 20 ? out->most * expm1(a) + rounding : -1;
    case KILN_OP_SQRT:
        return in[0]->least > 0.01 + 2 * a ? a / sqrt(in[0]->least - a) + rounding : -1;
    case KILN_OP_RSQRT:
        return in[0]->least > 0.01 + 2 * a ? a / pow(in[0]->least - a, 1.5) + rounding : -1;
    case KILN_OP_LOG:
        return in[0]->least > 0.01 + 2 * a ? a / (in[0]->least - a) + rounding : -1;
    case KILN_OP_NEG:
    case KILN_OP_ABS:
    case KILN_OP_RELU:
    case KILN_OP_RESHAPE:
    case KILN_OP_EXPAND:
    case KILN_OP_PERMUTE:
    case KILN_OP_SLICE:
    case KILN_OP_FLIP:
    case KILN_OP_CONTIGUOUS:
    case KILN_OP_SELECT:
    case KILN_OP_GATHER:
    case KILN_OP_MAX:
    case KILN_OP_MIN:
    case KILN_OP_MAX_ABS:
        return a;
    case KILN_OP_MAXIMUM:
    case KILN_OP_MINIMUM:
        return a > b ? a : b;
    case KILN_OP_ADD_SCALAR:
    case KILN_OP_SUB_SCALAR:
    case KILN_OP_CLAMP:
    case KILN_OP_CLAMP_MIN:
    case KILN_OP_CLAMP_MAX:
    case KILN_OP_SIN:
    case KILN_OP_COS:
    case KILN_OP_ATAN:
    case KILN_OP_ASINH:
    case KILN_OP_TANH:
    case KILN_OP_SIGMOID:
    case KILN_OP_MEAN:
        return a + rounding;
    case KILN_OP_MUL_SCALAR:
        return 4 * a + rounding; // scalars are below 4
    case KILN_OP_ERF:
    case KILN_OP_SOFTMAX:
        return 2 * a + rounding;
    case KILN_OP_LOG_SOFTMAX:
        return 2 * a + rounding;
    case KILN_OP_SUM:
        return terms * a + rounding;
    case KILN_OP_CAST:
        return value_is_float(out) ? a + epsilon_of(out->dtype) * out->most : -1;
    default:
        return -1;
    }
}
