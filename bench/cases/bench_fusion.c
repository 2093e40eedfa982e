// SPDX-License-Identifier: MIT OR Apache-2.0
// Fused blocks in primitives: each case beside the copy kernel (bytes that must move, per second),
// the same operations unfused, and PyTorch eager on as many threads, through bench_fusion_peers.py;
// a peer that is not there is named. Rounds are interleaved.

#include "bench.h"

#include "choice.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FUSION_ROUNDS = 7, MAX_FUSION_ROUNDS = 51, TENSORS = 200 };

/// How much is done: large arrays on a GPU, whose caches hold the others, and many steps in its
/// queue, so that waiting for the last is no part of one.
typedef struct fusion_size {
    int64_t rows;
    uint32_t repeats;
    size_t copy_elements;
} fusion_size;
static const fusion_size on_processors = {4096, 2, 16 << 20}, on_gpus = {32768, 20, 128 << 20};

static const fusion_size *size_for(const kiln_device_info *info)
{
    return info->type == KILN_DEVICE_CPU ? &on_processors : &on_gpus;
}

typedef struct fusion_material { ///< what a case reads
    kiln_tensor *x; ///< [rows, its columns]
    kiln_tensor *y; ///< the same
    kiln_tensor *mask; ///< the same, bool
    kiln_tensor *weight; ///< [columns]
    kiln_tensor *small; ///< [16384]
    kiln_tensor *steps[4 * TENSORS]; ///< [16384]: parameter, mean, variance, gradient of each
    bool in_place; ///< the optimiser's results take the place of what it read
} fusion_material;

typedef struct fusion_case {
    const char *name;
    int64_t columns;
    double passes; ///< tensors of x's size that must be read or written
    kiln_status (*record)(fusion_material *m, kiln_tensor **out, size_t *n_out, kiln_error *err);
} fusion_case;

// ---- recording ----

/// Tensors made while a case is recorded; `keep` takes one out, the rest is released at the end.
typedef struct pad {
    kiln_tensor *made[16];
    size_t count;
    kiln_status status;
    kiln_error *err;
} pad;

static kiln_tensor *note(pad *p, kiln_tensor *made)
{
    if (made != NULL) {
        p->made[p->count++] = made;
    }
    return made;
}

/// One more operation, unless one before has failed; `made` is the caller's variable.
#define STEP(p, call)                                                                              \
    ((p)->status != KILN_STATUS_OK ? NULL : (made = NULL, (p)->status = (call), note((p), made)))

static kiln_tensor *keep(pad *p, kiln_tensor *tensor)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->made[i] == tensor) {
            p->made[i] = p->made[--p->count];
            return tensor;
        }
    }
    return NULL;
}

static kiln_status finish(pad *p)
{
    for (size_t i = 0; i < p->count; i++) {
        kiln_release(p->made[i]);
    }
    return p->status;
}

static const int64_t first_row[] = {1};

static kiln_status record_gelu(fusion_material *m, kiln_tensor **out, size_t *n_out,
                               kiln_error *err)
{
    pad p = {.err = err};
    kiln_tensor *made = NULL;
    kiln_tensor *s = STEP(&p, kiln_mul_scalar(m->x, kiln_f64(0.70710678118654752), &made, err));
    kiln_tensor *e = STEP(&p, kiln_erf(s, &made, err));
    kiln_tensor *f = STEP(&p, kiln_add_scalar(e, kiln_f64(1), &made, err));
    kiln_tensor *h = STEP(&p, kiln_mul_scalar(m->x, kiln_f64(0.5), &made, err));
    kiln_tensor *y = STEP(&p, kiln_mul(h, f, &made, err));
    out[0] = keep(&p, y);
    *n_out = 1;
    return finish(&p);
}

