// SPDX-License-Identifier: MIT OR Apache-2.0
// Puts the rooms together: a device is made with the tables of those above it, and ended by all of
// them in turn. Decides which room does what for a device, and in which order they let go of it.

#include "gradsync_internal.h"
#include "rt_assembly.h"
#include "rt_aux_queues.h"
#include "rt_binding.h"
#include "rt_check.h"
#include "rt_check_state.h"
#include "rt_collective.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_engines.h"
#include "rt_execute.h"
#include "rt_layout.h"
#include "rt_memory_account.h"
#include "rt_moves.h"
#include "rt_persistent_temps.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"
#include "rt_trace.h"
#include "rt_tune.h"

#include <stdio.h>
#include <time.h>

static const kilni_executor executor = {
    .run = kilni_stream_run,
    .drain = kilni_device_drain,
};

static bool sweep(kiln_device *device)
{
    bool any = device->in.backend != NULL;
    kilni_device_sweep(device);
    return any;
}

static const kilni_reclaim_fn reclaim[] = {kilni_arena_drop, kilni_persistent_temp_drop, sweep,
                                           kilni_aux_queues_trim, NULL};

static const kilni_reclaimers reclaimers = {
    .all = reclaim,
    .forget = kilni_persistent_temp_forget,
};

static const kilni_run_hooks hooks = {
    .before_run = kilni_record_file,
    .before_block = kilni_tune_block,
    .scores_free = kilni_scores_fini,
    .shadow_begin = kilni_check_begin,
    .shadow_end = kilni_check_end,
    .before_launch = kilni_watchdog_begin,
    .after_launch = kilni_watchdog_wait,
    .before_op = kilni_check_indices,
    .collective_is_served = kilni_collective_is_served,
    .collective = kilni_collective_execute,
};

// ---- opening and closing ----

static void read_modes(kiln_device *device)
{
    const kiln_context *context = device->context;
    device->samples.tune = kilni_tune_mode(context);
    device->samples.budget.percent =
        (uint64_t)kiln_config_int(context->env.config, KILN_OPTION_TUNE_BUDGET);
    device->check.mode = kilni_check_mode_of(context);
    device->check.watchdog_ms = kiln_config_int(context->env.config, KILN_OPTION_WATCHDOG);
}

/// What a server runs, it records.
static void read_folder(kiln_device *device)
{
    const kiln_device_info *info = kiln_device_info_of(device);
    const kiln_env *env = &device->context->env;
    const char *folder = kiln_config_string(env->config, KILN_OPTION_RECORD);
    bool remote = info->type == KILN_DEVICE_REMOTE;
    device->check.records = folder[0] != '\0' && !remote ? folder : NULL;
    if (folder[0] != '\0' && remote) {
        kiln_log_write(env, KILN_LOG_WARN, "runtime",
                       "record: nothing of %s is recorded here; set it for its server (kiln plugin "
                       "record -- kiln serve ...)",
                       info->name);
    }
}

void kilni_device_free(kiln_device *device)
{
    kiln_context *context = device->context;
    kilni_trace_leave(device);
    if (device->backend != NULL && kilni_engines_surprised(device)) {
        device->backend->device->doubt_speeds(device->backend);
    }
    kilni_engines_destroy(device);
    (void)kilni_arena_drop(device);
    while (device->tensors.free != NULL) {
        kiln_tensor *tensor = device->tensors.free;
        device->tensors.free = tensor->next_free;
        kiln_free(&context->env, tensor);
    }
    kiln_free(&context->env, device->execution.bindings);
    kiln_free(&context->env, device->check.recorded);
    kiln_free(&context->env, device->check.index_places);
    kiln_free(&context->env, device->full);
    kiln_free(&context->env, device->threads.places);
    if (device->faults.first != NULL) {
        kilni_fault_release(device, device->faults.first);
    }
    kilni_dependencies_release(device->awaited);
    kilni_aux_queues_close(device);
    if (device->backend != NULL) {
        device->backend->device->close(device->backend);
    }
    pthread_cond_destroy(&device->future_ended);
    pthread_mutex_destroy(&device->ended.lock);
    pthread_mutex_destroy(&device->lock);
    kiln_free(&context->env, device);
    kilni_context_release(context);
}

static void close_device(kiln_device *device)
{
    kiln_context *context = device->context;
    pthread_mutex_lock(&context->lock);
    kiln_device **link = &context->devices;
    while (*link != NULL && *link != device) {
        link = &(*link)->next;
    }
    if (*link == device) {
        *link = device->next;
    }
    pthread_mutex_unlock(&context->lock);
    pthread_mutex_lock(&device->lock);
    kilni_await_moves(device);
    while (device->streams.first != NULL) {
        kilni_stream *stream = device->streams.first;
        device->streams.first = stream->next;
        kilni_stream_destroy(stream);
    }
    kilni_device_sweep(device);
    pthread_mutex_unlock(&device->lock);
    kilni_device_free(device);
}

kiln_status kilni_device_create(kiln_context *context, const char *address,
                                const kiln_backend_provider *provider, kiln_device **out_device,
                                kiln_error *err)
{
    kiln_device *device = kiln_alloc(&context->env, sizeof(*device));
    if (device == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a device");
    }
    kilni_context_retain(context);
    atomic_init(&device->refs, 1);
    device->core = device;
    device->float_dtype = KILN_DTYPE_F32;
    device->int_dtype = KILN_DTYPE_I64;
    device->context = context;
    device->executor = &executor;
    device->memory.reclaimers = &reclaimers;
    device->hooks = &hooks;
    device->close = close_device;
    snprintf(device->address, sizeof(device->address), "%s", address);
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->ended.lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&device->future_ended, &attributes);
    pthread_condattr_destroy(&attributes);
    device->faults.no_memory.refs = 1;
    (void)kiln_fail(&device->faults.no_memory.error, RESOURCE_EXHAUSTED, "no host memory");
    kilni_trace *trace = NULL;
    kiln_status status = kilni_context_trace(context, &trace, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_backend_open(provider, &context->env, address, &device->backend, err);
    }
    if (status == KILN_STATUS_OK) {
        device->arena.off = device->backend->arena == NULL;
        kilni_device_set_names(device);
        kilni_trace_join(device, trace);
        read_modes(device);
        read_folder(device);
        status = kilni_engines_create(device, err);
        kilni_pressure_init(device);
    }
    if (status != KILN_STATUS_OK) {
        kilni_device_free(device);
        return status;
    }
    *out_device = device;
    return KILN_STATUS_OK;
}

void kiln_context_destroy(kiln_context *context)
{
    if (context != NULL) {
        kilni_gradsync_remove_all(context);
    }
    kilni_context_release(context);
}
