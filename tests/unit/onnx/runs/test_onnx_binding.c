// SPDX-License-Identifier: MIT OR Apache-2.0
// Outputs that are the next run's inputs, on the reference device: what is kept grows without what
// the caller sees of it changing, is given anew, and is gone after a failed run.
#include "faults.h"
#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { MOST = 256, COLUMNS = 2 };

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_error err;
} fixture;

static kiln_status open_fixture(fixture *f, const kiln_env *env, pw *bytes)
{
    *f = (fixture){.err = KILN_ERROR_INIT};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &f->context, &f->err));
    KILN_TRY(out, status, kiln_device_open(f->context, "reference:0", &f->device, &f->err));
    KILN_TRY(out, status,
             kiln_onnx_model_open_memory(env != NULL ? env : kiln_context_env(f->context),
                                         bytes->bytes, bytes->length, NULL, &f->model, &f->err));
    KILN_TRY(out, status, kiln_onnx_session_create(f->model, f->device, &f->session, &f->err));
out:
    return status;
}

static void close_fixture(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_onnx_session_destroy(f->session);
    kiln_onnx_model_close(f->model);
    KILN_CHECK(kiln_sync(f->device, &f->err) == KILN_STATUS_OK);
    kiln_device_stats_get(f->device, &stats);
    KILN_CHECK_INT((int64_t)stats.tensors_live, 0);
    kiln_device_release(f->device);
    kiln_context_destroy(f->context);
}

static void add_open(pw *graph, uint32_t field, const char *name)
{
    const int64_t dims[] = {-1, COLUMNS};
    pw info = pw_value_info(name, 1, dims, 2);
    pw_message(graph, field, &info);
}

static void add_number(pw *graph, const char *name, int64_t value)
{
    pw tensor = pw_tensor(name, 7, NULL, 0, &value, sizeof(value));
    pw_message(graph, 5, &tensor);
}

/* All rows of kept in their order, by their places: numbers that grow with it. */
static void add_rows_of_kept(pw *graph)
{
    add_number(graph, "zero", 0);
    add_number(graph, "one", 1);
    pw shape = pw_node("Shape", NAMES("kept"), NAMES("lengths"));
    pw_message(graph, 1, &shape);
    pw length = pw_node("Gather", NAMES("lengths", "zero"), NAMES("length"));
    pw_message(graph, 1, &length);
    pw places = pw_node("Range", NAMES("zero", "length", "one"), NAMES("places"));
    pw_message(graph, 1, &places);
    pw rows = pw_node("Gather", NAMES("kept", "places"), NAMES("rows"));
    pw_message(graph, 1, &rows);
}

/* kept = past with x behind it; state = last + the sum of x's rows; y = the sum of kept's rows. */
static pw growing_model(void)
{
    pw graph = {0};
    pw concat = pw_node("Concat", NAMES("past", "x"), NAMES("kept"));
    pw_attr_int(&concat, "axis", 0);
    pw_message(&graph, 1, &concat);
    const int64_t axes[] = {0};
    add_rows_of_kept(&graph);
    pw sum = pw_node("ReduceSum", NAMES("rows"), NAMES("y"));
    pw_attr_ints(&sum, "axes", axes, 1);
    pw_message(&graph, 1, &sum);
    pw new_sum = pw_node("ReduceSum", NAMES("x"), NAMES("new"));
    pw_attr_ints(&new_sum, "axes", axes, 1);
    pw_message(&graph, 1, &new_sum);
    pw add = pw_node("Add", NAMES("last", "new"), NAMES("state"));
    pw_message(&graph, 1, &add);
    add_open(&graph, 11, "x");
    add_open(&graph, 11, "past");
    add_open(&graph, 11, "last");
    add_open(&graph, 12, "kept");
    add_open(&graph, 12, "y");
    add_open(&graph, 12, "state");
    return pw_model(&graph, 12);
}

