// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BUILT_H
#define KILNI_CL_BUILT_H

/// Programs of fusers, as the backend's table says.

#include "cl_opencl.h"

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

#endif
