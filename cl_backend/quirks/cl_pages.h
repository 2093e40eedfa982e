// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_PAGES_H
#define KILNI_CL_PAGES_H

/// Memory for buffers of devices that are processors, in pages as large as the system gives.

#include <stddef.h>

#include "cl_opencl.h"
#include "kiln_env.h"

enum { KILNI_CL_PAGES_LEAST = 2 << 20 }; ///< bytes that a buffer must have

/// A buffer over memory of its own, which is given back when the driver has let the buffer go.
/// NULL: there is no such memory, or the driver does not take it. Any thread.
cl_mem kilni_cl_pages_create(const kiln_env *env, cl_context context, size_t bytes);

#endif
