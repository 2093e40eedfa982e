// SPDX-License-Identifier: MIT OR Apache-2.0
// Tapes when memory of the host runs out: at each allocation in turn, nothing is left behind.
#include "faults.h"
#include "harness.h"
#include "kiln_grad.h"

static kiln_status part(void *user, kiln_tensor *const *inputs, kiln_tensor **out_outputs,
                        kiln_error *err)
{
    (void)user;
    return kiln_cum_prod(inputs[0], -1, false, false, out_outputs, err);
}

static kiln_status go_back(kiln_tape *tape, kiln_tensor *x, kiln_tensor **t, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tape_track(tape, x, err));
    KILN_TRY(out, status, kiln_silu(x, &t[0], err));
    KILN_TRY(out, status, kiln_matmul(t[0], x, false, true, &t[1], err));
    KILN_TRY(out, status, kiln_softmin(t[1], -1, &t[2], err));
    KILN_TRY(out, status, kiln_layer_norm(t[2], NULL, NULL, -1, 1e-5, &t[3], err));
    KILN_TRY(out, status, kiln_tape_checkpoint(tape, part, NULL, NULL, &t[3], 1, &t[4], 1, err));
    KILN_TRY(out, status, kiln_max(t[4], NULL, 0, false, &t[5], err));
    KILN_TRY(out, status, kiln_gradients(tape, t[5], NULL, &x, 1, &t[6], err));
    KILN_TRY(out, status, kiln_sum(t[6], NULL, 0, false, &t[7], err));
    KILN_TRY(out, status, kiln_backward(tape, t[7], NULL, err));
    KILN_TRY(out, status, kiln_gradient(tape, x, &t[8], err));
out:
    return status;
}

static bool small_program(kiln_context *context)
{
    static const int64_t dims[] = {2, 3};
    static const float data[] = {1, 2, 3, 5, 7, 11};
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tape *tape = NULL;
    kiln_tensor *x = NULL;
    kiln_tensor *t[9] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_device_open(context, "reference", &device, &err));
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, data, &x, &err));
    KILN_TRY(out, status, kiln_tape_create(device, &tape, &err));
    KILN_TRY(out, status, go_back(tape, x, t, &err));
out:
    if (status != KILN_STATUS_OK) {
        KILN_CHECK_INT(status, KILN_STATUS_RESOURCE_EXHAUSTED);
    }
    for (int i = 0; i < 9; i++) {
        kiln_release(t[i]);
    }
    kiln_release(x);
    kiln_tape_destroy(tape);
    kiln_device_release(device);
    return status == KILN_STATUS_OK;
}

static void test_failing_allocations(void)
{
    kiln_faults faults;
    bool finished = false;
    kiln_faults_init(&faults);
    for (size_t k = 1; kiln_faults_next(&faults, k) && k < 5000; k++) {
        kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
        kiln_context *context = NULL;
        options.allocator = &faults.allocator;
        if (kiln_context_create(&options, &context, NULL) == KILN_STATUS_OK) {
            finished = small_program(context);
            kiln_context_destroy(context);
        }
    }
    KILN_CHECK(finished); // the last run had no failure
}

KILN_TEST_MAIN("unit/autodiff/tape_faults", KILN_TEST(test_failing_allocations))
