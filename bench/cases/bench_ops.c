// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators that are bound by memory, one at a time, on 64 MiB of f32: bytes read and written per
// second beside a copy kernel of the same run, and their time beside NumPy and PyTorch on as many
// threads as the device has units, through bench_ops_peers.py. A peer that is not there is named.

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum {
    N = 4096,
    MATRIX_ELEMS = N * N,
    WIDTH = 128,
    OPS_ROUNDS = 5,
    MAX_OPS_ROUNDS = 51,
    OPS_REPEATS = 2,
    MOST_CASES = 32
};

typedef struct operands {
    kiln_device *device;
    kiln_tensor *matrix; ///< [N, N]
    kiln_tensor *line; ///< the same, rank 1
    kiln_tensor *table; ///< the same, [ELEMS / WIDTH, WIDTH]
    kiln_tensor *image; ///< the same, [16, 64, 128, 128]
    kiln_tensor *weights; ///< the first N
    kiln_tensor *rows; ///< indices of the table's rows
    kiln_tensor *elements; ///< indices along the matrix's rows
} operands;

typedef kiln_status (*run_fn)(const operands *o, kiln_tensor **out, kiln_error *err);

typedef struct bench_case {
    const char *name;
    run_fn run;
    double passes; ///< 64 MiB that are read or written, together
} bench_case;

/// What both peers of a case took; 0: not there.
typedef struct peer_times {
    char name[32];
    double numpy;
    double torch;
} peer_times;

typedef struct peers {
    char numpy[48]; ///< versions
    char torch[48];
    peer_times times[MOST_CASES];
    size_t count;
} peers;

// ---- the cases ----

static kiln_status transpose(const operands *o, kiln_tensor **out, kiln_error *err)
{
    kiln_tensor *view = NULL;
    kiln_status status = kiln_permute(o->matrix, NULL, 0, &view, err);
    status = status == KILN_STATUS_OK ? kiln_contiguous(view, out, err) : status;
    kiln_release(view);
    return status;
}

static kiln_status nchw_nhwc(const operands *o, kiln_tensor **out, kiln_error *err)
{
    const int64_t axes[] = {0, 2, 3, 1};
    kiln_tensor *view = NULL;
    kiln_status status = kiln_permute(o->image, axes, 4, &view, err);
    status = status == KILN_STATUS_OK ? kiln_contiguous(view, out, err) : status;
    kiln_release(view);
    return status;
}

static kiln_status select_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_select(o->table, o->rows, 0, out, err);
}

static kiln_status gather(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_gather(o->matrix, o->elements, 1, out, err);
}

static kiln_status cum_sum_line(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_cum_sum(o->line, 0, false, false, out, err);
}

static kiln_status cum_sum_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_cum_sum(o->matrix, 1, false, false, out, err);
}

static kiln_status cum_sum_columns(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_cum_sum(o->matrix, 0, false, false, out, err);
}

static kiln_status sort_line(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_sort(o->line, 0, false, out, err);
}

static kiln_status sort_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_sort(o->matrix, 1, false, out, err);
}

static kiln_status argsort_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_argsort(o->matrix, 1, false, out, err);
}

static kiln_status top_k(kiln_tensor *x, int64_t axis, kiln_tensor **out, kiln_error *err)
{
    kiln_tensor *indices = NULL;
    kiln_status status = kiln_top_k(x, 8, axis, true, out, &indices, err);
    kiln_release(indices);
    return status;
}

static kiln_status top_k_line(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return top_k(o->line, 0, out, err);
}

static kiln_status top_k_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return top_k(o->matrix, 1, out, err);
}

static kiln_status sum(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_sum(o->matrix, NULL, 0, false, out, err);
}

static kiln_status sum_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    const int64_t axis = 1;
    return kiln_sum(o->matrix, &axis, 1, false, out, err);
}

static kiln_status sum_columns(const operands *o, kiln_tensor **out, kiln_error *err)
{
    const int64_t axis = 0;
    return kiln_sum(o->matrix, &axis, 1, false, out, err);
}

