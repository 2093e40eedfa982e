// SPDX-License-Identifier: MIT OR Apache-2.0
// A driver whose k-th call fails, once or from then on, or takes long: over a chain of operations,
// a graph, a collective and an ONNX session, from the first call of a device on and while it is
// warm. A call that fails says so with its cause; what was computed before can still be read;
// nothing is left behind; and the next call works, on a device opened anew where the driver lost
// the first. A few k by default, every k with KILN_TEST_LONG=1.
#define _DEFAULT_SOURCE // usleep
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cl_faults.h"
#include "collective.h"
#include "harness.h"
#include "kiln.h"
#include "onnx.h"

enum { N = 4096, PARTS = 2, MOST_RESULTS = 2 * N, MOST_WAITS = 6000 /* of 20 ms */ };

typedef struct world {
    const char *name;
    kiln_context *context;
    kiln_device *devices[PARTS];
    size_t n_devices;
    kiln_tensor *before; ///< computed before any fault
    kiln_graph *graph;
    kiln_collective *group;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_error err;
} world;

typedef struct scenario {
    const char *name;
    size_t n_devices;
    bool (*prepare)(world *w); ///< once for a device
    kiln_status (*run)(world *w, float out[MOST_RESULTS], size_t *out_count);
} scenario;

static cl_faults *faults;
static char armed[64]; ///< which fault comes, for what is said of it
static float data[N];
static const int64_t dims[] = {N};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (status == KILN_STATUS_OK) {                                                            \
            status = (call);                                                                       \
        }                                                                                          \
    } while (0)

// ---- what is run ----

static kiln_status make(world *w, size_t device, kiln_tensor **out_tensor)
{
    return kiln_tensor_create(w->devices[device], KILN_DTYPE_F32, 1, dims, data, out_tensor,
                              &w->err);
}

static kiln_status run_chain(world *w, float out[MOST_RESULTS], size_t *out_count)
{
    kiln_tensor *t[5] = {NULL};
    kiln_status status = make(w, 0, &t[0]);
    TRY(kiln_mul_scalar(t[0], kiln_f64(3), &t[1], &w->err));
    TRY(kiln_relu(t[1], &t[2], &w->err));
    TRY(kiln_flip(t[2], (int64_t[]){0}, 1, &t[3], &w->err));
    TRY(kiln_cum_sum(t[3], 0, false, false, &t[4], &w->err));
    TRY(kiln_read(t[4], out, sizeof(data), &w->err));
    for (size_t i = 0; i < 5; i++) {
        kiln_release(t[i]);
    }
    *out_count = N;
    return status;
}

static bool prepare_graph(world *w)
{
    kiln_tensor *x = NULL, *y = NULL, *z = NULL;
    kiln_status status = make(w, 0, &x);
    TRY(kiln_graph_begin(w->devices[0], &x, 1, &w->err));
    TRY(kiln_add(x, x, &y, &w->err));
    TRY(kiln_exp(y, &z, &w->err));
    TRY(kiln_graph_end(w->devices[0], &z, 1, &w->graph, &w->err));
    kiln_release(x);
    kiln_release(y);
    kiln_release(z);
    return status == KILN_STATUS_OK;
}

static kiln_status run_graph(world *w, float out[MOST_RESULTS], size_t *out_count)
{
    kiln_tensor *x = NULL, *y = NULL;
    kiln_status status = make(w, 0, &x);
    TRY(kiln_graph_run(w->graph, &x, 1, &y, 1, &w->err));
    TRY(kiln_read(y, out, sizeof(data), &w->err));
    kiln_release(x);
    kiln_release(y);
    *out_count = N;
    return status;
}

static bool prepare_group(world *w)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.deadline_ns = UINT64_C(1000000000) * 3600; // a starved machine compiles for long
    return kiln_collective_create(w->devices, PARTS, &options, &w->group, &w->err) ==
           KILN_STATUS_OK;
}

/// A failure poisons a group, so each run has one of its own.
static kiln_status run_group(world *w, float out[MOST_RESULTS], size_t *out_count)
{
    kiln_tensor *x[PARTS] = {NULL}, *sums[PARTS] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    if (w->group == NULL && !prepare_group(w)) {
        return (kiln_status)w->err.code;
    }
    TRY(make(w, 0, &x[0]));
    TRY(make(w, 1, &x[1]));
    TRY(kiln_collective_all_reduce(w->group, x, "sum", sums, &w->err));
    for (size_t i = 0; i < PARTS; i++) {
        TRY(kiln_collective_resolve(sums[i], &w->err));
        TRY(kiln_read(sums[i], out + i * N, sizeof(data), &w->err));
    }
    for (size_t i = 0; i < PARTS; i++) {
        kiln_release(x[i]);
        kiln_release(sums[i]);
    }
    kiln_collective_destroy(w->group);
    w->group = NULL;
    *out_count = (size_t)PARTS * N;
    return status;
}

