// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators of plugins through the public calls: every device agrees with the reference, by kernel,
// by fuser and by host; what is wrong in a call is said by name; and bad operators do no harm.

#include "ir_judge.h"
#include "ir_replay.h"
#include "runtime_fixture.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1003 };

static const char *plugin_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/lib/kiln/test_plugins/%s.so", KILN_TEST_BUILD_DIR, name);
    return path;
}

/// `options`: names and values, then NULL.
static bool open_in(fixture *f, const char *address, const char *const *plugins,
                    const char *const *options)
{
    memset(f, 0, sizeof(*f));
    if (!FIXTURE_OK(f, kiln_context_create(NULL, &f->context, &f->err))) {
        return false;
    }
    for (; *options != NULL; options += 2) {
        FIXTURE_OK(f, kiln_context_set(f->context, options[0], options[1], &f->err));
    }
    for (; *plugins != NULL; plugins++) {
        if (!FIXTURE_OK(f, kiln_plugin_load(f->context, plugin_path(*plugins), &f->err))) {
            return false;
        }
    }
    kiln_status status =
        kiln_device_open(f->context, kiln_test_address(address), &f->device, &f->err);
    if (status != KILN_STATUS_OK && strncmp(address, "opencl", 6) == 0) {
        kiln_test_skip("no OpenCL device: %s", f->err.message);
        kiln_context_destroy(f->context);
        return false;
    }
    return FIXTURE_OK(f, status);
}

static bool open_with(fixture *f, const char *address, const char *const *plugins)
{
    return open_in(f, address, plugins, (const char *const[]){"cache-dir", "off", NULL});
}

#define PLUGINS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static kiln_custom_call call_of(const char *name, kiln_tensor *const *inputs, size_t n_inputs,
                                const kiln_custom_attr *attrs, size_t n_attrs)
{
    kiln_custom_call call = KILN_CUSTOM_CALL_INIT;
    call.name = name;
    call.inputs = inputs;
    call.n_inputs = n_inputs;
    call.attrs = attrs;
    call.n_attrs = n_attrs;
    return call;
}

static kiln_custom_attr real(const char *name, double value)
{
    return (kiln_custom_attr){name, {KILN_ATTR_F64, 1, {.f = value}}};
}

static kiln_custom_attr integer(const char *name, int64_t value)
{
    return (kiln_custom_attr){name, {KILN_ATTR_I64, 1, {.i = value}}};
}

static kiln_status mish(fixture *f, kiln_tensor *x, double clip, kiln_tensor **out)
{
    const kiln_custom_attr attr = real("clip", clip);
    const kiln_custom_call call = call_of("acme::mish_clip", &x, 1, &attr, 1);
    return kiln_custom(NULL, &call, out, 1, &f->err);
}

static void fill(float *data, size_t count)
{
    static const float special[] = {NAN,    INFINITY, -INFINITY, 0.0f, -0.0f,
                                    1e-40f, -101,     -99,       20.5f};
    for (size_t i = 0; i < count; i++) {
        data[i] = i < 9 ? special[i] : sinf((float)i * 0.7f) * 9.0f;
    }
}

/* What the plugin's header promises, written anew. */
static double expected(double x, double clip)
{
    double y = isinf(x) && x < 0 ? 0 : x * tanh(log1p(exp(x)));
    y = x > 700 ? x : y;
    return isnan(y) ? y : fmin(fmax(y, -clip), clip);
}

static bool close_to(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 2e-6 * fmax(1, fabs(b));
}

static uint64_t kernels(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.backend.kernels_launched;
}

static void run_mish(fixture *f, double clip, uint64_t *out_kernels)
{
    static float in[N];
    static float out[N];
    const int64_t dims[] = {17, 59};
    kiln_tensor *y = NULL;
    fill(in, N);
    kiln_tensor *x = fixture_f32(f, 2, dims, in);
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t before = kernels(f);
    FIXTURE_OK(f, mish(f, x, clip, &y));
    FIXTURE_OK(f, kiln_read(y, out, sizeof(out), &f->err));
    *out_kernels = kernels(f) - before;
    for (int i = 0; i < N; i++) {
        if (!close_to((double)out[i], expected((double)in[i], clip))) {
            KILN_FAIL("element %d: %a of %a, not %a", i, (double)out[i], (double)in[i],
                      expected((double)in[i], clip));
            break;
        }
    }
    kiln_release(x);
    kiln_release(y);
}

