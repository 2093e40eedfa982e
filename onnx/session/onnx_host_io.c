// SPDX-License-Identifier: MIT OR Apache-2.0
// Strings and maps that a run takes and gives. Decides that a run's strings become numbers here,
// and that what is given is one block of memory for each value: the struct, its lists, its texts.
#include "onnx_host_io.h"

#include <string.h>

// ---- inputs ----

kiln_status kilni_onnx_check_shape(const kiln_onnx_value_info *info, uint32_t rank,
                                   const int64_t *dims, kiln_error *err)
{
    char wanted[96];
    char given[96];
    kiln_onnx_value_info own = {.type_name = info->type_name, .has_shape = true, .rank = rank};
    bool fits = info->rank == rank;
    for (uint32_t i = 0; i < rank; i++) {
        own.dims[i].length = dims[i];
        fits = fits && (info->dims[i].length < 0 || info->dims[i].length == dims[i]);
    }
    if (fits || !info->has_shape) {
        return KILN_STATUS_OK;
    }
    kiln_onnx_value_info_text(info, wanted, sizeof(wanted));
    kiln_onnx_value_info_text(&own, given, sizeof(given));
    return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is %s, the model takes %s", info->name,
                     given, wanted);
}

kiln_status kilni_onnx_input_new(const kiln_onnx_session *session, kilni_onnx_ref *out_value,
                                 kiln_error *err)
{
    kilni_onnx_ref value = kilni_onnx_value_new(&session->env);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input");
    }
    value->given = true;
    *out_value = value;
    return KILN_STATUS_OK;
}

static kiln_status set_lengths(kilni_onnx_ref value, kiln_dtype dtype, uint32_t rank,
                               const int64_t *dims, kiln_error *err)
{
    value->desc.dtype = dtype;
    value->desc.rank = (uint8_t)rank;
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && count > KILNI_ONNX_MAX_LIST / dims[i])) {
            return kiln_fail(err, RESOURCE_EXHAUSTED,
                             "axis %u of length %lld: the limit is %d in all", i,
                             (long long)dims[i], KILNI_ONNX_MAX_LIST);
        }
        count *= dims[i];
        value->desc.dims[i] = dims[i];
    }
    return KILN_STATUS_OK;
}

/// The numbers go to the device at once: then they are an input like any other.
static kiln_status new_texts(kiln_onnx_session *session, const kiln_onnx_texts *given,
                             kilni_onnx_ref *out_value, kiln_error *err)
{
    kiln_tensor *ignored = NULL;
    kiln_status status = kilni_onnx_input_new(session, out_value, err);
    if (status == KILN_STATUS_OK) {
        status = set_lengths(*out_value, KILN_DTYPE_I32, given->rank, given->dims, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_texts_fill(session, *out_value, given->texts, /*kept=*/false, err);
    }
    return status == KILN_STATUS_OK
               ? kilni_onnx_to_device(session->device, *out_value, &ignored, err)
               : status;
}

static bool holds_texts(const kiln_onnx_texts *texts)
{
    bool some = true;
    for (uint32_t i = 0; i < texts->rank; i++) {
        some = some && texts->dims[i] != 0;
    }
    return some;
}

kiln_status kilni_onnx_bind_texts(kiln_onnx_session *session, const kiln_onnx_value_info *info,
                                  const kiln_onnx_value *given, kilni_onnx_ref *out_value,
                                  kiln_error *err)
{
    const kiln_onnx_texts *texts = given->host;
    bool takes = info->kind == KILN_ONNX_KIND_TENSOR || info->kind == KILN_ONNX_KIND_OPTIONAL;
    if (!takes || info->onnx_type != KILNI_ONNX_TYPE_STRING) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is of strings, the model takes %s",
                         info->name, info->type_name);
    }
    if (texts == NULL || texts->rank > KILN_MAX_RANK ||
        (texts->texts == NULL && holds_texts(texts))) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' has no strings, or rank above %d",
                         info->name, KILN_MAX_RANK);
    }
    kiln_status status = kilni_onnx_check_shape(info, texts->rank, texts->dims, err);
    if (status == KILN_STATUS_OK) {
        status = new_texts(session, texts, out_value, err);
    }
    return status == KILN_STATUS_OK ? status : kiln_error_context(err, "input '%s'", info->name);
}

