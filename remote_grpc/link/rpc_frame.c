// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames to bytes and back, with nanopb. The graph and the data of a frame are not decoded here:
// they stay where they are in the message, bounded by it. Data that arrive in pieces are not even
// gathered, when they are the last field, as every writer of protobuf puts them.

#include "rpc_frame.h"

#include "rpc_protocol.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

enum {
    BODY_BYTES = 16384, ///< more than any body without graph and data takes
    INLINE_DATA = 65536, ///< data of this length are copied rather than held
    MAX_FIELDS = 64, ///< of a message in pieces; with more it is gathered
    DATA_TAG = kiln_v1_Frame_data_tag << 3 | 2,
    TAG_BYTES = 12 ///< a tag and a length
};

typedef struct span {
    const void *bytes;
    size_t length;
    const char *message; ///< while decoding: what it has to lie in
    size_t message_length;
} span;

// ---- encoding ----

static bool write_span(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const span *source = *arg;
    if (source->length == 0) {
        return true;
    }
    return pb_encode_tag_for_field(stream, field) &&
           pb_encode_string(stream, source->bytes, source->length);
}

static size_t write_data_head(char *out, uint64_t length)
{
    size_t n = 0;
    out[n++] = (char)DATA_TAG;
    for (; length >= 128; length >>= 7) {
        out[n++] = (char)(length | 128);
    }
    out[n++] = (char)length;
    return n;
}

kilni_rpc_parcel *kilni_rpc_parcel_new(const kiln_env *env, const void *body, size_t body_length,
                                       const void *data, size_t data_length, kilni_rpc_hold *hold)
{
    bool held = hold != NULL && data_length > INLINE_DATA;
    size_t room = body_length + TAG_BYTES + (held ? 0 : data_length);
    kilni_rpc_parcel *parcel = kiln_alloc(env, sizeof(*parcel) + room);
    if (parcel == NULL) {
        return NULL;
    }
    memcpy(parcel->head, body, body_length);
    parcel->head_length = body_length;
    if (data_length > 0) {
        parcel->head_length += write_data_head(parcel->head + body_length, data_length);
    }
    if (held) {
        parcel->hold = hold;
        parcel->data = data;
        parcel->data_length = data_length;
        atomic_fetch_add(&hold->refs, 1);
    } else if (data_length > 0) {
        memcpy(parcel->head + parcel->head_length, data, data_length);
        parcel->head_length += data_length;
    }
    return parcel;
}

kiln_status kilni_rpc_frame_encode(const kiln_env *env, kilni_rpc_frame *frame,
                                   kilni_rpc_parcel **out_parcel, kiln_error *err)
{
    char small[BODY_BYTES];
    span graph = {.bytes = frame->graph, .length = frame->graph_length};
    char *body = small;
    if (frame->graph_length > 0) {
        body = kiln_alloc(env, BODY_BYTES + frame->graph_length);
        if (body == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph of %zu bytes",
                             frame->graph_length);
        }
    }
    frame->body.graph.funcs.encode = write_span;
    frame->body.graph.arg = &graph;
    frame->body.data.funcs.encode = NULL;
    pb_ostream_t stream =
        pb_ostream_from_buffer((pb_byte_t *)body, BODY_BYTES + frame->graph_length);
    kiln_status status = KILN_STATUS_OK;
    if (!pb_encode(&stream, kiln_v1_Frame_fields, &frame->body)) {
        status = kiln_fail(err, INTERNAL, "encoding a frame: %s", PB_GET_ERROR(&stream));
    }
    kilni_rpc_parcel *parcel =
        status == KILN_STATUS_OK
            ? kilni_rpc_parcel_new(env, body, stream.bytes_written, frame->data, frame->data_length,
                                   frame->hold)
            : NULL;
    if (status == KILN_STATUS_OK && parcel == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes",
                           stream.bytes_written + frame->data_length);
    }
    if (body != small) {
        kiln_free(env, body);
    }
    *out_parcel = parcel;
    return status;
}

void kilni_rpc_parcel_free(const kiln_env *env, kilni_rpc_parcel *parcel)
{
    if (parcel != NULL && parcel->hold != NULL) {
        atomic_fetch_sub(&parcel->hold->refs, 1);
    }
    kiln_free(env, parcel);
}

// ---- decoding ----

/// The stream of a decode runs over memory, so its state is the position in the message; but a
/// number in place of bytes comes in a buffer of nanopb's own, which is gone afterwards.
static bool point_span(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    span *target = *arg;
    uintptr_t at = (uintptr_t)stream->state;
    uintptr_t begin = (uintptr_t)target->message;
    (void)field;
    if (at < begin || at - begin > target->message_length ||
        stream->bytes_left > target->message_length - (at - begin)) {
        PB_RETURN_ERROR(stream, "a number where bytes belong");
    }
    target->bytes = stream->state;
    target->length = stream->bytes_left;
    return pb_read(stream, NULL, stream->bytes_left);
}

