// SPDX-License-Identifier: MIT OR Apache-2.0
// Optimisers against PyTorch's figures (torch_figures.py), recorded and captured; few launches for
// many parameters; what is saved goes on bit for bit, also after a process that was killed between
// two steps.
#include "kiln_train.h"
#include "runtime_fixture.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "torch_figures.inc"

enum { PARAMS = 3, STEPS = 5, ELEMENTS = 29 };

static const int64_t shapes[PARAMS][3] = {{3, 4}, {5}, {2, 3, 2}};
static const size_t ranks[PARAMS] = {2, 1, 3};

static int64_t count_of(int param)
{
    int64_t count = 1;
    for (size_t i = 0; i < ranks[param]; i++) {
        count *= shapes[param][i];
    }
    return count;
}

static kiln_tensor *make(fixture *f, int param, double (*number)(int step, int param, int i),
                         int step)
{
    float data[12];
    for (int i = 0; i < count_of(param); i++) {
        data[i] = (float)number(step, param, i);
    }
    return fixture_f32(f, ranks[param], shapes[param], data);
}

static double first_value(int step, int param, int i)
{
    (void)step;
    return sin(param + 0.7 * i);
}

static double gradient_value(int step, int param, int i)
{
    return cos(0.3 * step + 0.5 * i + param) * (step + 1);
}

static kiln_params *make_params(fixture *f)
{
    kiln_params *params = NULL;
    FIXTURE_OK(f, kiln_params_create(f->device, 0, &params, &f->err));
    for (int p = 0; p < PARAMS; p++) {
        char name[8];
        kiln_tensor *tensor = make(f, p, first_value, 0);
        snprintf(name, sizeof(name), "p%d", p);
        FIXTURE_OK(f, kiln_params_add_tensor(params, name, tensor, &f->err));
        kiln_release(tensor);
    }
    return params;
}

static bool make_step(fixture *f, kiln_optimiser *optimiser)
{
    kiln_tensor *gradients[PARAMS];
    int step = (int)kiln_optimiser_steps(optimiser);
    for (int p = 0; p < PARAMS; p++) {
        gradients[p] = make(f, p, gradient_value, step);
    }
    bool ok = FIXTURE_OK(f, kiln_optimiser_step(optimiser, gradients, PARAMS, &f->err));
    for (int p = 0; p < PARAMS; p++) {
        kiln_release(gradients[p]);
    }
    return ok;
}

static bool read_params(fixture *f, const kiln_params *params, float out[ELEMENTS])
{
    bool ok = true;
    for (int p = 0; p < PARAMS; p++) {
        size_t bytes = (size_t)count_of(p) * sizeof(float);
        ok = FIXTURE_OK(f, kiln_read(kiln_params_tensor(params, (size_t)p), out, bytes, &f->err)) &&
             ok;
        out += count_of(p);
    }
    return ok;
}

// ---- PyTorch's figures ----

typedef struct torch_case {
    kiln_optimiser_options options;
    const float *figures;
    bool anneals;
} torch_case;

#define OPTIONS(...)                                                                               \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_optimiser_options), __VA_ARGS__                       \
    }

static const torch_case cases[] = {
    {OPTIONS(.rate = 0.1), torch_sgd, false},
    {OPTIONS(.rate = 0.1, .momentum = 0.9, .decay = 0.01), torch_momentum, false},
    {OPTIONS(.rate = 0.1, .momentum = 0.9, .nesterov = 1), torch_nesterov, false},
    {OPTIONS(.rule = KILN_OPTIMISER_ADAM, .rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .decay = 0.1),
     torch_adam, false},
    {OPTIONS(.rule = KILN_OPTIMISER_ADAMW, .rate = 0.01, .decay = 0.1), torch_adamw, false},
    {OPTIONS(.rule = KILN_OPTIMISER_LION, .rate = 0.01, .decay = 0.1), torch_lion, false},
    {OPTIONS(.rule = KILN_OPTIMISER_ADAMW, .rate = 0.01, .decay = 0.1, .clip = 0.5), torch_clipped,
     false},
    {OPTIONS(.rate = 0.1), torch_cosine, true},
};

