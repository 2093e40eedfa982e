// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BUILT_H
#define KILNI_CL_BUILT_H

/// Programs of fusers, as the backend's table says.

#include "cl_launch.h"

kiln_status kilni_cl_built_ready(kiln_backend *base, const kiln_program *program, kiln_error *err);
kiln_status kilni_cl_built_parts(kiln_backend *base, const kiln_program *program,
                                 kiln_program_part_fn take, void *user, kiln_error *err);
kiln_status kilni_cl_built_create(kiln_backend *base, const kiln_program *program,
                                  kiln_built **out_built, kiln_error *err);
void kilni_cl_built_free(kiln_backend *base, kiln_built *built);
kiln_status kilni_cl_built_launch(kiln_backend *base, kiln_built *built, const kiln_launch *launch,
                                  kiln_error *err);
kiln_status kilni_cl_built_time(kiln_backend *base, kiln_built *built, const kiln_launch *launch,
                                uint64_t *out_ns, kiln_error *err);

typedef struct kilni_cl_launch_kernels { ///< of one launch of a program
    kilni_cl_kernel *plain;
    kilni_cl_kernel *packed; ///< takes the same in one argument; NULL: there is none
} kilni_cl_launch_kernels;

/// The kernels of a launch, which it fits.
kiln_status kilni_cl_built_kernels(kiln_built *built, const kiln_launch *launch,
                                   kilni_cl_launch_kernels *out_kernels, kiln_error *err);
/// Sets all arguments in one of the kernels, which is the one to be enqueued.
kilni_cl_args kilni_cl_built_args(kilni_cl_backend *backend, const kilni_cl_launch_kernels *kernels,
                                  const kiln_launch *launch);
/// The local size; NULL: the driver chooses.
const size_t *kilni_cl_built_local(const kilni_cl_launch_kernels *kernels,
                                   const kiln_launch *launch);

#endif
