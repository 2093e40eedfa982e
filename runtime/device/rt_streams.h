// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_STREAMS_H
#define KILN_RUNTIME_STREAMS_H

/// The streams of a device: what a thread has recorded and nobody has run yet.

#include "fusion_host.h"
#include "kiln.h"

/// The operations of one thread on one device, of one capture, or of those threads that chose it.
/// Guarded by the device's lock.
typedef struct kilni_stream {
    uint64_t id; ///< never used again, so that a tensor may name a stream that has ended
    kiln_device *device;
    uint64_t thread; ///< 0: of no thread's own; kilni_thread says who records on it
    uint64_t recorded; ///< operations and drops so far
    bool named; ///< a kiln_stream stands for it
    kiln_fuse_engine *engine; ///< that plans it
    kiln_fuse_stream *queue;
    bool capturing; ///< nothing is handed out: a graph is being recorded
    bool fixed; ///< of a capture: its graph runs with the captured shapes only
    bool replaying; ///< belongs to a finished graph
    uint32_t persistent; ///< open scopes of persistent allocations
    kiln_tensor **inputs; ///< of a capture, held
    size_t n_inputs;
    kiln_tensor **carried; ///< per input its next value, held, or NULL; NULL: none has one
    struct kilni_stream *next;
} kilni_stream;

/// The streams of a device. All under the device's lock.
typedef struct kilni_stream_list {
    kilni_stream *first;
    size_t count;
    uint64_t last_id;
    kilni_stream *current; ///< the stream found last
    uint64_t current_thread; ///< and who records on it
} kilni_stream_list;

/// The live stream with this id, or NULL: it has ended, or belongs to a finished graph. Under the
/// lock.
kilni_stream *kilni_stream_find(const kiln_device *device, uint64_t id);

/// Whether this thread chose the stream or it is its own, captures included. Under the lock.
bool kilni_stream_is_mine(const kilni_stream *stream);

/// The stream that a thread records on instead of its own, or NULL. Under the lock.
kilni_stream *kilni_stream_chosen_by(const kiln_device *device, uint64_t thread);

/// Whether a capture of the calling thread has the tensor as an input, and as which. Under the
/// lock.
bool kilni_stream_captures_input(const kiln_device *device, const kiln_tensor *tensor,
                                 size_t *out_index);

/// Lists a stream that was created, so that it is found and ends with the device. Under the lock.
void kilni_stream_enlist(kilni_stream *stream);

/// Whether the calling thread has an open scope of persistent allocations. Under the lock.
bool kilni_device_persists(const kiln_device *device);

#endif
