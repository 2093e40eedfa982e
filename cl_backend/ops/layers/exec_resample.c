// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches resample.cl: interpolation is separable, so each axis that changes is one pass over
// [outer, axis, inner] with a sparse matrix that the host makes from ir's taps. The backward
// operator's matrices are those turned round. Between passes elements are of the type of
// computation.
#include <string.h>

#include "exec_internal.h"
#include "window_args.h"

/// Row i sums entries start[i] to start[i + 1].
typedef struct matrix {
    int32_t *start; ///< rows + 2 of them, places behind
    int32_t *places;
    double *weights;
    int64_t rows;
    int64_t count;
} matrix;

static void matrix_fini(const kiln_env *env, matrix *m)
{
    kiln_free(env, m->start);
    kiln_free(env, m->weights);
}

static kiln_status matrix_init(kilni_exec *exec, int64_t rows, int64_t most, matrix *m)
{
    const kiln_env *env = exec->backend->env;
    *m = (matrix){.rows = rows};
    if (most < INT32_MAX && rows < INT32_MAX) {
        m->start = kiln_alloc(env, (size_t)(rows + 2 + most + 1) * sizeof(*m->start));
        m->weights = kiln_alloc(env, (size_t)(most + 1) * sizeof(*m->weights));
    }
    if (m->start == NULL || m->weights == NULL) {
        return kiln_fail(exec->err, RESOURCE_EXHAUSTED, "no memory for %lld weights",
                         (long long)most);
    }
    memset(m->start, 0, (size_t)(rows + 2) * sizeof(*m->start));
    m->places = m->start + rows + 2;
    return KILN_STATUS_OK;
}

/// Rows of the result.
static void fill_forward(const kiln_resample *r, matrix *m)
{
    for (int64_t i = 0; i < r->out; i++) {
        kiln_resample_taps taps;
        kiln_resample_begin(r, i, &taps);
        for (int64_t k = 0; k < r->taps; k++) {
            int64_t place = 0;
            double weight = kiln_resample_tap(r, &taps, k, &place);
            if (weight != 0) {
                m->places[m->count] = (int32_t)place;
                m->weights[m->count++] = weight;
            }
        }
        m->start[i + 1] = (int32_t)m->count;
    }
}

/// Rows of the input: what fill_forward gives, turned round by counting.
static void turn(const matrix *f, matrix *m)
{
    for (int64_t k = 0; k < f->count; k++) {
        m->start[f->places[k] + 2]++;
    }
    for (int64_t i = 0; i < m->rows; i++) {
        m->start[i + 2] += m->start[i + 1];
    }
    for (int64_t i = 0; i < f->rows; i++) {
        for (int32_t k = f->start[i]; k < f->start[i + 1]; k++) {
            int32_t at = m->start[f->places[k] + 1]++;
            m->places[at] = (int32_t)i;
            m->weights[at] = f->weights[k];
        }
    }
    m->count = f->count;
}

static kiln_status make_matrix(kilni_exec *exec, const kiln_resample *r, bool forward, matrix *m)
{
    matrix f;
    kiln_status status = matrix_init(exec, r->out, r->out * r->taps, &f);
    if (status == KILN_STATUS_OK) {
        fill_forward(r, &f);
    }
    if (status != KILN_STATUS_OK || forward) {
        *m = f;
        return status;
    }
    status = matrix_init(exec, r->in, f.count, m);
    if (status == KILN_STATUS_OK) {
        turn(&f, m);
    }
    matrix_fini(exec->backend->env, &f);
    return status;
}

/// Starts and places in one buffer, weights in another, in the type of computation.
static kiln_status upload_matrix(kilni_exec *exec, const matrix *m, kiln_dtype dtype,
                                 kiln_buffer *out_buffers[2])
{
    kiln_backend *backend = &exec->backend->base;
    size_t table = (size_t)(m->rows + 2 + m->count) * sizeof(int32_t);
    size_t size = kiln_dtype_size(dtype);
    float *narrow = (float *)m->weights; // in place: a float never overtakes the double it is from
    for (int64_t k = 0; dtype == KILN_DTYPE_F32 && k < m->count; k++) {
        float weight = (float)m->weights[k];
        memcpy(&narrow[k], &weight, sizeof(weight));
    }
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_alloc(exec, (int64_t)table, &out_buffers[0]));
    KILN_TRY(out, status, kilni_exec_alloc(exec, m->count * (int64_t)size, &out_buffers[1]));
    KILN_TRY(out, status, kilni_cl_upload(backend, out_buffers[0], 0, m->start, table, exec->err));
    if (m->count > 0) {
        KILN_TRY(out, status,
                 kilni_cl_upload(backend, out_buffers[1], 0, m->weights, (size_t)m->count * size,
                                 exec->err));
    }