static kiln_status make_rows(fixture *f, int64_t rows, float first, kiln_tensor **out_tensor)
{
    float data[MOST] = {0};
    const int64_t dims[] = {rows, COLUMNS};
    for (int64_t i = 0; i < rows * COLUMNS; i++) {
        data[i] = first + (float)i;
    }
    return kiln_tensor_create(f->device, KILN_DTYPE_F32, 2, dims, data, out_tensor, &f->err);
}

/* Runs on `rows` rows; `with` past and last of so many rows, -1: without. Reads y. */
static kiln_status go(fixture *f, int64_t rows, int64_t with, float out_y[COLUMNS])
{
    kiln_onnx_input inputs[] = {{.name = "x"}, {.name = "past"}, {.name = "last"}};
    kiln_tensor *outputs[3] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_rows(f, rows, 1, &inputs[0].tensor));
    if (with >= 0) {
        KILN_TRY(out, status, make_rows(f, with, 10, &inputs[1].tensor));
        KILN_TRY(out, status, make_rows(f, 1, 0, &inputs[2].tensor));
    }
    KILN_TRY(out, status,
             kiln_onnx_session_run(f->session, inputs, with >= 0 ? 3 : 1, outputs, 3, &f->err));
    KILN_CHECK(outputs[0] == NULL && outputs[1] != NULL && outputs[2] == NULL);
    KILN_TRY(out, status, kiln_read(outputs[1], out_y, COLUMNS * sizeof(float), &f->err));
out:
    for (size_t i = 0; i < 3; i++) {
        kiln_release(inputs[i].tensor);
        kiln_release(outputs[i]);
    }
    return status;
}

static kiln_status bind(fixture *f, int64_t reserve)
{
    kiln_status status = kiln_onnx_session_bind(f->session, "kept", "past", reserve, &f->err);
    return status == KILN_STATUS_OK
               ? kiln_onnx_session_bind(f->session, "state", "last", 0, &f->err)
               : status;
}

static void check_bound(fixture *f, const char *input, int64_t rows, double last)
{
    kiln_tensor *tensor = NULL;
    float data[MOST] = {0};
    KILN_CHECK_INT(kiln_onnx_session_bound(f->session, input, &tensor, &f->err), KILN_STATUS_OK);
    if (KILN_CHECK(tensor != NULL)) {
        KILN_CHECK_INT(kiln_tensor_dims(tensor)[0], rows);
        KILN_CHECK_INT(kiln_read(tensor, data, kiln_tensor_bytes(tensor), &f->err), KILN_STATUS_OK);
        KILN_CHECK_NEAR((double)data[rows * COLUMNS - 1], last, 1e-4);
    }
    kiln_release(tensor);
}

/* Rows are 1 2, 3 4, ..; what was given 10 11, 12 13, .. */
static void grow(int64_t reserve)
{
    fixture f;
    float y[COLUMNS] = {0};
    pw bytes = growing_model();
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes) == KILN_STATUS_OK)) {
        KILN_CHECK_INT(bind(&f, reserve), KILN_STATUS_OK);
        KILN_CHECK_INT(go(&f, 3, 0, y), KILN_STATUS_OK);
        KILN_CHECK_NEAR((double)y[0], 9, 1e-4);
        kiln_tensor *earlier = NULL;
        KILN_CHECK_INT(kiln_onnx_session_bound(f.session, "past", &earlier, &f.err),
                       KILN_STATUS_OK);
        for (int i = 1; i <= 80; i++) { // past the 64 that are reserved at least
            KILN_CHECK_INT(go(&f, 1, -1, y), KILN_STATUS_OK);
            KILN_CHECK_NEAR((double)y[0], 9 + i, 1e-4);
            KILN_CHECK_NEAR((double)y[1], 12 + 2 * i, 1e-4);
        }
        check_bound(&f, "past", 83, 2);
        check_bound(&f, "last", 1, 12 + 2 * 80 + 1);
        float data[6] = {0};
        KILN_CHECK_INT(kiln_read(earlier, data, sizeof(data), &f.err), KILN_STATUS_OK);
        KILN_CHECK_NEAR((double)data[5], 6, 0);
        kiln_release(earlier);
        KILN_CHECK_INT(go(&f, 2, 2, y), KILN_STATUS_OK); // begun anew
        KILN_CHECK_NEAR((double)y[0], 10 + 12 + 1 + 3, 1e-4);
        check_bound(&f, "past", 4, 4);
        close_fixture(&f);
    }
    pw_free(&bytes);
}

