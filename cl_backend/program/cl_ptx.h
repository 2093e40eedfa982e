// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_PTX_H
#define KILNI_CL_PTX_H

/// Programs for one generation of NVIDIA's devices. The driver makes PTX of OpenCL C for a target
/// that every later device has, too, such as sm_90; instructions of sm_90a alone are refused in it.
/// So a source that is built with `-DKILN_PTX_TARGET=sm_90a` hides them in comments that begin
/// `//@`, in inline assembly; its PTX is taken, made out for that target with the comments opened,
/// and given back to the driver.

#include "cl_opencl.h"

/// The target that options ask for, without what follows it; NULL: none.
const char *kilni_cl_ptx_target(const char *options);
/// PTX (`length` bytes, with or without its 0) for the target, which ends at a space or 0. The
/// caller's (kiln_free), ended by 0; NULL: no memory, or it has no line .target.
char *kilni_cl_ptx_retarget(const kiln_env *env, const char *ptx, size_t length,
                            const char *target);
/// Replaces a program that was built by one for the target in `options`, built too. Gives what
/// OpenCL says; on failure the program stays for its log.
cl_int kilni_cl_ptx_assemble(kilni_cl_backend *backend, const char *options, cl_program *program);
/// Whether a small program for sm_90a computes on this device what it should (some 60 ms).
bool kilni_cl_ptx_trial(kilni_cl_backend *backend);

#endif
