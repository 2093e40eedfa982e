// SPDX-License-Identifier: MIT OR Apache-2.0
// Bundles by the C API: made of a captured graph, run beside other work, misused.

#include <string.h>

#include "runtime_fixture.h"

enum { ROWS = 3, COLUMNS = 4, COUNT = ROWS * COLUMNS };

static const int64_t dims[] = {ROWS, COLUMNS};

static const char *folder;

/// softmax(x * w + 2) over the columns: a fused block, and w is a constant.
static kiln_graph *capture_softmax(fixture *f, kiln_tensor *x)
{
    const float weights[COLUMNS] = {1, 2, 3, 4};
    kiln_tensor *w = fixture_f32(f, 1, (const int64_t[]){COLUMNS}, weights);
    kiln_tensor *t = NULL;
    kiln_tensor *u = NULL;
    kiln_tensor *y = NULL;
    kiln_graph *graph = NULL;
    FIXTURE_OK(f, kiln_graph_begin(f->device, &x, 1, &f->err));
    FIXTURE_OK(f, kiln_mul(x, w, &t, &f->err));
    FIXTURE_OK(f, kiln_add_scalar(t, kiln_f64(2), &u, &f->err));
    FIXTURE_OK(f, kiln_softmax(u, -1, &y, &f->err));
    FIXTURE_OK(f, kiln_graph_end(f->device, &y, 1, &graph, &f->err));
    kiln_release(t);
    kiln_release(u);
    kiln_release(y);
    kiln_release(w);
    return graph;
}

static void fill_numbers(float *out, float step)
{
    for (int i = 0; i < COUNT; i++) {
        out[i] = (float)(i % 5) * step - 1;
    }
}

static kiln_bundle_work work_of(const fixture *f, kiln_graph *graph, kiln_tensor *const *inputs,
                                kiln_tensor *const *others)
{
    static const char *const in[] = {"x"};
    static const char *const out[] = {"y"};
    return (kiln_bundle_work){.struct_size = sizeof(kiln_bundle_work),
                              .n_inputs = 1,
                              .n_outputs = 1,
                              .graph = graph,
                              .device = f->device,
                              .inputs = inputs,
                              .others = others,
                              .input_names = in,
                              .output_names = out};
}

