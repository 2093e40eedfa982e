// SPDX-License-Identifier: MIT OR Apache-2.0
// Random operators of ONNX: new numbers in each run, the same ones for the same seed, captured or
// not, and the frequencies of Multinomial and Dropout.
#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

#include <math.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
enum { N = 2000 };

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    pw bytes;
    kiln_error err;
} fixture;

static bool ok(fixture *f, kiln_status status)
{
    return kiln_test_check(status == KILN_STATUS_OK, __FILE__, __LINE__, f->err.message);
}

/* A model of one node whose output is y. */
static bool open_model(fixture *f, pw *node, pw *extra)
{
    *f = (fixture){.err = KILN_ERROR_INIT};
    pw graph = {0};
    pw output = pw_value_info("y", 1, NULL, 0);
    pw_message(&graph, 1, node);
    if (extra != NULL) {
        pw_raw(&graph, extra->bytes, extra->length);
        pw_free(extra);
    }
    pw_message(&graph, 12, &output);
    f->bytes = pw_model(&graph, 15);
    return ok(f, kiln_context_create(NULL, &f->context, &f->err)) &&
           ok(f, kiln_device_open(f->context, "reference:0", &f->device, &f->err)) &&
           ok(f, kiln_onnx_model_open_memory(kiln_context_env(f->context), f->bytes.bytes,
                                             f->bytes.length, NULL, &f->model, &f->err)) &&
           ok(f, kiln_onnx_session_create(f->model, f->device, &f->session, &f->err));
}

static void close_model(fixture *f)
{
    kiln_onnx_session_destroy(f->session);
    kiln_onnx_model_close(f->model);
    kiln_device_release(f->device);
    kiln_context_destroy(f->context);
    pw_free(&f->bytes);
}

static void run(fixture *f, void *out, size_t bytes)
{
    kiln_tensor *y = NULL;
    if (ok(f, kiln_onnx_session_run(f->session, NULL, 0, &y, 1, &f->err))) {
        ok(f, kiln_read(y, out, bytes, &f->err));
    }
    kiln_release(y);
}

static pw random_normal(bool seeded)
{
    const int64_t shape[] = {N};
    pw node = pw_node("RandomNormal", NAMES(NULL), NAMES("y"));
    pw_attr_ints(&node, "shape", shape, 1);
    pw_attr_float(&node, "mean", 3);
    pw_attr_float(&node, "scale", 0.5F);
    if (seeded) {
        pw_attr_float(&node, "seed", 1.5F);
    }
    return node;
}

static float runs[4][N];

static void test_runs_differ(void)
{
    fixture f;
    pw node = random_normal(false);
    if (!open_model(&f, &node, NULL)) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            ok(&f, kiln_seed(f.device, 11, &f.err));
        }
        run(&f, runs[i], sizeof(runs[i]));
    }
    KILN_CHECK(memcmp(runs[0], runs[1], sizeof(runs[0])) != 0);
    KILN_CHECK_MEM(runs[0], runs[2], sizeof(runs[0]));
    KILN_CHECK_MEM(runs[1], runs[3], sizeof(runs[0]));
    double sum = 0;
    for (int i = 0; i < N; i++) {
        sum += runs[0][i];
    }
    KILN_CHECK(fabs(sum / N - 3) < 4 * 0.5 / sqrt(N));
    close_model(&f);
}

static void test_seeded_runs_agree(void)
{
    fixture f;
    pw node = random_normal(true);
    if (!open_model(&f, &node, NULL)) {
        return;
    }
    run(&f, runs[0], sizeof(runs[0]));
    run(&f, runs[1], sizeof(runs[1]));
    KILN_CHECK_MEM(runs[0], runs[1], sizeof(runs[0]));
    close_model(&f);
}

static void test_multinomial(void)
{
    fixture f;
    const int64_t dims[] = {1, 3};
    const float logs[] = {logf(0.2F), -INFINITY, logf(0.8F)};
    static int32_t drawn[N];
    int counts[3] = {0};
    pw node = pw_node("Multinomial", NAMES("x"), NAMES("y"));
    pw_attr_int(&node, "sample_size", N);
    pw extra = {0};
    pw tensor = pw_tensor("x", 1, dims, 2, logs, sizeof(logs));
    pw_message(&extra, 5, &tensor);
    if (!open_model(&f, &node, &extra)) {
        return;
    }
    run(&f, drawn, sizeof(drawn));
    for (int i = 0; i < N; i++) {
        if (KILN_CHECK(drawn[i] >= 0 && drawn[i] < 3)) {
            counts[drawn[i]]++;
        }
    }
    KILN_CHECK_INT(counts[1], 0);
    KILN_CHECK(fabs(counts[0] - 0.2 * N) < 4 * sqrt(0.16 * N));
    close_model(&f);
}

static void test_dropout(void)
{
    fixture f;
    const int64_t dims[] = {N};
    const float rate = 0.75F;
    const uint8_t yes = 1;
    for (int i = 0; i < N; i++) {
        runs[0][i] = (float)(i + 1);
    }
    pw node = pw_node("Dropout", NAMES("x", "rate", "train"), NAMES("y"));
    pw extra = {0};
    pw tensors[3] = {pw_tensor("x", 1, dims, 1, runs[0], sizeof(runs[0])),
                     pw_tensor("rate", 1, NULL, 0, &rate, sizeof(rate)),
                     pw_tensor("train", 9, NULL, 0, &yes, sizeof(yes))};
    for (int i = 0; i < 3; i++) {
        pw_message(&extra, 5, &tensors[i]);
    }
    if (!open_model(&f, &node, &extra)) {
        return;
    }
    run(&f, runs[1], sizeof(runs[1]));
    int kept = 0;
    for (int i = 0; i < N; i++) {
        kept += runs[1][i] != 0 ? 1 : 0;
        KILN_CHECK(runs[1][i] == 0 || runs[1][i] == 4 * runs[0][i]);
    }
    KILN_CHECK(fabs(kept - 0.25 * N) < 4 * sqrt(0.1875 * N));
    close_model(&f);
}

KILN_TEST_MAIN("unit/onnx/random", KILN_TEST(test_runs_differ), KILN_TEST(test_seeded_runs_agree),
               KILN_TEST(test_multinomial), KILN_TEST(test_dropout))
