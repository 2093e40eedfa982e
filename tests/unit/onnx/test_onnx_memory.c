// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of models: what a run of the digits model holds beside what liveness alone needs, for one
// image and for many, fused and not; and that weights of a file are in memory once.
#include "harness.h"
#include "memory_bound.h"
#include "onnx.h"
#include "proto_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
    if (kiln_device_open(m->context, kiln_test_address(address), &m->device, &m->err) !=
        KILN_STATUS_OK) {
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

// ---- weights of a file ----

enum { LAYERS = 12, WIDTH = 1 << 20, WEIGHTS = LAYERS * WIDTH * (int)sizeof(float) };

static float weight_at(int layer, int i)
{
    return (float)((i + layer) % 5 + 1) / 4;
}

static float input_at(int i)
{
    return (float)(i % 7);
}

typedef enum storage { INSIDE, EXTERNAL, ALIGNED, HALVES } storage;

enum { ODD = 4 }; ///< bytes before the first of EXTERNAL

/// A weight in the file, in another file behind those before it, or in halves.
static pw weight_tensor(const char *name, const float *values, int layer, storage where)
{
    const int64_t dims[] = {WIDTH};
    const size_t bytes = WIDTH * sizeof(*values);
    if (where == INSIDE) {
        return pw_tensor(name, 1, dims, 1, values, bytes);
    }
    if (where == HALVES) {
        uint16_t *halves = malloc(WIDTH * sizeof(*halves));
        for (int i = 0; halves != NULL && i < WIDTH; i++) {
            halves[i] = kiln_f32_to_f16(values[i]);
        }
        pw tensor = pw_tensor(name, 10, dims, 1, halves, WIDTH * sizeof(*halves));
        free(halves);
        return tensor;
    }
    char offset[32], length[32];
    snprintf(offset, sizeof(offset), "%zu", (size_t)layer * bytes + (where == EXTERNAL ? ODD : 0));
    snprintf(length, sizeof(length), "%zu", bytes);
    const char *pairs[3][2] = {{"location", "layers.bin"}, {"offset", offset}, {"length", length}};
    pw tensor = pw_tensor(name, 1, dims, 1, NULL, 0);
    pw_int(&tensor, 14, 1);
    for (int i = 0; i < 3; i++) {
        pw entry = {0};
        pw_text(&entry, 1, pairs[i][0]);
        pw_text(&entry, 2, pairs[i][1]);
        pw_message(&tensor, 13, &entry);
    }
    return tensor;
}

/// A half becomes an f32 where it is used.
static void add_cast(pw *graph, char name[8])
{
    char wide[8];
    snprintf(wide, sizeof(wide), "f%.6s", name);
    pw cast = pw_node("Cast", (const char *const[]){name, NULL}, (const char *const[]){wide, NULL});
    pw_attr_int(&cast, "to", 1);
    pw_message(graph, 1, &cast);
    memcpy(name, wide, sizeof(wide));
}

/// LAYERS times x * w + 1, each w of its own; the first one is a result, too. `file` gets what is
/// external.
static pw layers_model(storage where, FILE *file)
{
    const int64_t dims[] = {WIDTH};
    const float one = 1;
    pw graph = {0};
    pw x = pw_value_info("x", 1, dims, 1), y = pw_value_info("y", 1, dims, 1);
    pw first = pw_value_info("w0", where == HALVES ? 10 : 1, dims, 1);
    pw scalar = pw_tensor("one", 1, NULL, 0, &one, 4);
    float *values = malloc(WIDTH * sizeof(*values));
    pw_message(&graph, 5, &scalar);
    for (int layer = 0; values != NULL && layer < LAYERS; layer++) {
        char w[8], in[8], product[8], out[8];
        for (int i = 0; i < WIDTH; i++) {
            values[i] = weight_at(layer, i);
        }
        snprintf(w, sizeof(w), "w%d", layer);
        snprintf(in, sizeof(in), layer == 0 ? "x" : "h%d", layer - 1);
        snprintf(product, sizeof(product), "p%d", layer);
        snprintf(out, sizeof(out), layer == LAYERS - 1 ? "y" : "h%d", layer);
        pw tensor = weight_tensor(w, values, layer, where);
        if (file != NULL) {
            KILN_CHECK(fwrite(values, sizeof(*values), WIDTH, file) == WIDTH);
        }
        if (where == HALVES) {
            add_cast(&graph, w);
        }
        pw mul = pw_node("Mul", (const char *const[]){in, w, NULL},
                         (const char *const[]){product, NULL});
        pw add = pw_node("Add", (const char *const[]){product, "one", NULL},
                         (const char *const[]){out, NULL});
        pw_message(&graph, 5, &tensor);
        pw_message(&graph, 1, &mul);
        pw_message(&graph, 1, &add);
    }
    free(values);
    pw_message(&graph, 11, &x);
    pw_message(&graph, 12, &y);
    pw_message(&graph, 12, &first);
    return pw_model(&graph, 13);
}

/// Gives the path of the model, whose other file is "layers.bin" beside it. The next call's takes
/// its place.
static const char *write_layers(storage where)
{
    const char *folder = kiln_test_tmpdir();
    bool beside = where == EXTERNAL || where == ALIGNED;
    FILE *file = beside ? fopen(kiln_test_path(folder, "layers.bin"), "wb") : NULL;
    if (where == EXTERNAL && file != NULL) {
        KILN_CHECK(fwrite("odd", 1, ODD, file) == ODD);
    }
    const char *path = kiln_test_path(folder, "layers.onnx");
    pw bytes = layers_model(where, file);
    bool written = kiln_test_write_file(path, bytes.bytes, bytes.length);
    pw_free(&bytes);
    if (file != NULL) {
        written = fclose(file) == 0 && written;
    }
    return written ? path : NULL;
}

static bool open_packing(model *m)
{
    const char *plugin = KILN_TEST_BUILD_DIR "/lib/kiln/test_plugins/prepack.so";
    *m = (model){.err = KILN_ERROR_INIT};
    setenv("KILN_PLUGINS", "test.prepack", 1);
    bool made = OK(m, kiln_context_create(NULL, &m->context, &m->err)) &&
                OK(m, kiln_plugin_load(m->context, plugin, &m->err));
    unsetenv("KILN_PLUGINS");
    if (made && kiln_device_open(m->context, kiln_test_address("opencl:0"), &m->device, &m->err) ==
                    KILN_STATUS_OK) {
        return true;
    }
    kiln_test_skip("no OpenCL device");
    kiln_context_destroy(m->context);
    return false;
}

static void check_layers(model *m, kiln_tensor *y)
{
    float *values = calloc(WIDTH, sizeof(*values));
    OK(m, kiln_read(y, values, WIDTH * sizeof(*values), &m->err));
    for (int i = 0; i < WIDTH; i += 1013) {
        float expected = input_at(i);
        for (int layer = 0; layer < LAYERS; layer++) {
            expected = expected * weight_at(layer, i) + 1;
        }
        KILN_CHECK_NEAR(values[i], expected, 1e-4 * fabs((double)expected));
    }
    free(values);
}

/// A run that packs all weights has neither the file nor the unpacked weights in memory at its end,
/// and only a few of these at a time. A weight that is a result outlives the model.
static void weights_are_there_once(storage where)
{
    const int64_t dims[] = {WIDTH};
    const char *path = write_layers(where);
    const char *weights = where == INSIDE ? "/layers.onnx" : "/layers.bin";
    // What is used where it lies in the file counts as the device's; the system has its pages back.
    const uint64_t most = (uint64_t)WEIGHTS + WEIGHTS / 2 + (where == ALIGNED ? WEIGHTS : 0);
    kiln_tensor *outputs[2] = {NULL, NULL};
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    model m;
    if (path == NULL || !open_packing(&m)) {
        return;
    }
    float *x = malloc(WIDTH * sizeof(*x));
    for (int i = 0; x != NULL && i < WIDTH; i++) {
        x[i] = input_at(i);
    }
    if (OK(&m, kiln_tensor_create(m.device, KILN_DTYPE_F32, 1, dims, x, &m.image, &m.err)) &&
        OK(&m, kiln_onnx_model_open(kiln_context_env(m.context), path, &m.file, &m.err)) &&
        OK(&m, kiln_onnx_session_create(m.file, m.device, &m.session, &m.err))) {
        const kiln_onnx_input input = {.name = "x", .tensor = m.image};
        OK(&m, kiln_graph_begin(m.device, &m.image, 1, &m.err));
        OK(&m, kiln_onnx_session_run(m.session, &input, 1, outputs, 2, &m.err));
        OK(&m, kiln_graph_end(m.device, outputs, 2, &m.graph, &m.err));
        for (int run = 0; run < 3; run++) {
            kiln_release(outputs[0]);
            kiln_release(outputs[1]);
            OK(&m, kiln_graph_run(m.graph, &m.image, 1, outputs, 2, &m.err));
            check_layers(&m, outputs[0]);
        }
        kiln_device_stats_get(m.device, &stats);
        printf("weights %d, most on the device %llu, of the file in memory %llu\n", WEIGHTS,
               (unsigned long long)stats.backend.bytes_peak,
               (unsigned long long)kiln_test_resident(weights));
        // Each is packed once, and the one that is a result is copied.
        KILN_CHECK_INT(stats.backend.kernels_launched, LAYERS + 3 * (LAYERS + 1));
        KILN_CHECK(stats.backend.bytes_used > (uint64_t)WEIGHTS);
        KILN_CHECK(stats.backend.bytes_peak < most);
        KILN_CHECK(kiln_test_resident(weights) < WEIGHTS / 8);
        kiln_release(outputs[0]);
        kiln_release(outputs[1]);
        OK(&m, kiln_onnx_session_run(m.session, &input, 1, outputs, 2, &m.err));
    }
    kiln_release(outputs[0]);
    kiln_tensor *first = outputs[1];
    kiln_graph_destroy(m.graph);
    kiln_onnx_session_destroy(m.session);
    kiln_onnx_model_close(m.file);
    if (KILN_CHECK(first != NULL && x != NULL)) {
        OK(&m, kiln_read(first, x, WIDTH * sizeof(*x), &m.err));
        KILN_CHECK(x[1] == weight_at(0, 1) && x[WIDTH - 1] == weight_at(0, WIDTH - 1));
    }
    kiln_release(first);
    KILN_CHECK_INT(kiln_test_resident(weights), 0);
    free(x);
    kiln_release(m.image);
    kiln_device_release(m.device);
    kiln_context_destroy(m.context);
}

static void test_weights_are_there_once(void)
{
    weights_are_there_once(INSIDE);
    weights_are_there_once(EXTERNAL);
    weights_are_there_once(ALIGNED);
}

/// Halves stay halves on the device, and what they become where they are used goes again; of the
/// file nothing is left in memory.
static void test_halves_stay_halves(void)
{
    const int64_t dims[] = {WIDTH};
    const char *path = write_layers(HALVES);
    model m = {.err = KILN_ERROR_INIT};
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    float *x = malloc(WIDTH * sizeof(*x));
    bool ok = path != NULL && OK(&m, kiln_context_create(NULL, &m.context, &m.err)) &&
              OK(&m, kiln_device_open(m.context, "reference:0", &m.device, &m.err)) &&
              OK(&m, kiln_onnx_model_open(kiln_context_env(m.context), path, &m.file, &m.err)) &&
              OK(&m, kiln_onnx_session_create(m.file, m.device, &m.session, &m.err));
    for (int i = 0; x != NULL && i < WIDTH; i++) {
        x[i] = input_at(i);
    }
    ok = ok && OK(&m, kiln_tensor_create(m.device, KILN_DTYPE_F32, 1, dims, x, &m.image, &m.err));
    for (int run = 0; ok && run < 4; run++) {
        const kiln_onnx_input input = {.name = "x", .tensor = m.image};
        kiln_tensor *outputs[2] = {NULL, NULL};
        ok = OK(&m, kiln_onnx_session_run(m.session, &input, 1, outputs, 2, &m.err));
        check_layers(&m, outputs[0]);
        kiln_release(outputs[0]);
        KILN_CHECK(outputs[1] != NULL && kiln_tensor_dtype(outputs[1]) == KILN_DTYPE_F16);
        kiln_release(outputs[1]);
    }
    kiln_device_stats_get(m.device, &stats);
    printf("halves %d, most on the device %llu, of the file in memory %llu\n", WEIGHTS / 2,
           (unsigned long long)stats.backend.bytes_peak,
           (unsigned long long)kiln_test_resident("/layers.onnx"));
    KILN_CHECK(stats.backend.bytes_peak < (uint64_t)WEIGHTS / 2 + WEIGHTS / 4 + WEIGHTS / 6);
    KILN_CHECK(kiln_test_resident("/layers.onnx") < WEIGHTS / 8);
    free(x);
    close_model(&m);
}

// ---- a model that is too large ----

/* Refused before anything is copied, and the message says how much there is and may be. */
static void test_too_large_is_refused(void)
{
    model m = {.err = KILN_ERROR_INIT};
    bool ok = OK(&m, kiln_context_create(NULL, &m.context, &m.err)) &&
              OK(&m, kiln_device_open(m.context, "reference:0", &m.device, &m.err)) &&
              OK(&m, kiln_onnx_model_open(kiln_context_env(m.context),
                                          KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx",
                                          &m.file, &m.err)) &&
              OK(&m, kiln_device_set_memory_budget(m.device, 1000, &m.err));
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    if (ok) {
        KILN_CHECK_INT(kiln_onnx_session_create(m.file, m.device, &m.session, &m.err),
                       KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK_CONTAINS(m.err.message, "the model's constants have ");
        KILN_CHECK_CONTAINS(m.err.message, "reference:0 may hold 1000 (0 MiB)");
        kiln_device_stats_get(m.device, &stats);
        KILN_CHECK_INT((int64_t)stats.bytes_uploaded, 0);
        KILN_CHECK(OK(&m, kiln_device_set_memory_budget(m.device, 1 << 24, &m.err)) &&
                   OK(&m, kiln_onnx_session_create(m.file, m.device, &m.session, &m.err)));
    }
    close_model(&m);
}

KILN_TEST_MAIN("unit/onnx/memory", KILN_TEST(test_digits_peak),
               KILN_TEST(test_weights_are_there_once), KILN_TEST(test_halves_stay_halves),
               KILN_TEST(test_too_large_is_refused))
