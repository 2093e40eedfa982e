// SPDX-License-Identifier: MIT OR Apache-2.0
// A model on several devices: where it is cut, that its results are those of one device, in
// replayed runs and with bindings, and what is said when all of them are too small.
#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OK(f, call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, (f)->err.message)

enum { LAYERS = 8, WIDTH = 1 << 16, BYTES = WIDTH * (int)sizeof(float), RUNS = 5, MOST = 3 };

typedef struct fixture {
    kiln_context *context;
    kiln_device *devices[MOST];
    size_t n_devices;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_tensor *x;
    kiln_error err;
} fixture;

static float weight_at(int layer, int i)
{
    return (float)((i + layer) % 3 + 1) / 2;
}

static void add_node(pw *graph, const char *op, const char *a, const char *b, const char *out)
{
    pw node = pw_node(op, NAMES(a, b), NAMES(out));
    pw_message(graph, 1, &node);
}

static void add_weight(pw *graph, int layer, float *scratch)
{
    const int64_t dims[] = {1, WIDTH};
    char name[8];
    for (int i = 0; i < WIDTH; i++) {
        scratch[i] = weight_at(layer, i);
    }
    snprintf(name, sizeof(name), "w%d", layer);
    pw tensor = pw_tensor(name, 1, dims, 2, scratch, BYTES);
    pw_message(graph, 5, &tensor);
}

static void add_layer(pw *graph, int layer, int weight)
{
    char w[8], in[8], product[8], out[8];
    snprintf(w, sizeof(w), "w%d", weight);
    snprintf(in, sizeof(in), layer == 0 ? "x" : "h%d", layer - 1);
    snprintf(product, sizeof(product), "p%d", layer);
    snprintf(out, sizeof(out), "h%d", layer);
    add_node(graph, "Mul", in, w, product);
    add_node(graph, "Add", product, "count", out);
}

/// LAYERS times h * w + 2, then once more with the first w; y is the sum of past and what came of
/// x. The 2 is a number that follows from x's shape, made at the beginning and read to the end.
static pw layers_model(void)
{
    const int64_t dims[] = {1, WIDTH}, open[] = {-1, WIDTH}, axes[] = {0}, first[] = {0};
    pw graph = {0};
    float *scratch = malloc(BYTES);
    pw index = pw_tensor("index", 7, NULL, 0, first, sizeof(first));
    pw_message(&graph, 5, &index);
    for (int layer = 0; scratch != NULL && layer < LAYERS; layer++) {
        add_weight(&graph, layer, scratch);
    }
    free(scratch);
    pw shape = pw_node("Shape", NAMES("x"), NAMES("shape"));
    pw_message(&graph, 1, &shape);
    add_node(&graph, "Gather", "shape", "index", "rows");
    pw cast = pw_node("Cast", NAMES("rows"), NAMES("one"));
    pw_attr_int(&cast, "to", 1);
    pw_message(&graph, 1, &cast);
    add_node(&graph, "Add", "one", "one", "count");
    for (int layer = 0; layer <= LAYERS; layer++) {
        add_layer(&graph, layer, layer % LAYERS);
    }
    pw concat = pw_node("Concat", NAMES("past", "h8"), NAMES("kept"));
    pw_attr_int(&concat, "axis", 0);
    pw_message(&graph, 1, &concat);
    pw sum = pw_node("ReduceSum", NAMES("kept"), NAMES("y"));
    pw_attr_ints(&sum, "axes", axes, 1);
    pw_message(&graph, 1, &sum);
    pw infos[] = {pw_value_info("x", 1, dims, 2), pw_value_info("past", 1, open, 2),
                  pw_value_info("y", 1, dims, 2), pw_value_info("kept", 1, open, 2)};
    for (int i = 0; i < 4; i++) {
        pw_message(&graph, i < 2 ? 11 : 12, &infos[i]);
    }
    return pw_model(&graph, 12);
}

static double expected_at(int i, int rows)
{
    double h = i % 7;
    for (int layer = 0; layer <= LAYERS; layer++) {
        h = h * (double)weight_at(layer % LAYERS, i) + 2;
    }
    return h * rows;
}

