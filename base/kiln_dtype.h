// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_DTYPE_H
#define KILN_DTYPE_H

/// Element types. Their numbers are permanent.
///
/// Unless a function says otherwise: any thread may call it; texts that it returns are in static
/// storage; it cannot fail. NULL where a pointer is needed is INVALID_ARGUMENT; a function without
/// a status then does nothing and gives 0.

#include <stddef.h>
#include <stdint.h>

#include "kiln_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_dtype {
    KILN_DTYPE_NONE = 0,
#define KILN_DTYPE(id, name, number, bits, kind, doc) KILN_DTYPE_##id = number,
#include "dtype.def"
#undef KILN_DTYPE
    KILN_DTYPE_LIMIT ///< one above the largest number
} kiln_dtype;

typedef enum kiln_dtype_kind {
    KILN_KIND_NONE = 0,
    KILN_KIND_BOOL = 1,
    KILN_KIND_UINT = 2,
    KILN_KIND_INT = 4,
    KILN_KIND_FLOAT = 8,
    KILN_KIND_QUANT = 16, ///< of no whole number of bytes
    KILN_KIND_SMALL = 32 ///< floats of 8 bits and fewer: stored, cast and moved, not computed with
} kiln_dtype_kind;

/// Name of a dtype, "f32"; NULL for a number that is none.
KILN_API const char *kiln_dtype_name(kiln_dtype dtype);

/// Bytes of one element; 0 for a quantised dtype and for a number that is none.
KILN_API size_t kiln_dtype_size(kiln_dtype dtype);

/// Kind of a dtype; KILN_KIND_NONE for a number that is none.
KILN_API kiln_dtype_kind kiln_dtype_kind_of(kiln_dtype dtype);

/// The dtype of a name; KILN_DTYPE_NONE for a name that is none.
KILN_API kiln_dtype kiln_dtype_from_name(const char *name);

/// The number that the 16 bits of an f16 stand for.
KILN_API float kiln_f16_to_f32(uint16_t bits);

/// The f16 nearest to a number, ties to even; a NaN stays a NaN.
KILN_API uint16_t kiln_f32_to_f16(float value);

/// The number that the 16 bits of a bf16 stand for.
KILN_API float kiln_bf16_to_f32(uint16_t bits);

/// The bf16 nearest to a number, ties to even; a NaN stays a NaN.
KILN_API uint16_t kiln_f32_to_bf16(float value);

/// The number that the bits of an element of a small float dtype stand for; 0 for other dtypes.
KILN_API float kiln_small_to_f32(kiln_dtype dtype, uint8_t bits);

/// The element of a small float dtype nearest to a number, ties to even; a power of two of f8e8m0:
/// ties up. What is too large becomes infinity, or NaN where the dtype has none; in f4e2m1, which
/// has neither, the largest, and NaN becomes 0. 0 for other dtypes.
KILN_API uint8_t kiln_f64_to_small(kiln_dtype dtype, double value);

#ifdef __cplusplus
}
#endif
#endif
