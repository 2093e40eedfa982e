// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_READ_H
#define KILNI_CL_READ_H

/// Bytes from the device to the host.

#include "cl_opencl.h"
#include <pthread.h>

/// Large reads of a discrete device: a queue of their own, so that they neither wait for work that
/// was queued later nor hold up whoever queues more.
typedef struct kilni_cl_reader {
    pthread_mutex_t lock; ///< one read at a time; everything here
    cl_command_queue queue; ///< made at the first
    cl_mem mem[2]; ///< pinned
    unsigned char *host[2];
} kilni_cl_reader;

/// As the backend's table says. `read_poll` and `read_wait` are called without the lock.
kiln_status kilni_cl_read_begin(kiln_backend *base, kiln_buffer *buffer, size_t offset,
                                void *out_data, size_t bytes, kiln_pending **out_pending,
                                kiln_error *err);
bool kilni_cl_read_poll(kiln_pending *pending);
void kilni_cl_read_wait(kiln_pending *pending, bool cancel);
kiln_status kilni_cl_read_end(kiln_backend *base, kiln_pending *pending, kiln_error *err);
kiln_status kilni_cl_map_shared(kiln_backend *base, kiln_buffer *buffer, size_t offset,
                                size_t bytes, const void **out_data, kiln_error *err);
void kilni_cl_unmap_shared(kiln_backend *base, kiln_buffer *buffer, const void *data);
void kilni_cl_reader_close(kilni_cl_backend *backend);

#endif
