// SPDX-License-Identifier: MIT OR Apache-2.0
// Captured graphs: runs on other inputs and other shapes, constants, misuse, and nothing left
// behind.

#include "runtime_fixture.h"

/// (x * weight + 2), captured.
static kiln_graph *capture(fixture *f, kiln_tensor *x, kiln_tensor *weight)
{
    kiln_tensor *t = NULL;
    kiln_tensor *u = NULL;
    kiln_graph *graph = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, &x, 1, &f->err));
    FIXTURE_OK(f, kiln_mul(x, weight, &t, &f->err));
    FIXTURE_OK(f, kiln_add_scalar(t, kiln_f64(2), &u, &f->err));
    kiln_release(t);
    FIXTURE_OK(f, kiln_graph_end(f->device, &u, 1, &graph, &f->err));
    kiln_release(u);
    return graph;
}

static void check_run(fixture *f, kiln_graph *graph, const int64_t *dims, const float *data,
                      const float *expected, size_t count)
{
    float back[16] = {0};
    kiln_tensor *out = NULL;
    kiln_tensor *x = fixture_f32(f, 2, dims, data);
    FIXTURE_OK(f, kiln_graph_run(graph, &x, 1, &out, 1, &f->err));
    FIXTURE_OK(f, kiln_read(out, back, count * sizeof(float), &f->err));
    KILN_CHECK_MEM(back, expected, count * sizeof(float));
    kiln_release(x);
    kiln_release(out);
}