kiln_status kilni_rpc_frame_decode(const void *message, size_t length, kilni_rpc_frame *out_frame,
                                   kiln_error *err)
{
    span graph = {.message = message, .message_length = length};
    span data = {.message = message, .message_length = length};
    memset(out_frame, 0, sizeof(*out_frame));
    out_frame->body.graph.funcs.decode = point_span;
    out_frame->body.graph.arg = &graph;
    out_frame->body.data.funcs.decode = point_span;
    out_frame->body.data.arg = &data;
    pb_istream_t stream = pb_istream_from_buffer(message, length);
    if (!pb_decode(&stream, kiln_v1_Frame_fields, &out_frame->body)) {
        const char *why = PB_GET_ERROR(&stream);
        if (strcmp(why, "array overflow") == 0 || strcmp(why, "string overflow") == 0 ||
            strcmp(why, "bytes overflow") == 0) {
            return kiln_fail(err, RESOURCE_EXHAUSTED,
                             "a frame with more than it may have: lists hold at most %d rows, and "
                             "texts are bounded (%s)",
                             KILNI_RPC_BINDINGS, why);
        }
        return kiln_fail(err, INVALID_ARGUMENT, "a damaged message: %s", why);
    }
    out_frame->graph = graph.bytes;
    out_frame->graph_length = graph.length;
    out_frame->data = data.bytes;
    out_frame->data_length = data.length;
    return KILN_STATUS_OK;
}

void kilni_rpc_frame_data(const kilni_rpc_frame *frame, void *out_bytes)
{
    if (frame->data_length == 0) {
        return;
    }
    if (frame->data != NULL) {
        kiln_copy_wide(out_bytes, frame->data, frame->data_length);
    } else {
        kilni_rpc_message_copy(frame->pieces, frame->data_offset, frame->data_length, out_bytes);
    }
}

// ---- messages in pieces ----

/// Reads a number of at most 10 bytes; gives how many, 0 when there is none.
static size_t read_varint(const unsigned char *bytes, size_t length, uint64_t *out_value)
{
    *out_value = 0;
    for (size_t i = 0; i < length && i < 10; i++) {
        *out_value |= (uint64_t)(bytes[i] & 127) << (7 * i);
        if (bytes[i] < 128) {
            return i + 1;
        }
    }
    return 0;
}

/// The length of the field at `at`, its tag and length bytes in `*out_head`; 0: it is damaged or
/// runs past the end.
static size_t measure_field(const kilni_rpc_message *message, size_t at, uint64_t *out_tag,
                            size_t *out_head)
{
    unsigned char bytes[20] = {0};
    size_t left = message->length - at;
    size_t n = left < sizeof(bytes) ? left : sizeof(bytes);
    uint64_t value = 0;
    kilni_rpc_message_copy(message, at, n, bytes);
    size_t tag = read_varint(bytes, n, out_tag);
    size_t number = tag > 0 ? read_varint(bytes + tag, n - tag, &value) : 0;
    *out_head = tag;
    if (tag == 0) {
        return 0;
    }
    switch (*out_tag & 7) {
    case 0:
        return number > 0 ? tag + number : 0;
    case 1:
        return left >= tag + 8 ? tag + 8 : 0;
    case 2:
        *out_head = tag + number;
        return number > 0 && value <= left - tag - number ? tag + number + (size_t)value : 0;
    case 5:
        return left >= tag + 4 ? tag + 4 : 0;
    default:
        return 0;
    }
}

/// Whether the message ends with its data; then where they begin, and where their field does.
static bool ends_with_data(const kilni_rpc_message *message, size_t *out_field, size_t *out_data)
{
    size_t at = 0;
    for (int i = 0; i < MAX_FIELDS && at < message->length; i++) {
        uint64_t tag = 0;
        size_t head = 0;
        size_t length = measure_field(message, at, &tag, &head);
        if (length == 0) {
            return false;
        }
        if (tag == DATA_TAG && at + length == message->length) {
            *out_field = at;
            *out_data = at + head;
            return true;
        }
        at += length;
    }
    return false;
}

kiln_status kilni_rpc_split(const kiln_env *env, const kilni_rpc_message *message, char **out_flat,
                            kilni_rpc_parts *out_parts, kiln_error *err)
{
    size_t head_length = message->length;
    size_t data_at = message->length;
    const void *head = kilni_rpc_message_peek(message, 0, message->length);
    if (head == NULL && ends_with_data(message, &head_length, &data_at)) {
        head = kilni_rpc_message_peek(message, 0, head_length);
    }
    if (head == NULL) {
        *out_flat = kiln_alloc(env, head_length);
        if (*out_flat == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes",
                             head_length);
        }
        kilni_rpc_message_copy(message, 0, head_length, *out_flat);
        head = *out_flat;
    }
    *out_parts =
        (kilni_rpc_parts){.head = head, .head_length = head_length, .data_offset = data_at};
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_inbox_decode(const kiln_env *env, kilni_rpc_inbox *inbox, kiln_error *err)
{
    const kilni_rpc_message *message = &inbox->message;
    kilni_rpc_parts parts;
    if (message->length > KILNI_RPC_MAX_MESSAGE) { // a server of models receives longer ones
        return kiln_fail(err, RESOURCE_EXHAUSTED, "a message of %zu bytes, the most is %d",
                         message->length, KILNI_RPC_MAX_MESSAGE);
    }
    kiln_status status = kilni_rpc_split(env, message, &inbox->flat, &parts, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_frame_decode(parts.head, parts.head_length, &inbox->frame, err);
    }
    if (status == KILN_STATUS_OK && parts.data_offset < message->length) {
        inbox->frame.pieces = message;
        inbox->frame.data_offset = parts.data_offset;
        inbox->frame.data_length = message->length - parts.data_offset;
        inbox->frame.data =
            kilni_rpc_message_peek(message, parts.data_offset, message->length - parts.data_offset);
    }
    return status;
}

void kilni_rpc_inbox_clear(const kiln_env *env, kilni_rpc_inbox *inbox)
{
    kiln_free(env, inbox->flat);
    inbox->flat = NULL;
    kilni_rpc_message_free(&inbox->message);
}