static void test_grows(void)
{
    grow(0);
    grow(200);
}

static kiln_device_stats stats_of(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats;
}

/* Within what is reserved a run takes no memory for what is kept, and copies what is new alone. */
static void test_grows_in_place(void)
{
    enum { RESERVE = 1 << 16 };
    fixture f;
    float y[COLUMNS] = {0};
    pw bytes = growing_model();
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes) == KILN_STATUS_OK)) {
        KILN_CHECK_INT(bind(&f, RESERVE), KILN_STATUS_OK);
        for (int i = 0; i < 4; i++) {
            KILN_CHECK_INT(go(&f, 1, i == 0 ? 0 : -1, y), KILN_STATUS_OK);
        }
        KILN_CHECK_INT(kiln_sync(f.device, &f.err), KILN_STATUS_OK);
        kiln_device_reset_peaks(f.device);
        kiln_device_stats before = stats_of(&f);
        for (int i = 0; i < 12; i++) {
            KILN_CHECK_INT(go(&f, 1, -1, y), KILN_STATUS_OK);
        }
        kiln_device_stats after = stats_of(&f);
        KILN_CHECK(after.backend.bytes_peak < before.backend.bytes_peak + RESERVE);
        KILN_CHECK_INT(after.bytes_uploaded - before.bytes_uploaded, 12 * COLUMNS * 4);
        KILN_CHECK_INT(after.bytes_read - before.bytes_read, 12 * COLUMNS * 4);
        KILN_CHECK_INT(after.plans_searched, before.plans_searched);
        close_fixture(&f);
    }
    pw_free(&bytes);
}

static void expect_refused(fixture *f, kiln_status status, const char *text)
{
    KILN_CHECK_INT(status, KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f->err.message, text);
}

static void test_misuse(void)
{
    fixture f;
    float y[COLUMNS] = {0};
    kiln_tensor *tensor = NULL;
    pw bytes = growing_model();
    if (KILN_CHECK(open_fixture(&f, NULL, &bytes) == KILN_STATUS_OK)) {
        expect_refused(&f, kiln_onnx_session_bind(f.session, "none", "past", 0, &f.err),
                       "no output 'none'");
        expect_refused(&f, kiln_onnx_session_bind(f.session, "kept", "none", 0, &f.err),
                       "no input 'none'");
        expect_refused(&f, kiln_onnx_session_bind(f.session, "kept", "past", -1, &f.err),
                       "a reserve below 0");
        KILN_CHECK_INT(bind(&f, 0), KILN_STATUS_OK);
        expect_refused(&f, kiln_onnx_session_bind(f.session, "kept", "x", 0, &f.err),
                       "bound already");
        expect_refused(&f, kiln_onnx_session_bound(f.session, "x", &tensor, &f.err),
                       "is not bound");
        expect_refused(&f, kiln_onnx_session_bound(f.session, "past", &tensor, &f.err),
                       "has no value yet");
        expect_refused(&f, go(&f, 1, -1, y), "'past' is bound and has no value yet");
        KILN_CHECK_INT(go(&f, 1, 0, y), KILN_STATUS_OK);
        KILN_CHECK_INT(go(&f, 1, -1, y), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_graph_begin(f.device, NULL, 0, &f.err), KILN_STATUS_OK);
        KILN_CHECK_INT(go(&f, 1, -1, y), KILN_STATUS_FAILED_PRECONDITION);
        kiln_graph_cancel(f.device);
        expect_refused(&f, go(&f, 1, -1, y), "after a failed run"); // that was one
        KILN_CHECK_INT(go(&f, 1, 0, y), KILN_STATUS_OK);
        close_fixture(&f);
    }
    pw_free(&bytes);
}