static kiln_status record_softmax(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                  kiln_error *err)
{
    pad p = {.err = err};
    kiln_tensor *made = NULL;
    kiln_tensor *most = STEP(&p, kiln_max(m->x, first_row, 1, true, &made, err));
    kiln_tensor *moved = STEP(&p, kiln_sub(m->x, most, &made, err));
    kiln_tensor *e = STEP(&p, kiln_exp(moved, &made, err));
    kiln_tensor *sum = STEP(&p, kiln_sum(e, first_row, 1, true, &made, err));
    out[0] = keep(&p, STEP(&p, kiln_div(e, sum, &made, err)));
    *n_out = 1;
    return finish(&p);
}

static kiln_tensor *layer_norm(pad *p, fusion_material *m, kiln_tensor *x)
{
    kiln_tensor *made = NULL;
    kiln_tensor *mean = STEP(p, kiln_mean(x, first_row, 1, true, &made, p->err));
    kiln_tensor *moved = STEP(p, kiln_sub(x, mean, &made, p->err));
    kiln_tensor *square = STEP(p, kiln_mul(moved, moved, &made, p->err));
    kiln_tensor *variance = STEP(p, kiln_mean(square, first_row, 1, true, &made, p->err));
    kiln_tensor *shifted = STEP(p, kiln_add_scalar(variance, kiln_f64(1e-5), &made, p->err));
    kiln_tensor *scale = STEP(p, kiln_rsqrt(shifted, &made, p->err));
    kiln_tensor *normal = STEP(p, kiln_mul(moved, scale, &made, p->err));
    kiln_tensor *weighted = STEP(p, kiln_mul(normal, m->weight, &made, p->err));
    return STEP(p, kiln_add(weighted, m->weight, &made, p->err));
}

static kiln_status record_layer_norm(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                     kiln_error *err)
{
    pad p = {.err = err};
    out[0] = keep(&p, layer_norm(&p, m, m->x));
    *n_out = 1;
    return finish(&p);
}

static kiln_status record_rms_norm(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                   kiln_error *err)
{
    pad p = {.err = err};
    kiln_tensor *made = NULL;
    kiln_tensor *square = STEP(&p, kiln_mul(m->x, m->x, &made, err));
    kiln_tensor *mean = STEP(&p, kiln_mean(square, first_row, 1, true, &made, err));
    kiln_tensor *shifted = STEP(&p, kiln_add_scalar(mean, kiln_f64(1e-5), &made, err));
    kiln_tensor *scale = STEP(&p, kiln_rsqrt(shifted, &made, err));
    kiln_tensor *normal = STEP(&p, kiln_mul(m->x, scale, &made, err));
    out[0] = keep(&p, STEP(&p, kiln_mul(normal, m->weight, &made, err)));
    *n_out = 1;
    return finish(&p);
}

static kiln_status record_log_sum_exp(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                      kiln_error *err)
{
    pad p = {.err = err};
    kiln_tensor *made = NULL;
    kiln_tensor *most = STEP(&p, kiln_max(m->x, first_row, 1, true, &made, err));
    kiln_tensor *e = STEP(&p, kiln_sub(m->x, most, &made, err));
    kiln_tensor *powers = STEP(&p, kiln_exp(e, &made, err));
    kiln_tensor *sum = STEP(&p, kiln_sum(powers, first_row, 1, true, &made, err));
    kiln_tensor *log = STEP(&p, kiln_log(sum, &made, err));
    out[0] = keep(&p, STEP(&p, kiln_add(log, most, &made, err)));
    *n_out = 1;
    return finish(&p);
}

/// Mean and variance over one axis from one pass: of the elements and of their squares.
static kiln_status moments(fusion_material *m, const int64_t *axes, kiln_tensor **out,
                           size_t *n_out, kiln_error *err)
{
    pad p = {.err = err};
    kiln_tensor *made = NULL;
    kiln_tensor *square = STEP(&p, kiln_mul(m->x, m->x, &made, err));
    kiln_tensor *mean = STEP(&p, kiln_mean(m->x, axes, 1, true, &made, err));
    kiln_tensor *squares = STEP(&p, kiln_mean(square, axes, 1, true, &made, err));
    kiln_tensor *of_mean = STEP(&p, kiln_mul(mean, mean, &made, err));
    out[1] = keep(&p, STEP(&p, kiln_sub(squares, of_mean, &made, err)));
    out[0] = keep(&p, mean);
    *n_out = 2;
    return finish(&p);
}

