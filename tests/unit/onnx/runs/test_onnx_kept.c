// SPDX-License-Identifier: MIT OR Apache-2.0
// Models of f32 that are kept in f16 or bf16: which nodes give which type, what f16 has no room
// for, casts that cancel, what is computed before weights are rounded, and what of a model the
// device holds.
#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OK(f, call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, (f)->err.message)

enum { F32 = 1, I64 = 7, F16 = 10, BF16 = 16, SIDE = 4, MOST = 64 };

static const int64_t square[] = {SIDE, SIDE};
static const int64_t row[] = {SIDE};

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
    pw bytes;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_error err;
    char seen[1024]; ///< "name:dtype " of what the last run's nodes left on the device
} fixture;

// ---- models ----

static pw add_node(const char *op, const char *const *inputs, const char *output)
{
    return pw_node(op, inputs, NAMES(output));
}

static void node(pw *graph, const char *op, const char *const *inputs, const char *output)
{
    pw made = add_node(op, inputs, output);
    pw_message(graph, 1, &made);
}

static void axis_node(pw *graph, const char *op, const char *input, const char *output)
{
    pw made = add_node(op, NAMES(input), output);
    if (strncmp(op, "Reduce", 6) == 0) {
        pw_attr_ints(&made, "axes", (const int64_t[]){-1}, 1);
    } else {
        pw_attr_int(&made, "axis", -1);
    }
    pw_message(graph, 1, &made);
}

static void cast_node(pw *graph, const char *input, int64_t type, const char *output)
{
    pw made = add_node("Cast", NAMES(input), output);
    pw_attr_int(&made, "to", type);
    pw_message(graph, 1, &made);
}

static void floats(pw *graph, const char *name, const int64_t *dims, size_t rank, const float *data,
                   size_t count)
{
    pw tensor = pw_tensor(name, F32, dims, rank, data, count * sizeof(*data));
    pw_message(graph, 5, &tensor);
}

/// A graph from x, f32[4, 4], to y, with a weight w that is no number of a narrow type.
static pw begin_graph(void)
{
    float w[SIDE * SIDE];
    pw graph = {0};
    pw x = pw_value_info("x", F32, square, 2);
    pw y = pw_value_info("y", F32, square, 2);
    for (int i = 0; i < SIDE * SIDE; i++) {
        w[i] = (float)(i % 5 - 2) / 3;
    }
    floats(&graph, "w", square, 2, w, SIDE * SIDE);
    pw_message(&graph, 11, &x);
    pw_message(&graph, 12, &y);
    return graph;
}

// ---- sessions and runs ----

static void see(const kiln_onnx_node_info *info, void *user)
{
    fixture *f = user;
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        size_t used = strlen(f->seen);
        if (info->outputs[i].tensor != NULL) {
            snprintf(f->seen + used, sizeof(f->seen) - used, "%s:%s ", info->outputs[i].name,
                     kiln_dtype_name(kiln_tensor_dtype(info->outputs[i].tensor)));
        }
    }
}

/// From memory, or from a file of these bytes.
static kiln_status open_model(fixture *f, bool is_file)
{
    const kiln_env *env = kiln_context_env(f->context);
    if (!is_file) {
        return kiln_onnx_model_open_memory(env, f->bytes.bytes, f->bytes.length, NULL, &f->model,
                                           &f->err);
    }
    const char *path = kiln_test_path(kiln_test_tmpdir(), "model.onnx");
    KILN_CHECK(kiln_test_write_file(path, f->bytes.bytes, f->bytes.length));
    return kiln_onnx_model_open(env, path, &f->model, &f->err);
}

static bool open_as(fixture *f, const char *address, pw *take_graph, kiln_dtype dtype, bool is_file)
{
    kiln_onnx_session_options options = KILN_ONNX_SESSION_OPTIONS_INIT;
    options.dtype = dtype;
    *f = (fixture){.err = KILN_ERROR_INIT, .bytes = pw_model(take_graph, 17)};
    return OK(f, kiln_context_create(NULL, &f->context, &f->err)) &&
           OK(f, kiln_device_open(f->context, kiln_test_address(address), &f->device, &f->err)) &&
           OK(f, open_model(f, is_file)) &&
           OK(f, kiln_onnx_session_create_with(f->model, &f->device, 1, &options, &f->session,
                                               &f->err));
}

/// Takes the graph. `dtype` NONE: as configured.
static bool open_fixture(fixture *f, const char *address, pw *take_graph, kiln_dtype dtype)
{
    return open_as(f, address, take_graph, dtype, /*is_file=*/false);
}

