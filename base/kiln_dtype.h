// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_DTYPE_H
#define KILN_DTYPE_H

/// Element types. Their numbers are permanent.
///
/// Unless a function says otherwise: any thread may call it; texts that it returns are in static
/// storage; it cannot fail.

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
    KILN_KIND_QUANT = 16 ///< of no whole number of bytes
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

#ifdef __cplusplus
}
#endif
#endif
