// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches fft.cl and fft_lines.cl. Decides where in one piece of scratch memory rows, twiddle
// factors and chirp lie, and whether a row, or several at once, stay with one work-item through all
// passes. Rows that do not lie dense
// become so in scratch memory.
#include "exec_internal.h"
#include "fft_args.h"

enum {
    FFT_GROUP = 64,
    BLOCK_EACH = 4096,
    SMALL_ROW = 1 << 14,
    DIRECT = 128,
    LINES_BYTES = 1 << 21
};

typedef struct fft { ///< places are in elements from the start of `work`
    kiln_view in[2]; ///< real and imaginary, swapped for the inverse
    kiln_view out[2];
    int parts; ///< which of them are there
    int64_t rows;
    int64_t length;
    int64_t filled; ///< a power of two, unless `direct`
    bool direct; ///< by the definition
    kiln_dtype dtype; ///< of the tensors
    kiln_buffer *work;
    int64_t a, b; ///< rows, and rows again
    int64_t twiddles;
    int64_t chirp; ///< -1: the length is a power of two
    int64_t circle[2]; ///< the chirp's spectrum, and room to find it
    double factor;
} fft;

static kiln_status begin(kilni_exec *exec, const fft *f, const char *kernel,
                         kilni_cl_args *out_args)
{
    kilni_exec_options options = {.length = 0};
    kilni_exec_define_dtype(&options, "A", f->dtype);
    kilni_exec_define_dtype(&options, "C", kilni_exec_compute(f->dtype));
    kilni_exec_define(&options, "V", kilni_exec_vector(exec, f->dtype));
    kiln_status status = kilni_exec_kernel(exec, "fft.cl", kernel, &options, out_args);
    if (status == KILN_STATUS_OK) {
        kilni_cl_push_buffer(out_args, f->work);
    }
    return status;
}

static kiln_status launch_fft(kilni_exec *exec, kilni_cl_args *args, const int64_t *numbers,
                              unsigned count, int64_t items)
{
    for (unsigned i = 0; i < count; i++) {
        kilni_cl_push_i64(args, numbers[i]);
    }
    return kilni_exec_launch(exec, args, items, FFT_GROUP);
}

/// A kernel that takes work and numbers alone.
static kiln_status step(kilni_exec *exec, const fft *f, const char *kernel, const int64_t *numbers,
                        unsigned count, int64_t items)
{
    kilni_cl_args args;
    kiln_status status = begin(exec, f, kernel, &args);
    return status == KILN_STATUS_OK ? launch_fft(exec, &args, numbers, count, items) : status;
}

static kiln_status pass(kilni_exec *exec, const fft *f, int64_t from, int64_t to, int64_t s,
                        int64_t rows)
{
    int64_t each = kilni_exec_is_block(exec) ? BLOCK_EACH : 1;
    const int64_t numbers[] = {from, to, f->twiddles, f->filled, s, rows, each};
    int64_t items = kilni_exec_ceil_div(rows * f->filled / 2, each);
    return step(exec, f, "kiln_fft_pass", numbers, 7, items);
}

/// All passes over `rows` rows at *at, with room at *other; the result is at *at.
static kiln_status passes(kilni_exec *exec, const fft *f, int64_t rows, int64_t *at, int64_t *other)
{
    int64_t units = (int64_t)exec->backend->info.compute_units;
    bool alone = kilni_exec_is_block(exec) && (rows >= units || f->filled <= SMALL_ROW);
    kiln_status status = KILN_STATUS_OK;
    if (alone && f->filled > 1) {
        const int64_t numbers[] = {*at, *other, f->twiddles, f->filled, rows};
        status = step(exec, f, "kiln_fft_rows", numbers, 5, rows);
    }
    for (int64_t s = 1; status == KILN_STATUS_OK && s < f->filled; s *= 2) {
        status = alone ? status : pass(exec, f, *at, *other, s, rows);
        int64_t swapped = *at;
        *at = *other;
        *other = swapped;
    }
    return status;
}

static void push_factor(kilni_cl_args *args, const fft *f)
{
    if (f->dtype == KILN_DTYPE_F64) {
        kilni_cl_push_bytes(args, &f->factor, sizeof(f->factor));
    } else {
        kilni_cl_push_f32(args, (float)f->factor);
    }
}

