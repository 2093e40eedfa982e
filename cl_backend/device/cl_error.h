// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_ERROR_H
#define KILNI_CL_ERROR_H

/// What a code of OpenCL's means.

#include "cl_opencl.h"

/// Name of a CL error code, such as "CL_OUT_OF_RESOURCES".
const char *kilni_cl_code_name(cl_int code);
bool kilni_cl_is_memory_code(cl_int code); ///< worth another try after a trim

/// Status for a CL error code, with "text: CL_NAME (number)" in `err`. Marks the backend (which may
/// be NULL) lost where the code says so; `_wait` is for codes that a wait gave, where more of them
/// say so.
kiln_status kilni_cl_fail_at(kilni_cl_backend *backend, kiln_error *err, bool waited, cl_int code,
                             const char *file, int line, const char *format, ...) KILN_PRINTF(7, 8);
#define kilni_cl_fail(backend, err, code, ...)                                                     \
    kilni_cl_fail_at((backend), (err), false, (code), KILN_FILE_NAME, __LINE__, __VA_ARGS__)
#define kilni_cl_fail_wait(backend, err, code, ...)                                                \
    kilni_cl_fail_at((backend), (err), true, (code), KILN_FILE_NAME, __LINE__, __VA_ARGS__)

#endif
