// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_TRANSFER_H
#define KILN_IR_TRANSFER_H

/// Transfers of a backend: bytes between host memory and buffers, in the order of the queue. Every
/// backend has this table; an entry for which it has nothing better is a default below.
///
/// Unless a function says otherwise, the runtime calls it under the backend's lock. Memory of the
/// host belongs to the caller. A range outside its buffer is OUT_OF_RANGE, or reported by the next
/// read or sync where another host has the buffer. No pointer is NULL unless a function takes it.

#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;
typedef struct kiln_pending kiln_pending; ///< a read on its way; each backend defines its own

typedef struct kiln_backend_transfer_ops {
    uint32_t struct_size;
    /// `source` is the caller's again when this returns.
    kiln_status (*upload)(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                          const void *source, size_t bytes, kiln_error *err);
    /// Waits.
    kiln_status (*read)(kiln_backend *backend, kiln_buffer *buffer, size_t offset, void *out_data,
                        size_t bytes, kiln_error *err);
    kiln_status (*copy)(kiln_backend *backend, kiln_buffer *source, size_t source_offset,
                        kiln_buffer *target, size_t target_offset, size_t bytes, kiln_error *err);
    /// Takes a place in the order of the queue for a read; of no bytes, for a wait for everything
    /// queued before. `out_data` stays until the read is waited for. `*out_pending` goes to
    /// `read_end`; NULL with OK: it is done already.
    kiln_status (*read_begin)(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                              void *out_data, size_t bytes, kiln_pending **out_pending,
                              kiln_error *err);
    bool (*read_poll)(kiln_pending *pending); ///< whether `read_wait` would return soon; no lock
    /// Waits, without a lock. With `cancel`, only until `out_data` is not written any more.
    void (*read_wait)(kiln_pending *pending, bool cancel);
    /// The result of a read that was waited for; frees `pending`.
    kiln_status (*read_end)(kiln_backend *backend, kiln_pending *pending, kiln_error *err);
} kiln_backend_transfer_ops;

/// Default of `copy`: through memory of the host, so it waits.
KILN_API kiln_status kiln_backend_copy_by_host(kiln_backend *backend, kiln_buffer *source,
                                               size_t source_offset, kiln_buffer *target,
                                               size_t target_offset, size_t bytes, kiln_error *err);

/// Default of `read_begin`: reads, or waits, at once, and gives nothing to wait for.
KILN_API kiln_status kiln_backend_read_at_once(kiln_backend *backend, kiln_buffer *buffer,
                                               size_t offset, void *out_data, size_t bytes,
                                               kiln_pending **out_pending, kiln_error *err);

/// Default of `read_poll`, beside that of `read_begin`: true.
KILN_API bool kiln_backend_read_is_done(kiln_pending *pending);

/// Default of `read_wait`, beside that of `read_begin`.
KILN_API void kiln_backend_no_read_wait(kiln_pending *pending, bool cancel);

/// Default of `read_end`, beside that of `read_begin`: OK.
KILN_API kiln_status kiln_backend_no_read_end(kiln_backend *backend, kiln_pending *pending,
                                              kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