/// Writes the bundle, and what the graph gives for the first input.
static bool make_bundle(float expected[COUNT])
{
    fixture f;
    float numbers[2][COUNT];
    if (!fixture_open_with(&f, "opencl:0", "compiler", "record")) {
        return false;
    }
    fill_numbers(numbers[0], 0.5f);
    fill_numbers(numbers[1], 0.25f);
    kiln_tensor *inputs[2] = {fixture_f32(&f, 2, dims, numbers[0]),
                              fixture_f32(&f, 2, dims, numbers[1])};
    kiln_graph *graph = capture_softmax(&f, inputs[0]);
    const kiln_bundle_work work = work_of(&f, graph, &inputs[0], &inputs[1]);
    kiln_bundle_maker *maker = NULL;
    kiln_tensor *y = NULL;
    FIXTURE_OK(&f, kiln_bundle_maker_create(kiln_context_env(f.context), &maker, &f.err));
    FIXTURE_OK(&f, kiln_bundle_maker_add(maker, &work, &f.err));
    FIXTURE_OK(&f, kiln_bundle_maker_write(maker, folder, &f.err));
    KILN_CHECK_INT(kiln_bundle_maker_write(maker, folder, &f.err), KILN_STATUS_ALREADY_EXISTS);
    KILN_CHECK_INT(kiln_bundle_maker_merge(maker, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f.err.message, "maker_merge was called after kiln_bundle_maker_write");
    kiln_bundle_maker_destroy(maker);
    FIXTURE_OK(&f, kiln_graph_run(graph, &inputs[0], 1, &y, 1, &f.err));
    FIXTURE_OK(&f, kiln_read(y, expected, COUNT * sizeof(float), &f.err));
    kiln_release(y);
    kiln_release(inputs[0]);
    kiln_release(inputs[1]);
    kiln_graph_destroy(graph);
    fixture_close(&f);
    return true;
}

static void check_bits(fixture *f, kiln_tensor *y, const float *expected)
{
    float back[COUNT] = {0};
    FIXTURE_OK(f, kiln_read(y, back, sizeof(back), &f->err));
    KILN_CHECK_MEM(back, expected, sizeof(back));
}

/// An input that is a result still queued, one that lies turned, one that ends in the middle of its
/// buffer: each has the same elements.
static void run_on_odd_inputs(fixture *f, kiln_bundle *bundle, const float *numbers,
                              const float *expected)
{
    float turned[COUNT];
    float longer[2 * COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        turned[i % COLUMNS * ROWS + i / COLUMNS] = numbers[i];
        longer[COUNT + i] = numbers[i];
    }
    kiln_tensor *plain = fixture_f32(f, 2, dims, numbers);
    kiln_tensor *from[2] = {fixture_f32(f, 2, (const int64_t[]){COLUMNS, ROWS}, turned),
                            fixture_f32(f, 2, (const int64_t[]){2 * ROWS, COLUMNS}, longer)};
    kiln_tensor *inputs[3] = {NULL};
    FIXTURE_OK(f, kiln_mul_scalar(plain, kiln_f64(1), &inputs[0], &f->err));
    FIXTURE_OK(f, kiln_permute(from[0], (const int64_t[]){1, 0}, 2, &inputs[1], &f->err));
    FIXTURE_OK(f, kiln_slice(from[1], (const int64_t[]){ROWS, 0}, 2,
                             (const int64_t[]){2 * ROWS, COLUMNS}, 2, (const int64_t[]){1, 1}, 2,
                             &inputs[2], &f->err));
    for (int i = 0; i < 3; i++) {
        kiln_tensor *y = NULL;
        FIXTURE_OK(f, kiln_bundle_run(bundle, &inputs[i], 1, &y, 1, &f->err));
        kiln_release(inputs[i]); // the queue has it
        check_bits(f, y, expected);
        kiln_release(y);
    }
    kiln_release(plain);
    kiln_release(from[0]);
    kiln_release(from[1]);
}

/// Results stay what they were when the bundle runs again, is closed, and other work goes on.
static void run_beside_others(fixture *f, const float *numbers, const float *expected)
{
    kiln_bundle *bundles[2] = {NULL};
    kiln_tensor *x = fixture_f32(f, 2, dims, numbers);
    kiln_tensor *zeros = NULL;
    kiln_tensor *kept[8] = {NULL};
    kiln_tensor *sum = NULL;
    FIXTURE_OK(f, kiln_mul_scalar(x, kiln_f64(0), &zeros, &f->err));
    for (int i = 0; i < 2; i++) {
        FIXTURE_OK(f, kiln_bundle_open(f->device, folder, NULL, &bundles[i], &f->err));
    }
    for (int i = 0; i < 8; i++) {
        kiln_tensor *const input = i % 2 == 0 ? x : zeros;
        FIXTURE_OK(f, kiln_bundle_run(bundles[i / 4], &input, 1, &kept[i], 1, &f->err));
    }
    FIXTURE_OK(f, kiln_sub(kept[0], kept[2], &sum, &f->err));
    kiln_bundle_close(bundles[0]);
    kiln_bundle_close(bundles[1]);
    for (int i = 0; i < 8; i += 2) {
        check_bits(f, kept[i], expected);
    }
    check_bits(f, sum, (const float[COUNT]){0});
    for (int i = 0; i < 8; i++) {
        kiln_release(kept[i]);
    }
    kiln_release(sum);
    kiln_release(zeros);
    kiln_release(x);
}

static void check_misuse(fixture *f, kiln_bundle *bundle)
{
    kiln_tensor *out[2] = {NULL};
    kiln_tensor *x = fixture_f32(f, 2, (const int64_t[]){COLUMNS, ROWS}, (const float[COUNT]){0});
    KILN_CHECK_INT(kiln_bundle_run(bundle, &x, 1, out, 1, &f->err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f->err.message, "input x is f32 [4,3]; the bundle was made for f32 [3,4]");
    KILN_CHECK_INT(kiln_bundle_run(bundle, &x, 1, out, 2, &f->err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f->err.message, "1 inputs and 1 outputs, not 1 and 2");
    KILN_CHECK_INT(kiln_bundle_run(NULL, &x, 1, out, 1, &f->err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_bundle_run(bundle, NULL, 1, out, 1, &f->err), KILN_STATUS_INVALID_ARGUMENT);
    kiln_tensor *none = NULL;
    KILN_CHECK_INT(kiln_bundle_run(bundle, &none, 1, out, 1, &f->err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(out[0] == NULL && out[1] == NULL);
    kiln_release(x);
    kiln_bundle *other = NULL;
    KILN_CHECK_INT(kiln_bundle_open(f->device, "/nowhere", NULL, &other, &f->err),
                   KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(kiln_bundle_open(NULL, folder, NULL, &other, &f->err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(other == NULL);
    kiln_bundle_close(NULL);
}

static bool bundle_runs(void)
{
    fixture f;
    float expected[COUNT];
    float numbers[COUNT];
    kiln_bundle *bundle = NULL;
    kiln_bundle_info info = {.struct_size = sizeof(info)};
    fill_numbers(numbers, 0.5f);
    if (!make_bundle(expected) || !fixture_open(&f, "opencl:0")) {
        return false;
    }
    FIXTURE_OK(&f, kiln_bundle_open(f.device, folder, NULL, &bundle, &f.err));
    kiln_bundle_info_get(bundle, &info);
    KILN_CHECK_INT(info.n_shapes, 1);
    KILN_CHECK_INT(info.compiled, info.n_programs);
    KILN_CHECK(strcmp(kiln_bundle_input(bundle, 0, 0)->name, "x") == 0);
    KILN_CHECK(kiln_bundle_input(bundle, 0, 1) == NULL && kiln_bundle_output(bundle, 1, 0) == NULL);
    run_on_odd_inputs(&f, bundle, numbers, expected);
    check_misuse(&f, bundle);
    FIXTURE_OK(&f, kiln_bundle_keep(bundle, &f.err));
    kiln_bundle_close(bundle);
    kiln_bundle_options options = KILN_BUNDLE_OPTIONS_INIT;
    options.no_compile = 1;
    FIXTURE_OK(&f, kiln_bundle_open(f.device, folder, &options, &bundle, &f.err));
    kiln_bundle_info_get(bundle, &info);
    KILN_CHECK_INT(info.loaded, info.n_programs);
    kiln_bundle_close(bundle);
    run_beside_others(&f, numbers, expected);
    fixture_close(&f);
    return true;
}

static void other_devices(void)
{
    fixture f;
    kiln_bundle *bundle = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    KILN_CHECK_INT(kiln_bundle_open(f.device, folder, NULL, &bundle, &f.err),
                   KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(f.err.message, "takes no programs");
    kiln_tensor *x = fixture_f32(&f, 2, dims, (const float[COUNT]){0});
    kiln_graph *graph = capture_softmax(&f, x);
    const kiln_bundle_work work = work_of(&f, graph, &x, &x);
    kiln_bundle_maker *maker = NULL;
    FIXTURE_OK(&f, kiln_bundle_maker_create(kiln_context_env(f.context), &maker, &f.err));
    KILN_CHECK_INT(kiln_bundle_maker_add(maker, &work, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f.err.message, "compiler");
    kiln_bundle_maker_destroy(maker);
    kiln_release(x);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/// A device that was opened as any other keeps no sources.
static void test_plain_device_records_nothing(void)
{
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 2, dims, (const float[COUNT]){0});
    kiln_graph *graph = capture_softmax(&f, x);
    const kiln_bundle_work work = work_of(&f, graph, &x, &x);
    kiln_bundle_maker *maker = NULL;
    FIXTURE_OK(&f, kiln_bundle_maker_create(kiln_context_env(f.context), &maker, &f.err));
    KILN_CHECK_INT(kiln_bundle_maker_add(maker, &work, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f.err.message, "opened with the option compiler as record");
    kiln_bundle_maker_destroy(maker);
    kiln_release(x);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

/// What works on the programs that another call has left is refused before it.
static void test_calls_have_an_order(void)
{
    fixture f;
    uint32_t count = 0;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_bundle_maker *maker = NULL;
    FIXTURE_OK(&f, kiln_bundle_maker_create(kiln_context_env(f.context), &maker, &f.err));
    FIXTURE_OK(&f, kiln_bundle_maker_merge(maker, &f.err));
    KILN_CHECK_INT(kiln_bundle_maker_single(maker, f.device, &count, &f.err),
                   KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f.err.message, "maker_single was called after kiln_bundle_maker_merge");
    KILN_CHECK_INT(kiln_bundle_maker_merge(maker, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    FIXTURE_OK(&f, kiln_bundle_maker_order(maker, f.device, &count, &f.err));
    FIXTURE_OK(&f, kiln_bundle_maker_banks(maker, f.device, 2, &f.err));
    KILN_CHECK_INT(kiln_bundle_maker_order(maker, f.device, &count, &f.err),
                   KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f.err.message, "maker_order was called after kiln_bundle_maker_banks");
    kiln_bundle_maker_destroy(maker);
    fixture_close(&f);
}

static void test_bundles(void)
{
    folder = kiln_test_tmpdir();
    if (bundle_runs()) {
        other_devices();
    }
}

KILN_TEST_MAIN("unit/runtime/bundle", KILN_TEST(test_bundles), KILN_TEST(test_calls_have_an_order),
               KILN_TEST(test_plain_device_records_nothing))
