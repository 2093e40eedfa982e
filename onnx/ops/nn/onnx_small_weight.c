// SPDX-License-Identifier: MIT OR Apache-2.0
// Weights of small floats. Decides that those of the file become numbers once, on the host, and
// stay with their constant: what follows takes them for a weight of f32, as whose they are packed.
#include "onnx_run.h"

#include <string.h>

bool kilni_onnx_blocks_fit(const kiln_tensor_desc *value, const kiln_tensor_desc *x, uint32_t axis,
                           int64_t block)
{
    bool fits = value->rank == x->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++) {
        int64_t blocks = x->dims[i] / block + (x->dims[i] % block != 0);
        fits = value->dims[i] == (i == axis ? blocks : x->dims[i]);
    }
    return fits;
}

typedef struct weight_scales { ///< which scale an element has: of [outer, length, inner]
    int64_t length, inner;
    int64_t block; ///< elements along `length` that share one; 0: one for each place along it
    int64_t blocks;
    bool one; ///< for all
} weight_scales;

static bool find_scales(kilni_onnx_call *call, const kiln_tensor_desc *x,
                        const kiln_tensor_desc *scale, weight_scales *place)
{
    int64_t block = kilni_onnx_attr_int(call, "block_size", 0);
    int64_t axis = kilni_onnx_attr_int(call, "axis", 1);
    axis += axis < 0 ? x->rank : 0;
    *place = (weight_scales){.length = 1, .inner = 1, .block = block};
    place->one = block == 0 && kiln_desc_count(scale) == 1;
    if (!kilni_onnx_ok(call) || place->one || axis < 0 || axis >= x->rank) {
        return kilni_onnx_ok(call) && place->one;
    }
    place->length = x->dims[axis];
    place->inner = kilni_onnx_span_of(x, (uint32_t)axis + 1, x->rank);
    place->blocks = block > 0 ? scale->dims[axis] : 0;
    return block > 0 ? kilni_onnx_blocks_fit(scale, x, (uint32_t)axis, block)
                     : block == 0 && scale->rank == 1 && scale->dims[0] == place->length;
}

static int64_t scale_index(const weight_scales *place, int64_t i)
{
    int64_t at = i / place->inner % place->length;
    if (place->one || place->block == 0) {
        return place->one ? 0 : at;
    }
    return (i / place->inner / place->length * place->blocks + at / place->block) * place->inner +
           i % place->inner;
}

static float scale_number(const kilni_onnx_value *scale, int64_t i)
{
    const uint8_t *bytes = scale->host;
    uint16_t half = 0;
    float whole = 0;
    switch (scale->desc.dtype) {
    case KILN_DTYPE_F32:
        memcpy(&whole, bytes + i * 4, sizeof(whole));
        return whole;
    case KILN_DTYPE_U8:
        return kiln_small_to_f32(kilni_onnx_type_dtype(scale->narrow), bytes[i]);
    default:
        memcpy(&half, bytes + i * 2, sizeof(half));
        return scale->desc.dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half);
    }
}

static bool is_of_file(const kilni_onnx_value *value)
{
    return value != NULL && value->constant && value->host != NULL;
}

static kilni_onnx_ref make_numbers(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref scale,
                                   const weight_scales *place)
{
    kilni_onnx_ref made = kilni_onnx_scratch(call, KILN_DTYPE_F32, x->desc.rank, x->desc.dims);
    float *to = made == NULL ? NULL : made->owned;
    float numbers[256];
    for (int i = 0; i < 256; i++) {
        numbers[i] = kiln_small_to_f32(kilni_onnx_type_dtype(x->narrow), (uint8_t)i);
    }
    int64_t count = to == NULL ? 0 : kiln_desc_count(&x->desc);
    for (int64_t i = 0; i < count; i++) {
        to[i] = numbers[((const uint8_t *)x->host)[i]] * scale_number(scale, scale_index(place, i));
    }
    return made;
}

kilni_onnx_ref kilni_onnx_small_weight(kilni_onnx_call *call, kilni_onnx_ref x,
                                       kilni_onnx_ref scale)
{
    weight_scales place;
    if (!kilni_onnx_ok(call) || !kilni_onnx_is_bits(x->narrow) || !is_of_file(x) ||
        !is_of_file(scale) || kilni_onnx_is_small(x) || kilni_onnx_opt(call, 2) != NULL ||
        kilni_onnx_attr_int(call, "output_dtype", scale->desc.dtype == KILN_DTYPE_F32) != 1 ||
        (scale->desc.dtype == KILN_DTYPE_U8 ? !kilni_onnx_is_bits(scale->narrow)
                                            : kiln_dtype_size(scale->desc.dtype) > 4) ||
        !find_scales(call, &x->desc, &scale->desc, &place)) {
        return NULL;
    }
    if (x->made == NULL || x->made->made_with[0] != scale) {
        kilni_onnx_ref made = make_numbers(call, x, scale, &place);
        if (made == NULL) {
            return NULL;
        }
        made->made_with[0] = kilni_onnx_retain(scale);
        kilni_onnx_release(&call->session->env, x->made);
        x->made = kilni_onnx_retain(made);
    }
    return x->made;
}
