// SPDX-License-Identifier: MIT OR Apache-2.0
// f32 matrix products: the winner of the fusers beside the backend alone (CLBlast with Kiln's
// parameters), on processors also beside CLBlast as it ships, OpenBLAS and MKL called in this
// process, and NumPy through bench_matmul_peers.py; a peer that is not there is named.
// Libraries do the bare product in every case, also where Kiln adds a bias and GELU to it. Rounds
// are interleaved. Each side comes after a rest (a library's threads go on waiting for a while) and
// a run of its own that is not timed, so that none begins with a processor that was asleep or with
// what the other left in the caches.

#include "bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MATMUL_ROUNDS = 9, MAX_MATMUL_ROUNDS = 51, PAUSE_NS = 10000000, MOST_PAUSES = 100 };

static const double sample_seconds = 2e-3;

typedef struct matmul_case {
    const char *name;
    int64_t batches, m, k, n;
    bool gelu; ///< bias and GELU in primitives behind it
    bool kept; ///< b is a constant
    double bar_blas; ///< to each library
    double bar_shipped; ///< to CLBlast as it ships
} matmul_case;

static const matmul_case matmul_cases[] = {
    {"matmul_96", 1, 96, 128, 128, false, false, 0, 0},
    {"matmul_128", 1, 128, 128, 128, false, false, 0.75, 0},
    {"matmul_256", 1, 256, 256, 256, false, false, 0.75, 0},
    {"matmul_512", 1, 512, 512, 512, false, false, 0.8, 4},
    {"matmul_1024", 1, 1024, 1024, 1024, false, false, 0.8, 4},
    {"matmul_2048", 1, 2048, 2048, 2048, false, false, 0.8, 4},
    {"matmul_4096", 1, 4096, 4096, 4096, false, false, 0.75, 0},
    {"matmul_1000", 1, 1000, 1000, 1000, false, false, 0.75, 0},
    {"matmul_1023", 1, 1023, 1023, 1023, false, false, 0.75, 0},
    {"matmul_rows_64", 1, 64, 4096, 1024, false, false, 0.75, 0},
    {"matmul_outer_64", 1, 4096, 64, 4096, false, false, 0.75, 0},
    {"matmul_batch_128", 32, 128, 128, 128, false, false, 0.75, 0},
    {"matmul_kept_512", 1, 512, 512, 512, false, true, 0, 0},
    {"matmul_long_64", 1, 64, 16384, 64, false, false, 0, 0},
    {"matvec_4096", 1, 1, 4096, 4096, false, false, 0.75, 0},
    {"matmul_gelu_512", 1, 512, 512, 512, true, false, 1, 0},
    {"matmul_gelu_1024", 1, 1024, 1024, 1024, true, false, 1, 0},
    {"matmul_gelu_2048", 1, 2048, 2048, 2048, true, false, 1, 0},
};
enum {
    MATMUL_CASES = sizeof(matmul_cases) / sizeof(matmul_cases[0]),
    RESULT_ELEMENTS = 4096 * 4096,
    OPERAND_ELEMENTS = 4096 * 4096 + 64
};

const char *bench_matmul_case(size_t index)
{
    return index < MATMUL_CASES ? matmul_cases[index].name : NULL;
}

// ---- libraries ----

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);
typedef void (*sgemm_batch_fn)(int order, int trans_a, int trans_b, int m, int n, int k,
                               float alpha, const float *a, int lda, int step_a, const float *b,
                               int ldb, int step_b, float beta, float *c, int ldc, int step_c,
                               int batches);
typedef void (*sgemv_fn)(int order, int trans, int m, int n, float alpha, const float *a, int lda,
                         const float *x, int step_x, float beta, float *y, int step_y);

enum { OPENBLAS, MKL, LIBRARIES };

static const struct {
    const char *name, *file, *set_threads;
} libraries[LIBRARIES] = {
    [OPENBLAS] = {"OpenBLAS", "libopenblas.so.0", "openblas_set_num_threads"},
    [MKL] = {"MKL", "libmkl_rt.so", "MKL_Set_Num_Threads"},
};