static void run_case(const torch_case *c, const char *device, bool captured)
{
    fixture f;
    kiln_optimiser *optimiser = NULL;
    kiln_schedule schedule = KILN_SCHEDULE_INIT;
    kiln_optimiser_options options = c->options;
    float got[ELEMENTS];
    if (!fixture_open(&f, device)) {
        return;
    }
    schedule.kind = KILN_SCHEDULE_COSINE;
    schedule.steps = STEPS;
    schedule.least = 0.2;
    options.schedule = c->anneals ? &schedule : NULL;
    options.captured = captured;
    kiln_params *params = make_params(&f);
    bool ok = FIXTURE_OK(&f, kiln_optimiser_create(params, &options, &optimiser, &f.err));
    for (int step = 0; step < STEPS && ok; step++) {
        ok = make_step(&f, optimiser);
    }
    if (ok && read_params(&f, params, got)) {
        for (int i = 0; i < ELEMENTS; i++) {
            double wanted = (double)c->figures[i];
            KILN_CHECK_NEAR((double)got[i], wanted, 2e-6 * fabs(wanted) + 5e-7);
        }
        KILN_CHECK_INT(kiln_optimiser_steps(optimiser), STEPS);
        KILN_CHECK(kiln_tensor_param(kiln_params_tensor(params, 0)) != 0);
    }
    kiln_optimiser_destroy(optimiser);
    kiln_params_destroy(params);
    fixture_close(&f);
}

static void test_torch(void)
{
    const torch_case *c = kiln_test_param();
    run_case(c, "reference:0", /*captured=*/false);
    run_case(c, "reference:0", /*captured=*/true);
    run_case(c, "opencl:0", /*captured=*/false);
    run_case(c, "opencl:0", /*captured=*/true);
}

static void check_rates(const kiln_schedule *schedule, const double *wanted)
{
    for (uint64_t step = 0; step < 20; step++) {
        KILN_CHECK_NEAR(kiln_schedule_rate(schedule, 0.1, step), wanted[step], 1e-12);
    }
}

static void test_rates(void)
{
    kiln_schedule schedule = KILN_SCHEDULE_INIT;
    schedule.steps = 20;
    schedule.kind = KILN_SCHEDULE_LINEAR;
    schedule.least = 0.1;
    check_rates(&schedule, torch_rates_linear);
    KILN_CHECK_NEAR(kiln_schedule_rate(&schedule, 0.1, 1000), 0.01, 1e-12);
    schedule.kind = KILN_SCHEDULE_COSINE;
    check_rates(&schedule, torch_rates_cosine);
    schedule.warmup = 5;
    schedule.least = 0;
    check_rates(&schedule, torch_rates_warm_cosine);
    schedule.warmup = 0;
    schedule.kind = KILN_SCHEDULE_STEP;
    schedule.period = 6;
    schedule.factor = 0.5;
    check_rates(&schedule, torch_rates_step);
    schedule.kind = KILN_SCHEDULE_ONE_CYCLE;
    check_rates(&schedule, torch_rates_one_cycle);
    KILN_CHECK_NEAR(kiln_schedule_rate(NULL, 0.1, 7), 0.1, 0);
}

// ---- launches ----

enum { MANY = 30 };

