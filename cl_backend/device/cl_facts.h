// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_FACTS_H
#define KILNI_CL_FACTS_H

/// What is known about one device.

#include "cl_opencl.h"

/// Fills the backend's description from the driver; speeds are estimates.
kiln_status kilni_cl_device_info_read(kilni_cl_backend *backend, kiln_error *err);
void kilni_cl_device_info_free(kilni_cl_backend *backend);
/// Where the store keeps a fact of this device.
kiln_hash128 kilni_cl_device_key(const kilni_cl_backend *backend, const char *what);

#endif