typedef struct blas_library { ///< one library
    sgemm_fn sgemm; ///< NULL: not there
    sgemm_batch_fn sgemm_batch; ///< NULL: one product after the other
    sgemv_fn sgemv;
    char version[80];
    float *result;
} blas_library;

static void find(void *library, const char *name, void *function)
{
    void *found = library == NULL ? NULL : dlsym(library, name);
    memcpy(function, &found, sizeof(found));
}

static void blas_open(blas_library *b, uint32_t which, uint32_t threads, float *result)
{
    void (*set_threads)(int) = NULL;
    char *(*config)(void) = NULL;
    void *library = dlopen(libraries[which].file, RTLD_NOW | RTLD_LOCAL);
    find(library, libraries[which].set_threads, &set_threads);
    find(library, "openblas_get_config", &config);
    find(library, "cblas_sgemm", &b->sgemm);
    find(library, "cblas_sgemv", &b->sgemv);
    find(library, "cblas_sgemm_batch_strided", &b->sgemm_batch);
    if (set_threads != NULL) {
        set_threads((int)threads);
    }
    if (b->sgemv == NULL) {
        b->sgemm = NULL;
        fprintf(stderr, "%s is not there: left out\n", libraries[which].name);
    }
    snprintf(b->version, sizeof(b->version), "%s",
             config == NULL ? libraries[which].name : config());
    b->result = result;
}

static void blas_run(const blas_library *b, const matmul_case *c, const float *x, const float *y)
{
    int m = (int)c->m, k = (int)c->k, n = (int)c->n;
    if (m == 1) {
        b->sgemv(101, 112, k, n, 1, y, n, x, 1, 0, b->result, 1);
    } else if (b->sgemm_batch != NULL && c->batches > 1) {
        b->sgemm_batch(101, 111, 111, m, n, k, 1, x, k, m * k, y, n, k * n, 0, b->result, n, m * n,
                       (int)c->batches);
    } else {
        for (int64_t i = 0; i < c->batches; i++) {
            b->sgemm(101, 111, 111, m, n, k, 1, x + i * m * k, k, y + i * k * n, n, 0,
                     b->result + i * m * n, n);
        }
    }
}

// ---- Kiln ----

typedef struct matmul_material {
    kiln_tensor *a;
    kiln_tensor *b;
    kiln_tensor *bias;
} matmul_material;

/// x -> 0.5 x (1 + erf(x / sqrt(2))), with the bias before.
static kiln_status record_bias_gelu(const matmul_material *m, kiln_tensor *product,
                                    kiln_tensor **out, kiln_error *err)
{
    kiln_tensor *t[5] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_add(product, m->bias, &t[0], err));
    KILN_TRY(out, status, kiln_mul_scalar(t[0], kiln_f64(0.70710678118654752), &t[1], err));
    KILN_TRY(out, status, kiln_erf(t[1], &t[2], err));
    KILN_TRY(out, status, kiln_add_scalar(t[2], kiln_f64(1), &t[3], err));
    KILN_TRY(out, status, kiln_mul_scalar(t[0], kiln_f64(0.5), &t[4], err));
    KILN_TRY(out, status, kiln_mul(t[4], t[3], out, err));
out:
    for (int i = 0; i < 5; i++) {
        kiln_release(t[i]);
    }
    return status;
}

static kiln_status record_matmul(const matmul_case *c, const matmul_material *m, kiln_tensor **out,
                                 kiln_error *err)
{
    kiln_tensor *product = NULL;
    kiln_status status = kiln_matmul(m->a, m->b, false, false, &product, err);
    if (status != KILN_STATUS_OK || !c->gelu) {
        *out = product;
        return status;
    }
    status = record_bias_gelu(m, product, out, err);
    kiln_release(product);
    return status;
}

static kiln_status run_matmul(kiln_device *device, const matmul_case *c, const matmul_material *m,
                              kiln_error *err)
{
    kiln_tensor *result = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, record_matmul(c, m, &result, err));
    KILN_TRY(out, status, kiln_flush(device, err));
    KILN_TRY(out, status, kiln_sync(device, err));
out:
    kiln_release(result);
    return status;
}

