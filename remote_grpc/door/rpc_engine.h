// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_ENGINE_H
#define KILN_RPC_ENGINE_H

/// gRPC's server, which is started when somebody is there for it, and taken down: as long as gRPC
/// runs, clocks of its own tick. It is given connections, and gives calls.

#include "rpc_grpc.h"

#include <pthread.h>

/// How a connection speaks.
typedef enum kilni_rpc_speech {
    KILNI_RPC_SPEECH_PLAIN,
    KILNI_RPC_SPEECH_TLS,
    KILNI_RPC_SPEECHES
} kilni_rpc_speech;

typedef struct kilni_rpc_entry kilni_rpc_entry;

typedef struct kilni_rpc_engine { ///< zeroed, with these two: it rests
    const kiln_env *env;
    uint64_t max_message; ///< bytes of one that is received, when more than a session's
    grpc_server *server; ///< NULL: it rests
    grpc_completion_queue *queue;
    kilni_rpc_entry *entries[KILNI_RPC_SPEECHES]; ///< gRPC's
    atomic_bool is_over; ///< gRPC has said that nothing comes any more
    atomic_uint streams; ///< that were made for calls and are not freed
    pthread_mutex_t lock; ///< for those below
    kilni_rpc_identity identity; ///< that gRPC can use; without a certificate: no TLS
    uint64_t version; ///< of the identity
    uint64_t shown; ///< the version that gRPC has
} kilni_rpc_engine;

/// `fini` of one that rests.
void kilni_rpc_engine_init(kilni_rpc_engine *engine, const kiln_env *env, uint64_t max_message);
void kilni_rpc_engine_fini(kilni_rpc_engine *engine);

/// Those who connect from now on are shown this certificate, which is copied. Errors:
/// INVALID_ARGUMENT (gRPC cannot use it; the one before stays), RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_engine_renew(kilni_rpc_engine *engine, const kilni_rpc_identity *identity,
                                   kiln_error *err);

/// Starts one that is shown to nobody, which tells whether gRPC takes connections from here, and
/// the certificate of `identity`; NULL: without one. Errors: as of start.
kiln_status kilni_rpc_engine_try(const kiln_env *env, const kilni_rpc_identity *identity,
                                 kiln_error *err);

/// `quit` lets calls go on and takes no new ones; `stop`, after it, waits until the last call has
/// been freed, and lets go of gRPC unless `last`. Errors: INVALID_ARGUMENT (the certificate),
/// RESOURCE_EXHAUSTED (descriptors or threads), INTERNAL (a gRPC that takes no connections of
/// others).
kiln_status kilni_rpc_engine_start(kilni_rpc_engine *engine, kiln_error *err);
void kilni_rpc_engine_quit(kilni_rpc_engine *engine);
void kilni_rpc_engine_stop(kilni_rpc_engine *engine, bool last);

/// Gives gRPC a connection of a socket.
void kilni_rpc_engine_give(kilni_rpc_engine *engine, kilni_rpc_speech speech, int listener_fd,
                           int take_fd);

/// Asks for one call; false: no memory. `next` waits for any that was asked for, and gives NULL
/// when it did not come; `*out_late` true: in time.
bool kilni_rpc_engine_ask(kilni_rpc_engine *engine);
kilni_rpc_stream *kilni_rpc_engine_next(kilni_rpc_engine *engine, gpr_timespec deadline,
                                        bool *out_late);

#endif
