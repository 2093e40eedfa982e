// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln bench kernels` holds every kernel against the reference: here, that it has a case for every
// row of cl_backend/ops/kernels.def and every operator, but for those named below with the reason.
#include "bench.h"
#include "harness.h"

static const struct {
    kiln_op op;
    const char *why;
} untimed[] = {
    {KILN_OP_ALL_REDUCE, "needs a group of devices: kiln bench coll"},
    {KILN_OP_COLLECTIVE_SYNC, "needs a group of devices: kiln bench coll"},
    {KILN_OP_CUSTOM, "is whatever a plugin brings"},
    {KILN_OP_DROP, "runs nothing"},
};
enum { N_UNTIMED = sizeof(untimed) / sizeof(untimed[0]) };

static const kiln_op kernels[] = {
#define KILN_KERNEL(id, launcher) KILN_OP_##id,
#include "kernels.def"
#undef KILN_KERNEL
};

static const char *reason(kiln_op op)
{
    for (size_t i = 0; i < N_UNTIMED; i++) {
        if (untimed[i].op == op) {
            return untimed[i].why;
        }
    }
    return NULL;
}

static void test_every_kernel_has_a_case(void)
{
    bool covered[KILN_OP_COUNT];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = bench_kernels_covered(covered, &err);
    if (!KILN_CHECK_STR(status == KILN_STATUS_OK ? "" : err.message, "")) {
        return;
    }
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (!covered[kernels[i]] && reason(kernels[i]) == NULL) {
            KILN_FAIL("the kernel of %s is not timed", kiln_op_info_of(kernels[i])->name);
        }
    }
}

static void test_every_operator_has_a_case_or_a_reason(void)
{
    bool covered[KILN_OP_COUNT];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = bench_kernels_covered(covered, &err);
    if (!KILN_CHECK_STR(status == KILN_STATUS_OK ? "" : err.message, "")) {
        return;
    }
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        if (covered[op] == (reason((kiln_op)op) != NULL)) {
            KILN_FAIL("%s is %s", kiln_op_info_of((kiln_op)op)->name,
                      covered[op] ? "timed, and excused" : "not timed");
        }
    }
}

KILN_TEST_MAIN("unit/bench/kernels", KILN_TEST(test_every_kernel_has_a_case),
               KILN_TEST(test_every_operator_has_a_case_or_a_reason))
