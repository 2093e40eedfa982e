// SPDX-License-Identifier: MIT OR Apache-2.0
// The arithmetic of reductions on the host, one loop per dtype and operation, simple enough for the
// compiler to make vectors of. Integers wrap: they are combined unsigned. NaN goes through min and
// max.
#include "coll_host_reduce.h"

#include <string.h>

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
/// b when it is smaller or a NaN; a NaN in a stays, since every comparison with it is false.
#define MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

/// Ranges are equal or apart: no element is read that an earlier turn has written.
#ifdef __clang__
#define NO_CARRY _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_CARRY _Pragma("GCC ivdep")
#endif

/// A loop over elements of `type`, the operation done in `wide`. Elements are moved with memcpy,
/// since a caller's offset need not be aligned.
#define LOOP(type, wide, OP)                                                                       \
    NO_CARRY for (size_t i = 0; i < count; i++)                                                    \
    {                                                                                              \
        type a;                                                                                    \
        type b;                                                                                    \
        memcpy(&a, left + i * sizeof(a), sizeof(a));                                               \
        memcpy(&b, right + i * sizeof(b), sizeof(b));                                              \
        a = (type)OP((wide)a, (wide)b);                                                            \
        memcpy(to + i * sizeof(a), &a, sizeof(a));                                                 \
    }                                                                                              \
    return true

/// Sum and product in `wide`, which wraps; minimum and maximum in the type itself.
#define DEFINE_REDUCE(name, type, wide)                                                            \
    static bool reduce_##name(unsigned char *to, const unsigned char *left,                        \
                              const unsigned char *right, size_t count, kiln_coll_op op)           \
    {                                                                                              \
        switch (op) {                                                                              \
        case KILN_COLL_SUM:                                                                        \
            LOOP(type, wide, ADD);                                                                 \
        case KILN_COLL_PROD:                                                                       \
            LOOP(type, wide, MUL);                                                                 \
        case KILN_COLL_MIN:                                                                        \
            LOOP(type, type, MIN);                                                                 \
        case KILN_COLL_MAX:                                                                        \
            LOOP(type, type, MAX);                                                                 \
        default:                                                                                   \
            return false;                                                                          \
        }                                                                                          \
    }

DEFINE_REDUCE(u8, uint8_t, uint32_t)
DEFINE_REDUCE(u16, uint16_t, uint32_t)
DEFINE_REDUCE(u32, uint32_t, uint32_t)
DEFINE_REDUCE(u64, uint64_t, uint64_t)
DEFINE_REDUCE(i8, int8_t, uint32_t)
DEFINE_REDUCE(i16, int16_t, uint32_t)
DEFINE_REDUCE(i32, int32_t, uint32_t)
DEFINE_REDUCE(i64, int64_t, uint64_t)
DEFINE_REDUCE(f32, float, float)
DEFINE_REDUCE(f64, double, double)

bool kilni_coll_host_reduce(void *target, const void *left, const void *right, size_t count,
                            kiln_dtype dtype, kiln_coll_op op)
{
    switch (dtype) {
    case KILN_DTYPE_U8:
        return reduce_u8(target, left, right, count, op);
    case KILN_DTYPE_U16:
        return reduce_u16(target, left, right, count, op);
    case KILN_DTYPE_U32:
        return reduce_u32(target, left, right, count, op);
    case KILN_DTYPE_U64:
        return reduce_u64(target, left, right, count, op);
    case KILN_DTYPE_I8:
        return reduce_i8(target, left, right, count, op);
    case KILN_DTYPE_I16:
        return reduce_i16(target, left, right, count, op);
    case KILN_DTYPE_I32:
        return reduce_i32(target, left, right, count, op);
    case KILN_DTYPE_I64:
        return reduce_i64(target, left, right, count, op);
    case KILN_DTYPE_F32:
        return reduce_f32(target, left, right, count, op);
    case KILN_DTYPE_F64:
        return reduce_f64(target, left, right, count, op);
    default:
        return false;
    }
}

// ---- conversion and division ----

