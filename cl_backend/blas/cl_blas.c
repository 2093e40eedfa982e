// SPDX-License-Identifier: MIT OR Apache-2.0
// Matrix products on CLBlast: which ones it can take, how views become leading dimensions and
// strides, how its codes become errors. What it cannot take (other dtypes, a length of 0, no
// compiler) is left to Kiln's own kernels.

#include "cl_internal.h" // first: it says which OpenCL version the headers are for

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
    cl_event *want = kilni_cl_trace_event(backend, &event);
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
    backend->compiled = true;
    kilni_cl_trace_end(backend, "CLBlast gemm", event);
    backend->stats.kernels_launched++;
    return kilni_cl_queued(backend, err);
}

// ---- the operator ----

typedef struct matrix { ///< an operand as a logical matrix with batch axes in front
    kiln_view view;
    int64_t rows;
    int64_t cols;
    int64_t row_stride;
    int64_t col_stride;
    uint32_t batch_rank;
} matrix;

// Rank 1 is a row on the left and a column on the right, as in NumPy.
static matrix matrix_of(const kiln_view *view, bool transpose, bool left)
{
    matrix m = {.view = *view, .rows = 1, .cols = 1};
    uint32_t rank = view->rank;
    if (rank == 1 && left) {
        m.cols = view->dims[0];
        m.col_stride = view->strides[0];
        m.row_stride = m.cols;
    } else if (rank == 1) {
        m.rows = view->dims[0];
        m.row_stride = view->strides[0];
        m.col_stride = m.rows;
    } else {
        uint32_t row = rank - (transpose ? 1u : 2u);
        uint32_t col = rank - (transpose ? 2u : 1u);
        m.rows = view->dims[row];
        m.cols = view->dims[col];
        m.row_stride = view->strides[row];
        m.col_stride = view->strides[col];
        m.batch_rank = rank - 2;
    }
    return m;
}

// Whether the library can read the matrix where it lies, plain or as its transpose.
static bool express(const matrix *m, kilni_cl_operand *out)
{
    int64_t size = (int64_t)kiln_dtype_size(m->view.dtype);
    if (m->view.offset_bytes % size != 0) {
        return false;
    }
    out->buffer = m->view.buffer;
    out->offset = m->view.offset_bytes / size;
    bool unit_cols = m->col_stride == 1 || m->cols == 1;
    bool unit_rows = m->row_stride == 1 || m->rows == 1;
    if (unit_cols && (m->rows == 1 || m->row_stride >= m->cols)) {
        out->transposed = false;
        out->leading = m->rows == 1 ? m->cols : m->row_stride;
        return out->leading <= INT32_MAX;
    }
    if (unit_rows && (m->cols == 1 || m->col_stride >= m->rows)) {
        out->transposed = true;
        out->leading = m->cols == 1 ? m->rows : m->col_stride;
        return out->leading <= INT32_MAX;
    }
    return false;
}