static kiln_status record_moments(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                  kiln_error *err)
{
    return moments(m, first_row, out, n_out, err);
}

static kiln_status record_columns(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                  kiln_error *err)
{
    static const int64_t columns[] = {0};
    return moments(m, columns, out, n_out, err);
}

static kiln_status record_dropout_norm(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                       kiln_error *err)
{
    pad p = {.err = err};
    kiln_tensor *made = NULL;
    kiln_tensor *dropped = STEP(&p, kiln_mask_fill(m->x, m->mask, kiln_f64(0), &made, err));
    kiln_tensor *scaled = STEP(&p, kiln_mul_scalar(dropped, kiln_f64(1 / 0.9), &made, err));
    kiln_tensor *sum = STEP(&p, kiln_add(scaled, m->y, &made, err));
    out[0] = keep(&p, layer_norm(&p, m, sum));
    out[1] = keep(&p, sum);
    *n_out = 2;
    return finish(&p);
}

/// Two chains whose operations come in turn.
static kiln_status record_interleaved(fusion_material *m, kiln_tensor **out, size_t *n_out,
                                      kiln_error *err)
{
    pad p = {.err = err};
    kiln_tensor *made = NULL;
    kiln_tensor *a = m->x, *b = m->small;
    for (int i = 0; i < 3; i++) {
        a = STEP(&p, kiln_mul_scalar(a, kiln_f64(1.5), &made, err));
        b = STEP(&p, kiln_add_scalar(b, kiln_f64(0.5), &made, err));
        a = STEP(&p, kiln_relu(a, &made, err));
        b = STEP(&p, kiln_neg(b, &made, err));
    }
    out[0] = keep(&p, a);
    out[1] = keep(&p, b);
    *n_out = 2;
    return finish(&p);
}

/// m = 0.9 m + 0.1 g; v = 0.999 v + 0.001 g g; p - lr m / (sqrt(v) + eps), for 200 small tensors.
static kiln_status record_adam(fusion_material *m, kiln_tensor **out, size_t *n_out,
                               kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    *n_out = 0;
    for (int i = 0; i < TENSORS && status == KILN_STATUS_OK; i++) {
        pad p = {.err = err};
        kiln_tensor *made = NULL;
        kiln_tensor **own = &m->steps[4 * i];
        kiln_tensor *g = own[3];
        kiln_tensor *m1 = STEP(&p, kiln_mul_scalar(own[1], kiln_f64(0.9), &made, err));
        kiln_tensor *m2 = STEP(&p, kiln_mul_scalar(g, kiln_f64(0.1), &made, err));
        kiln_tensor *mean = STEP(&p, kiln_add(m1, m2, &made, err));
        kiln_tensor *square = STEP(&p, kiln_mul(g, g, &made, err));
        kiln_tensor *v1 = STEP(&p, kiln_mul_scalar(own[2], kiln_f64(0.999), &made, err));
        kiln_tensor *v2 = STEP(&p, kiln_mul_scalar(square, kiln_f64(0.001), &made, err));
        kiln_tensor *variance = STEP(&p, kiln_add(v1, v2, &made, err));
        kiln_tensor *root = STEP(&p, kiln_sqrt(variance, &made, err));
        kiln_tensor *shifted = STEP(&p, kiln_add_scalar(root, kiln_f64(1e-8), &made, err));
        kiln_tensor *step = STEP(&p, kiln_div(mean, shifted, &made, err));
        kiln_tensor *scaled = STEP(&p, kiln_mul_scalar(step, kiln_f64(1e-3), &made, err));
        kiln_tensor *next = STEP(&p, kiln_sub(own[0], scaled, &made, err));
        kiln_tensor *results[] = {keep(&p, next), keep(&p, mean), keep(&p, variance)};
        status = finish(&p);
        for (int k = 0; k < 3; k++) {
            if (!m->in_place || status != KILN_STATUS_OK) {
                out[(*n_out)++] = results[k];
                continue;
            }
            kiln_release(own[k]);
            own[k] = results[k];
        }
    }
    return status;
}

