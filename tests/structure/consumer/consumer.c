// SPDX-License-Identifier: MIT OR Apache-2.0
// A user's program against the installed headers, valid C11 and C++17.
// It adds two tensors on the reference device, so that it needs no OpenCL, and checks the answer;
// how fast or on what else is for other tests.
#include <kiln/kiln.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, const kiln_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    return 1;
}

static int add_on(kiln_device *device, kiln_error *err)
{
    const float values[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    const int64_t dims[2] = {2, 2};
    float result[4] = {0};
    kiln_tensor *a = NULL;
    kiln_tensor *sum = NULL;
    if (kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, values, &a, err) != KILN_STATUS_OK) {
        return fail("create", err);
    }
    kiln_status status = kiln_add(a, a, &sum, err);
    kiln_release(a);
    if (status != KILN_STATUS_OK) {
        return fail("add", err);
    }
    status = kiln_read(sum, result, sizeof(result), err);
    kiln_release(sum);
    if (status != KILN_STATUS_OK) {
        return fail("read", err);
    }
    for (int i = 0; i < 4; i++) {
        if (result[i] != 2.0f * values[i]) {
            fprintf(stderr, "element %d is %g\n", i, (double)result[i]);
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    kiln_error err;
    kiln_context_options options;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    memset(&err, 0, sizeof(err));
    memset(&options, 0, sizeof(options));
    options.struct_size = (uint32_t)sizeof(options);
    if (strlen(kiln_version()) == 0 || strcmp(kiln_status_name(KILN_STATUS_OK), "ok") != 0) {
        return fail("names", &err);
    }
    if (kiln_context_create(&options, &context, &err) != KILN_STATUS_OK) {
        return fail("context", &err);
    }
    int rc = 1;
    if (kiln_device_open(context, "reference:0", &device, &err) != KILN_STATUS_OK) {
        rc = fail("device", &err);
    } else {
        rc = add_on(device, &err);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
    return rc;
}
