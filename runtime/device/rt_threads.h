// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_THREADS_H
#define KILN_RUNTIME_THREADS_H

/// What a device remembers of the threads that use it.

#include "rt_streams.h"

/// What a device remembers of a thread beside its stream.
typedef struct kilni_thread {
    uint64_t id; ///< 0: a free place of the table
    kilni_stream *chosen; ///< on which it records instead of its own, or NULL
    kiln_dtype products; ///< in which its products of f32 compute; 0: f32
    bool has_rng_stream;
    uint32_t random_number; ///< of that stream
    int64_t random_position; ///< of its next draw
} kilni_thread;

/// By id, with open addressing. Threads of which there is nothing to remember go when it grows.
typedef struct kilni_threads {
    kilni_thread *places;
    size_t capacity; ///< 0 or a power of two
    size_t count;
} kilni_threads;

/// What the device remembers of a thread, or NULL; made now, or NULL: no memory. Good until another
/// is made. Under the lock.
kilni_thread *kilni_thread_find(const kiln_device *device, uint64_t id);
kilni_thread *kilni_thread_get(kiln_device *device, uint64_t id);

#endif