static void test_reference(void)
{
    fixture f;
    uint64_t launched = 0;
    if (open_with(&f, "reference:0", PLUGINS("acme_operators"))) {
        run_mish(&f, 3, &launched);
        run_mish(&f, INFINITY, &launched);
        fixture_close(&f);
    }
}

static void test_list(void)
{
    fixture f;
    const kiln_custom_op *op = NULL;
    const kiln_custom_op *found = NULL;
    size_t count = 0;
    bool mish_is_there = false;
    if (!open_with(&f, "reference:0", PLUGINS("acme_operators", "custom_relu"))) {
        return;
    }
    for (; kiln_custom_get(f.device, count, &op, &f.err) == KILN_STATUS_OK; count++) {
        mish_is_there = mish_is_there || strcmp(op->name, "acme::mish_clip") == 0;
        FIXTURE_OK(&f, kiln_custom_find(f.device, op->name, op->version, &found, &f.err));
        KILN_CHECK(found == op);
    }
    KILN_CHECK(mish_is_there && count > 1 && op == NULL);
    KILN_CHECK_INT(kiln_custom_get(f.device, SIZE_MAX, &op, &f.err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(kiln_custom_get(NULL, 0, &op, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    fixture_close(&f);
}

/// A graph of -x, with a chain beside it that nobody reads, of plugins' operators and the table's:
/// mish(cum_sum(mish(x))). `wanted`: somebody does.
static void run_unread(fixture *f, bool wanted, uint64_t *out_kernels)
{
    const int64_t dims[] = {4, 4};
    static const float in[16] = {1, -2, 3};
    float value = 0;
    kiln_tensor *x = fixture_f32(f, 2, dims, in), *out[2] = {NULL}, *t[4] = {NULL};
    kiln_graph *graph = NULL;
    size_t n = wanted ? 2 : 1;
    FIXTURE_OK(f, kiln_graph_begin(f->device, &x, 1, &f->err));
    FIXTURE_OK(f, mish(f, x, 3, &t[0]));
    FIXTURE_OK(f, kiln_cum_sum(t[0], 0, false, false, &t[1], &f->err));
    FIXTURE_OK(f, kiln_neg(x, &t[2], &f->err));
    FIXTURE_OK(f, mish(f, t[1], 3, &t[3]));
    kiln_release(t[0]);
    kiln_release(t[1]);
    if (!wanted) {
        kiln_release(t[3]);
    }
    FIXTURE_OK(f, kiln_graph_end(f->device, &t[2], n, &graph, &f->err));
    kiln_release(t[2]);
    if (wanted) {
        kiln_release(t[3]);
    }
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t before = kernels(f);
    FIXTURE_OK(f, kiln_graph_run(graph, &x, 1, out, n, &f->err));
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    *out_kernels = kernels(f) - before;
    kiln_tensor *one = NULL; // the largest element of the last result
    FIXTURE_OK(f, kiln_max(out[n - 1], NULL, 0, false, &one, &f->err));
    FIXTURE_OK(f, kiln_read(one, &value, sizeof(value), &f->err));
    KILN_CHECK(wanted ? close_to((double)value, expected(expected(3, 3), 3)) : value == 2);
    kiln_release(one);
    kiln_release(out[0]);
    kiln_release(out[1]);
    kiln_graph_destroy(graph);
    kiln_release(x);
}

static void test_what_nobody_reads_does_not_run(void)
{
    fixture f;
    uint64_t all = 0, needed = 0;
    if (!open_with(&f, "opencl:0", PLUGINS("acme_operators"))) {
        return;
    }
    for (int fused = 0; fused < 2; fused++) {
        FIXTURE_OK(&f, kiln_device_set_fusion(f.device, fused == 1, &f.err));
        run_unread(&f, true, &all);
        run_unread(&f, false, &needed);
        KILN_CHECK(all > 3);
        KILN_CHECK_INT(needed, 1);
    }
    fixture_close(&f);
}

/// The same by the operator's kernel, with and without fusion.
static void test_kernel(void)
{
    fixture f;
    uint64_t launched = 0;
    if (!open_with(&f, "opencl:0", PLUGINS("acme_operators"))) {
        return;
    }
    run_mish(&f, 3, &launched);
    KILN_CHECK_INT(launched, 1);
    run_mish(&f, INFINITY, &launched);
    KILN_CHECK_INT(launched, 1);
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    run_mish(&f, 3, &launched);
    KILN_CHECK_INT(launched, 1);
    fixture_close(&f);
}

/// Transposed, reversed and cut inputs go by their strides.
static void test_strides(void)
{
    fixture f;
    float in[6 * 7], out[7 * 3];
    const int64_t dims[] = {6, 7};
    const int64_t axes[] = {1, 0};
    const int64_t starts[] = {0, 5}, ends[] = {7, -7}, steps[] = {1, -2};
    if (!open_with(&f, "opencl:0", PLUGINS("acme_operators"))) {
        return;
    }
    for (int i = 0; i < 42; i++) {
        in[i] = (float)i * 0.25f - 4;
    }
    kiln_tensor *x = fixture_f32(&f, 2, dims, in), *t = NULL, *part = NULL, *y = NULL;
    FIXTURE_OK(&f, kiln_permute(x, axes, 2, &t, &f.err));
    FIXTURE_OK(&f, kiln_slice(t, starts, 2, ends, 2, steps, 2, &part, &f.err));
    FIXTURE_OK(&f, mish(&f, part, 2, &y));
    FIXTURE_OK(&f, kiln_read(y, out, sizeof(out), &f.err));
    for (int r = 0; r < 7; r++) {
        for (int c = 0; c < 3; c++) {
            double v = (double)in[(5 - 2 * c) * 7 + r];
            KILN_CHECK_NEAR((double)out[r * 3 + c], expected(v, 2), 2e-6);
        }
    }
    kiln_release(x);
    kiln_release(t);
    kiln_release(part);
    kiln_release(y);
    fixture_close(&f);
}

/// Two results, one of another dtype, and a shape without the axis; f64 has no kernel, so the host
/// evaluates it.
static void check_top(const char *address, kiln_dtype dtype)
{
    fixture f;
    static const float rows[] = {1, 5, 2, NAN, 3, 3, -1, -7, -2, 0, NAN, 9};
    static const double tops[] = {5, NAN, -1, NAN};
    static const int64_t places[] = {1, 0, 0, 1};
    const int64_t dims[] = {2, 2, 3};
    kiln_tensor *out[2] = {NULL};
    double top[4];
    float top32[4];
    int64_t at[4];
    if (!open_with(&f, address, PLUGINS("acme_operators"))) {
        return;
    }
    kiln_tensor *x32 = fixture_f32(&f, 3, dims, rows), *x = NULL;
    FIXTURE_OK(&f, kiln_cast(x32, dtype, &x, &f.err));
    const kiln_custom_call call = call_of("acme::row_top", &x, 1, NULL, 0);
    FIXTURE_OK(&f, kiln_custom(f.device, &call, out, 2, &f.err));
    KILN_CHECK_INT(kiln_tensor_rank(out[0]), 2);
    KILN_CHECK_INT(kiln_tensor_dtype(out[0]), dtype);
    KILN_CHECK_INT(kiln_tensor_dtype(out[1]), KILN_DTYPE_I64);
    if (dtype == KILN_DTYPE_F64) {
        FIXTURE_OK(&f, kiln_read(out[0], top, sizeof(top), &f.err));
    } else {
        FIXTURE_OK(&f, kiln_read(out[0], top32, sizeof(top32), &f.err));
        for (int i = 0; i < 4; i++) {
            top[i] = (double)top32[i];
        }
    }
    FIXTURE_OK(&f, kiln_read(out[1], at, sizeof(at), &f.err));
    for (int i = 0; i < 4; i++) {
        KILN_CHECK(close_to(top[i], tops[i]));
        KILN_CHECK_INT(at[i], places[i]);
    }
    kiln_release(x32);
    kiln_release(x);
    kiln_release(out[0]);
    kiln_release(out[1]);
    fixture_close(&f);
}

static void test_two_results(void)
{
    check_top("reference:0", KILN_DTYPE_F32);
    check_top("reference:0", KILN_DTYPE_F64);
    check_top("opencl:0", KILN_DTYPE_F32);
    check_top("opencl:0", KILN_DTYPE_F64);
}

static void test_nothing_in_it(void)
{
    fixture f;
    const int64_t dims[] = {4, 0};
    if (!open_with(&f, "opencl:0", PLUGINS("acme_operators"))) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 2, dims, NULL), *y = NULL;
    FIXTURE_OK(&f, mish(&f, x, 1, &y));
    FIXTURE_OK(&f, kiln_read(y, NULL, 0, &f.err));
    KILN_CHECK_INT(kiln_tensor_dims(y)[1], 0);
    kiln_release(x);
    kiln_release(y);
    fixture_close(&f);
}

// ---- with neighbours ----

/// relu(mish_clip(x)) * 2 with other plugins around; gives kernels.
static uint64_t run_chain(fixture *f, float *out, int64_t count)
{
    static float in[N];
    const int64_t dims[] = {count};
    kiln_tensor *m = NULL, *r = NULL;
    fill(in, N);
    kiln_tensor *x = fixture_f32(f, 1, dims, in);
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t before = kernels(f);
    FIXTURE_OK(f, mish(f, x, 4, &m));
    FIXTURE_OK(f, kiln_relu(m, &r, &f->err));
    kiln_release(m);
    FIXTURE_OK(f, kiln_read(r, out, (size_t)count * sizeof(float), &f->err));
    uint64_t launched = kernels(f) - before;
    for (int64_t i = 0; i < count; i++) {
        double y = expected((double)in[i], 4);
        if (!close_to((double)out[i], y < 0 ? 0 : y)) {
            KILN_FAIL("element %d: %a", (int)i, (double)out[i]);
            break;
        }
    }
    kiln_release(x);
    kiln_release(r);
    return launched;
}

/// A fuser that knows the operator takes it with what follows; without one it is two kernels.
static void test_fusers_see_it(void)
{
    fixture f;
    static float out[N];
    if (!open_with(&f, "opencl:0", PLUGINS("acme_operators", "custom_relu"))) {
        return;
    }
    KILN_CHECK_INT(run_chain(&f, out, N), 1);
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    KILN_CHECK_INT(run_chain(&f, out, N), 2);
    fixture_close(&f);
}

/// Captured once, run with other values and another shape.
static void test_graph(void)
{
    fixture f;
    float in[24], out[24];
    const int64_t small[] = {8}, large[] = {24};
    kiln_graph *graph = NULL;
    if (!open_with(&f, "opencl:0", PLUGINS("acme_operators"))) {
        return;
    }
    for (int i = 0; i < 24; i++) {
        in[i] = (float)i * 0.5f - 6;
    }
    kiln_tensor *x = fixture_f32(&f, 1, small, in), *y = NULL;
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    FIXTURE_OK(&f, mish(&f, x, 5, &y));
    FIXTURE_OK(&f, kiln_graph_end(f.device, &y, 1, &graph, &f.err));
    kiln_release(y);
    for (int round = 0; round < 3; round++) {
        int64_t count = round == 1 ? 24 : 8;
        kiln_tensor *given = fixture_f32(&f, 1, round == 1 ? large : small, in + (round == 2) * 8);
        kiln_tensor *made = NULL;
        FIXTURE_OK(&f, kiln_graph_run(graph, &given, 1, &made, 1, &f.err));
        FIXTURE_OK(&f, kiln_read(made, out, (size_t)count * sizeof(float), &f.err));
        for (int64_t i = 0; i < count; i++) {
            KILN_CHECK_NEAR((double)out[i], expected((double)in[i + (round == 2) * 8], 5), 2e-6);
        }
        kiln_release(given);
        kiln_release(made);
    }
    kiln_graph_destroy(graph);
    kiln_release(x);
    fixture_close(&f);
}

/// The kernel, the fuser and the host measured against each other: whoever wins, the numbers stay.
static void test_tournament(void)
{
    fixture f;
    static float out[N];
    if (!open_in(&f, "opencl:0", PLUGINS("acme_operators", "custom_relu"),
                 OPTIONS("cache-dir", "off", "tune", "full"))) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        KILN_CHECK(run_chain(&f, out, N) >= 1);
    }
    uint64_t kernels = run_chain(&f, out, N);
    KILN_CHECK(kernels == 1 || kernels == 2); // the fuser's, or the operator's and relu's
    fixture_close(&f);
}

/// The second process finds the plan on disk: the operator is not asked for its program again.
static void test_plan_on_disk(void)
{
    const char *folder = kiln_test_tmpdir();
    static float out[N];
    for (uint64_t round = 0; round < 2; round++) {
        fixture f;
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        if (!open_in(&f, "opencl:0", PLUGINS("acme_operators"), OPTIONS("cache-dir", folder))) {
            break;
        }
        KILN_CHECK_INT(run_chain(&f, out, N), 2);
        kiln_device_stats_get(f.device, &stats);
        KILN_CHECK(round == 0 ? stats.plans_searched > 0 : stats.plans_searched == 0);
        fixture_close(&f);
    }
}

// ---- what is refused ----

static void refuse(fixture *f, const kiln_custom_call *call, size_t n_outputs, kiln_status status,
                   const char *text)
{
    kiln_tensor *out[KILN_MAX_OUTPUTS] = {NULL};
    f->err = (kiln_error)KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_custom(f->device, call, out, n_outputs, &f->err), status);
    KILN_CHECK_CONTAINS(f->err.message, text);
    KILN_CHECK(out[0] == NULL);
}

static void test_wrong_calls(void)
{
    fixture f;
    const int64_t dims[] = {2, 3};
    float data[6] = {0};
    const kiln_custom_attr clip = real("clip", -1), none = real("clip", NAN);
    const kiln_custom_attr other = real("clap", 1), axis = integer("axis", 2);
    const kiln_custom_attr text = {"clip", {KILN_ATTR_STRING, 1, {.text = "a"}}};
    const kiln_custom_attr twice[] = {real("clip", 1), real("clip", 2)};
    if (!open_with(&f, "reference:0", PLUGINS("acme_operators"))) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 2, dims, data), *i = NULL, *both[2];
    FIXTURE_OK(&f, kiln_cast(x, KILN_DTYPE_I32, &i, &f.err));
    both[0] = both[1] = x;
    const struct {
        kiln_custom_call call;
        size_t n_outputs;
        kiln_status status;
        const char *text;
    } cases[] = {
        {call_of("acme::mish", &x, 1, NULL, 0), 1, KILN_STATUS_NOT_FOUND,
         "no plugin brings operator acme::mish: put one on the plugin path"},
        {call_of("acme::mish_clip", &i, 1, NULL, 0), 1, KILN_STATUS_INVALID_ARGUMENT,
         "acme::mish_clip: takes f32 and f64"},
        {call_of("acme::mish_clip", both, 2, NULL, 0), 1, KILN_STATUS_INVALID_ARGUMENT,
         "2 inputs given, it takes 1 to 1"},
        {call_of("acme::mish_clip", &x, 1, NULL, 0), 2, KILN_STATUS_INVALID_ARGUMENT,
         "gives 1 results, not 2"},
        {call_of("acme::mish_clip", &x, 1, &clip, 1), 1, KILN_STATUS_INVALID_ARGUMENT,
         "clip must be above 0"},
        {call_of("acme::mish_clip", &x, 1, &none, 1), 1, KILN_STATUS_INVALID_ARGUMENT,
         "clip must be above 0"},
        {call_of("acme::mish_clip", &x, 1, &other, 1), 1, KILN_STATUS_INVALID_ARGUMENT,
         "acme::mish_clip has no attribute \"clap\""},
        {call_of("acme::mish_clip", &x, 1, &text, 1), 1, KILN_STATUS_INVALID_ARGUMENT,
         "attribute clip is a text, not a number"},
        {call_of("acme::mish_clip", &x, 1, twice, 2), 1, KILN_STATUS_INVALID_ARGUMENT,
         "attribute clip is given twice"},
        {call_of("acme::row_top", &x, 1, &axis, 1), 2, KILN_STATUS_INVALID_ARGUMENT,
         "axis is not one of the input's"},
        {call_of("acme::row_top", &x, 0, NULL, 0), 2, KILN_STATUS_INVALID_ARGUMENT,
         "0 inputs, not 1 to 64"},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        refuse(&f, &cases[c].call, cases[c].n_outputs, cases[c].status, cases[c].text);
    }
    kiln_release(x);
    kiln_release(i);
    fixture_close(&f);
}