static bool prepare_session(world *w)
{
    return kiln_onnx_model_open(kiln_context_env(w->context),
                                KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx", &w->model,
                                &w->err) == KILN_STATUS_OK &&
           kiln_onnx_session_create(w->model, w->devices[0], &w->session, &w->err) ==
               KILN_STATUS_OK;
}

static kiln_status run_session(world *w, float out[MOST_RESULTS], size_t *out_count)
{
    size_t count = 0;
    const kiln_onnx_value_info *info = kiln_onnx_model_inputs(w->model, &count);
    int64_t shape[KILN_MAX_RANK];
    for (uint32_t i = 0; i < info->rank; i++) {
        shape[i] = info->dims[i].length < 0 ? 1 : info->dims[i].length;
    }
    kiln_tensor *x = NULL, *y = NULL;
    kiln_status status =
        kiln_tensor_create(w->devices[0], info->dtype, info->rank, shape, data, &x, &w->err);
    const kiln_onnx_input input = {.name = info->name, .tensor = x};
    TRY(kiln_onnx_session_run(w->session, &input, 1, &y, 1, &w->err));
    *out_count = y != NULL ? (size_t)kiln_tensor_count(y) : 0;
    TRY(kiln_read(y, out, *out_count * sizeof(float), &w->err));
    kiln_release(x);
    kiln_release(y);
    return status;
}

static const scenario chain = {"chain", 1, NULL, run_chain};
static const scenario graph = {"graph", 1, prepare_graph, run_graph};
static const scenario group = {"collective", PARTS, prepare_group, run_group};
static const scenario session = {"session", 1, prepare_session, run_session};

// ---- a world to run it in ----

static bool open_world(world *w, const scenario *s)
{
    static const char *const parts[] = {"opencl:0#0/2", "opencl:0#1/2"};
    *w = (world){.name = s->name, .err = KILN_ERROR_INIT};
    if (kiln_context_create(NULL, &w->context, &w->err) != KILN_STATUS_OK) {
        return false;
    }
    for (size_t i = 0; i < s->n_devices; i++) {
        const char *address = s->n_devices == 1 ? "opencl:0" : parts[i];
        if (kiln_device_open(w->context, kiln_test_address(address), &w->devices[i], &w->err) !=
            KILN_STATUS_OK) {
            return false;
        }
        w->n_devices++;
    }
    return make(w, 0, &w->before) == KILN_STATUS_OK && (s->prepare == NULL || s->prepare(w));
}

static bool is_empty(kiln_device *device, bool lost, kiln_device_stats *out_stats)
{
    (void)!kiln_sync(device, NULL);
    kiln_device_stats_get(device, out_stats);
    return out_stats->tensors_live == 0 && (lost || out_stats->backend.bytes_used == 0);
}

/// Nothing may be left, whatever has failed. A device that is lost keeps what the driver has.
static void close_world(world *w)
{
    kiln_release(w->before);
    kiln_graph_destroy(w->graph);
    kiln_collective_destroy(w->group);
    kiln_onnx_session_destroy(w->session);
    kiln_onnx_model_close(w->model);
    for (size_t i = 0; i < w->n_devices; i++) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        bool lost = kiln_device_status(w->devices[i], NULL) == KILN_STATUS_DEVICE_LOST;
        kiln_device_trim(w->devices[i]); // what stays with a program: counts of its work-items
        for (int j = 0; j < MOST_WAITS && !is_empty(w->devices[i], lost, &stats); j++) {
            usleep(20000); // a member that was given up is in the compiler until it comes back
        }
        if (!is_empty(w->devices[i], lost, &stats)) {
            KILN_FAIL("%s: %llu tensors and %llu bytes are left after %s, %s", w->name,
                      (unsigned long long)stats.tensors_live,
                      (unsigned long long)stats.backend.bytes_used, faults->name, armed);
        }
        kiln_device_release(w->devices[i]);
    }
    kiln_context_destroy(w->context);
}

