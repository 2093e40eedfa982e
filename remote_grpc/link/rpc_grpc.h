// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_GRPC_H
#define KILN_RPC_GRPC_H

/// What the files that call gRPC share: a call with its queue, and how a batch is run.

#include "rpc_stream.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <pthread.h>

// The locks under which gRPC hands slices and calls from thread to thread are not seen by
// ThreadSanitizer.
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

// Tags of a stream's batches.
enum {
    KILNI_TAG_START,
    KILNI_TAG_SEND,
    KILNI_TAG_RECEIVE,
    KILNI_TAG_FINISH,
    KILNI_TAG_STATUS,
    KILNI_TAGS
};

enum {
    KILNI_PING_MS = 10000, ///< between pings of a quiet connection
    KILNI_PONG_MS = 20000, ///< without an answer to one the connection is gone
    KILNI_MIN_PING_MS = 5000 ///< a client that pings more often is sent away
};

struct kilni_rpc_stream {
    const kiln_env *env;
    kilni_rpc_stream *next; ///< in a list of the listener's
    grpc_channel *channel; ///< of a client
    grpc_completion_queue *queue;
    grpc_call *call;
    char tags[KILNI_TAGS];
    grpc_metadata_array metadata;
    grpc_metadata_array trailing;
    grpc_call_details details; ///< of a server
    grpc_status_code code;
    grpc_slice code_text;
    int cancelled;
    char method[96]; ///< of a server
    atomic_uint *streams; ///< of a server: how many it has; counted down when this one is freed
    bool unopened; ///< of a server: what is sent first begins the answer
    grpc_byte_buffer *last; ///< of a server: leaves with the status; NULL: none
    grpc_byte_buffer *leaving; ///< not NULL: the batch of KILNI_TAG_SEND has not completed
    bool status_pending; ///< the batch of KILNI_TAG_STATUS has not completed
    bool finished; ///< nothing more is sent
    atomic_bool broken; ///< a batch failed: nothing more can be sent
    // The batch of KILNI_TAG_RECEIVE: one thread takes what comes, others may wait beside it.
    pthread_mutex_t arrival_lock; ///< for these
    pthread_cond_t arrival;
    grpc_byte_buffer *arriving;
    bool receiving; ///< it was started, and its message was not taken
    bool polled; ///< a thread waits for it in gRPC
    bool arrived; ///< it has completed
    bool arrived_good;
    uint64_t arrivals; ///< how often it has
    uint32_t bystanders; ///< threads that wait and do not take
};

/// One more hold of gRPC, which says nothing on its own.
void kilni_grpc_init(const kiln_env *env);

gpr_timespec kilni_grpc_after(int64_t ms);
gpr_timespec kilni_grpc_forever(void);

/// An argument of a channel or a server. `key` is a constant of gRPC.
grpc_arg kilni_grpc_arg(const char *key, int value);

bool kilni_grpc_start(kilni_rpc_stream *stream, const grpc_op *ops, size_t count, int tag);
bool kilni_grpc_wait(kilni_rpc_stream *stream, int tag, gpr_timespec deadline);
bool kilni_grpc_run(kilni_rpc_stream *stream, const grpc_op *ops, size_t count, int tag);

/// Waits for a condition; false: the time is over.
bool kilni_grpc_wait_condition(pthread_cond_t *condition, pthread_mutex_t *lock,
                               gpr_timespec deadline);

/// Empties a queue and destroys it.
void kilni_grpc_destroy_queue(grpc_completion_queue *queue, bool pluck);

/// Waits at most `timeout_ms` until there is a message to be received, and leaves it there; false:
/// the other side has sent none and will not, or the time is over.
bool kilni_grpc_await_message(kilni_rpc_stream *stream, int64_t timeout_ms);

/// A stream without a call; gRPC is held for it. NULL: no memory. `free` lets go of both;
/// freeing NULL does nothing.
kilni_rpc_stream *kilni_grpc_stream_new(const kiln_env *env);
void kilni_grpc_stream_free(kilni_rpc_stream *stream);

/// Why the stream ended, in the peer's words when it left some.
kiln_status kilni_grpc_broken(kilni_rpc_stream *stream, kiln_error *err);

#endif
