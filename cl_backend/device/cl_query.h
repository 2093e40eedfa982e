// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_QUERY_H
#define KILNI_CL_QUERY_H

/// Questions to the driver about a device.

#include "cl_opencl.h"

/// A number of at most 64 bits; 0 where the driver does not know the question.
uint64_t kilni_cl_device_number(cl_device_id device, cl_device_info what);

/// Whether `name` is a word of `extensions`, which are separated by spaces.
bool kilni_cl_has_extension(const char *extensions, const char *name);

/// Whether these are the extensions of NVIDIA's driver: it answers its own questions about a
/// device, and its compiler takes PTX.
bool kilni_cl_is_nvidia(const char *extensions);

#endif