static void arm(const char *when, uint64_t at, int32_t code, bool persistent)
{
    snprintf(armed, sizeof(armed), "%s:%llu:%d%s", when, (unsigned long long)at, code,
             persistent ? ":on" : "");
    faults->name[0] = '\0';
    atomic_store(&faults->seen, 0);
    atomic_store(&faults->code, code);
    atomic_store(&faults->persistent, persistent);
    atomic_store(&faults->fail_at, at);
}

static bool is_lost(const world *w)
{
    bool lost = false;
    for (size_t i = 0; i < w->n_devices; i++) {
        lost = lost || kiln_device_status(w->devices[i], NULL) == KILN_STATUS_DEVICE_LOST;
    }
    return lost;
}

typedef struct wanted {
    float values[MOST_RESULTS];
    size_t count;
} wanted;

/// A block that could not be launched is not fused any more, and rounds otherwise.
static bool is_right(const float *out, size_t count, const wanted *want)
{
    bool right = count == want->count;
    for (size_t i = 0; i < count && right; i++) {
        right = fabsf(out[i] - want->values[i]) <= 1e-4f * fmaxf(1, fabsf(want->values[i]));
    }
    return right;
}

/// What the fault left: the tensor from before, and the next run.
static void check_after(world *w, const scenario *s, const wanted *want)
{
    static float out[MOST_RESULTS];
    size_t count = 0;
    kiln_status status = kiln_read(w->before, out, sizeof(data), &w->err);
    if (status != KILN_STATUS_OK || memcmp(out, data, sizeof(data)) != 0) {
        KILN_FAIL("%s, %s at %s: a tensor from before cannot be read: %s", s->name, faults->name,
                  armed, w->err.message);
    }
    status = s->run(w, out, &count);
    if (status != KILN_STATUS_OK || !is_right(out, count, want)) {
        KILN_FAIL("%s, %s at %s: the next run gives %s: %s", s->name, faults->name, armed,
                  kiln_status_name(status), w->err.message);
    }
}

static void check_status(const scenario *s, kiln_status status, const world *w)
{
    bool told =
        status != KILN_STATUS_OK && w->err.message[0] != '\0' && (kiln_status)w->err.code == status;
    if (status == KILN_STATUS_INVALID_ARGUMENT || (status != KILN_STATUS_OK && !told)) {
        KILN_FAIL("%s, %s at %s gives %s: %s", s->name, faults->name, armed,
                  kiln_status_name(status), w->err.message);
    }
}

/// One fault in a warm world, which is closed and opened again where the device is lost.
static void fail_warm(world *w, const scenario *s, const wanted *want, uint64_t k, int32_t code,
                      bool persistent)
{
    static float out[MOST_RESULTS];
    size_t count = 0;
    w->err = (kiln_error)KILN_ERROR_INIT;
    arm("warm", k, code, persistent);
    kiln_status status = s->run(w, out, &count);
    atomic_store(&faults->fail_at, 0);
    check_status(s, status, w);
    if (status == KILN_STATUS_OK && !is_right(out, count, want)) {
        KILN_FAIL("%s, %s at %s: all is well, and the result is wrong", s->name, faults->name,
                  armed);
    }
    if (is_lost(w)) {
        close_world(w);
        KILN_CHECK(open_world(w, s));
    }
    check_after(w, s, want);
}

/// One fault while the device is opened and used for the first time.
static void fail_cold(const scenario *s, const wanted *want, uint64_t k, int32_t code,
                      bool persistent)
{
    static float out[MOST_RESULTS];
    size_t count = 0;
    world w;
    arm("cold", k, code, persistent);
    bool opened = open_world(&w, s);
    kiln_status status = opened ? s->run(&w, out, &count) : (kiln_status)w.err.code;
    atomic_store(&faults->fail_at, 0);
    check_status(s, status, &w);
    if (status == KILN_STATUS_OK && !is_right(out, count, want)) {
        KILN_FAIL("%s, %s at %s: all is well, and the result is wrong", s->name, faults->name,
                  armed);
    }
    if (opened && !is_lost(&w)) {
        check_after(&w, s, want);
    }
    close_world(&w);
}

// ---- which calls fail ----

/// The next of the calls that fail: all of them, or about `few`, spread evenly.
static uint64_t next_of(uint64_t k, uint64_t calls, uint64_t few)
{
    uint64_t step = kiln_test_is_long() || calls <= few ? 1 : calls / few;
    return k + step;
}