static void test_parameters(void)
{
    fixture f;
    const int64_t dims[] = {1};
    const float zero = 0;
    float got = 0;
    kiln_tensor *y = NULL;
    const int64_t axes[] = {10, 20};
    const double scales[] = {0.125};
    const kiln_custom_attr attrs[] = {
        integer("amount", 4), // an integer where a number is wanted
        integer("count", 7),
        {"twice", {KILN_ATTR_BOOL, 1, {.i = 1}}},
        {"dtype", {KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_F16}}},
        {"axes", {KILN_ATTR_I64_LIST, 2, {.ints = axes}}},
        {"scales", {KILN_ATTR_F64_LIST, 1, {.floats = scales}}},
        {"mode", {KILN_ATTR_STRING, 4, {.text = "\"\\\n\xff"}}},
    };
    if (!open_with(&f, "reference:0", PLUGINS("operators"))) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, &zero);
    kiln_custom_call call = call_of("good::params", &x, 1, attrs, 7);
    FIXTURE_OK(&f, kiln_custom(f.device, &call, &y, 1, &f.err));
    FIXTURE_OK(&f, kiln_read(y, &got, sizeof(got), &f.err));
    KILN_CHECK_NEAR((double)got, 4 + 7 + 1000 + 10000 + 30 + 0.125 + 4, 1e-6);
    kiln_release(y);
    call.n_attrs = 1; // the others have their defaults
    FIXTURE_OK(&f, kiln_custom(f.device, &call, &y, 1, &f.err));
    FIXTURE_OK(&f, kiln_read(y, &got, sizeof(got), &f.err));
    KILN_CHECK_NEAR((double)got, 4 + 100 + 6 + 0.75 + 4, 1e-6);
    kiln_release(y);
    call.n_attrs = 0;
    refuse(&f, &call, 1, KILN_STATUS_INVALID_ARGUMENT, "good::params: attribute amount is missing");
    call.version = 2; // the newest that is not newer is 1, which has no such parameter
    call.attrs = attrs;
    call.n_attrs = 1;
    refuse(&f, &call, 1, KILN_STATUS_INVALID_ARGUMENT, "has no attribute \"amount\"");
    call.version = 0;
    call.name = "bad::nan"; // a NaN as default is a value like others
    call.n_attrs = 0;
    FIXTURE_OK(&f, kiln_custom(f.device, &call, &y, 1, &f.err));
    FIXTURE_OK(&f, kiln_read(y, &got, sizeof(got), &f.err));
    KILN_CHECK(isnan(got));
    kiln_release(y);
    kiln_release(x);
    fixture_close(&f);
}

