// SPDX-License-Identifier: MIT OR Apache-2.0
// Constants of the file as values that a session keeps, so that each is uploaded once. Decides that
// a sparse constant is laid out densely at its first use.
#include "onnx_run.h"

#include <string.h>

/// Element of the dense form at which the i-th value stands; -1 when it is outside.
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

static uint32_t kept_place(const kiln_onnx_session *session, const void *key,
                           const kiln_device *device)
{
    const uintptr_t addresses[] = {(uintptr_t)key, (uintptr_t)device};
    uint32_t mask = session->kept_size - 1;
    uint32_t at = (uint32_t)kiln_hash64(addresses, sizeof(addresses), 0) & mask;
    while (session->kept[at].key != NULL &&
           (session->kept[at].key != key || session->kept[at].device != device)) {
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
        if (old[i].key != NULL) {
            fresh[kept_place(session, old[i].key, old[i].device)] = old[i];
        }
    }
    kiln_free(&session->env, old);
    return KILN_STATUS_OK;
}

/// The place of a key, with room for one more.
static kiln_status find_kept(kiln_onnx_session *session, const void *key, kilni_onnx_kept **out,
                             kiln_error *err)
{
    kiln_status status =
        session->kept_count * 2 >= session->kept_size ? grow_kept(session, err) : KILN_STATUS_OK;
    *out =
        status == KILN_STATUS_OK ? &session->kept[kept_place(session, key, session->device)] : NULL;
    return status;
}

static kiln_status new_text_constant(kiln_onnx_session *session, const kilni_onnx_tensor *tensor,
                                     kilni_onnx_ref *out_value, kiln_error *err)
{
    kilni_onnx_ref value = kilni_onnx_value_new(&session->env);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant");
    }
    value->constant = true;
    value->desc.dtype = KILN_DTYPE_I32;
    value->desc.rank = (uint8_t)tensor->rank;
    memcpy(value->desc.dims, tensor->dims, sizeof(tensor->dims));
    kiln_status status = kilni_onnx_texts_fill(session, value, tensor->texts, /*kept=*/true, err);
    if (status != KILN_STATUS_OK) {
        kilni_onnx_release(&session->env, value);
        return status;
    }
    *out_value = value;
    return KILN_STATUS_OK;
}

static kiln_status new_constant(kiln_onnx_session *session, const kilni_onnx_tensor *tensor,
                                kilni_onnx_ref *out_value, kiln_error *err)
{
    if (tensor->onnx_type == KILNI_ONNX_TYPE_STRING && tensor->indices == NULL) {
        return new_text_constant(session, tensor, out_value, err);
    }
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
    kilni_onnx_kept *kept = NULL;
    kiln_status status = find_kept(session, tensor, &kept, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (kept->key == NULL) {
        status = new_constant(session, tensor, &kept->value, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kept->key = tensor;
        kept->device = session->device;
        session->kept_count++;
    }
    *out_value = kept->value;
    return KILN_STATUS_OK;
}

kilni_onnx_ref kilni_onnx_kept_of(kilni_onnx_call *call, const void *key)
{
    const kiln_onnx_session *session = call->session;
    return kilni_onnx_ok(call) && session->kept_size > 0
               ? session->kept[kept_place(session, key, session->device)].value
               : NULL;
}

void kilni_onnx_keep_made(kilni_onnx_call *call, const void *key, kilni_onnx_ref value)
{
    kilni_onnx_kept *kept = NULL;
    if (kilni_onnx_ok(call)) {
        call->status = find_kept(call->session, key, &kept, call->err);
    }
    if (kilni_onnx_ok(call) && kept->key == NULL) {
        *kept = (kilni_onnx_kept){
            .key = key, .device = call->session->device, .value = kilni_onnx_retain(value)};
        call->session->kept_count++;
    }
}