/// Kernels of the third step of `rule` over many parameters of several lengths.
static void count_launches(kiln_optimiser_rule rule, bool captured, uint64_t most)
{
    static float data[5000];
    kiln_device_stats before = KILN_DEVICE_STATS_INIT;
    kiln_device_stats after = KILN_DEVICE_STATS_INIT;
    kiln_optimiser_options options = OPTIONS(.rule = rule, .momentum = 0.9, .captured = captured);
    fixture f;
    kiln_params *params = NULL;
    kiln_optimiser *optimiser = NULL;
    kiln_tensor *gradients[MANY];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    FIXTURE_OK(&f, kiln_params_create(f.device, 0, &params, &f.err));
    for (int p = 0; p < MANY; p++) {
        char name[8];
        const int64_t count = 300 + 1000 * (p % 4);
        snprintf(name, sizeof(name), "p%d", p);
        FIXTURE_OK(&f, kiln_params_add(params, name, KILN_DTYPE_F32, 1, &count, NULL, &f.err));
        data[p] = 1;
        gradients[p] = fixture_f32(&f, 1, &count, data);
    }
    FIXTURE_OK(&f, kiln_optimiser_create(params, &options, &optimiser, &f.err));
    for (int step = 0; step < 3; step++) {
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        kiln_device_stats_get(f.device, &before);
        FIXTURE_OK(&f, kiln_optimiser_step(optimiser, gradients, MANY, &f.err));
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        kiln_device_stats_get(f.device, &after);
    }
    uint64_t launches = after.backend.kernels_launched - before.backend.kernels_launched -
                        (after.kernels_measuring - before.kernels_measuring);
    if (launches > most) {
        KILN_FAIL("%s: %u launches, at most %u", captured ? "captured" : "recorded",
                  (unsigned)launches, (unsigned)most);
    }
    KILN_CHECK_INT(after.plans_searched, before.plans_searched);
    for (int p = 0; p < MANY; p++) {
        kiln_release(gradients[p]);
    }
    kiln_optimiser_destroy(optimiser);
    kiln_params_destroy(params);
    fixture_close(&f);
}

static void test_launches(void)
{
    // What fits into the 1024 bytes of a kernel's arguments on PoCL is one launch.
    count_launches(KILN_OPTIMISER_ADAMW, /*captured=*/false, 3);
    count_launches(KILN_OPTIMISER_ADAMW, /*captured=*/true, 3);
    count_launches(KILN_OPTIMISER_SGD, /*captured=*/false, 3);
    count_launches(KILN_OPTIMISER_SGD, /*captured=*/true, 2);
}

// ---- refusals ----