/// Rules that say nonsense about their outputs.
static void test_bad_rules(void)
{
    static const struct {
        const char *name;
        kiln_status status;
        const char *text;
    } cases[] = {
        {"bad::rank", KILN_STATUS_INVALID_ARGUMENT, "output 0 has rank 99, the limit is 8"},
        {"bad::negative", KILN_STATUS_INVALID_ARGUMENT, "output 0 has length -3 along axis 0"},
        {"bad::huge", KILN_STATUS_OUT_OF_RANGE, "exceeds 64-bit sizes"},
        {"bad::dtype", KILN_STATUS_INVALID_ARGUMENT, "output 0 has the dtype 0, which is none"},
        {"bad::quantised", KILN_STATUS_INVALID_ARGUMENT, "output 0 has the dtype 14"},
        {"bad::forgets", KILN_STATUS_INVALID_ARGUMENT, "output 0 has the dtype 0, which is none"},
        {"bad::resizes", KILN_STATUS_INVALID_ARGUMENT, "output 0 is of a newer form"},
        {"bad::fails", KILN_STATUS_INTERNAL, "bad::fails failed (-5): no reason is given"},
        {"bad::silent", KILN_STATUS_INVALID_ARGUMENT, "bad::silent: no reason is given"},
    };
    fixture f;
    const int64_t dims[] = {2};
    const float data[2] = {0};
    if (!open_with(&f, "reference:0", PLUGINS("operators"))) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const kiln_custom_call call = call_of(cases[i].name, &x, 1, NULL, 0);
        refuse(&f, &call, 1, cases[i].status, cases[i].text);
    }
    kiln_release(x);
    fixture_close(&f);
}

