// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REMOTE_EVENTS_H
#define KILN_REMOTE_EVENTS_H

/// What a server has to tell while it serves: sessions, calls, refusals, and who it was. A program
/// takes them by kiln_rpc_server_options.event, on any thread, possibly from several at once, and
/// returns at once. It cannot fail, and it owns nothing of what it is shown.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Texts live for the call; one that is not known is "".
typedef struct kiln_rpc_event {
    uint32_t struct_size;
    uint32_t code; ///< kiln_status of its end
    const char *kind; ///< "session" (begun), "resume", "pause", "session-end", "call", "refused"
    const char *identity; ///< name of a token or of a certificate, or "anonymous"
    const char *peer; ///< where the call comes from
    const char *method; ///< of gRPC, or a path of HTTP
    const char *model;
    const char *client; ///< what it calls itself
    const char *trace; ///< W3C traceparent
    const char *message; ///< why it failed
    uint64_t session; ///< 0: none
    uint64_t duration_ns;
    uint64_t operations; ///< of a session
} kiln_rpc_event;

typedef void (*kiln_rpc_event_fn)(const kiln_rpc_event *event, void *user);

#ifdef __cplusplus
}
#endif
#endif
