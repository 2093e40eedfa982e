// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SERVER_H
#define KILN_RPC_SERVER_H

/// A server's state, shared by rpc_server.c, which runs it, and rpc_options.c, which sets it up.

#include "rpc_desk.h"
#include "rpc_listener.h"
#include "rpc_session.h"

#include <pthread.h>

enum {
    KILNI_RPC_DEVICES = 64,
    KILNI_RPC_ADDRESSES = 16,
    KILNI_RPC_PEERS = 64,
    KILNI_RPC_ACCEPTORS = 4 ///< threads that wait for calls, at least
};

/// Files of a server's options.
enum {
    KILNI_RPC_FILE_CERTIFICATE,
    KILNI_RPC_FILE_KEY,
    KILNI_RPC_FILE_CLIENT_CA,
    KILNI_RPC_FILE_TOKENS,
    KILNI_RPC_FILE_ACCESS,
    KILNI_RPC_FILES
};

/// Kinds of calls; each has places of its own, so that none can keep the others out.
typedef enum kilni_rpc_kind {
    KILNI_RPC_KIND_SESSION,
    KILNI_RPC_KIND_TRUSTED, ///< Info, Fetch: whoever calls is known
    KILNI_RPC_KIND_MODEL, ///< the same, and a model answers
    KILNI_RPC_KIND_REFLECTION, ///< the same, and the call may stay open
    KILNI_RPC_KIND_OPEN, ///< anybody may call, and the answer comes at once
    KILNI_RPC_KIND_WATCH, ///< anybody may call, and the answer stays open
    KILNI_RPC_KIND_NEW, ///< of any kind, not begun yet
    KILNI_RPC_KINDS
} kilni_rpc_kind;

typedef struct kilni_rpc_worker kilni_rpc_worker;
typedef struct kilni_rpc_watch kilni_rpc_watch;

struct kiln_rpc_server {
    const kiln_env *env;
    kiln_device *devices[KILNI_RPC_DEVICES]; ///< held
    kilni_rpc_dtypes dtypes[KILNI_RPC_DEVICES];
    kilni_rpc_session_options session;
    atomic_ullong raw_bytes; ///< that sessions hold and no operation has used
    atomic_ullong operations; ///< of sessions, since the start
    const kiln_models *models; ///< borrowed; NULL: none
    uint64_t max_request_bytes; ///< of a call to them
    bool last; ///< gRPC is left running
    uint32_t max_sessions;
    // Who listens where, as whom, and dials whom.
    char *listen[KILNI_RPC_ADDRESSES];
    char *names[KILNI_RPC_ADDRESSES]; ///< as clients open them
    uint32_t n_listen;
    int fds[KILNI_RPC_ADDRESSES]; ///< borrowed
    uint32_t n_fds;
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
    // Who calls, and whose turn it is.
    kilni_rpc_parties parties;
    kilni_rpc_turns *turns[KILNI_RPC_DEVICES];
    kiln_rpc_event_fn event;
    void *event_user;
    // What runs.
    kilni_rpc_listener *listener;
    kilni_rpc_desk *desks[KILNI_RPC_ADDRESSES]; ///< of socket files
    pthread_t housekeeper;
    pthread_t keeper; ///< of sessions and memory
    kilni_rpc_worker *workers; ///< threads that wait for calls and answer them
    uint32_t accepting; ///< of these, those that wait
    uint32_t n_done; ///< those that have ended and were not joined
    uint32_t calls[KILNI_RPC_KINDS]; ///< that run
    uint64_t refused; ///< since the start
    uint64_t served; ///< calls since the start
    kilni_rpc_watch *watches; ///< of health, in the hands of the housekeeper
    atomic_int health;
    atomic_uint model_calls; ///< that are being answered
    atomic_bool draining;
    atomic_bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kilni_rpc_session *sessions;
    uint32_t n_sessions;
    bool to_trim; ///< the last session has gone
    bool to_look; ///< a watch has come
    bool to_look_all; ///< there was no place for one
    uint32_t resumed;
    uint64_t opened;
    // The keeper's own.
    uint64_t trim_after_ns;
    uint64_t trimmed_bytes; ///< that the process had in memory after it was trimmed, or less
    uint64_t in_use_bytes; ///< of malloc, when the process was trimmed, or more
};

/// Copies and checks the options. Errors: as kiln_rpc_server_create. `fini` also after a failure.
kiln_status kilni_rpc_server_settings(kiln_rpc_server *server,
                                      const kiln_rpc_server_options *options, kiln_error *err);
void kilni_rpc_server_settings_fini(kiln_rpc_server *server);

/// Reads certificates and tokens again when their files have changed. What cannot be read is
/// logged, and what was there stays.
void kilni_rpc_server_renew(kiln_rpc_server *server);

// ---- rpc_events.c ----

/// Tells the program and the log.
void kilni_rpc_tell(const kiln_rpc_server *server, const kiln_rpc_event *event);

// ---- rpc_sessions.c ----

/// Waits for a change, at most `ms`. Under the lock.
void kilni_rpc_wait_change(kiln_rpc_server *server, uint64_t ms);

/// The link to the session with this number; to NULL when there is none. Under the lock.
kilni_rpc_session **kilni_rpc_session_find(kiln_rpc_server *server, uint64_t id);

/// Serves a session's stream, and closes it or keeps the session for its client.
void kilni_rpc_serve_session(kiln_rpc_server *server, kilni_rpc_party *party,
                             kilni_rpc_stream *stream, kiln_error *out_end);

/// A session's own wait for its client (kilni_rpc_pause_fn).
bool kilni_rpc_pause(void *server, kilni_rpc_session *session);

/// Ends sessions that nobody came back for until `now`. Not under the lock.
void kilni_rpc_expire_sessions(kiln_rpc_server *server, uint64_t now);

// ---- rpc_watches.c ----

/// Takes the stream of a Watch. `look` tells those who watch what has changed, and lets those go
/// who went; by one thread.
void kilni_rpc_watch_add(kiln_rpc_server *server, kilni_rpc_stream *take_stream);
void kilni_rpc_watch_look(kiln_rpc_server *server);

// ---- rpc_house.c ----

/// What is to be done without a call, until the server stops; functions of threads.
void *kilni_rpc_keep_house(void *server);
void *kilni_rpc_keep_sessions(void *server);

// ---- rpc_calls.c ----

/// Takes and answers calls, on threads of its own, until the listener is stopped; `reap` waits for
/// these. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_accept_all(kiln_rpc_server *server, kiln_error *err);
void kilni_rpc_reap(kiln_rpc_server *server);

/// Whose a call is that shows these; NULL: it does not. Errors: UNAUTHENTICATED, PERMISSION_DENIED.
kiln_status kilni_rpc_who(kiln_rpc_server *server, const char *token_name, const char *certificate,
                          kilni_rpc_party **out_party, kiln_error *err);

// ---- rpc_options.c ----

/// How many calls of a kind run at a time, of one party or of all.
uint32_t kilni_rpc_places(const kiln_rpc_server *server, kilni_rpc_kind kind, bool of_one);

/// Names the addresses after the ports that were bound. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_server_name(kiln_rpc_server *server, const int *ports, kiln_error *err);

#endif