static void close_fixture(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_onnx_session_destroy(f->session);
    kiln_onnx_model_close(f->model);
    OK(f, kiln_sync(f->device, &f->err));
    kiln_device_stats_get(f->device, &stats);
    KILN_CHECK_INT((int64_t)stats.tensors_live, 0);
    kiln_device_release(f->device);
    kiln_context_destroy(f->context);
    pw_free(&f->bytes);
}

/// Runs on x and reads the f32 that y is.
static bool run(fixture *f, const float *x, float *out, size_t count)
{
    kiln_onnx_input input = {.name = "x"};
    kiln_tensor *y = NULL;
    f->seen[0] = '\0';
    kiln_onnx_session_trace(f->session, see, f);
    bool ok = OK(f, kiln_tensor_create(f->device, KILN_DTYPE_F32, 2, square, x, &input.tensor,
                                       &f->err)) &&
              OK(f, kiln_onnx_session_run(f->session, &input, 1, &y, 1, &f->err)) &&
              KILN_CHECK_INT(kiln_tensor_dtype(y), KILN_DTYPE_F32) &&
              KILN_CHECK_INT((int64_t)kiln_tensor_bytes(y), (int64_t)(count * sizeof(*out))) &&
              OK(f, kiln_read(y, out, count * sizeof(*out), &f->err));
    kiln_onnx_session_trace(f->session, NULL, NULL);
    kiln_release(y);
    kiln_release(input.tensor);
    return ok;
}

/// What y is where the model is kept in `dtype`, and which node gave which type.
static bool result_in(pw (*make)(void), const char *address, kiln_dtype dtype, float *out,
                      size_t count, char *out_seen)
{
    float x[SIDE * SIDE];
    fixture f;
    pw graph = make();
    for (int i = 0; i < SIDE * SIDE; i++) {
        x[i] = (float)(i * 7 % 16) / 4 - 1.3F;
    }
    bool ok = open_fixture(&f, address, &graph, dtype) && run(&f, x, out, count);
    if (out_seen != NULL) {
        memcpy(out_seen, f.seen, sizeof(f.seen));
    }
    close_fixture(&f);
    return ok;
}

/// The same as in f32 within `tolerance` of the largest.
static void check_near(pw (*make)(void), const char *address, kiln_dtype dtype, size_t count,
                       double tolerance, char *out_seen)
{
    float wanted[MOST];
    float found[MOST];
    double most = 0;
    if (result_in(make, address, KILN_DTYPE_F32, wanted, count, NULL) &&
        result_in(make, address, dtype, found, count, out_seen)) {
        for (size_t i = 0; i < count; i++) {
            most = fmax(most, fabs((double)wanted[i]));
        }
        for (size_t i = 0; i < count; i++) {
            KILN_CHECK_NEAR((double)found[i], (double)wanted[i], tolerance * most);
        }
    }
}

// ---- which node gives which type ----

/// A product, what follows it, a norm written out, and a softmax.
static pw layers(void)
{
    static const float bias[] = {0.1F, 0.2F, 0.3F, 0.4F};
    pw graph = begin_graph();
    floats(&graph, "bias", row, 1, bias, SIDE);
    node(&graph, "Mul", NAMES("x", "x"), "before"); // of f32 alone
    node(&graph, "MatMul", NAMES("before", "w"), "product");
    node(&graph, "Add", NAMES("product", "bias"), "sum");
    node(&graph, "Relu", NAMES("sum"), "active");
    axis_node(&graph, "ReduceMean", "active", "mean");
    node(&graph, "Sub", NAMES("active", "mean"), "centred");
    node(&graph, "Mul", NAMES("centred", "bias"), "scaled");
    node(&graph, "Add", NAMES("active", "scaled"), "residual");
    node(&graph, "LayerNormalization", NAMES("residual", "bias"), "norm");
    axis_node(&graph, "Softmax", "norm", "shares");
    node(&graph, "MatMul", NAMES("shares", "w"), "y");
    return graph;
}

static void test_types_of_nodes(void)
{
    char seen[sizeof(((fixture *)0)->seen)] = "";
    check_near(layers, "reference:0", KILN_DTYPE_BF16, SIDE * SIDE, 0.03, seen);
    KILN_CHECK_STR(seen, "before:f32 product:bf16 sum:bf16 active:bf16 mean:f32 centred:f32 "
                         "scaled:f32 residual:bf16 norm:bf16 shares:bf16 y:bf16 ");
    check_near(layers, "reference:0", KILN_DTYPE_F16, SIDE * SIDE, 0.004, NULL);
}

