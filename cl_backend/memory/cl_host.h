// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_HOST_H
#define KILNI_CL_HOST_H

/// Host memory that the device reaches without a copy.

#include "cl_opencl.h"

typedef struct kilni_cl_pinned { ///< host memory given out by host_alloc
    cl_mem mem;
    void *host;
    size_t bytes;
    struct kilni_cl_pinned *next;
} kilni_cl_pinned;

/// Whether all these bytes are memory of host_alloc.
bool kilni_cl_is_pinned(const kilni_cl_backend *backend, const void *memory, size_t bytes);
/// As the backend's table says.
kiln_status kilni_cl_host_alloc(kiln_backend *base, size_t bytes, void **out_memory,
                                kiln_error *err);
void kilni_cl_host_free(kiln_backend *base, void *memory);
kiln_status kilni_cl_wrap_host(kiln_backend *base, void *memory, size_t bytes,
                               void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                               kiln_error *err);
void *kilni_cl_host_address(kiln_backend *base, kiln_buffer *given);
void kilni_cl_host_close(kilni_cl_backend *backend);

#endif
