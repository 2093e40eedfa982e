// SPDX-License-Identifier: MIT OR Apache-2.0
// Values that grow from run to run, as the keys and values of a decoder: the concatenation of what
// is there and a little more. Decides how much memory is reserved, and that what is new is written
// behind what is there. A shorter value of the same store stays right: its part is not written.
#include "onnx_run.h"

#include <string.h>

/// Puts `x` into the store. Nobody else has the store then, so it stays where it is.
static void write_part(kilni_onnx_call *call, kilni_onnx_growth *growth, kilni_onnx_ref x,
                       int64_t start)
{
    kiln_tensor *tensor = NULL;
    if (kilni_onnx_ok(call)) {
        call->status = kilni_onnx_to_device(call->session->device, x, &tensor, call->err);
    }
    if (kilni_onnx_ok(call)) {
        call->status = kilni_onnx_growth_write(growth, tensor, start, call->err);
    }
}

/// A store for `length` at least, with what was there.
static void make_store(kilni_onnx_call *call, kilni_onnx_ref past, uint32_t axis, int64_t length)
{
    enum { STEP = 64 };
    kilni_onnx_growth *growth = past->growth;
    kiln_tensor_desc desc = past->desc;
    int64_t room = growth->reserve > length ? growth->reserve : length;
    room += growth->reserve >= length ? 0 : length;
    desc.dims[axis] = (room + STEP - 1) / STEP * STEP;
    kiln_tensor *old = NULL;
    kiln_tensor *fresh = NULL;
    if (past->desc.dims[axis] > 0) { // before its store is another
        call->status = kilni_onnx_to_device(call->session->device, past, &old, call->err);
    }
    if (kilni_onnx_ok(call)) {
        call->status = kiln_tensor_create(call->session->device, desc.dtype, desc.rank, desc.dims,
                                          NULL, &fresh, call->err);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kiln_release(growth->store);
    growth->store = fresh;
    growth->axis = axis;
    if (old != NULL) {
        write_part(call, growth, past, 0);
    }
}

static bool fits_behind(const kilni_onnx_value *past, const kilni_onnx_value *x, int64_t axis)
{
    bool fits = past->desc.rank == x->desc.rank && past->desc.dtype == x->desc.dtype &&
                past->desc.scheme == 0 && axis >= 0 && axis < past->desc.rank;
    for (uint32_t i = 0; fits && i < past->desc.rank; i++) {
        fits = i == axis || past->desc.dims[i] == x->desc.dims[i];
    }
    return fits;
}

kilni_onnx_ref kilni_onnx_lengthen(kilni_onnx_call *call, kilni_onnx_ref past, kilni_onnx_ref x,
                                   int64_t axis)
{
    if (!kilni_onnx_ok(call) || past == NULL || x == NULL || past->growth == NULL ||
        past->growth->grown) {
        return NULL;
    }
    kilni_onnx_growth *growth = past->growth;
    axis += axis < 0 ? past->desc.rank : 0;
    if (!fits_behind(past, x, axis)) {
        return NULL;
    }
    int64_t before = past->desc.dims[axis];
    int64_t after = before + x->desc.dims[axis];
    if (growth->store == NULL || growth->axis != axis || growth->length != before ||
        after > kiln_tensor_dims(growth->store)[axis]) {
        make_store(call, past, (uint32_t)axis, after);
    }
    write_part(call, growth, x, before);
    kilni_onnx_ref value = kilni_onnx_temp(call);
    if (value == NULL) {
        return NULL;
    }
    growth->length = after;
    growth->grown = true;
    value->growth = growth;
    value->desc.dtype = past->desc.dtype;
    value->desc.rank = past->desc.rank;
    memcpy(value->desc.dims, past->desc.dims, sizeof(value->desc.dims));
    value->desc.dims[axis] = after;
    return value;
}
