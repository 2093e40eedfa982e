// SPDX-License-Identifier: MIT OR Apache-2.0
// Sessions on the reference device: the digits model against PyTorch, functions, branches, shape
// arithmetic on the host, scalars, early release, and captures.
#include "session_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the digits model ----

/* The numbers at the end of a .npy file. */
static bool read_npy_tail(const char *name, float *out, size_t count)
{
    char path[512];
    size_t size = 0;
    snprintf(path, sizeof(path), "%s/examples/digits/%s.npy", KILN_TEST_SOURCE_DIR, name);
    char *data = kiln_test_need_file(path, &size);
    bool ok = KILN_CHECK(data != NULL && size > count * sizeof(*out));
    if (ok) {
        memcpy(out, data + size - count * sizeof(*out), count * sizeof(*out));
    }
    free(data);
    return ok;
}

static void run_digit(const fixture *f, kiln_onnx_session *session, const char *name,
                      const float *expected, int digit)
{
    float image[64];
    float got[10] = {0};
    const int64_t dims[] = {1, 1, 8, 8};
    kiln_error err = KILN_ERROR_INIT;
    kiln_onnx_input input = {.name = "image"};
    kiln_tensor *output = NULL;
    if (!read_npy_tail(name, image, 64)) {
        return;
    }
    KILN_CHECK(kiln_tensor_create(f->device, KILN_DTYPE_F32, 4, dims, image, &input.tensor, &err) ==
               KILN_STATUS_OK);
    KILN_CHECK(kiln_onnx_session_run(session, &input, 1, &output, 1, &err) == KILN_STATUS_OK);
    KILN_CHECK(output != NULL && kiln_read(output, got, sizeof(got), &err) == KILN_STATUS_OK);
    float largest = 0;
    int best = 0;
    for (int i = 0; i < 10; i++) {
        float size = expected[i] < 0 ? -expected[i] : expected[i];
        largest = size > largest ? size : largest;
        best = got[i] > got[best] ? i : best;
    }
    for (int i = 0; i < 10; i++) {
        KILN_CHECK_NEAR((double)got[i], (double)expected[i], 1e-4 * (double)largest);
    }
    KILN_CHECK_INT(best, digit);
    kiln_release(output);
    kiln_release(input.tensor);
}

static void test_digits_as_pytorch(void)
{
    static const char *const names[] = {"zero", "one", "two",   "three", "four",
                                        "five", "six", "seven", "eight", "nine"};
    fixture f;
    loaded l = {0};
    float expected[100];
    kiln_error err = KILN_ERROR_INIT;
    if (!open_fixture(&f) || !read_npy_tail("expected", expected, 100)) {
        return;
    }
    KILN_CHECK(kiln_onnx_model_open(kiln_context_env(f.context),
                                    KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx", &l.model,
                                    &err) == KILN_STATUS_OK);
    if (KILN_CHECK(kiln_onnx_session_create(l.model, f.device, &l.session, &err) ==
                   KILN_STATUS_OK)) {
        for (int i = 0; i < 10; i++) {
            run_digit(&f, l.session, names[i], expected + i * 10, i);
        }
    }
    unload(&l);
    KILN_CHECK_INT(live_tensors(&f), 0);
    close_fixture(&f);
}

// ---- what nodes become ----

/* z = x + (shape of y as a number): three nodes of shape arithmetic, one operation on the device.
 */
