// SPDX-License-Identifier: MIT OR Apache-2.0
// Captured graphs: runs on other inputs and other shapes, constants, misuse, and nothing left
// behind.

#include <string.h>

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

static uint64_t bytes_used(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    kiln_device_stats_get(f->device, &stats);
    return stats.backend.bytes_used;
}

/// A graph holds no memory of the tensors that it was captured with, also where it passes one on:
/// when the caller lets go of them, it is free.
static void test_inputs_are_not_kept(void)
{
    enum { COUNT = 4096 };
    static const float values[COUNT] = {1, 2, 3};
    const int64_t dims[] = {COUNT};
    fixture f;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    float back[COUNT] = {0};
    kiln_tensor *results[2] = {NULL}, *outputs[2] = {NULL};
    kiln_graph *graph = NULL;
    uint64_t before = bytes_used(&f);
    kiln_tensor *x = fixture_f32(&f, 1, dims, values);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    FIXTURE_OK(&f, kiln_mul(x, x, &results[0], &f.err));
    results[1] = kiln_retain(x);
    FIXTURE_OK(&f, kiln_graph_end(f.device, results, 2, &graph, &f.err));
    kiln_release(results[0]);
    kiln_release(results[1]);
    KILN_CHECK(bytes_used(&f) >= before + sizeof(values));
    kiln_release(x);
    KILN_CHECK_INT(bytes_used(&f), before);
    x = fixture_f32(&f, 1, dims, values);
    FIXTURE_OK(&f, kiln_graph_run(graph, &x, 1, outputs, 2, &f.err));
    kiln_release(x);
    FIXTURE_OK(&f, kiln_read(outputs[0], back, sizeof(back), &f.err));
    KILN_CHECK(back[1] == 4 && back[2] == 9);
    FIXTURE_OK(&f, kiln_read(outputs[1], back, sizeof(back), &f.err));
    KILN_CHECK_MEM(back, values, sizeof(back));
    kiln_release(outputs[0]);
    kiln_release(outputs[1]);
    kiln_graph_destroy(graph);
    fixture_close(&f);
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

/// Within a capture of `input`. Each run has another value there, so what follows from this one
/// would be wrong in the others.
static void check_inputs_have_no_value(fixture *f, kiln_tensor *input)
{
    float back = 0;
    const void *data = NULL;
    kiln_mapping *mapping = NULL;
    kiln_request *request = NULL;
    KILN_CHECK_INT(kiln_read(input, &back, sizeof(back), &f->err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f->err.message, "input 0 of the capture");
    KILN_CHECK_CONTAINS(f->err.message, "before the capture");
    KILN_CHECK_INT(kiln_read_async(input, &back, sizeof(back), &request, &f->err),
                   KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_INT(kiln_tensor_map(input, &data, &mapping, &f->err),
                   KILN_STATUS_FAILED_PRECONDITION);
    kiln_tensor *constant = fixture_f32(f, 0, NULL, &back);
    FIXTURE_OK(f, kiln_read(constant, &back, sizeof(back), &f->err));
    kiln_release(constant);
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
    check_inputs_have_no_value(&f, x);
    kiln_graph_cancel(f.device);
    kiln_graph_cancel(f.device);
    FIXTURE_OK(&f, kiln_read(x, &back, sizeof(back), &f.err));
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

// ---- what is carried from run to run ----

enum { LENGTH = 4 };

/// x becomes x / 2 + y; `out` (or not) is x itself.
static kiln_graph *capture_carried(fixture *f, kiln_tensor *x, kiln_tensor *y, bool pass_on)
{
    kiln_tensor *half = NULL, *next = NULL;
    kiln_tensor *const inputs[] = {x, y};
    kiln_graph *graph = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, inputs, 2, &f->err));
    FIXTURE_OK(f, kiln_mul_scalar(x, kiln_f64(0.5), &half, &f->err));
    FIXTURE_OK(f, kiln_add(half, y, &next, &f->err));
    FIXTURE_OK(f, kiln_graph_carry(f->device, x, next, &f->err));
    FIXTURE_OK(f, kiln_graph_end(f->device, &x, pass_on ? 1 : 0, &graph, &f->err));
    kiln_release(half);
    kiln_release(next);
    return graph;
}

static void check_values(fixture *f, kiln_tensor *tensor, const float *expected)
{
    float back[LENGTH] = {0};
    FIXTURE_OK(f, kiln_read(tensor, back, sizeof(back), &f->err));
    KILN_CHECK_MEM(back, expected, sizeof(back));
}

static uint64_t bytes_live(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.bytes_live - stats.bytes_arena;
}

static const int64_t one_axis[] = {LENGTH};
static const float start[] = {8, -4, 0, 1};
static const float added[] = {1, 2, 3, -1};

static void test_carried_in_place(void)
{
    const char *address = kiln_test_param();
    fixture f;
    float expected[LENGTH];
    if (!fixture_open(&f, address)) {
        return;
    }
    memcpy(expected, start, sizeof(expected));
    kiln_tensor *tensors[] = {fixture_f32(&f, 1, one_axis, start),
                              fixture_f32(&f, 1, one_axis, added)};
    kiln_tensor *const same[] = {tensors[0], tensors[1]};
    kiln_graph *graph = capture_carried(&f, tensors[0], tensors[1], false);
    uint64_t before = bytes_live(&f);
    for (int step = 0; step < 5; step++) {
        FIXTURE_OK(&f, kiln_graph_advance(graph, tensors, 2, NULL, 0, &f.err));
        KILN_CHECK(tensors[0] == same[0] && tensors[1] == same[1]);
        KILN_CHECK_INT(bytes_live(&f), before);
        for (int i = 0; i < LENGTH; i++) {
            expected[i] = expected[i] / 2 + added[i];
        }
        check_values(&f, tensors[0], expected);
        check_values(&f, tensors[1], added);
    }
    // What a step of eager operations goes on with is the new value.
    kiln_tensor *twice = NULL;
    FIXTURE_OK(&f, kiln_add(tensors[0], tensors[0], &twice, &f.err));
    FIXTURE_OK(&f, kiln_graph_advance(graph, tensors, 2, NULL, 0, &f.err));
    for (int i = 0; i < LENGTH; i++) {
        expected[i] *= 2; // queued before: not of the value that came after
    }
    check_values(&f, twice, expected);
    kiln_release(twice);
    kiln_release(tensors[0]);
    kiln_release(tensors[1]);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/// Another hold, a view, another input and an output keep the value that they have.
static void test_carried_beside_others(void)
{
    const char *address = kiln_test_param();
    fixture f;
    const float once[] = {5, 0, 3, -0.5f}, own[] = {12, -6, 0, 1.5f};
    const int64_t square[] = {2, 2};
    if (!fixture_open(&f, address)) {
        return;
    }
    kiln_tensor *y = fixture_f32(&f, 1, one_axis, added);
    for (int captured = 0; captured < 2; captured++) {
        kiln_tensor *x = fixture_f32(&f, 1, one_axis, start);
        kiln_tensor *like = captured ? kiln_retain(x) : fixture_f32(&f, 1, one_axis, NULL);
        kiln_graph *graph = capture_carried(&f, like, y, true);
        kiln_release(like);
        kiln_tensor *out = NULL, *view = NULL;
        FIXTURE_OK(&f, kiln_graph_run(graph, (kiln_tensor *[]){x, y}, 2, &out, 1, &f.err));
        check_values(&f, x, start); // a plain run replaces nothing
        kiln_release(out);
        kiln_tensor *tensors[] = {kiln_retain(x), y};
        FIXTURE_OK(&f, kiln_graph_advance(graph, tensors, 2, &out, 1, &f.err));
        KILN_CHECK(tensors[0] != x);
        check_values(&f, x, start);
        check_values(&f, out, start);
        check_values(&f, tensors[0], once);
        kiln_release(out);
        kiln_release(tensors[0]);
        kiln_graph_destroy(graph);
        graph = capture_carried(&f, x, y, false);
        FIXTURE_OK(&f, kiln_reshape(x, square, 2, &view, &f.err));
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        tensors[0] = x;
        FIXTURE_OK(&f, kiln_graph_advance(graph, tensors, 2, NULL, 0, &f.err));
        check_values(&f, view, start);
        check_values(&f, tensors[0], once);
        kiln_release(view);
        kiln_release(tensors[0]);
        kiln_tensor *twins[] = {fixture_f32(&f, 1, one_axis, start), NULL};
        twins[1] = kiln_retain(twins[0]);
        FIXTURE_OK(&f, kiln_graph_advance(graph, twins, 2, NULL, 0, &f.err));
        check_values(&f, twins[0], own);
        check_values(&f, twins[1], start);
        kiln_release(twins[0]);
        kiln_release(twins[1]);
        kiln_graph_destroy(graph);
    }
    kiln_release(y);
    fixture_close(&f);
}

static void test_carried_in_other_shapes(void)
{
    fixture f;
    const int64_t two[] = {2};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, two, start), *y = fixture_f32(&f, 1, two, added);
    kiln_graph *graph = capture_carried(&f, x, y, false);
    kiln_release(x);
    kiln_release(y);
    kiln_tensor *tensors[] = {fixture_f32(&f, 1, one_axis, start),
                              fixture_f32(&f, 1, one_axis, added)};
    for (int step = 0; step < 2; step++) {
        const kiln_tensor *same = tensors[0];
        FIXTURE_OK(&f, kiln_graph_advance(graph, tensors, 2, NULL, 0, &f.err));
        KILN_CHECK(tensors[0] == same);
    }
    check_values(&f, tensors[0], (const float[]){3.5f, 2, 4.5f, -1.25f});
    kiln_release(tensors[0]);
    kiln_release(tensors[1]);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/// A thread captures on two devices, whose streams are numbered alike.
static void carry_from_another_device(fixture *f, kiln_tensor *x)
{
    fixture g;
    if (!fixture_open(&g, "reference")) {
        return;
    }
    kiln_tensor *there = fixture_f32(&g, 1, one_axis, start), *next = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, &x, 1, &f->err));
    FIXTURE_OK(&g, kiln_graph_begin(g.device, &there, 1, &g.err));
    FIXTURE_OK(&g, kiln_neg(there, &next, &g.err));
    KILN_CHECK_INT(kiln_graph_carry(f->device, x, next, &f->err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f->err.message, "not captured");
    kiln_graph_cancel(g.device);
    kiln_graph_cancel(f->device);
    kiln_release(next);
    kiln_release(there);
    fixture_close(&g);
}

static void test_carry_misuse(void)
{
    fixture f;
    const int64_t other[] = {LENGTH, 1};
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, one_axis, start), *y = fixture_f32(&f, 1, one_axis, added);
    kiln_tensor *next = NULL, *shaped = NULL;
    KILN_CHECK_INT(kiln_graph_carry(f.device, x, y, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_INT(kiln_graph_carry(f.device, x, NULL, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    FIXTURE_OK(&f, kiln_neg(x, &next, &f.err));
    FIXTURE_OK(&f, kiln_reshape(next, other, 2, &shaped, &f.err));
    KILN_CHECK_INT(kiln_graph_carry(f.device, y, next, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_graph_carry(f.device, x, y, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_graph_carry(f.device, x, shaped, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    FIXTURE_OK(&f, kiln_graph_carry(f.device, x, next, &f.err));
    KILN_CHECK_INT(kiln_graph_carry(f.device, x, next, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "already");
    kiln_graph_cancel(f.device);
    carry_from_another_device(&f, x);
    kiln_release(next);
    kiln_release(shaped);
    kiln_release(x);
    kiln_release(y);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/graph", KILN_TEST(test_reference), KILN_TEST(test_opencl),
               KILN_TEST(test_inputs_are_not_kept), KILN_TEST(test_many_shapes),
               KILN_TEST(test_misuse), KILN_TEST(test_output_is_input),
               KILN_TEST(test_passed_on_input_in_another_shape),
               KILN_TEST(test_constant_outlives_its_stream), KILN_TEST(test_inputs_are_given_once),
               KILN_TEST_PARAM(test_carried_in_place, "in_place_reference", "reference"),
               KILN_TEST_PARAM(test_carried_in_place, "in_place_opencl", "opencl:0"),
               KILN_TEST_PARAM(test_carried_beside_others, "beside_others_reference", "reference"),
               KILN_TEST_PARAM(test_carried_beside_others, "beside_others_opencl", "opencl:0"),
               KILN_TEST(test_carried_in_other_shapes), KILN_TEST(test_carry_misuse))