static kiln_status new_host_copy(kiln_onnx_session *session, kiln_dtype dtype, const void *data,
                                 const int64_t dims[2], uint32_t rank, kilni_onnx_ref *out_value,
                                 kiln_error *err)
{
    kiln_status status = kilni_onnx_input_new(session, out_value, err);
    if (status == KILN_STATUS_OK) {
        status = set_lengths(*out_value, dtype, rank, dims, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t bytes = (size_t)kiln_desc_bytes(&(*out_value)->desc);
    (*out_value)->owned = kiln_alloc(&session->env, bytes + 1);
    (*out_value)->host = (*out_value)->owned;
    if ((*out_value)->owned == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    }
    if (bytes > 0) {
        memcpy((*out_value)->owned, data, bytes);
    }
    return KILN_STATUS_OK;
}

static kiln_status new_keys(kiln_onnx_session *session, const kiln_onnx_maps *maps,
                            kilni_onnx_ref *out_value, kiln_error *err)
{
    const int64_t dims[] = {(int64_t)maps->count, 0};
    if (maps->texts == NULL) {
        return new_host_copy(session, KILN_DTYPE_I64, maps->ints, dims, 1, out_value, err);
    }
    kiln_status status = kilni_onnx_input_new(session, out_value, err);
    if (status == KILN_STATUS_OK) {
        status = set_lengths(*out_value, KILN_DTYPE_I32, 1, dims, err);
    }
    return status == KILN_STATUS_OK
               ? kilni_onnx_texts_fill(session, *out_value, maps->texts, /*kept=*/false, err)
               : status;
}

kiln_status kilni_onnx_bind_maps(kiln_onnx_session *session, const kiln_onnx_value_info *info,
                                 const kiln_onnx_value *given, kilni_onnx_ref *out_value,
                                 kiln_error *err)
{
    const kiln_onnx_maps *maps = given->host;
    if (info->kind != KILN_ONNX_KIND_MAP && info->kind != KILN_ONNX_KIND_SEQUENCE) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is a map, the model takes no such",
                         info->name);
    }
    if (maps == NULL || (maps->count > 0 && maps->texts == NULL && maps->ints == NULL) ||
        (maps->rows * maps->count > 0 && maps->values == NULL) || maps->dtype != info->dtype ||
        (info->kind == KILN_ONNX_KIND_MAP && maps->rows != 1)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "input '%s' is not one map with keys and values of %s", info->name,
                         info->type_name);
    }
    const int64_t dims[] = {(int64_t)maps->rows, (int64_t)maps->count};
    kiln_status status = kilni_onnx_input_new(session, out_value, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_onnx_ref value = *out_value;
    value->form = KILNI_ONNX_MAPS;
    value->items = kiln_alloc_array(&session->env, 2, sizeof(*value->items));
    if (value->items == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a map");
    }
    value->n_items = 2;
    status = new_keys(session, maps, &value->items[0], err);
    return status == KILN_STATUS_OK
               ? new_host_copy(session, maps->dtype, maps->values, dims, 2, &value->items[1], err)
               : status;
}

// ---- outputs ----

/// Contents of a value, in memory that is the caller's.
static kiln_status copy_contents(const kiln_onnx_session *session, kilni_onnx_ref value, void *out,
                                 kiln_error *err)
{
    size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
    kiln_tensor *tensor = NULL;
    if (bytes == 0) {
        return KILN_STATUS_OK;
    }
    if (value->host != NULL) {
        memcpy(out, value->host, bytes);
        return KILN_STATUS_OK;
    }
    kiln_status status = kilni_onnx_to_device(session->device, value, &tensor, err);
    return status == KILN_STATUS_OK ? kiln_read(tensor, out, bytes, err) : status;
}

/// Bytes of the texts of numbers, and the texts themselves where there is room for them.
static size_t place_texts(const kiln_onnx_session *session, const int32_t *numbers, size_t count,
                          const char **out_texts, char *room)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = kilni_onnx_text_at(session, numbers[i]);
        size_t length = strlen(text) + 1;
        if (out_texts != NULL) {
            memcpy(room + bytes, text, length);
            out_texts[i] = room + bytes;
        }
        bytes += length;
    }
    return bytes;
}

