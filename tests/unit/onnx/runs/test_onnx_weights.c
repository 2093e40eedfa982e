// SPDX-License-Identifier: MIT OR Apache-2.0
// Weights: which are parameters, runs that are given others, what then is not kept from run to run,
// a tape that watches, and the file with other values in it.
#include "harness.h"
#include "kiln_grad.h"
#include "onnx.h"
#include "proto_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OK(f, call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, (f)->err.message)

enum { F32 = 1, I64 = 7, F64 = 11 };

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
    pw bytes;
    const char *folder; ///< of weights.bin
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_tensor *x; ///< 1, 2; of two rows
    kiln_error err;
} fixture;

static const int64_t two[] = {2};

/// A tensor whose data are in the typed field.
static pw listed(const char *name, float a, float b)
{
    const float data[] = {a, b};
    pw tensor = pw_tensor(name, F32, two, 1, NULL, 0);
    pw_bytes(&tensor, 4, data, sizeof(data));
    pw_text(&tensor, 12, "in words"); // what Kiln does not read stays
    return tensor;
}

static pw elsewhere(const char *name)
{
    pw tensor = pw_tensor(name, F32, two, 1, NULL, 0);
    pw entry = {0};
    pw_text(&entry, 1, "location");
    pw_text(&entry, 2, "weights.bin");
    pw_message(&tensor, 13, &entry);
    pw_int(&tensor, 14, 1);
    return tensor;
}

static void add_node(pw *graph, const char *op, const char *const *inputs, const char *output)
{
    pw node = pw_node(op, inputs, NAMES(output));
    pw_message(graph, 1, &node);
}

/// y = (x w + v) / 2, behind a batch normalisation that changes nothing; `w` is listed, `v` lies in
/// another file. What the normalisation has counted is no parameter.
static pw make_model(void)
{
    static const float one[] = {1, 1};
    static const float half[] = {0.5F};
    const int64_t place[] = {-1, 2};
    const int64_t rows[] = {-2, 2};
    pw graph = {0};
    pw parts[] = {listed("w", 3, 4),
                  elsewhere("v"),
                  pw_tensor("scale", F32, two, 1, one, sizeof(one)),
                  pw_tensor("mean", F32, two, 1, one, sizeof(one)),
                  pw_tensor("place", I64, two, 1, place, sizeof(place)),
                  pw_tensor("half", F32, NULL, 0, half, sizeof(half)),
                  pw_tensor("unread", F32, two, 1, one, sizeof(one)),
                  pw_value_info("x", F32, rows, 2),
                  pw_value_info("y", F32, rows, 2)};
    add_node(&graph, "Mul", NAMES("x", "w"), "xw");
    add_node(&graph, "Add", NAMES("xw", "v"), "xwv");
    add_node(&graph, "Reshape", NAMES("xwv", "place"), "placed");
    add_node(&graph, "Mul", NAMES("placed", "half"), "halved");
    add_node(&graph, "BatchNormalization", NAMES("halved", "scale", "mean", "mean", "scale"), "y0");
    add_node(&graph, "Identity", NAMES("y0"), "y");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        pw_message(&graph, i < 7 ? 5 : i == 7 ? 11 : 12, &parts[i]);
    }
    pw model = pw_model(&graph, 17);
    pw_text(&model, 6, "a doc string");
    return model;
}

static bool open_model(fixture *f)
{
    return OK(f, kiln_onnx_model_open_memory(kiln_context_env(f->context), f->bytes.bytes,
                                             f->bytes.length, f->folder, &f->model, &f->err)) &&
           OK(f, kiln_onnx_session_create(f->model, f->device, &f->session, &f->err));
}

static bool open_fixture(fixture *f)
{
    static const float elsewhere_data[] = {5, 6};
    static const float x[] = {1, 2, 1, 2};
    const int64_t rows[] = {2, 2};
    memset(f, 0, sizeof(*f));
    f->folder = kiln_test_tmpdir();
    f->bytes = make_model();
    bool ok = kiln_test_write_file(kiln_test_path(f->folder, "weights.bin"), elsewhere_data,
                                   sizeof(elsewhere_data)) &&
              OK(f, kiln_context_create(NULL, &f->context, &f->err)) &&
              OK(f, kiln_device_open(f->context, "reference:0", &f->device, &f->err)) &&
              OK(f, kiln_tensor_create(f->device, KILN_DTYPE_F32, 2, rows, x, &f->x, &f->err));
    return ok && open_model(f);
}

