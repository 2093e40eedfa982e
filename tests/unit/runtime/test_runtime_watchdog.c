// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser whose kernel does not come back (tests/plugins/hostile: for some seconds): who waits is
// told in time and by name, nothing waits after that, and the next process does without the fuser.
// Kernels that end in time are run as ever.

#include "runtime_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cl_queue.h"
#include "cl_state.h"
#include "rt_device.h"

enum { N = 4096 };

static char seen[16384]; ///< what the log said

static void keep_log(const kiln_log_record *record, void *user)
{
    size_t at = strlen(seen);
    (void)user;
    snprintf(seen + at, sizeof(seen) - at, "%s\n", record->message);
}

static bool open(fixture *f, const char *cache, const char *name, const char *limit_ms,
                 const char *check)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    char file[64];
    options.log = keep_log;
    *f = (fixture){0};
    snprintf(file, sizeof(file), "evil_%s.so", name);
    FIXTURE_OK(f, kiln_context_create(&options, &f->context, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "cache-dir", cache, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "plugins", "test.hostile-kernel", &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "watchdog", limit_ms, &f->err));
    FIXTURE_OK(f, kiln_context_set(f->context, "check", check, &f->err));
    FIXTURE_OK(f, kiln_plugin_load(
                      f->context,
                      kiln_test_path(KILN_TEST_BUILD_DIR "/lib/kiln/test_plugins", file), &f->err));
    if (kiln_device_open(f->context, kiln_test_address("opencl:0"), &f->device, &f->err) !=
        KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", f->err.message);
        kiln_context_destroy(f->context);
        return false;
    }
    seen[0] = '\0';
    return true;
}

static void count(void *user)
{
    ++*(int *)user;
}

/// relu(-x) of 1 to N, everything between let go. `given_back`: x is memory of the caller's.
static kiln_status run_on(fixture *f, float *out, int *given_back)
{
    static _Alignas(4096) float data[N];
    const int64_t dims[] = {N};
    kiln_tensor *t[3] = {NULL};
    for (int i = 0; i < N; i++) {
        data[i] = (float)(i % 2 == 0 ? i : -i);
    }
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = given_back != NULL ? kiln_tensor_wrap(f->device, KILN_DTYPE_F32, 1, dims,
                                                               data, count, given_back, &t[0], &err)
                                            : kiln_tensor_create(f->device, KILN_DTYPE_F32, 1, dims,
                                                                 data, &t[0], &err);
    if (status == KILN_STATUS_OK) {
        FIXTURE_OK(f, kiln_neg(t[0], &t[1], &f->err));
        FIXTURE_OK(f, kiln_relu(t[1], &t[2], &f->err));
        kiln_release(t[1]);
        status = kiln_read(t[2], out, sizeof(float) * N, &err);
        kiln_release(t[2]);
        kiln_release(t[0]);
    }
    f->err = err;
    return status;
}

static kiln_status run(fixture *f, float *out)
{
    return run_on(f, out, NULL);
}

static bool is_right(const float *out)
{
    for (int i = 0; i < N; i++) {
        if (out[i] != (float)(i % 2 == 0 ? 0 : i)) {
            return false;
        }
    }
    return true;
}

static double seconds_since(uint64_t start)
{
    return (double)(kiln_time_ns() - start) / 1e9;
}

/// The kernel's own end, after which closing gives everything back.
static void wait_for_kernel(const fixture *f)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    while (kilni_cl_is_stuck(kilni_cl_backend_of(f->device->backend))) {
        nanosleep(&nap, NULL);
    }
}