static const fusion_case fusion_cases[] = {
    {"gelu", 4096, 2, record_gelu},
    {"softmax", 4096, 2, record_softmax},
    {"layer_norm", 1024, 2, record_layer_norm},
    {"rms_norm", 4096, 2, record_rms_norm},
    {"log_sum_exp", 4096, 1, record_log_sum_exp},
    {"moments", 4096, 1, record_moments},
    {"moments_columns", 4096, 1, record_columns},
    {"dropout_norm", 4096, 4.25, record_dropout_norm},
    {"interleaved", 4096, 2, record_interleaved},
    {"adam", 0, 7, record_adam},
};
enum { FUSION_CASES = sizeof(fusion_cases) / sizeof(fusion_cases[0]), OUTPUTS = 3 * TENSORS };

// ---- timing ----

static kiln_status time_fusion_case(kiln_device *device, const fusion_case *c, fusion_material *m,
                                    double *out_seconds, kiln_error *err)
{
    const uint32_t repeats = size_for(kiln_device_info_of(device))->repeats;
    static kiln_tensor *results[OUTPUTS];
    kiln_status status = kiln_sync(device, err);
    uint64_t start = kiln_time_ns();
    for (uint32_t i = 0; i < repeats && status == KILN_STATUS_OK; i++) {
        size_t count = 0;
        status = c->record(m, results, &count, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_flush(device, err); // while the results are held: they are written
        }
        for (size_t k = 0; k < count; k++) {
            kiln_release(results[k]);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(device, err);
    }
    *out_seconds = (double)(kiln_time_ns() - start) / 1e9 / repeats;
    return status;
}

static double bytes_of(const fusion_case *c, const fusion_size *size)
{
    double bytes = c->columns > 0 ? (double)(size->rows * c->columns) * 4 : TENSORS * 16384.0 * 4;
    return c->passes * bytes;
}

/// The speed of a case to that of the copy, by their bytes and the ratio of their times.
static double to_copy(const fusion_case *c, const fusion_size *size, double ratio)
{
    return ratio * bytes_of(c, size) / (2.0 * sizeof(float) * (double)size->copy_elements);
}

typedef struct peer_time {
    char name[32];
    double seconds;
} peer_time;

/// The times of PyTorch; the count is 0 when it is not there.
static size_t ask_peer(peer_time *times, uint32_t threads, const char *only, char *version,
                       size_t capacity)
{
    char command[512], line[128];
    size_t count = 0;
    snprintf(command, sizeof(command),
             "/usr/bin/python3 '%s/bench_fusion_peers.py' %u '%s' 2>/dev/null", KILN_BENCH_DIR,
             threads, only != NULL && strchr(only, '\'') == NULL ? only : "");
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): a command of ours
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
        char word[64];
        if (sscanf(line, "version %63s", word) == 1) {
            snprintf(version, capacity, "torch %s", word);
        } else if (count < FUSION_CASES &&
                   sscanf(line, "%31s %lf", times[count].name, &times[count].seconds) == 2) {
            count++;
        }
    }
    if (pipe != NULL) {
        pclose(pipe);
    }
    return count;
}

/// The median over the rounds of the ratio of what stood beside each other.
static double median_ratio(const double *over, const double *under, uint32_t rounds)
{
    double ratios[MAX_FUSION_ROUNDS];
    for (uint32_t i = 0; i < rounds; i++) {
        ratios[i] = over[i] / under[i];
    }
    return kiln_quantile(ratios, rounds, 0.5);
}

