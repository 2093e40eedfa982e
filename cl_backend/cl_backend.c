// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens and closes a device and fills the tables of the backend interface. What each entry does is
// in the other files; here is only the order of construction, and which of BLAS and Kiln's own
// kernels gets an operation.

#include <string.h>
#include <sys/stat.h>

#include "cl_ahead.h"
#include "cl_blas.h"
#include "cl_built.h"
#include "cl_compiler.h"
#include "cl_copy.h"
#include "cl_device.h"
#include "cl_error.h"
#include "cl_facts.h"
#include "cl_host.h"
#include "cl_interop.h"
#include "cl_keep.h"
#include "cl_kernel.h"
#include "cl_measure.h"
#include "cl_origin.h"
#include "cl_pool.h"
#include "cl_prepared.h"
#include "cl_program.h"
#include "cl_program_cache.h"
#include "cl_queue.h"
#include "cl_read.h"
#include "cl_rest.h"
#include "cl_state.h"
#include "cl_sub_buffer.h"
#include "cl_svm.h"
#include "cl_trace.h"
#include "cl_transfer.h"
#include "exec.h"

// ---- closing ----

static void backend_close(kiln_backend *base)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    if (backend == NULL) {
        return;
    }
    kilni_cl_ahead_stop(backend);
    if (kilni_cl_is_stuck(backend)) { // releasing what a kernel uses may wait for it
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend",
                       "device %s is closed while a kernel runs: its memory stays",
                       backend->info.name);
        kilni_cl_queue_leave(backend);
        kilni_cl_follow_end(backend);
        return;
    }
    if (backend->queue != NULL && !backend->flight.lost && clFinish(backend->queue) == CL_SUCCESS) {
        kilni_cl_programs_save(backend);
        kilni_cl_ahead_save(backend);
    }
    kilni_cl_ahead_close(backend);
    kilni_cl_kernels_close(backend);
    kilni_cl_keep_close(backend);
    if (backend->queue != NULL) {
        kilni_cl_transfer_close(backend);
        kilni_cl_host_close(backend);
    }
    kilni_cl_reader_close(backend);
    kilni_cl_pool_trim(backend);
    kilni_cl_blas_close(backend);
    kilni_cl_recorder_close(backend);
    kilni_cl_trace_close(backend);
    kilni_cl_queue_close(backend);
    if (backend->context != NULL) {
        clReleaseContext(backend->context);
    }
    if (backend->device != NULL) {
        clReleaseDevice(backend->device); // a part of a device; for others it means nothing
    }
    kiln_store_close(backend->store);
    kilni_cl_device_info_free(backend);
    kiln_free(backend->env, backend);
}

// ---- the tables ----

static const kiln_device_info *backend_info(kiln_backend *base)
{
    return &kilni_cl_backend_of(base)->info;
}

// Accelerated is what CLBlast multiplies.
static uint32_t backend_dtype_usage(kiln_backend *base, kiln_dtype dtype)
{
    uint32_t features = kilni_cl_backend_of(base)->info.features;
    uint32_t both = KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC;
    uint32_t blas = (features & KILN_FEATURE_COMPILER) != 0 ? KILN_USAGE_ACCELERATED : 0;
    switch (dtype) {
    case KILN_DTYPE_BF16:
        return KILN_USAGE_STORAGE;
    case KILN_DTYPE_F16:
        return (features & KILN_FEATURE_FP16) != 0 ? both : KILN_USAGE_STORAGE;
    case KILN_DTYPE_F32:
        return both | blas;
    case KILN_DTYPE_F64:
        return (features & KILN_FEATURE_FP64) != 0 ? both | blas : KILN_USAGE_STORAGE;
    default:
        return kiln_dtype_size(dtype) != 0                    ? both
               : kiln_dtype_kind_of(dtype) == KILN_KIND_QUANT ? KILN_USAGE_STORAGE
                                                              : 0;
    }
}

