// SPDX-License-Identifier: MIT OR Apache-2.0
// Values of a run: their beginning, the holds on them and their end, when everything goes that they
// hold themselves.
#include "onnx_run.h"

#include <string.h>

kilni_onnx_ref kilni_onnx_value_new(const kiln_env *env)
{
    kilni_onnx_ref value = kiln_alloc(env, sizeof(*value));
    if (value != NULL) {
        value->refs = 1;
    }
    return value;
}

kilni_onnx_ref kilni_onnx_retain(kilni_onnx_ref value)
{
    if (value != NULL) {
        value->refs++;
    }
    return value;
}

void kilni_onnx_release(const kiln_env *env, kilni_onnx_ref value)
{
    if (value != NULL && --value->refs == 0) {
        for (uint32_t i = 0; i < value->n_items; i++) {
            kilni_onnx_release(env, value->items[i]);
        }
        kiln_free(env, value->items);
        kilni_onnx_release(env, value->made);
        kilni_onnx_release(env, value->turned);
        kilni_onnx_release(env, value->made_with[0]);
        kilni_onnx_release(env, value->made_with[1]);
        kilni_onnx_release(env, value->made_with[2]);
        kilni_onnx_release(env, value->elsewhere);
        if (value->source != NULL) {
            kilni_onnx_release(env, value->source->x);
            kilni_onnx_release(env, value->source->scale);
            kilni_onnx_release(env, value->source->zero);
            kiln_free(env, value->source);
        }
        kiln_release(value->tensor);
        kiln_release(value->other);
        kiln_free(env, value->owned);
        kilni_onnx_file_unref(value->file);
        kiln_free(env, value);
    }
}

kiln_number kilni_onnx_element(kiln_dtype dtype, const void *data, int64_t index)
{
    const uint8_t *at = (const uint8_t *)data + (size_t)index * kiln_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, at, kiln_dtype_size(dtype));
    float f = 0;
    double d = 0;
    switch (dtype) {
    case KILN_DTYPE_F32:
        memcpy(&f, at, sizeof(f));
        return kiln_f64((double)f);
    case KILN_DTYPE_F64:
        memcpy(&d, at, sizeof(d));
        return kiln_f64(d);
    case KILN_DTYPE_F16:
        return kiln_f64((double)kiln_f16_to_f32((uint16_t)bits));
    case KILN_DTYPE_BF16:
        return kiln_f64((double)kiln_bf16_to_f32((uint16_t)bits));
    case KILN_DTYPE_I8:
        return kiln_i64((int8_t)bits);
    case KILN_DTYPE_I16:
        return kiln_i64((int16_t)bits);
    case KILN_DTYPE_I32:
        return kiln_i64((int32_t)bits);
    default:
        return kiln_i64((int64_t)bits);
    }
}
