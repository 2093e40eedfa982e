// SPDX-License-Identifier: MIT OR Apache-2.0
// Tournaments on a device: they change no result, also of blocks that work in place; a candidate
// that cannot be built loses; and another process starts with the winners, measuring nothing.

#include "memory_internal.h"
#include "rt_device.h"
#include "runtime_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 96,
    COLUMNS = 640,
    N = ROWS * COLUMNS,
    OPS = 4, ///< kernels of the chain, one by one
    SAMPLED = 8 ///< kernels of a run in which samples were taken, at least
};

static float a[N], b[N], plain[N], tuned[N];

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        a[i] = sinf((float)i * 0.7f) * 3.0f;
        b[i] = cosf((float)i * 1.3f) * 2.0f;
    }
    a[1] = NAN;
    b[2] = INFINITY;
}

static uint64_t kernels(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.backend.kernels_launched;
}

/// exp((x * y + 1) * 0.5) over inputs that are let go, so that the block works in place.
static kiln_status chain(fixture *f, kiln_tensor *x, kiln_tensor *y, float *out)
{
    kiln_tensor *t[4] = {NULL};
    FIXTURE_OK(f, kiln_mul(x, y, &t[0], &f->err));
    kiln_release(x);
    kiln_release(y);
    FIXTURE_OK(f, kiln_add_scalar(t[0], kiln_f64(1), &t[1], &f->err));
    kiln_release(t[0]);
    FIXTURE_OK(f, kiln_mul_scalar(t[1], kiln_f64(0.5), &t[2], &f->err));
    kiln_release(t[1]);
    FIXTURE_OK(f, kiln_exp(t[2], &t[3], &f->err));
    kiln_release(t[2]);
    kiln_status status = kiln_read(t[3], out, sizeof(float) * N, &f->err);
    kiln_release(t[3]);
    return status;
}

static uint64_t run_chain(fixture *f, float *out)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    kiln_tensor *x = fixture_f32(f, 2, dims, a), *y = fixture_f32(f, 2, dims, b);
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t before = kernels(f);
    FIXTURE_OK(f, chain(f, x, y, out));
    return kernels(f) - before;
}

/// Mean and mean of squares down the columns: two of the shipped fusers can do it.
static uint64_t run_moments(fixture *f, float *out)
{
    const int64_t dims[] = {ROWS, COLUMNS}, axes[] = {0};
    kiln_tensor *square = NULL, *mean = NULL, *squares = NULL;
    kiln_tensor *x = fixture_f32(f, 2, dims, b);
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t before = kernels(f);
    FIXTURE_OK(f, kiln_mul(x, x, &square, &f->err));
    FIXTURE_OK(f, kiln_mean(x, axes, 1, false, &mean, &f->err));
    FIXTURE_OK(f, kiln_mean(square, axes, 1, false, &squares, &f->err));
    kiln_release(square);
    kiln_release(x);
    FIXTURE_OK(f, kiln_read(mean, out, sizeof(float) * COLUMNS, &f->err));
    FIXTURE_OK(f, kiln_read(squares, out + COLUMNS, sizeof(float) * COLUMNS, &f->err));
    kiln_release(mean);
    kiln_release(squares);
    return kernels(f) - before;
}

static void same(const float *x, const float *y, int count)
{
    for (int i = 0; i < count; i++) {
        if (!(isnan(x[i]) && isnan(y[i])) && memcmp(&x[i], &y[i], sizeof(float)) != 0) {
            KILN_FAIL("element %d: %a untuned, %a tuned", i, (double)x[i], (double)y[i]);
            return;
        }
    }
}

static void test_results_stay(void)
{
    fixture f;
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    run_chain(&f, plain);
    fixture_close(&f);
    if (!fixture_open_with(&f, "opencl:0", "tune", "full")) {
        return;
    }
    KILN_CHECK(run_chain(&f, tuned) > SAMPLED);
    same(plain, tuned, N);
    KILN_CHECK(run_chain(&f, tuned) <= OPS); // none again, whoever won
    same(plain, tuned, N);
    fixture_close(&f);
    unsetenv("KILN_CACHE_DIR");
}

