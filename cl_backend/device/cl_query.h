// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_QUERY_H
#define KILNI_CL_QUERY_H

/// Questions to the driver about a device.

#include "cl_opencl.h"

/// As clGetDeviceInfo; false: no answer. The first code that is more than a question which the
/// driver does not know stays in `backend->unanswered`: what is open may not be built on it.
bool kilni_cl_device_ask(kilni_cl_backend *backend, cl_device_info what, size_t room, void *out,
                         size_t *out_size);

/// The same of what every device has, so that any code stays there.
bool kilni_cl_device_need(kilni_cl_backend *backend, cl_device_info what, size_t room, void *out,
                          size_t *out_size);

/// A number of at most 64 bits; 0 where there is no answer.
uint64_t kilni_cl_device_number(kilni_cl_backend *backend, cl_device_info what);

/// Kiln's word for it.
kiln_device_type kilni_cl_device_type(cl_device_type type);

/// Whether `name` is a word of `extensions`, which are separated by spaces.
bool kilni_cl_has_extension(const char *extensions, const char *name);

/// Whether these are the extensions of NVIDIA's driver: it answers its own questions about a
/// device, and its compiler takes PTX.
bool kilni_cl_is_nvidia(const char *extensions);

#endif
