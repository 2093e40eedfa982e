// SPDX-License-Identifier: MIT OR Apache-2.0
// No memory of the host: the k-th allocation of a context fails, or that and all after it, over a
// chain of operations, a graph, a collective, an ONNX session, programs from a cache, a bundle and
// a remote session, with fusers on an OpenCL device. fault_sweep.h says what must hold; besides, a
// run gives RESOURCE_EXHAUSTED or, where Kiln can do without, the right result.
#include "fault_sweep.h"
#include "faults.h"
#include "harness.h"

static kiln_faults memory;

static void arm(uint64_t k, int32_t code, bool persistent)
{
    (void)code;
    atomic_store(&memory.fail_at, 0);
    atomic_store(&memory.persistent, persistent);
    atomic_store(&memory.requests, 0);
    atomic_store(&memory.fail_at, k);
}

static uint64_t seen(void)
{
    return atomic_load(&memory.requests);
}

static const char *name(void)
{
    return "no memory";
}

static bool may_give(kiln_status status)
{
    return status == KILN_STATUS_RESOURCE_EXHAUSTED;
}

static void check_end(const char *fault)
{
    size_t live = atomic_load(&memory.live);
    if (live != 0) {
        KILN_FAIL("%s: %zu allocations are left", fault, live);
        atomic_store(&memory.live, 0);
    }
}

static const int32_t codes[] = {-1};
static const fault_kind allocations = {.unit = "allocations",
                                       .codes = codes,
                                       .n_codes = 1,
                                       .arm = arm,
                                       .seen = seen,
                                       .name = name,
                                       .may_give = may_give,
                                       .check_end = check_end,
                                       .allocator = &memory.allocator,
                                       .few_warm = 12,
                                       .few_cold = 8};

static void test_faults(void)
{
    fault_sweep(&allocations, kiln_test_param());
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        FAULT_CASES(test_faults),
        KILN_TEST_PARAM(test_faults, "test_faults/measured", &scene_measured),
        KILN_TEST_PARAM(test_faults, "test_faults/remote", &scene_remote),
    };
    kiln_faults_init(&memory);
    return kiln_test_run("faults/no_memory", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
