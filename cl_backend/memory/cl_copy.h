// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_COPY_H
#define KILNI_CL_COPY_H

/// Copies on the device.

#include "cl_opencl.h"

/// As the backend's table says.
kiln_status kilni_cl_copy(kiln_backend *base, kiln_buffer *source, size_t source_offset,
                          kiln_buffer *target, size_t target_offset, size_t bytes, kiln_error *err);

#endif
