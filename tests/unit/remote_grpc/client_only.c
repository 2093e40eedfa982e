// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that is linked with libkiln_client alone: opens the device it is told, adds, reads.
// With a model of digits and a picture of one it says which digit that is.
#include "base_npy.h"
#include "kiln.h"
#ifdef KILN_WITH_ONNX
#include "onnx.h"
#endif

#include <stdio.h>

static kiln_status add(kiln_device *device, kiln_error *err)
{
    const int64_t dims[] = {3};
    const float data[] = {1, 2, 3};
    float back[3] = {0};
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, data, &x, err));
    KILN_TRY(out, status, kiln_add(x, x, &y, err));
    KILN_TRY(out, status, kiln_read(y, back, sizeof(back), err));
    printf("%g %g %g\n", back[0], back[1], back[2]);
out:
    kiln_release(x);
    kiln_release(y);
    return status;
}

#ifdef KILN_WITH_ONNX
static kiln_status classify(kiln_device *device, const char *path, const char *picture,
                            kiln_error *err)
{
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    float scores[10] = {0};
    size_t best = 0;
    kiln_npy image = {0};
    kiln_onnx_model *model = NULL;
    kiln_onnx_session *session = NULL;
    kiln_onnx_input input = {0};
    kiln_tensor *result = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_npy_read(picture, &image, err));
    KILN_TRY(out, status, kiln_onnx_model_open(env, path, &model, err));
    KILN_TRY(out, status, kiln_onnx_session_create(model, device, &session, err));
    input.name = "image";
    KILN_TRY(out, status,
             kiln_tensor_create(device, image.dtype, image.rank, image.dims, image.data,
                                &input.tensor, err));
    KILN_TRY(out, status, kiln_onnx_session_run(session, &input, 1, &result, 1, err));
    KILN_TRY(out, status, kiln_read(result, scores, sizeof(scores), err));
    for (size_t i = 1; i < 10; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    printf("%zu\n", best);
out:
    kiln_release(input.tensor);
    kiln_release(result);
    kiln_onnx_session_destroy(session);
    kiln_onnx_model_close(model);
    kiln_npy_free(&image);
    return status;
}
#endif

int main(int argc, char **argv)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &context, &err));
    KILN_TRY(out, status, kiln_device_open(context, argc > 1 ? argv[1] : "grpc:", &device, &err));
    KILN_TRY(out, status, add(device, &err));
#ifdef KILN_WITH_ONNX
    if (argc > 3) {
        KILN_TRY(out, status, classify(device, argv[2], argv[3], &err));
    }
#endif
out:
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status != KILN_STATUS_OK;
}