static void check_told(fixture *f, kiln_status status, double seconds)
{
    KILN_CHECK_INT(status, KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_CONTAINS(f->err.message, "device given up: kernel evil of test.hostile-kernel/evil");
    KILN_CHECK_CONTAINS(f->err.message, "did not end in 1.0 s");
    KILN_CHECK(seconds >= 1.0);
    KILN_CHECK(kilni_cl_is_stuck(kilni_cl_backend_of(f->device->backend)));
}

static void test_a_kernel_that_hangs(void)
{
    static float out[N];
    const char *cache = kiln_test_tmpdir();
    fixture f;
    if (!open(&f, cache, "hangs", "1000", "off")) {
        return;
    }
    uint64_t start = kiln_time_ns();
    kiln_status status = run(&f, out);
    check_told(&f, status, seconds_since(start));
    KILN_CHECK_CONTAINS(seen, "(failure 3): disabled");
    KILN_CHECK_INT(run(&f, out), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_CONTAINS(f.err.message, "test.hostile-kernel/evil");
    KILN_CHECK_INT(kiln_sync(f.device, &f.err), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_CONTAINS(f.err.message, "test.hostile-kernel/evil");
    KILN_CHECK_INT(kiln_device_status(f.device, &f.err), KILN_STATUS_DEVICE_LOST);
    kiln_device_trim(f.device); // nothing of this has waited
    KILN_CHECK(kilni_cl_is_stuck(kilni_cl_backend_of(f.device->backend)));
    fixture again; // as another process, beside what still runs
    if (open(&again, cache, "hangs", "1000", "off")) {
        kiln_plugin_info info = KILN_PLUGIN_INFO_INIT;
        FIXTURE_OK(&again, kiln_plugin_get(again.context, 0, &info, &again.err));
        for (size_t i = 0; strstr(info.path, "evil_hangs") == NULL &&
                           kiln_plugin_get(again.context, i, &info, &again.err) == KILN_STATUS_OK;
             i++) {
        }
        KILN_CHECK_CONTAINS(info.reason, "put away after 3 failures, the last: kernel evil of");
        FIXTURE_OK(&again, run(&again, out));
        KILN_CHECK(is_right(out));
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(again.device, &stats);
        KILN_CHECK_INT(stats.blocks_fused, 0);
        fixture_close(&again);
    }
    wait_for_kernel(&f);
    kiln_device_release(f.device);
    kiln_context_destroy(f.context);
}

/// Memory of the caller's is given back by a call of his, not by a driver's thread whenever the
/// kernel happens to end.
static void test_what_it_uses_stays(void)
{
    static float out[N];
    const struct timespec nap = {.tv_nsec = 300000000};
    int given_back = 0;
    fixture f;
    if (!open(&f, kiln_test_tmpdir(), "hangs", "1000", "off")) {
        return;
    }
    uint32_t features = kiln_device_info_of(f.device)->features;
    int copied = (features & KILN_FEATURE_UNIFIED_MEMORY) == 0;
    KILN_CHECK_INT(run_on(&f, out, &given_back), KILN_STATUS_DEVICE_LOST);
    kiln_device_trim(f.device);
    wait_for_kernel(&f);
    nanosleep(&nap, NULL);
    KILN_CHECK_INT(given_back, copied);
    kiln_device_release(f.device);
    KILN_CHECK_INT(given_back, 1);
    kiln_context_destroy(f.context);
}

/// A device is closed while the kernel runs: at once, and what the kernel uses stays.
static void test_closing_does_not_wait(void)
{
#if defined(__SANITIZE_ADDRESS__)
    kiln_test_skip("what stays would be called a leak");
#else
    static float out[N];
    fixture f;
    if (!open(&f, kiln_test_tmpdir(), "hangs", "1000", "off")) {
        return;
    }
    KILN_CHECK_INT(run(&f, out), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK(kilni_cl_is_stuck(kilni_cl_backend_of(f.device->backend)));
    kiln_device_release(f.device);
    KILN_CHECK_CONTAINS(seen, "is closed while a kernel runs: its memory stays");
    kiln_context_destroy(f.context);
#endif
}

/// What is measured or checked is watched too.
static void test_checked_runs_are_watched(void)
{
    static float out[N];
    fixture f;
    if (!open(&f, kiln_test_tmpdir(), "hangs", "1000", "first")) {
        return;
    }
    uint64_t start = kiln_time_ns();
    kiln_status status = run(&f, out);
    check_told(&f, status, seconds_since(start));
    wait_for_kernel(&f);
    kiln_device_release(f.device);
    kiln_context_destroy(f.context);
}

/// With time enough it is a slow kernel and nothing else; without a limit nobody looks.
static void test_slow_is_no_crime(void)
{
    static const char *const limits[] = {"100000", "0"};
    static float out[N];
    fixture f;
    if (!open(&f, kiln_test_tmpdir(), "hangs", limits[kiln_test_param() != NULL], "off")) {
        return;
    }
    FIXTURE_OK(&f, run(&f, out));
    KILN_CHECK(is_right(out));
    KILN_CHECK_STR(seen, "");
    fixture_close(&f);
}

/// Leaves this process a tenth of its time until it is ended.
static pid_t starve(void)
{
    const struct timespec turn = {.tv_nsec = 10000000}, pause = {.tv_nsec = 90000000};
    pid_t mine = getpid();
    fflush(stdout);
    pid_t child = fork();
    while (child == 0) {
        if (kill(mine, SIGSTOP) != 0) {
            _exit(0); // it is gone
        }
        nanosleep(&pause, NULL);
        (void)kill(mine, SIGCONT);
        nanosleep(&turn, NULL);
    }
    return child;
}

/// A kernel that gets no processor is not one that does not end.
static void test_starved_kernels_run_on(void)
{
    static float out[N];
    fixture f;
    if (!open(&f, kiln_test_tmpdir(), "takes_time", "0", "off")) {
        return;
    }
    FIXTURE_OK(&f, run(&f, out)); // compiled, for the next
    fixture_close(&f);
    if (open(&f, "off", "takes_time", "1000", "off")) {
        uint64_t start = kiln_time_ns();
        pid_t child = starve();
        FIXTURE_OK(&f, run(&f, out));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        KILN_CHECK(seconds_since(start) > 1.0);
        KILN_CHECK(is_right(out));
        KILN_CHECK_STR(seen, "");
        fixture_close(&f);
    }
}

static void test_honest_kernels_run_on(void)
{
    static float out[N];
    fixture f;
    if (!open(&f, kiln_test_tmpdir(), "none", "1000", "off")) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        FIXTURE_OK(&f, run(&f, out));
        KILN_CHECK(is_right(out));
    }
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &stats);
    KILN_CHECK_INT(stats.blocks_fused, 3);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_a_kernel_that_hangs),
        KILN_TEST(test_checked_runs_are_watched),
        KILN_TEST(test_what_it_uses_stays),
        {"test_slow_is_no_crime/time_enough", test_slow_is_no_crime, NULL},
        {"test_slow_is_no_crime/no_limit", test_slow_is_no_crime, ""},
        KILN_TEST(test_honest_kernels_run_on),
        KILN_TEST(test_starved_kernels_run_on),
        KILN_TEST(test_closing_does_not_wait), // last: the device is at work after it
    };
    return kiln_test_run("unit/runtime/watchdog", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
