// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BLAS_H
#define KILNI_CL_BLAS_H

/// One matrix product on the BLAS library.

#include "cl_opencl.h"

typedef struct kilni_cl_operand {
    kiln_buffer *buffer;
    int64_t offset;
    int64_t leading;
    int64_t batch_stride; ///< 0: the same for all
    bool transposed;
} kilni_cl_operand;

/// c[m,n] = a[m,k] b[k,n], row-major, `batch` times with strides (in elements) from one to the
/// next. A transposed operand is stored [k,m] or [n,k]; offsets and leading dimensions are in
/// elements.
typedef struct kilni_cl_gemm {
    kiln_dtype dtype;
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t batch;
    kilni_cl_operand a;
    kilni_cl_operand b;
    kilni_cl_operand c; ///< never transposed, batch_stride at least m * leading
} kilni_cl_gemm;

/// Whether it may be called: f32 or f64 with the device's support, a compiler, no length of 0.
bool kilni_cl_blas_takes(const kilni_cl_backend *backend, const kilni_cl_gemm *gemm);
KILN_NODISCARD kiln_status kilni_cl_blas_gemm(kilni_cl_backend *backend, const kilni_cl_gemm *gemm,
                                              kiln_error *err);
void kilni_cl_blas_close(kilni_cl_backend *backend);

#endif