static void backend_stats(kiln_backend *base, kiln_backend_stats *out_stats)
{
    const kilni_cl_backend *backend = kilni_cl_backend_of(base);
    *out_stats = backend->stats;
    out_stats->pool_reuses = backend->pool.hits;
    out_stats->programs_live = backend->programs.count;
    out_stats->programs_idle = backend->programs.idle;
    out_stats->program_bytes = backend->programs.bytes;
    out_stats->kernels_live = backend->programs.kernels;
}

static kiln_status backend_alloc(kiln_backend *base, size_t bytes, kiln_buffer **out_buffer,
                                 kiln_error *err)
{
    return kilni_cl_alloc(kilni_cl_backend_of(base), bytes, out_buffer, err);
}

static kiln_status backend_alloc_persistent(kiln_backend *base, size_t bytes,
                                            kiln_buffer **out_buffer, kiln_error *err)
{
    return kilni_cl_alloc_persistent(kilni_cl_backend_of(base), bytes, out_buffer, err);
}

kiln_status kiln_cl_alloc_bank(kiln_backend *base, size_t bytes, uint32_t bank,
                               kiln_buffer **out_buffer, kiln_error *err)
{
    return kilni_cl_alloc_bank(kilni_cl_backend_of(base), bytes, bank, out_buffer, err);
}

static void backend_free(kiln_backend *base, kiln_buffer *buffer)
{
    kilni_cl_free(kilni_cl_backend_of(base), buffer);
}

static void backend_trim(kiln_backend *base)
{
    kilni_cl_pool_trim(kilni_cl_backend_of(base));
}

static kiln_status backend_set_budget(kiln_backend *base, uint64_t bytes, kiln_error *err)
{
    (void)err;
    kilni_cl_set_budget(base, bytes);
    return KILN_STATUS_OK;
}

static kiln_status backend_execute(kiln_backend *base, const kiln_op_record *record,
                                   const kiln_view *inputs, const kiln_view *outputs,
                                   kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    bool compiles = backend->compiler.compiles;
    kiln_status status = kilni_cl_usable(backend, err);
    backend->loan.executing = true;
    backend->loan.n_asked = 0;
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_execute(backend, record, inputs, outputs, err);
    }
    if (status != KILN_STATUS_OK && compiles && !backend->compiler.compiles) {
        status =
            kilni_cl_execute(backend, record, inputs, outputs, err); // now without the compiler
    }
    backend->loan.executing = false;
    backend->loan.n_given = 0;
    if (status == KILN_STATUS_OK) {
        backend->stats.ops_executed++;
    }
    return status;
}

static bool backend_execute_joined(kiln_backend *base, const kiln_joined_op *ops, uint32_t n_ops)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    bool done = kilni_cl_execute_joined(backend, ops, n_ops);
    backend->stats.ops_executed += done ? n_ops : 0;
    return done;
}

static bool backend_runs(kiln_backend *base, const kiln_op_record *record)
{
    return kilni_cl_has_kernel(record->op) &&
           kilni_cl_kernel_pays(kilni_cl_backend_of(base), record);
}

static kiln_status backend_flush(kiln_backend *base, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = clFlush(backend->queue);
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail(backend, err, code, "flushing the queue");
}

static kiln_status backend_sync(kiln_backend *base, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = kilni_cl_drain(backend, err);
    if (status == KILN_STATUS_OK) {
        kilni_cl_programs_quiet(backend);
    }
    return status;
}

/// A wait is a time to write what was compiled.
static kiln_status backend_read_end(kiln_backend *base, kiln_pending *pending, kiln_error *err)
{
    kiln_status status = kilni_cl_read_end(base, pending, err);
    if (status == KILN_STATUS_OK) {
        kilni_cl_programs_quiet(kilni_cl_backend_of(base));
    }
    return status;
}

