// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_LINK_H
#define KILN_RPC_LINK_H

/// Numbered frames over streams that may break: what was sent is kept until the other side has it.

#include "rpc_frame.h"

typedef struct kilni_rpc_link {
    const kiln_env *env;
    kilni_rpc_stream *stream; ///< NULL: no connection
    bool resumable; ///< sent frames are kept until they are acknowledged
    bool cut; ///< the stream broke
    kiln_error why; ///< it was cut
    uint64_t sent; ///< frames numbered so far, from 1
    uint64_t acked; ///< of them: arrived
    uint64_t received; ///< frames of the other side
    uint64_t told; ///< of them: acknowledged
    uint64_t untold_bytes;
    uint64_t kept_bytes;
    kilni_rpc_parcel *kept; ///< in order
    kilni_rpc_parcel **kept_end;
} kilni_rpc_link;

void kilni_rpc_link_init(kilni_rpc_link *link, const kiln_env *env);

/// Lets go of what is kept and of the stream, which is closed with `status`.
void kilni_rpc_link_fini(kilni_rpc_link *link, const kiln_error *status);

/// Goes on over `stream`, which it takes, also on failure: frames above `arrived` are sent again.
/// Errors: INVALID_ARGUMENT for a number that cannot be; a broken stream shows as `cut`.
kiln_status kilni_rpc_link_attach(kilni_rpc_link *link, kilni_rpc_stream *stream, uint64_t arrived,
                                  kiln_error *err);

/// Closes the stream; what is kept stays.
void kilni_rpc_link_detach(kilni_rpc_link *link, const kiln_error *status);

/// Numbers the frame, keeps it when resumable, and passes it on. Errors: RESOURCE_EXHAUSTED,
/// INTERNAL; of a link that does not resume also a broken stream.
kiln_status kilni_rpc_link_send(kilni_rpc_link *link, kilni_rpc_frame *frame, kiln_error *err);

/// The next frame, which may be an acknowledgement and no more. Errors: as kilni_rpc_receive; with
/// `cut` set the connection is to blame, otherwise the other side.
kiln_status kilni_rpc_link_take(kilni_rpc_link *link, int64_t timeout_ms,
                                kilni_rpc_inbox *out_inbox, bool *out_end, bool *out_only_ack,
                                kiln_error *err);

/// The next frame that is more than an acknowledgement. Errors: as take.
kiln_status kilni_rpc_link_receive(kilni_rpc_link *link, int64_t timeout_ms,
                                   kilni_rpc_inbox *out_inbox, bool *out_end, kiln_error *err);

/// Sends or receives one message beside the numbering: Hello and Welcome.
kiln_status kilni_rpc_greet(const kiln_env *env, kilni_rpc_stream *stream, kilni_rpc_frame *frame,
                            kiln_error *err);
kiln_status kilni_rpc_greeted(const kiln_env *env, kilni_rpc_stream *stream,
                              kilni_rpc_inbox *out_inbox, kiln_error *err);

#endif
