// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_INTEROP_H
#define KILNI_CL_INTEROP_H

/// A program's own context and queue.

#include "cl_opencl.h"

/// Takes over context, queue and device of a given queue; INVALID_ARGUMENT for one that is not in
/// order or of another context.
kiln_status kilni_cl_take_queue(kilni_cl_backend *backend, void *context, void *queue,
                                kiln_error *err);

#endif