static kiln_status backend_read(kiln_backend *base, kiln_buffer *given, size_t offset,
                                void *out_data, size_t bytes, kiln_error *err)
{
    kiln_pending *pending = NULL;
    kiln_status status = kilni_cl_read_begin(base, given, offset, out_data, bytes, &pending, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_read_wait(pending, /*cancel=*/false);
    return backend_read_end(base, pending, err);
}

static const kiln_backend_queue_ops cl_queue_ops = {
    .struct_size = sizeof(kiln_backend_queue_ops),
    .open_auxiliary = kiln_cl_open_auxiliary,
    .marker = kiln_cl_mark,
    .user_event = kiln_cl_gate,
    .event_signal = kiln_cl_event_signal,
    .event_after = kiln_cl_event_after,
    .event_wait = kiln_cl_event_wait,
    .event_destroy = kiln_cl_event_destroy,
    .write = kiln_cl_write,
    .map = kiln_cl_map,
    .unmap = kiln_cl_unmap,
    .abandon = kilni_cl_abandon,
    .host_address = kilni_cl_host_address,
};

static const kiln_backend_device_ops cl_device_ops = {
    .struct_size = sizeof(kiln_backend_device_ops),
    .close = backend_close,
    .info = backend_info,
    .dtype_usage = backend_dtype_usage,
    .stats = backend_stats,
    .execute = backend_execute,
    .execute_joined = backend_execute_joined,
    .runs = backend_runs,
    .flush = backend_flush,
    .sync = backend_sync,
    .doubt_speeds = kilni_cl_speeds_doubt,
};

static const kiln_backend_memory_ops cl_memory_ops = {
    .struct_size = sizeof(kiln_backend_memory_ops),
    .alloc = backend_alloc,
    .alloc_persistent = backend_alloc_persistent,
    .free = backend_free,
    .trim = backend_trim,
    .set_budget = backend_set_budget,
    .reset_peaks = kilni_cl_reset_peaks,
    .host_alloc = kilni_cl_host_alloc,
    .host_free = kilni_cl_host_free,
    .wrap_host = kilni_cl_wrap_host,
    .alloc_from = kilni_cl_alloc_from,
    .reside = kilni_cl_reside,
    .resides = kilni_cl_resides,
    .map = kilni_cl_map_shared,
    .unmap = kilni_cl_unmap_shared,
};

static const kiln_backend_transfer_ops cl_transfer_ops = {
    .struct_size = sizeof(kiln_backend_transfer_ops),
    .upload = kilni_cl_upload,
    .read = backend_read,
    .copy = kilni_cl_copy,
    .read_begin = kilni_cl_read_begin,
    .read_poll = kilni_cl_read_poll,
    .read_wait = kilni_cl_read_wait,
    .read_end = backend_read_end,
};

static const kiln_backend_program_ops cl_program_ops = {
    .struct_size = sizeof(kiln_backend_program_ops),
    .build = kilni_cl_built_create,
    .free = kilni_cl_built_free,
    .launch = kilni_cl_built_launch,
    .time = kilni_cl_built_time,
    .ready = kilni_cl_built_ready,
    .parts = kilni_cl_built_parts,
    .compiles = kilni_cl_compiles,
};

static const kiln_backend_prepared_ops cl_prepared_ops = {
    .struct_size = sizeof(kiln_backend_prepared_ops),
    .prepare = kilni_cl_prepare,
    .replace = kilni_cl_replace,
    .enqueue = kilni_cl_enqueue_prepared,
    .unprepare = kilni_cl_unprepare,
};

static const kiln_backend_arena_ops cl_arena_ops = {
    .struct_size = sizeof(kiln_backend_arena_ops),
    .alloc = kilni_cl_alloc_arena,
    .sub_buffer = kilni_cl_sub_buffer,
    .lend = kilni_cl_lend,
    .asked = kilni_cl_asked,
};

static const kiln_backend_trace_ops cl_trace_ops = {
    .struct_size = sizeof(kiln_backend_trace_ops),
    .set = kilni_cl_trace_set,
    .tag = kilni_cl_trace_tag,
    .take = kilni_cl_trace_take,
};

static const kiln_backend tables = {
    .struct_size = sizeof(kiln_backend),
    .scheme = "opencl",
    .device = &cl_device_ops,
    .memory = &cl_memory_ops,
    .transfer = &cl_transfer_ops,
    .program = &cl_program_ops,
    .arena = &cl_arena_ops,
    .queue = &cl_queue_ops,
    .trace = &cl_trace_ops,
    .prepared = &cl_prepared_ops,
};

bool kiln_cl_is(const kiln_backend *backend)
{
    return backend != NULL && backend->device == &cl_device_ops;
}

void kiln_cl_counters_get(kiln_backend *base, kiln_cl_counters *out_counters)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    backend->counters.struct_size = (uint32_t)sizeof(kiln_cl_counters);
    backend->counters.programs_held = backend->programs.count;
    backend->counters.pool_hits = backend->pool.hits;
    backend->counters.pool_creates = backend->pool.creates;
    *out_counters = backend->counters;
}