static void close_model(fixture *f)
{
    kiln_onnx_session_destroy(f->session);
    kiln_onnx_model_close(f->model);
    f->session = NULL;
    f->model = NULL;
}

static void close_fixture(fixture *f)
{
    close_model(f);
    pw_free(&f->bytes);
    kiln_release(f->x);
    kiln_device_release(f->device);
    kiln_context_destroy(f->context);
}

static kiln_tensor *pair(fixture *f, float a, float b)
{
    const float data[] = {a, b};
    kiln_tensor *tensor = NULL;
    OK(f, kiln_tensor_create(f->device, KILN_DTYPE_F32, 1, two, data, &tensor, &f->err));
    return tensor;
}

/// The first row of x w + v is a, b.
static void check_run(fixture *f, kiln_tensor *w, float a, float b)
{
    const kiln_onnx_input inputs[] = {{.name = "x", .tensor = f->x}, {.name = "w", .tensor = w}};
    kiln_tensor *y = NULL;
    float found[4] = {0};
    if (OK(f, kiln_onnx_session_run(f->session, inputs, w != NULL ? 2 : 1, &y, 1, &f->err)) &&
        OK(f, kiln_read(y, found, sizeof(found), &f->err))) {
        KILN_CHECK_NEAR((double)found[0], (double)a / 2, 1e-3);
        KILN_CHECK_NEAR((double)found[1], (double)b / 2, 1e-3);
    }
    kiln_release(y);
}

// ---- which ----

typedef struct listing {
    char text[200];
} listing;

static kiln_status list(const kiln_onnx_weight_info *info, void *user, kiln_error *err)
{
    listing *self = user;
    size_t used = strlen(self->text);
    (void)err;
    snprintf(self->text + used, sizeof(self->text) - used, "%s%s ", info->is_parameter ? "+" : "",
             info->name);
    return strcmp(info->name, "v") != 0 || ((const float *)info->data)[1] == 6
               ? KILN_STATUS_OK
               : KILN_STATUS_INTERNAL;
}

static void test_which(void)
{
    fixture f;
    listing l = {""};
    if (open_fixture(&f)) {
        OK(&f, kiln_onnx_model_weights(f.model, list, &l, &f.err));
        KILN_CHECK_STR(l.text, "+w +v scale mean place half unread ");
    }
    close_fixture(&f);
}

// ---- runs ----

/// Between runs as the file has it, often enough that these keep what settles.
static void test_given_to_a_run(void)
{
    fixture f;
    if (open_fixture(&f)) {
        for (int round = 0; round < 5; round++) {
            kiln_tensor *w = pair(&f, (float)round, 7);
            check_run(&f, NULL, 8, 14);
            check_run(&f, w, (float)round + 5, 20);
            check_run(&f, NULL, 8, 14);
            kiln_release(w);
        }
    }
    close_fixture(&f);
}

static void check_refused(fixture *f, const char *name, kiln_tensor *take_tensor, const char *words)
{
    const kiln_onnx_input inputs[] = {{.name = "x", .tensor = f->x},
                                      {.name = name, .tensor = take_tensor}};
    kiln_tensor *y = NULL;
    KILN_CHECK_INT(kiln_onnx_session_run(f->session, inputs, 2, &y, 1, &f->err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f->err.message, words);
    KILN_CHECK(y == NULL);
    KILN_CHECK_INT(kiln_onnx_model_write(f->model, kiln_test_path(f->folder, "none.onnx"),
                                         inputs + 1, 1, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    kiln_release(take_tensor);
}

static void test_refused(void)
{
    const int64_t three[] = {3};
    fixture f;
    if (open_fixture(&f)) {
        kiln_tensor *other = NULL;
        check_refused(&f, "z", pair(&f, 1, 2), "no input 'z'");
        OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, three, NULL, &other, &f.err));
        check_refused(&f, "w", other, "of 3");
        OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_F64, 1, two, NULL, &other, &f.err));
        check_refused(&f, "w", other, "f64");
        OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_I64, 1, two, NULL, &other, &f.err));
        check_refused(&f, "place", other, "not of floats");
        check_run(&f, NULL, 8, 14);
    }
    close_fixture(&f);
}

