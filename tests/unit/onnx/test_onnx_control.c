// SPDX-License-Identifier: MIT OR Apache-2.0
// Control flow, sequences, optionals, sparse constants and training information: what they give is
// checked by ONNX's cases and ours (check_onnx); here is what they refuse, what the public calls
// for values that are no tensors do, and what a trace says.
#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

#include <stdio.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    char notes[512];
    kiln_error err;
} fixture;

static void keep_note(const kiln_log_record *record, void *user)
{
    fixture *f = user;
    snprintf(f->notes, sizeof(f->notes), "%s", record->message);
}

static bool open_fixture(fixture *f)
{
    *f = (fixture){.err = KILN_ERROR_INIT};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.ignore_environment = 1;
    options.log = keep_note;
    options.log_user = f;
    return KILN_CHECK(kiln_context_create(&options, &f->context, &f->err) == KILN_STATUS_OK) &&
           KILN_CHECK(kiln_context_set(f->context, "log", "info", &f->err) == KILN_STATUS_OK) &&
           KILN_CHECK(kiln_device_open(f->context, "reference:0", &f->device, &f->err) ==
                      KILN_STATUS_OK);
}

static void close_fixture(fixture *f)
{
    kiln_onnx_session_destroy(f->session);
    kiln_onnx_model_close(f->model);
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    KILN_CHECK(kiln_sync(f->device, &f->err) == KILN_STATUS_OK);
    kiln_device_stats_get(f->device, &stats);
    KILN_CHECK_INT((int64_t)stats.tensors_live, 0);
    kiln_device_release(f->device);
    kiln_context_destroy(f->context);
}

static kiln_status load(fixture *f, const pw *bytes)
{
    kiln_status status = kiln_onnx_model_open_memory(kiln_context_env(f->context), bytes->bytes,
                                                     bytes->length, NULL, &f->model, &f->err);
    return status == KILN_STATUS_OK
               ? kiln_onnx_session_create(f->model, f->device, &f->session, &f->err)
               : status;
}

// ---- pieces of models ----

static void add_node(pw *graph, const char *op, const char *const *inputs,
                     const char *const *outputs)
{
    pw node = pw_node(op, inputs, outputs);
    pw_message(graph, 1, &node);
}

static void add_scalar(pw *graph, const char *name, int32_t type, int64_t value)
{
    pw tensor = pw_tensor(name, type, NULL, 0, &value, type == 7 ? 8 : 1);
    pw_message(graph, 5, &tensor);
}

static void add_untyped(pw *graph, uint32_t field, const char *name)
{
    pw info = {0};
    pw_text(&info, 1, name);
    pw_message(graph, field, &info);
}

/* A body that hands condition and x on, adds x to itself, and collects it. */
static pw doubling_body(void)
{
    pw body = {0};
    add_untyped(&body, 11, "i");
    add_untyped(&body, 11, "c");
    add_untyped(&body, 11, "v");
    add_node(&body, "Identity", NAMES("c"), NAMES("c2"));
    add_node(&body, "Add", NAMES("v", "v"), NAMES("w"));
    add_node(&body, "Identity", NAMES("w"), NAMES("s"));
    add_untyped(&body, 12, "c2");
    add_untyped(&body, 12, "w");
    add_untyped(&body, 12, "s");
    return body;
}

static void add_graph_attr(pw *node, const char *name, pw *graph)
{
    pw attr = {0};
    pw_text(&attr, 1, name);
    pw_int(&attr, 20, 5);
    pw_message(&attr, 6, graph);
    pw_message(node, 5, &attr);
}

/* The input x: f32[2]; the output z of no said type. */
static pw begin_graph(void)
{
    const int64_t two[] = {2};
    pw graph = {0};
    pw x = pw_value_info("x", 1, two, 1);
    pw_message(&graph, 11, &x);
    add_untyped(&graph, 12, "z");
    return graph;
}