out:
    return status;
}

static kiln_status launch_pass(kilni_exec *exec, const kiln_view *from, const kiln_view *to,
                               kiln_resample_shape *s, kiln_buffer *const buffers[2])
{
    bool block = kilni_exec_is_block(exec);
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    int64_t rows = s->outer * s->out;
    int64_t fair = kilni_exec_ceil_div(rows, 4 * (int64_t)exec->backend->info.compute_units);
    int64_t enough = 4096 / s->inner + 1;
    s->each = enough < fair ? enough : fair;
    s->start[0] = kilni_exec_start(to);
    s->start[1] = kilni_exec_start(from);
    kilni_exec_define_dtype(&options, "O", to->dtype);
    kilni_exec_define_dtype(&options, "A", from->dtype);
    kilni_exec_define(&options, "V", kilni_exec_vector(exec, from->dtype));
    kilni_exec_define(&options, "ROWS", block ? 1 : 0);
    kiln_status status = kilni_exec_kernel(exec, "resample.cl", "kiln_resample", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, to->buffer);
    kilni_cl_push_buffer(&args, from->buffer);
    kilni_cl_push_buffer(&args, buffers[0]);
    kilni_cl_push_buffer(&args, buffers[1]);
    int64_t items = block ? kilni_exec_ceil_div(rows, s->each) : rows * s->inner;
    return kilni_exec_launch(exec, &args, items, 256);
}

static int64_t span(const int64_t *dims, uint32_t first, uint32_t end)
{
    int64_t product = 1;
    for (uint32_t i = first; i < end; i++) {
        product *= dims[i];
    }
    return product;
}

/// One axis: `*view` becomes the result; the last pass writes the output.
static kiln_status run_pass(kilni_exec *exec, const kiln_resample *r, bool forward, uint32_t axis,
                            bool is_last, kiln_view *view)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_tensor_desc desc = {.dtype = kilni_exec_compute(out->dtype), .rank = (uint8_t)out->rank};
    kiln_buffer *buffers[2] = {NULL, NULL};
    matrix m = {.rows = 0};
    memcpy(desc.dims, view->dims, sizeof(desc.dims));
    desc.dims[axis] = out->dims[axis];
    kiln_view to = is_last ? *out : kiln_view_dense(&desc, NULL);
    kiln_resample_shape s = {.outer = span(view->dims, 0, axis),
                             .in = view->dims[axis],
                             .out = out->dims[axis],
                             .inner = span(view->dims, axis + 1, out->rank)};
    kiln_status status = KILN_STATUS_OK;
    if (!is_last) {
        KILN_TRY(out, status, kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &to.buffer));
    }
    KILN_TRY(out, status, make_matrix(exec, r, forward, &m));
    KILN_TRY(out, status, upload_matrix(exec, &m, kilni_exec_compute(out->dtype), buffers));
    KILN_TRY(out, status, launch_pass(exec, view, &to, &s, buffers));
out:
    matrix_fini(exec->backend->env, &m);
    *view = to;
    return status;
}

kiln_status kilni_exec_interpolate(kilni_exec *exec)
{
    bool forward = exec->record->op == KILN_OP_INTERPOLATE;
    const kiln_view *out = &exec->outputs[0];
    const kiln_view *x = forward ? &exec->inputs[0] : out;
    const kiln_view *y = forward ? out : &exec->inputs[0];
    kiln_resample axes[KILN_MAX_RANK];
    uint32_t last = KILN_MAX_RANK;
    kiln_view view;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < x->rank; i++) {
        KILN_TRY(out, status,
                 kiln_ir_resample(exec->record, x->rank, i, x->dims[i], y->dims[i], &axes[i],
                                  exec->err));
        last = axes[i].identity ? last : i;
    }
    if (last == KILN_MAX_RANK) {
        return kilni_exec_copy(exec, &exec->inputs[0], out);
    }
    if (kilni_exec_count(&exec->inputs[0]) == 0) {
        return kilni_exec_fill(exec, 0, out);
    }
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[0], &view));
    for (uint32_t i = 0; i <= last; i++) {
        if (!axes[i].identity) {
            KILN_TRY(out, status, run_pass(exec, &axes[i], forward, i, i == last, &view));
        }
    }
out:
    return status;
}