/// A tournament and a check of the same block, in the same run: each has memory of its own, and
/// neither touches the run's.
static void test_a_check_beside_a_tournament(void)
{
    fixture f;
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    run_chain(&f, plain);
    fixture_close(&f);
    setenv("KILN_CHECK", "always", 1);
    bool opened = fixture_open_with(&f, "opencl:0", "tune", "full");
    unsetenv("KILN_CHECK");
    if (!opened) {
        return;
    }
    KILN_CHECK(run_chain(&f, tuned) > SAMPLED + OPS);
    same(plain, tuned, N);
    for (int i = 0; i < 2; i++) {
        KILN_CHECK(run_chain(&f, tuned) >= OPS); // alone, and fused unless the operations won
        same(plain, tuned, N);
    }
    fixture_close(&f);
    unsetenv("KILN_CACHE_DIR");
}

static void test_hot_blocks_are_measured_lazily(void)
{
    fixture f;
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    setenv("KILN_TUNE_BUDGET", "100000000", 1);
    bool opened = fixture_open_with(&f, "opencl:0", "tune", "lazy");
    unsetenv("KILN_TUNE_BUDGET");
    if (!opened) {
        return;
    }
    int first = -1, last = -1, sampled = 0;
    KILN_CHECK_INT(run_chain(&f, tuned), 1);
    for (int i = 0; i < 60; i++) {
        if (run_chain(&f, tuned) > OPS) {
            first = first < 0 ? i : first;
            last = i;
            sampled++;
        }
    }
    // One tournament: in one run, or in as many as a slow machine needs, and none ever again.
    KILN_CHECK(sampled > 0 && last - first + 1 == sampled && last < 59);
    fixture_close(&f);
    unsetenv("KILN_CACHE_DIR");
}

/// A program that ran for a moment is not paid for with tournaments, however often it ran.
static void test_short_programs_are_not_measured(void)
{
    fixture f;
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    if (!fixture_open_with(&f, "opencl:0", "tune", "lazy")) {
        return;
    }
    for (int i = 0; i < 30; i++) {
        KILN_CHECK_INT(run_chain(&f, tuned), 1);
    }
    const kilni_tune_budget *budget = &f.device->samples.budget;
    KILN_CHECK(budget->ran_ns > 0 && budget->ran_ns < 60000000000);
    KILN_CHECK_INT(budget->spent_ns, 0);
    fixture_close(&f);
    unsetenv("KILN_CACHE_DIR");
}

/// The tanh of products, each of another shape.
static void run_products(fixture *f, int count)
{
    for (int i = 0; i < count; i++) {
        const int64_t left[] = {8 + i, 32 + i}, right[] = {32 + i, 16 + i};
        kiln_tensor *x = fixture_f32(f, 2, left, a), *y = fixture_f32(f, 2, right, b);
        kiln_tensor *product = NULL, *result = NULL;
        FIXTURE_OK(f, kiln_matmul(x, y, false, false, &product, &f->err));
        FIXTURE_OK(f, kiln_tanh(product, &result, &f->err));
        kiln_release(product);
        FIXTURE_OK(f,
                   kiln_read(result, tuned, sizeof(float) * (size_t)(left[0] * right[1]), &f->err));
        kiln_release(result);
        kiln_release(x);
        kiln_release(y);
    }
}

