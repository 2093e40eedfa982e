// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BACKEND_HOST_H
#define KILN_BACKEND_HOST_H

/// The part that the reference and null backends share: buffers in host memory, their statistics,
/// and the tables in which the two do not differ.

#include "ir_backend.h"
#include "reference_internal.h"

typedef struct kilni_host_backend {
    kiln_backend base;
    kiln_device_info info;
    kiln_backend_stats stats;
    uint64_t budget;
    char *texts; ///< of info, where they are this backend's own; NULL: static
} kilni_host_backend;

extern const kiln_backend_transfer_ops kilni_host_transfer_ops;
extern const kiln_backend_arena_ops kilni_host_arena_ops;

/// A backend with these tables.
kiln_status kilni_host_open(const kiln_env *env, const kiln_backend *tables,
                            const kiln_device_info *info, kiln_backend **out_backend,
                            kiln_error *err);
void kilni_host_close(kiln_backend *backend);
const kiln_device_info *kilni_host_info(kiln_backend *backend);
uint32_t kilni_host_dtype_usage(kiln_backend *backend, kiln_dtype dtype);
void kilni_host_stats(kiln_backend *backend, kiln_backend_stats *out_stats);
kiln_status kilni_host_alloc(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                             kiln_error *err);
void kilni_host_free(kiln_backend *backend, kiln_buffer *buffer);
kiln_status kilni_host_set_budget(kiln_backend *backend, uint64_t bytes, kiln_error *err);
void kilni_host_reset_peaks(kiln_backend *backend);
kiln_status kilni_host_wrap(kiln_backend *backend, void *memory, size_t bytes,
                            void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                            kiln_error *err);
kiln_status kilni_host_map(kiln_backend *backend, kiln_buffer *buffer, size_t offset, size_t bytes,
                           const void **out_data, kiln_error *err);
kiln_status kilni_host_flush(kiln_backend *backend, kiln_error *err);
kiln_status kilni_host_sync(kiln_backend *backend, kiln_error *err);

#endif