static kiln_status run_fusion_case(const bench_options *options, kiln_device *device,
                                   const fusion_case *c, fusion_material *m, bench_copy *copy,
                                   double peer_s, const char *peer_version, uint32_t rounds,
                                   kiln_error *err)
{
    double fused[MAX_FUSION_ROUNDS], plain[MAX_FUSION_ROUNDS], copies[MAX_FUSION_ROUNDS],
        ignored = 0;
    const fusion_size *size = size_for(kiln_device_info_of(device));
    kiln_status status = KILN_STATUS_OK;
    for (int warm = 0; warm < 4; warm++) {
        KILN_TRY(out, status, kiln_device_set_fusion(device, warm % 2 == 1, err));
        KILN_TRY(out, status, time_fusion_case(device, c, m, &ignored, err));
    }
    for (uint32_t i = 0; i < rounds; i++) {
        KILN_TRY(out, status, kiln_device_set_fusion(device, false, err));
        KILN_TRY(out, status, time_fusion_case(device, c, m, &plain[i], err));
        // Thousands of small buffers later the pool is the unfused run's: one step makes it ours.
        KILN_TRY(out, status, kiln_device_set_fusion(device, true, err));
        KILN_TRY(out, status, time_fusion_case(device, c, m, &ignored, err));
        KILN_TRY(out, status, bench_copy_time(copy, size->repeats, &copies[i], err));
        KILN_TRY(out, status, time_fusion_case(device, c, m, &fused[i], err));
    }
    double against_copy = to_copy(c, size, median_ratio(copies, fused, rounds));
    double against_plain = median_ratio(plain, fused, rounds);
    bench_result row = {.name = c->name,
                        .value = bytes_of(c, size) / kiln_quantile(fused, rounds, 0.5) / 1e9,
                        .unit = "GB/s",
                        .against = "copy kernel",
                        .ratio = against_copy,
                        .bar = bytes_of(c, size) >= 64 << 20 ? 0.85 : 0,
                        .peer_version = bench_copy_shape(copy),
                        .device = kiln_device_info_of(device)->name,
                        .samples = rounds};
    bench_report(options, &row);
    row.against = "unfused";
    row.ratio = against_plain;
    row.bar = 0;
    row.peer_version = "Kiln, one operation at a time";
    bench_report(options, &row);
    if (peer_s > 0) {
        row.against = "PyTorch eager";
        row.ratio = peer_s / kiln_quantile(fused, rounds, 0.5);
        row.bar = 1;
        row.peer_version = peer_version;
        bench_report(options, &row);
    }
out:
    return status;
}