// ---- opening ----

static void CL_CALLBACK context_said(const char *text, const void *bytes, size_t length, void *user)
{
    (void)bytes;
    (void)length;
    kiln_log_write(user, KILN_LOG_WARN, "cl_backend", "driver: %s", text);
}

static kiln_status open_queue(kilni_cl_backend *backend, kiln_error *err)
{
    cl_int code = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)backend->platform, 0};
    backend->context = clCreateContext(properties, 1, &backend->device, context_said,
                                       (void *)(uintptr_t)backend->env, &code);
    if (code != CL_SUCCESS) {
        kiln_status status = kilni_cl_fail(NULL, err, code, "a context on %s", backend->info.name);
        if (status == KILN_STATUS_DEVICE_LOST) { // NVIDIA, after an illegal access in this process
            kiln_error_context(err, "the device was lost and this driver wants a new process");
        }
        return status;
    }
    backend->queue = clCreateCommandQueue(backend->context, backend->device, 0, &code);
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail(NULL, err, code, "a queue on %s", backend->info.name);
}

// Kernels from nowhere would be the embedded ones, which is not what was asked for.
static kiln_status check_kernel_dir(const kiln_env *env, kiln_error *err)
{
    const char *folder = kiln_config_string(env->config, KILN_OPTION_KERNEL_DIR);
    struct stat info;
    bool good =
        folder == NULL || folder[0] == '\0' || (stat(folder, &info) == 0 && S_ISDIR(info.st_mode));
    return good ? KILN_STATUS_OK
                : kiln_fail(err, NOT_FOUND, "kernel-dir: there is no folder %s", folder);
}

// Without a store everything works, each process compiling for itself.
static void open_store(kilni_cl_backend *backend, kiln_status status, const char *folder,
                       kiln_error *err)
{
    if (status == KILN_STATUS_OK && !kilni_cl_ahead_store(backend, &status, err)) {
        status = kiln_store_open(backend->env, folder, &backend->store, err);
    }
    if (status == KILN_STATUS_OK) {
        return;
    }
    backend->store = NULL;
    bool expected =
        status == KILN_STATUS_FAILED_PRECONDITION || status == KILN_STATUS_UNIMPLEMENTED;
    kiln_log_write(backend->env, expected ? KILN_LOG_DEBUG : KILN_LOG_WARN, "cl_backend",
                   "no program cache on disk: %s", err->message);
}

typedef struct open_request { ///< by address, or on the caller's queue
    const char *address;
    void *context;
    void *queue;
} open_request;

