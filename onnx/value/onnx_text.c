// SPDX-License-Identifier: MIT OR Apache-2.0
// Strings as values. Decides that a tensor of strings is one of numbers: each distinct text of a
// session has one, in i32, so that whatever moves elements or compares them for equality moves and
// compares strings, on the device too. A number stays what it is while the session lives; texts
// that only runs brought are forgotten between two runs when there are too many.
#include "onnx_run.h"

#include <string.h>

enum { MAX_TEXTS = 1 << 24, MAX_OF_RUNS = 1 << 20 };

// ---- the texts of a session ----

static uint32_t place_of_text(const kilni_onnx_text_list *list, const char *text, size_t length)
{
    uint32_t mask = list->table_size - 1;
    uint32_t at = (uint32_t)kiln_hash64(text, length, 0) & mask;
    while (list->table[at] != 0) {
        const char *other = list->texts[list->table[at] - 1];
        if (strncmp(other, text, length) == 0 && other[length] == '\0') {
            break;
        }
        at = (at + 1) & mask;
    }
    return at;
}

static void fill_text_table(kilni_onnx_text_list *list)
{
    memset(list->table, 0, list->table_size * sizeof(*list->table));
    for (uint32_t i = 0; i < list->count; i++) {
        list->table[place_of_text(list, list->texts[i], strlen(list->texts[i]))] = i + 1;
    }
}

static kiln_status build_text_table(const kiln_env *env, kilni_onnx_text_list *list, uint32_t size,
                                    kiln_error *err)
{
    uint32_t *table = kiln_alloc_array(env, size, sizeof(*table));
    if (table == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the texts of a session");
    }
    kiln_free(env, list->table);
    list->table = table;
    list->table_size = size;
    fill_text_table(list);
    return KILN_STATUS_OK;
}

static kiln_status make_room(const kiln_env *env, kilni_onnx_text_list *list, kiln_error *err)
{
    if (list->count < list->capacity) {
        return KILN_STATUS_OK;
    }
    uint32_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
    char **texts = kiln_alloc_array(env, capacity, sizeof(*texts));
    if (texts == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the texts of a session");
    }
    if (list->count > 0) {
        memcpy(texts, list->texts, list->count * sizeof(*texts));
    }
    kiln_free(env, list->texts);
    list->texts = texts;
    list->capacity = capacity;
    return build_text_table(env, list, capacity * 2, err);
}

/// `text` is not in the list.
static kiln_status append_text(const kiln_env *env, kilni_onnx_text_list *list, const char *text,
                               size_t length, kiln_error *err)
{
    if (list->count == MAX_TEXTS) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "more than %d different texts in a session",
                         MAX_TEXTS);
    }
    kiln_status status = make_room(env, list, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    char *copy = kiln_alloc(env, length + 1);
    if (copy == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a text of %zu bytes", length);
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    uint32_t place = place_of_text(list, text, length);
    list->texts[list->count++] = copy;
    list->table[place] = list->count;
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_text_add(kiln_onnx_session *session, const char *text, size_t length,
                                bool kept, int32_t *out_number, kiln_error *err)
{
    kilni_onnx_text_list *list = &session->texts;
    kiln_status status = KILN_STATUS_OK;
    const char *end = memchr(text, '\0', length);
    length = end != NULL ? (size_t)(end - text) : length;
    if (list->count == 0) { // 0 is the empty one: what is filled with zeros is empty
        status = append_text(&session->env, list, "", 0, err);
    }
    if (status == KILN_STATUS_OK && list->table[place_of_text(list, text, length)] == 0) {
        status = append_text(&session->env, list, text, length, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint32_t number = list->table[place_of_text(list, text, length)];
    list->n_kept = kept && number > list->n_kept ? number : list->n_kept;
    *out_number = (int32_t)number - 1;
    return KILN_STATUS_OK;
}

const char *kilni_onnx_text_at(const kiln_onnx_session *session, int32_t number)
{
    const kilni_onnx_text_list *list = &session->texts;
    return number >= 0 && (uint32_t)number < list->count ? list->texts[number] : "";
}

bool kilni_onnx_texts_are_many(const kiln_onnx_session *session)
{
    return session->texts.count - session->texts.n_kept > MAX_OF_RUNS;
}

void kilni_onnx_texts_forget(kiln_onnx_session *session)
{
    kilni_onnx_text_list *list = &session->texts;
    while (list->count > list->n_kept) {
        kiln_free(&session->env, list->texts[--list->count]);
    }
    fill_text_table(list);
}

void kilni_onnx_texts_free(kiln_onnx_session *session)
{
    kilni_onnx_text_list *list = &session->texts;
    for (uint32_t i = 0; i < list->count; i++) {
        kiln_free(&session->env, list->texts[i]);
    }
    kiln_free(&session->env, list->texts);
    kiln_free(&session->env, list->table);
    *list = (kilni_onnx_text_list){.count = 0};
}

// ---- values ----

kiln_status kilni_onnx_texts_fill(kiln_onnx_session *session, kilni_onnx_ref value,
                                  const char *const *texts, bool kept, kiln_error *err)
{
    int64_t count = kiln_desc_count(&value->desc);
    int32_t *numbers = kiln_alloc_array(&session->env, (size_t)count + 1, sizeof(*numbers));
    kiln_status status = KILN_STATUS_OK;
    if (numbers == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %lld strings", (long long)count);
    }
    value->narrow = KILNI_ONNX_TYPE_STRING;
    value->owned = numbers;
    value->host = numbers;
    for (int64_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        if (texts[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "string %lld is NULL", (long long)i);
        }
        status = kilni_onnx_text_add(session, texts[i], strlen(texts[i]), kept, &numbers[i], err);
    }
    return status;
}
