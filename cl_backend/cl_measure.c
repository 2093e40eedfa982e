// SPDX-License-Identifier: MIT OR Apache-2.0
// Measures a device once: bytes per second of a copy, and the cost of one more kernel in a queue.
// The figures are kept in the store under the device's fingerprint. A GPU is measured when it is
// opened for the first time: what its memory does cannot be guessed (0.3 to 5 TB/s), and choices
// among fusers follow from it. A processor is, when choices are to be measured anyway.

#include <string.h>

#include "cl_device.h"
#include "cl_launch.h"
#include "cl_measure.h"
#include "cl_pool.h"
#include "cl_program.h"
#include "cl_queue.h"
#include "cl_state.h"

static const char measure_source[] =
    "__kernel void kiln_measure_copy(__global const float4 *a, __global float4 *b, uint n)\n"
    "{ uint i = get_global_id(0); if (i < n) b[i] = a[i]; }\n"
    "__kernel void kiln_measure_nothing(__global float *a)\n"
    "{ if (get_global_id(0) == 1u << 30) a[0] = 0.0f; }\n";

enum { COPY_RUNS = 5, LEAST_RUNS = 3, COPIES = 4, LAUNCHES = 256 };

static const uint64_t long_ns = 50000000; ///< of a few copies or launches: no more are tried then
static const uint64_t longest_ns = 200000000; ///< that a larger copy may be expected to take
/// Bytes per second that no memory is below: a simulator's figures say nothing.
static const uint64_t simulated = 50000000;

typedef struct speeds { ///< what is stored
    uint32_t format;
    uint32_t reserved;
    uint64_t bytes_per_s;
    uint64_t launch_ns;
} speeds;

static bool recall(kilni_cl_backend *backend)
{
    kiln_blob entry = {0};
    speeds stored = {0};
    if (backend->store == NULL ||
        kiln_store_get(backend->store, KILN_STORE_DEVICES, kilni_cl_device_key(backend, "speeds"),
                       &entry, NULL) != KILN_STATUS_OK) {
        return false;
    }
    if (entry.length == sizeof(stored)) {
        memcpy(&stored, entry.data, sizeof(stored));
    }
    kiln_free(backend->env, entry.data);
    bool good = stored.format == 1 && stored.bytes_per_s > 0;
    if (good) {
        backend->info.bytes_per_s = stored.bytes_per_s;
        backend->info.launch_ns = stored.launch_ns;
    }
    return good;
}

/* Not where choices must not depend on measurements, and of processors only what can be kept. */
static bool is_wanted(const kilni_cl_backend *backend)
{
    const kiln_config *config = backend->env->config;
    if (kiln_config_bool(config, KILN_KNOB_DETERMINISTIC) ||
        (backend->info.features & KILN_FEATURE_COMPILER) == 0) {
        return false;
    }
    return backend->info.type == KILN_DEVICE_GPU ||
           (backend->store != NULL &&
            strcmp(kiln_config_string(config, KILN_KNOB_TUNE), "off") != 0);
}

/* A device that was measured looks as one that was not. */
static void leave_no_trace(kilni_cl_backend *backend)
{
    kilni_cl_pool_trim(backend);
    backend->pool.hits = backend->pool.creates = 0;
    backend->stats = (kiln_backend_stats){.bytes_budget = backend->pool.budget};
    backend->counters = (kiln_cl_counters){0};
}

void kilni_cl_device_calibrate(kilni_cl_backend *backend)
{
    kiln_error err = KILN_ERROR_INIT;
    if (recall(backend) || !is_wanted(backend)) {
        return;
    }
    if (kiln_cl_measure(&backend->base, &err) != KILN_STATUS_OK) {
        kiln_log_write(backend->env, KILN_LOG_INFO, "cl_backend", "%s was not measured: %s",
                       backend->info.name, err.message);
    }
    leave_no_trace(backend);
}

static kiln_status time_copies(kilni_cl_backend *backend, kilni_cl_kernel *kernel, size_t bytes,
                               uint64_t *out_ns, kiln_error *err)
{
    kiln_buffer *source = NULL;
    kiln_buffer *target = NULL;
    kiln_status status = KILN_STATUS_OK;
    const size_t local = 64;
    const size_t count = bytes / 16;
    KILN_TRY(out, status, kilni_cl_alloc(backend, bytes, &source, err));
    KILN_TRY(out, status, kilni_cl_alloc(backend, bytes, &target, err));
    *out_ns = UINT64_MAX;
    for (int i = 0; i <= COPY_RUNS; i++) { // the first touches the memory and compiles
        uint64_t begin = kiln_time_ns();
        for (int j = 0; j < COPIES; j++) { // several, so that the wait does not count
            kilni_cl_args args = kilni_cl_args_begin(backend, kernel);
            kilni_cl_push_buffer(&args, source);
            kilni_cl_push_buffer(&args, target);
            kilni_cl_push_u32(&args, (uint32_t)count);
            KILN_TRY(out, status, kilni_cl_enqueue(&args, 1, &count, &local, err));
        }
        KILN_TRY(out, status, kilni_cl_drain(backend, err));
        uint64_t taken = (kiln_time_ns() - begin) / COPIES;
        *out_ns = i > 0 && taken < *out_ns ? taken : *out_ns;
        if (i >= LEAST_RUNS && taken * COPIES > long_ns) {
            break;
        }
    }
out:
    kilni_cl_free(backend, source);
    kilni_cl_free(backend, target);
    return status;
}