static void test_on_a_device(void)
{
    check_near(layers, "opencl:0", KILN_DTYPE_BF16, SIDE * SIDE, 0.03, NULL);
}

/// Powers before a mean, beyond f16: x is at most 3, and 500 times that squared is 1.8e6.
static pw norm_in_parts(void)
{
    static const float two = 2;
    static const float many = 500;
    pw graph = begin_graph();
    floats(&graph, "two", NULL, 0, &two, 1);
    floats(&graph, "many", NULL, 0, &many, 1);
    node(&graph, "MatMul", NAMES("x", "w"), "product");
    node(&graph, "Mul", NAMES("product", "many"), "large");
    node(&graph, "Pow", NAMES("large", "two"), "square");
    axis_node(&graph, "ReduceMean", "square", "mean");
    node(&graph, "Sqrt", NAMES("mean"), "size");
    node(&graph, "Div", NAMES("large", "size"), "y");
    return graph;
}

static void test_squares_before_a_mean(void)
{
    check_near(norm_in_parts, "reference:0", KILN_DTYPE_F16, SIDE * SIDE, 0.004, NULL);
}

/// Angles of places: a product of one term.
static pw angles(void)
{
    static const float places[] = {1001, 1002, 1003, 1004};
    static const int64_t column[] = {SIDE, 1};
    static const int64_t line[] = {1, SIDE};
    static const float rates[] = {1, 0.3F, 0.1F, 0.03F};
    pw graph = begin_graph();
    floats(&graph, "places", column, 2, places, SIDE);
    floats(&graph, "rates", line, 2, rates, SIDE);
    axis_node(&graph, "ReduceMean", "x", "mean");
    node(&graph, "Add", NAMES("mean", "places"), "where");
    node(&graph, "MatMul", NAMES("where", "rates"), "angle");
    node(&graph, "Sin", NAMES("angle"), "y");
    return graph;
}

static void test_places_keep_their_bits(void)
{
    check_near(angles, "reference:0", KILN_DTYPE_BF16, SIDE * SIDE, 0, NULL);
}

// ---- what f16 has no room for ----

static pw masked(float hidden)
{
    const float mask[] = {0, 0, hidden, hidden, 0, 0, 0, hidden, 0, 0, 0, 0, 0, hidden, 0, 0};
    pw graph = begin_graph();
    floats(&graph, "mask", square, 2, mask, SIDE * SIDE);
    node(&graph, "MatMul", NAMES("x", "w"), "scores");
    node(&graph, "Add", NAMES("scores", "mask"), "seen");
    axis_node(&graph, "Softmax", "seen", "shares");
    node(&graph, "MatMul", NAMES("shares", "w"), "y");
    return graph;
}

static pw masked_far(void)
{
    return masked(-1e9F);
}

static pw masked_off(void)
{
    return masked(-INFINITY);
}

static void test_numbers_beyond_f16(void)
{
    char seen[sizeof(((fixture *)0)->seen)] = "";
    check_near(masked_far, "reference:0", KILN_DTYPE_F16, SIDE * SIDE, 0.004, seen);
    KILN_CHECK_STR(seen, "scores:f16 seen:f32 shares:f32 y:f16 ");
    check_near(masked_far, "reference:0", KILN_DTYPE_BF16, SIDE * SIDE, 0.03, seen);
    KILN_CHECK_STR(seen, "scores:bf16 seen:bf16 shares:bf16 y:bf16 ");
    check_near(masked_off, "reference:0", KILN_DTYPE_F16, SIDE * SIDE, 0.004, seen);
    KILN_CHECK_STR(seen, "scores:f16 seen:f16 shares:f16 y:f16 ");
}

/// A weight that f16 has no room for: the product stays in f32.
static pw large_weight(void)
{
    float large[SIDE * SIDE] = {1e6F};
    pw graph = begin_graph();
    floats(&graph, "large", square, 2, large, SIDE * SIDE);
    node(&graph, "MatMul", NAMES("x", "large"), "y");
    return graph;
}

static void test_weight_beyond_f16(void)
{
    check_near(large_weight, "reference:0", KILN_DTYPE_F16, SIDE * SIDE, 1e-6, NULL);
}

// ---- casts ----

