// SPDX-License-Identifier: MIT OR Apache-2.0
// A driver whose k-th call fails, once or from then on, or takes long: over a chain of operations,
// a graph, a collective, an ONNX session, programs from a cache, and a bundle. fault_sweep.h says
// what must hold.
#include <stdio.h>

#include "cl_faults.h"
#include "fault_sweep.h"
#include "harness.h"

enum { CL_OUT_OF_RESOURCES = -5, CL_INVALID_VALUE = -30, ONCE_US = 20000, ON_AND_ON_US = 1000 };

static cl_faults *faults;

static void arm(uint64_t k, int32_t code, bool persistent)
{
    if (k != 0) {
        faults->name[0] = '\0';
    }
    atomic_store(&faults->fail_at, 0);
    atomic_store(&faults->code, code);
    atomic_store(&faults->persistent, persistent);
    atomic_store(&faults->seen, 0);
    atomic_store(&faults->fail_at, k);
}

static uint64_t seen(void)
{
    return atomic_load(&faults->seen);
}

static const char *name(void)
{
    return faults->name;
}

/// What the driver says of Kiln's arguments is not the caller's mistake.
static bool may_give(kiln_status status)
{
    return status != KILN_STATUS_INVALID_ARGUMENT;
}

static const int32_t codes[] = {-5, -6, -4, -2, -30}; // resources, memory of both, device, value
static const fault_kind calls = {.unit = "calls",
                                 .codes = codes,
                                 .n_codes = sizeof(codes) / sizeof(codes[0]),
                                 .arm = arm,
                                 .seen = seen,
                                 .name = name,
                                 .may_give = may_give,
                                 .few_warm = 12,
                                 .few_cold = 4};

static void test_faults(void)
{
    fault_sweep(&calls, kiln_test_param());
}

static void arm_delay(uint64_t k, int32_t code, bool persistent)
{
    atomic_store(&faults->delay_us, k == 0 ? 0 : persistent ? ON_AND_ON_US : ONCE_US);
    arm(k, code, persistent);
}

static bool may_give_nothing(kiln_status status)
{
    (void)status;
    return false;
}

static const int32_t no_code[] = {0};
static const fault_kind delays = {.unit = "calls",
                                  .codes = no_code,
                                  .n_codes = 1,
                                  .arm = arm_delay,
                                  .seen = seen,
                                  .name = name,
                                  .may_give = may_give_nothing,
                                  .few_warm = 3,
                                  .few_cold = 2};

/// A driver that takes its time is waited for, and the result is right.
static void test_delays(void)
{
    fault_sweep(&delays, kiln_test_param());
}

/// Of the calls with this name the first fails, while a device is opened and used.
static kiln_status run_without(world *w, const char *only, float out[FAULT_MOST_RESULTS])
{
    size_t count = 0;
    snprintf(faults->only, sizeof(faults->only), "%s", only);
    arm(1, codes[0], false);
    bool opened = world_open(w, &scene_chain, NULL);
    kiln_status status = opened ? world_run_chain(w, out, &count) : (kiln_status)w->err.code;
    KILN_CHECK(seen() > 0);
    arm(0, 0, false);
    faults->only[0] = '\0';
    return status;
}

/// A kernel that the driver does not describe now is no fuser's fault: its block is fused later.
static void test_questions(void)
{
    static const char *const names[] = {"clGetKernelInfo", "clGetKernelWorkGroupInfo"};
    static float out[FAULT_MOST_RESULTS];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t count = 0;
        world w;
        kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
        kiln_status status = run_without(&w, names[i], out);
        if (w.n_devices == 0) {
            kiln_test_skip("no OpenCL device: %s", w.err.message);
            world_close(&w, names[i]);
            return;
        }
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_RESOURCE_EXHAUSTED);
        kiln_device_stats_get(w.devices[0], &before);
        KILN_CHECK_INT(world_run_chain(&w, out, &count), KILN_STATUS_OK);
        kiln_device_stats_get(w.devices[0], &after);
        KILN_CHECK(after.blocks_fused > before.blocks_fused);
        world_close(&w, names[i]);
    }
}

/// A device that the driver does not describe now is not taken for a lesser one, such as one
/// without a compiler: each question that opens it may have no answer.
static void test_devices(void)
{
    static wanted want;
    fault_counts counts = {0};
    uint64_t count = 0;
    world w;
    if (!fault_learn(&calls, &scene_chain, &want, &counts)) {
        return;
    }
    snprintf(faults->only, sizeof(faults->only), "clGetDeviceInfo");
    arm(0, 0, false);
    KILN_CHECK(world_open(&w, &scene_chain, NULL));
    count = seen();
    world_close(&w, "no fault");
    KILN_CHECK(count > 20);
    for (uint64_t k = 1; k <= count; k++) {
        fault_cold(&calls, &scene_chain, &want, k, CL_OUT_OF_RESOURCES, false);
        fault_cold(&calls, &scene_chain, &want, k, CL_INVALID_VALUE, false);
    }
    faults->only[0] = '\0';
}

/// An event that the driver cannot complete now is completed later: else its queue stood for ever.
static void test_user_events(void)
{
    static wanted want;
    fault_counts counts = {0};
    world w;
    if (!fault_learn(&calls, &scene_collective, &want, &counts) ||
        !KILN_CHECK(world_open(&w, &scene_collective, NULL))) {
        return;
    }
    snprintf(faults->only, sizeof(faults->only), "clSetUserEventStatus");
    fault_warm(&calls, &w, &scene_collective, &want, 1, codes[0], true);
    KILN_CHECK_STR(faults->name, faults->only);
    faults->only[0] = '\0';
    world_close(&w, "clSetUserEventStatus");
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        FAULT_CASES(test_faults),
        KILN_TEST_PARAM(test_faults, "test_faults/measured", &scene_measured),
        FAULT_CASES(test_delays),
        KILN_TEST(test_questions),
        KILN_TEST(test_devices),
        KILN_TEST(test_user_events),
    };
    faults = cl_faults_share();
    if (faults == NULL) {
        fprintf(stderr, "no memory to share with the layer\n");
        return 2;
    }
    return kiln_test_run("faults/cl_faults", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
