// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CL_BACKEND_H
#define KILN_CL_BACKEND_H

/// cl_backend: OpenCL behind the backend interface of ir.h. Every platform and device that the ICD
/// loader shows; memory pool, program cache on disk, kernels for every operator, CLBlast for matrix
/// products. The only folder that sees OpenCL headers; none of its types leave it.

#include "ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Opens "opencl:N" (N counts all devices in the loader's order), "opencl:P/D" (device D of
/// platform P), "opencl:name=TEXT" (the first whose name contains TEXT) and "opencl:" (the first of
/// all), each with "#I/N" behind it for part I of N equal parts of that device. One context and one
/// queue for each opening. `describe` lists the devices. Ownership: static storage. Lifetime: the
/// process. Thread: any. Errors: of open: NOT_FOUND saying how many devices there are,
/// INVALID_ARGUMENT, UNAVAILABLE.
KILN_API const kiln_backend_provider *kiln_cl_provider(void);

// =================================================================================================
// For runtime, collective and bench. All take a backend of this folder.
// =================================================================================================

typedef struct kiln_cl_counters { ///< beside kiln_backend_stats
    uint32_t struct_size;
    uint32_t programs_held; ///< in memory
    uint64_t cache_misses; ///< programs that the store did not have
    uint64_t cache_damaged; ///< entries that were refused and built again
    uint64_t cache_saved; ///< binaries written to the store
    uint64_t pool_hits; ///< allocations served from the pool
    uint64_t pool_creates; ///< and by the driver
    uint64_t transfer_bytes; ///< uploaded and read
    uint64_t host_waits;
    uint64_t packed; ///< launches whose arguments were one value
    uint64_t programs_ahead; ///< of those loaded: before they were asked for
} kiln_cl_counters;

/// Whether `backend` is of this folder; counters since it was opened.
/// Ownership: values. Lifetime: n/a. Thread: the backend's lock. Errors: none.
KILN_API bool kiln_cl_is(const kiln_backend *backend);
KILN_API void kiln_cl_counters_get(kiln_backend *backend, kiln_cl_counters *out_counters);

/// Measures copy bandwidth and launch cost, puts them into the device's info and keeps them in the
/// store; takes some 50 ms. Opening uses what is stored; a GPU that was never measured is then, a
/// processor only with the option `tune`; else there is an estimate by the type of device. Figures
/// that no device has are not believed. While the runs behind a figure are more than 15 percent
/// apart, up to four processes measure it, and a newer one takes its place only where it is better
/// by half; all others read the same.
/// Ownership: borrowed. Lifetime: n/a. Thread: the backend's lock; waits. Errors: as launch and
/// sync.
KILN_NODISCARD KILN_API kiln_status kiln_cl_measure(kiln_backend *backend, kiln_error *err);

enum { KILN_CL_MAP_READ = KILN_MAP_READ, KILN_CL_MAP_WRITE = KILN_MAP_WRITE };

