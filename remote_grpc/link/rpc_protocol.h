// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_PROTOCOL_H
#define KILN_RPC_PROTOCOL_H

/// The numbers and names of the protocol that both sides keep to. docs/wire.md says what they mean.

enum {
    KILNI_RPC_VERSION = 1,
    KILNI_RPC_PORT = 3000, ///< where an address names none
    KILNI_RPC_CHUNK = 1 << 20, ///< bytes of data in one frame
    KILNI_RPC_MAX_MESSAGE = 3 << 20, ///< bytes of a whole message
    KILNI_RPC_BINDINGS = 128, ///< as in kiln.options
    KILNI_RPC_BATCH = 128, ///< operations sent together
    KILNI_RPC_TOKEN = 32, ///< bytes of a session's token and of a transfer's secret
    KILNI_RPC_WINDOW_BYTES = 32 << 20, ///< sent without an ack
    KILNI_RPC_WINDOW_FRAMES = 1024,
    KILNI_RPC_UNTAKEN_BYTES = 64 << 20, ///< of answers without an ack, when a frame is taken
    KILNI_RPC_TELL_BYTES = 512 << 10, ///< that arrive are acknowledged at once
    KILNI_RPC_OFFER_BYTES = 1 << 10, ///< least of a constant, or a graph, that is worth an offer
    KILNI_RPC_GREETING_MS = 5000 ///< for connecting, and for Hello and Welcome
};

#define KILNI_RPC_SESSION "/kiln.v1.Compute/Session"
#define KILNI_RPC_INFO "/kiln.v1.Compute/Info"
#define KILNI_RPC_FETCH "/kiln.v1.Compute/Fetch"
#define KILNI_RPC_MODELS "/inference.GRPCInferenceService/RepositoryIndex"

#endif
