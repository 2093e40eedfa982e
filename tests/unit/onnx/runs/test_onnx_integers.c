// SPDX-License-Identifier: MIT OR Apache-2.0
// QLinearConv and what stands between two of them: the results are those of whole numbers, and on a
// processor they are one block, which computes in integers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

enum {
    HEIGHT = 11,
    WIDTH = 9,
    PLACES = HEIGHT * WIDTH,
    IN = 5,
    OUT = 20,
    FLOAT = 1,
    UINT8 = 2,
    INT8 = 3,
    INT32 = 6
};

/// A convolution of 3x3 among zeros, and all its numbers.
typedef struct product {
    int inputs;
    bool is_signed; ///< the weights
    uint8_t weights[OUT * OUT * 9]; ///< i8 where signed
    uint8_t zeros[OUT]; ///< of the weights
    float scales[OUT];
    int32_t bias[OUT];
    float in_scale, out_scale;
    uint8_t in_zero, out_zero;
} product;

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static product make_product(int inputs, bool is_signed, float in_scale, int in_zero, uint32_t seed)
{
    product p = {.inputs = inputs,
                 .is_signed = is_signed,
                 .in_scale = in_scale,
                 .in_zero = (uint8_t)in_zero,
                 .out_scale = 0.07f,
                 .out_zero = 113};
    for (int i = 0; i < OUT * inputs * 9; i++) {
        p.weights[i] = (uint8_t)next(&seed);
    }
    for (int i = 0; i < OUT; i++) {
        p.zeros[i] = (uint8_t)(is_signed ? 0 : 131);
        p.scales[i] = 0.0003f * (float)(1 + next(&seed) % 5);
        p.bias[i] = (int32_t)(next(&seed) % 20000) - 10000;
    }
    return p;
}

// ---- whole numbers ----

static int weight_of(const product *p, size_t at, int o)
{
    int zero = p->is_signed ? (int8_t)p->zeros[o] : p->zeros[o];
    return (p->is_signed ? (int8_t)p->weights[at] : p->weights[at]) - zero;
}

static uint8_t to_byte(double value, int zero)
{
    double whole = nearbyint(value) + zero;
    return (uint8_t)(whole < 0 ? 0 : whole > 255 ? 255 : whole);
}

static uint8_t expected_at(const product *p, const uint8_t *x, int o, int row, int column)
{
    int32_t sum = p->bias[o];
    for (int c = 0; c < p->inputs; c++) {
        for (int k = 0; k < 9; k++) {
            int y = row + k / 3 - 1, at = column + k % 3 - 1;
            if (y >= 0 && y < HEIGHT && at >= 0 && at < WIDTH) {
                sum += (x[(c * HEIGHT + y) * WIDTH + at] - p->in_zero) *
                       weight_of(p, (size_t)(o * p->inputs + c) * 9 + (size_t)k, o);
            }
        }
    }
    float unit = p->in_scale * p->scales[o] / p->out_scale;
    return to_byte((double)((float)sum * unit), p->out_zero);
}

static void expected_conv(const product *p, const uint8_t *x, uint8_t *out)
{
    for (int i = 0; i < OUT * PLACES; i++) {
        out[i] = expected_at(p, x, i / PLACES, i % PLACES / WIDTH, i % WIDTH);
    }
}

// ---- the model ----

static void put_tensor(pw *graph, const char *name, int32_t type, int64_t count, const void *data)
{
    size_t bytes = (size_t)count * (type == FLOAT || type == INT32 ? 4 : 1);
    pw tensor = pw_tensor(name, type, &count, count > 1 ? 1 : 0, data, bytes);
    pw_message(graph, 5, &tensor);
}

static void put_units(pw *graph, const char *name, float scale, uint8_t zero)
{
    char text[16];
    snprintf(text, sizeof(text), "%s_s", name);
    put_tensor(graph, text, FLOAT, 1, &scale);
    snprintf(text, sizeof(text), "%s_z", name);
    put_tensor(graph, text, UINT8, 1, &zero);
}