/// Divides elements of `type`; `divisor_type` holds any divisor and keeps the sign.
#define DEFINE_DIVIDE(name, type, divisor_type)                                                    \
    static bool divide_##name(unsigned char *to, const unsigned char *from, size_t count,          \
                              uint32_t divisor)                                                    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            type a;                                                                                \
            memcpy(&a, from + i * sizeof(a), sizeof(a));                                           \
            a = (type)((divisor_type)a / (divisor_type)divisor);                                   \
            memcpy(to + i * sizeof(a), &a, sizeof(a));                                             \
        }                                                                                          \
        return true;                                                                               \
    }

DEFINE_DIVIDE(u8, uint8_t, uint32_t)
DEFINE_DIVIDE(u16, uint16_t, uint32_t)
DEFINE_DIVIDE(u32, uint32_t, uint32_t)
DEFINE_DIVIDE(u64, uint64_t, uint64_t)
DEFINE_DIVIDE(i8, int8_t, int64_t)
DEFINE_DIVIDE(i16, int16_t, int64_t)
DEFINE_DIVIDE(i32, int32_t, int64_t)
DEFINE_DIVIDE(i64, int64_t, int64_t)
DEFINE_DIVIDE(f32, float, float)
DEFINE_DIVIDE(f64, double, double)

static bool divide(unsigned char *to, const unsigned char *from, size_t count, kiln_dtype dtype,
                   uint32_t divisor)
{
    switch (dtype) {
    case KILN_DTYPE_U8:
        return divide_u8(to, from, count, divisor);
    case KILN_DTYPE_U16:
        return divide_u16(to, from, count, divisor);
    case KILN_DTYPE_U32:
        return divide_u32(to, from, count, divisor);
    case KILN_DTYPE_U64:
        return divide_u64(to, from, count, divisor);
    case KILN_DTYPE_I8:
        return divide_i8(to, from, count, divisor);
    case KILN_DTYPE_I16:
        return divide_i16(to, from, count, divisor);
    case KILN_DTYPE_I32:
        return divide_i32(to, from, count, divisor);
    case KILN_DTYPE_I64:
        return divide_i64(to, from, count, divisor);
    case KILN_DTYPE_F32:
        return divide_f32(to, from, count, divisor);
    case KILN_DTYPE_F64:
        return divide_f64(to, from, count, divisor);
    default:
        return false;
    }
}

static bool widen(unsigned char *to, const unsigned char *from, size_t count,
                  float (*convert)(uint16_t), uint32_t divisor)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
        float value = convert(bits) / (float)divisor;
        memcpy(to + i * sizeof(value), &value, sizeof(value));
    }
    return true;
}

static bool narrow(unsigned char *to, const unsigned char *from, size_t count,
                   uint16_t (*convert)(float), uint32_t divisor)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, from + i * sizeof(value), sizeof(value));
        uint16_t bits = convert(value / (float)divisor);
        memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
    }
    return true;
}

bool kilni_coll_host_convert(void *target, kiln_dtype target_dtype, const void *source,
                             kiln_dtype source_dtype, size_t count, uint32_t divisor)
{
    if (target_dtype == source_dtype && divisor == 1) {
        memmove(target, source, count * kiln_dtype_size(target_dtype));
        return kiln_dtype_size(target_dtype) > 0;
    }
    if (target_dtype == source_dtype) {
        return divide(target, source, count, target_dtype, divisor);
    }
    if (target_dtype == KILN_DTYPE_F32 && source_dtype == KILN_DTYPE_F16) {
        return widen(target, source, count, kiln_f16_to_f32, divisor);
    }
    if (target_dtype == KILN_DTYPE_F32 && source_dtype == KILN_DTYPE_BF16) {
        return widen(target, source, count, kiln_bf16_to_f32, divisor);
    }
    if (source_dtype == KILN_DTYPE_F32 && target_dtype == KILN_DTYPE_F16) {
        return narrow(target, source, count, kiln_f32_to_f16, divisor);
    }
    if (source_dtype == KILN_DTYPE_F32 && target_dtype == KILN_DTYPE_BF16) {
        return narrow(target, source, count, kiln_f32_to_bf16, divisor);
    }
    return false;
}
