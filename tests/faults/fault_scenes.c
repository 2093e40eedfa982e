// SPDX-License-Identifier: MIT OR Apache-2.0
// A chain of operations, a graph, a collective and an ONNX session, and how a world opens and ends.
#define _DEFAULT_SOURCE // usleep
#include "fault_scenes.h"

#include <unistd.h>

#include "collective.h"
#include "harness.h"
#include "kiln_bundle.h"
#include "onnx.h"

enum { MOST_WAITS = 6000 /* of 20 ms */ };

static const int64_t dims[] = {FAULT_N};
static const size_t bytes = FAULT_N * sizeof(float);

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (status == KILN_STATUS_OK) {                                                            \
            status = (call);                                                                       \
        }                                                                                          \
    } while (0)

const float *fault_data(void)
{
    static float data[FAULT_N];
    static bool filled;
    for (int i = 0; !filled && i < FAULT_N; i++) {
        data[i] = (float)(i % 7 - 3) / 4;
    }
    filled = true;
    return data;
}

kiln_status world_tensor(world *w, size_t device, kiln_tensor **out_tensor)
{
    return kiln_tensor_create(w->devices[device], KILN_DTYPE_F32, 1, dims, fault_data(), out_tensor,
                              &w->err);
}

// ---- what is run ----

kiln_status world_run_chain(world *w, float out[FAULT_MOST_RESULTS], size_t *out_count)
{
    kiln_tensor *t[5] = {NULL};
    kiln_status status = world_tensor(w, 0, &t[0]);
    TRY(kiln_mul_scalar(t[0], kiln_f64(3), &t[1], &w->err));
    TRY(kiln_relu(t[1], &t[2], &w->err));
    TRY(kiln_flip(t[2], (int64_t[]){0}, 1, &t[3], &w->err));
    TRY(kiln_cum_sum(t[3], 0, false, false, &t[4], &w->err));
    TRY(kiln_read(t[4], out, bytes, &w->err));
    for (size_t i = 0; i < 5; i++) {
        kiln_release(t[i]);
    }
    *out_count = FAULT_N;
    return status;
}

/// Of the graph's calls any may fail: then the recording is cancelled, as a user does.
static bool prepare_graph(world *w)
{
    kiln_tensor *x = NULL, *y = NULL, *z = NULL;
    kiln_status status = world_tensor(w, 0, &x);
    TRY(kiln_graph_begin(w->devices[0], &x, 1, &w->err));
    bool begun = status == KILN_STATUS_OK;
    TRY(kiln_add(x, x, &y, &w->err));
    TRY(kiln_exp(y, &z, &w->err));
    if (begun && status != KILN_STATUS_OK) {
        kiln_graph_cancel(w->devices[0]);
    }
    TRY(kiln_graph_end(w->devices[0], &z, 1, &w->graph, &w->err));
    kiln_release(x);
    kiln_release(y);
    kiln_release(z);
    return status == KILN_STATUS_OK;
}

static kiln_status run_graph(world *w, float out[FAULT_MOST_RESULTS], size_t *out_count)
{
    kiln_tensor *x = NULL, *y = NULL;
    kiln_status status = world_tensor(w, 0, &x);
    TRY(kiln_graph_run(w->graph, &x, 1, &y, 1, &w->err));
    TRY(kiln_read(y, out, bytes, &w->err));
    kiln_release(x);
    kiln_release(y);
    *out_count = FAULT_N;
    return status;
}

static bool prepare_group(world *w)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.deadline_ns = UINT64_C(1000000000) * 3600; // a starved machine compiles for long
    return kiln_collective_create(w->devices, FAULT_PARTS, &options, &w->group, &w->err) ==
           KILN_STATUS_OK;
}