static void put_product(pw *graph, const product *p, const char *name)
{
    const int64_t dims[] = {OUT, p->inputs, 3, 3};
    int32_t type = p->is_signed ? INT8 : UINT8;
    char text[16];
    snprintf(text, sizeof(text), "%s_w", name);
    pw weights = pw_tensor(text, type, dims, 4, p->weights, (size_t)(OUT * p->inputs * 9));
    pw_message(graph, 5, &weights);
    snprintf(text, sizeof(text), "%s_ws", name);
    put_tensor(graph, text, FLOAT, OUT, p->scales);
    snprintf(text, sizeof(text), "%s_wz", name);
    put_tensor(graph, text, type, OUT, p->zeros);
    snprintf(text, sizeof(text), "%s_b", name);
    put_tensor(graph, text, INT32, OUT, p->bias);
    put_units(graph, name, p->out_scale, p->out_zero);
}

static void put_conv(pw *graph, const char *const *inputs, const char *output)
{
    const int64_t ones[] = {1, 1, 1, 1};
    const char *const outputs[] = {output, NULL};
    pw node = pw_node("QLinearConv", inputs, outputs);
    pw_attr_ints(&node, "pads", ones, 4);
    pw_message(graph, 1, &node);
}

/// y = a convolution of x, z = one of y, sum = y + z.
static pw write_model(const product *first, const product *second)
{
    static const char *const in[] = {"x",    "x_s", "x_z", "y_w", "y_ws",
                                     "y_wz", "y_s", "y_z", "y_b", NULL};
    static const char *const behind[] = {"y",    "y_s", "y_z", "z_w", "z_ws",
                                         "z_wz", "z_s", "z_z", "z_b", NULL};
    static const char *const sum[] = {"y", "y_s", "y_z", "z", "z_s", "z_z", "s_s", "s_z", NULL};
    static const char *const sum_out[] = {"sum", NULL};
    static const char *const names[] = {"y", "z", "sum"};
    const int64_t dims[] = {1, IN, HEIGHT, WIDTH};
    pw graph = {0}, opset = {0}, x = pw_value_info("x", UINT8, dims, 4);
    put_conv(&graph, in, "y");
    put_conv(&graph, behind, "z");
    pw node = pw_node("QLinearAdd", sum, sum_out);
    pw_text(&node, 7, "com.microsoft");
    pw_message(&graph, 1, &node);
    put_units(&graph, "x", first->in_scale, first->in_zero);
    put_product(&graph, first, "y");
    put_product(&graph, second, "z");
    put_units(&graph, "s", 0.11f, 97);
    pw_message(&graph, 11, &x);
    for (int i = 0; i < 3; i++) {
        pw out = {0};
        pw_text(&out, 1, names[i]);
        pw_message(&graph, 12, &out);
    }
    pw model = pw_model(&graph, 17);
    pw_text(&opset, 1, "com.microsoft");
    pw_int(&opset, 2, 1);
    pw_message(&model, 8, &opset);
    return model;
}

// ---- running ----

typedef struct results {
    uint8_t y[OUT * PLACES], z[OUT * PLACES], sum[OUT * PLACES];
    uint64_t blocks, left; ///< operations that no block has
    bool is_processor;
} results;

static kiln_status run_session(kiln_onnx_session *session, kiln_device *device, const uint8_t *x,
                               results *out, kiln_error *err)
{
    const int64_t dims[] = {1, IN, HEIGHT, WIDTH};
    kiln_tensor *in = NULL, *given[3] = {NULL};
    uint8_t *to[] = {out->y, out->z, out->sum};
    kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
    kiln_status status = kiln_tensor_create(device, KILN_DTYPE_U8, 4, dims, x, &in, err);
    const kiln_onnx_input input = {.name = "x", .tensor = in};
    kiln_device_stats_get(device, &before);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run(session, &input, 1, given, 3, err);
    }
    for (int i = 0; i < 3; i++) {
        if (status == KILN_STATUS_OK) {
            status = kiln_read(given[i], to[i], OUT * PLACES, err);
        }
    }
    kiln_device_stats_get(device, &after);
    out->blocks = after.blocks_fused - before.blocks_fused;
    out->left = after.ops_recorded - before.ops_recorded - (after.ops_fused - before.ops_fused);
    for (int i = 0; i < 3; i++) {
        kiln_release(given[i]);
    }
    kiln_release(in);
    return status;
}

