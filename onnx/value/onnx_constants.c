// SPDX-License-Identifier: MIT OR Apache-2.0
// Constants of the file as values that a session keeps, so that each is uploaded once. Decides that
// a sparse constant is laid out densely at its first use.
#include "onnx_run.h"

#include <string.h>

/* Element of the dense form at which the i-th value stands; -1 when it is outside. */
static int64_t sparse_place(const kilni_onnx_tensor *tensor, int64_t i)
{
    const kilni_onnx_tensor *indices = tensor->indices;
    uint32_t columns = indices->rank == 2 ? (uint32_t)indices->dims[1] : 1;
    int64_t place = 0;
    for (uint32_t k = 0; k < columns; k++) {
        int64_t index = 0;
        int64_t length = indices->rank == 2 ? tensor->dims[k] : tensor->count;
        memcpy(&index, indices->data + (size_t)(i * columns + k) * sizeof(index), sizeof(index));
        index += index < 0 ? length : 0;
        if (index < 0 || index >= length) {
            return -1;
        }
        place = place * length + index;
    }
    return place;
}

static kiln_status lay_out(const kiln_onnx_session *session, const kilni_onnx_tensor *tensor,
                           kilni_onnx_ref value, kiln_error *err)
{
    size_t size = kiln_dtype_size(tensor->dtype);
    int64_t count = tensor->indices->dims[0];
    value->owned = kiln_alloc_array(&session->env, (size_t)tensor->count + 1, size);
    value->host = value->owned;
    if (value->owned == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the %lld elements of '%s'",
                         (long long)tensor->count, tensor->name);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t place = sparse_place(tensor, i);
        if (place < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "sparse tensor '%s': index %lld is outside",
                             tensor->name, (long long)i);
        }
        memcpy((uint8_t *)value->owned + (size_t)place * size, tensor->data + (size_t)i * size,
               size);
    }
    return KILN_STATUS_OK;
}

static uint32_t kept_place(const kiln_onnx_session *session, const kilni_onnx_tensor *tensor)
{
    const uintptr_t address = (uintptr_t)tensor;
    uint32_t mask = session->kept_size - 1;
    uint32_t at = (uint32_t)kiln_hash64(&address, sizeof(address), 0) & mask;
    while (session->kept[at].tensor != NULL && session->kept[at].tensor != tensor) {
        at = (at + 1) & mask;
    }
    return at;
}

static kiln_status grow_kept(kiln_onnx_session *session, kiln_error *err)
{
    kilni_onnx_kept *old = session->kept;
    uint32_t old_size = session->kept_size;
    uint32_t size = old_size == 0 ? 64 : old_size * 2;
    kilni_onnx_kept *fresh = kiln_alloc_array(&session->env, size, sizeof(*fresh));
    if (fresh == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the constants of a session");
    }
    session->kept = fresh;
    session->kept_size = size;
    for (uint32_t i = 0; i < old_size; i++) {
        if (old[i].tensor != NULL) {
            fresh[kept_place(session, old[i].tensor)] = old[i];
        }
    }
    kiln_free(&session->env, old);
    return KILN_STATUS_OK;
}

static kiln_status new_constant(kiln_onnx_session *session, const kilni_onnx_tensor *tensor,
                                kilni_onnx_ref *out_value, kiln_error *err)
{
    if (tensor->dtype == KILN_DTYPE_NONE) {
        const char *name = kilni_onnx_type_name(tensor->onnx_type);
        return kiln_fail(err, UNIMPLEMENTED, "constant '%s': element type %s is not supported",
                         tensor->name, name == NULL ? "of an unknown number" : name);
    }
    kilni_onnx_ref value = kilni_onnx_value_new(&session->env);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant");
    }
    value->constant = true;
    value->host = tensor->data;
    if (tensor->indices == NULL) { // what is laid out densely is no part of the file
        value->file = kilni_onnx_file_of(session->model, tensor->data);
    }
    if (value->file != NULL) {
        kilni_onnx_file_ref(value->file);
    }
    value->narrow = kilni_onnx_narrow_of(tensor->onnx_type);
    value->desc.dtype = kilni_onnx_is_bits(value->narrow) ? KILN_DTYPE_U8 : tensor->dtype;
    value->desc.rank = (uint8_t)tensor->rank;
    memcpy(value->desc.dims, tensor->dims, sizeof(tensor->dims));
    kiln_status status =
        tensor->indices == NULL ? KILN_STATUS_OK : lay_out(session, tensor, value, err);
    if (status != KILN_STATUS_OK) {
        kilni_onnx_release(&session->env, value);
        return status;
    }
    *out_value = value;
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_keep(kiln_onnx_session *session, const kilni_onnx_tensor *tensor,
                            kilni_onnx_ref *out_value, kiln_error *err)
{
    if (session->kept_count * 2 >= session->kept_size) {
        kiln_status status = grow_kept(session, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    kilni_onnx_kept *kept = &session->kept[kept_place(session, tensor)];
    if (kept->tensor == NULL) {
        kiln_status status = new_constant(session, tensor, &kept->value, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kept->tensor = tensor;
        session->kept_count++;
    }
    *out_value = kept->value;
    return KILN_STATUS_OK;
}
