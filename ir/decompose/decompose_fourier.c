// SPDX-License-Identifier: MIT OR Apache-2.0
// Transforms of real signals by the complex one: cut or filled to their length, the spectrum halved
// or completed by its symmetry.
#include <string.h>

#include "decompose_internal.h"
#include "shape_internal.h"

typedef struct complex_pair {
    kilni_value real;
    kilni_value imaginary;
} complex_pair;

static uint32_t axis_of(const kiln_expander *x)
{
    int64_t axis = kilni_x_i64(x, KILN_KEY_AXIS);
    return (uint32_t)(axis < 0 ? axis + kilni_expand_call(x)->inputs[0].rank : axis);
}

/// Cut or filled with zeros to `length` along the axis.
static kilni_value fitted(kiln_expander *x, kilni_value value, uint32_t axis, int64_t length)
{
    const kiln_tensor_desc desc = kilni_expand_desc(x, value);
    int64_t padding[2 * KILN_MAX_RANK] = {0};
    if (desc.dims[axis] > length) {
        return kilni_expand_slice(x, value, axis, 0, length);
    }
    if (desc.dims[axis] == length) {
        return value;
    }
    padding[desc.rank + axis] = length - desc.dims[axis];
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_I64_LIST, .count = 2u * desc.rank, .v.ints = padding},
        {.type = KILN_ATTR_NONE},
        {.type = KILN_ATTR_F64, .count = 1, .v.f = 0},
    };
    kilni_value padded = 0;
    kilni_expand_op(x, KILN_OP_PAD, &value, 1, attrs, 3, &padded);
    return padded;
}

static complex_pair transform(kiln_expander *x, complex_pair signal, uint32_t axis, bool inverse)
{
    const kiln_attr attrs[] = {{.type = KILN_ATTR_I64, .count = 1, .v.i = axis},
                               {.type = KILN_ATTR_BOOL, .count = 1, .v.i = inverse}};
    const kilni_value inputs[] = {signal.real, signal.imaginary};
    kilni_value parts[2] = {0};
    kilni_expand_op(x, KILN_OP_FFT, inputs, signal.imaginary == 0 ? 1 : 2, attrs, 2, parts);
    return (complex_pair){parts[0], parts[1]};
}

void kiln_decompose_rfft(kiln_expander *expander)
{
    uint32_t axis = axis_of(expander);
    const kiln_op_record *call = kilni_expand_call(expander);
    int64_t length = kilni_ir_signal_length(call, call->inputs[0].dims[axis]);
    complex_pair signal = {fitted(expander, kilni_expand_input(expander, 0), axis, length), 0};
    complex_pair spectrum = transform(expander, signal, axis, false);
    int64_t bins = length / 2 + 1;
    kilni_expand_output(expander, 0, kilni_expand_slice(expander, spectrum.real, axis, 0, bins));
    kilni_expand_output(expander, 1,
                        kilni_expand_slice(expander, spectrum.imaginary, axis, 0, bins));
}

/// Elements 1 to count, backwards: what the symmetry puts behind the given half.
static kilni_value mirrored(kiln_expander *x, kilni_value half, uint32_t axis, int64_t count)
{
    const int64_t along = axis;
    const kiln_attr axes = {.type = KILN_ATTR_I64_LIST, .count = 1, .v.ints = &along};
    kilni_value part = kilni_expand_slice(x, half, axis, 1, 1 + count);
    kilni_value turned = 0;
    kilni_expand_op(x, KILN_OP_FLIP, &part, 1, &axes, 1, &turned);
    return turned;
}

static kilni_value completed(kiln_expander *x, kilni_value half, uint32_t axis, int64_t length,
                             bool imaginary)
{
    const kiln_attr attr = {.type = KILN_ATTR_I64, .count = 1, .v.i = axis};
    int64_t rest = length - (length / 2 + 1);
    kilni_value whole = half;
    if (rest > 0) {
        kilni_value behind = mirrored(x, half, axis, rest);
        const kilni_value parts[] = {half,
                                     imaginary ? kilni_expand_1(x, KILN_OP_NEG, behind) : behind};
        kilni_expand_op(x, KILN_OP_CONCAT, parts, 2, &attr, 1, &whole);
    }
    return whole;
}

/// The imaginary parts of elements 0 and, of an even length, length / 2 do not reach the real
/// result.
void kiln_decompose_irfft(kiln_expander *expander)
{
    uint32_t axis = axis_of(expander);
    const kiln_op_record *call = kilni_expand_call(expander);
    int64_t length = kilni_ir_signal_length(call, call->inputs[0].dims[axis]);
    kilni_value half[2];
    for (unsigned i = 0; i < 2; i++) {
        half[i] = fitted(expander, kilni_expand_input(expander, i), axis, length / 2 + 1);
        half[i] = completed(expander, half[i], axis, length, i == 1);
    }
    complex_pair signal = transform(expander, (complex_pair){half[0], half[1]}, axis, true);
    kilni_expand_output(expander, 0, signal.real);
}
