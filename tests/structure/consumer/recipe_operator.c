// SPDX-License-Identifier: MIT OR Apache-2.0
// Uses the operator that tests/structure/recipe_operator.py has added to a copy of the tree: by its
// function of kiln_ops.h, on the device named on the command line, alone and between others. Says
// how many blocks were fused; fails when a value is wrong or fused bits are others.
#include <kiln.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 1 << 16 };

static float values[COUNT], alone[COUNT], fused[COUNT], result[COUNT];

static kiln_status chain(kiln_device *device, float *out_values, kiln_error *err)
{
    const int64_t dims[] = {COUNT};
    kiln_tensor *x = NULL, *half = NULL, *power = NULL, *sum = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, values, &x, err));
    KILN_TRY(out, status, kiln_mul_scalar(x, kiln_f64(0.5), &half, err));
    KILN_TRY(out, status, kiln_exp2(half, &power, err));
    KILN_TRY(out, status, kiln_add(power, x, &sum, err));
    kiln_release(half);
    kiln_release(power);
    half = power = NULL;
    KILN_TRY(out, status, kiln_read(sum, out_values, sizeof(values), err));
out:
    kiln_release(x);
    kiln_release(half);
    kiln_release(power);
    kiln_release(sum);
    return status;
}

static kiln_status run(kiln_device *device, kiln_error *err)
{
    const int64_t dims[] = {COUNT};
    kiln_tensor *x = NULL, *power = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, values, &x, err));
    KILN_TRY(out, status, kiln_exp2(x, &power, err));
    KILN_TRY(out, status, kiln_read(power, result, sizeof(result), err));
    KILN_TRY(out, status, chain(device, fused, err));
    KILN_TRY(out, status, kiln_device_set_fusion(device, false, err));
    KILN_TRY(out, status, chain(device, alone, err));
out:
    kiln_release(x);
    kiln_release(power);
    return status;
}

int main(int argc, char **argv)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_status status;
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(i - COUNT / 2) * (16.0f / COUNT);
    }
    KILN_TRY(out, status, kiln_context_create(NULL, &context, &err));
    KILN_TRY(out, status, kiln_device_open(context, argc > 1 ? argv[1] : NULL, &device, &err));
    KILN_TRY(out, status, run(device, &err));
    kiln_device_stats_get(device, &stats);
    for (int i = 0; i < COUNT; i++) {
        double want = exp2(values[i]);
        wrong += !(fabs(result[i] - want) <= 4e-7 * want);
    }
    printf("%d wrong, %s, %d fused\n", wrong,
           memcmp(alone, fused, sizeof(alone)) == 0 ? "same bits" : "other bits",
           (int)stats.blocks_fused);
out:
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status != KILN_STATUS_OK;
}