/// Programs of many blocks are not held up: each block has a tournament, all have one budget.
static void test_many_tournaments_share_the_budget(void)
{
    enum { PRODUCTS = 32, RUNS = 12 };
    fixture f;
    fill();
    setenv("KILN_CACHE_DIR", kiln_test_path(kiln_test_tmpdir(), "products"), 1);
    if (!fixture_open_with(&f, "opencl:0", "tune", "lazy")) {
        return;
    }
    uint64_t start_ns = kiln_time_ns();
    for (int run = 0; run < RUNS; run++) {
        run_products(&f, PRODUCTS);
    }
    double all_ns = (double)(kiln_time_ns() - start_ns);
    const kilni_tune_budget *budget = &f.device->samples.budget;
    KILN_CHECK((double)budget->spent_ns <= 0.05 * all_ns + 1e9); // the last guess may be too low
    KILN_CHECK((double)(budget->ran_ns + budget->spent_ns) <= all_ns);
    fixture_close(&f);
    unsetenv("KILN_CACHE_DIR");
}

static kiln_device_stats run_one_product(const char *mode)
{
    enum { RUNS = 40 };
    const int64_t left[] = {ROWS, COLUMNS}, right[] = {COLUMNS, ROWS};
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    fixture f;
    setenv("KILN_TUNE_BUDGET", "100000000", 1);
    bool opened = fixture_open_with(&f, "opencl:0", "tune", mode);
    unsetenv("KILN_TUNE_BUDGET");
    for (int run = 0; run < RUNS && opened; run++) {
        kiln_tensor *x = fixture_f32(&f, 2, left, b), *y = fixture_f32(&f, 2, right, b);
        kiln_tensor *product = NULL, *result = NULL;
        FIXTURE_OK(&f, kiln_matmul(x, y, false, false, &product, &f.err));
        FIXTURE_OK(&f, kiln_tanh(product, &result, &f.err));
        kiln_release(product);
        FIXTURE_OK(&f, kiln_read(result, tuned, sizeof(float) * ROWS * ROWS, &f.err));
        kiln_release(result);
        kiln_release(x);
        kiln_release(y);
    }
    if (opened) {
        kiln_device_stats_get(f.device, &stats);
        fixture_close(&f);
    }
    return stats;
}

/// The library for products takes seconds to compile: not while a program runs that does without.
/// Who wants all times gets them.
static void test_no_library_is_compiled_in_vain(void)
{
    fixture f;
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    bool processor = kiln_device_info_of(f.device)->type == KILN_DEVICE_CPU;
    fixture_close(&f);
    if (processor) {
        kiln_device_stats lazy = run_one_product("lazy");
        KILN_CHECK(lazy.blocks_measured > 0);
        KILN_CHECK_INT(lazy.backend.blas_calls, 0);
        kiln_device_stats full = run_one_product("full");
        KILN_CHECK(full.blocks_measured > 0 && full.backend.blas_calls > 0);
    } else {
        kiln_test_skip("on a GPU the library may win");
    }
    unsetenv("KILN_CACHE_DIR");
}

