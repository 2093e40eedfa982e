// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_FRAME_H
#define KILN_RPC_FRAME_H

/// Frames of a session: encoded into parcels, decoded from messages. Data stay where they are.

#include "rpc_stream.h"

#include <kiln/v1/kiln.pb.h>

/// A frame with its two long fields apart. Decoded: they point into the message, except data that
/// came in pieces, which only kilni_rpc_frame_data reads.
typedef struct kilni_rpc_frame {
    kiln_v1_Frame body; ///< the callbacks of graph and data are set by encode and decode
    const void *graph;
    size_t graph_length;
    const void *data; ///< NULL when it is in pieces
    size_t data_length;
    kilni_rpc_hold *hold; ///< to be sent: data stays where it is until this is released
    const kilni_rpc_message *pieces; ///< arrived: where the data are
    size_t data_offset;
} kilni_rpc_frame;

/// A message of `body` and, behind it, field 15 with `data`; those of some length stay where they
/// are when there is a hold. NULL: no memory.
kilni_rpc_parcel *kilni_rpc_parcel_new(const kiln_env *env, const void *body, size_t body_length,
                                       const void *data, size_t data_length, kilni_rpc_hold *hold);

/// `*out_parcel` goes back through kilni_rpc_parcel_free; it counts in the frame's hold. Errors:
/// RESOURCE_EXHAUSTED; INTERNAL for a frame that does not fit its schema.
kiln_status kilni_rpc_frame_encode(const kiln_env *env, kilni_rpc_frame *frame,
                                   kilni_rpc_parcel **out_parcel, kiln_error *err);
void kilni_rpc_parcel_free(const kiln_env *env, kilni_rpc_parcel *parcel);

/// `*out_frame` points into `message`. Errors: INVALID_ARGUMENT.
kiln_status kilni_rpc_frame_decode(const void *message, size_t length, kilni_rpc_frame *out_frame,
                                   kiln_error *err);

/// Copies the data of a frame that arrived, `data_length` bytes.
void kilni_rpc_frame_data(const kilni_rpc_frame *frame, void *out_bytes);

/// A message cut before the data of its field 15, when that is the last one.
typedef struct kilni_rpc_parts {
    const void *head;
    size_t head_length;
    size_t data_offset; ///< the message's length: all of it is head
} kilni_rpc_parts;

/// `*out_flat`, when set, goes back through kiln_free. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_split(const kiln_env *env, const kilni_rpc_message *message, char **out_flat,
                            kilni_rpc_parts *out_parts, kiln_error *err);

/// A frame that arrived, with what it points into. Zeroed: none.
typedef struct kilni_rpc_inbox {
    kilni_rpc_message message;
    char *flat; ///< the head, when it came in pieces
    kilni_rpc_frame frame;
} kilni_rpc_inbox;

/// Decodes `inbox->message`. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_inbox_decode(const kiln_env *env, kilni_rpc_inbox *inbox, kiln_error *err);
void kilni_rpc_inbox_clear(const kiln_env *env, kilni_rpc_inbox *inbox);

#endif