/// Parameter, mean and variance are carried from step to step.
static kiln_status capture_case(kiln_device *device, const fusion_case *c, fusion_material *m,
                                kiln_graph **out_graph, kiln_error *err)
{
    static kiln_tensor *results[OUTPUTS];
    size_t count = 0;
    kiln_status status = kiln_graph_begin(device, m->steps, 4 * (size_t)TENSORS, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = c->record(m, results, &count, err);
    for (size_t k = 0; k < count && status == KILN_STATUS_OK; k++) {
        status = kiln_graph_carry(device, m->steps[k / 3 * 4 + k % 3], results[k], err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(device, NULL, 0, out_graph, err);
    } else {
        kiln_graph_cancel(device);
    }
    for (size_t k = 0; k < count; k++) {
        kiln_release(results[k]);
    }
    return status;
}

static kiln_status time_replay(kiln_device *device, kiln_graph *graph, fusion_material *m,
                               double *out_seconds, kiln_error *err)
{
    const uint32_t repeats = size_for(kiln_device_info_of(device))->repeats;
    kiln_status status = kiln_sync(device, err);
    uint64_t start = kiln_time_ns();
    for (uint32_t i = 0; i < repeats && status == KILN_STATUS_OK; i++) {
        status = kiln_graph_advance(graph, m->steps, 4 * (size_t)TENSORS, NULL, 0, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(device, err);
    }
    *out_seconds = (double)(kiln_time_ns() - start) / 1e9 / repeats;
    return status;
}

/// The optimiser's step from a captured graph: without recording, in place.
static kiln_status run_replay(const bench_options *options, kiln_device *device,
                              const fusion_case *c, fusion_material *m, bench_copy *copy,
                              double peer_s, const char *peer_version, uint32_t rounds,
                              kiln_error *err)
{
    double times[MAX_FUSION_ROUNDS], copies[MAX_FUSION_ROUNDS], ignored = 0;
    const fusion_size *size = size_for(kiln_device_info_of(device));
    kiln_graph *graph = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_device_set_fusion(device, true, err)); // a case before left it off
    KILN_TRY(out, status, capture_case(device, c, m, &graph, err));
    for (int warm = 0; warm < 3; warm++) {
        KILN_TRY(out, status, time_replay(device, graph, m, &ignored, err));
    }
    for (uint32_t i = 0; i < rounds; i++) {
        KILN_TRY(out, status, bench_copy_time(copy, size->repeats, &copies[i], err));
        KILN_TRY(out, status, time_replay(device, graph, m, &times[i], err));
    }
    double against_copy = to_copy(c, size, median_ratio(copies, times, rounds));
    double seconds = kiln_quantile(times, rounds, 0.5);
    bench_result row = {.name = "adam_replayed",
                        .value = bytes_of(c, size) / seconds / 1e9,
                        .unit = "GB/s",
                        .against = "copy kernel",
                        .ratio = against_copy,
                        .bar = 0.85,
                        .peer_version = bench_copy_shape(copy),
                        .device = kiln_device_info_of(device)->name,
                        .samples = rounds};
    bench_report(options, &row);
    if (peer_s > 0) {
        row.against = "PyTorch eager";
        row.ratio = peer_s / seconds;
        row.bar = 1;
        row.peer_version = peer_version;
        bench_report(options, &row);
    }
out:
    kiln_graph_destroy(graph);
    return status;
}

// ---- material ----

static void release_material(fusion_material *m)
{
    kiln_release(m->x);
    kiln_release(m->y);
    kiln_release(m->mask);
    kiln_release(m->weight);
    kiln_release(m->small);
    for (int i = 0; i < 4 * TENSORS; i++) {
        kiln_release(m->steps[i]);
    }
    memset(m, 0, sizeof(*m));
}

static kiln_status make_material(kiln_device *device, int64_t rows, int64_t columns,
                                 const float *host, fusion_material *m, kiln_error *err)
{
    const int64_t dims[] = {rows, columns > 0 ? columns : 1}, small[] = {16384};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, host, &m->x, err));
    KILN_TRY(out, status,
             kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, host + 77, &m->y, err));
    KILN_TRY(out, status, kiln_greater_scalar(m->x, kiln_f64(0.8), &m->mask, err));
    KILN_TRY(out, status,
             kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims + 1, host, &m->weight, err));
    KILN_TRY(out, status,
             kiln_tensor_create(device, KILN_DTYPE_F32, 1, small, host, &m->small, err));
    for (int i = 0; i < 4 * TENSORS && columns == 0; i++) {
        KILN_TRY(out, status,
                 kiln_tensor_create(device, KILN_DTYPE_F32, 1, small, host, &m->steps[i], err));
    }
    status = kiln_sync(device, err);
out:
    return status;
}

// ---- the same programs for others ----

