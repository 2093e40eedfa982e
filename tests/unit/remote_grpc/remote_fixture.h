// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_REMOTE_FIXTURE_H
#define KILN_TESTS_REMOTE_FIXTURE_H

/// What the tests of servers and clients share: a pair of them on one device, and a client by hand
/// that speaks in frames.

#include "harness.h"
#include "ir.h"
#include "remote_grpc.h"
#include "rpc_link.h"
#include "rpc_protocol.h"

/// How much longer a program under ThreadSanitizer may take for what is bounded.
#ifdef __SANITIZE_THREAD__
enum { PATIENCE = 10 };
#else
enum { PATIENCE = 1 };
#endif

typedef struct pair {
    kiln_context *context;
    kiln_device *local;
    kiln_device *remote;
    kiln_rpc_server *server;
    kiln_error err;
} pair;

#define PAIR_OK(self, call)                                                                        \
    kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, (self)->err.message)

#define HAND_OK(self, call) PAIR_OK(self, call)

/// A context that knows the client's providers; libkiln finds them in a library beside it.
bool pair_context(pair *self);

/// A server of the reference device, and a client of it. Without a server after `context` alone.
bool pair_open(pair *self, const kiln_rpc_server_options *options);
void pair_close(pair *self);
kiln_tensor *pair_upload(pair *self, size_t rank, const int64_t *dims, const float *data);

typedef struct hand {
    kiln_env env;
    kilni_rpc_stream *stream;
    kilni_rpc_inbox *inbox;
    kilni_rpc_frame *frame; ///< the inbox's; its data in one piece
    void *gathered; ///< they are, where they came in several
    uint64_t request;
    kiln_error err;
} hand;

/// Connects to the pair's server; `hand_try` then sends the first frame, and gives the status of
/// the call where the server ends it instead of answering.
bool hand_connect(hand *self, const pair *peers);
uint32_t hand_try(hand *self, kilni_rpc_frame *frame);

/// Connects to the pair's server and greets it.
bool hand_greet(hand *self, const pair *peers, bool resumable);
bool hand_open(hand *self, const pair *peers); ///< not resumable
bool hand_open_device(hand *self, const pair *peers, uint32_t device); ///< of the server's
bool hand_open_as(hand *self, const pair *peers, const char *token); ///< who shows this token
void hand_close(hand *self);
void hand_send(hand *self, kilni_rpc_frame *frame);

/// Sends a frame that wants an answer; gives the answer's code. Its data stay in `frame`.
uint32_t hand_ask(hand *self, kilni_rpc_frame *frame);
void hand_write(hand *self, uint64_t buffer, uint64_t offset, uint64_t total, const void *data,
                size_t length);
uint32_t hand_read(hand *self, uint64_t buffer, uint64_t offset, uint64_t length);
uint32_t hand_fence(hand *self);

/// A Run of a chain: value 1 is bound to buffer `from`, each operation makes the next value, the
/// last one goes to buffer `to`. `graph`: to be known by that number; without records, which one.
void hand_run(hand *self, const kiln_op_record *records, size_t count, uint64_t from, uint64_t to,
              uint64_t graph);

/// The graph of such a chain as it goes over the wire; its data go back through kiln_free.
void hand_encode(hand *self, const kiln_op_record *records, size_t count, kiln_blob *out_blob);

/// x and its negation, `count` floats.
void hand_negate(hand *self, int64_t count, uint64_t from, uint64_t to);
kiln_tensor_desc hand_floats(uint64_t id, int64_t count);

void pause_us(unsigned long us);

/// Bytes of a message may lie at any address.
float hand_float(const void *bytes, size_t index);

#endif
