// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BUILTINS_H
#define KILNI_CL_BUILTINS_H

/// Declarations of OpenCL C's built-in functions, in place of a header of 12,000 of them that a
/// driver has clang read for each program. Any thread.

#include <stdbool.h>
#include <stddef.h>

#include "base_memory.h"

/// Makes the driver's header declare nothing (clang's opencl-c.h: this is its guard).
#define KILNI_CL_BUILTINS_OPTION "-D_OPENCL_H_"

/// Whether the driver of this version reads such a header, and nothing else comes from it.
bool kilni_cl_builtins_known(const char *driver, const char *extensions);
/// Appends what declares the functions that a text and its options name. False: the text may need
/// one that is not known here, or there is no memory; then it is for the header.
bool kilni_cl_builtins_declare(const char *text, size_t length, const char *options,
                               kiln_string *out);

#endif