/// Kernels that are refused, do not compile or are not described: the reference gives the result.
static void test_bad_kernels(void)
{
    static const char *const names[] = {"bad::program", "bad::source", "bad::kernel",
                                        "bad::describe"};
    fixture f;
    const int64_t dims[] = {5};
    const float data[5] = {1, 2, 3, 4, 5};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!open_with(&f, "opencl:0", PLUGINS("operators"))) {
            return;
        }
        kiln_tensor *x = fixture_f32(&f, 1, dims, data);
        const kiln_custom_call call = call_of(names[i], &x, 1, NULL, 0);
        const kiln_custom_call good = call_of("good::plus", &x, 1, NULL, 0);
        for (int round = 0; round < 5; round++) { // beyond three strikes
            float out[5] = {0};
            kiln_tensor *y = NULL;
            FIXTURE_OK(&f, kiln_custom(f.device, round < 4 ? &call : &good, &y, 1, &f.err));
            FIXTURE_OK(&f, kiln_read(y, out, sizeof(out), &f.err));
            for (int k = 0; k < 5; k++) {
                KILN_CHECK_NEAR((double)out[k], (double)data[k] + 1, 1e-6);
            }
            kiln_release(y);
        }
        kiln_release(x);
        fixture_close(&f);
    }
}

/// The stream that checked mode wrote, by the operator's own plugin: wrong on the device that was
/// checked, right by reference. False: there is no such file.
static bool replay_written(const char *folder, const char *text)
{
    glob_t found = {0};
    char pattern[512];
    bool said = false;
    snprintf(pattern, sizeof(pattern), "%s/wrong-*.replay", folder);
    (void)glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        fixture f;
        kiln_replay *replay = NULL;
        kiln_judge *judge = NULL;
        kiln_tensor *y = NULL;
        kiln_string written;
        char why[160];
        float out[5] = {0};
        if (!open_with(&f, "reference:0", PLUGINS("operators"))) {
            break;
        }
        const kiln_env *env = kiln_context_env(f.context);
        kiln_string_init(&written, env);
        FIXTURE_OK(&f, kiln_replay_read(env, found.gl_pathv[i], &replay, &f.err));
        FIXTURE_OK(&f, kiln_replay_encode(replay, &written, &f.err));
        said = said || strstr(written.text, text) != NULL;
        FIXTURE_OK(&f, kiln_custom_look_up(f.device, replay->graph, &f.err));
        FIXTURE_OK(&f, kiln_replay_run(f.device, replay, &y, &f.err));
        FIXTURE_OK(&f, kiln_read(y, out, sizeof(out), &f.err));
        const void *data = replay->inputs[0].data;
        FIXTURE_OK(&f, kiln_judge_create(env, replay->graph, &data, &judge, &f.err));
        KILN_CHECK(kiln_judge_output(judge, 0, out, NULL, why, sizeof(why)));
        out[2] += 0.01f;
        KILN_CHECK(!kiln_judge_output(judge, 0, out, NULL, why, sizeof(why)));
        kiln_judge_destroy(judge);
        kiln_string_fini(&written);
        kiln_release(y);
        kiln_replay_destroy(replay);
        fixture_close(&f);
    }
    globfree(&found);
    return said;
}