/// How far the result is from a library's, as a share of its largest element.
static kiln_status check(kiln_device *device, const matmul_case *c, const matmul_material *m,
                         const blas_library *library, const float *x, const float *y,
                         kiln_error *err)
{
    size_t count = (size_t)(c->batches * c->m * c->n);
    kiln_tensor *result = NULL;
    kiln_status status = KILN_STATUS_OK;
    float *values = malloc(count * sizeof(float));
    double most = 0, worst = 0;
    if (values == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    blas_run(library, c, x, y);
    KILN_TRY(out, status, kiln_device_set_fusion(device, true, err));
    KILN_TRY(out, status, record_matmul(c, m, &result, err));
    KILN_TRY(out, status, kiln_read(result, values, count * sizeof(float), err));
    for (size_t i = 0; i < count; i++) {
        double a = (double)values[i], b = (double)library->result[i];
        most = b > most ? b : -b > most ? -b : most;
        worst = a - b > worst ? a - b : b - a > worst ? b - a : worst;
    }
    if (!(worst <= 1e-4 * most)) {
        status = kiln_fail(err, INTERNAL, "%s is %g from %s's, of %g", c->name, worst,
                           library->version, most);
    }
out:
    kiln_release(result);
    free(values);
    return status;
}

// ---- one case ----

typedef struct matmul_times {
    double fused[MAX_MATMUL_ROUNDS];
    double alone[MAX_MATMUL_ROUNDS];
    double blas[LIBRARIES][MAX_MATMUL_ROUNDS];
    double ratio_alone[MAX_MATMUL_ROUNDS];
    double ratio_blas[LIBRARIES][MAX_MATMUL_ROUNDS];
    double numpy;
    double shipped; ///< CLBlast; 0: not measured
} matmul_times;

/// Waits until no thread of this process computes, at most `MOST_PAUSES` pauses.
static void rest(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint64_t before = kiln_processor_ns(), used = PAUSE_NS;
    for (int i = 0; i < MOST_PAUSES && used > PAUSE_NS / 10; i++) {
        (void)nanosleep(&pause, NULL);
        used = kiln_processor_ns() - before;
        before += used;
    }
}

typedef struct matmul_sides { ///< what is timed in turn
    kiln_device *device;
    const matmul_case *c;
    const matmul_material *m;
    const blas_library *blas; ///< LIBRARIES of them
    const float *x, *y;
} matmul_sides;

/// SIDE_BLAS: and the libraries behind the first.
enum { SIDE_FUSED, SIDE_ALONE, SIDE_BLAS };

static kiln_status run_side(const matmul_sides *s, uint32_t which, kiln_error *err)
{
    if (which >= SIDE_BLAS) {
        blas_run(&s->blas[which - SIDE_BLAS], s->c, s->x, s->y);
        return KILN_STATUS_OK;
    }
    return run_matmul(s->device, s->c, s->m, err);
}

/// Seconds of one run, in the mean of those that fill `sample_seconds`.
static kiln_status time_side(const matmul_sides *s, uint32_t which, double *out_seconds,
                             kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint32_t runs = 0;
    rest();
    KILN_TRY(out, status, kiln_device_set_fusion(s->device, which == SIDE_FUSED, err));
    KILN_TRY(out, status, run_side(s, which, err));
    for (uint64_t start = kiln_time_ns(); runs == 0 || *out_seconds * runs < sample_seconds;) {
        KILN_TRY(out, status, run_side(s, which, err));
        *out_seconds = (double)(kiln_time_ns() - start) / 1e9 / ++runs;
    }
out:
    return status;
}

static kiln_status measure_matmul(const matmul_sides *s, uint32_t rounds, matmul_times *t,
                                  kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    double ignored = 0;
    for (int warm = 0; warm < 4; warm++) {
        KILN_TRY(out, status, time_side(s, warm % 2 == 0 ? SIDE_ALONE : SIDE_FUSED, &ignored, err));
    }
    for (uint32_t i = 0; i < rounds; i++) {
        KILN_TRY(out, status, time_side(s, SIDE_FUSED, &t->fused[i], err));
        KILN_TRY(out, status, time_side(s, SIDE_ALONE, &t->alone[i], err));
        t->ratio_alone[i] = t->alone[i] / t->fused[i];
        for (uint32_t b = 0; b < LIBRARIES; b++) {
            if (s->blas[b].sgemm != NULL) {
                KILN_TRY(out, status, time_side(s, SIDE_BLAS + b, &t->blas[b][i], err));
                t->ratio_blas[b][i] = t->blas[b][i] / t->fused[i];
            }
        }
    }
out:
    return status;
}

static double ask_numpy(const matmul_case *c, uint32_t threads, char *version, size_t capacity)
{
    char command[512], line[160];
    double seconds = 0;
    snprintf(command, sizeof(command),
             "/usr/bin/python3 '%s/bench_matmul_peers.py' %u %lld %lld %lld %d 2>/dev/null",
             KILN_BENCH_DIR, threads, (long long)c->m, (long long)c->k, (long long)c->n, c->gelu);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): a command of ours
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
        char word[64];
        if (sscanf(line, "version %63s", word) == 1) {
            snprintf(version, capacity, "numpy %s", word);
        } else {
            (void)sscanf(line, "seconds %lf", &seconds);
        }
    }
    if (pipe != NULL) {
        pclose(pipe);
    }
    return seconds;
}

