// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers as strings and back, on the host. Decides how numbers are written: with the fewest digits
// that give them back.
#include "onnx_cast_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int32_t written_float(kilni_onnx_call *call, double value, bool wide)
{
    char text[40];
    int length = 0;
    if (isnan(value) || isinf(value)) {
        length = snprintf(text, sizeof(text), "%s",
                          isnan(value) ? "NaN"
                          : value > 0  ? "INF"
                                       : "-INF");
        return kilni_onnx_text_number(call, text, (size_t)length);
    }
    for (int digits = 1; digits <= (wide ? 17 : 9); digits++) {
        length = snprintf(text, sizeof(text), "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (wide ? back == value : (float)back == (float)value) {
            break;
        }
    }
    return kilni_onnx_text_number(call, text, (size_t)length);
}

static int32_t written(kilni_onnx_call *call, kiln_dtype dtype, kiln_number value)
{
    char text[32];
    if (!value.is_integer) {
        return written_float(call, value.v.f, dtype == KILN_DTYPE_F64);
    }
    int length = dtype == KILN_DTYPE_U64
                     ? snprintf(text, sizeof(text), "%llu", (unsigned long long)value.v.i)
                     : snprintf(text, sizeof(text), "%lld", (long long)value.v.i);
    return kilni_onnx_text_number(call, text, (size_t)length);
}

kilni_onnx_ref kilni_onnx_to_text(kilni_onnx_call *call, kilni_onnx_ref x)
{
    const void *data = kilni_onnx_host(call, x);
    kilni_onnx_ref y =
        kilni_onnx_ok(call) ? kilni_onnx_text_made(call, x->desc.rank, x->desc.dims) : NULL;
    int32_t *numbers = y == NULL ? NULL : y->owned;
    int64_t count = y == NULL ? 0 : kiln_desc_count(&y->desc);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        numbers[i] = written(call, x->desc.dtype, kilni_onnx_element(x->desc.dtype, data, i));
    }
    return y;
}

/// A number of what a text says: 64 bits of one of the three kinds.
static bool read_number(const char *text, kiln_dtype dtype, void *out)
{
    char *end = NULL;
    errno = 0;
    if (dtype == KILN_DTYPE_F64) {
        *(double *)out = strtod(text, &end);
    } else if (dtype == KILN_DTYPE_U64) {
        *(uint64_t *)out = strtoull(text, &end, 10);
    } else {
        *(int64_t *)out = strtoll(text, &end, 10);
    }
    return end != text && *end == '\0' && (errno == 0 || dtype == KILN_DTYPE_F64);
}

/// Doubles of the host as another float, without a device that may have none.
static kilni_onnx_ref narrowed_floats(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype)
{
    const double *from = x->host;
    int64_t count = kiln_desc_count(&x->desc);
    kilni_onnx_ref y = kilni_onnx_host_made(call, dtype, x->desc.rank, x->desc.dims);
    for (int64_t i = 0; y != NULL && i < count; i++) {
        const kiln_attr number = kilni_attr_f64(from[i]);
        (void)kiln_number_store(&number, dtype,
                                (char *)y->owned + (size_t)i * kiln_dtype_size(dtype));
    }
    return y;
}

/// Of floats as f64, of integers as i64 or u64: then cast like any number.
kilni_onnx_ref kilni_onnx_from_text(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype)
{
    const int32_t *numbers = kilni_onnx_text_numbers(call, x);
    bool floats = kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
    kiln_dtype wide = floats                    ? KILN_DTYPE_F64
                      : dtype == KILN_DTYPE_U64 ? KILN_DTYPE_U64
                                                : KILN_DTYPE_I64;
    kilni_onnx_ref y =
        kilni_onnx_ok(call) ? kilni_onnx_host_made(call, wide, x->desc.rank, x->desc.dims) : NULL;
    int64_t count = y == NULL ? 0 : kiln_desc_count(&y->desc);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        const char *text = kilni_onnx_text_at(call->session, numbers[i]);
        if (!read_number(text, wide, (char *)y->owned + (size_t)i * sizeof(int64_t))) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "string '%.60s' is no %s", text,
                            kiln_dtype_name(dtype));
        }
    }
    return floats && kilni_onnx_ok(call) ? narrowed_floats(call, y, dtype)
                                         : kilni_onnx_cast(call, y, dtype);
}
