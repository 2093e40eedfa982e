// SPDX-License-Identifier: MIT OR Apache-2.0
// What tests of sessions share: small graphs, and what becomes of them.
#include "session_fixture.h"

#include <stdlib.h>
#include <string.h>

bool open_fixture(fixture *f)
{
    kiln_error err = KILN_ERROR_INIT;
    *f = (fixture){0};
    return KILN_CHECK(kiln_context_create(NULL, &f->context, &err) == KILN_STATUS_OK) &&
           KILN_CHECK(kiln_device_open(f->context, "reference:0", &f->device, &err) ==
                      KILN_STATUS_OK);
}

void close_fixture(fixture *f)
{
    kiln_device_release(f->device);
    kiln_context_destroy(f->context);
}

uint64_t live_tensors(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.tensors_live;
}

uint64_t recorded(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.ops_recorded;
}

kiln_status load(const fixture *f, const pw *bytes, loaded *out, kiln_error *err)
{
    *out = (loaded){0};
    *err = (kiln_error)KILN_ERROR_INIT;
    kiln_status status = kiln_onnx_model_open_memory(kiln_context_env(f->context), bytes->bytes,
                                                     bytes->length, NULL, &out->model, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(out->model, f->device, &out->session, err);
    }
    return status;
}

void unload(loaded *l)
{
    kiln_onnx_session_destroy(l->session);
    kiln_onnx_model_close(l->model);
}

pw small_graph(void)
{
    const int64_t two[] = {2};
    pw graph = {0};
    pw x = pw_value_info("x", 1, two, 1);
    pw y = pw_value_info("y", 1, two, 1);
    pw z = {0};
    pw_text(&z, 1, "z");
    pw_message(&graph, 11, &x);
    pw_message(&graph, 11, &y);
    pw_message(&graph, 12, &z);
    return graph;
}

void add_node(pw *graph, const char *op, const char *const *inputs, const char *output)
{
    const char *const outputs[] = {output, NULL};
    pw node = pw_node(op, inputs, outputs);
    pw_message(graph, 1, &node);
}

kiln_status run_small(const fixture *f, const loaded *l, float *out, size_t count, kiln_error *err)
{
    static const float x[] = {1, -2};
    static const float y[] = {3, 4};
    const int64_t two[] = {2};
    kiln_onnx_input inputs[] = {{.name = "x"}, {.name = "y"}};
    kiln_tensor *z = NULL;
    kiln_status status =
        kiln_tensor_create(f->device, KILN_DTYPE_F32, 1, two, x, &inputs[0].tensor, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_tensor_create(f->device, KILN_DTYPE_F32, 1, two, y, &inputs[1].tensor, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run(l->session, inputs, 2, &z, 1, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(z, out, count * sizeof(*out), err);
    }
    kiln_release(z);
    kiln_release(inputs[0].tensor);
    kiln_release(inputs[1].tensor);
    return status;
}

void expect_small(pw *graph, int64_t opset, float first, float second)
{
    fixture f;
    loaded l;
    kiln_error err;
    float z[2] = {0};
    pw bytes = pw_model(graph, opset);
    if (open_fixture(&f)) {
        kiln_status status = load(&f, &bytes, &l, &err);
        if (status == KILN_STATUS_OK) {
            status = run_small(&f, &l, z, 2, &err);
        }
        KILN_CHECK_STR(status == KILN_STATUS_OK ? "" : err.message, "");
        KILN_CHECK_NEAR((double)z[0], (double)first, 1e-6);
        KILN_CHECK_NEAR((double)z[1], (double)second, 1e-6);
        unload(&l);
        KILN_CHECK_INT(live_tensors(&f), 0);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

void expect_error_at(pw *graph, int64_t opset, kiln_status expected, const char *text)
{
    fixture f;
    loaded l;
    kiln_error err;
    float z[2];
    pw bytes = pw_model(graph, opset);
    if (open_fixture(&f)) {
        kiln_status status = load(&f, &bytes, &l, &err);
        if (status == KILN_STATUS_OK) {
            status = run_small(&f, &l, z, 2, &err);
        }
        KILN_CHECK_INT(status, expected);
        KILN_CHECK_CONTAINS(err.message, text);
        unload(&l);
        KILN_CHECK_INT(live_tensors(&f), 0);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

void expect_error(pw *graph, kiln_status expected, const char *text)
{
    expect_error_at(graph, 13, expected, text);
}