/// Checked mode holds a kernel against the operator's reference: a right one stays, a wrong one
/// goes, is written to a file, and the reference gives the result.
static void test_checked(void)
{
    static const char *const names[] = {"good::plus", "bad::numbers"};
    const int64_t dims[] = {5};
    const float data[5] = {1, 2, 3, 4, 5};
    for (uint64_t wrong = 0; wrong < 2; wrong++) {
        const char *folder = kiln_test_tmpdir();
        fixture f;
        if (!open_in(&f, "opencl:0", PLUGINS("operators"),
                     OPTIONS("cache-dir", folder, "check", "always"))) {
            return;
        }
        for (int round = 0; round < 3; round++) {
            float out[5] = {0};
            kiln_tensor *x = fixture_f32(&f, 1, dims, data), *y = NULL;
            const kiln_custom_call call = call_of(names[wrong], &x, 1, NULL, 0);
            FIXTURE_OK(&f, kiln_custom(f.device, &call, &y, 1, &f.err));
            FIXTURE_OK(&f, kiln_read(y, out, sizeof(out), &f.err));
            for (int k = 0; k < 5; k++) {
                KILN_CHECK_NEAR((double)out[k], (double)data[k] + 1, 1e-6);
            }
            kiln_release(x);
            kiln_release(y);
        }
        fixture_close(&f);
        KILN_CHECK_INT(replay_written(folder, names[wrong]), wrong);
    }
}

