// SPDX-License-Identifier: MIT OR Apache-2.0
// One matrix product on CLBlast: which ones it can take, how its codes become errors. Its
// parameters are cl_blas_parameters.c's. What it cannot take (other dtypes, a length of 0, no
// compiler) is left to Kiln's own kernels.

#include "cl_blas.h"
#include "cl_blas_parameters.h"
#include "cl_buffer.h"
#include "cl_compiler.h"
#include "cl_error.h"
#include "cl_origin.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_state.h"
#include "cl_trace.h"

#include <clblast_c.h>
#include <stdatomic.h>
#include <string.h>

// CLBlast keeps every context alive in a cache of the process. It is emptied when the last backend
// that used it closes, which only a count of the process can tell.
static atomic_int backends_with_blas;

void kilni_cl_blas_close(kilni_cl_backend *backend)
{
    if (backend->blas_used && atomic_fetch_sub(&backends_with_blas, 1) == 1) {
        CLBlastClearCache();
    }
    backend->blas_used = false;
}

// ---- codes ----

// Shapes and operands were checked before: what CLBlast does not take then is Kiln's mistake or
// CLBlast's, and never an argument of the program.

static kiln_status blas_fail(kilni_cl_backend *backend, CLBlastStatusCode code,
                             const kilni_cl_gemm *gemm, kiln_error *err)
{
    if ((int)code > -100) { // the codes that it shares with OpenCL
        kiln_status shared =
            kilni_cl_fail(backend, err, (cl_int)code, "CLBlast on %lld x %lld x %lld",
                          (long long)gemm->m, (long long)gemm->n, (long long)gemm->k);
        if (shared == KILN_STATUS_INVALID_ARGUMENT) { // of CLBlast's calls, not of the program's
            shared = KILN_STATUS_INTERNAL;
        }
        if (err != NULL) {
            err->code = (int32_t)shared;
        }
        return shared;
    }
    kiln_status status = KILN_STATUS_INTERNAL;
    if (code == CLBlastNoHalfPrecision || code == CLBlastNoDoublePrecision ||
        code == CLBlastNotImplemented) {
        status = KILN_STATUS_UNIMPLEMENTED;
    } else if (code == CLBlastInvalidLocalMemUsage || code == CLBlastInsufficientMemoryTemp) {
        status = KILN_STATUS_RESOURCE_EXHAUSTED;
    } else if (code >= CLBlastInsufficientMemoryA && code <= CLBlastInsufficientMemoryC) {
        status = KILN_STATUS_OUT_OF_RANGE;
    }
    return kiln_error_set(err, status, KILN_FILE_NAME, __LINE__,
                          "CLBlast gives %d for a product of %lld x %lld x %lld, %lld times",
                          (int)code, (long long)gemm->m, (long long)gemm->n, (long long)gemm->k,
                          (long long)gemm->batch);
}

// ---- one product ----

bool kilni_cl_blas_takes(const kilni_cl_backend *backend, const kilni_cl_gemm *gemm)
{
    const uint32_t features = backend->info.features;
    bool dtype = gemm->dtype == KILN_DTYPE_F32 ||
                 (gemm->dtype == KILN_DTYPE_F64 && (features & KILN_FEATURE_FP64) != 0);
    // Its kernels count in 32 bits.
    int64_t largest = gemm->m > gemm->n ? gemm->m : gemm->n;
    largest = largest > gemm->k ? largest : gemm->k;
    return dtype && (features & KILN_FEATURE_COMPILER) != 0 && gemm->m > 0 && gemm->n > 0 &&
           gemm->k > 0 && gemm->batch > 0 && largest <= INT32_MAX / 2;
}

static CLBlastTranspose transpose_of(const kilni_cl_operand *operand)
{
    return operand->transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
}

static cl_mem mem_of(const kilni_cl_operand *operand)
{
    return kilni_cl_buffer_of(operand->buffer)->mem;
}

#define SIZE(value) ((size_t)(value))
#define OPERAND(x) mem_of(&(x)), SIZE((x).offset), SIZE((x).leading)
#define STRIDED(x) OPERAND(x), SIZE((x).batch_stride)

static CLBlastStatusCode run_single(kilni_cl_backend *backend, const kilni_cl_gemm *g,
                                    cl_event *event)
{
    CLBlastTranspose ta = transpose_of(&g->a);
    CLBlastTranspose tb = transpose_of(&g->b);
    if (g->dtype == KILN_DTYPE_F32) {
        return CLBlastSgemm(CLBlastLayoutRowMajor, ta, tb, SIZE(g->m), SIZE(g->n), SIZE(g->k), 1.0f,
                            OPERAND(g->a), OPERAND(g->b), 0.0f, OPERAND(g->c), &backend->queue,
                            event);
    }
    return CLBlastDgemm(CLBlastLayoutRowMajor, ta, tb, SIZE(g->m), SIZE(g->n), SIZE(g->k), 1.0,
                        OPERAND(g->a), OPERAND(g->b), 0.0, OPERAND(g->c), &backend->queue, event);
}

