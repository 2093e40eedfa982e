// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of the digits model: what a run holds beside what liveness alone needs, for one image and
// for many, fused and not.
#include "harness.h"
#include "memory_bound.h"
#include "onnx.h"

#include <stdio.h>
#include <string.h>

typedef struct model {
    kiln_context *context;
    kiln_device *device;
    kiln_onnx_model *file;
    kiln_onnx_session *session;
    kiln_tensor *image;
    kiln_graph *graph;
    kiln_error err;
} model;

#define OK(m, call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, (m)->err.message)

static bool open_model(model *m, const char *address, bool fusion, int64_t images)
{
    const int64_t dims[] = {images, 1, 8, 8};
    kiln_tensor *output = NULL;
    *m = (model){.err = KILN_ERROR_INIT};
    if (!OK(m, kiln_context_create(NULL, &m->context, &m->err))) {
        return false;
    }
    if (kiln_device_open(m->context, address, &m->device, &m->err) != KILN_STATUS_OK) {
        kiln_test_skip("%s: %s", address, m->err.message);
        kiln_context_destroy(m->context);
        return false;
    }
    OK(m, kiln_device_set_fusion(m->device, fusion, &m->err));
    kiln_onnx_input input = {.name = "image"};
    bool ok =
        OK(m, kiln_onnx_model_open(kiln_context_env(m->context),
                                   KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx", &m->file,
                                   &m->err)) &&
        OK(m, kiln_onnx_session_create(m->file, m->device, &m->session, &m->err)) &&
        OK(m, kiln_tensor_create(m->device, KILN_DTYPE_F32, 4, dims, NULL, &m->image, &m->err)) &&
        OK(m, kiln_graph_begin(m->device, &m->image, 1, &m->err));
    input.tensor = m->image;
    ok = ok && OK(m, kiln_onnx_session_run(m->session, &input, 1, &output, 1, &m->err)) &&
         OK(m, kiln_graph_end(m->device, &output, 1, &m->graph, &m->err));
    kiln_release(output);
    return ok;
}

static void close_model(model *m)
{
    kiln_graph_destroy(m->graph);
    kiln_onnx_session_destroy(m->session);
    kiln_onnx_model_close(m->file);
    kiln_release(m->image);
    kiln_device_release(m->device);
    kiln_context_destroy(m->context);
}

static void digits_on(const char *address, bool fusion, int64_t images)
{
    model m;
    if (!open_model(&m, address, fusion, images)) {
        return;
    }
    uint64_t peak = memory_of_run(m.device, m.graph, &m.image, 1, 1, 2);
    uint64_t bound = memory_bound(m.graph);
    printf("%s %s, %lld images: peak %llu, bound %llu, ratio %.3f\n", address,
           fusion ? "fused" : "unfused", (long long)images, (unsigned long long)peak,
           (unsigned long long)bound, (double)peak / (double)bound);
    if (!KILN_CHECK(bound > 0 && peak <= bound + bound / 10)) {
        memory_print(m.graph);
    }
    close_model(&m);
}

static void test_digits_peak(void)
{
    static const int64_t images[] = {1, 64};
    for (int i = 0; i < 2; i++) {
        digits_on("null", true, images[i]);
        digits_on("null", false, images[i]);
        digits_on("opencl:0", true, images[i]);
        digits_on("opencl:0", false, images[i]);
    }
}

KILN_TEST_MAIN("unit/onnx/memory", KILN_TEST(test_digits_peak))