static void test_shapes_stay_on_the_host(void)
{
    fixture f;
    loaded l;
    kiln_error err;
    float z[2] = {0};
    pw graph = small_graph();
    add_node(&graph, "Shape", INPUTS("y"), "s");
    pw cast = pw_node("Cast", INPUTS("s"), INPUTS("c"));
    pw_attr_int(&cast, "to", 1);
    pw_message(&graph, 1, &cast);
    add_node(&graph, "Mul", INPUTS("c", "c"), "m");
    add_node(&graph, "Add", INPUTS("m", "x"), "z");
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        uint64_t before = recorded(&f);
        KILN_CHECK(run_small(&f, &l, z, 2, &err) == KILN_STATUS_OK);
        KILN_CHECK_INT(recorded(&f) - before, 1);
        KILN_CHECK_NEAR((double)z[0], 5, 0);
        KILN_CHECK_NEAR((double)z[1], 2, 0);
        unload(&l);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* z = DequantizeLinear(QuantizeLinear(x)): nothing is added or taken off where the zero point is a
 * constant 0. */
static void test_zero_points_of_zero(void)
{
    static const int8_t zeros[] = {0, 3};
    static const uint64_t operations[] = {6, 8};
    const float scale = 0.5f;
    for (int i = 0; i < 2; i++) {
        fixture f;
        loaded l;
        kiln_error err;
        float z[2] = {0};
        pw graph = small_graph();
        pw step = pw_tensor("step", 1, NULL, 0, &scale, sizeof(scale));
        pw zero = pw_tensor("zero", 3, NULL, 0, &zeros[i], 1);
        pw_message(&graph, 5, &step);
        pw_message(&graph, 5, &zero);
        add_node(&graph, "QuantizeLinear", INPUTS("x", "step", "zero"), "q");
        add_node(&graph, "DequantizeLinear", INPUTS("q", "step", "zero"), "z");
        pw bytes = pw_model(&graph, 13);
        if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
            uint64_t before = recorded(&f);
            KILN_CHECK(run_small(&f, &l, z, 2, &err) == KILN_STATUS_OK);
            KILN_CHECK_INT(recorded(&f) - before, operations[i]);
            KILN_CHECK_NEAR((double)z[0], 1, 0);
            KILN_CHECK_NEAR((double)z[1], -2, 0);
            unload(&l);
        }
        close_fixture(&f);
        pw_free(&bytes);
    }
}

static void add_scalar_initializer(pw *graph, const char *name, float value)
{
    pw tensor = pw_tensor(name, 1, NULL, 0, &value, sizeof(value));
    pw_message(graph, 5, &tensor);
}

/* A constant operand on either side, also where the operator does not commute. */
static void test_scalar_operands(void)
{
    pw graph = small_graph();
    add_scalar_initializer(&graph, "k", 10);
    add_node(&graph, "Sub", INPUTS("k", "x"), "a"); /* 9, 12 */
    add_node(&graph, "Div", INPUTS("a", "y"), "b"); /* 3, 3 */
    add_node(&graph, "Mul", INPUTS("k", "b"), "c"); /* 30, 30 */
    add_node(&graph, "Sub", INPUTS("c", "k"), "d"); /* 20, 20 */
    add_node(&graph, "Div", INPUTS("k", "d"), "z");
    expect_small(&graph, 13, 0.5f, 0.5f);
}