static kiln_status make_inputs(kiln_device *device, void *user, kiln_tensor **out_inputs,
                               size_t *out_count, kiln_error *err)
{
    const fusion_case *c = user;
    fusion_material m = {0};
    size_t elements = 4096u * (size_t)(c->columns > 0 ? c->columns : 4) + 100;
    float *host = malloc(elements * sizeof(float));
    if (host == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    for (size_t i = 0; i < elements; i++) {
        host[i] = (float)(i % 977) / 977.0f + 0.001f;
    }
    kiln_status status = make_material(device, on_processors.rows, c->columns, host, &m, err);
    if (status == KILN_STATUS_OK) {
        size_t bytes = offsetof(fusion_material, steps) + (c->columns > 0 ? 0 : sizeof(m.steps));
        memcpy((void *)out_inputs, (const void *)&m, bytes);
        *out_count = bytes / sizeof(kiln_tensor *);
    } else {
        release_material(&m);
    }
    free(host);
    return status;
}

static kiln_status record_inputs(kiln_device *device, void *user, kiln_tensor *const *inputs,
                                 kiln_tensor **out_results, size_t *out_count, kiln_error *err)
{
    const fusion_case *c = user;
    fusion_material m = {0};
    (void)device;
    memcpy(&m, (const void *)inputs, // tensors and nothing else, in this order
           offsetof(fusion_material, steps) + (c->columns > 0 ? 0 : sizeof(m.steps)));
    return c->record(&m, out_results, out_count, err);
}

const char *bench_fusion_case(size_t index)
{
    return index < FUSION_CASES ? fusion_cases[index].name : NULL;
}

bool bench_fusion_program(size_t index, choice_program *out_program)
{
    if (index >= FUSION_CASES) {
        return false;
    }
    *out_program = (choice_program){.name = fusion_cases[index].name,
                                    .user = (void *)(uintptr_t)&fusion_cases[index],
                                    .make = make_inputs,
                                    .record = record_inputs};
    return true;
}

static kiln_status random_floats(size_t count, float **out, kiln_error *err)
{
    uint32_t state = 1;
    float *host = malloc(count * sizeof(float));
    *out = host;
    for (size_t i = 0; host != NULL && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = (float)(state >> 8) / 16777216.0f + 0.001f;
    }
    return host != NULL ? KILN_STATUS_OK
                        : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
}

kiln_status bench_fusion(const bench_options *options, kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    bench_copy *copy = NULL;
    fusion_material m = {0};
    peer_time times[FUSION_CASES];
    char version[80] = "";
    uint32_t samples = options->samples > 0 ? options->samples : FUSION_ROUNDS;
    uint32_t rounds = samples > MAX_FUSION_ROUNDS ? MAX_FUSION_ROUNDS : samples;
    kiln_status status = KILN_STATUS_OK;
    float *host = NULL;
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, options->device, &device, err));
    const kiln_device_info *info = kiln_device_info_of(device);
    const fusion_size *size = size_for(info);
    KILN_TRY(out, status, random_floats((size_t)size->rows * 4096 + 100, &host, err));
    size_t n_times =
        info->type != KILN_DEVICE_CPU
            ? 0
            : ask_peer(times, info->compute_units, options->only, version, sizeof(version));
    if (n_times == 0) {
        fprintf(stderr, "PyTorch %s: left out\n",
                info->type == KILN_DEVICE_CPU ? "is not there (python3-torch)"
                                              : "is compared on processors only");
    }
    KILN_TRY(out, status,
             bench_copy_create(info->name, sizeof(float) * size->copy_elements, &copy, err));
    bench_header(options);
    for (size_t i = 0; i < FUSION_CASES; i++) {
        double peer_s = 0;
        if (!bench_wanted(options, fusion_cases[i].name)) {
            continue;
        }
        for (size_t k = 0; k < n_times; k++) {
            peer_s = strcmp(times[k].name, fusion_cases[i].name) == 0 ? times[k].seconds : peer_s;
        }
        KILN_TRY(out, status,
                 make_material(device, size->rows, fusion_cases[i].columns, host, &m, err));
        if (fusion_cases[i].columns == 0) {
            KILN_TRY(out, status,
                     run_replay(options, device, &fusion_cases[i], &m, copy, peer_s, version,
                                rounds, err));
        }
        m.in_place = fusion_cases[i].columns == 0;
        KILN_TRY(out, status,
                 run_fusion_case(options, device, &fusion_cases[i], &m, copy, peer_s, version,
                                 rounds, err));
        release_material(&m);
    }
out:
    release_material(&m);
    bench_copy_destroy(copy);
    kiln_device_release(device);
    kiln_context_destroy(context);
    free(host);
    return status;
}