static kiln_status run_values(fixture *f, kiln_onnx_value *out, size_t n_outputs)
{
    static const float x[] = {1, -2};
    const int64_t two[] = {2};
    kiln_onnx_input input = {.name = "x"};
    kiln_status status =
        kiln_tensor_create(f->device, KILN_DTYPE_F32, 1, two, x, &input.tensor, &f->err);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run_values(f->session, &input, 1, out, n_outputs, &f->err);
    }
    kiln_release(input.tensor);
    return status;
}

/* Loads and runs; the first failure has to be this. Ends `graph`. */
static void expect_error(pw *graph, kiln_status expected, const char *text)
{
    fixture f;
    kiln_onnx_value z;
    pw bytes = pw_model(graph, 16);
    if (open_fixture(&f)) {
        kiln_status status = load(&f, &bytes);
        if (status == KILN_STATUS_OK) {
            status = run_values(&f, &z, 1);
        }
        KILN_CHECK_INT(status, expected);
        KILN_CHECK_CONTAINS(f.err.message, text);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

// ---- loops ----

static pw loop_graph(const char *limit, const char *condition, const char *output)
{
    pw graph = begin_graph();
    pw body = doubling_body();
    pw node = pw_node("Loop", NAMES(limit, condition, "x"), NAMES(output, "all"));
    add_graph_attr(&node, "body", &body);
    add_scalar(&graph, "three", 7, 3);
    add_scalar(&graph, "many", 7, INT64_MAX);
    add_scalar(&graph, "none", 7, 0);
    add_scalar(&graph, "yes", 9, 1);
    pw_message(&graph, 1, &node);
    return graph;
}

static void check_floats(fixture *f, kiln_tensor *tensor, const float *expected, size_t count)
{
    float got[16] = {0};
    if (KILN_CHECK(tensor != NULL) && KILN_CHECK_INT(kiln_tensor_count(tensor), (int64_t)count) &&
        KILN_CHECK(kiln_read(tensor, got, count * sizeof(float), &f->err) == KILN_STATUS_OK)) {
        for (size_t i = 0; i < count; i++) {
            KILN_CHECK_NEAR((double)got[i], (double)expected[i], 0);
        }
    }
}

static void count_nodes(const kiln_onnx_node_info *info, void *user)
{
    int *counts = user;
    counts[info->where]++;
    if (info->where == KILN_ONNX_ON_DEVICE && KILN_CHECK(info->n_outputs > 0)) {
        KILN_CHECK(info->outputs[0].name != NULL && info->outputs[0].tensor != NULL);
    }
}

static void test_loop_rounds(void)
{
    static const float last[] = {8, -16};
    fixture f;
    kiln_onnx_value z;
    int counts[4] = {0};
    pw graph = loop_graph("three", "yes", "z");
    pw bytes = pw_model(&graph, 16);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes) == KILN_STATUS_OK)) {
        kiln_onnx_session_trace(f.session, count_nodes, counts);
        KILN_CHECK_STR(run_values(&f, &z, 1) == KILN_STATUS_OK ? "" : f.err.message, "");
        KILN_CHECK_INT((int64_t)z.kind, KILN_ONNX_KIND_TENSOR);
        check_floats(&f, z.tensor, last, 2);
        kiln_onnx_values_free(kiln_context_env(f.context), &z, 1);
        KILN_CHECK(z.tensor == NULL);
        /* three rounds of three nodes, and the loop; the condition is a constant handed on */
        KILN_CHECK_INT(counts[KILN_ONNX_ON_DEVICE] + counts[KILN_ONNX_FOLDED], 10);
        KILN_CHECK_INT(counts[KILN_ONNX_FOLDED], 3);
        KILN_CHECK_INT(counts[KILN_ONNX_ON_HOST], 0);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* What no round collected has the type and lengths that a round would have given; only a capture,
   in which none can be tried, refuses it. */
static void test_no_rounds_of_no_said_type(void)
{
    fixture f;
    kiln_onnx_value z;
    pw graph = begin_graph();
    pw body = doubling_body();
    pw node = pw_node("Loop", NAMES("none", "", "y"), NAMES("unused", "z"));
    add_graph_attr(&node, "body", &body);
    add_scalar(&graph, "none", 7, 0);
    add_node(&graph, "Abs", NAMES("x"), NAMES("y"));
    pw_message(&graph, 1, &node);
    pw bytes = pw_model(&graph, 16);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes) == KILN_STATUS_OK)) {
        for (int round = 0; round < 3; round++) {
            KILN_CHECK_STR(run_values(&f, &z, 1) == KILN_STATUS_OK ? "" : f.err.message, "");
            if (KILN_CHECK(z.tensor != NULL) && KILN_CHECK_INT(kiln_tensor_rank(z.tensor), 2)) {
                KILN_CHECK_INT(kiln_tensor_dims(z.tensor)[0], 0);
                KILN_CHECK_INT(kiln_tensor_dims(z.tensor)[1], 2);
                KILN_CHECK_INT((int)kiln_tensor_dtype(z.tensor), (int)KILN_DTYPE_F32);
            }
            kiln_onnx_values_free(kiln_context_env(f.context), &z, 1);
        }
        KILN_CHECK(kiln_graph_begin(f.device, NULL, 0, &f.err) == KILN_STATUS_OK);
        KILN_CHECK_INT(run_values(&f, &z, 1), KILN_STATUS_UNIMPLEMENTED);
        KILN_CHECK_CONTAINS(f.err.message, "no rounds, and output 's' has type unknown");
        kiln_graph_cancel(f.device);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

static void test_loops_that_cannot_run(void)
{
    pw graph = loop_graph("", "", "z");
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "a loop without a count and a condition");
    graph = loop_graph("many", "", "z");
    expect_error(&graph, KILN_STATUS_RESOURCE_EXHAUSTED, "a run of more than");
    graph = begin_graph();
    add_scalar(&graph, "three", 7, 3);
    pw node = pw_node("Loop", NAMES("three", "", "x"), NAMES("z"));
    pw_message(&graph, 1, &node);
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "attribute 'body' is no graph");
    graph = begin_graph();
    add_scalar(&graph, "three", 7, 3);
    pw body = doubling_body();
    node = pw_node("Loop", NAMES("three", "", "x"), NAMES("z", "a", "b"));
    add_graph_attr(&node, "body", &body);
    pw_message(&graph, 1, &node);
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "the body gives 3 values for 1 carried");
}

