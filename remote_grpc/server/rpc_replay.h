// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_REPLAY_H
#define KILN_RPC_REPLAY_H

/// A known graph that runs as a whole: captured when its Runs are alike, and then run without
/// recording its operations again. Decides which graphs and which Runs that is for.

#include "ir.h"
#include "kiln.h"
#include "rpc_frame.h"
#include "rpc_protocol.h"

typedef struct kilni_rpc_replay {
    bool never; ///< each of its Runs is recorded
    uint32_t alike; ///< Runs in a row that kept the same values
    uint32_t n_kept;
    uint64_t kept[KILNI_RPC_BINDINGS]; ///< by them in buffers
    uint64_t bytes; ///< of the results of its operations
    uint64_t work; ///< that it is (rpc_pace.h)
    kiln_graph *graph; ///< NULL: it is not captured
} kilni_rpc_replay;

void kilni_rpc_replay_init(kilni_rpc_replay *self, const kiln_ir_graph *graph);
void kilni_rpc_replay_fini(kilni_rpc_replay *self);

/// Notes a Run. Whether it is to be replayed; it may have to be captured first.
bool kilni_rpc_replay_next(kilni_rpc_replay *self, const kiln_v1_Run *run);

/// Whether the Run frees this buffer, so that nothing is kept in it.
bool kilni_rpc_is_freed(const kiln_v1_Run *run, uint64_t buffer);

#endif
