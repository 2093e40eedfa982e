// SPDX-License-Identifier: MIT OR Apache-2.0
// In the place of the other files of this folder where there is no BLAS library: it takes nothing,
// so products run on the backend's own kernels and on what fusers offer.
#include "cl_backend.h"
#include "cl_blas.h"

#define NO_LIBRARY "this build of Kiln has no BLAS library"

bool kilni_cl_blas_takes(const kilni_cl_backend *backend, const kilni_cl_gemm *gemm)
{
    (void)backend;
    (void)gemm;
    return false;
}

kiln_status kilni_cl_blas_gemm(kilni_cl_backend *backend, const kilni_cl_gemm *gemm,
                               kiln_error *err)
{
    (void)backend;
    (void)gemm;
    return kiln_fail(err, UNIMPLEMENTED, NO_LIBRARY);
}

void kilni_cl_blas_close(kilni_cl_backend *backend)
{
    (void)backend;
}

kiln_status kiln_cl_blas_override(kiln_backend *backend, const char *kernel, kiln_dtype dtype,
                                  const char *const *names, const size_t *values, size_t count,
                                  kiln_error *err)
{
    (void)backend;
    (void)kernel;
    (void)dtype;
    (void)names;
    (void)values;
    (void)count;
    return kiln_fail(err, UNIMPLEMENTED, NO_LIBRARY);
}

kiln_status kiln_cl_blas_search(kiln_backend *backend, kiln_dtype dtype, uint64_t budget_ns,
                                void (*progress)(double done, void *user), void *user,
                                kiln_cl_blas_report *out_report, kiln_error *err)
{
    (void)backend;
    (void)dtype;
    (void)budget_ns;
    (void)progress;
    (void)user;
    (void)out_report;
    return kiln_fail(err, UNIMPLEMENTED, NO_LIBRARY);
}

uint64_t kiln_cl_blas_searched(kiln_backend *backend, kiln_dtype dtype, bool *out_fresh)
{
    (void)backend;
    (void)dtype;
    *out_fresh = false;
    return 0;
}

kiln_status kiln_cl_blas_export(kiln_backend *backend, kiln_string *out, kiln_error *err)
{
    (void)backend;
    (void)out;
    (void)err;
    return KILN_STATUS_OK; // there is nothing to append
}

kiln_status kiln_cl_blas_import(kiln_backend *backend, const char *text, size_t length,
                                uint32_t *out_lines, kiln_error *err)
{
    (void)backend;
    (void)text;
    (void)length;
    (void)out_lines;
    return kiln_fail(err, UNIMPLEMENTED, NO_LIBRARY);
}
