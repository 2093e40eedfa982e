// SPDX-License-Identifier: MIT OR Apache-2.0
// Uses an operator that Kiln does not have: acme::mish_clip and acme::row_top, which the plugin
// given on the command line brings (examples/operators/acme_operators.c). On a device with programs
// they run by the plugin's kernels, on the reference device by its reference: the difference is
// printed. Usage: custom_operator PLUGIN.so [DEVICE]
#include <kiln/kiln_ops.h>

#include <math.h>
#include <stdio.h>

enum { ROWS = 64, COLUMNS = 257 };

static kiln_error err;

/// row_top(mish_clip(x)) on a device: the largest of each row, and where it is.
static kiln_status compute(kiln_device *device, const float *x, float *top, int64_t *where)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    const kiln_custom_attr clip = {"clip", {KILN_ATTR_F64, 1, {.f = 4.0}}};
    kiln_tensor *in = NULL, *clipped = NULL, *out[2] = {NULL};
    kiln_custom_call call = KILN_CUSTOM_CALL_INIT;
    kiln_status status = kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, x, &in, &err);
    if (status == KILN_STATUS_OK) {
        call.name = "acme::mish_clip";
        call.inputs = &in;
        call.n_inputs = 1;
        call.attrs = &clip;
        call.n_attrs = 1;
        status = kiln_custom(device, &call, &clipped, 1, &err);
    }
    if (status == KILN_STATUS_OK) {
        call.name = "acme::row_top";
        call.inputs = &clipped;
        call.n_attrs = 0; // axis has its default
        status = kiln_custom(device, &call, out, 2, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(out[0], top, ROWS * sizeof(*top), &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(out[1], where, ROWS * sizeof(*where), &err);
    }
    kiln_release(in);
    kiln_release(clipped);
    kiln_release(out[0]);
    kiln_release(out[1]);
    return status;
}

static int compare(kiln_context *context, const char *address)
{
    static float x[ROWS * COLUMNS], top[2][ROWS];
    static int64_t where[2][ROWS];
    const char *const addresses[] = {address, "reference:0"};
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = 3 * sinf((float)i * 0.61f);
    }
    for (int side = 0; side < 2 && status == KILN_STATUS_OK; side++) {
        kiln_device *device = NULL;
        status = kiln_device_open(context, addresses[side], &device, &err);
        if (status == KILN_STATUS_OK) {
            status = compute(device, x, top[side], where[side]);
        }
        kiln_device_release(device);
    }
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "custom_operator: %s\n", err.message);
        return 1;
    }
    double largest = 0;
    int moved = 0;
    for (int i = 0; i < ROWS; i++) {
        largest = fmax(largest, fabs((double)top[0][i] - (double)top[1][i]));
        moved += where[0][i] != where[1][i];
    }
    printf("%s and the reference differ by %.1e at most, in %d of %d places\n", address, largest,
           moved, ROWS);
    return largest < 1e-5 && moved == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    kiln_context *context = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: custom_operator PLUGIN.so [DEVICE]\n");
        return 2;
    }
    kiln_status status = kiln_context_create(NULL, &context, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_plugin_load(context, argv[1], &err);
    }
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "custom_operator: %s\n", err.message);
    }
    int code = status == KILN_STATUS_OK ? compare(context, argc > 2 ? argv[2] : "opencl:0") : 1;
    kiln_context_destroy(context);
    return code;
}