/* A capture cannot hold a way that depends on what is computed: the read is refused. */
static void test_condition_in_a_capture(void)
{
    fixture f;
    pw graph = begin_graph();
    pw body = doubling_body();
    add_scalar(&graph, "three", 7, 3);
    add_node(&graph, "ReduceMax", NAMES("x"), NAMES("m"));
    add_node(&graph, "Greater", NAMES("m", "m"), NAMES("g"));
    pw node = pw_node("Loop", NAMES("three", "g", "x"), NAMES("z"));
    add_graph_attr(&node, "body", &body);
    pw_message(&graph, 1, &node);
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes) == KILN_STATUS_OK)) {
        const int64_t two[] = {2};
        kiln_tensor *z = NULL;
        kiln_onnx_input input = {.name = "x"};
        KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, two, NULL, &input.tensor,
                                      &f.err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_graph_begin(f.device, &input.tensor, 1, &f.err) == KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_onnx_session_run(f.session, &input, 1, &z, 1, &f.err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(f.err.message, "(Loop)");
        kiln_graph_cancel(f.device);
        kiln_release(input.tensor);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* Lengths become attributes of what is recorded: other shapes are refused, not computed wrongly. */
static void test_captures_keep_their_shapes(void)
{
    fixture f;
    const int64_t dims[2][2] = {{4, 2}, {6, 2}};
    kiln_tensor *x[2] = {NULL};
    kiln_tensor *z = NULL;
    kiln_graph *graph_run = NULL;
    pw graph = {0};
    pw info = pw_value_info("x", 1, (const int64_t[]){-1, 2}, 2);
    pw_message(&graph, 11, &info);
    add_untyped(&graph, 12, "z");
    pw node = pw_node("Split", NAMES("x"), NAMES("z", "rest"));
    pw_message(&graph, 1, &node);
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes) == KILN_STATUS_OK)) {
        for (int i = 0; i < 2; i++) {
            KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 2, dims[i], NULL, &x[i],
                                          &f.err) == KILN_STATUS_OK);
        }
        const kiln_onnx_input input = {.name = "x", .tensor = x[0]};
        KILN_CHECK(kiln_graph_begin(f.device, &x[0], 1, &f.err) == KILN_STATUS_OK);
        KILN_CHECK_STR(kiln_onnx_session_run(f.session, &input, 1, &z, 1, &f.err) == KILN_STATUS_OK
                           ? ""
                           : f.err.message,
                       "");
        KILN_CHECK(kiln_graph_end(f.device, &z, 1, &graph_run, &f.err) == KILN_STATUS_OK);
        kiln_release(z);
        KILN_CHECK(kiln_graph_run(graph_run, &x[0], 1, &z, 1, &f.err) == KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_tensor_dims(z)[0], 2);
        kiln_release(z);
        KILN_CHECK_INT(kiln_graph_run(graph_run, &x[1], 1, &z, 1, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(f.err.message, "input 0 has rank 2 and length 6 at axis 0");
        kiln_graph_destroy(graph_run);
        kiln_release(x[0]);
        kiln_release(x[1]);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

// ---- sequences and optionals ----

static void test_sequence_positions(void)
{
    static const char *const ops[] = {"SequenceAt", "SequenceErase"};
    for (size_t i = 0; i < 2; i++) {
        pw graph = begin_graph();
        add_scalar(&graph, "five", 7, 5);
        add_node(&graph, "SequenceConstruct", NAMES("x", "x"), NAMES("s"));
        add_node(&graph, ops[i], NAMES("s", "five"), NAMES("z"));
        expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "position 5 in a sequence of 2");
    }
    pw graph = begin_graph();
    add_node(&graph, "SequenceConstruct", NAMES("x", "x"), NAMES("s"));
    add_node(&graph, "Add", NAMES("s", "x"), NAMES("z"));
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "input 0 is a sequence, not a tensor");
    graph = begin_graph();
    add_node(&graph, "SequenceLength", NAMES("x"), NAMES("z"));
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "input 0 is no sequence");
    graph = begin_graph();
    add_node(&graph, "Optional", (const char *const[]){NULL}, NAMES("o"));
    add_node(&graph, "OptionalGetElement", NAMES("o"), NAMES("z"));
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "the optional holds nothing");
    graph = begin_graph();
    add_node(&graph, "SequenceEmpty", (const char *const[]){NULL}, NAMES("s"));
    add_node(&graph, "ConcatFromSequence", NAMES("s"), NAMES("z"));
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "an empty sequence has nothing to join");
}