static kiln_status find_or_take(kilni_cl_backend *backend, const open_request *request,
                                kiln_error *err)
{
    kiln_status status = request->queue != NULL
                             ? kilni_cl_take_queue(backend, request->context, request->queue, err)
                             : kilni_cl_device_find(backend->env, request->address,
                                                    &backend->platform, &backend->device, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    KILN_TRY(out, status, kilni_cl_device_info_read(backend, err));
    backend->info.op_launches = kilni_cl_op_launches();
    KILN_TRY(out, status, kilni_cl_compiler_init(backend, err));
    KILN_TRY(out, status, kilni_cl_recorder_open(backend, err));
    if (request->queue == NULL) {
        KILN_TRY(out, status, open_queue(backend, err));
    }
out:
    return status;
}

static kiln_status open_any(const kiln_env *env, const open_request *request,
                            kiln_backend **out_backend, kiln_error *err)
{
    *out_backend = NULL;
    kilni_cl_backend *backend = kiln_alloc(env, sizeof(*backend));
    if (backend == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a device");
    }
    backend->base = tables;
    backend->base.env = env;
    backend->env = env;
    pthread_mutex_init(&backend->reader.lock, NULL);
    kilni_cl_follow_init(&backend->flight.follower);
    char folder[1024];
    kiln_error no_cache = KILN_ERROR_INIT;
    kiln_status cache = kiln_cache_dir(env, folder, sizeof(folder), &no_cache);
    kiln_status status = check_kernel_dir(env, err);
    if (status == KILN_STATUS_OK) {
        if (cache == KILN_STATUS_OK && request->queue == NULL) {
            kilni_cl_ahead_begin(backend, request->address, folder);
        }
        status = find_or_take(backend, request, err);
    }
    if (status != KILN_STATUS_OK) {
        backend_close(&backend->base);
        return status;
    }
    kilni_cl_queue_open(backend);
    open_store(backend, cache, folder, &no_cache);
    (void)kilni_cl_rest_compiler();
    kilni_cl_ahead_go(backend);
    kilni_cl_pool_init(backend);
    kilni_cl_keep_init(backend);
    kilni_cl_sub_buffers_init(backend);
    kilni_cl_compiler_recall(backend);
    kilni_cl_device_calibrate(backend, request->queue == NULL);
    *out_backend = &backend->base;
    return KILN_STATUS_OK;
}

static kiln_status open_backend(const kiln_env *env, const char *address,
                                kiln_backend **out_backend, kiln_error *err, void *user)
{
    const open_request request = {.address = address};
    (void)user;
    return open_any(env, &request, out_backend, err);
}

kiln_status kiln_cl_open_queue(const kiln_env *env, void *context, void *queue,
                               kiln_backend **out_backend, kiln_error *err)
{
    const open_request request = {.context = context, .queue = queue};
    return open_any(env, &request, out_backend, err);
}

kiln_status kiln_cl_open_auxiliary(kiln_backend *base, kiln_backend **out_lane, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    cl_int code = CL_SUCCESS;
    *out_lane = NULL;
    cl_command_queue queue = clCreateCommandQueue(backend->context, backend->device, 0, &code);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "a second queue on %s", backend->info.name);
    }
    kiln_status status = kiln_cl_open_queue(backend->env, backend->context, queue, out_lane, err);
    clReleaseCommandQueue(queue); // the new backend has a hold of its own
    if (status == KILN_STATUS_OK) {
        kilni_cl_backend *lane = kilni_cl_backend_of(*out_lane);
        lane->info.features = backend->info.features; // it is the same device
        lane->flight.keeps_copies = true;
        kilni_cl_set_budget(*out_lane, backend->pool.budget);
    }
    return status;
}

static const kiln_backend_provider provider = {
    .struct_size = sizeof(kiln_backend_provider),
    .interface = KILN_BACKEND_INTERFACE,
    .scheme = "opencl",
    .open = open_backend,
    .describe = kilni_cl_device_describe,
    .type_of = kilni_cl_device_type_of,
};

const kiln_backend_provider *kiln_cl_provider(void)
{
    return &provider;
}
