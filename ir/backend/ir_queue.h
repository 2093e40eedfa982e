// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_QUEUE_H
#define KILN_IR_QUEUE_H

/// Queues of a device as a backend offers them: auxiliary queues beside its own, points in a queue,
/// and buffers that the host looks into. A backend offers the whole table or none of it; without it
/// nothing is queued in this process: the host does all work at once, or another host has the
/// queue.
///
/// Unless a function says otherwise, its caller holds the backend's lock, and what it gives belongs
/// to the caller.

#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;

/// A point in a queue; each backend defines its own. The backend outlives it.
typedef struct kiln_event kiln_event;
typedef void (*kiln_event_fn)(kiln_status status, void *user);

enum { KILN_MAP_READ = 1u, KILN_MAP_WRITE = 2u };

typedef struct kiln_backend_queue_ops {
    uint32_t struct_size;
    /// Another backend on the same device, with a queue, a memory pool and a lock of its own: its
    /// work waits for nothing in this one's queue. It takes this one's buffers and frees only its
    /// own. This one outlives it.
    kiln_status (*open_auxiliary)(kiln_backend *backend, kiln_backend **out_backend,
                                  kiln_error *err);
    /// A marker: reached when all work queued so far is done.
    kiln_status (*marker)(kiln_backend *backend, kiln_event **out_event, kiln_error *err);
    /// A user event: work queued later waits until `event_signal`; a status other than OK makes
    /// that work fail, and the next read or sync says so.
    kiln_status (*user_event)(kiln_backend *backend, kiln_event **out_event, kiln_error *err);
    void (*event_signal)(kiln_event *event, kiln_status status); ///< any thread
    /// Calls `done` once when a marker is reached or its work failed, on a thread of the driver or
    /// of the backend, in the order of the queue: it is short and does not call this backend. After
    /// an error `done` is not called. Any thread.
    kiln_status (*event_after)(kiln_event *event, kiln_event_fn done, void *user, kiln_error *err);
    kiln_status (*event_wait)(kiln_event *event, kiln_error *err); ///< any thread
    void (*event_destroy)(kiln_event *event); ///< any thread
    /// Queues a copy of host memory into a buffer and does not wait: `source` stays until a later
    /// marker is reached.
    kiln_status (*write)(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                         const void *source, size_t bytes, kiln_error *err);
    /// A host pointer to bytes of a buffer, after the work queued so far: waits. Nobody uses the
    /// buffer until it is unmapped.
    kiln_status (*map)(kiln_backend *backend, kiln_buffer *buffer, size_t offset, size_t bytes,
                       uint32_t access, void **out_pointer, kiln_error *err);
    kiln_status (*unmap)(kiln_backend *backend, kiln_buffer *buffer, void *pointer,
                         kiln_error *err);
    /// What was queued last does not come back. From now on every call to this backend fails with
    /// DEVICE_LOST and this reason, and none waits, closing included; what the queue may still use
    /// is left to it.
    void (*abandon)(kiln_backend *backend, const char *why);
    /// Where the host finds the very bytes that kernels work on, so that it needs no command to
    /// read them behind work that has ended, nor to write them before work that is queued later or
    /// waits for a user event. NULL: not known of this buffer, which is mapped then. It lasts as
    /// long as the buffer. Whoever looks there sees to it that no other work uses the bytes.
    void *(*host_address)(kiln_backend *backend, kiln_buffer *buffer);
} kiln_backend_queue_ops;

#ifdef __cplusplus
}
#endif

#endif
