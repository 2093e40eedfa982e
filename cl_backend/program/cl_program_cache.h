// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_PROGRAM_CACHE_H
#define KILNI_CL_PROGRAM_CACHE_H

/// Programs on disk.

#include "cl_program.h"

/// From the store; false: it is to be compiled.
bool kilni_cl_program_load(kilni_cl_backend *backend, const kilni_cl_build *build,
                           kilni_cl_program *program);
/// What has to be written sooner or later: a program was compiled, a kernel ran in this shape.
void kilni_cl_program_compiled(kilni_cl_backend *backend, kilni_cl_program *program);
void kilni_cl_program_ran(kilni_cl_backend *backend, kilni_cl_kernel *kernel, cl_uint dims,
                          const size_t *global, const size_t *local);
/// Writes one that the store lacks and that goes from memory.
void kilni_cl_program_save(kilni_cl_backend *backend, kilni_cl_program *program);
void kilni_cl_programs_save(kilni_cl_backend *backend);
void kilni_cl_programs_quiet(kilni_cl_backend *backend); ///< saves when no build was near

#endif