static kiln_status time_launches(kilni_cl_backend *backend, kilni_cl_kernel *kernel,
                                 uint64_t *out_ns, kiln_error *err)
{
    kiln_buffer *buffer = NULL;
    kiln_status status = KILN_STATUS_OK;
    const size_t size = 64;
    uint64_t begin = 0;
    int launched = 0;
    KILN_TRY(out, status, kilni_cl_alloc(backend, 256, &buffer, err));
    for (int i = 0; i <= LAUNCHES; i++) {
        kilni_cl_args args = kilni_cl_args_begin(backend, kernel);
        kilni_cl_push_buffer(&args, buffer);
        KILN_TRY(out, status, kilni_cl_enqueue(&args, 1, &size, &size, err));
        if (i == 0) {
            KILN_TRY(out, status, kilni_cl_drain(backend, err));
            begin = kiln_time_ns();
        }
        launched = i;
        if (kiln_time_ns() - begin > long_ns) {
            break;
        }
    }
    KILN_TRY(out, status, kilni_cl_drain(backend, err));
    *out_ns = (kiln_time_ns() - begin) / (uint64_t)(launched > 0 ? launched : 1);
out:
    kilni_cl_free(backend, buffer);
    return status;
}

static size_t most_bytes(const kilni_cl_backend *backend)
{
    size_t bytes = backend->info.type == KILN_DEVICE_GPU ? (size_t)256 << 20 : (size_t)64 << 20;
    while (bytes > 1 << 20 &&
           (bytes > backend->info.max_alloc_bytes / 2 || bytes > backend->pool.budget / 8)) {
        bytes /= 2;
    }
    return bytes;
}

/// The rate of the largest copy that does not take long: a simulated device is slow.
static kiln_status measure_copies(kilni_cl_backend *backend, kilni_cl_kernel *kernel,
                                  uint64_t *out_bytes_per_s, kiln_error *err)
{
    enum { FIRST_BYTES = 64 << 10, STEP = 32 };
    size_t most = most_bytes(backend);
    for (size_t bytes = FIRST_BYTES; bytes != 0;) {
        uint64_t ns = 0;
        kiln_status status = time_copies(backend, kernel, bytes, &ns, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        ns = ns > 0 ? ns : 1;
        *out_bytes_per_s = (uint64_t)(2.0 * (double)bytes / ((double)ns * 1e-9));
        size_t next = bytes * STEP < most ? bytes * STEP : most;
        bytes = next > bytes && ns * (next / bytes) < longest_ns ? next : 0;
    }
    return KILN_STATUS_OK;
}

static void remember(kilni_cl_backend *backend)
{
    speeds found = {.format = 1,
                    .bytes_per_s = backend->info.bytes_per_s,
                    .launch_ns = backend->info.launch_ns};
    kiln_error err = KILN_ERROR_INIT;
    if (backend->store != NULL &&
        kiln_store_put(backend->store, KILN_STORE_DEVICES, kilni_cl_device_key(backend, "speeds"),
                       &found, sizeof(found), &err) != KILN_STATUS_OK) {
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend", "speeds not stored: %s",
                       err.message);
    }
}

kiln_status kiln_cl_measure(kiln_backend *base, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_program *program = NULL;
    kilni_cl_kernel *copy;
    kilni_cl_kernel *nothing;
    uint64_t launch_ns = 0, bytes_per_s = 0;
    kiln_status status = KILN_STATUS_OK;
    kilni_cl_build build = {.format = KILN_SOURCE_OPENCL_C,
                            .code = measure_source,
                            .length = sizeof(measure_source) - 1,
                            .options = "-cl-std=CL1.2",
                            .label = "the measuring kernels",
                            .once = true};
    KILN_TRY(out, status, kilni_cl_program_get(backend, &build, &program, err));
    KILN_TRY(out, status,
             kilni_cl_program_kernel(backend, program, "kiln_measure_copy", &copy, err));
    KILN_TRY(out, status,
             kilni_cl_program_kernel(backend, program, "kiln_measure_nothing", &nothing, err));
    KILN_TRY(out, status, time_launches(backend, nothing, &launch_ns, err));
    KILN_TRY(out, status, measure_copies(backend, copy, &bytes_per_s, err));
    if (bytes_per_s >= simulated) {
        backend->info.bytes_per_s = bytes_per_s;
        backend->info.launch_ns = launch_ns;
        remember(backend);
    }
out:
    kilni_cl_program_release(backend, program);
    return status;
}