/// A failure poisons a group, so each run has one of its own.
static kiln_status run_group(world *w, float out[FAULT_MOST_RESULTS], size_t *out_count)
{
    kiln_tensor *x[FAULT_PARTS] = {NULL}, *sums[FAULT_PARTS] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    if (w->group == NULL && !prepare_group(w)) {
        return (kiln_status)w->err.code;
    }
    TRY(world_tensor(w, 0, &x[0]));
    TRY(world_tensor(w, 1, &x[1]));
    TRY(kiln_collective_all_reduce(w->group, x, "sum", sums, &w->err));
    for (size_t i = 0; i < FAULT_PARTS; i++) {
        TRY(kiln_collective_resolve(sums[i], &w->err));
        TRY(kiln_read(sums[i], out + i * FAULT_N, bytes, &w->err));
    }
    for (size_t i = 0; i < FAULT_PARTS; i++) {
        kiln_release(x[i]);
        kiln_release(sums[i]);
    }
    kiln_collective_destroy(w->group);
    w->group = NULL;
    *out_count = (size_t)FAULT_PARTS * FAULT_N;
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

static kiln_status run_session(world *w, float out[FAULT_MOST_RESULTS], size_t *out_count)
{
    size_t count = 0;
    const kiln_onnx_value_info *info = kiln_onnx_model_inputs(w->model, &count);
    int64_t shape[KILN_MAX_RANK];
    for (uint32_t i = 0; i < info->rank; i++) {
        shape[i] = info->dims[i].length < 0 ? 1 : info->dims[i].length;
    }
    kiln_tensor *x = NULL, *y = NULL;
    kiln_status status = kiln_tensor_create(w->devices[0], info->dtype, info->rank, shape,
                                            fault_data(), &x, &w->err);
    const kiln_onnx_input input = {.name = info->name, .tensor = x};
    TRY(kiln_onnx_session_run(w->session, &input, 1, &y, 1, &w->err));
    *out_count = y != NULL ? (size_t)kiln_tensor_count(y) : 0;
    TRY(kiln_read(y, out, *out_count * sizeof(float), &w->err));
    kiln_release(x);
    kiln_release(y);
    return status;
}

static const char *const halves[] = {"opencl:0#0/2", "opencl:0#1/2"};
const scene scene_chain = {.name = "chain", .fuses = true, .n_devices = 1, .run = world_run_chain};
const scene scene_graph = {
    .name = "graph", .fuses = true, .n_devices = 1, .prepare = prepare_graph, .run = run_graph};
const scene scene_collective = {.name = "collective",
                                .n_devices = FAULT_PARTS,
                                .addresses = halves,
                                .prepare = prepare_group,
                                .run = run_group};
const scene scene_session = {.name = "session",
                             .fuses = true,
                             .n_devices = 1,
                             .prepare = prepare_session,
                             .run = run_session};

// ---- a world to run it in ----

static kiln_status open_context(world *w, const scene *s, const kiln_allocator *allocator)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.allocator = allocator;
    kiln_status status = kiln_context_create(&options, &w->context, &w->err);
    if (s->configure != NULL) {
        TRY(s->configure(w->context, &w->err));
    }
    return status;
}

bool world_open(world *w, const scene *s, const kiln_allocator *allocator)
{
    *w = (world){.name = s->name, .err = KILN_ERROR_INIT};
    kiln_status status = open_context(w, s, allocator);
    for (size_t i = 0; i < s->n_devices && status == KILN_STATUS_OK; i++) {
        const char *address = s->addresses != NULL ? s->addresses[i] : "opencl:0";
        TRY(kiln_device_open(w->context, kiln_test_address(address), &w->devices[i], &w->err));
        w->n_devices += status == KILN_STATUS_OK;
    }
    TRY(world_tensor(w, 0, &w->before));
    return status == KILN_STATUS_OK && (s->prepare == NULL || s->prepare(w));
}

static bool is_empty(kiln_device *device, bool lost, kiln_device_stats *out_stats)
{
    (void)!kiln_sync(device, NULL);
    kiln_device_stats_get(device, out_stats);
    return out_stats->tensors_live == 0 && (lost || out_stats->backend.bytes_used == 0);
}

/// A device that is lost keeps what the driver has.
static void close_device(const world *w, kiln_device *device, const char *fault)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    bool lost = kiln_device_status(device, NULL) == KILN_STATUS_DEVICE_LOST;
    kiln_device_trim(device); // what stays with a program: counts of its work-items
    for (int j = 0; j < MOST_WAITS && !is_empty(device, lost, &stats); j++) {
        usleep(20000); // a member that was given up is in the compiler until it comes back
    }
    if (!is_empty(device, lost, &stats)) {
        KILN_FAIL("%s: %llu tensors and %llu bytes are left after %s", w->name,
                  (unsigned long long)stats.tensors_live,
                  (unsigned long long)stats.backend.bytes_used, fault);
    }
    kiln_device_release(device);
}

void world_close(world *w, const char *fault)
{
    kiln_release(w->before);
    kiln_graph_destroy(w->graph);
    kiln_collective_destroy(w->group);
    kiln_onnx_session_destroy(w->session);
    kiln_onnx_model_close(w->model);
    kiln_bundle_close(w->bundle);
    for (size_t i = 0; i < w->n_devices; i++) {
        close_device(w, w->devices[i], fault);
    }
    kiln_context_destroy(w->context);
}

bool world_is_lost(const world *w)
{
    bool lost = false;
    for (size_t i = 0; i < w->n_devices; i++) {
        lost = lost || kiln_device_status(w->devices[i], NULL) == KILN_STATUS_DEVICE_LOST;
    }
    return lost;
}
