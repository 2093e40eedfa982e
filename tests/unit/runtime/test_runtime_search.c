// SPDX-License-Identifier: MIT OR Apache-2.0
// kiln_nonzero: counted and found on the device, also of nothing and of rank 0; refused by name
// while capturing. What argwhere and nms do with any count is the conformance suite's.

#include "runtime_fixture.h"

#include <math.h>

static void expect_places(fixture *f, kiln_tensor *x, const int64_t *places, int64_t count,
                          int64_t rank)
{
    int64_t back[32] = {0};
    kiln_tensor *found = NULL;
    FIXTURE_OK(f, kiln_nonzero(x, &found, &f->err));
    if (found != NULL) {
        KILN_CHECK_INT(kiln_tensor_dtype(found), KILN_DTYPE_I64);
        KILN_CHECK_INT(kiln_tensor_rank(found), 2);
        KILN_CHECK_INT(kiln_tensor_dims(found)[0], count);
        KILN_CHECK_INT(kiln_tensor_dims(found)[1], rank);
        FIXTURE_OK(f, kiln_read(found, back, (size_t)(count * rank) * sizeof(int64_t), &f->err));
        for (int64_t i = 0; i < count * rank; i++) {
            KILN_CHECK_INT(back[i], places[i]);
        }
    }
    kiln_release(found);
    kiln_release(x);
}

static void find_everywhere(const char *address)
{
    fixture f;
    const int64_t dims[] = {2, 3};
    const int64_t none[] = {4, 0};
    const float values[] = {0, -1, 0, NAN, -0.0f, 5};
    const float one = 7;
    const int64_t places[] = {0, 1, 1, 0, 1, 2};
    if (!fixture_open(&f, address)) {
        return;
    }
    expect_places(&f, fixture_f32(&f, 2, dims, values), places, 3, 2);
    expect_places(&f, fixture_f32(&f, 2, dims, NULL), NULL, 0, 2);
    expect_places(&f, fixture_f32(&f, 2, none, NULL), NULL, 0, 2);
    expect_places(&f, fixture_f32(&f, 0, NULL, &one), NULL, 1, 0);
    fixture_close(&f);
}

static void test_reference(void)
{
    find_everywhere("reference");
}

static void test_opencl(void)
{
    find_everywhere("opencl:0");
}

static void test_captures_refuse(void)
{
    fixture f;
    const int64_t dims[] = {6};
    const float values[] = {0, 1, 0, 2, 0, 3};
    kiln_tensor *found = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, values);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    KILN_CHECK_INT(kiln_nonzero(x, &found, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f.err.message, "nonzero, whose length depends on contents");
    KILN_CHECK(found == NULL);
    kiln_graph_cancel(f.device);
    kiln_release(x);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/test_runtime_search", KILN_TEST(test_reference),
               KILN_TEST(test_opencl), KILN_TEST(test_captures_refuse))
