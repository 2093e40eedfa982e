// SPDX-License-Identifier: MIT OR Apache-2.0
// Facts about element types, all from dtype.def, and the bit conversions of the two 16-bit floats.
// What may be computed in which type is decided by the operator table and by the devices.
#include "base.h"

#include <string.h>

typedef struct dtype_row {
    const char *name;
    size_t bits;
    kiln_dtype_kind kind;
} dtype_row;

static const dtype_row rows[KILN_DTYPE_LIMIT] = {
#define KILN_DTYPE(id, name, number, bits, kind, doc) [number] = {#name, bits, KILN_KIND_##kind},
#include "dtype.def"
#undef KILN_DTYPE
};

static const dtype_row *row_of(kiln_dtype dtype)
{
    static const dtype_row none = {NULL, 0, KILN_KIND_NONE};
    return (unsigned)dtype < (unsigned)KILN_DTYPE_LIMIT ? &rows[dtype] : &none;
}

const char *kiln_dtype_name(kiln_dtype dtype)
{
    return row_of(dtype)->name;
}

size_t kiln_dtype_size(kiln_dtype dtype)
{
    return row_of(dtype)->bits / 8;
}

kiln_dtype_kind kiln_dtype_kind_of(kiln_dtype dtype)
{
    return row_of(dtype)->kind;
}

kiln_dtype kiln_dtype_from_name(const char *name)
{
    for (int i = 1; name != NULL && i < KILN_DTYPE_LIMIT; i++) {
        if (rows[i].name != NULL && strcmp(rows[i].name, name) == 0) {
            return (kiln_dtype)i;
        }
    }
    return KILN_DTYPE_NONE;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

float kiln_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) { // zero or subnormal: fraction units of 2^-24, exact in binary32
        return float_of_bits(sign | bits_of_float((float)fraction * 0x1p-24f));
    }
    if (exponent == 0x1f) {
        return float_of_bits(sign | 0x7f800000u | fraction << 13);
    }
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/// `value` >> `shift`, rounded to nearest, ties to even.
static uint32_t shift_round(uint32_t value, uint32_t shift)
{
    uint32_t half = (1u << (shift - 1)) - 1;
    return (value + half + ((value >> shift) & 1u)) >> shift;
}

uint16_t kiln_f32_to_f16(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { // NaN: quiet, upper payload kept
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) { // 65520 and above round to infinity
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { // below 2^-14: subnormal, units of 2^-24
        uint32_t exponent = magnitude >> 23;
        if (exponent < 102) {
            return (uint16_t)sign;
        }
        uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
        return (uint16_t)(sign | shift_round(fraction, 126 - exponent));
    }
    return (uint16_t)(sign | shift_round(magnitude - 0x38000000u, 13));
}

float kiln_bf16_to_f32(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

uint16_t kiln_f32_to_bf16(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