static kiln_status load_rows(kilni_exec *exec, const fft *f)
{
    kilni_cl_args args;
    const int64_t numbers[] = {f->a, f->chirp, f->length, f->filled, f->rows};
    kiln_status status = begin(exec, f, "kiln_fft_load", &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_buffer(&args, f->in[0].buffer);
    kilni_cl_push_buffer(&args, f->in[1].buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&f->in[0]));
    kilni_cl_push_i64(&args, kilni_exec_start(&f->in[1]));
    kilni_cl_push_i32(&args, f->parts);
    return launch_fft(exec, &args, numbers, 5, f->rows * f->filled);
}

static kiln_status store_rows(kilni_exec *exec, const fft *f)
{
    kilni_cl_args args;
    const int64_t numbers[] = {f->a, f->chirp, f->length, f->filled, f->rows};
    kiln_status status = begin(exec, f, "kiln_fft_store", &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_buffer(&args, f->out[0].buffer);
    kilni_cl_push_buffer(&args, f->out[1].buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&f->out[0]));
    kilni_cl_push_i64(&args, kilni_exec_start(&f->out[1]));
    for (unsigned i = 0; i < 5; i++) {
        kilni_cl_push_i64(&args, numbers[i]);
    }
    push_factor(&args, f);
    return kilni_exec_launch(exec, &args, f->rows * f->length, FFT_GROUP);
}

/// From a to b, and b becomes a.
static kiln_status transform_directly(kilni_exec *exec, fft *f)
{
    const int64_t of_circle[] = {f->twiddles, f->length};
    const int64_t numbers[] = {f->a, f->b, f->twiddles, f->length, f->rows};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, step(exec, f, "kiln_fft_circle", of_circle, 2, f->length));
    KILN_TRY(out, status, load_rows(exec, f));
    KILN_TRY(out, status, step(exec, f, "kiln_fft_direct", numbers, 5, f->rows * f->length));
    f->a = f->b;
    KILN_TRY(out, status, store_rows(exec, f));
out:
    return status;
}

static kiln_status make_tables(kilni_exec *exec, fft *f)
{
    const int64_t of_twiddles[] = {f->twiddles, f->filled};
    const int64_t of_chirp[] = {f->chirp, f->circle[0], f->length, f->filled};
    kiln_status status = step(exec, f, "kiln_fft_twiddles", of_twiddles, 2, f->filled / 2);
    if (status != KILN_STATUS_OK || f->chirp < 0) {
        return status;
    }
    status = step(exec, f, "kiln_fft_chirp", of_chirp, 4, f->filled);
    return status == KILN_STATUS_OK ? passes(exec, f, 1, &f->circle[0], &f->circle[1]) : status;
}

static kiln_status transform(kilni_exec *exec, fft *f)
{
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_tables(exec, f));
    KILN_TRY(out, status, load_rows(exec, f));
    KILN_TRY(out, status, passes(exec, f, f->rows, &f->a, &f->b));
    if (f->chirp >= 0) {
        const int64_t numbers[] = {f->a, f->circle[0], f->filled, f->rows};
        KILN_TRY(out, status, step(exec, f, "kiln_fft_multiply", numbers, 4, f->rows * f->filled));
        KILN_TRY(out, status, passes(exec, f, f->rows, &f->a, &f->b));
    }
    KILN_TRY(out, status, store_rows(exec, f));
out:
    return status;
}

static kiln_status place(kilni_exec *exec, fft *f)
{
    int64_t all = 2 * f->rows * f->filled;
    bool power = f->filled == f->length;
    f->a = 0;
    f->b = all;
    f->twiddles = 2 * all;
    int64_t end = f->twiddles + (f->direct ? 2 : 1) * f->filled;
    f->chirp = power ? -1 : end;
    f->circle[0] = end + 2 * f->length;
    f->circle[1] = f->circle[0] + 2 * f->filled;
    end = power ? end : f->circle[1] + 2 * f->filled;
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(f->dtype));
    return kilni_exec_alloc(exec, end * size, &f->work);
}

// ---- several rows at once ----

/// On CPUs, where enough rows of a power of two fill vectors and their scratch memory a cache.
static bool takes_lines(const kilni_exec *exec, const fft *f, kiln_fft_lines_shape *s)
{
    int64_t vector = kilni_exec_vector(exec, f->dtype);
    int64_t units = (int64_t)exec->backend->info.compute_units;
    int64_t groups = kilni_exec_ceil_div(f->rows, vector);
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(f->dtype));
    s->length = f->length;
    s->points = f->parts == 1 ? f->length / 2 : f->length;
    s->rows = f->rows;
    s->items = groups < 4 * units ? groups : 4 * units;
    s->work = 2 * f->length;
    s->parts = f->parts;
    return kilni_exec_is_block(exec) && !f->direct && f->filled == f->length &&
           f->length >= 2 * vector && f->rows >= vector / 2 &&
           4 * s->points * vector * size <= LINES_BYTES;
}

