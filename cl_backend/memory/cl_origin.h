// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_ORIGIN_H
#define KILNI_CL_ORIGIN_H

/// Buffers whose bytes can be had again from memory of the host, and which are on the device only
/// while work needs them.

#include "cl_buffer.h"

/// As the backend's table says.
KILN_NODISCARD kiln_status kilni_cl_alloc_from(kiln_backend *base, const kiln_host_origin *origin,
                                               size_t bytes, kiln_buffer **out_buffer,
                                               kiln_error *err);
KILN_NODISCARD kiln_status kilni_cl_reside(kiln_backend *base, kiln_buffer *buffer, bool there,
                                           kiln_error *err);
bool kilni_cl_resides(kiln_backend *base, const kiln_buffer *buffer);

// A buffer with an origin never changes, so what an operator makes of it, such as its bytes in
// another order, is made once and kept as long as the buffer. `as` says what it is. A buffer has
// one such thing: whoever needs another makes it each time.

/// What was made of the buffer; NULL: nothing, or something else. Borrowed.
kiln_buffer *kilni_cl_origin_made(const kiln_buffer *buffer, kiln_hash128 as);
/// Whether origin_keep would take something.
bool kilni_cl_origin_may_keep(const kiln_buffer *buffer);
/// Behind the launch that makes it. The buffer's own bytes leave the device.
KILN_NODISCARD kiln_status kilni_cl_origin_keep(kilni_cl_backend *backend, kiln_buffer *buffer,
                                                kiln_hash128 as, kiln_buffer *take_made,
                                                kiln_error *err);

/// Copies the bytes to the device; a code of OpenCL's.
cl_int kilni_cl_origin_fetch(kilni_cl_backend *backend, kilni_cl_buffer *buffer);

/// What work uses of a buffer: on the device from then on. NULL with a code of OpenCL's.
static inline cl_mem kilni_cl_mem_of(kilni_cl_backend *backend, kilni_cl_buffer *buffer,
                                     cl_int *out_code)
{
    *out_code = buffer->mem != NULL ? CL_SUCCESS : kilni_cl_origin_fetch(backend, buffer);
    return buffer->mem;
}

#endif