/* A square and a cube are products, three operations and the sum, and exact for small numbers. */
static void test_small_powers(void)
{
    fixture f;
    loaded l;
    kiln_error err;
    float z[2] = {0};
    pw graph = small_graph();
    add_scalar_initializer(&graph, "two", 2);
    add_scalar_initializer(&graph, "three", 3);
    add_node(&graph, "Pow", INPUTS("x", "three"), "a"); /* 1, -8 */
    add_node(&graph, "Pow", INPUTS("y", "two"), "b"); /* 9, 16 */
    add_node(&graph, "Add", INPUTS("a", "b"), "z");
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        uint64_t before = recorded(&f);
        KILN_CHECK(run_small(&f, &l, z, 2, &err) == KILN_STATUS_OK);
        KILN_CHECK_INT(recorded(&f) - before, 4);
        KILN_CHECK_NEAR((double)z[0], 10, 0);
        KILN_CHECK_NEAR((double)z[1], 8, 0);
        unload(&l);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

static void test_old_broadcast(void)
{
    pw graph = small_graph();
    pw node = pw_node("Add", INPUTS("x", "y"), INPUTS("z"));
    pw_attr_int(&node, "broadcast", 1);
    pw_attr_int(&node, "axis", 0);
    pw_message(&graph, 1, &node);
    expect_small(&graph, 6, 4, 2);
}

static void test_softmax_versions(void)
{
    pw graph = small_graph();
    pw node = pw_node("Softmax", INPUTS("x"), INPUTS("z"));
    pw_attr_int(&node, "axis", 0);
    pw_message(&graph, 1, &node);
    expect_small(&graph, 11, 0.95257413f, 0.04742587f);
    graph = small_graph();
    add_node(&graph, "Softmax", INPUTS("x"), "z");
    expect_small(&graph, 13, 0.95257413f, 0.04742587f);
}

// ---- branches and functions ----

static pw branch_graph(const char *op, const char *read)
{
    pw graph = {0};
    pw out = {0};
    add_node(&graph, op, INPUTS(read, "y"), "inner");
    pw_text(&out, 1, "inner");
    pw_message(&graph, 12, &out);
    return graph;
}

/// z = condition ? read + y : read * y
static void add_if(pw *graph, int condition, const char *read)
{
    const uint8_t value = (uint8_t)condition;
    const char *const names[] = {"then_branch", "else_branch"};
    const char *const ops[] = {"Add", "Mul"};
    pw flag = pw_tensor("flag", 9, NULL, 0, &value, 1);
    pw_message(graph, 5, &flag);
    pw node = pw_node("If", INPUTS("flag"), INPUTS("z"));
    for (int i = 0; i < 2; i++) {
        pw attr = {0};
        pw branch = branch_graph(ops[i], read);
        pw_text(&attr, 1, names[i]);
        pw_message(&attr, 6, &branch);
        pw_int(&attr, 20, 5);
        pw_message(&node, 5, &attr);
    }
    pw_message(graph, 1, &node);
}

/* Both branches read values of the graph around them. */
static void test_if_branches(void)
{
    for (int condition = 0; condition < 2; condition++) {
        pw graph = small_graph();
        add_if(&graph, condition, "x");
        expect_small(&graph, 13, condition ? 4 : 3, condition ? 2 : -8);
    }
}

/* Nodes may stand before those whose values they, or graphs in them, read. */
static void test_nodes_in_any_order(void)
{
    pw graph = small_graph();
    add_if(&graph, 1, "again");
    add_node(&graph, "Neg", INPUTS("turned"), "again");
    add_node(&graph, "Neg", INPUTS("x"), "turned");
    expect_small(&graph, 13, 4, 2);
}

/* my.Scale(a) = LeakyRelu(a, alpha of the caller, or the default) */
static pw model_with_function(const char *called, bool give_alpha, bool recurses)
{
    pw graph = small_graph();
    pw node = pw_node(called, INPUTS("x"), INPUTS("z"));
    pw_text(&node, 7, "my");
    if (give_alpha) {
        pw_attr_float(&node, "slope", 0.5f);
    }
    pw_message(&graph, 1, &node);
    pw model = pw_model(&graph, 16);
    pw function = {0};
    pw_text(&function, 1, "Scale");
    pw_text(&function, 4, "a");
    pw_text(&function, 5, "b");
    pw inner = pw_node(recurses ? "Scale" : "LeakyRelu", INPUTS("a"), INPUTS("b"));
    pw reference = {0};
    pw_text(&reference, 1, recurses ? "slope" : "alpha");
    pw_int(&reference, 20, 1);
    pw_text(&reference, 21, "slope");
    pw_message(&inner, 5, &reference);
    if (recurses) {
        pw_text(&inner, 7, "my");
    }
    pw_message(&function, 7, &inner);
    pw opset = {0};
    pw_text(&opset, 1, "");
    pw_int(&opset, 2, 16);
    pw_message(&function, 9, &opset);
    pw_text(&function, 10, "my");
    pw fallback = {0};
    pw_text(&fallback, 1, "slope");
    pw_float(&fallback, 2, 0.25f);
    pw_int(&fallback, 20, 1);
    pw_message(&function, 11, &fallback);
    pw_message(&model, 25, &function);
    return model;
}

static void test_functions(void)
{
    static const struct {
        const char *called;
        bool give_alpha, recurses;
        kiln_status status;
        float second;
        const char *text;
    } cases[] = {
        {"Scale", true, false, KILN_STATUS_OK, -1, ""},
        {"Scale", false, false, KILN_STATUS_OK, -0.5f, ""},
        {"Scale", true, true, KILN_STATUS_INVALID_ARGUMENT, 0, "nested deeper"},
        {"Scalf", true, false, KILN_STATUS_UNIMPLEMENTED, 0, "operator Scalf of domain my"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture f;
        loaded l;
        kiln_error err;
        float z[2] = {0};
        pw bytes = model_with_function(cases[i].called, cases[i].give_alpha, cases[i].recurses);
        if (open_fixture(&f)) {
            kiln_status status = load(&f, &bytes, &l, &err);
            if (status == KILN_STATUS_OK) {
                status = run_small(&f, &l, z, 2, &err);
            }
            KILN_CHECK_INT(status, cases[i].status);
            KILN_CHECK_CONTAINS(err.message, cases[i].text);
            KILN_CHECK_NEAR((double)z[1], (double)cases[i].second, 1e-6);
            unload(&l);
            KILN_CHECK_INT(live_tensors(&f), 0);
        }
        close_fixture(&f);
        pw_free(&bytes);
    }
}

// ---- life ----

/* A long chain holds a few tensors at a time, not one for each node. */
static void test_values_go_after_their_last_use(void)
{
    fixture f;
    loaded l;
    kiln_error err;
    float z[2] = {0};
    char names[201][8];
    pw graph = small_graph();
    snprintf(names[0], sizeof(names[0]), "x");
    for (int i = 1; i <= 200; i++) {
        snprintf(names[i], sizeof(names[i]), i == 200 ? "z" : "v%d", i);
        add_node(&graph, "Neg", INPUTS(names[i - 1]), names[i]);
    }
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        KILN_CHECK(kiln_device_set_fusion(f.device, false, &err) == KILN_STATUS_OK);
        KILN_CHECK(run_small(&f, &l, z, 2, &err) == KILN_STATUS_OK);
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(f.device, &stats);
        KILN_CHECK(stats.backend.bytes_peak <= 10 * 8);
        KILN_CHECK_NEAR((double)z[1], -2, 0);
        unload(&l);
        KILN_CHECK_INT(live_tensors(&f), 0);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* A run inside a capture gives a graph that can be run on other inputs. */
static void test_capture(void)
{
    static const float first[] = {1, 2};
    static const float second[] = {10, 20};
    const int64_t two[] = {2};
    fixture f;
    loaded l;
    kiln_error err;
    kiln_graph *graph_run = NULL;
    kiln_tensor *z = NULL;
    kiln_tensor *again = NULL;
    kiln_tensor *x[2] = {NULL};
    float got[2] = {0};
    pw graph = small_graph();
    add_scalar_initializer(&graph, "k", 10);
    add_node(&graph, "Mul", INPUTS("x", "k"), "a");
    add_node(&graph, "Add", INPUTS("a", "y"), "z");
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        kiln_device *d = f.device;
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_F32, 1, two, first, &x[0], &err) == 0);
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_F32, 1, two, second, &x[1], &err) == 0);
        kiln_onnx_input inputs[] = {{.name = "x", .tensor = x[0]}, {.name = "y", .tensor = x[1]}};
        KILN_CHECK(kiln_graph_begin(d, x, 2, &err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_onnx_session_run(l.session, inputs, 2, &z, 1, &err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_graph_end(d, &z, 1, &graph_run, &err) == KILN_STATUS_OK);
        kiln_tensor *const swapped[] = {x[1], x[0]};
        KILN_CHECK(kiln_graph_run(graph_run, swapped, 2, &again, 1, &err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_read(again, got, sizeof(got), &err) == KILN_STATUS_OK);
        KILN_CHECK_NEAR((double)got[0], 101, 0);
        KILN_CHECK_NEAR((double)got[1], 202, 0);
        kiln_release(again);
        kiln_release(z);
        kiln_graph_destroy(graph_run);
        kiln_release(x[0]);
        kiln_release(x[1]);
        unload(&l);
        KILN_CHECK_INT(live_tensors(&f), 0);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* An output that is an input is a tensor of its own, in a capture too. */
static void test_output_that_is_an_input(void)
{
    static const float first[] = {1, 2};
    const int64_t two[] = {2};
    fixture f;
    loaded l;
    kiln_error err;
    kiln_graph *captured = NULL;
    kiln_tensor *z = NULL;
    kiln_tensor *x = NULL;
    float got[2] = {0};
    pw graph = small_graph();
    add_node(&graph, "Identity", INPUTS("x"), "z");
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, two, first, &x, &err) == 0);
        kiln_onnx_input inputs[] = {{.name = "x", .tensor = x}, {.name = "y", .tensor = x}};
        KILN_CHECK(kiln_graph_begin(f.device, &x, 1, &err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_onnx_session_run(l.session, inputs, 2, &z, 1, &err) == KILN_STATUS_OK);
        KILN_CHECK(z != x);
        KILN_CHECK(kiln_graph_end(f.device, &z, 1, &captured, &err) == KILN_STATUS_OK);
        kiln_release(z);
        KILN_CHECK(kiln_graph_run(captured, &x, 1, &z, 1, &err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_read(z, got, sizeof(got), &err) == KILN_STATUS_OK);
        KILN_CHECK_MEM(got, first, sizeof(first));
        kiln_graph_destroy(captured);
        kiln_release(z);
        kiln_release(x);
        unload(&l);
        KILN_CHECK_INT(live_tensors(&f), 0);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* A contents that decides about a shape is read back when only the device has it; not inside a
 * capture. */
static void test_shape_from_an_input(void)
{
    static const float data[] = {1, 2};
    static const float shape[] = {2, 1};
    const int64_t two[] = {2};
    fixture f;
    loaded l;
    kiln_error err;
    kiln_tensor *tensors[2] = {NULL};
    kiln_tensor *z = NULL;
    pw graph = small_graph();
    pw cast = pw_node("Cast", INPUTS("y"), INPUTS("s"));
    pw_attr_int(&cast, "to", 7);
    pw_message(&graph, 1, &cast);
    add_node(&graph, "Reshape", INPUTS("x", "s"), "z");
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        kiln_device *d = f.device;
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_F32, 1, two, data, &tensors[0], &err) == 0);
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_F32, 1, two, shape, &tensors[1], &err) == 0);
        kiln_onnx_input inputs[] = {{.name = "x", .tensor = tensors[0], .host = data},
                                    {.name = "y", .tensor = tensors[1], .host = shape}};
        KILN_CHECK(kiln_onnx_session_run(l.session, inputs, 2, &z, 1, &err) == KILN_STATUS_OK);
        if (KILN_CHECK(z != NULL)) {
            KILN_CHECK_INT(kiln_tensor_rank(z), 2);
        }
        kiln_release(z);
        KILN_CHECK(kiln_graph_begin(d, tensors, 2, &err) == KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_onnx_session_run(l.session, inputs, 2, &z, 1, &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK(z == NULL);
        kiln_graph_cancel(d);
        kiln_release(tensors[0]);
        kiln_release(tensors[1]);
        KILN_CHECK(kiln_sync(d, &err) == KILN_STATUS_OK); /* the first run's reshape is queued */
        unload(&l);
        KILN_CHECK_INT(live_tensors(&f), 0);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* An allocator that refuses what only a hostile size asks for. */
static void *small_alloc(void *user, size_t bytes, size_t alignment)
{
    const kiln_allocator *real = user;
    return bytes > (size_t)64 << 20 ? NULL : real->alloc(real->user, bytes, alignment);
}

static void small_free(void *user, void *pointer)
{
    const kiln_allocator *real = user;
    real->free(real->user, pointer);
}

/* Flipped bits in a model that still opens: a run ends with a result or an error, never otherwise.
 */
static void test_flipped_models_run(void)
{
    kiln_allocator real = kiln_allocator_default();
    const kiln_allocator small = {small_alloc, small_free, &real};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.allocator = &small;
    fixture f = {0};
    kiln_error err = KILN_ERROR_INIT;
    size_t length = 0;
    int64_t ran = 0;
    char *bytes = kiln_test_need_file(KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx", &length);
    KILN_CHECK(kiln_context_create(&options, &f.context, &err) == KILN_STATUS_OK);
    KILN_CHECK(kiln_device_open(f.context, "reference:0", &f.device, &err) == KILN_STATUS_OK);
    const int64_t dims[] = {1, 1, 8, 8};
    kiln_onnx_input input = {.name = "image"};
    KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 4, dims, NULL, &input.tensor, &err) ==
               KILN_STATUS_OK);
    uint64_t state = 99;
    for (int round = 0; round < 400; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(state >> 20) % 2600; /* nodes come first in the file */
        bytes[at] ^= (char)(1 << (round % 8));
        pw view = {.bytes = (uint8_t *)bytes, .length = length};
        loaded l;
        kiln_tensor *z = NULL;
        if (load(&f, &view, &l, &err) == KILN_STATUS_OK && l.model->graph.n_outputs == 1 &&
            kiln_onnx_session_run(l.session, &input, 1, &z, 1, &err) == KILN_STATUS_OK) {
            ran++;
        }
        kiln_release(z);
        unload(&l);
        bytes[at] ^= (char)(1 << (round % 8));
    }
    KILN_CHECK(ran > 0);
    kiln_release(input.tensor);
    /* What failing runs had queued is still held. */
    kiln_status status = kiln_sync(f.device, &err);
    KILN_CHECK(status == KILN_STATUS_OK || err.message[0] != '\0');
    KILN_CHECK_INT(live_tensors(&f), 0);
    close_fixture(&f);
    free(bytes);
}

KILN_TEST_MAIN("unit/onnx/test_onnx_session", KILN_TEST(test_digits_as_pytorch),
               KILN_TEST(test_shapes_stay_on_the_host), KILN_TEST(test_zero_points_of_zero),
               KILN_TEST(test_scalar_operands), KILN_TEST(test_small_powers),
               KILN_TEST(test_old_broadcast), KILN_TEST(test_softmax_versions),
               KILN_TEST(test_if_branches), KILN_TEST(test_nodes_in_any_order),
               KILN_TEST(test_functions), KILN_TEST(test_values_go_after_their_last_use),
               KILN_TEST(test_capture), KILN_TEST(test_output_that_is_an_input),
               KILN_TEST(test_shape_from_an_input), KILN_TEST(test_flipped_models_run))
