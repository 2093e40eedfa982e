// SPDX-License-Identifier: MIT OR Apache-2.0
// The importer without memory: each allocation of opening, planning and running the digits model
// fails once. What it says is RESOURCE_EXHAUSTED with a text, and nothing stays allocated.
#include "faults.h"
#include "harness.h"
#include "onnx.h"

#include <stdlib.h>

static kiln_status run_model(const kiln_env *env, kiln_device *device, const char *bytes,
                             size_t length, kiln_tensor *image, kiln_error *err)
{
    kiln_onnx_model *model = NULL;
    kiln_onnx_session *session = NULL;
    kiln_tensor *output = NULL;
    const kiln_onnx_input input = {.name = "image", .tensor = image};
    kiln_status status = kiln_onnx_model_open_memory(env, bytes, length, NULL, &model, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(model, device, &session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run(session, &input, 1, &output, 1, err);
    }
    kiln_release(output);
    kiln_onnx_session_destroy(session);
    kiln_onnx_model_close(model);
    return status;
}

/* The importer's own memory comes from `faults`; the device keeps to an allocator that works. */
static void test_each_allocation_fails(void)
{
    kiln_faults faults;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *image = NULL;
    kiln_error err = KILN_ERROR_INIT;
    size_t length = 0;
    size_t failed = 0;
    const int64_t dims[] = {1, 1, 8, 8};
    char *bytes = kiln_test_need_file(KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx", &length);
    KILN_CHECK(bytes != NULL);
    KILN_CHECK(kiln_context_create(NULL, &context, &err) == KILN_STATUS_OK);
    KILN_CHECK(kiln_device_open(context, "reference:0", &device, &err) == KILN_STATUS_OK);
    KILN_CHECK(kiln_tensor_create(device, KILN_DTYPE_F32, 4, dims, NULL, &image, &err) ==
               KILN_STATUS_OK);
    kiln_faults_init(&faults);
    const kiln_env env = {.allocator = faults.allocator};
    for (size_t k = 1; bytes != NULL && kiln_faults_next(&faults, k); k++) {
        err = (kiln_error)KILN_ERROR_INIT;
        kiln_status status = run_model(&env, device, bytes, length, image, &err);
        bool last = atomic_load(&faults.requests) < k;
        KILN_CHECK_INT(status, last ? KILN_STATUS_OK : KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK(last || err.message[0] != '\0');
        failed += last ? 0 : 1;
    }
    KILN_CHECK(failed > 50);
    KILN_CHECK(kiln_sync(device, &err) == KILN_STATUS_OK);
    kiln_release(image);
    kiln_device_release(device);
    kiln_context_destroy(context);
    free(bytes);
}

KILN_TEST_MAIN("unit/onnx/test_onnx_faults", KILN_TEST(test_each_allocation_fails))
