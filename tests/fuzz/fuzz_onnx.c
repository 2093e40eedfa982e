// SPDX-License-Identifier: MIT OR Apache-2.0
// Fuzzes the ONNX importer whole: reads the bytes as a model, plans it, and runs it on zeros on the
// reference device when its inputs are small. An allocator that refuses large blocks keeps hostile
// sizes cheap; everything else must hold. The bytes are read as files of test cases too.
#include "fuzz_target.h"
#include "onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
static bool make_tensor(const kiln_onnx_value_info *info, kiln_tensor **out_tensor)
{
    int64_t dims[KILN_MAX_RANK];
    int64_t count = 1;
    for (uint32_t i = 0; i < info->rank; i++) {
        dims[i] = info->dims[i].length < 0 ? 1 : info->dims[i].length;
        if (dims[i] > MOST_ELEMS || (count *= dims[i]) > MOST_ELEMS) {
            return false;
        }
    }
    return kiln_tensor_create(device, info->dtype, info->rank, dims, NULL, out_tensor, NULL) ==
           KILN_STATUS_OK;
}

/* A tensor; a sequence of two; an optional that holds nothing. */
static bool make_value(const kiln_onnx_value_info *info, kiln_onnx_value *out_value)
{
    *out_value = (kiln_onnx_value){.kind = info->kind};
    if (info->kind == KILN_ONNX_KIND_OPTIONAL) {
        return true;
    }
    if (info->kind != KILN_ONNX_KIND_SEQUENCE) {
        out_value->kind = KILN_ONNX_KIND_TENSOR;
        return make_tensor(info, &out_value->tensor);
    }
    out_value->items = kiln_alloc_array(kiln_context_env(context), 2, sizeof(*out_value->items));
    if (out_value->items == NULL) {
        return false;
    }
    out_value->n_items = 2;
    for (size_t i = 0; i < 2; i++) {
        out_value->items[i].kind = KILN_ONNX_KIND_TENSOR;
        if (!make_tensor(info, &out_value->items[i].tensor)) {
            return false;
        }
    }
    return true;
}

static void run(const kiln_onnx_model *model, kiln_onnx_session *session)
{
    size_t n_inputs = 0;
    size_t n_outputs = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(model, &n_inputs);
    kiln_onnx_input inputs[MAX_IO];
    kiln_onnx_value values[MAX_IO] = {{.kind = KILN_ONNX_KIND_NONE}};
    kiln_onnx_value outputs[MAX_IO] = {{.kind = KILN_ONNX_KIND_NONE}};
    (void)kiln_onnx_model_outputs(model, &n_outputs);
    bool made = n_inputs <= MAX_IO && n_outputs <= MAX_IO;
    for (size_t i = 0; made && i < n_inputs; i++) {
        made = make_value(&infos[i], &values[i]);
        inputs[i] = (kiln_onnx_input){.name = infos[i].name, .value = &values[i]};
    }
    kiln_error err = KILN_ERROR_INIT;
    if (made &&
        kiln_onnx_session_run_values(session, inputs, n_inputs, outputs, n_outputs, &err) !=
            KILN_STATUS_OK &&
        err.message[0] == '\0') {
        abort(); /* a failure without a text */
    }
    if (kiln_sync(device, &err) != KILN_STATUS_OK && err.message[0] == '\0') {
        abort();
    }
    kiln_onnx_values_free(kiln_context_env(context), outputs, MAX_IO);
    kiln_onnx_values_free(kiln_context_env(context), values, MAX_IO);
}

/* The same bytes as a file of a test case: a tensor, a sequence, an optional. */
static void read_values(const uint8_t *data, size_t size)
{
    static char path[] = "/dev/shm/kiln_fuzz_onnx_XXXXXX"; /* in memory: one write for each input */
    static int file = -1;
    if (file < 0 && ((file = mkstemp(path)) < 0 || unlink(path) != 0)) {
        abort();
    }
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
    if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size) {
        abort();
    }
    static const kiln_onnx_kind kinds[] = {KILN_ONNX_KIND_TENSOR, KILN_ONNX_KIND_SEQUENCE,
                                           KILN_ONNX_KIND_OPTIONAL};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        kiln_onnx_tensor_file *opened = NULL;
        kiln_onnx_kind kind = KILN_ONNX_KIND_NONE;
        const kiln_onnx_tensor_info *items = NULL;
        size_t count = 0;
        kiln_error err = KILN_ERROR_INIT;
        kiln_status status = kiln_onnx_value_open(kiln_context_env(context), name, kinds[i],
                                                  &opened, &kind, &items, &count, &err);
        if (status != KILN_STATUS_OK && err.message[0] == '\0') {
            abort();
        }
        volatile uint8_t last = 0;
        for (size_t k = 0; status == KILN_STATUS_OK && k < count; k++) {
            last = items[k].bytes > 0 ? ((const uint8_t *)items[k].data)[items[k].bytes - 1] : last;
        }
        kiln_onnx_tensor_close(opened);
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
    kiln_status status =
        kiln_onnx_model_open_memory(kiln_context_env(context), data, size, NULL, &model, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(model, device, &session, &err);
    }
    if (status == KILN_STATUS_OK) {
        run(model, session);
    } else if (err.message[0] == '\0') {
        abort();
    }
    kiln_onnx_session_destroy(session);
    kiln_onnx_model_close(model);
    if (size < LARGEST_BLOCK) {
        read_values(data, size);
    }
    return 0;
}
