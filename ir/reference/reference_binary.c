// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of elementwise operators with two inputs, with an input and a scalar, and with
// masks. A scalar is an element of the input's dtype, so `add_scalar` is `add` with a full tensor.
// Division, shifts and powers of integers are total: the rows in ops.def say what they give.
#include <math.h>

#include "reference_internal.h"

typedef kilni_ref_value (*binary_fn)(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype);

static void map_pair(const kiln_view *inputs, const kiln_view *outputs, binary_fn fn)
{
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &inputs[1]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_value a = kilni_ref_load(&inputs[0], walk.at[0]);
        kilni_ref_value b = kilni_ref_load(&inputs[1], walk.at[1]);
        kilni_ref_store(&outputs[0], walk.at[2], fn(a, b, inputs[0].dtype));
    }
}

static void map_scalar(const kiln_op_record *call, const kiln_view *inputs,
                       const kiln_view *outputs, binary_fn fn)
{
    kilni_ref_value b = kilni_ref_scalar(call, KILN_KEY_VALUE, inputs[0].dtype);
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_value a = kilni_ref_load(&inputs[0], walk.at[0]);
        kilni_ref_store(&outputs[0], walk.at[1], fn(a, b, inputs[0].dtype));
    }
}

static kilni_ref_value add(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(a.f + b.f)
                                     : (kilni_ref_value){.u = a.u + b.u};
}

static kilni_ref_value sub(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(a.f - b.f)
                                     : (kilni_ref_value){.u = a.u - b.u};
}

static kilni_ref_value mul(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(a.f * b.f)
                                     : (kilni_ref_value){.u = a.u * b.u};
}

static kilni_ref_value divide(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    if (kilni_ref_is_float(dtype)) {
        return kilni_ref_of_float(a.f / b.f);
    }
    if (b.u == 0) {
        return b;
    }
    if (!kilni_ref_is_signed(dtype)) {
        return (kilni_ref_value){.u = a.u / b.u};
    }
    return b.i == -1 ? (kilni_ref_value){.u = 0 - a.u} : (kilni_ref_value){.i = a.i / b.i};
}

/// a - b * trunc(a / b), exact: C's fmod and %.
static kilni_ref_value fmod_of(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    if (kilni_ref_is_float(dtype)) {
        return kilni_ref_of_float(fmod(a.f, b.f));
    }
    if (b.u == 0 || (kilni_ref_is_signed(dtype) && b.i == -1)) {
        return (kilni_ref_value){.u = 0};
    }
    return kilni_ref_is_signed(dtype) ? (kilni_ref_value){.i = a.i % b.i}
                                      : (kilni_ref_value){.u = a.u % b.u};
}

/// As Python's %: fmod, plus b when the signs differ; a zero takes the sign of b.
static kilni_ref_value rem(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    kilni_ref_value rest = fmod_of(a, b, dtype);
    if (kilni_ref_is_float(dtype)) {
        if (rest.f == 0) {
            return kilni_ref_of_float(copysign(0, b.f));
        }
        return (rest.f < 0) != (b.f < 0) && !isnan(rest.f) ? kilni_ref_of_float(rest.f + b.f)
                                                           : rest;
    }
    if (kilni_ref_is_signed(dtype) && rest.i != 0 && (rest.i < 0) != (b.i < 0)) {
        rest.u += b.u;
    }
    return rest;
}

static kilni_ref_value pow_int(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    kilni_ref_value result = {.u = 1};
    if (kilni_ref_is_signed(dtype) && b.i < 0) {
        if (a.i == -1) {
            return (kilni_ref_value){.i = (b.u & 1u) != 0 ? -1 : 1};
        }
        return kilni_ref_of_bool(a.i == 1);
    }
    for (uint64_t exponent = b.u; exponent != 0; exponent >>= 1) {
        result.u *= (exponent & 1u) != 0 ? a.u : 1;
        a.u *= a.u;
    }
    return result;
}

static kilni_ref_value pow_of(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(pow(a.f, b.f)) : pow_int(a, b, dtype);
}

static kilni_ref_value atan2_of(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    (void)dtype;
    return kilni_ref_of_float(atan2(a.f, b.f));
}

static kilni_ref_value hypot_of(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    (void)dtype;
    return kilni_ref_of_float(hypot(a.f, b.f));
}

static kilni_ref_value equal(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_of_bool(kilni_ref_equal(a, b, dtype));
}

static kilni_ref_value not_equal(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_of_bool(!kilni_ref_equal(a, b, dtype));
}

static kilni_ref_value less(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_of_bool(kilni_ref_less(a, b, dtype));
}

static kilni_ref_value less_equal(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_of_bool(kilni_ref_less(a, b, dtype) || kilni_ref_equal(a, b, dtype));
}

static kilni_ref_value greater(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return less(b, a, dtype);
}

static kilni_ref_value greater_equal(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return less_equal(b, a, dtype);
}

static kilni_ref_value bit_and(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    (void)dtype;
    return (kilni_ref_value){.u = a.u & b.u};
}

static kilni_ref_value bit_or(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    (void)dtype;
    return (kilni_ref_value){.u = a.u | b.u};
}