static pw cast_back_and_forth(void)
{
    pw graph = begin_graph();
    node(&graph, "MatMul", NAMES("x", "w"), "a");
    cast_node(&graph, "a", F16, "b");
    cast_node(&graph, "b", F32, "c");
    node(&graph, "MatMul", NAMES("c", "w"), "y");
    return graph;
}

/// Casts between the model's type and that in which it is kept are nothing; what is left is that of
/// x and that of y.
static void test_casts_cancel(void)
{
    enum { OPERATIONS = 2 + 2 };
    float y[SIDE * SIDE];
    const float x[SIDE * SIDE] = {1};
    fixture f;
    pw graph = cast_back_and_forth();
    kiln_device_stats before = KILN_DEVICE_STATS_INIT;
    kiln_device_stats after = KILN_DEVICE_STATS_INIT;
    if (open_fixture(&f, "reference:0", &graph, KILN_DTYPE_F16)) {
        kiln_device_stats_get(f.device, &before);
        run(&f, x, y, SIDE * SIDE);
        kiln_device_stats_get(f.device, &after);
        KILN_CHECK_INT((int64_t)(after.ops_recorded - before.ops_recorded), OPERATIONS);
    }
    close_fixture(&f);
}

/// A batch normalisation whose statistics are none of f16's numbers.
static pw normalised(void)
{
    static const float scale[] = {1, 2, 3, 4};
    static const float mean[] = {0.1F, 0.2F, 70000, 0.3F};
    static const float variance[] = {1e-9F, 4e9F, 1e10F, 2};
    pw graph = begin_graph();
    floats(&graph, "scale", row, 1, scale, SIDE);
    floats(&graph, "mean", row, 1, mean, SIDE);
    floats(&graph, "variance", row, 1, variance, SIDE);
    node(&graph, "MatMul", NAMES("x", "w"), "a");
    node(&graph, "BatchNormalization", NAMES("a", "scale", "scale", "mean", "variance"), "y");
    return graph;
}

static void test_statistics_are_folded_first(void)
{
    char seen[sizeof(((fixture *)0)->seen)] = "";
    check_near(normalised, "reference:0", KILN_DTYPE_F16, SIDE * SIDE, 0.004, seen);
    KILN_CHECK_STR(seen, "a:f16 y:f16 ");
}

// ---- what is left alone ----

/// y is x where a sum says so; its length is read from the device in each run.
static pw with_reads(void)
{
    const int64_t flat[] = {-1};
    pw graph = begin_graph();
    pw shape = pw_tensor("flat", I64, row, 0, flat, sizeof(flat));
    pw length = pw_tensor("whole", I64, (const int64_t[]){1}, 1, flat, sizeof(flat));
    pw_message(&graph, 5, &shape);
    pw_message(&graph, 5, &length);
    node(&graph, "MatMul", NAMES("x", "w"), "a");
    node(&graph, "Relu", NAMES("a"), "b");
    node(&graph, "NonZero", NAMES("b"), "places");
    node(&graph, "Transpose", NAMES("places"), "rows");
    node(&graph, "GatherND", NAMES("b", "rows"), "found");
    node(&graph, "Add", NAMES("found", "found"), "twice");
    node(&graph, "Reshape", NAMES("twice", "whole"), "y");
    return graph;
}

/// Values that cross from one replayed part to another are as they were kept.
static void test_parts_are_replayed(void)
{
    enum { RUNS = 5 };
    float x[SIDE * SIDE] = {0};
    float first[SIDE * SIDE];
    float again[SIDE * SIDE];
    fixture f;
    pw graph = with_reads();
    x[0] = x[5] = 1;
    x[10] = 0.7F;
    if (open_fixture(&f, "reference:0", &graph, KILN_DTYPE_BF16)) {
        enum { FOUND = 4 }; // of 3 rows of w those above 0
        bool ok = run(&f, x, first, FOUND);
        kiln_onnx_session_trace(f.session, NULL, NULL);
        for (int i = 1; ok && i < RUNS; i++) {
            ok = run(&f, x, again, FOUND);
            KILN_CHECK(memcmp(first, again, FOUND * sizeof(float)) == 0);
        }
    }
    close_fixture(&f);
}

static pw quantised(void)
{
    pw graph = begin_graph();
    pw made = pw_node("DynamicQuantizeLinear", NAMES("x"), NAMES("q", "scale", "zero"));
    pw_message(&graph, 1, &made);
    node(&graph, "DequantizeLinear", NAMES("q", "scale", "zero"), "x2");
    node(&graph, "MatMul", NAMES("x2", "w"), "y");
    return graph;
}

