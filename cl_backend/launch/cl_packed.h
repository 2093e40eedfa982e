// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_PACKED_H
#define KILNI_CL_PACKED_H

/// Launches with many buffers, whose arguments are one value.

#include "cl_launch.h"

/// Writes, behind a source of a program, kernels that take all arguments as one value.
void kilni_cl_packed_text(kilni_cl_backend *backend, const kiln_program *program, uint32_t source,
                          kiln_string *text);
/// The name of the kernel that launch `index` is packed for, in `name`; false: it is not.
bool kilni_cl_packed_name(kilni_cl_backend *backend, const kiln_program *program, uint32_t index,
                          kiln_string *name);
/// Sets the arguments of a kernel of packed_text. False: the driver has to be told each buffer.
bool kilni_cl_packed_args(kilni_cl_backend *backend, kilni_cl_kernel *packed,
                          const kiln_launch *launch, kilni_cl_args *out_args);

#endif
