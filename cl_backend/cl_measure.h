// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_MEASURE_H
#define KILNI_CL_MEASURE_H

/// Speeds of a device.

#include "cl_opencl.h"

/// What kiln_cl_measure stored, or measures where that is wanted.
void kilni_cl_device_calibrate(kilni_cl_backend *backend);

#endif
