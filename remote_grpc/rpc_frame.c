// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames to bytes and back, with nanopb. The graph and the data of a frame are not decoded here:
// they stay where they are in the message, bounded by it.

#include "remote_internal.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

typedef struct span {
    const void *bytes;
    size_t length;
    const char *message; ///< while decoding: what it has to lie in
    size_t message_length;
} span;

static bool write_span(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const span *source = *arg;
    if (source->length == 0) {
        return true;
    }
    return pb_encode_tag_for_field(stream, field) &&
           pb_encode_string(stream, source->bytes, source->length);
}

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

kiln_status kilni_rpc_frame_encode(const kiln_env *env, kilni_rpc_frame *frame,
                                   kiln_blob *out_message, kiln_error *err)
{
    span graph = {.bytes = frame->graph, .length = frame->graph_length};
    span data = {.bytes = frame->data, .length = frame->data_length};
    size_t length = 0;
    frame->body.graph.funcs.encode = write_span;
    frame->body.graph.arg = &graph;
    frame->body.data.funcs.encode = write_span;
    frame->body.data.arg = &data;
    if (!pb_get_encoded_size(&length, kiln_v1_Frame_fields, &frame->body)) {
        return kiln_fail(err, INTERNAL, "a frame does not fit its schema");
    }
    void *bytes = kiln_alloc(env, length > 0 ? length : 1);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", length);
    }
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, length);
    if (!pb_encode(&stream, kiln_v1_Frame_fields, &frame->body)) {
        kiln_free(env, bytes);
        return kiln_fail(err, INTERNAL, "encoding a frame: %s", PB_GET_ERROR(&stream));
    }
    *out_message = (kiln_blob){.data = bytes, .length = length};
    return KILN_STATUS_OK;
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
        return kiln_fail(err, INVALID_ARGUMENT, "a damaged message: %s", PB_GET_ERROR(&stream));
    }
    out_frame->graph = graph.bytes;
    out_frame->graph_length = graph.length;
    out_frame->data = data.bytes;
    out_frame->data_length = data.length;
    return KILN_STATUS_OK;
}