static void test_a_wrong_mode_is_refused(void)
{
    fixture f = {.err = KILN_ERROR_INIT};
    FIXTURE_OK(&f, kiln_context_create(NULL, &f.context, &f.err));
    KILN_CHECK(kiln_context_set(f.context, "tune", "sometimes", &f.err) != KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(f.err.message, "off, lazy and full");
    kiln_context_destroy(f.context);
}

/// A rival whose text nobody can compile.
static void test_what_cannot_be_built_loses(void)
{
    fixture f = {.err = KILN_ERROR_INIT};
    char path[4096];
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    snprintf(path, sizeof(path), "%s/lib/kiln/test_plugins/chain_slow.so", KILN_TEST_BUILD_DIR);
    FIXTURE_OK(&f, kiln_context_create(NULL, &f.context, &f.err));
    FIXTURE_OK(&f, kiln_context_set(f.context, "tune", "full", &f.err));
    FIXTURE_OK(&f, kiln_plugin_load(f.context, path, &f.err));
    if (kiln_device_open(f.context, kiln_test_address("opencl:0"), &f.device, &f.err) !=
        KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device");
        kiln_context_destroy(f.context);
        return;
    }
    KILN_CHECK(run_chain(&f, tuned) > SAMPLED);
    KILN_CHECK(run_chain(&f, tuned) <= OPS);
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    run_chain(&f, plain);
    same(plain, tuned, N);
    fixture_close(&f);
    unsetenv("KILN_CACHE_DIR");
}

static bool open_within(fixture *f, const char *mode, int64_t budget)
{
    char bytes[32];
    *f = (fixture){.err = KILN_ERROR_INIT};
    snprintf(bytes, sizeof(bytes), "%lld", (long long)budget);
    FIXTURE_OK(f, kiln_context_create(NULL, &f->context, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "tune", mode, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "memory-budget", bytes, &f->err));
    if (kiln_device_open(f->context, kiln_test_address("opencl:0"), &f->device, &f->err) !=
        KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device");
        kiln_context_destroy(f->context);
        return false;
    }
    return true;
}

/// exp(x * row + 1), of which the row is let go: samples need a copy of it, runs do not. Gives the
/// kernels of the run, or 0 when the memory was too little.
static uint64_t run_tight(fixture *f, kiln_tensor *x, float *out)
{
    const int64_t dims[] = {COLUMNS};
    kiln_tensor *t[3] = {NULL}, *row = NULL;
    f->err = (kiln_error)KILN_ERROR_INIT;
    uint64_t before = 0;
    kiln_status status =
        kiln_tensor_create(f->device, KILN_DTYPE_F32, 1, dims, b + 8, &row, &f->err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(f->device, &f->err);
        before = kernels(f);
    }
    if (status == KILN_STATUS_OK) {
        FIXTURE_OK(f, kiln_mul(x, row, &t[0], &f->err));
        FIXTURE_OK(f, kiln_add_scalar(t[0], kiln_f64(1), &t[1], &f->err));
        FIXTURE_OK(f, kiln_exp(t[1], &t[2], &f->err));
        kiln_release(t[0]);
        kiln_release(t[1]);
        kiln_release(row);
        row = NULL;
        status = kiln_read(t[2], out, sizeof(float) * N, &f->err);
        kiln_release(t[2]);
    }
    kiln_release(row);
    return status == KILN_STATUS_OK ? kernels(f) - before : 0;
}

/// The least budget in which `run_tight` passes without samples.
static int64_t least_budget(void)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    const int64_t step = 1024;
    int64_t budget = 2 * (int64_t)sizeof(float) * N;
    bool passed = false;
    for (int i = 0; i < 200 && !passed; i++) {
        fixture f;
        budget += step;
        if (!open_within(&f, "off", budget)) {
            return 0;
        }
        kiln_tensor *x = fixture_f32(&f, 2, dims, a);
        passed = run_tight(&f, x, plain) > 0;
        kiln_release(x);
        kiln_device_release(f.device);
        kiln_context_destroy(f.context);
    }
    return KILN_CHECK(passed) ? budget : 0;
}

/// A tournament that finds no memory for its samples leaves the block as it was.
static void test_too_little_memory_for_samples(void)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    fixture f;
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    int64_t budget = least_budget();
    if (budget > 0 && open_within(&f, "full", budget)) {
        kiln_tensor *x = fixture_f32(&f, 2, dims, a);
        for (int i = 0; i < 3; i++) {
            uint64_t ran = run_tight(&f, x, tuned);
            KILN_CHECK_STR(f.err.message, "");
            KILN_CHECK(i == 0 ? ran > 0 : ran == 1);
            same(plain, tuned, N);
        }
        kiln_release(x);
        fixture_close(&f);
    }
    unsetenv("KILN_CACHE_DIR");
}

