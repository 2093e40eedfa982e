// SPDX-License-Identifier: MIT OR Apache-2.0
// What the rooms above a device do for it: which function of which room stands in its tables, and
// in which order they let go of it. In a library that runs bundles only, rooms_none.c stands here.

#include "gradsync_internal.h"
#include "rt_assembly.h"
#include "rt_aux_queues.h"
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
#include "rt_persistent_temps.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tune.h"

static const kilni_executor executor = {
    .run = kilni_stream_run,
    .drain = kilni_device_drain,
    .drop = kilni_tensor_drop,
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

// ---- entering and leaving ----

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

void kilni_rooms_enter(kiln_device *device)
{
    device->executor = &executor;
    device->memory.reclaimers = &reclaimers;
    device->hooks = &hooks;
}

kiln_status kilni_rooms_open(kiln_device *device, kiln_error *err)
{
    read_modes(device);
    read_folder(device);
    return kilni_engines_create(device, err);
}

void kilni_rooms_close(kiln_device *device)
{
    kilni_await_moves(device);
    while (device->streams.first != NULL) {
        kilni_stream *stream = device->streams.first;
        device->streams.first = stream->next;
        kilni_stream_destroy(stream);
    }
}

void kilni_rooms_leave(kiln_device *device)
{
    const kiln_env *env = &device->context->env;
    if (device->backend != NULL && kilni_engines_surprised(device)) {
        device->backend->device->doubt_speeds(device->backend);
    }
    kilni_engines_destroy(device);
    (void)kilni_arena_drop(device);
    kiln_free(env, device->execution.bindings);
    kiln_free(env, device->check.recorded);
    kiln_free(env, device->check.index_places);
}

void kilni_rooms_forget(kiln_context *context)
{
    kilni_gradsync_remove_all(context);
}
