// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_DEVICE_H
#define KILNI_CL_DEVICE_H

/// Which devices there are.

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

#endif
