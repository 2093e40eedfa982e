// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_SUB_BUFFER_H
#define KILNI_CL_SUB_BUFFER_H

/// Parts of one buffer as buffers of their own.

#include "cl_buffer.h"

/// As the backend's table says.
KILN_NODISCARD kiln_status kilni_cl_sub_buffer(kiln_backend *base, kiln_buffer *parent,
                                               size_t offset, size_t bytes,
                                               kiln_buffer **out_buffer, kiln_error *err);

#endif
