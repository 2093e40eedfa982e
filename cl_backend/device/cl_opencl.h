// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_OPENCL_H
#define KILNI_CL_OPENCL_H

/// OpenCL as this folder sees it: version 1.2; what is newer is looked up where it is used.
///
/// For all private headers here: a function is called with the backend's lock, borrows what it is
/// given, and returns RESOURCE_EXHAUSTED, DEVICE_LOST and what the driver's code means
/// (cl_error.h), unless it says otherwise.

#include "cl_backend.h"
#include <stdbool.h>
#include <stdint.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

typedef struct kilni_cl_backend kilni_cl_backend; ///< cl_state.h

#endif
