// SPDX-License-Identifier: MIT OR Apache-2.0
// Fuzzes the ONNX importer whole: reads the bytes as a model, plans it, and runs it on zeros on the
// reference device when its inputs are small. An allocator that refuses large blocks keeps hostile
// sizes cheap; everything else must hold.
#include "fuzz_target.h"
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_BLOCK = 1 << 22, MOST_ELEMS = 4096, MAX_IO = 8 };

static kiln_context *context;
static kiln_device *device;

static void *limited_alloc(void *user, size_t bytes, size_t alignment)
{
    const kiln_allocator *real = user;
    return bytes > LARGEST_BLOCK ? NULL : real->alloc(real->user, bytes, alignment);
}

static void limited_free(void *user, void *pointer)
{
    const kiln_allocator *real = user;
    real->free(real->user, pointer);
}

static void open_device(void)
{
    static kiln_allocator real;
    static kiln_allocator limited = {limited_alloc, limited_free, &real};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    real = kiln_allocator_default();
    options.allocator = &limited;
    options.ignore_environment = 1;
    if (kiln_context_create(&options, &context, NULL) != KILN_STATUS_OK ||
        kiln_device_open(context, "reference:0", &device, NULL) != KILN_STATUS_OK) {
        abort();
    }
}

/* Zeros of the shape that the model says, open lengths 1. False when it is too large or no tensor.
 */
static bool make_input(const kiln_onnx_value_info *info, kiln_onnx_input *out_input)
{
    int64_t dims[KILN_MAX_RANK];
    int64_t count = 1;
    for (uint32_t i = 0; i < info->rank; i++) {
        dims[i] = info->dims[i].length < 0 ? 1 : info->dims[i].length;
        if (dims[i] > MOST_ELEMS || (count *= dims[i]) > MOST_ELEMS) {
            return false;
        }
    }
    *out_input = (kiln_onnx_input){.name = info->name};
    return kiln_tensor_create(device, info->dtype, info->rank, dims, NULL, &out_input->tensor,
                              NULL) == KILN_STATUS_OK;
}

static void run(const kiln_onnx_model *model, kiln_onnx_session *session)
{
    size_t n_inputs = 0;
    size_t n_outputs = 0;
    size_t made = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(model, &n_inputs);
    kiln_onnx_input inputs[MAX_IO];
    kiln_tensor *outputs[MAX_IO] = {NULL};
    (void)kiln_onnx_model_outputs(model, &n_outputs);
    while (n_inputs <= MAX_IO && n_outputs <= MAX_IO && made < n_inputs &&
           make_input(&infos[made], &inputs[made])) {
        made++;
    }
    kiln_error err = KILN_ERROR_INIT;
    if (made == n_inputs && n_outputs <= MAX_IO &&
        kiln_onnx_session_run(session, inputs, n_inputs, outputs, n_outputs, &err) !=
            KILN_STATUS_OK &&
        err.message[0] == '\0') {
        abort(); /* a failure without a text */
    }
    if (kiln_sync(device, &err) != KILN_STATUS_OK && err.message[0] == '\0') {
        abort();
    }
    for (size_t i = 0; i < MAX_IO; i++) {
        kiln_release(outputs[i]);
    }
    for (size_t i = 0; i < made; i++) {
        kiln_release(inputs[i].tensor);
    }
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (context == NULL) {
        open_device();
    }
    kiln_onnx_model *model = NULL;
    kiln_onnx_session *session = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status st =
        kiln_onnx_model_open_memory(kiln_context_env(context), data, size, NULL, &model, &err);
    if (st == KILN_STATUS_OK) {
        st = kiln_onnx_session_create(model, device, &session, &err);
    }
    if (st == KILN_STATUS_OK) {
        run(model, session);
    } else if (err.message[0] == '\0') {
        abort();
    }
    kiln_onnx_session_destroy(session);
    kiln_onnx_model_close(model);
    return 0;
}