/* A run with the values of `*state`, which has what the run left. Gives y's first number. */
static float go_in(fixture *f, kiln_onnx_state **state, int64_t with)
{
    float y[COLUMNS] = {0};
    KILN_CHECK_INT(kiln_onnx_session_exchange(f->session, state, &f->err), KILN_STATUS_OK);
    KILN_CHECK_INT(go(f, 1, with, y), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_onnx_session_exchange(f->session, state, &f->err), KILN_STATUS_OK);
    return y[0];
}

/* Runs in turn, each with values of its own; one that fails loses its own alone. */
static void test_states_are_apart(void)
{
    pw bytes = growing_model();
    fixture f;
    float y[COLUMNS] = {0};
    kiln_onnx_state *states[3] = {NULL};
    KILN_CHECK_INT(open_fixture(&f, NULL, &bytes), KILN_STATUS_OK);
    KILN_CHECK(kiln_onnx_session_exchange(f.session, &states[0], &f.err) ==
                   KILN_STATUS_INVALID_ARGUMENT &&
               states[0] == NULL);
    KILN_CHECK_INT(bind(&f, 2), KILN_STATUS_OK);
    for (int i = 0; i < 9; i++) { // longer than the reserve
        for (int k = 0; k < 3; k++) {
            if (i >= k) { // each has begun later
                KILN_CHECK(go_in(&f, &states[k], i == k ? 0 : -1) == (float)(i - k + 1));
            }
        }
    }
    KILN_CHECK_INT(kiln_onnx_session_exchange(f.session, &states[1], &f.err), KILN_STATUS_OK);
    kiln_onnx_input odd = {.name = "nobody"};
    kiln_tensor *outputs[3] = {NULL};
    KILN_CHECK(kiln_onnx_session_run(f.session, &odd, 1, outputs, 3, &f.err) != KILN_STATUS_OK);
    KILN_CHECK(go(&f, 1, -1, y) == KILN_STATUS_INVALID_ARGUMENT); // what it had is gone
    KILN_CHECK_INT(kiln_onnx_session_exchange(f.session, &states[1], &f.err), KILN_STATUS_OK);
    KILN_CHECK(go_in(&f, &states[0], -1) == 10 && go_in(&f, &states[2], -1) == 8);
    for (int k = 0; k < 3; k++) {
        kiln_onnx_state_destroy(states[k]);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* After an allocation that fails the values are given again, and right. */
static void test_each_allocation_fails(void)
{
    kiln_faults faults;
    pw bytes = growing_model();
    kiln_faults_init(&faults);
    const kiln_env env = {.allocator = faults.allocator};
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        fixture f;
        float y[COLUMNS] = {0};
        kiln_status status = open_fixture(&f, &env, &bytes);
        status = status == KILN_STATUS_OK ? bind(&f, 0) : status;
        for (int i = 0; status == KILN_STATUS_OK && i < 4; i++) {
            status = go(&f, 1, i == 0 ? 0 : -1, y);
            KILN_CHECK(status != KILN_STATUS_OK || y[0] == (float)(i + 1));
        }
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_RESOURCE_EXHAUSTED);
        close_fixture(&f);
    }
    pw_free(&bytes);
}

KILN_TEST_MAIN("unit/onnx/test_onnx_binding", KILN_TEST(test_grows), KILN_TEST(test_grows_in_place),
               KILN_TEST(test_misuse), KILN_TEST(test_states_are_apart),
               KILN_TEST(test_each_allocation_fails))