static bool run_on(const char *address, const pw *bytes, const uint8_t *x, results *out)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_onnx_model *model = NULL;
    kiln_onnx_session *session = NULL;
    kiln_status status = kiln_context_create(NULL, &context, &err);
    KILN_TRY(out, status, kiln_context_set(context, "plugins", "org.kiln.convolution", &err));
    KILN_TRY(out, status, kiln_context_set(context, "fuse-slower", "1", &err));
    KILN_TRY(out, status, kiln_context_set(context, "tune", "off", &err));
    KILN_TRY(out, status, kiln_device_open(context, kiln_test_address(address), &device, &err));
    KILN_TRY(out, status,
             kiln_onnx_model_open_memory(kiln_context_env(context), bytes->bytes, bytes->length,
                                         NULL, &model, &err));
    KILN_TRY(out, status, kiln_onnx_session_create(model, device, &session, &err));
    KILN_TRY(out, status, run_session(session, device, x, out, &err));
out:
    kiln_onnx_session_destroy(session);
    kiln_onnx_model_close(model);
    if (status != KILN_STATUS_OK && strcmp(address, "reference:0") != 0) {
        kiln_test_skip("%s: %s", address, err.message);
    } else if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s: %s", address, err.message);
    } else {
        out->is_processor = kiln_device_info_of(device)->type == KILN_DEVICE_CPU;
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status == KILN_STATUS_OK;
}

/// `steps`: how far a result may be away.
static void compare(const char *device, const char *name, const uint8_t *is, const uint8_t *wanted,
                    int steps)
{
    for (int i = 0; i < OUT * PLACES; i++) {
        if (abs(is[i] - wanted[i]) > steps) {
            KILN_FAIL("%s: element %d of %s is %d, wanted %d", device, i, name, is[i], wanted[i]);
            return;
        }
    }
}

/// The sum of what the device has found, so that the two products are judged by themselves.
static void expected_sum(const product *first, const product *second, const results *r,
                         uint8_t *out)
{
    for (int i = 0; i < OUT * PLACES; i++) {
        float y = (float)(r->y[i] - first->out_zero) * first->out_scale;
        float z = (float)(r->z[i] - second->out_zero) * second->out_scale;
        out[i] = to_byte((double)((y + z) / 0.11f), 97);
    }
}

static void check_on(const char *address)
{
    static results r;
    static uint8_t x[IN * PLACES], wanted[OUT * PLACES];
    product first = make_product(IN, true, 0.04f, 120, 1);
    product second = make_product(OUT, false, first.out_scale, first.out_zero, 2);
    uint32_t seed = 3;
    for (int i = 0; i < IN * PLACES; i++) {
        x[i] = (uint8_t)next(&seed);
    }
    pw bytes = write_model(&first, &second);
    if (run_on(address, &bytes, x, &r)) {
        expected_conv(&first, x, wanted);
        compare(address, "y", r.y, wanted, 0);
        expected_conv(&second, r.y, wanted);
        compare(address, "z", r.z, wanted, 0);
        expected_sum(&first, &second, &r, wanted);
        compare(address, "sum", r.sum, wanted, 1); // a sum of two floats may be at a tie
        if (r.is_processor) { // which regions are for
            KILN_CHECK_INT(r.blocks, 1);
            KILN_CHECK_INT(r.left, 0);
        }
    }
    pw_free(&bytes);
}

static void test_reference(void)
{
    check_on("reference:0");
}

static void test_region(void)
{
    check_on("opencl:0");
}

KILN_TEST_MAIN("unit/onnx/onnx_integers", KILN_TEST(test_reference), KILN_TEST(test_region))