/* Outputs that are no tensors: through one call, and refused by the other. */
static void test_outputs_that_are_sequences(void)
{
    static const float x[] = {1, -2};
    fixture f;
    kiln_onnx_value out[2];
    kiln_tensor *tensors[2];
    pw graph = begin_graph();
    add_untyped(&graph, 12, "o");
    add_node(&graph, "SequenceConstruct", NAMES("x", "x", "x"), NAMES("z"));
    add_node(&graph, "Optional", (const char *const[]){NULL}, NAMES("o"));
    pw bytes = pw_model(&graph, 16);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes) == KILN_STATUS_OK)) {
        KILN_CHECK(run_values(&f, out, 2) == KILN_STATUS_OK);
        KILN_CHECK_INT((int64_t)out[0].kind, KILN_ONNX_KIND_SEQUENCE);
        KILN_CHECK_INT((int64_t)out[0].n_items, 3);
        check_floats(&f, out[0].items[2].tensor, x, 2);
        KILN_CHECK_INT((int64_t)out[1].kind, KILN_ONNX_KIND_OPTIONAL);
        kiln_onnx_values_free(kiln_context_env(f.context), out, 2);
        const int64_t two[] = {2};
        kiln_onnx_input input = {.name = "x"};
        KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, two, x, &input.tensor, &f.err) ==
                   KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_onnx_session_run(f.session, &input, 1, tensors, 2, &f.err),
                       KILN_STATUS_UNIMPLEMENTED);
        KILN_CHECK_CONTAINS(f.err.message, "output 'z' is no tensor");
        const kiln_onnx_value list = {.kind = KILN_ONNX_KIND_SEQUENCE};
        kiln_onnx_input wrong = {.name = "x", .value = &list};
        KILN_CHECK_INT(kiln_onnx_session_run_values(f.session, &wrong, 1, out, 2, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(f.err.message, "input 'x' is no value of the model's type");
        kiln_release(input.tensor);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

// ---- sparse constants, training ----

static pw sparse_tensor(const int64_t *dims, size_t rank, const int64_t *indices, size_t count,
                        size_t columns)
{
    static const float values[] = {5, 7};
    const int64_t shape[] = {(int64_t)count, (int64_t)columns};
    pw sparse = {0};
    pw dense = pw_tensor("k", 1, shape, 1, values, count * sizeof(float));
    pw places =
        pw_tensor("", 7, shape, columns > 1 ? 2 : 1, indices, count * columns * sizeof(*indices));
    pw_message(&sparse, 1, &dense);
    pw_message(&sparse, 2, &places);
    for (size_t i = 0; i < rank; i++) {
        pw_int(&sparse, 3, dims[i]);
    }
    return sparse;
}

static void check_sparse(const int64_t *indices, size_t columns, const char *text)
{
    static const float expected[] = {0, 0, 7, 0, 5, 0};
    const int64_t dims[] = {2, 3};
    fixture f;
    kiln_onnx_value z = {.kind = KILN_ONNX_KIND_NONE};
    pw graph = begin_graph();
    pw sparse = sparse_tensor(dims, 2, indices, 2, columns);
    pw_message(&graph, 15, &sparse);
    add_node(&graph, "Identity", NAMES("k"), NAMES("z"));
    pw bytes = pw_model(&graph, 16);
    if (open_fixture(&f)) {
        kiln_status status = load(&f, &bytes);
        if (status == KILN_STATUS_OK) {
            status = run_values(&f, &z, 1);
        }
        if (text == NULL && KILN_CHECK_INT(status, KILN_STATUS_OK)) {
            check_floats(&f, z.tensor, expected, 6);
        } else if (text != NULL) {
            KILN_CHECK_INT(status, KILN_STATUS_INVALID_ARGUMENT);
            KILN_CHECK_CONTAINS(f.err.message, text);
        }
        kiln_onnx_values_free(kiln_context_env(f.context), &z, 1);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

static void test_sparse_constants(void)
{
    const int64_t flat[] = {4, 2};
    const int64_t pairs[] = {1, 1, 0, -1};
    const int64_t beyond[] = {4, 6};
    const int64_t below[] = {1, 1, -3, 0};
    const int64_t triples[] = {0, 1, 1, 0, 0, 0};
    check_sparse(flat, 1, NULL);
    check_sparse(pairs, 2, NULL);
    check_sparse(beyond, 1, "sparse tensor 'k': index 1 is outside");
    check_sparse(below, 2, "sparse tensor 'k': index 1 is outside");
    check_sparse(triples, 3, "values and indices do not fit together");
}

static void test_training_is_noted(void)
{
    fixture f;
    pw graph = begin_graph();
    pw training = {0};
    add_node(&graph, "Identity", NAMES("x"), NAMES("z"));
    pw bytes = pw_model(&graph, 16);
    pw_text(&training, 77, "of no interest");
    pw_message(&bytes, 20, &training);
    if (open_fixture(&f)) {
        KILN_CHECK(load(&f, &bytes) == KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(f.notes, "says how to train the model: ignored");
    }
    close_fixture(&f);
    pw_free(&bytes);
}

KILN_TEST_MAIN("unit/onnx/test_onnx_control", KILN_TEST(test_loop_rounds),
               KILN_TEST(test_no_rounds_of_no_said_type), KILN_TEST(test_loops_that_cannot_run),
               KILN_TEST(test_condition_in_a_capture), KILN_TEST(test_captures_keep_their_shapes),
               KILN_TEST(test_sequence_positions), KILN_TEST(test_outputs_that_are_sequences),
               KILN_TEST(test_sparse_constants), KILN_TEST(test_training_is_noted))