/// What was measured while the machine seemed busy is measured again, by three processes at most.
static void test_another_process_measures_nothing(void)
{
    enum { MOST_PROCESSES = 3 };
    uint64_t first = 0, launched = 0;
    bool doubtful = false, measured = true;
    fill();
    setenv("KILN_CACHE_DIR", kiln_test_path(kiln_test_tmpdir(), "cache"), 1);
    for (int process = 0; process <= MOST_PROCESSES && measured; process++) {
        fixture f;
        kiln_fuse_stats stats = {0};
        if (!fixture_open_with(&f, "opencl:0", "tune", "full")) {
            break;
        }
        launched = run_moments(&f, process == 0 ? plain : tuned);
        first = process == 0 ? launched : first;
        kiln_fuse_engine_stats(f.device->engines.fused, &stats);
        measured = process == 0 || stats.tournaments_measured > 0;
        bool may = process == 0 || (doubtful && process < MOST_PROCESSES);
        KILN_CHECK(measured ? may && launched > SAMPLED : launched == run_moments(&f, tuned));
        doubtful = stats.tournaments_surprising > 0;
        fixture_close(&f);
    }
    unsetenv("KILN_CACHE_DIR");
    KILN_CHECK(first >= launched);
}

static void run_graph(fixture *f, kiln_graph *graph, kiln_tensor *const *inputs, float *out)
{
    kiln_tensor *result = NULL;
    FIXTURE_OK(f, kiln_graph_run(graph, inputs, 2, &result, 1, &f->err));
    FIXTURE_OK(f, kiln_read(result, out, sizeof(float) * N, &f->err));
    kiln_release(result);
}

/// A graph goes on with what a tournament found, here that the unfused operations are faster.
static void test_a_graph_takes_the_better_plan(void)
{
    fixture f;
    const int64_t dims[] = {ROWS, COLUMNS};
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_graph *graph = NULL;
    kiln_tensor *t[2] = {NULL};
    const uint64_t slow[KILN_FUSE_MAX_CONTENDERS] = {1000, 1000, 1000, 1000,
                                                     1000, 1000, 1000, 1000};
    fill();
    setenv("KILN_CACHE_DIR", "off", 1);
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *const inputs[] = {fixture_f32(&f, 2, dims, a), fixture_f32(&f, 2, dims, b)};
    FIXTURE_OK(&f, kiln_graph_begin(f.device, inputs, 2, &f.err));
    FIXTURE_OK(&f, kiln_mul(inputs[0], inputs[1], &t[0], &f.err));
    FIXTURE_OK(&f, kiln_exp(t[0], &t[1], &f.err));
    kiln_release(t[0]);
    FIXTURE_OK(&f, kiln_graph_end(f.device, &t[1], 1, &graph, &f.err));
    kiln_release(t[1]);
    run_graph(&f, graph, inputs, plain);
    kiln_graph_info_get(graph, &info);
    KILN_CHECK_INT(info.blocks, 1);
    const kiln_fuse_segment *segment = kilni_graph_segment(graph);
    kiln_fuse_settle(f.device->engines.fused, segment->plan, 0, segment->symbols, slow, 10);
    run_graph(&f, graph, inputs, tuned); // the last with the old plan
    same(plain, tuned, N);
    for (int i = 0; i < 3; i++) {
        kiln_graph_info_get(graph, &info);
        KILN_CHECK_INT(info.blocks, 0);
        run_graph(&f, graph, inputs, tuned);
        same(plain, tuned, N);
    }
    kiln_graph_destroy(graph);
    kiln_release(inputs[0]);
    kiln_release(inputs[1]);
    fixture_close(&f);
    unsetenv("KILN_CACHE_DIR");
}

KILN_TEST_MAIN(
    "unit/runtime/tune", KILN_TEST(test_results_stay), KILN_TEST(test_a_check_beside_a_tournament),
    KILN_TEST(test_hot_blocks_are_measured_lazily), KILN_TEST(test_short_programs_are_not_measured),
    KILN_TEST(test_many_tournaments_share_the_budget),
    KILN_TEST(test_no_library_is_compiled_in_vain), KILN_TEST(test_a_graph_takes_the_better_plan),
    KILN_TEST(test_a_wrong_mode_is_refused), KILN_TEST(test_what_cannot_be_built_loses),
    KILN_TEST(test_too_little_memory_for_samples), KILN_TEST(test_another_process_measures_nothing))