/// A struct of `head` bytes, then the list of the texts, then they.
static kiln_status copy_texts(kiln_onnx_session *session, kilni_onnx_ref value, size_t head,
                              void **out_block, const char *const **out_texts, kiln_error *err)
{
    size_t count = (size_t)kiln_desc_count(&value->desc);
    int32_t *numbers = kiln_alloc_array(&session->env, count + 1, sizeof(*numbers));
    kiln_status status =
        numbers == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu strings", count)
                        : copy_contents(session, value, numbers, err);
    if (status == KILN_STATUS_OK) {
        size_t lists = head + count * sizeof(char *);
        size_t bytes = place_texts(session, numbers, count, NULL, NULL);
        *out_block = kiln_alloc(&session->env, lists + bytes + 1);
        if (*out_block == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu strings", count);
        } else {
            const char **texts = (const char **)(void *)((char *)*out_block + head);
            (void)place_texts(session, numbers, count, texts, (char *)*out_block + lists);
            *out_texts = texts;
        }
    }
    kiln_free(&session->env, numbers);
    return status;
}

kiln_status kilni_onnx_give_texts(kiln_onnx_session *session, kilni_onnx_ref value,
                                  kiln_onnx_value *out, kiln_error *err)
{
    void *block = NULL;
    const char *const *texts = NULL;
    kiln_status status = copy_texts(session, value, sizeof(kiln_onnx_texts), &block, &texts, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_onnx_texts *made = block;
    *made = (kiln_onnx_texts){
        .struct_size = (uint32_t)sizeof(*made), .rank = value->desc.rank, .texts = texts};
    memcpy(made->dims, value->desc.dims, sizeof(made->dims));
    *out = (kiln_onnx_value){.kind = KILN_ONNX_KIND_TEXTS, .host = made};
    return KILN_STATUS_OK;
}

/// The keys: texts, or numbers behind the struct.
static kiln_status give_keys(kiln_onnx_session *session, kilni_onnx_ref keys,
                             kiln_onnx_maps **out_maps, kiln_error *err)
{
    void *block = NULL;
    const char *const *texts = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (kilni_onnx_is_text(keys)) {
        status = copy_texts(session, keys, sizeof(kiln_onnx_maps), &block, &texts, err);
    } else {
        block = kiln_alloc(&session->env,
                           sizeof(kiln_onnx_maps) + (size_t)kiln_desc_bytes(&keys->desc));
        status = block == NULL
                     ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the keys of a map")
                     : copy_contents(session, keys, (char *)block + sizeof(kiln_onnx_maps), err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_free(&session->env, block);
        return status;
    }
    *out_maps = block;
    **out_maps = (kiln_onnx_maps){.struct_size = (uint32_t)sizeof(kiln_onnx_maps), .texts = texts};
    (*out_maps)->ints = texts != NULL ? NULL : (const int64_t *)(void *)(*out_maps + 1);
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_give_maps(kiln_onnx_session *session, kilni_onnx_ref value,
                                 kiln_onnx_value *out, kiln_error *err)
{
    kilni_onnx_ref table = value->items[1];
    kiln_onnx_maps *maps = NULL;
    kiln_status status = give_keys(session, value->items[0], &maps, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    void *values = kiln_alloc(&session->env, (size_t)kiln_desc_bytes(&table->desc) + 1);
    status = values == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the values of maps")
                            : copy_contents(session, table, values, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(&session->env, values);
        kiln_free(&session->env, maps);
        return status;
    }
    maps->dtype = table->desc.dtype;
    maps->rows = (size_t)table->desc.dims[0];
    maps->count = (size_t)table->desc.dims[1];
    maps->values = values;
    *out = (kiln_onnx_value){.kind = KILN_ONNX_KIND_MAP, .host = maps};
    return KILN_STATUS_OK;
}

void kilni_onnx_free_host(const kiln_env *env, kiln_onnx_value *value)
{
    if (value->kind == KILN_ONNX_KIND_MAP && value->host != NULL) {
        const kiln_onnx_maps *maps = value->host;
        kiln_free(env, (void *)maps->values);
    }
    if (value->kind == KILN_ONNX_KIND_MAP || value->kind == KILN_ONNX_KIND_TEXTS) {
        kiln_free(env, (void *)value->host);
        value->host = NULL;
    }
}