/// A reference that fails is the result's failure, and nobody else's.
static void test_bad_reference(void)
{
    fixture f;
    const int64_t dims[] = {2};
    float data[2] = {1, 2};
    kiln_tensor *y = NULL;
    if (!open_with(&f, "reference:0", PLUGINS("operators"))) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    const kiln_custom_call call = call_of("bad::reference", &x, 1, NULL, 0);
    FIXTURE_OK(&f, kiln_custom(f.device, &call, &y, 1, &f.err));
    KILN_CHECK_INT(kiln_read(y, data, sizeof(data), &f.err), KILN_STATUS_INTERNAL);
    KILN_CHECK_CONTAINS(f.err.message, "bad::reference failed (-5)");
    KILN_CHECK_INT(kiln_sync(f.device, &f.err), KILN_STATUS_INTERNAL); // told once more
    FIXTURE_OK(&f, kiln_read(x, data, sizeof(data), &f.err));
    KILN_CHECK_NEAR((double)data[1], 2, 0);
    kiln_release(x);
    kiln_release(y);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/custom", KILN_TEST(test_reference), KILN_TEST(test_list),
               KILN_TEST(test_kernel), KILN_TEST(test_what_nobody_reads_does_not_run),
               KILN_TEST(test_strides), KILN_TEST(test_two_results), KILN_TEST(test_nothing_in_it),
               KILN_TEST(test_fusers_see_it), KILN_TEST(test_graph), KILN_TEST(test_tournament),
               KILN_TEST(test_plan_on_disk), KILN_TEST(test_wrong_calls),
               KILN_TEST(test_parameters), KILN_TEST(test_bad_rules), KILN_TEST(test_bad_kernels),
               KILN_TEST(test_checked), KILN_TEST(test_bad_reference))