static bool open_devices(fixture *f, const char *const *addresses, uint64_t budget)
{
    *f = (fixture){.err = KILN_ERROR_INIT};
    if (!OK(f, kiln_context_create(NULL, &f->context, &f->err))) {
        return false;
    }
    for (; addresses[f->n_devices] != NULL; f->n_devices++) {
        kiln_device **device = &f->devices[f->n_devices];
        if (kiln_device_open(f->context, addresses[f->n_devices], device, &f->err) !=
            KILN_STATUS_OK) {
            kiln_test_skip("%s: %s", addresses[f->n_devices], f->err.message);
            return false;
        }
        OK(f, kiln_device_set_memory_budget(*device, budget, &f->err));
    }
    return true;
}

static kiln_status open_model(fixture *f, const pw *bytes)
{
    kiln_status status = kiln_onnx_model_open_memory(kiln_context_env(f->context), bytes->bytes,
                                                     bytes->length, NULL, &f->model, &f->err);
    return status == KILN_STATUS_OK ? kiln_onnx_session_create_across(
                                          f->model, f->devices, f->n_devices, &f->session, &f->err)
                                    : status;
}

static void close_fixture(fixture *f)
{
    kiln_onnx_session_destroy(f->session);
    kiln_onnx_model_close(f->model);
    kiln_release(f->x);
    for (size_t i = 0; i < f->n_devices; i++) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        KILN_CHECK(kiln_sync(f->devices[i], &f->err) == KILN_STATUS_OK);
        kiln_device_stats_get(f->devices[i], &stats);
        KILN_CHECK_INT((int64_t)stats.tensors_live, 0);
        kiln_device_release(f->devices[i]);
    }
    kiln_context_destroy(f->context);
}

/// Tensors of `rows` rows of numbers, on the device at `place`.
static kiln_tensor *rows_on(fixture *f, size_t place, int rows)
{
    const int64_t dims[] = {rows, WIDTH};
    kiln_tensor *tensor = NULL;
    float *data = calloc((size_t)rows + 1, BYTES);
    for (int i = 0; data != NULL && i < rows * WIDTH; i++) {
        data[i] = (float)(i % WIDTH % 7);
    }
    OK(f, kiln_tensor_create(f->devices[place], KILN_DTYPE_F32, 2, dims, data, &tensor, &f->err));
    free(data);
    return tensor;
}

static void check_sum(fixture *f, kiln_tensor *y, int rows)
{
    float *values = calloc(1, BYTES);
    if (y != NULL && OK(f, kiln_read(y, values, BYTES, &f->err))) {
        for (int i = 0; i < WIDTH; i += 1013) {
            KILN_CHECK_NEAR(values[i], expected_at(i, rows), 1e-4 * expected_at(i, rows));
        }
    }
    free(values);
}

typedef struct parts {
    kiln_onnx_part_info infos[MOST];
    size_t count;
} parts;

static void note_part(const kiln_onnx_part_info *info, void *user)
{
    parts *all = user;
    if (KILN_CHECK(all->count < MOST)) {
        all->infos[all->count++] = *info;
    }
}

static parts parts_of(const fixture *f)
{
    parts all = {.count = 0};
    kiln_onnx_session_parts(f->session, note_part, &all);
    return all;
}

static void note_graph(const kiln_onnx_graph_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
}

/// The parts follow each other, each on the device at its place, with constants that fit.
static void check_parts(const fixture *f, uint64_t budget)
{
    parts all = parts_of(f);
    uint32_t next = 0;
    KILN_CHECK_INT((int64_t)all.count, (int64_t)f->n_devices);
    for (size_t i = 0; i < all.count; i++) {
        const kiln_onnx_part_info *part = &all.infos[i];
        KILN_CHECK(part->device == f->devices[i]);
        KILN_CHECK(part->first_node == next && part->n_nodes > 0);
        KILN_CHECK(part->constant_bytes >= BYTES && part->constant_bytes <= budget);
        KILN_CHECK_INT(part->n_cut, i == 0 ? 0 : 2); // what flows, and the number
        next += part->n_nodes;
    }
    KILN_CHECK_INT(next, 4 + 2 * (LAYERS + 1) + 2);
}

