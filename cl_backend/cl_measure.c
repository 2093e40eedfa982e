// SPDX-License-Identifier: MIT OR Apache-2.0
// Measures a device once: bytes per second of a copy, and the cost of one more kernel in a queue.
// The figures are kept in the store under the device's fingerprint. Who asks for it, and when, is
// the caller's.

#include <string.h>

#include "cl_internal.h"

static const char measure_source[] =
    "__kernel void kiln_measure_copy(__global const float4 *a, __global float4 *b, uint n)\n"
    "{ uint i = get_global_id(0); if (i < n) b[i] = a[i]; }\n"
    "__kernel void kiln_measure_nothing(__global float *a)\n"
    "{ if (get_global_id(0) == 1u << 30) a[0] = 0.0f; }\n";

enum { COPY_RUNS = 5, COPIES = 4, LAUNCHES = 256 };

typedef struct speeds { ///< what is stored
    uint32_t format;
    uint32_t reserved;
    uint64_t bytes_per_s;
    uint64_t launch_ns;
} speeds;

static kiln_hash128 speeds_key(const kilni_cl_backend *backend)
{
    struct {
        kiln_hash128 device;
        char what[16];
    } key;
    memset(&key, 0, sizeof(key));
    key.device = backend->info.fingerprint;
    memcpy(key.what, "speeds", 6);
    return kiln_hash_bytes(&key, sizeof(key));
}

void kilni_cl_device_recall(kilni_cl_backend *backend)
{
    kiln_blob entry = {0};
    speeds stored;
    if (backend->store == NULL ||
        kiln_store_get(backend->store, KILN_STORE_DEVICES, speeds_key(backend), &entry, NULL) !=
            KILN_STATUS_OK) {
        return;
    }
    if (entry.length == sizeof(stored)) {
        memcpy(&stored, entry.data, sizeof(stored));
        if (stored.format == 1 && stored.bytes_per_s > 0) {
            backend->info.bytes_per_s = stored.bytes_per_s;
            backend->info.launch_ns = stored.launch_ns;
        }
    }
    kiln_free(backend->env, entry.data);
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
    KILN_TRY(out, status, kilni_cl_alloc(backend, 256, &buffer, err));
    for (int i = 0; i <= LAUNCHES; i++) {
        kilni_cl_args args = kilni_cl_args_begin(backend, kernel);
        kilni_cl_push_buffer(&args, buffer);
        KILN_TRY(out, status, kilni_cl_enqueue(&args, 1, &size, &size, err));
        if (i == 0) {
            KILN_TRY(out, status, kilni_cl_drain(backend, err));
            begin = kiln_time_ns();
        }
    }
    KILN_TRY(out, status, kilni_cl_drain(backend, err));
    *out_ns = (kiln_time_ns() - begin) / LAUNCHES;
out:
    kilni_cl_free(backend, buffer);
    return status;
}

static size_t copy_bytes(const kilni_cl_backend *backend)
{
    size_t bytes = backend->info.type == KILN_DEVICE_GPU ? (size_t)256 << 20 : (size_t)64 << 20;
    while (bytes > 1 << 20 &&
           (bytes > backend->info.max_alloc_bytes / 2 || bytes > backend->pool.budget / 8)) {
        bytes /= 2;
    }
    return bytes;
}

static void remember(kilni_cl_backend *backend)
{
    speeds found = {.format = 1,
                    .bytes_per_s = backend->info.bytes_per_s,
                    .launch_ns = backend->info.launch_ns};
    kiln_error err = KILN_ERROR_INIT;
    if (backend->store != NULL &&
        kiln_store_put(backend->store, KILN_STORE_DEVICES, speeds_key(backend), &found,
                       sizeof(found), &err) != KILN_STATUS_OK) {
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
    uint64_t copy_ns = 0;
    uint64_t launch_ns = 0;
    size_t bytes = copy_bytes(backend);
    kiln_status status = KILN_STATUS_OK;
    kilni_cl_build build = {.format = KILN_SOURCE_OPENCL_C,
                            .code = measure_source,
                            .length = sizeof(measure_source) - 1,
                            .options = "-cl-std=CL1.2",
                            .label = "the measuring kernels"};
    KILN_TRY(out, status, kilni_cl_program_get(backend, &build, &program, err));
    KILN_TRY(out, status,
             kilni_cl_program_kernel(backend, program, "kiln_measure_copy", &copy, err));
    KILN_TRY(out, status,
             kilni_cl_program_kernel(backend, program, "kiln_measure_nothing", &nothing, err));
    KILN_TRY(out, status, time_copies(backend, copy, bytes, &copy_ns, err));
    KILN_TRY(out, status, time_launches(backend, nothing, &launch_ns, err));
    double seconds = (double)(copy_ns > 0 ? copy_ns : 1) * 1e-9;
    backend->info.bytes_per_s = (uint64_t)(2.0 * (double)bytes / seconds);
    backend->info.launch_ns = launch_ns;
    remember(backend);
out:
    kilni_cl_program_release(backend, program);
    return status;
}