static kiln_status transform_lines(kilni_exec *exec, fft *f, kiln_fft_lines_shape *s)
{
    int64_t vector = kilni_exec_vector(exec, f->dtype);
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(f->dtype));
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    const int64_t of_circle[] = {0, f->length};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(
        out, status,
        kilni_exec_alloc(exec, (s->work + s->items * 4 * s->points * vector) * size, &f->work));
    KILN_TRY(out, status, step(exec, f, "kiln_fft_circle", of_circle, 2, f->length));
    for (unsigned i = 0; i < 2; i++) {
        s->start[i] = kilni_exec_start(&f->in[i]);
        s->start[2 + i] = kilni_exec_start(&f->out[i]);
    }
    kilni_exec_define_dtype(&options, "A", f->dtype);
    kilni_exec_define(&options, "V", vector);
    kilni_exec_define(&options, "REAL", f->parts == 1 ? 1 : 0);
    KILN_TRY(out, status,
             kilni_exec_kernel(exec, "fft_lines.cl", "kiln_fft_lines", &options, &args));
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, f->work);
    kilni_cl_push_buffer(&args, f->in[0].buffer);
    kilni_cl_push_buffer(&args, f->in[1].buffer);
    kilni_cl_push_buffer(&args, f->out[0].buffer);
    kilni_cl_push_buffer(&args, f->out[1].buffer);
    push_factor(&args, f);
    KILN_TRY(out, status, kilni_exec_launch(exec, &args, s->items, 1));
out:
    return status;
}

// ---- the operator ----

kiln_status kilni_exec_fft(kilni_exec *exec)
{
    uint32_t rank = exec->inputs[0].rank;
    uint32_t axis = kilni_exec_axis(exec, rank);
    bool inverse = kiln_op_attr_i64(exec->record, KILN_KEY_INVERSE) != 0;
    bool complex = exec->record->n_inputs > 1;
    fft f = {.rows = 1,
             .length = exec->inputs[0].dims[axis],
             .filled = 1,
             .dtype = exec->inputs[0].dtype};
    kiln_view targets[2];
    kiln_fft_lines_shape lines;
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; i < 2; i++) {
        unsigned from = inverse ? 1 - i : i;
        const kiln_view turned = kilni_exec_axis_last(&exec->inputs[complex ? from : 0], axis);
        targets[i] = kilni_exec_axis_last(&exec->outputs[from], axis);
        KILN_TRY(out, status, kilni_exec_result(exec, &targets[i], &f.out[i]));
        bool same = i == 1 && !complex;
        f.in[i] = same ? f.in[0] : turned;
        if (!same) {
            KILN_TRY(out, status, kilni_exec_dense(exec, &turned, &f.in[i]));
        }
        f.parts |= complex || from == 0 ? 1 << i : 0;
    }
    for (uint32_t i = 0; i < rank; i++) {
        f.rows *= i == axis ? 1 : exec->inputs[0].dims[i];
    }
    while (f.filled < f.length) {
        f.filled *= 2;
    }
    f.direct = f.filled != f.length && f.length <= DIRECT;
    f.filled = f.direct ? f.length : f.filled;
    f.factor = 1;
    if (f.filled != f.length) {
        f.filled *= f.filled < 2 * f.length - 1 ? 2 : 1;
        f.factor = 1 / (double)f.filled;
    }
    f.factor /= inverse ? (double)f.length : 1;
    if (takes_lines(exec, &f, &lines)) {
        KILN_TRY(out, status, transform_lines(exec, &f, &lines));
    } else {
        KILN_TRY(out, status, place(exec, &f));
        KILN_TRY(out, status, f.direct ? transform_directly(exec, &f) : transform(exec, &f));
    }
    for (unsigned i = 0; i < 2; i++) {
        if (f.out[i].buffer != targets[i].buffer) {
            KILN_TRY(out, status, kilni_exec_copy(exec, &f.out[i], &targets[i]));
        }
    }
out:
    return status;
}
