// SPDX-License-Identifier: MIT OR Apache-2.0
// The short way in and out: one call opens context and device, one ends all that was made there.
#include "harness.h"
#include "kiln.h"

#include <stdlib.h>

static const float DATA[4] = {-2, -1, 1, 2};
static const int64_t DIMS[1] = {4};

static uint64_t live(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.tensors_live;
}

static void test_one_chain(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x, *t, *y;
    float v[4] = {0};
    bool failed = kiln_open("reference", &device, &err) ||
                  kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err) ||
                  kiln_mul_scalar(x, kiln_f64(3), &t, &err) || kiln_relu(t, &y, &err) ||
                  kiln_read(y, v, sizeof(v), &err);
    KILN_CHECK(!failed);
    const float want[4] = {0, 0, 3, 6};
    KILN_CHECK_MEM(v, want, sizeof(want));
    KILN_CHECK_INT((int)live(device), 3);
    kiln_close(device);
}

static void test_first_failure_is_told(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x, *t, *y;
    const int64_t other[1] = {3};
    float v[4];
    bool failed = kiln_open("reference", &device, &err) ||
                  kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err) ||
                  kiln_tensor_create(device, KILN_DTYPE_F32, 1, other, DATA, &t, &err) ||
                  kiln_add(x, t, &y, &err) || kiln_read(y, v, sizeof(v), &err);
    KILN_CHECK(failed);
    KILN_CHECK_CONTAINS(err.message, "[4]");
    KILN_CHECK_INT((int)live(device), 2);
    kiln_close(device);
    KILN_CHECK_INT(kiln_open("nothing:0", &device, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK(device == NULL);
    kiln_close(device);
    kiln_close(NULL);
}

static void test_released_before(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x[5] = {NULL};
    KILN_CHECK_INT(kiln_open("reference", &device, &err), KILN_STATUS_OK);
    for (size_t i = 0; i < 5; i++) {
        KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x[i], &err),
                       KILN_STATUS_OK);
    }
    kiln_release(x[0]); // the oldest, one between, the newest
    kiln_release(x[2]);
    kiln_release(x[4]);
    KILN_CHECK_INT((int)live(device), 2);
    (void)kiln_retain(x[1]); // a second hold ends, too
    for (int i = 0; i < 1000; i++) {
        kiln_tensor *sum = NULL;
        KILN_CHECK_INT(kiln_add(x[1], x[3], &sum, &err), KILN_STATUS_OK);
        if (i % 2 == 0) {
            kiln_release(sum);
        }
    }
    kiln_close(device);
}

/// Whoever holds the context sees that the device has gone with its tensors.
static void test_device_ends(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *x = NULL;
    KILN_CHECK_INT(kiln_open("reference", &device, &err), KILN_STATUS_OK);
    kiln_device *again = NULL;
    KILN_CHECK_INT(kiln_device_open(kiln_device_context(device), "reference", &again, &err),
                   KILN_STATUS_OK);
    KILN_CHECK(again == device);
    KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 1, DIMS, DATA, &x, &err),
                   KILN_STATUS_OK);
    kiln_close(device);
    KILN_CHECK_INT((int)live(again), 0);
    kiln_device_release(again);
}

static void test_device_of_the_environment(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    KILN_CHECK_INT(setenv("KILN_DEVICE", "reference:0", 1), 0);
    KILN_CHECK_INT(kiln_open(NULL, &device, &err), KILN_STATUS_OK);
    KILN_CHECK_STR(kiln_device_address(device), "reference:0");
    kiln_close(device);
    unsetenv("KILN_DEVICE");
}

KILN_TEST_MAIN("unit/runtime/open", KILN_TEST(test_one_chain),
               KILN_TEST(test_first_failure_is_told), KILN_TEST(test_released_before),
               KILN_TEST(test_device_ends), KILN_TEST(test_device_of_the_environment))
