// SPDX-License-Identifier: MIT OR Apache-2.0
// Primitive callbacks of the decoder: texts, spans of bytes, lists of numbers, and the bookkeeping
// that makes hostile files harmless (a budget for memory, a limit of depth). Which messages there
// are is decided in onnx_decode_graph.c, _tensor.c and _type.c.
#include "onnx_decode.h"

#include <string.h>

kiln_status kilni_onnx_alloc(kiln_onnx_model *model, size_t bytes, void **out_memory,
                             kiln_error *err)
{
    size_t used = model->arena.used_bytes;
    if (used > model->budget_bytes || bytes > model->budget_bytes - used) {
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "model needs more than %zu bytes for a file of %zu bytes",
                         model->budget_bytes, model->file.bytes);
    }
    *out_memory = kiln_arena_alloc(&model->arena, bytes == 0 ? 1 : bytes);
    if (*out_memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes of the model", bytes);
    }
    return KILN_STATUS_OK;
}

bool kilni_onnx_refuse(kilni_onnx_reader *reader, kiln_status status)
{
    if (reader->status == KILN_STATUS_OK) {
        reader->status = status;
    }
    return false;
}

void kilni_onnx_bind(pb_callback_t *callback, kilni_onnx_slot *slot, kilni_onnx_decode_fn fn,
                     kilni_onnx_reader *reader, void *target)
{
    *slot = (kilni_onnx_slot){.reader = reader, .target = target};
    callback->funcs.decode = fn;
    callback->arg = slot;
}

void *kilni_onnx_push(kilni_onnx_reader *reader, kilni_onnx_list *list, size_t bytes_each)
{
    if (list->count == KILNI_ONNX_MAX_LIST) {
        kilni_onnx_refuse(reader, kiln_fail(reader->err, RESOURCE_EXHAUSTED,
                                            "list of more than %d entries", KILNI_ONNX_MAX_LIST));
        return NULL;
    }
    // The capacity is the next power of two: full when the count is one.
    if ((list->count & (list->count - 1)) == 0) {
        size_t capacity = list->count == 0 ? 1 : (size_t)list->count * 2;
        void *items = NULL;
        kiln_status status =
            kilni_onnx_alloc(reader->model, capacity * bytes_each, &items, reader->err);
        if (status != KILN_STATUS_OK || items == NULL) {
            kilni_onnx_refuse(reader, status);
            return NULL;
        }
        if (list->count > 0) {
            memcpy(items, list->items, list->count * bytes_each);
        }
        list->items = items;
    }
    return (char *)list->items + (size_t)list->count++ * bytes_each;
}

kiln_status kilni_onnx_stream_failure(const kilni_onnx_reader *reader, const pb_istream_t *stream)
{
    if (reader->status != KILN_STATUS_OK) {
        return reader->status;
    }
    return kiln_fail(reader->err, DATA_LOSS,
                     "not an ONNX file, or not a whole one: %s, %zu bytes before its end",
                     PB_GET_ERROR(stream), stream->bytes_left);
}

bool kilni_onnx_decode_message(kilni_onnx_reader *reader, pb_istream_t *stream,
                               const pb_msgdesc_t *fields, void *message)
{
    if (reader->depth >= KILNI_ONNX_MAX_DEPTH) {
        return kilni_onnx_refuse(reader,
                                 kiln_fail(reader->err, INVALID_ARGUMENT,
                                           "messages nested deeper than %d", KILNI_ONNX_MAX_DEPTH));
    }
    reader->depth++;
    bool ok = pb_decode(stream, fields, message);
    reader->depth--;
    return ok;
}

/// The rest of the stream as bytes in place. A nanopb stream over memory keeps its position in
/// `state`; but a number in place of bytes comes in a buffer of nanopb's own, which is gone
/// afterwards, so the bytes must lie in the file.
static bool take_rest(kilni_onnx_reader *reader, pb_istream_t *stream, kilni_onnx_span *out_span)
{
    uintptr_t at = (uintptr_t)stream->state;
    uintptr_t begin = (uintptr_t)reader->model->file.data;
    size_t length = reader->model->file.bytes;
    if (at < begin || at - begin > length || stream->bytes_left > length - (at - begin)) {
        return kilni_onnx_refuse(
            reader, kiln_fail(reader->err, INVALID_ARGUMENT, "a number where bytes belong"));
    }
    *out_span =
        (kilni_onnx_span){.data = stream->state, .bytes = stream->bytes_left, .present = true};
    return pb_read(stream, NULL, stream->bytes_left);
}

static bool copy_text(kilni_onnx_reader *reader, kilni_onnx_span span, const char **out_text)
{
    if (span.bytes > KILNI_ONNX_MAX_NAME || memchr(span.data, '\0', span.bytes) != NULL) {
        return kilni_onnx_refuse(
            reader, kiln_fail(reader->err, INVALID_ARGUMENT,
                              "text of %zu bytes is too long or holds a zero byte", span.bytes));
    }
    if (span.bytes == 0) {
        *out_text = "";
        return true;
    }
    void *memory = NULL;
    kiln_status status = kilni_onnx_alloc(reader->model, span.bytes + 1, &memory, reader->err);
    if (status != KILN_STATUS_OK || memory == NULL) {
        return kilni_onnx_refuse(reader, status);
    }
    memcpy(memory, span.data, span.bytes);
    *out_text = memory;
    return true;
}

bool kilni_onnx_read_text(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    kilni_onnx_span span;
    return take_rest(slot->reader, stream, &span) && copy_text(slot->reader, span, slot->target);
}

bool kilni_onnx_read_texts(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    const char **text = kilni_onnx_push(slot->reader, slot->target, sizeof(*text));
    kilni_onnx_span span;
    return text != NULL && take_rest(slot->reader, stream, &span) &&
           copy_text(slot->reader, span, text);
}

bool kilni_onnx_read_span(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    return take_rest(slot->reader, stream, slot->target);
}

bool kilni_onnx_read_ints(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    while (stream->bytes_left > 0) {
        uint64_t value = 0;
        if (!pb_decode_varint(stream, &value)) {
            return false;
        }
        int64_t *item = kilni_onnx_push(slot->reader, slot->target, sizeof(*item));
        if (item == NULL) {
            return false;
        }
        memcpy(item, &value, sizeof(value));
    }
    return true;
}

bool kilni_onnx_read_floats(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    while (stream->bytes_left > 0) {
        float value = 0;
        if (!pb_decode_fixed32(stream, &value)) {
            return false;
        }
        float *item = kilni_onnx_push(slot->reader, slot->target, sizeof(*item));
        if (item == NULL) {
            return false;
        }
        *item = value;
    }
    return true;
}

bool kilni_onnx_read_doubles(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    while (stream->bytes_left > 0) {
        double value = 0;
        if (!pb_decode_fixed64(stream, &value)) {
            return false;
        }
        double *item = kilni_onnx_push(slot->reader, slot->target, sizeof(*item));
        if (item == NULL) {
            return false;
        }
        *item = value;
    }
    return true;
}

bool kilni_onnx_count_field(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    kilni_onnx_slot *slot = *arg;
    uint32_t *count = slot->target;
    (*count)++;
    return pb_read(stream, NULL, stream->bytes_left);
}
