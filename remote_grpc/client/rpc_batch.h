// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_BATCH_H
#define KILN_RPC_BATCH_H

/// The client's operations on their way to one Run: gathered in relative form, so that a batch that
/// was sent before is recognised and goes as a number.

#include "ir.h"
#include "kiln.h"
#include "rpc_frame.h"

typedef struct kilni_rpc_batch kilni_rpc_batch;

/// `*out_batch` is the caller's (kilni_rpc_batch_destroy). `env` must outlive it. One thread at a
/// time. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_batch_create(const kiln_env *env, kilni_rpc_batch **out_batch,
                                   kiln_error *err);
void kilni_rpc_batch_destroy(kilni_rpc_batch *batch);

/// For a new session: nothing is gathered, and the server knows no graphs. It will keep
/// `max_graphs` (0: none), and results of at most `max_bytes` should be in one batch.
void kilni_rpc_batch_begin(kilni_rpc_batch *batch, uint64_t max_graphs, uint64_t max_bytes);

bool kilni_rpc_batch_is_empty(const kilni_rpc_batch *batch);

/// Changes with every batch: a buffer that was made in this one is not known to the server yet.
uint64_t kilni_rpc_batch_serial(const kilni_rpc_batch *batch);

/// Whether the operation still fits; none does once there is a frame. `inputs` are numbers of
/// buffers, 0 for none.
bool kilni_rpc_batch_takes(const kilni_rpc_batch *batch, const kiln_op_record *record,
                           const uint64_t *inputs);

/// Adds an operation that fits. Errors: RESOURCE_EXHAUSTED, and the batch is as it was.
kiln_status kilni_rpc_batch_add(kilni_rpc_batch *batch, const kiln_op_record *record,
                                const uint64_t *inputs, const uint64_t *outputs, kiln_error *err);

/// Notes that a buffer is not used any more; `fresh`: it was made in this batch. Gives false, and
/// notes nothing, when there is no room.
bool kilni_rpc_batch_free(kilni_rpc_batch *batch, uint64_t buffer, bool fresh);

/// The Run of what was gathered, and the number of a graph to be forgotten before it (0: none).
/// With `lasting` the graph gets a number though it is new. The frame is the batch's, and the same
/// when it is asked for again. It lives until `end`, which begins the next batch. Errors:
/// RESOURCE_EXHAUSTED, and it may be asked for later; INVALID_ARGUMENT.
kiln_status kilni_rpc_batch_frame(kilni_rpc_batch *batch, bool lasting, kilni_rpc_frame **out_frame,
                                  uint64_t *out_forget, kiln_error *err);
/// The server has been told to forget that graph.
void kilni_rpc_batch_forgot(kilni_rpc_batch *batch);
void kilni_rpc_batch_end(kilni_rpc_batch *batch);

#endif
