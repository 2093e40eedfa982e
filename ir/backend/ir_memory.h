// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_MEMORY_H
#define KILN_IR_MEMORY_H

/// Memory of a backend: buffers of the device, and memory of the host that the device reaches.
/// Every backend has this table; an entry for which it has nothing better is a default below.
///
/// Unless a function says otherwise, the runtime calls it under the backend's lock, and it does not
/// wait. A buffer belongs to the caller until `free`; work is in order as on one queue, so its
/// memory may be given out again at once. Without memory the error is RESOURCE_EXHAUSTED, and the
/// runtime reclaims and asks again. No pointer is NULL unless a function takes it.

#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;

/// Memory of the host that stays as it is until `release`, so that a buffer's bytes can be had from
/// it again and again. The calls come on any thread and must not call the backend.
typedef struct kiln_host_origin {
    const void *memory; ///< at any address
    /// These bytes have been copied and are not read again soon; may be NULL.
    void (*copied)(void *user, size_t offset, size_t bytes);
    void (*release)(void *user); ///< nothing uses the memory any more; called once
    void *user;
    kiln_hash128 stamp; ///< of these bytes: another one when they may be others; zeros: unknown
    /// Writes bytes of the buffer to `out`, where they are made of the memory and do not lie in it;
    /// NULL: they lie there.
    void (*read)(void *user, size_t offset, size_t bytes, void *out);
} kiln_host_origin;

typedef struct kiln_backend_memory_ops {
    uint32_t struct_size;
    kiln_status (*alloc)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                         kiln_error *err);
    /// As `alloc`, of the exact size and beside the pool, for what lives long. Without a pool it is
    /// `alloc` itself.
    kiln_status (*alloc_persistent)(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                                    kiln_error *err);
    void (*free)(kiln_backend *backend, kiln_buffer *buffer); ///< takes NULL
    void (*trim)(kiln_backend *backend); ///< gives pooled memory back to the device
    /// From now on the device holds at most so many bytes; 0: what it has. What is held already
    /// stays. UNIMPLEMENTED: this process has no say in it.
    kiln_status (*set_budget)(kiln_backend *backend, uint64_t bytes, kiln_error *err);
    void (*reset_peaks)(kiln_backend *backend); ///< in the statistics
    /// Host memory that travels without another copy; freed by `host_free`.
    kiln_status (*host_alloc)(kiln_backend *backend, size_t bytes, void **out_memory,
                              kiln_error *err);
    void (*host_free)(kiln_backend *backend, void *memory);
    /// A buffer in the caller's memory. `release` is called once when nothing uses it any more, on
    /// any thread, and must not call the backend. UNIMPLEMENTED: it has to be copied.
    kiln_status (*wrap_host)(kiln_backend *backend, void *memory, size_t bytes,
                             void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                             kiln_error *err);
    /// A buffer of the bytes at `origin`, which nobody writes to: copied when work first uses it.
    /// UNIMPLEMENTED: they have to be copied now.
    kiln_status (*alloc_from)(kiln_backend *backend, const kiln_host_origin *origin, size_t bytes,
                              kiln_buffer **out_buffer, kiln_error *err);
    /// A buffer of `alloc_from` is on the device from now on, or is not until work uses it again;
    /// any other is where it is. May wait for queued work.
    kiln_status (*reside)(kiln_backend *backend, kiln_buffer *buffer, bool there, kiln_error *err);
    bool (*resides)(kiln_backend *backend, const kiln_buffer *buffer); ///< is it on the device now?
    /// The bytes of a buffer where they lie, for reading, without waiting for work queued after
    /// the last wait. They belong to the backend, until `unmap`. UNIMPLEMENTED: they have to be
    /// copied.
    kiln_status (*map)(kiln_backend *backend, kiln_buffer *buffer, size_t offset, size_t bytes,
                       const void **out_data, kiln_error *err);
    void (*unmap)(kiln_backend *backend, kiln_buffer *buffer, const void *data);
} kiln_backend_memory_ops;

/// Default of `trim`, of a backend without a pool.
KILN_API void kiln_backend_no_trim(kiln_backend *backend);

/// Default of `set_budget`: UNIMPLEMENTED.
KILN_API kiln_status kiln_backend_no_budget(kiln_backend *backend, uint64_t bytes, kiln_error *err);

/// Default of `reset_peaks`: the peaks stay.
KILN_API void kiln_backend_no_reset_peaks(kiln_backend *backend);

/// Default of `host_alloc`: from the environment's allocator.
KILN_API kiln_status kiln_backend_host_alloc(kiln_backend *backend, size_t bytes, void **out_memory,
                                             kiln_error *err);

/// Default of `host_free`, for memory of the default above.
KILN_API void kiln_backend_host_free(kiln_backend *backend, void *memory);

/// Default of `wrap_host`: UNIMPLEMENTED.
KILN_API kiln_status kiln_backend_no_wrap(kiln_backend *backend, void *memory, size_t bytes,
                                          void (*release)(void *user), void *user,
                                          kiln_buffer **out_buffer, kiln_error *err);

/// Default of `alloc_from`: UNIMPLEMENTED.
KILN_API kiln_status kiln_backend_no_origin(kiln_backend *backend, const kiln_host_origin *origin,
                                            size_t bytes, kiln_buffer **out_buffer,
                                            kiln_error *err);

/// Default of `reside`: each buffer is where it is.
KILN_API kiln_status kiln_backend_stays(kiln_backend *backend, kiln_buffer *buffer, bool there,
                                        kiln_error *err);

/// Default of `resides`: all buffers do.
KILN_API bool kiln_backend_has_all(kiln_backend *backend, const kiln_buffer *buffer);

/// Default of `map`: UNIMPLEMENTED.
KILN_API kiln_status kiln_backend_no_map(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                         size_t bytes, const void **out_data, kiln_error *err);

/// Default of `unmap`, where a mapping is nothing but a pointer.
KILN_API void kiln_backend_no_unmap(kiln_backend *backend, kiln_buffer *buffer, const void *data);

#ifdef __cplusplus
}
#endif

#endif