/// Host pointer to bytes of a buffer, after the work queued so far; on devices that share the
/// host's memory nothing is copied. The buffer must not be used in between. Ownership: the pointer
/// is borrowed. Lifetime: until unmapped. Thread: the backend's lock; map waits. Errors:
/// OUT_OF_RANGE, RESOURCE_EXHAUSTED, DEVICE_LOST.
KILN_NODISCARD KILN_API kiln_status kiln_cl_map(kiln_backend *backend, kiln_buffer *buffer,
                                                size_t offset, size_t bytes, uint32_t access,
                                                void **out_pointer, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_cl_unmap(kiln_backend *backend, kiln_buffer *buffer,
                                                  void *pointer, kiln_error *err);

/// A point in a backend's queue. `mark`, a marker: reached when all work queued so far is done.
/// `gate`, a user event: work queued later waits until kiln_cl_event_signal; a status other than OK
/// makes that work fail, and the next read or sync says so. Ownership: the caller's
/// (kiln_cl_event_destroy). Lifetime: until destroyed; the backend must outlive it. Thread: mark
/// and gate under the backend's lock; signal and destroy from any. Errors: RESOURCE_EXHAUSTED,
/// DEVICE_LOST.
typedef kiln_event kiln_cl_event;
KILN_NODISCARD KILN_API kiln_status kiln_cl_mark(kiln_backend *backend, kiln_cl_event **out_event,
                                                 kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_cl_gate(kiln_backend *backend, kiln_cl_event **out_event,
                                                 kiln_error *err);
KILN_API void kiln_cl_event_signal(kiln_cl_event *event, kiln_status status);
KILN_API void kiln_cl_event_destroy(kiln_cl_event *event);

/// Calls `done` once when a marker is reached or its work failed, on a thread of the driver: it
/// must be short and must not call this backend. Ownership: `user` stays the caller's. Lifetime:
/// until called. Thread: any. Errors: RESOURCE_EXHAUSTED; then `done` is not called.
KILN_NODISCARD KILN_API kiln_status kiln_cl_event_after(kiln_cl_event *event, kiln_event_fn done,
                                                        void *user, kiln_error *err);

/// Waits on the calling thread until a marker is reached.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: DEVICE_LOST.
KILN_NODISCARD KILN_API kiln_status kiln_cl_event_wait(kiln_cl_event *event, kiln_error *err);

/// An auxiliary queue: another backend on the same device and context, with a queue, a memory pool
/// and kernels of its own, so that its work waits for nothing in the first one's queue. It takes
/// the first one's buffers wherever a call takes a buffer, but frees only its own; who uses both
/// orders them with markers and user events. Ownership: the caller's (its `close`). Lifetime: the
/// backend outlives it. Thread: each has a lock of its own; this call, the backend's. Errors:
/// RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_cl_open_lane(kiln_backend *backend,
                                                      kiln_backend **out_lane, kiln_error *err);

/// Queues a copy of host memory into a buffer and does not wait: `source` must stay until a later
/// marker is reached. From pinned memory, of whatever backend of the process, it runs at the link's
/// speed. Ownership: borrowed. Lifetime: as said. Thread: the backend's lock. Errors:
/// OUT_OF_RANGE, RESOURCE_EXHAUSTED, DEVICE_LOST.
KILN_NODISCARD KILN_API kiln_status kiln_cl_write(kiln_backend *backend, kiln_buffer *buffer,
                                                  size_t offset, const void *source, size_t bytes,
                                                  kiln_error *err);

/// A program's own OpenCL objects, passed as pointers: a backend on its context and in-order queue,
/// a buffer in its cl_mem (with `ready`, an event to wait for, or NULL), a buffer's cl_mem with an
/// event that is complete when what was queued so far is done, and a wait of the queue for an
/// event. Ownership: what is given is retained, what is lent is retained for the caller. Lifetime:
/// until closed and freed. Thread: the backend's lock. Errors: INVALID_ARGUMENT for objects of
/// another context, queues out of order and memory that is too small; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_cl_open_queue(const kiln_env *env, void *context,
                                                       void *queue, kiln_backend **out_backend,
                                                       kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_cl_buffer_wrap(kiln_backend *backend, void *mem,
                                                        size_t bytes, void *ready,
                                                        kiln_buffer **out_buffer, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_cl_buffer_lend(kiln_backend *backend, kiln_buffer *buffer,
                                                        void **out_mem, void **out_ready,
                                                        kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_cl_wait_event(kiln_backend *backend, void *event,
                                                       kiln_error *err);

/// Replaces parameters of a CLBlast kernel ("Xgemm", "XgemmDirect", ...) for one dtype on this
/// device. Ownership: borrowed. Lifetime: the process, or until the library's cache is cleared.
/// Thread: the backend's lock. Errors: INVALID_ARGUMENT for an unknown kernel or an incomplete
/// list.
KILN_NODISCARD KILN_API kiln_status kiln_cl_blas_override(kiln_backend *backend, const char *kernel,
                                                          kiln_dtype dtype,
                                                          const char *const *names,
                                                          const size_t *values, size_t count,
                                                          kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