// A dense copy of an operand; the view then describes the copy.
static kiln_status make_dense(kilni_cl_backend *backend, kiln_view *view, kiln_buffer **out_copy,
                              kiln_error *err)
{
    kiln_tensor_desc desc[2];
    memset(desc, 0, sizeof(desc));
    desc[0].id = 1;
    desc[0].dtype = view->dtype;
    desc[0].rank = (uint8_t)view->rank;
    memcpy(desc[0].dims, view->dims, view->rank * sizeof(view->dims[0]));
    desc[1] = desc[0];
    desc[1].id = 2;
    kiln_op_record record = {.op = KILN_OP_CONTIGUOUS,
                             .n_inputs = 1,
                             .n_outputs = 1,
                             .inputs = &desc[0],
                             .outputs = &desc[1]};
    kiln_buffer *copy = NULL;
    kiln_status status = kilni_cl_alloc(backend, (size_t)kiln_desc_bytes(&desc[1]), &copy, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_view dense = kiln_view_dense(&desc[1], copy);
    status = kilni_cl_execute_own(backend, &record, view, &dense, err);
    if (status != KILN_STATUS_OK) {
        kilni_cl_free(backend, copy);
        return status;
    }
    *out_copy = copy;
    *view = dense;
    return KILN_STATUS_OK;
}

static kiln_status prepare(kilni_cl_backend *backend, matrix *m, bool transpose, bool left,
                           kilni_cl_operand *out, kiln_buffer **out_copy, kiln_error *err)
{
    if (express(m, out)) {
        return KILN_STATUS_OK;
    }
    kiln_view view = m->view;
    kiln_status status = make_dense(backend, &view, out_copy, err);
    if (status == KILN_STATUS_OK) {
        *m = matrix_of(&view, transpose, left);
        if (!express(m, out)) {
            status = kiln_fail(err, INTERNAL, "a dense matrix cannot be expressed");
        }
    }
    return status;
}

// Stride of `m` along axis `axis` of a result with `rank` batch axes; 0 where it repeats.
static int64_t batch_stride(const matrix *m, uint32_t rank, uint32_t axis)
{
    uint32_t missing = rank - m->batch_rank;
    if (axis < missing || m->view.dims[axis - missing] == 1) {
        return 0;
    }
    return m->view.strides[axis - missing];
}

typedef struct batch { ///< batch axes: the inner ones as one strided batch, the outer ones as a
                       ///< loop
    uint32_t rank;
    uint32_t loop_rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t stride_a[KILN_MAX_RANK];
    int64_t stride_b[KILN_MAX_RANK];
} batch;

// Axes of length 1 go; what is left keeps its order.
static batch batch_of(const matrix *a, const matrix *b, const kiln_view *out, uint32_t rank)
{
    batch axes = {0};
    for (uint32_t i = 0; i < rank; i++) {
        if (out->dims[i] != 1) {
            axes.dims[axes.rank] = out->dims[i];
            axes.stride_a[axes.rank] = batch_stride(a, rank, i);
            axes.stride_b[axes.rank] = batch_stride(b, rank, i);
            axes.rank++;
        }
    }
    return axes;
}

// Merges inner axes while both operands step evenly over them, and sets the strided batch.
static void merge_inner(batch *axes, kilni_cl_gemm *gemm)
{
    gemm->batch = 1;
    axes->loop_rank = axes->rank;
    if (axes->rank == 0) {
        return;
    }
    uint32_t inner = axes->rank - 1;
    if (axes->stride_a[inner] < 0 || axes->stride_b[inner] < 0) {
        return;
    }
    gemm->batch = axes->dims[inner];
    gemm->a.batch_stride = axes->stride_a[inner];
    gemm->b.batch_stride = axes->stride_b[inner];
    while (inner > 0 && axes->stride_a[inner - 1] == gemm->a.batch_stride * gemm->batch &&
           axes->stride_b[inner - 1] == gemm->b.batch_stride * gemm->batch) {
        inner--;
        gemm->batch *= axes->dims[inner];
    }
    axes->loop_rank = inner;
}

static kiln_status run_loop(kilni_cl_backend *backend, const batch *axes,
                            const kilni_cl_gemm *first, kiln_error *err)
{
    int64_t index[KILN_MAX_RANK] = {0};
    kilni_cl_gemm gemm = *first;
    for (;;) {
        kiln_status status = kilni_cl_blas_gemm(backend, &gemm, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        gemm.c.offset += gemm.c.batch_stride * gemm.batch;
        uint32_t axis = axes->loop_rank;
        while (axis > 0 && index[axis - 1] + 1 == axes->dims[axis - 1]) {
            axis--;
            gemm.a.offset -= index[axis] * axes->stride_a[axis];
            gemm.b.offset -= index[axis] * axes->stride_b[axis];
            index[axis] = 0;
        }
        if (axis == 0) {
            return KILN_STATUS_OK;
        }
        index[axis - 1]++;
        gemm.a.offset += axes->stride_a[axis - 1];
        gemm.b.offset += axes->stride_b[axis - 1];
    }
}

static kiln_status run_matmul(kilni_cl_backend *backend, const matrix *a, const matrix *b,
                              const kiln_view *out, kilni_cl_gemm *gemm, kiln_error *err)
{
    uint32_t batch_rank = a->batch_rank > b->batch_rank ? a->batch_rank : b->batch_rank;
    batch axes = batch_of(a, b, out, batch_rank);
    merge_inner(&axes, gemm);
    gemm->c.leading = gemm->n;
    gemm->c.batch_stride = gemm->m * gemm->n;
    gemm->c.buffer = out->buffer;
    gemm->c.offset = out->offset_bytes / (int64_t)kiln_dtype_size(out->dtype);
    kiln_status status = run_loop(backend, &axes, gemm, err);
    if (status == KILN_STATUS_OK) {
        backend->stats.blas_calls++;
    }
    return status;
}

static int64_t element_count(const kiln_view *view)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) {
        count *= view->dims[i];
    }
    return count;
}

// Whether its kernels, which count elements in 32 bits, reach all of a matrix: where it lies, and
// in a copy with lengths rounded up to tiles.
static bool is_in_reach(const kiln_view *view, int64_t rows, int64_t cols)
{
    enum { TILE = 128 };
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size = (int64_t)kiln_dtype_size(view->dtype);
    kiln_view_extent(view, &begin, &end);
    int64_t repeats = rows > 0 && cols > 0 ? element_count(view) / rows / cols : 0;
    int64_t padded =
        rows <= INT32_MAX && cols <= INT32_MAX ? (rows + TILE) * (cols + TILE) : INT64_MAX;
    return end / size <= INT32_MAX && padded <= INT32_MAX && repeats <= INT32_MAX / padded;
}

kiln_status kilni_cl_blas_matmul(kilni_cl_backend *backend, const kiln_op_record *record,
                                 const kiln_view *inputs, const kiln_view *outputs, bool *out_done,
                                 kiln_error *err)
{
    bool transpose_a = kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_A) != 0;
    bool transpose_b = kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_B) != 0;
    matrix a = matrix_of(&inputs[0], transpose_a, /*left=*/true);
    matrix b = matrix_of(&inputs[1], transpose_b, /*left=*/false);
    kilni_cl_gemm gemm = {
        .dtype = outputs[0].dtype, .m = a.rows, .n = b.cols, .k = a.cols, .batch = 1};
    kiln_buffer *copies[2] = {NULL, NULL};
    kiln_status status = KILN_STATUS_OK;
    int64_t size = (int64_t)kiln_dtype_size(outputs[0].dtype);
    *out_done = false;
    if (!kilni_cl_blas_takes(backend, &gemm) || element_count(&outputs[0]) == 0 ||
        outputs[0].offset_bytes % size != 0 || !is_in_reach(&inputs[0], a.rows, a.cols) ||
        !is_in_reach(&inputs[1], b.rows, b.cols) || !is_in_reach(&outputs[0], gemm.m, gemm.n)) {
        return KILN_STATUS_OK;
    }
    KILN_TRY(out, status, prepare(backend, &a, transpose_a, true, &gemm.a, &copies[0], err));
    KILN_TRY(out, status, prepare(backend, &b, transpose_b, false, &gemm.b, &copies[1], err));
    KILN_TRY(out, status, run_matmul(backend, &a, &b, &outputs[0], &gemm, err));
    *out_done = true;
out:
    kilni_cl_free(backend, copies[0]);
    kilni_cl_free(backend, copies[1]);
    return status;
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