/// The median over rounds, and the fastest of each side's.
static void report_blas(const bench_options *options, const matmul_case *c, uint32_t which,
                        uint32_t rounds, bench_result row, matmul_times *t)
{
    char against[64];
    double least = kiln_quantile(t->fused, rounds, 0);
    snprintf(against, sizeof(against), "%s%s", libraries[which].name,
             c->gelu ? ", product alone" : "");
    row.against = against;
    row.ratio = kiln_quantile(t->ratio_blas[which], rounds, 0.5);
    row.bar = c->bar_blas;
    bench_report(options, &row);
    snprintf(against, sizeof(against), "%s, least of each", libraries[which].name);
    row.value *= kiln_quantile(t->fused, rounds, 0.5) / least;
    row.ratio = kiln_quantile(t->blas[which], rounds, 0) / least;
    row.bar = 0;
    bench_report(options, &row);
}

static void report_matmul(const bench_options *options, kiln_device *device, const matmul_case *c,
                          const blas_library *blas, const char *numpy, uint32_t rounds,
                          matmul_times *t)
{
    double seconds = kiln_quantile(t->fused, rounds, 0.5);
    double flops = 2 * (double)c->batches * (double)c->m * (double)c->k * (double)c->n;
    bench_result row = {.name = c->name,
                        .value = flops / 1e9 / seconds,
                        .unit = "GFLOP/s",
                        .against = c->gelu ? "one by one, with CLBlast" : "CLBlast in Kiln",
                        .ratio = kiln_quantile(t->ratio_alone, rounds, 0.5),
                        .peer_version = "Kiln, one operation at a time",
                        .device = kiln_device_info_of(device)->name,
                        .samples = rounds};
    bench_report(options, &row);
    if (t->shipped > 0) {
        row.against = "CLBlast as it ships";
        row.ratio = t->shipped / seconds;
        row.bar = c->bar_shipped;
        row.peer_version = "CLBlast, its own parameters";
        bench_report(options, &row);
    }
    for (uint32_t b = 0; b < LIBRARIES; b++) {
        row.peer_version = blas[b].version;
        if (blas[b].sgemm != NULL) {
            report_blas(options, c, b, rounds, row, t);
        }
    }
    if (t->numpy > 0) {
        row.against = "NumPy";
        row.ratio = t->numpy / seconds;
        row.bar = c->gelu ? 1 : 0;
        row.peer_version = numpy;
        bench_report(options, &row);
    }
}

// ---- all ----

static void release_matrices(matmul_material *m)
{
    kiln_release(m->a);
    kiln_release(m->b);
    kiln_release(m->bias);
    memset(m, 0, sizeof(*m));
}