static const int32_t codes[] = {-5, -6, -4, -2, -30}; // resources, memory of both, device, value

static bool learn(const scenario *s, wanted *want, uint64_t *out_cold, uint64_t *out_warm)
{
    world w;
    size_t count = 0;
    static float again[MOST_RESULTS];
    arm("none", 0, 0, false);
    bool opened = open_world(&w, s);
    if (!opened) {
        kiln_test_skip("no OpenCL device: %s", w.err.message);
        close_world(&w);
        return false;
    }
    KILN_CHECK_INT(s->run(&w, want->values, &want->count), KILN_STATUS_OK);
    *out_cold = atomic_load(&faults->seen);
    for (int i = 0; i < 3; i++) {
        arm("none", 0, 0, false);
        KILN_CHECK_INT(s->run(&w, again, &count), KILN_STATUS_OK);
        KILN_CHECK(is_right(again, count, want));
    }
    *out_warm = atomic_load(&faults->seen);
    KILN_CHECK(*out_warm > 0);
    close_world(&w);
    return true;
}

/// One fault, as a failure names it: warm or cold, its call, its code, and whether others follow.
static void fail_only(world *w, const scenario *s, const wanted *want, const char *fault)
{
    char when[8] = "", on[4] = "";
    unsigned long long k = 0;
    int code = 0;
    int n = sscanf(fault, "%7[a-z]:%llu:%d:%3s", when, &k, &code, on);
    bool warm = strcmp(when, "warm") == 0;
    if (!KILN_CHECK(n >= 3 && k > 0 && code < 0 && (warm || strcmp(when, "cold") == 0))) {
        return;
    }
    if (warm) {
        fail_warm(w, s, want, k, code, strcmp(on, "on") == 0);
    } else {
        fail_cold(s, want, k, code, strcmp(on, "on") == 0);
    }
}

static void test_faults(void)
{
    const scenario *s = kiln_test_param();
    static wanted want;
    uint64_t cold = 0, warm = 0, tries = 0;
    world w;
    if (!learn(s, &want, &cold, &warm) || !KILN_CHECK(open_world(&w, s))) {
        return;
    }
    static float out[MOST_RESULTS];
    size_t count = 0;
    KILN_CHECK_INT(s->run(&w, out, &count), KILN_STATUS_OK);
    const char *only = getenv("KILN_TEST_CL_FAULT");
    if (only != NULL) {
        fail_only(&w, s, &want, only);
        close_world(&w);
        return;
    }
    for (uint64_t k = 1; k <= warm; k = next_of(k, warm, 12)) {
        int32_t code = codes[tries++ % (sizeof(codes) / sizeof(codes[0]))];
        fail_warm(&w, s, &want, k, code, false);
        fail_warm(&w, s, &want, k, code, true);
    }
    close_world(&w);
    for (uint64_t k = 1; k <= cold; k = next_of(k, cold, 4)) {
        int32_t code = codes[tries++ % (sizeof(codes) / sizeof(codes[0]))];
        fail_cold(s, &want, k, code, tries % 2 == 0);
    }
    printf("    %s: %llu calls warm and %llu from the opening on, of which %llu were tried\n",
           s->name, (unsigned long long)warm, (unsigned long long)cold, (unsigned long long)tries);
    KILN_CHECK(tries >= 8);
}

/// A driver that takes its time is waited for.
static void test_delays(void)
{
    static wanted want;
    uint64_t cold = 0, warm = 0;
    world w;
    if (!learn(&chain, &want, &cold, &warm) || !KILN_CHECK(open_world(&w, &chain))) {
        return;
    }
    atomic_store(&faults->delay_us, 20000);
    fail_warm(&w, &chain, &want, warm, 0, false);
    fail_warm(&w, &chain, &want, 1, 0, true);
    atomic_store(&faults->delay_us, 0);
    close_world(&w);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        {"test_faults/chain", test_faults, &chain},
        {"test_faults/graph", test_faults, &graph},
        {"test_faults/collective", test_faults, &group},
        {"test_faults/session", test_faults, &session},
        KILN_TEST(test_delays),
    };
    for (size_t i = 0; i < N; i++) {
        data[i] = (float)((int)i % 7 - 3) / 4;
    }
    faults = cl_faults_share();
    if (faults == NULL) {
        fprintf(stderr, "no memory to share with the layer\n");
        return 2;
    }
    return kiln_test_run("faults/cl_faults", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
