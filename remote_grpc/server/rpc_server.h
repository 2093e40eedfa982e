// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SERVER_H
#define KILN_RPC_SERVER_H

/// A server's state, shared by rpc_server.c, which runs it, and rpc_options.c, which sets it up.

#include "rpc_desk.h"
#include "rpc_listener.h"
#include "rpc_session.h"

#include <pthread.h>

enum { KILNI_RPC_DEVICES = 64, KILNI_RPC_ADDRESSES = 16, KILNI_RPC_PEERS = 64 };

/// Files of a server's options.
enum {
    KILNI_RPC_FILE_CERTIFICATE,
    KILNI_RPC_FILE_KEY,
    KILNI_RPC_FILE_CLIENT_CA,
    KILNI_RPC_FILE_TOKENS,
    KILNI_RPC_FILES
};

typedef struct kilni_rpc_worker kilni_rpc_worker;

struct kiln_rpc_server {
    const kiln_env *env;
    kiln_device *devices[KILNI_RPC_DEVICES]; ///< held
    kilni_rpc_session_options session;
    atomic_ullong raw_bytes; ///< that sessions hold and no operation has used
    const kiln_models *models; ///< borrowed; NULL: none
    uint64_t max_request_bytes; ///< of a call to them
    uint32_t max_sessions;
    // Who listens where, as whom, and dials whom.
    char *listen[KILNI_RPC_ADDRESSES];
    char *names[KILNI_RPC_ADDRESSES]; ///< as clients open them
    uint32_t n_listen;
    kilni_rpc_identity identity; ///< towards clients
    kilni_rpc_identity self; ///< towards other servers
    kilni_rpc_signer *signer; ///< of what it fetches from them
    char *tokens; ///< that clients show, one a line; renewed under the lock
    char *files[KILNI_RPC_FILES]; ///< where identity and tokens come from
    uint64_t files_seen; ///< their times and sizes
    char *advertise;
    char *allowed[KILNI_RPC_PEERS];
    const char *own[KILNI_RPC_ADDRESSES + 1];
    kilni_rpc_peers peers;
    // What runs.
    kilni_rpc_listener *listener;
    kilni_rpc_desk *desks[KILNI_RPC_ADDRESSES]; ///< of socket files
    pthread_t acceptor;
    pthread_t housekeeper;
    kilni_rpc_worker *workers; ///< the acceptor's, and after its end the destroyer's
    atomic_int health;
    atomic_uint model_calls; ///< that are being answered
    atomic_bool draining;
    atomic_bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kilni_rpc_session *sessions;
    uint32_t n_sessions;
    uint32_t resumed;
    uint64_t opened;
};

/// Copies and checks the options. Errors: as kiln_rpc_server_create. `fini` also after a failure.
kiln_status kilni_rpc_server_settings(kiln_rpc_server *server,
                                      const kiln_rpc_server_options *options, kiln_error *err);
void kilni_rpc_server_settings_fini(kiln_rpc_server *server);

/// Reads certificates and tokens again when their files have changed. What cannot be read is
/// logged, and what was there stays.
void kilni_rpc_server_renew(kiln_rpc_server *server);

/// Names the addresses after the ports that were bound. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_server_name(kiln_rpc_server *server, const int *ports, kiln_error *err);

#endif