static CLBlastStatusCode run_batch(kilni_cl_backend *backend, const kilni_cl_gemm *g,
                                   cl_event *event)
{
    CLBlastTranspose ta = transpose_of(&g->a);
    CLBlastTranspose tb = transpose_of(&g->b);
    if (g->dtype == KILN_DTYPE_F32) {
        return CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, ta, tb, SIZE(g->m), SIZE(g->n),
                                          SIZE(g->k), 1.0f, STRIDED(g->a), STRIDED(g->b), 0.0f,
                                          STRIDED(g->c), SIZE(g->batch), &backend->queue, event);
    }
    return CLBlastDgemmStridedBatched(CLBlastLayoutRowMajor, ta, tb, SIZE(g->m), SIZE(g->n),
                                      SIZE(g->k), 1.0, STRIDED(g->a), STRIDED(g->b), 0.0,
                                      STRIDED(g->c), SIZE(g->batch), &backend->queue, event);
}

#undef SIZE
#undef OPERAND
#undef STRIDED

kiln_status kilni_cl_blas_gemm(kilni_cl_backend *backend, const kilni_cl_gemm *gemm,
                               kiln_error *err)
{
    kiln_status status = kilni_cl_usable(backend, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_reside(&backend->base, gemm->a.buffer, /*there=*/true, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_reside(&backend->base, gemm->b.buffer, /*there=*/true, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!backend->blas_used) {
        backend->blas_used = true;
        atomic_fetch_add(&backends_with_blas, 1);
    }
    kilni_cl_blas_parameters_ready(backend, gemm->dtype);
    cl_event event;
    cl_event *want = kilni_cl_trace_event(&backend->trace, &event);
    CLBlastStatusCode code =
        gemm->batch == 1 ? run_single(backend, gemm, want) : run_batch(backend, gemm, want);
    if (kilni_cl_is_memory_code((cl_int)code) && backend->pool.idle_bytes > 0) {
        status = kilni_cl_drain(backend, err); // its temporaries find no room beside idle buffers
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_cl_pool_trim(backend);
        code = gemm->batch == 1 ? run_single(backend, gemm, want) : run_batch(backend, gemm, want);
    }
    if (kilni_cl_compiler_refuses((cl_int)code)) {
        kilni_cl_compiler_gone(backend);
        return kilni_cl_compiler_missing(backend, "CLBlast", err);
    }
    if (code != CLBlastSuccess) {
        return blas_fail(backend, code, gemm, err);
    }
    backend->compiler.compiled = true;
    kilni_cl_trace_end(backend, "CLBlast gemm", event);
    backend->stats.kernels_launched++;
    return kilni_cl_queued(backend, err);
}

// ---- parameters from outside ----

// The library prints when it is asked for a kernel that it does not have, so it is not asked.
static bool is_blas_kernel(const char *name)
{
    static const char *const names[] = {"Xaxpy",        "Xdot",   "Xgemv",       "XgemvFast",
                                        "XgemvFastRot", "Xger",   "Xgemm",       "XgemmDirect",
                                        "GemmRoutine",  "Copy",   "Pad",         "Transpose",
                                        "Padtranspose", "Invert", "TrsvRoutine", "Xconvgemm"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

kiln_status kiln_cl_blas_override(kiln_backend *base, const char *kernel, kiln_dtype dtype,
                                  const char *const *names, const size_t *values, size_t count,
                                  kiln_error *err)
{
    enum { MAX_PARAMETERS = 32 };
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    const char *copy[MAX_PARAMETERS];
    if (!is_blas_kernel(kernel)) {
        return kiln_fail(err, INVALID_ARGUMENT, "CLBlast has no kernel %s", kernel);
    }
    if (count > MAX_PARAMETERS || (dtype != KILN_DTYPE_F32 && dtype != KILN_DTYPE_F64)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu parameters for %s in %s", count, kernel,
                         kiln_dtype_size(dtype) != 0 ? kiln_dtype_name(dtype) : "no dtype");
    }
    for (size_t i = 0; i < count; i++) {
        copy[i] = names[i];
    }
    kilni_cl_blas_parameters_ready(backend, dtype); // first, so that what is given here stays
    CLBlastStatusCode code = CLBlastOverrideParameters(
        backend->device, kernel,
        dtype == KILN_DTYPE_F32 ? CLBlastPrecisionSingle : CLBlastPrecisionDouble, count, copy,
        values);
    if (code != CLBlastSuccess) {
        return kiln_fail(err, INVALID_ARGUMENT, "CLBlast gives %d for %zu parameters of %s",
                         (int)code, count, kernel);
    }
    return KILN_STATUS_OK;
}
