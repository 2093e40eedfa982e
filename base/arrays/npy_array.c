// SPDX-License-Identifier: MIT OR Apache-2.0
// An array as it is in memory: how many elements it has, and each of them as a number. What stands
// in files is npy.c's.
#include "base_npy.h"

#include <math.h>
#include <stdlib.h>

void kiln_npy_free(kiln_npy *array)
{
    free(array->data);
    free((void *)array->texts);
    array->data = NULL;
    array->texts = NULL;
}

double kiln_npy_number(const kiln_npy *array, size_t index)
{
    if (array->texts != NULL) {
        return (double)NAN;
    }
    switch (array->dtype) {
    case KILN_DTYPE_F64:
        return ((const double *)array->data)[index];
    case KILN_DTYPE_F32:
        return (double)((const float *)array->data)[index];
    case KILN_DTYPE_F16:
        return (double)kiln_f16_to_f32(((const uint16_t *)array->data)[index]);
    case KILN_DTYPE_BF16:
        return (double)kiln_bf16_to_f32(((const uint16_t *)array->data)[index]);
    case KILN_DTYPE_I64:
        return (double)((const int64_t *)array->data)[index];
    case KILN_DTYPE_U64:
        return (double)((const uint64_t *)array->data)[index];
    case KILN_DTYPE_I32:
        return (double)((const int32_t *)array->data)[index];
    case KILN_DTYPE_U32:
        return (double)((const uint32_t *)array->data)[index];
    case KILN_DTYPE_I16:
        return (double)((const int16_t *)array->data)[index];
    case KILN_DTYPE_U16:
        return (double)((const uint16_t *)array->data)[index];
    case KILN_DTYPE_I8:
        return (double)((const int8_t *)array->data)[index];
    default:
        break;
    }
    uint8_t byte = ((const uint8_t *)array->data)[index];
    return kiln_dtype_kind_of(array->dtype) == KILN_KIND_SMALL
               ? (double)kiln_small_to_f32(array->dtype, byte)
               : (double)byte;
}

size_t kiln_npy_count(const kiln_npy *array)
{
    size_t count = 1;
    for (size_t i = 0; i < array->rank; i++) {
        count *= (size_t)array->dims[i];
    }
    return array->dtype == KILN_DTYPE_NONE ? count : array->bytes / kiln_dtype_size(array->dtype);
}
