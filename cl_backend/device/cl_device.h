// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_DEVICE_H
#define KILNI_CL_DEVICE_H

/// Which devices there are, and what is known about one.

#include "cl_opencl.h"

/// The platform and device that an address means. A part of a device belongs to the caller.
kiln_status kilni_cl_device_find(const kiln_env *env, const char *address,
                                 cl_platform_id *out_platform, cl_device_id *out_device,
                                 kiln_error *err);
/// As the provider's table says. Any thread.
kiln_status kilni_cl_device_describe(const kiln_env *env, size_t index, char out_address[64],
                                     char out_line[192], kiln_error *err, void *user);
kiln_status kilni_cl_device_type_of(const kiln_env *env, size_t index, kiln_device_type *out_type,
                                    kiln_error *err, void *user);
/// Fills the backend's description from the driver; speeds are estimates.
kiln_status kilni_cl_device_info_read(kilni_cl_backend *backend, kiln_error *err);
void kilni_cl_device_info_free(kilni_cl_backend *backend);
/// Where the store keeps a fact of this device.
kiln_hash128 kilni_cl_device_key(const kilni_cl_backend *backend, const char *what);

#endif
