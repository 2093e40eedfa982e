// SPDX-License-Identifier: MIT OR Apache-2.0
// The operator matmul on a BLAS library: how views become leading dimensions and strides, and batch
// axes strided batches.
#include <inttypes.h>

#include "cl_blas.h"
#include "cl_blas_parameters.h"
#include "exec_internal.h"

typedef struct blas_matrix { ///< an operand as a logical matrix with batch axes in front
    kiln_view view;
    int64_t rows;
    int64_t cols;
    int64_t row_stride;
    int64_t col_stride;
    uint32_t batch_rank;
} blas_matrix;

// Rank 1 is a row on the left and a column on the right, as in NumPy.
static blas_matrix blas_matrix_of(const kiln_view *view, bool transpose, bool left)
{
    blas_matrix m = {.view = *view, .rows = 1, .cols = 1};
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
static bool express(const blas_matrix *m, kilni_cl_operand *out)
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

// Where it cannot, a dense copy in scratch memory takes its place.
static kiln_status prepare(kilni_exec *exec, blas_matrix *m, bool transpose, bool left,
                           kilni_cl_operand *out)
{
    kiln_view dense;
    if (express(m, out)) {
        return KILN_STATUS_OK;
    }
    int64_t size = (int64_t)kiln_dtype_size(m->view.dtype);
    if (m->view.offset_bytes % size != 0) {
        return kiln_fail(exec->err, INVALID_ARGUMENT,
                         "matmul: a tensor of %s starts at byte %" PRId64,
                         kiln_dtype_name(m->view.dtype), m->view.offset_bytes);
    }
    kiln_status status = kilni_exec_dense(exec, &m->view, &dense);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    *m = blas_matrix_of(&dense, transpose, left);
    return express(m, out) ? KILN_STATUS_OK
                           : kiln_fail(exec->err, INTERNAL, "a dense matrix cannot be expressed");
}

// Stride of `m` along axis `axis` of a result with `rank` batch axes; 0 where it repeats.
static int64_t batch_stride(const blas_matrix *m, uint32_t rank, uint32_t axis)
{
    uint32_t missing = rank - m->batch_rank;
    if (axis < missing || m->view.dims[axis - missing] == 1) {
        return 0;
    }
    return m->view.strides[axis - missing];
}

typedef struct blas_batch { ///< batch axes: the inner ones as one strided batch, the outer ones as
                            ///< a
    ///< loop
    uint32_t rank;
    uint32_t loop_rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t stride_a[KILN_MAX_RANK];
    int64_t stride_b[KILN_MAX_RANK];
} blas_batch;

// Axes of length 1 go; what is left keeps its order.
static blas_batch batch_of(const blas_matrix *a, const blas_matrix *b, const kiln_view *out,
                           uint32_t rank)
{
    blas_batch axes = {0};
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
static void merge_inner(blas_batch *axes, kilni_cl_gemm *gemm)
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

// CLBlast copies the operands of a batch into whole tiles. One that is in whole tiles already it
// reads where it lies, but (as of 1.5.3) from the start of its buffer, one dense matrix behind the
// other, whatever offset and stride it is given. With the parameter GEMMK of 1, which some devices
// have, it writes the result so, too. Tiles have at least 4 rows and columns of the result.
static bool is_misread(const kilni_cl_operand *x, int64_t rows, int64_t cols, bool moves)
{
    bool dense = x->leading == (x->transposed ? rows : cols);
    return dense && !(x->offset == 0 && x->batch_stride == rows * cols && !moves);
}

// Whether an operand stands elsewhere in a later turn of the loop.
static bool moves_in(const int64_t *strides, uint32_t loop_rank)
{
    for (uint32_t i = 0; i < loop_rank; i++) {
        if (strides[i] != 0) {
            return true;
        }
    }
    return false;
}

static bool is_read_right(const blas_batch *axes, const kilni_cl_gemm *gemm)
{
    bool rows = gemm->m % KILNI_CL_BLAS_LEAST_TILE == 0; // may be whole tiles
    bool cols = gemm->n % KILNI_CL_BLAS_LEAST_TILE == 0;
    bool a_moves = moves_in(axes->stride_a, axes->loop_rank);
    bool b_moves = moves_in(axes->stride_b, axes->loop_rank);
    bool c_moves = gemm->c.offset != 0 || axes->loop_rank > 0;
    return gemm->batch == 1 || ((!rows || !is_misread(&gemm->a, gemm->m, gemm->k, a_moves)) &&
                                (!cols || !is_misread(&gemm->b, gemm->k, gemm->n, b_moves)) &&
                                (!rows || !cols || !c_moves));
}

// One right-hand side for a dense batch of left-hand sides is one tall product.
static void fold_batch(kilni_cl_gemm *gemm)
{
    if (gemm->batch > 1 && gemm->b.batch_stride == 0 && !gemm->a.transposed &&
        gemm->a.batch_stride == gemm->m * gemm->a.leading &&
        gemm->m <= INT32_MAX / 2 / gemm->batch) {
        gemm->m *= gemm->batch;
        gemm->c.batch_stride *= gemm->batch;
        gemm->batch = 1;
    }
}

static kiln_status run_loop(kilni_cl_backend *backend, const blas_batch *axes,
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

static kiln_status run_matmul(kilni_cl_backend *backend, const blas_matrix *a, const blas_matrix *b,
                              const kiln_view *out, kilni_cl_gemm *gemm, bool *out_done,
                              kiln_error *err)
{
    uint32_t batch_rank = a->batch_rank > b->batch_rank ? a->batch_rank : b->batch_rank;
    blas_batch axes = batch_of(a, b, out, batch_rank);
    merge_inner(&axes, gemm);
    gemm->c.buffer = out->buffer;
    gemm->c.offset = out->offset_bytes / (int64_t)kiln_dtype_size(out->dtype);
    gemm->c.leading = gemm->n;
    gemm->c.batch_stride = gemm->m * gemm->n;
    fold_batch(gemm);
    if (!is_read_right(&axes, gemm)) {
        return KILN_STATUS_OK;
    }
    kiln_status status = run_loop(backend, &axes, gemm, err);
    if (status == KILN_STATUS_OK) {
        backend->stats.blas_calls++;
        *out_done = true;
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
    enum { BLAS_TILE = 128 };
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size = (int64_t)kiln_dtype_size(view->dtype);
    kiln_view_extent(view, &begin, &end);
    int64_t repeats = rows > 0 && cols > 0 ? element_count(view) / rows / cols : 0;
    int64_t padded = rows <= INT32_MAX && cols <= INT32_MAX
                         ? (rows + BLAS_TILE) * (cols + BLAS_TILE)
                         : INT64_MAX;
    return end / size <= INT32_MAX && padded <= INT32_MAX && repeats <= INT32_MAX / padded;
}

kiln_status kilni_cl_blas_matmul(kilni_cl_backend *backend, const kiln_op_record *record,
                                 const kiln_view *inputs, const kiln_view *outputs, bool *out_done,
                                 kiln_error *err)
{
    bool transpose_a = kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_A) != 0;
    bool transpose_b = kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_B) != 0;
    blas_matrix a = blas_matrix_of(&inputs[0], transpose_a, /*left=*/true);
    blas_matrix b = blas_matrix_of(&inputs[1], transpose_b, /*left=*/false);
    kilni_cl_gemm gemm = {
        .dtype = outputs[0].dtype, .m = a.rows, .n = b.cols, .k = a.cols, .batch = 1};
    kilni_exec exec = {
        .backend = backend, .record = record, .inputs = inputs, .outputs = outputs, .err = err};
    kiln_status status = KILN_STATUS_OK;
    int64_t size = (int64_t)kiln_dtype_size(outputs[0].dtype);
    *out_done = false;
    if (!kilni_cl_blas_takes(backend, &gemm) || element_count(&outputs[0]) == 0 ||
        outputs[0].offset_bytes % size != 0 || !is_in_reach(&inputs[0], a.rows, a.cols) ||
        !is_in_reach(&inputs[1], b.rows, b.cols) || !is_in_reach(&outputs[0], gemm.m, gemm.n)) {
        return KILN_STATUS_OK;
    }
    KILN_TRY(out, status, prepare(&exec, &a, transpose_a, true, &gemm.a));
    KILN_TRY(out, status, prepare(&exec, &b, transpose_b, false, &gemm.b));
    KILN_TRY(out, status, run_matmul(backend, &a, &b, &outputs[0], &gemm, out_done, err));
out:
    kilni_exec_free_scratch(&exec);
    return status;
}
