// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_REST_H
#define KILNI_CL_REST_H

/// Pages of a driver's compiler that nothing uses now.

#include <stddef.h>

/// Lets the system have the pages of LLVM's code, which it brings back when they are needed. Gives
/// how many bytes that are at most. Any thread.
size_t kilni_cl_rest_compiler(void);

#endif
