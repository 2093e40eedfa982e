// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_DECODE_H
#define KILN_ONNX_DECODE_H

// What the decoder's files share: the reader, lists that grow, and callbacks for texts, numbers and
// messages. Only onnx_decode*.c include it, so that nanopb stays there.

#include <pb_decode.h>

#include "onnx_model.h"

typedef struct kilni_onnx_reader {
    kiln_onnx_model *model;
    kiln_error *err;
    kiln_status status; ///< first failure of ours; OK when the bytes themselves are bad
    uint32_t depth;
} kilni_onnx_reader;

/// Grows by doubling, in the arena. `items` moves at a push: fill an element after its children are
/// read, or let no child push to the same list.
typedef struct kilni_onnx_list {
    void *items;
    uint32_t count;
} kilni_onnx_list;

/// What a callback is given: the reader and where the value goes.
typedef struct kilni_onnx_slot {
    kilni_onnx_reader *reader;
    void *target;
} kilni_onnx_slot;

typedef bool (*kilni_onnx_decode_fn)(pb_istream_t *stream, const pb_field_t *field, void **arg);

/// Points a message's callback to `fn`, with `slot` filled for it.
void kilni_onnx_bind(pb_callback_t *callback, kilni_onnx_slot *slot, kilni_onnx_decode_fn fn,
                     kilni_onnx_reader *reader, void *target);

/// Notes a failure; gives false for the callback to return.
bool kilni_onnx_refuse(kilni_onnx_reader *reader, kiln_status status);

/// A zeroed element at the end of the list; NULL after noting RESOURCE_EXHAUSTED.
void *kilni_onnx_push(kilni_onnx_reader *reader, kilni_onnx_list *list, size_t bytes_each);

/// Decodes one message, counting the depth. `what` is for the error.
bool kilni_onnx_decode_message(kilni_onnx_reader *reader, pb_istream_t *stream,
                               const pb_msgdesc_t *fields, void *message);

// Callbacks. Targets: text `const char *`; span kilni_onnx_span; the rest kilni_onnx_list.
typedef struct kilni_onnx_span {
    const uint8_t *data;
    size_t bytes;
    bool present;
} kilni_onnx_span;
bool kilni_onnx_read_text(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_read_texts(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_read_span(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_read_ints(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_read_floats(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_read_doubles(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_count_field(pb_istream_t *stream, const pb_field_t *field, void **arg);

/// onnx_decode_tensor.c and onnx_decode_type.c. Targets: kilni_onnx_list of tensors or value infos.
bool kilni_onnx_read_tensors(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_read_tensor(kilni_onnx_reader *reader, pb_istream_t *stream,
                            kilni_onnx_tensor *out_tensor);
/// Lengths into rank, dims and count, checked.
kiln_status kilni_onnx_set_dims(kilni_onnx_tensor *tensor, const kilni_onnx_list *dims,
                                kiln_error *err);
bool kilni_onnx_read_sparse_tensors(pb_istream_t *stream, const pb_field_t *field, void **arg);
bool kilni_onnx_read_sparse_tensor(kilni_onnx_reader *reader, pb_istream_t *stream,
                                   kilni_onnx_tensor *out_tensor);
/// What a failed decoding gives: the first failure of ours, or DATA_LOSS.
kiln_status kilni_onnx_stream_failure(const kilni_onnx_reader *reader, const pb_istream_t *stream);
bool kilni_onnx_read_value_infos(pb_istream_t *stream, const pb_field_t *field, void **arg);

#endif