static void test_quantised_models_stay(void)
{
    fixture f;
    pw graph = quantised();
    if (open_fixture(&f, "reference:0", &graph, KILN_DTYPE_F16)) {
        KILN_CHECK_INT(kiln_onnx_session_dtype(f.session), KILN_DTYPE_F32);
    }
    close_fixture(&f);
    check_near(quantised, "reference:0", KILN_DTYPE_F16, SIDE * SIDE, 0, NULL);
}

static void test_choice(void)
{
    fixture f;
    pw graph = layers();
    kiln_onnx_session *other = NULL;
    kiln_onnx_session_options options = KILN_ONNX_SESSION_OPTIONS_INIT;
    options.dtype = KILN_DTYPE_I32;
    if (open_fixture(&f, "reference:0", &graph, KILN_DTYPE_NONE)) {
        KILN_CHECK_INT(kiln_onnx_session_dtype(f.session), KILN_DTYPE_F32);
        KILN_CHECK_INT(
            kiln_onnx_session_create_with(f.model, &f.device, 1, &options, &other, &f.err),
            KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(f.err.message, "i32");
        f.err = (kiln_error)KILN_ERROR_INIT;
        OK(&f, kiln_context_set(f.context, "model-dtype", "bf16", &f.err));
        if (OK(&f, kiln_onnx_session_create(f.model, f.device, &other, &f.err))) {
            KILN_CHECK_INT(kiln_onnx_session_dtype(other), KILN_DTYPE_BF16);
        }
        kiln_onnx_session_destroy(other);
    }
    close_fixture(&f);
}

// ---- memory ----

enum { WIDE = 512 }; // a weight of 1 MiB in f32

static pw large_model(void)
{
    const int64_t wide[] = {SIDE, WIDE};
    pw graph = begin_graph();
    float *data = calloc((size_t)SIDE * WIDE * WIDE, sizeof(float));
    const int64_t deep[] = {WIDE, WIDE};
    for (int i = 0; data != NULL && i < WIDE * WIDE; i++) {
        data[i] = (float)(i % 7) / 7 - 0.4F;
    }
    if (KILN_CHECK(data != NULL)) {
        floats(&graph, "up", wide, 2, data, (size_t)SIDE * WIDE);
        floats(&graph, "deep", deep, 2, data, (size_t)WIDE * WIDE);
        free(data);
    }
    node(&graph, "MatMul", NAMES("x", "up"), "a");
    node(&graph, "MatMul", NAMES("a", "deep"), "b");
    axis_node(&graph, "ReduceMean", "b", "y");
    return graph;
}

/// Bytes of the device behind runs, by its own count. The model is a file, whose weights leave the
/// device when they are packed.
static uint64_t held_bytes(const char *address, kiln_dtype dtype)
{
    float x[SIDE * SIDE] = {1, 2, 3, 4};
    float y[SIDE];
    fixture f;
    pw graph = large_model();
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    if (open_as(&f, address, &graph, dtype, /*is_file=*/true)) {
        for (int i = 0; i < 3; i++) {
            run(&f, x, y, SIDE);
        }
        kiln_device_stats_get(f.device, &stats);
    }
    close_fixture(&f);
    return stats.backend.bytes_used;
}

static void check_half(const char *address)
{
    uint64_t whole = held_bytes(address, KILN_DTYPE_F32);
    uint64_t half = held_bytes(address, KILN_DTYPE_BF16);
    KILN_CHECK(whole >= (uint64_t)WIDE * WIDE * sizeof(float));
    KILN_CHECK(half >= (uint64_t)WIDE * WIDE * sizeof(uint16_t));
    if (half * 10 > whole * 6) {
        KILN_FAIL("%s keeps %llu bytes for f32 and %llu for bf16", address,
                  (unsigned long long)whole, (unsigned long long)half);
    }
}

static void test_half_the_memory(void)
{
    check_half("reference:0");
    check_half("opencl:0");
}

KILN_TEST_MAIN("unit/onnx/kept", KILN_TEST(test_types_of_nodes), KILN_TEST(test_on_a_device),
               KILN_TEST(test_squares_before_a_mean), KILN_TEST(test_places_keep_their_bits),
               KILN_TEST(test_numbers_beyond_f16), KILN_TEST(test_weight_beyond_f16),
               KILN_TEST(test_casts_cancel), KILN_TEST(test_statistics_are_folded_first),
               KILN_TEST(test_parts_are_replayed), KILN_TEST(test_quantised_models_stay),
               KILN_TEST(test_choice), KILN_TEST(test_half_the_memory))
