// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that is linked with libkiln_client alone: opens the device it is told, adds, reads.
#include "kiln.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    const int64_t dims[] = {3};
    const float data[] = {1, 2, 3};
    float back[3] = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &context, &err));
    KILN_TRY(out, status, kiln_device_open(context, argc > 1 ? argv[1] : "grpc:", &device, &err));
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, data, &x, &err));
    KILN_TRY(out, status, kiln_add(x, x, &y, &err));
    KILN_TRY(out, status, kiln_read(y, back, sizeof(back), &err));
    printf("%g %g %g\n", back[0], back[1], back[2]);
out:
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
    }
    kiln_release(x);
    kiln_release(y);
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status != KILN_STATUS_OK;
}