/// Runs as one device would; from the third run on each part is a graph.
static void split_on(const char *const *addresses)
{
    const uint64_t budget = 13 * (uint64_t)BYTES;
    kiln_onnx_input inputs[] = {{.name = "x"}, {.name = "past"}};
    fixture f;
    pw bytes = layers_model();
    if (!open_devices(&f, addresses, budget) || !OK(&f, open_model(&f, &bytes))) {
        pw_free(&bytes);
        close_fixture(&f);
        return;
    }
    check_parts(&f, budget);
    inputs[0].tensor = rows_on(&f, 0, 1);
    inputs[1].tensor = rows_on(&f, f.n_devices - 1, 0);
    for (int run = 0; run < RUNS; run++) {
        kiln_tensor *outputs[2] = {NULL};
        if (OK(&f, kiln_onnx_session_run(f.session, inputs, 2, outputs, 2, &f.err))) {
            check_sum(&f, outputs[0], 1);
        }
        kiln_release(outputs[0]);
        kiln_release(outputs[1]);
    }
    int graphs = 0;
    kiln_onnx_session_graphs(f.session, note_graph, &graphs);
    KILN_CHECK_INT(graphs, (int64_t)f.n_devices);
    for (size_t i = 0; i < f.n_devices; i++) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(f.devices[i], &stats);
        KILN_CHECK(stats.backend.bytes_peak <= budget);
    }
    kiln_release(inputs[0].tensor);
    kiln_release(inputs[1].tensor);
    pw_free(&bytes);
    close_fixture(&f);
}

static void test_split(void)
{
    split_on(NAMES("reference:0", "reference:0"));
    split_on(NAMES("opencl:0#0/2", "opencl:0#1/2"));
    split_on(NAMES("opencl:0", "reference:0"));
}

/// What a part keeps for the next run stays where it was made.
static void bound_on(const char *const *addresses)
{
    fixture f;
    pw bytes = layers_model();
    kiln_onnx_input inputs[] = {{.name = "x"}, {.name = "past"}};
    if (open_devices(&f, addresses, 13 * (uint64_t)BYTES) && OK(&f, open_model(&f, &bytes)) &&
        OK(&f, kiln_onnx_session_bind(f.session, "kept", "past", 0, &f.err))) {
        inputs[0].tensor = rows_on(&f, 0, 1);
        inputs[1].tensor = rows_on(&f, 0, 0);
        OK(&f, kiln_device_set_memory_budget(f.devices[1], 0, &f.err)); // room for 64 rows
        for (int run = 0; run < RUNS - 1; run++) {
            kiln_tensor *outputs[2] = {NULL};
            OK(&f, kiln_onnx_session_run(f.session, inputs, run == 0 ? 2 : 1, outputs, 2, &f.err));
            check_sum(&f, outputs[0], run + 1);
            kiln_release(outputs[0]);
            KILN_CHECK(outputs[1] == NULL);
        }
        kiln_tensor *kept = NULL;
        if (OK(&f, kiln_onnx_session_bound(f.session, "past", &kept, &f.err))) {
            KILN_CHECK(kiln_tensor_device(kept) == f.devices[1]);
            KILN_CHECK_INT(kiln_tensor_dims(kept)[0], RUNS - 1);
        }
        kiln_release(kept);
    }
    kiln_release(inputs[0].tensor);
    kiln_release(inputs[1].tensor);
    pw_free(&bytes);
    close_fixture(&f);
}

static void test_bound(void)
{
    bound_on(NAMES("reference:0", "reference:0"));
    bound_on(NAMES("opencl:0#0/2", "opencl:0#1/2"));
}

/// What fits into half of the first device stays there; what fits nowhere is refused in numbers.
static void test_room(void)
{
    fixture f;
    pw bytes = layers_model();
    if (open_devices(&f, NAMES("reference:0", "reference:0"), 2 * LAYERS * (uint64_t)BYTES + 100) &&
        OK(&f, open_model(&f, &bytes))) {
        KILN_CHECK_INT((int64_t)parts_of(&f).count, 1);
    }
    close_fixture(&f);
    if (open_devices(&f, NAMES("reference:0", "reference:0"), 3 * (uint64_t)BYTES)) {
        KILN_CHECK_INT(open_model(&f, &bytes), KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK_CONTAINS(f.err.message, "the model's constants have ");
        KILN_CHECK_CONTAINS(f.err.message,
                            "reference:0 may hold 786432 (0 MiB), reference:0 may hold 786432");
        KILN_CHECK_CONTAINS(f.err.message, "take devices with more memory");
    }
    close_fixture(&f);
    if (open_devices(&f, NAMES("reference:0", "reference:0"), BYTES - 1)) {
        KILN_CHECK_INT(open_model(&f, &bytes), KILN_STATUS_RESOURCE_EXHAUSTED);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

KILN_TEST_MAIN("unit/onnx/split", KILN_TEST(test_split), KILN_TEST(test_bound),
               KILN_TEST(test_room))