static kiln_status argmax_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_argmax(o->matrix, 1, false, false, out, err);
}

static kiln_status argmax_columns(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_argmax(o->matrix, 0, false, false, out, err);
}

static kiln_status softmax_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_softmax(o->matrix, 1, out, err);
}

static kiln_status softmax_columns(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_softmax(o->matrix, 0, out, err);
}

static kiln_status run_layer_norm(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_layer_norm(o->matrix, o->weights, o->weights, 1, 1e-5, out, err);
}

/// Rows of 128, of which one fits into a few registers.
static kiln_status layer_norm_short(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_layer_norm(o->table, NULL, NULL, 1, 1e-5, out, err);
}

static kiln_status rms_norm(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_rms_norm(o->matrix, o->weights, 1, 1e-5, out, err);
}

static kiln_status log_softmax_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_log_softmax(o->matrix, 1, out, err);
}

static kiln_status softmax_backward(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_softmax_backward(o->matrix, o->matrix, 1, out, err);
}

static kiln_status rfft_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    kiln_tensor *imaginary = NULL;
    kiln_status status = kiln_rfft(o->matrix, 1, 0, out, &imaginary, err);
    kiln_release(imaginary);
    return status;
}

static kiln_status scatter_add_rows(const operands *o, kiln_tensor **out, kiln_error *err)
{
    return kiln_embedding_backward(o->table, o->rows, MATRIX_ELEMS / WIDTH, out, err);
}

static const bench_case all_cases[] = {
    {"transpose", transpose, 2},
    {"nchw_nhwc", nchw_nhwc, 2},
    {"select_rows", select_rows, 2},
    {"gather", gather, 4},
    {"cum_sum_line", cum_sum_line, 2},
    {"cum_sum_rows", cum_sum_rows, 2},
    {"cum_sum_columns", cum_sum_columns, 2},
    {"sort_line", sort_line, 2},
    {"sort_rows", sort_rows, 2},
    {"argsort_rows", argsort_rows, 3},
    {"top_k_line", top_k_line, 1},
    {"top_k_rows", top_k_rows, 1},
    {"sum", sum, 1},
    {"sum_rows", sum_rows, 1},
    {"sum_columns", sum_columns, 1},
    {"argmax_rows", argmax_rows, 1},
    {"argmax_columns", argmax_columns, 1},
    {"softmax_rows", softmax_rows, 2},
    {"softmax_columns", softmax_columns, 2},
    {"layer_norm", run_layer_norm, 2},
    {"layer_norm_short", layer_norm_short, 2},
    {"rms_norm", rms_norm, 2},
    {"log_softmax_rows", log_softmax_rows, 2},
    {"softmax_backward", softmax_backward, 2}, // one tensor stands for both inputs
    {"rfft_rows", rfft_rows, 2},
    {"scatter_add_rows", scatter_add_rows, 3},
};
enum { N_CASES = sizeof(all_cases) / sizeof(all_cases[0]) };

const char *bench_ops_case(size_t index)
{
    return index < N_CASES ? all_cases[index].name : NULL;
}

// ---- peers ----

static double seconds_of(const char *text)
{
    return strcmp(text, "-") == 0 ? 0 : strtod(text, NULL);
}

