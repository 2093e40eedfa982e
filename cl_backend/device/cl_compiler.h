// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_COMPILER_H
#define KILNI_CL_COMPILER_H

/// Whether the device compiles, or only runs what is stored.

#include "cl_opencl.h"

typedef enum kilni_cl_ptx { ///< programs for another target than the driver's own
    KILNI_CL_PTX_UNTRIED,
    KILNI_CL_PTX_RIGHT,
    KILNI_CL_PTX_WRONG
} kilni_cl_ptx;

typedef struct kilni_cl_compiler {
    const char *exact_options; ///< for strict arithmetic, with a space at the end
    bool declares; ///< texts may bring declarations of built-in functions (cl_builtins.h)
    bool compiles; ///< source; else only what is stored
    bool compiled; ///< some source, well or not: it does have a compiler
    bool doubted; ///< it has none, as a process before noted
    kilni_cl_ptx ptx; ///< what the trial said (cl_ptx.h)
} kilni_cl_compiler;

/// Sets what compiles and the features that follow, from the device and the option `compiler`.
kiln_status kilni_cl_compiler_init(kilni_cl_backend *backend, kiln_error *err);
bool kilni_cl_compiler_refuses(cl_int code);
/// The device has refused: it has no compiler from now on, and the next process asks it first.
void kilni_cl_compiler_gone(kilni_cl_backend *backend);
/// Asks a device that refused in a process before, once the store is open.
void kilni_cl_compiler_recall(kilni_cl_backend *backend);
/// As the backend's table says.
bool kilni_cl_compiles(kiln_backend *base, bool ask);
/// UNIMPLEMENTED, with what is missing and how to make it.
kiln_status kilni_cl_compiler_missing(const kilni_cl_backend *backend, const char *label,
                                      kiln_error *err);

#endif
