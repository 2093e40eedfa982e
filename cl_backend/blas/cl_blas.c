// SPDX-License-Identifier: MIT OR Apache-2.0
// One matrix product on CLBlast: which ones it can take, its parameters, how its codes become
// errors. What it cannot take (other dtypes, a length of 0, no compiler) is left to Kiln's own
// kernels.

#include "cl_blas.h"
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

static kiln_status blas_fail(kilni_cl_backend *backend, CLBlastStatusCode code,
                             const kilni_cl_gemm *gemm, kiln_error *err)
{
    if ((int)code > -100) { // the codes that it shares with OpenCL
        return kilni_cl_fail(backend, err, (cl_int)code, "CLBlast on %lld x %lld x %lld",
                             (long long)gemm->m, (long long)gemm->n, (long long)gemm->k);
    }
    kiln_status status = KILN_STATUS_INTERNAL;
    if (code == CLBlastNoHalfPrecision || code == CLBlastNoDoublePrecision ||
        code == CLBlastNotImplemented) {
        status = KILN_STATUS_UNIMPLEMENTED;
    } else if (code == CLBlastInvalidLocalMemUsage || code == CLBlastInsufficientMemoryTemp) {
        status = KILN_STATUS_RESOURCE_EXHAUSTED;
    } else if (code >= CLBlastInsufficientMemoryA && code <= CLBlastInsufficientMemoryC) {
        status = KILN_STATUS_OUT_OF_RANGE;
    } else if (code <= CLBlastInsufficientMemoryY && code >= CLBlastNotImplemented) {
        status = KILN_STATUS_INVALID_ARGUMENT;
    }
    return kiln_error_set(err, status, KILN_FILE_NAME, __LINE__,
                          "CLBlast gives %d for a product of %lld x %lld x %lld, %lld times",
                          (int)code, (long long)gemm->m, (long long)gemm->n, (long long)gemm->k,
                          (long long)gemm->batch);
}

// ---- parameters for CPUs ----

static CLBlastPrecision precision_of(kiln_dtype dtype)
{
    return dtype == KILN_DTYPE_F32 ? CLBlastPrecisionSingle : CLBlastPrecisionDouble;
}

// CLBlast's own choice for a CPU splits a tile over work-items and reaches a tenth of the machine.
// With one work-item for each tile, no local memory (so no barrier) and rows as vectors of the
// machine's width, PoCL keeps the tile in registers: 13 times as fast at 256 x 256 x 256 on two
// cores with AVX-512.
static CLBlastStatusCode tune_cpu(const kilni_cl_backend *backend, kiln_dtype dtype)
{
    const char *names[] = {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB",
                           "NDIMC", "NWG",  "SA",  "SB",  "STRM",  "STRN",  "VWM", "VWN"};
    const char *limit_name[] = {"XGEMM_MIN_INDIRECT_SIZE"};
    const size_t limit = 40; // smaller products use the kernel that needs no padding
    size_t lanes = backend->info.vector_bytes / kiln_dtype_size(dtype);
    lanes = lanes > 16 ? 16 : lanes < 2 ? 2 : lanes;
    size_t columns = backend->info.vector_bytes >= 64 ? 8 : 4; // 2 * columns registers of sums
    const size_t values[] = {0, 1,       32, 1, 1, 1, 2 * lanes, 1,
                             1, columns, 0,  0, 0, 0, lanes,     columns};
    CLBlastStatusCode code =
        CLBlastOverrideParameters(backend->device, "Xgemm", precision_of(dtype),
                                  sizeof(values) / sizeof(values[0]), names, values);
    if (code == CLBlastSuccess) {
        code = CLBlastOverrideParameters(backend->device, "GemmRoutine", precision_of(dtype), 1,
                                         limit_name, &limit);
    }
    return code;
}

// The library keeps parameters for the process, and an override makes it compile again: once for
// each device.
static void tune(const kilni_cl_backend *backend, kiln_dtype dtype)
{
    enum { MAX_TUNED = 32 };
    static _Atomic(cl_device_id) tuned[2][MAX_TUNED];
    int row = dtype == KILN_DTYPE_F32 ? 0 : 1;
    if (backend->info.type != KILN_DEVICE_CPU) {
        return;
    }
    for (int i = 0; i < MAX_TUNED; i++) {
        cl_device_id present = NULL;
        if (atomic_compare_exchange_strong(&tuned[row][i], &present, backend->device)) {
            CLBlastStatusCode code = tune_cpu(backend, dtype);
            if (code != CLBlastSuccess) {
                kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend",
                               "CLBlast gives %d for the parameters of a CPU", (int)code);
            }
            return;
        }
        if (present == backend->device) {
            return;
        }
    }
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

// One right-hand side for a dense batch of left-hand sides is one tall product.
static void fold_batch(kilni_cl_gemm *gemm)
{
    if (gemm->batch > 1 && gemm->b.batch_stride == 0 && !gemm->a.transposed &&
        gemm->a.batch_stride == gemm->m * gemm->a.leading &&
        gemm->c.batch_stride == gemm->m * gemm->c.leading &&
        gemm->m <= INT32_MAX / 2 / gemm->batch) {
        gemm->m *= gemm->batch;
        gemm->batch = 1;
    }
}

kiln_status kilni_cl_blas_gemm(kilni_cl_backend *backend, const kilni_cl_gemm *given,
                               kiln_error *err)
{
    kiln_status status = kilni_cl_usable(backend, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_reside(&backend->base, given->a.buffer, /*there=*/true, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_reside(&backend->base, given->b.buffer, /*there=*/true, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!backend->blas_used) {
        backend->blas_used = true;
        atomic_fetch_add(&backends_with_blas, 1);
    }
    kilni_cl_gemm gemm = *given;
    tune(backend, gemm.dtype);
    fold_batch(&gemm);
    cl_event event;
    cl_event *want = kilni_cl_trace_event(&backend->trace, &event);
    CLBlastStatusCode code =
        gemm.batch == 1 ? run_single(backend, &gemm, want) : run_batch(backend, &gemm, want);
    if (kilni_cl_is_memory_code((cl_int)code) && backend->pool.idle_bytes > 0) {
        status = kilni_cl_drain(backend, err); // its temporaries find no room beside idle buffers
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_cl_pool_trim(backend);
        code = gemm.batch == 1 ? run_single(backend, &gemm, want) : run_batch(backend, &gemm, want);
    }
    if (kilni_cl_compiler_refuses((cl_int)code)) {
        kilni_cl_compiler_gone(backend);
        return kilni_cl_compiler_missing(backend, "CLBlast", err);
    }
    if (code != CLBlastSuccess) {
        return blas_fail(backend, code, &gemm, err);
    }
    backend->compiler.compiled = true;
    kilni_cl_trace_end(backend, "CLBlast gemm", event);
    backend->stats.kernels_launched++;
    return kilni_cl_queued(backend, err);
}

// ---- tuning ----

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
    tune(backend, dtype); // first, so that what is given here stays
    CLBlastStatusCode code = CLBlastOverrideParameters(backend->device, kernel, precision_of(dtype),
                                                       count, copy, values);
    if (code != CLBlastSuccess) {
        return kiln_fail(err, INVALID_ARGUMENT, "CLBlast gives %d for %zu parameters of %s",
                         (int)code, count, kernel);
    }
    return KILN_STATUS_OK;
}