/// Runs the script; without it, or without NumPy, no peer is there.
static void ask_peers(peers *p, const bench_options *options, uint32_t threads, uint32_t rounds)
{
    char command[1536];
    char line[160];
    memset(p, 0, sizeof(*p));
    int length =
        snprintf(command, sizeof(command), "/usr/bin/python3 '%s/bench_ops_peers.py' %u %u",
                 KILN_BENCH_DIR, threads, rounds);
    for (size_t i = 0; i < N_CASES; i++) {
        if (bench_wanted(options, all_cases[i].name)) {
            length += snprintf(command + length, sizeof(command) - (size_t)length, " %s",
                               all_cases[i].name);
        }
    }
    snprintf(command + length, sizeof(command) - (size_t)length, " 2>/dev/null");
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): a command of ours
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL && p->count < MOST_CASES) {
        char name[48] = "";
        char first[48] = "";
        char second[48] = "";
        if (sscanf(line, "%31s %47s %47s", name, first, second) != 3) {
            continue;
        }
        if (strcmp(name, "versions") == 0) {
            snprintf(p->numpy, sizeof(p->numpy), "%s", first);
            snprintf(p->torch, sizeof(p->torch), "%s", strcmp(second, "-") == 0 ? "" : second);
            continue;
        }
        peer_times *times = &p->times[p->count++];
        snprintf(times->name, sizeof(times->name), "%s", name);
        times->numpy = seconds_of(first);
        times->torch = seconds_of(second);
    }
    if (pipe != NULL) {
        (void)pclose(pipe);
    }
}

static const peer_times *times_of(const peers *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->times[i].name, name) == 0) {
            return &p->times[i];
        }
    }
    return NULL;
}

// ---- measuring ----

/// Mean seconds of one run over REPEATS that are enqueued together.
static kiln_status time_operands(const operands *o, run_fn run, double *out_seconds,
                                 kiln_error *err)
{
    kiln_status status = kiln_sync(o->device, err);
    uint64_t start = kiln_time_ns();
    for (int i = 0; i < OPS_REPEATS && status == KILN_STATUS_OK; i++) {
        kiln_tensor *result = NULL;
        status = run(o, &result, err);
        status = status == KILN_STATUS_OK ? kiln_flush(o->device, err) : status;
        kiln_release(result);
    }
    status = status == KILN_STATUS_OK ? kiln_sync(o->device, err) : status;
    *out_seconds = (double)(kiln_time_ns() - start) / 1e9 / OPS_REPEATS;
    return status;
}

static void report_case(const bench_options *options, const bench_case *c, double seconds,
                        double copy_rate, const peers *p, bench_result *row)
{
    const peer_times *times = times_of(p, c->name);
    row->name = c->name;
    row->value = c->passes * 4.0 * MATRIX_ELEMS / seconds / 1e9;
    row->against = "copy kernel";
    row->ratio = row->value / copy_rate;
    row->bar = 0;
    bench_report(options, row);
    if (times != NULL && times->numpy > 0) {
        row->against = "NumPy";
        row->ratio = times->numpy / seconds;
        row->peer_version = p->numpy;
        bench_report(options, row);
    }
    if (times != NULL && times->torch > 0) {
        row->against = "PyTorch";
        row->ratio = times->torch / seconds;
        row->bar = 0.5;
        row->peer_version = p->torch;
        bench_report(options, row);
    }
}

static kiln_status measure_ops(const bench_options *options, const operands *o, bench_copy *copy,
                               const peers *p, uint32_t rounds, kiln_error *err)
{
    const char *device = kiln_device_info_of(o->device)->name;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < N_CASES && status == KILN_STATUS_OK; i++) {
        double times[MAX_OPS_ROUNDS];
        double copies[MAX_OPS_ROUNDS];
        double ignored = 0;
        if (!bench_wanted(options, all_cases[i].name)) {
            continue;
        }
        status = time_operands(o, all_cases[i].run, &ignored, err); // compiles
        for (uint32_t r = 0; r < rounds && status == KILN_STATUS_OK; r++) {
            status = bench_copy_time(copy, OPS_REPEATS, &copies[r], err);
            status = status == KILN_STATUS_OK ? time_operands(o, all_cases[i].run, &times[r], err)
                                              : status;
        }
        if (status == KILN_STATUS_OK) {
            double rate = 8.0 * MATRIX_ELEMS / kiln_quantile(copies, rounds, 0.5) / 1e9;
            bench_result row = {.unit = "GB/s",
                                .peer_version = bench_copy_shape(copy),
                                .device = device,
                                .samples = rounds};
            report_case(options, &all_cases[i], kiln_quantile(times, rounds, 0.5), rate, p, &row);
        }
    }
    return status;
}

// ---- operands ----