static kilni_ref_value bit_xor(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    (void)dtype;
    return (kilni_ref_value){.u = a.u ^ b.u};
}

static bool shifts_out(kilni_ref_value b, kiln_dtype dtype)
{
    return b.u >= 8 * kiln_dtype_size(dtype); // a negative count is huge here
}

static kilni_ref_value shift_left(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return (kilni_ref_value){.u = shifts_out(b, dtype) ? 0 : a.u << b.u};
}

static kilni_ref_value shift_right(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    if (shifts_out(b, dtype)) {
        return (kilni_ref_value){.u = 0};
    }
    uint64_t sign = kilni_ref_is_signed(dtype) && a.i < 0 && b.u > 0 ? UINT64_MAX << (64 - b.u) : 0;
    return (kilni_ref_value){.u = a.u >> b.u | sign};
}

#define REFERENCE(name, fn)                                                                        \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        (void)call;                                                                                \
        (void)err;                                                                                 \
        map_pair(inputs, outputs, fn);                                                             \
        return KILN_STATUS_OK;                                                                     \
    }

REFERENCE(add, add)
REFERENCE(sub, sub)
REFERENCE(mul, mul)
REFERENCE(div, divide)
REFERENCE(rem, rem)
REFERENCE(fmod, fmod_of)
REFERENCE(pow, pow_of)
REFERENCE(minimum, kilni_ref_min)
REFERENCE(maximum, kilni_ref_max)
REFERENCE(atan2, atan2_of)
REFERENCE(hypot, hypot_of)
REFERENCE(equal, equal)
REFERENCE(not_equal, not_equal)
REFERENCE(less, less)
REFERENCE(less_equal, less_equal)
REFERENCE(greater, greater)
REFERENCE(greater_equal, greater_equal)
REFERENCE(logical_and, bit_and)
REFERENCE(logical_or, bit_or)
REFERENCE(logical_xor, bit_xor)
REFERENCE(bitwise_and, bit_and)
REFERENCE(bitwise_or, bit_or)
REFERENCE(bitwise_xor, bit_xor)
REFERENCE(shift_left, shift_left)
REFERENCE(shift_right, shift_right)

#undef REFERENCE
#define REFERENCE(name, fn)                                                                        \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        (void)err;                                                                                 \
        map_scalar(call, inputs, outputs, fn);                                                     \
        return KILN_STATUS_OK;                                                                     \
    }

REFERENCE(add_scalar, add)
REFERENCE(sub_scalar, sub)
REFERENCE(mul_scalar, mul)
REFERENCE(div_scalar, divide)
REFERENCE(rem_scalar, rem)
REFERENCE(pow_scalar, pow_of)
REFERENCE(clamp_min, kilni_ref_max)
REFERENCE(clamp_max, kilni_ref_min)
REFERENCE(equal_scalar, equal)
REFERENCE(not_equal_scalar, not_equal)
REFERENCE(less_scalar, less)
REFERENCE(less_equal_scalar, less_equal)
REFERENCE(greater_scalar, greater)
REFERENCE(greater_equal_scalar, greater_equal)
REFERENCE(bitwise_and_scalar, bit_and)
REFERENCE(bitwise_or_scalar, bit_or)
REFERENCE(bitwise_xor_scalar, bit_xor)
REFERENCE(shift_left_scalar, shift_left)
REFERENCE(shift_right_scalar, shift_right)

#undef REFERENCE

kiln_status kiln_ref_clamp(const kiln_op_record *call, const kiln_view *inputs,
                           const kiln_view *outputs, kiln_error *err)
{
    kiln_dtype dtype = inputs[0].dtype;
    kilni_ref_value low = kilni_ref_scalar(call, KILN_KEY_MIN, dtype);
    kilni_ref_value high = kilni_ref_scalar(call, KILN_KEY_MAX, dtype);
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_value x = kilni_ref_load(&inputs[0], walk.at[0]);
        x = kilni_ref_min(kilni_ref_max(x, low, dtype), high, dtype);
        kilni_ref_store(&outputs[0], walk.at[1], x);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_where(const kiln_op_record *call, const kiln_view *inputs,
                           const kiln_view *outputs, kiln_error *err)
{
    kilni_ref_walk walk;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    for (unsigned i = 0; i < 3; i++) {
        kilni_ref_walk_add(&walk, &inputs[i]);
    }
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        unsigned from = kilni_ref_load(&inputs[2], walk.at[2]).u != 0 ? 0 : 1;
        kilni_ref_store(&outputs[0], walk.at[3], kilni_ref_load(&inputs[from], walk.at[from]));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_mask_fill(const kiln_op_record *call, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    kilni_ref_value value = kilni_ref_scalar(call, KILN_KEY_VALUE, inputs[0].dtype);
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &inputs[1]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        bool masked = kilni_ref_load(&inputs[1], walk.at[1]).u != 0;
        kilni_ref_store(&outputs[0], walk.at[2],
                        masked ? value : kilni_ref_load(&inputs[0], walk.at[0]));
    }
    return KILN_STATUS_OK;
}
