// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_RESETS_H
#define KILN_RPC_RESETS_H

/// Connections whose calls are taken back before they are answered, faster than anybody needs to
/// (CVE-2023-44487). gRPC's core lets them be, so the connection is cut here. By one thread.

#include "base.h"

enum { KILNI_RPC_PEERS_NOTED = 1024, KILNI_RPC_PEER_TEXT = 80 };

typedef enum kilni_rpc_stage { ///< of a call
    KILNI_RPC_STAGE_CAME,
    KILNI_RPC_STAGE_BEGUN, ///< somebody waits for it
    KILNI_RPC_STAGE_GONE ///< nobody did any more
} kilni_rpc_stage;

typedef struct kilni_rpc_noted_peer {
    char peer[KILNI_RPC_PEER_TEXT];
    uint32_t came; ///< and neither begun nor gone: gRPC is busy with what follows them
    double score; ///< those that were gone, less those that were not, and a few each second
    uint64_t at_ns;
    bool cut;
} kilni_rpc_noted_peer;

typedef struct kilni_rpc_resets { ///< zeroed: none
    kilni_rpc_noted_peer peers[KILNI_RPC_PEERS_NOTED];
} kilni_rpc_resets;

typedef enum kilni_rpc_verdict {
    KILNI_RPC_VERDICT_FINE,
    KILNI_RPC_VERDICT_CUT, ///< the connection was cut now
    KILNI_RPC_VERDICT_LATE ///< it was cut before
} kilni_rpc_verdict;

/// Notes a call of `peer`, in gRPC's words ("ipv4:127.0.0.1:4711"), when it comes and once more
/// later, when it was not late when it came.
kilni_rpc_verdict kilni_rpc_resets_note(kilni_rpc_resets *resets, const char *peer,
                                        kilni_rpc_stage stage);

#endif