static kiln_status make_tensor(operands *o, const void *data, kiln_dtype dtype, uint32_t rank,
                               const int64_t *dims, kiln_tensor **out, kiln_error *err)
{
    return kiln_tensor_create(o->device, dtype, rank, dims, data, out, err);
}

static kiln_status make_operands(operands *o, void *host, kiln_error *err)
{
    static const int64_t shapes[][4] = {
        {N, N}, {MATRIX_ELEMS}, {MATRIX_ELEMS / WIDTH, WIDTH}, {16, 64, 128, 128}};
    float *values = host;
    int64_t *indices = host;
    uint32_t state = 1;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < MATRIX_ELEMS; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) / 8388608.0F - 1.0F;
    }
    KILN_TRY(out, status, make_tensor(o, host, KILN_DTYPE_F32, 2, shapes[0], &o->matrix, err));
    KILN_TRY(out, status, make_tensor(o, host, KILN_DTYPE_F32, 1, shapes[1], &o->line, err));
    KILN_TRY(out, status, make_tensor(o, host, KILN_DTYPE_F32, 2, shapes[2], &o->table, err));
    KILN_TRY(out, status, make_tensor(o, host, KILN_DTYPE_F32, 4, shapes[3], &o->image, err));
    KILN_TRY(out, status, make_tensor(o, host, KILN_DTYPE_F32, 1, &shapes[0][0], &o->weights, err));
    for (size_t i = 0; i < MATRIX_ELEMS; i++) {
        state = state * 1664525u + 1013904223u;
        indices[i] = (state >> 8) % N;
    }
    KILN_TRY(out, status, make_tensor(o, host, KILN_DTYPE_I64, 2, shapes[0], &o->elements, err));
    for (size_t i = 0; i < MATRIX_ELEMS / WIDTH; i++) {
        state = state * 1664525u + 1013904223u;
        indices[i] = (state >> 8) % (MATRIX_ELEMS / WIDTH);
    }
    KILN_TRY(out, status, make_tensor(o, host, KILN_DTYPE_I64, 1, shapes[2], &o->rows, err));
out:
    return status;
}

static void free_operands(operands *o)
{
    kiln_tensor *const tensors[] = {o->matrix,  o->line, o->table,   o->image,
                                    o->weights, o->rows, o->elements};
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        kiln_release(tensors[i]);
    }
    kiln_device_release(o->device);
}

kiln_status bench_ops(const bench_options *options, kiln_error *err)
{
    uint32_t rounds = options->samples > 0 ? options->samples : OPS_ROUNDS;
    operands o = {0};
    kiln_context *context = NULL;
    bench_copy *copy = NULL;
    peers p;
    void *host = malloc(sizeof(int64_t) * MATRIX_ELEMS);
    kiln_status status = KILN_STATUS_OK;
    if (host == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    rounds = rounds > MAX_OPS_ROUNDS ? MAX_OPS_ROUNDS : rounds;
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, options->device, &o.device, err));
    KILN_TRY(out, status, make_operands(&o, host, err));
    const kiln_device_info *info = kiln_device_info_of(o.device);
    KILN_TRY(out, status, bench_copy_create(info->name, sizeof(float) * MATRIX_ELEMS, &copy, err));
    bool same_cores = info->type == KILN_DEVICE_CPU;
    memset(&p, 0, sizeof(p));
    if (same_cores) {
        ask_peers(&p, options, info->compute_units, rounds);
    }
    bench_header(options);
    if (p.count == 0 || p.torch[0] == '\0') {
        fprintf(stderr, "bench ops: %s\n",
                !same_cores    ? "NumPy and PyTorch run on other cores than this device: left out"
                : p.count == 0 ? "NumPy is not there (python3-numpy): left out, and PyTorch"
                               : "PyTorch is not there (python3-torch): left out");
    }
    status = measure_ops(options, &o, copy, &p, rounds, err);
out:
    bench_copy_destroy(copy);
    free_operands(&o);
    kiln_context_destroy(context);
    free(host);
    return status;
}
