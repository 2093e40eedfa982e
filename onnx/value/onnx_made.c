// SPDX-License-Identifier: MIT OR Apache-2.0
// Values that the call of a node makes on the host: constants, sequences, nothing. They go with the
// call unless it gives them to an output.
#include "onnx_run.h"

#include <string.h>

kilni_onnx_ref kilni_onnx_temp(kilni_onnx_call *call)
{
    kilni_onnx_ref value = kilni_onnx_value_new(&call->session->env);
    if (value == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for a value");
        return NULL;
    }
    value->next = call->temps;
    call->temps = value;
    return value;
}

bool kilni_onnx_is_small(const kilni_onnx_value *value)
{
    int64_t count = kiln_desc_count(&value->desc);
    return value->constant && (value->host != NULL || count == 0) && count <= KILNI_ONNX_FOLD_ELEMS;
}

// ---- values that are no tensors ----

kilni_onnx_ref kilni_onnx_sequence(kilni_onnx_call *call, int64_t count)
{
    if (count < 0 || count > KILNI_ONNX_MAX_ITEMS) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "a sequence of %lld items, the limit is %d",
                        (long long)count, KILNI_ONNX_MAX_ITEMS);
    }
    kilni_onnx_ref value = kilni_onnx_ok(call) ? kilni_onnx_temp(call) : NULL;
    if (value == NULL) {
        return NULL;
    }
    value->form = KILNI_ONNX_SEQUENCE;
    value->items = kiln_alloc_array(&call->session->env, (size_t)count + 1, sizeof(*value->items));
    if (value->items == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for a sequence");
        return NULL;
    }
    value->n_items = (uint32_t)count;
    return value;
}

kilni_onnx_ref kilni_onnx_nothing(kilni_onnx_call *call)
{
    kilni_onnx_ref value = kilni_onnx_ok(call) ? kilni_onnx_temp(call) : NULL;
    if (value != NULL) {
        value->form = KILNI_ONNX_NOTHING;
    }
    return value;
}

// ---- constants ----

kilni_onnx_ref kilni_onnx_scratch(kilni_onnx_call *call, kiln_dtype dtype, uint32_t rank,
                                  const int64_t *dims)
{
    kilni_onnx_ref value = kilni_onnx_ok(call) ? kilni_onnx_temp(call) : NULL;
    if (value == NULL) {
        return NULL;
    }
    value->desc.dtype = dtype;
    value->desc.rank = (uint8_t)rank;
    for (uint32_t i = 0; i < rank; i++) {
        value->desc.dims[i] = dims[i];
    }
    size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
    value->owned = kiln_alloc(&call->session->env, bytes + 1);
    if (value->owned == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
        return NULL;
    }
    value->host = value->owned;
    value->constant = true;
    return value;
}

kilni_onnx_ref kilni_onnx_const_data(kilni_onnx_call *call, kiln_dtype dtype, uint32_t rank,
                                     const int64_t *dims, const void *data)
{
    kilni_onnx_ref value = kilni_onnx_scratch(call, dtype, rank, dims);
    size_t bytes = value == NULL ? 0 : (size_t)kiln_desc_bytes(&value->desc);
    if (bytes > 0) {
        memcpy(value->owned, data, bytes);
    }
    return value;
}

kilni_onnx_ref kilni_onnx_const_ints(kilni_onnx_call *call, const int64_t *values, uint32_t count)
{
    const int64_t dims[] = {count};
    return kilni_onnx_const_data(call, KILN_DTYPE_I64, 1, dims, values);
}

kilni_onnx_ref kilni_onnx_const_int(kilni_onnx_call *call, int64_t value)
{
    return kilni_onnx_const_data(call, KILN_DTYPE_I64, 0, NULL, &value);
}

kilni_onnx_ref kilni_onnx_const_tensor(kilni_onnx_call *call, const kilni_onnx_tensor *tensor)
{
    kilni_onnx_ref value = NULL;
    if (kilni_onnx_ok(call)) {
        call->status = kilni_onnx_keep(call->session, tensor, &value, call->err);
    }
    return value;
}