static void test_refused(void)
{
    fixture f;
    kiln_optimiser *optimiser = NULL;
    kiln_optimiser_options options = OPTIONS(.rate = -1);
    float before[ELEMENTS];
    float after[ELEMENTS];
    const int64_t turned[] = {4, 3};
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *params = make_params(&f);
    KILN_CHECK_INT(kiln_optimiser_create(params, &options, &optimiser, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "rate is -1");
    options.rate = 0.1;
    options.rule = (kiln_optimiser_rule)9;
    KILN_CHECK_INT(kiln_optimiser_create(params, &options, &optimiser, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    options.rule = KILN_OPTIMISER_SGD;
    options.captured = 1;
    if (FIXTURE_OK(&f, kiln_optimiser_create(params, &options, &optimiser, &f.err)) &&
        read_params(&f, params, before)) {
        float data[12] = {0};
        kiln_tensor *gradients[PARAMS] = {NULL};
        KILN_CHECK_INT(kiln_optimiser_step(optimiser, gradients, PARAMS, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(f.err.message, "parameter p0 has no gradient");
        gradients[0] = fixture_f32(&f, 2, turned, data);
        KILN_CHECK_INT(kiln_optimiser_step(optimiser, gradients, PARAMS, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(f.err.message, "the gradient of parameter p0");
        kiln_release(gradients[0]);
        KILN_CHECK_INT(kiln_optimiser_step(optimiser, gradients, 2, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_optimiser_steps(optimiser), 0);
        KILN_CHECK(read_params(&f, params, after));
        KILN_CHECK_MEM(after, before, sizeof(before));
    }
    kiln_optimiser_destroy(optimiser);
    kiln_params_destroy(params);
    fixture_close(&f);
}

/// Without a gradient a parameter and its state stay.
static void test_missing(void)
{
    fixture f;
    kiln_optimiser *optimiser = NULL;
    kiln_optimiser_options options = OPTIONS(.rate = 0.1, .momentum = 0.5, .clip = 1e9);
    float before[ELEMENTS];
    float after[ELEMENTS];
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *params = make_params(&f);
    if (FIXTURE_OK(&f, kiln_optimiser_create(params, &options, &optimiser, &f.err)) &&
        read_params(&f, params, before)) {
        kiln_tensor *gradients[PARAMS] = {NULL, make(&f, 1, gradient_value, 0), NULL};
        FIXTURE_OK(&f, kiln_optimiser_step(optimiser, gradients, PARAMS, &f.err));
        KILN_CHECK(read_params(&f, params, after));
        KILN_CHECK_MEM(after, before, 12 * sizeof(float));
        KILN_CHECK(memcmp(after + 12, before + 12, 5 * sizeof(float)) != 0);
        KILN_CHECK_MEM(after + 17, before + 17, 12 * sizeof(float));
        kiln_release(gradients[1]);
    }
    kiln_optimiser_destroy(optimiser);
    kiln_params_destroy(params);
    fixture_close(&f);
}

// ---- going on ----

enum { WHOLE = 8 };

static const kiln_optimiser_options resumed_options[] = {
    OPTIONS(.rule = KILN_OPTIMISER_ADAMW, .rate = 0.05, .decay = 0.1, .clip = 2),
    OPTIONS(.rule = KILN_OPTIMISER_ADAMW, .rate = 0.05, .decay = 0.1, .captured = 1),
    OPTIONS(.rule = KILN_OPTIMISER_LION, .rate = 0.05, .decay = 0.1),
    OPTIONS(.rule = KILN_OPTIMISER_SGD, .rate = 0.05, .momentum = 0.9, .nesterov = 1),
};

static void rest_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&pause, NULL);
}

/// Trains to step `last` and saves after each step from `path`, where that is.
static bool train(const char *device, const kiln_optimiser_options *options, const char *path,
                  uint64_t last, bool pauses)
{
    fixture f;
    kiln_optimiser *optimiser = NULL;
    if (!fixture_open(&f, device)) {
        return false;
    }
    kiln_params *params = make_params(&f);
    bool ok = FIXTURE_OK(&f, kiln_optimiser_create(params, options, &optimiser, &f.err));
    if (ok && access(path, R_OK) == 0) {
        ok = FIXTURE_OK(&f, kiln_optimiser_load(optimiser, path, &f.err));
    }
    while (ok && kiln_optimiser_steps(optimiser) < last) {
        ok = make_step(&f, optimiser) &&
             FIXTURE_OK(&f, kiln_optimiser_save(optimiser, path, &f.err));
        if (pauses) { // somebody kills it here
            rest_ms(20);
        }
    }
    kiln_optimiser_destroy(optimiser);
    kiln_params_destroy(params);
    fixture_close(&f);
    return ok;
}

static void check_same_files(const char *a, const char *b)
{
    size_t a_bytes = 0;
    size_t b_bytes = 0;
    char *left = kiln_test_read_file(a, &a_bytes);
    char *right = kiln_test_read_file(b, &b_bytes);
    if (KILN_CHECK(left != NULL && right != NULL) && KILN_CHECK_INT(a_bytes, b_bytes)) {
        KILN_CHECK_MEM(left, right, a_bytes);
    }
    free(left);
    free(right);
}

/// Each step in a context of its own, from and to a file, is the same as all in one.
static void test_resumed(void)
{
    static const char *const devices[] = {"reference:0", "opencl:0"};
    const char *whole = kiln_test_path(kiln_test_tmpdir(), "whole");
    const char *parts = kiln_test_path(kiln_test_tmpdir(), "parts");
    for (size_t d = 0; d < 2; d++) {
        for (size_t i = 0; i < sizeof(resumed_options) / sizeof(resumed_options[0]); i++) {
            (void)remove(whole);
            (void)remove(parts);
            bool ok = train(devices[d], &resumed_options[i], whole, WHOLE, false);
            for (uint64_t last = 1; last <= WHOLE && ok; last += 3) {
                ok = train(devices[d], &resumed_options[i], parts, last, false);
            }
            if (!ok || !train(devices[d], &resumed_options[i], parts, WHOLE, false)) {
                return;
            }
            check_same_files(whole, parts);
        }
    }
}

static const char *own_path;

/// A process of its own that trains.
static pid_t begin_training(const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        (void)close(STDOUT_FILENO); // one line of counts is enough
        (void)execl(own_path, own_path, "train", path, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void test_killed(void)
{
    const char *whole = kiln_test_path(kiln_test_tmpdir(), "unkilled");
    const char *path = kiln_test_path(kiln_test_tmpdir(), "killed");
    int result = 0;
    pid_t child = begin_training(path);
    for (int i = 0; i < 3000 && access(path, R_OK) != 0; i++) {
        rest_ms(10);
    }
    rest_ms(50);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &result, 0);
    KILN_CHECK(WIFSIGNALED(result));
    child = begin_training(path);
    (void)waitpid(child, &result, 0);
    KILN_CHECK(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    KILN_CHECK(train("reference:0", &resumed_options[0], whole, 40, false));
    check_same_files(path, whole);
}

/// What the other process does, until it is killed or has made all steps.
static void train_alone(void)
{
    (void)train("reference:0", &resumed_options[0], kiln_test_param(), 40, true);
}

static void test_load_refused(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "adamw");
    const char *weights = kiln_test_path(kiln_test_tmpdir(), "weights.safetensors");
    fixture f;
    kiln_optimiser *adam = NULL;
    kiln_optimiser *lion = NULL;
    if (!train("reference:0", &resumed_options[0], path, 1, false) ||
        !fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *params = make_params(&f);
    FIXTURE_OK(&f, kiln_params_save(params, weights, &f.err));
    FIXTURE_OK(&f, kiln_optimiser_create(params, &resumed_options[2], &lion, &f.err));
    FIXTURE_OK(&f, kiln_optimiser_create(params, &resumed_options[0], &adam, &f.err));
    KILN_CHECK_INT(kiln_optimiser_load(lion, path, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "the state of adamw, where this is lion");
    KILN_CHECK_INT(kiln_optimiser_load(adam, weights, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "no optimiser's state was saved here");
    KILN_CHECK_INT(kiln_optimiser_steps(adam), 0);
    FIXTURE_OK(&f, kiln_params_load(params, path, &f.err)); // the parameters alone
    kiln_optimiser_destroy(adam);
    kiln_optimiser_destroy(lion);
    kiln_params_destroy(params);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    static const kiln_test_case all[] = {
        KILN_TEST_PARAM(test_torch, "torch_sgd", &cases[0]),
        KILN_TEST_PARAM(test_torch, "torch_momentum", &cases[1]),
        KILN_TEST_PARAM(test_torch, "torch_nesterov", &cases[2]),
        KILN_TEST_PARAM(test_torch, "torch_adam", &cases[3]),
        KILN_TEST_PARAM(test_torch, "torch_adamw", &cases[4]),
        KILN_TEST_PARAM(test_torch, "torch_lion", &cases[5]),
        KILN_TEST_PARAM(test_torch, "torch_clipped", &cases[6]),
        KILN_TEST_PARAM(test_torch, "torch_cosine", &cases[7]),
        KILN_TEST(test_rates),
        KILN_TEST(test_launches),
        KILN_TEST(test_refused),
        KILN_TEST(test_missing),
        KILN_TEST(test_resumed),
        KILN_TEST(test_killed),
        KILN_TEST(test_load_refused),
    };
    own_path = argv[0];
    if (argc == 3 && strcmp(argv[1], "train") == 0) {
        const kiln_test_case alone = KILN_TEST_PARAM(train_alone, "train", argv[2]);
        return kiln_test_run("unit/autodiff/trained", &alone, 1, 1, argv);
    }
    return kiln_test_run("unit/autodiff/optimiser", all, sizeof(all) / sizeof(all[0]), argc, argv);
}
