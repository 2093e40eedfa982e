// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of operators of plugins: one that brings a gradient, with its parameters, and one
// without, which is refused by name.
#include "kiln_grad.h"
#include "runtime_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 4 };

#define OK(f, call) FIXTURE_OK(f, call)

static bool open_with_operators(fixture *f, const char *address)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/lib/kiln/test_plugins/acme_operators.so", KILN_TEST_BUILD_DIR);
    memset(f, 0, sizeof(*f));
    if (!OK(f, kiln_context_create(NULL, &f->context, &f->err)) ||
        !OK(f, kiln_plugin_load(f->context, path, &f->err))) {
        return false;
    }
    kiln_status status =
        kiln_device_open(f->context, kiln_test_address(address), &f->device, &f->err);
    if (status != KILN_STATUS_OK && strncmp(address, "opencl", 6) == 0) {
        kiln_test_skip("no OpenCL device: %s", f->err.message);
        kiln_context_destroy(f->context);
        return false;
    }
    return OK(f, status);
}

static kiln_tensor *call_one(fixture *f, const char *name, kiln_tensor *x,
                             const kiln_custom_attr *attrs, size_t n_attrs, kiln_tensor **out_other)
{
    kiln_tensor *outputs[2] = {NULL};
    kiln_custom_call call = KILN_CUSTOM_CALL_INIT;
    call.name = name;
    call.inputs = &x;
    call.n_inputs = 1;
    call.attrs = attrs;
    call.n_attrs = n_attrs;
    OK(f, kiln_custom(f->device, &call, outputs, out_other != NULL ? 2 : 1, &f->err));
    if (out_other != NULL) {
        *out_other = outputs[1];
    }
    return outputs[0];
}

static double slope_of_mish(double x)
{
    double t = tanh(log1p(exp(x)));
    return t + x * (1 - t * t) / (1 + exp(-x));
}

/// 2 sum(mish(x)): where it is clamped at 1.5 the gradient is 0.
static void check_mish(const char *address, uint64_t budget)
{
    static const float data[N] = {-2, 0.5F, 1.25F, 3};
    const int64_t dims[] = {N};
    const kiln_custom_attr clip = {"clip", {KILN_ATTR_F64, 1, {.f = 1.5}}};
    fixture f;
    if (!open_with_operators(&f, address)) {
        return;
    }
    kiln_tape *tape = NULL;
    kiln_tensor *t[3] = {NULL};
    float found[N] = {0};
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    OK(&f, kiln_tape_create(f.device, &tape, &f.err));
    OK(&f, kiln_tape_set_budget(tape, budget, &f.err));
    OK(&f, kiln_tape_track(tape, x, &f.err));
    kiln_tensor *y = call_one(&f, "acme::mish_clip", x, &clip, 1, NULL);
    OK(&f, kiln_mul_scalar(y, kiln_f64(2), &t[0], &f.err));
    OK(&f, kiln_sum(t[0], NULL, 0, false, &t[1], &f.err));
    OK(&f, kiln_backward(tape, t[1], NULL, &f.err));
    OK(&f, kiln_gradient(tape, x, &t[2], &f.err));
    OK(&f, kiln_read(t[2], found, sizeof(found), &f.err));
    for (int i = 0; i < N; i++) {
        double slope = i == N - 1 ? 0 : 2 * slope_of_mish((double)data[i]);
        KILN_CHECK_NEAR((double)found[i], slope, 1e-5);
    }
    kiln_tape_destroy(tape);
    kiln_release(x);
    kiln_release(y);
    for (int i = 0; i < 3; i++) {
        kiln_release(t[i]);
    }
    fixture_close(&f);
}

static void test_by_its_gradient(void)
{
    check_mish("reference:0", 0);
    check_mish("reference:0", 1);
    check_mish("opencl:0", 0);
}

static void test_without_one(void)
{
    static const float data[N] = {-2, 0.5F, 1.25F, 3};
    const int64_t dims[] = {N};
    fixture f;
    if (open_with_operators(&f, "reference:0")) {
        kiln_tape *tape = NULL;
        kiln_tensor *where = NULL;
        kiln_tensor *x = fixture_f32(&f, 1, dims, data);
        OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        OK(&f, kiln_tape_track(tape, x, &f.err));
        kiln_tensor *top = call_one(&f, "acme::row_top", x, NULL, 0, &where);
        KILN_CHECK(!kiln_tape_tracks(tape, where));
        KILN_CHECK_INT(kiln_backward(tape, top, NULL, &f.err), KILN_STATUS_UNIMPLEMENTED);
        KILN_CHECK_CONTAINS(f.err.message, "kiln_tape_custom");
        kiln_tape_destroy(tape);
        kiln_release(x);
        kiln_release(top);
        kiln_release(where);
        fixture_close(&f);
    }
}

KILN_TEST_MAIN("unit/autodiff/tape_plugin", KILN_TEST(test_by_its_gradient),
               KILN_TEST(test_without_one))