static kiln_status make_matrices(kiln_device *device, const matmul_case *c, const float *x,
                                 const float *y, matmul_material *m, kiln_error *err)
{
    const int64_t a[] = {c->batches, c->m, c->k}, b[] = {c->batches, c->k, c->n};
    uint32_t skip = c->batches == 1;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             kiln_tensor_create(device, KILN_DTYPE_F32, 3 - skip, a + skip, x, &m->a, err));
    KILN_TRY(out, status,
             kiln_tensor_create(device, KILN_DTYPE_F32, 3 - skip, b + skip, y, &m->b, err));
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 1, b + 2, y, &m->bias, err));
    if (c->kept) {
        kiln_tensor_mark_constant(m->b);
    }
out:
    return status;
}

static kiln_status run_matmul_case(const bench_options *options, kiln_device *device,
                                   const blas_library *blas, const matmul_case *c,
                                   const float *host, uint32_t rounds, double shipped,
                                   kiln_error *err)
{
    const kiln_device_info *info = kiln_device_info_of(device);
    const float *x = host, *y = host + 64;
    char numpy[80] = "";
    matmul_times t = {.shipped = shipped};
    matmul_material m = {NULL, NULL, NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_matrices(device, c, x, y, &m, err));
    for (uint32_t b = 0; b < LIBRARIES; b++) {
        if (blas[b].sgemm != NULL && !c->gelu) {
            KILN_TRY(out, status, check(device, c, &m, &blas[b], x, y, err));
        }
    }
    KILN_TRY(out, status,
             measure_matmul(&(matmul_sides){device, c, &m, blas, x, y}, rounds, &t, err));
    if (info->type == KILN_DEVICE_CPU && c->batches == 1) {
        t.numpy = ask_numpy(c, info->compute_units, numpy, sizeof(numpy));
    }
    report_matmul(options, device, c, blas, numpy, rounds, &t);
out:
    release_matrices(&m);
    return status;
}

static void close_device(kiln_context **context, kiln_device **device)
{
    kiln_device_release(*device);
    *device = NULL;
    kiln_context_destroy(*context);
    *context = NULL;
}

kiln_status bench_matmul(const bench_options *options, kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    blas_library peers[LIBRARIES];
    uint32_t samples = options->samples > 0 ? options->samples : MATMUL_ROUNDS;
    uint32_t rounds = samples > MAX_MATMUL_ROUNDS ? MAX_MATMUL_ROUNDS : samples;
    kiln_status status = KILN_STATUS_OK;
    bool is_cpu = false;
    double shipped[MATMUL_CASES] = {0};
    float *host = malloc(OPERAND_ELEMENTS * sizeof(float));
    float *result = malloc(RESULT_ELEMENTS * sizeof(float));
    memset(peers, 0, sizeof(peers));
    if (host == NULL || result == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
        goto out;
    }
    for (uint32_t i = 0, state = 1; i < OPERAND_ELEMENTS; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, options->device, &device, err));
    is_cpu = kiln_device_info_of(device)->type == KILN_DEVICE_CPU;
    for (uint32_t b = 0; b < LIBRARIES && is_cpu; b++) {
        blas_open(&peers[b], b, kiln_device_info_of(device)->compute_units, result);
    }
    for (size_t i = 0; i < MATMUL_CASES; i++) {
        if (matmul_cases[i].bar_shipped > 0 && is_cpu &&
            bench_wanted(options, matmul_cases[i].name)) {
            KILN_TRY(out, status,
                     bench_clblast_time(kiln_device_info_of(device)->name,
                                        (size_t)matmul_cases[i].m, (size_t)matmul_cases[i].k,
                                        (size_t)matmul_cases[i].n, &shipped[i], err));
        }
    }
    bench_header(options);
    for (size_t i = 0; i < MATMUL_CASES; i++) {
        if (!bench_wanted(options, matmul_cases[i].name)) {
            continue;
        }
        // A plan serves every size: what won for another one must not decide here.
        close_device(&context, &device);
        KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
        KILN_TRY(out, status, kiln_device_open(context, options->device, &device, err));
        KILN_TRY(out, status,
                 run_matmul_case(options, device, peers, &matmul_cases[i], host, rounds, shipped[i],
                                 err));
    }
out:
    close_device(&context, &device);
    free(host);
    free(result);
    return status;
}