static void run_everywhere(const char *address)
{
    fixture f;
    const int64_t dims[] = {2, 2};
    const int64_t row[] = {1, 2};
    const int64_t wide[] = {2, 3};
    const float ones[] = {1, 1, 1, 1, 1, 1};
    const float weights[] = {1, 2};
    const float first[] = {3, 4, 3, 4};
    const float second[] = {5, 6};
    const float other[] = {3, 2, -3, 0};
    if (!fixture_open(&f, address)) {
        return;
    }
    const int64_t weight_dims[] = {2};
    kiln_tensor *weight = fixture_f32(&f, 1, weight_dims, weights);
    kiln_tensor *x = fixture_f32(&f, 2, dims, ones);
    kiln_graph *graph = capture(&f, x, weight);
    kiln_release(weight); // the graph keeps it
    kiln_release(x);
    for (int round = 0; round < 3; round++) {
        check_run(&f, graph, dims, ones, first, 4);
        check_run(&f, graph, dims, other, (const float[]){5, 6, -1, 2}, 4);
        check_run(&f, graph, row, other, second, 2);
    }
    kiln_tensor *unfit = fixture_f32(&f, 2, wide, ones);
    kiln_tensor *out = NULL;
    KILN_CHECK_INT(kiln_graph_run(graph, &unfit, 1, &out, 1, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "other shapes");
    KILN_CHECK(out == NULL);
    kiln_release(unfit);
    check_run(&f, graph, dims, ones, first, 4);
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_graph_info_get(graph, &info);
    KILN_CHECK_INT(info.ops, 2);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

static void test_reference(void)
{
    run_everywhere("reference");
}

static void test_opencl(void)
{
    run_everywhere("opencl:0");
}

static void test_many_shapes(void)
{
    fixture f;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    const int64_t dims[] = {1, 1};
    const float value = 3;
    kiln_tensor *weight = fixture_f32(&f, 0, NULL, &value);
    kiln_tensor *x = fixture_f32(&f, 2, dims, &value);
    kiln_graph *graph = capture(&f, x, weight);
    kiln_release(weight);
    kiln_release(x);
    for (int64_t n = 1; n <= 40; n++) { // more than are kept
        const int64_t shape[] = {n, 1};
        float back[40];
        kiln_tensor *out = NULL;
        kiln_tensor *input = fixture_f32(&f, 2, shape, NULL);
        FIXTURE_OK(&f, kiln_graph_run(graph, &input, 1, &out, 1, &f.err));
        FIXTURE_OK(&f, kiln_read(out, back, (size_t)n * sizeof(float), &f.err));
        KILN_CHECK(back[n - 1] == 2.0f);
        kiln_release(input);
        kiln_release(out);
    }
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

static void test_misuse(void)
{
    fixture f;
    kiln_graph *graph = NULL;
    kiln_tensor *t = NULL;
    float back = 0;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 0, NULL, &back);
    KILN_CHECK_INT(kiln_graph_end(f.device, &x, 1, &graph, &f.err),
                   KILN_STATUS_FAILED_PRECONDITION);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    KILN_CHECK_INT(kiln_graph_begin(f.device, &x, 1, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    FIXTURE_OK(&f, kiln_exp(x, &t, &f.err));
    KILN_CHECK_INT(kiln_read(t, &back, sizeof(back), &f.err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_INT(kiln_flush(f.device, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    kiln_graph_cancel(f.device);
    kiln_graph_cancel(f.device);
    kiln_tensor *u = NULL;
    KILN_CHECK(kiln_exp(t, &u, &f.err) != KILN_STATUS_OK); // its capture is gone
    kiln_release(t);
    kiln_release(x);
    fixture_close(&f);
}

static void test_output_is_input(void)
{
    fixture f;
    const float value = 7;
    float back = 0;
    kiln_graph *graph = NULL;
    kiln_tensor *out = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 0, NULL, &value);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    FIXTURE_OK(&f, kiln_graph_end(f.device, &x, 1, &graph, &f.err));
    FIXTURE_OK(&f, kiln_graph_run(graph, &x, 1, &out, 1, &f.err));
    FIXTURE_OK(&f, kiln_read(out, &back, sizeof(back), &f.err));
    KILN_CHECK(back == 7.0f);
    kiln_release(out);
    kiln_release(x);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

static void test_passed_on_input_in_another_shape(void)
{
    fixture f;
    const int64_t two[] = {2};
    const int64_t four[] = {4};
    const float small[] = {1, 2};
    const float large[] = {10, 20, 30, 40};
    if (!fixture_open(&f, "reference")) {
        return;
    }
    for (int with_operation = 0; with_operation < 2; with_operation++) {
        float back[4] = {0};
        kiln_graph *graph = NULL;
        kiln_tensor *t = NULL;
        kiln_tensor *out[2] = {NULL};
        kiln_tensor *x = fixture_f32(&f, 1, two, small);
        kiln_tensor *y = fixture_f32(&f, 1, four, large);
        FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
        if (with_operation) {
            FIXTURE_OK(&f, kiln_neg(x, &t, &f.err));
        }
        kiln_tensor *const outputs[] = {x, t};
        FIXTURE_OK(&f, kiln_graph_end(f.device, outputs, with_operation ? 2 : 1, &graph, &f.err));
        FIXTURE_OK(&f, kiln_graph_run(graph, &y, 1, out, with_operation ? 2 : 1, &f.err));
        KILN_CHECK_INT(kiln_tensor_count(out[0]), 4);
        FIXTURE_OK(&f, kiln_read(out[0], back, sizeof(back), &f.err));
        KILN_CHECK_MEM(back, large, sizeof(large));
        kiln_graph_destroy(graph);
        kiln_release(t);
        kiln_release(x);
        kiln_release(y);
        kiln_release(out[0]);
        kiln_release(out[1]);
    }
    fixture_close(&f);
}

/// A constant of a graph that was queued elsewhere too, on a stream that has ended by its release.
static void test_constant_outlives_its_stream(void)
{
    fixture f;
    const int64_t dims[] = {2, 2};
    const int64_t unfit[] = {2, 3};
    kiln_tensor *t = NULL;
    kiln_tensor *out = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *weight = fixture_f32(&f, 2, dims, NULL);
    kiln_tensor *x = fixture_f32(&f, 2, dims, NULL);
    kiln_tensor *wrong = fixture_f32(&f, 2, unfit, NULL);
    kiln_graph *graph = capture(&f, x, weight);
    FIXTURE_OK(&f, kiln_exp(weight, &t, &f.err));
    kiln_release(t);
    KILN_CHECK(kiln_graph_run(graph, &wrong, 1, &out, 1, &f.err) != KILN_STATUS_OK);
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    kiln_release(weight);
    char *text = NULL;
    FIXTURE_OK(&f, kiln_graph_explain(graph, 0, &text, &f.err)); // by the engine that planned it
    KILN_CHECK_CONTAINS(text, "operation");
    kiln_text_free(f.context, text);
    FIXTURE_OK(&f, kiln_graph_run(graph, &x, 1, &out, 1, &f.err));
    kiln_release(out);
    kiln_release(x);
    kiln_release(wrong);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

static void test_inputs_are_given_once(void)
{
    fixture f;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 0, NULL, NULL);
    kiln_tensor *const twice[] = {x, x};
    KILN_CHECK_INT(kiln_graph_begin(f.device, twice, 2, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "same tensor");
    kiln_release(x);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/graph", KILN_TEST(test_reference), KILN_TEST(test_opencl),
               KILN_TEST(test_many_shapes), KILN_TEST(test_misuse), KILN_TEST(test_output_is_input),
               KILN_TEST(test_passed_on_input_in_another_shape),
               KILN_TEST(test_constant_outlives_its_stream), KILN_TEST(test_inputs_are_given_once))