/// A tape sees all of it, also when runs before have settled.
static void test_tracked(void)
{
    fixture f;
    kiln_tape *tape = NULL;
    kiln_tensor *t[3] = {NULL};
    float found[2] = {0};
    if (open_fixture(&f)) {
        for (int i = 0; i < 5; i++) {
            check_run(&f, NULL, 8, 14);
        }
        kiln_tensor *v = pair(&f, 5, 6);
        const kiln_onnx_input inputs[] = {{.name = "x", .tensor = f.x}, {.name = "v", .tensor = v}};
        OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        OK(&f, kiln_tape_track(tape, v, &f.err));
        OK(&f, kiln_onnx_session_run(f.session, inputs, 2, &t[0], 1, &f.err));
        OK(&f, kiln_sum(t[0], NULL, 0, false, &t[1], &f.err));
        OK(&f, kiln_backward(tape, t[1], NULL, &f.err));
        OK(&f, kiln_gradient(tape, v, &t[2], &f.err));
        OK(&f, kiln_read(t[2], found, sizeof(found), &f.err));
        KILN_CHECK_NEAR((double)found[0], 1, 1e-4); // two rows, halved
        KILN_CHECK_NEAR((double)found[1], 1, 1e-4);
        kiln_tape_destroy(tape);
        kiln_release(v);
        for (int i = 0; i < 3; i++) {
            kiln_release(t[i]);
        }
    }
    close_fixture(&f);
}

// ---- files ----

static bool read_whole(const char *path, pw *out)
{
    uint8_t data[4096];
    FILE *file = fopen(path, "rb");
    size_t bytes = file != NULL ? fread(data, 1, sizeof(data), file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    *out = (pw){0};
    pw_raw(out, data, bytes);
    return KILN_CHECK(bytes > 0 && bytes < sizeof(data));
}

static bool contains(const pw *bytes, const char *text)
{
    size_t length = strlen(text);
    bool found = false;
    for (size_t i = 0; i + length <= bytes->length && !found; i++) {
        found = memcmp(bytes->bytes + i, text, length) == 0;
    }
    return found;
}

/// The new file needs no other, gives what a run with the weights gave, and keeps what Kiln does
/// not read. Without weights and other files it is the old one, byte by byte.
static void test_written(void)
{
    fixture f;
    if (open_fixture(&f)) {
        const char *path = kiln_test_path(f.folder, "written.onnx");
        kiln_tensor *w = pair(&f, 10, 20);
        const kiln_onnx_input weights[] = {{.name = "w", .tensor = w}};
        pw first = {0};
        pw second = {0};
        OK(&f, kiln_onnx_model_write(f.model, path, weights, 1, &f.err));
        kiln_release(w);
        close_model(&f);
        pw_free(&f.bytes);
        if (read_whole(path, &f.bytes)) {
            f.folder = NULL;
            KILN_CHECK(!contains(&f.bytes, "weights.bin"));
            KILN_CHECK(contains(&f.bytes, "in words") && contains(&f.bytes, "a doc string"));
            if (open_model(&f)) {
                check_run(&f, NULL, 15, 46);
                OK(&f, kiln_onnx_model_write(f.model, path, NULL, 0, &f.err));
            }
        }
        if (read_whole(path, &second)) {
            first = f.bytes;
            KILN_CHECK(first.length == second.length &&
                       memcmp(first.bytes, second.bytes, first.length) == 0);
        }
        pw_free(&second);
    }
    close_fixture(&f);
}

static void test_no_place(void)
{
    fixture f;
    if (open_fixture(&f)) {
        KILN_CHECK_INT(kiln_onnx_model_write(f.model, "/proc/none/model.onnx", NULL, 0, &f.err),
                       KILN_STATUS_UNAVAILABLE);
        KILN_CHECK_CONTAINS(f.err.message, "/proc/none/model.onnx");
    }
    close_fixture(&f);
}

KILN_TEST_MAIN("unit/onnx/weights", KILN_TEST(test_which), KILN_TEST(test_given_to_a_run),
               KILN_TEST(test_refused), KILN_TEST(test_tracked), KILN_TEST(test_written),
               KILN_TEST(test_no_place))
