// SPDX-License-Identifier: MIT OR Apache-2.0
// The engines that plan for a device, and when they are made anew. A device may say that it
// compiles and refuse when it is asked. Plans made for a compiler are no good then, so it is asked
// before the first of them runs: a refusal in the middle of a run leaves only single operations.
// Where nothing has to be compiled nobody asks.

#include "plan_internal.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_engines.h"
#include "rt_streams.h"

/// Asked under the device's lock, as the engine is.
static kiln_status admit(void *user, const kiln_program *program, kiln_error *err)
{
    kiln_backend *backend = user;
    return backend->program->ready(backend, program, err);
}

kiln_status kilni_engines_create(kiln_device *device, kiln_error *err)
{
    kiln_fuse_registry *registry = NULL;
    const kiln_device_info *info = device->backend->device->info(device->backend);
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.fusion_off = 1;
    kiln_status status = kilni_context_registry(device->context, &registry, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_fuse_engine_create(registry, info, &options, &device->engines.plain, err);
    }
    device->engines.fusion =
        (info->features & KILN_FEATURE_PROGRAMS) != 0 && device->backend->program != NULL;
    if (status == KILN_STATUS_OK && device->engines.fusion) {
        options.fusion_off = 0;
        options.admit = admit;
        options.admit_user = device->backend;
        options.store = kiln_context_store(device->context);
        status = kiln_fuse_engine_create(registry, info, &options, &device->engines.fused, err);
    }
    device->engines.planned_for = info->features;
    device->facts[KILN_FACT_COMPUTE_UNITS] = info->compute_units;
    device->facts[KILN_FACT_MAX_WORK_GROUP] = (int64_t)info->max_work_group;
    device->facts[KILN_FACT_LOCAL_MEMORY] = (int64_t)info->local_bytes;
    return status;
}

void kilni_engines_destroy(kiln_device *device)
{
    kiln_fuse_engine *const all[] = {device->engines.fused, device->engines.plain,
                                     device->engines.former_fused, device->engines.former_plain};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        kiln_fuse_engine_destroy(all[i]);
    }
}

bool kilni_engines_surprised(const kiln_device *device)
{
    enum { SURPRISES = 3 };
    kiln_fuse_stats stats = {0};
    if (device->engines.fused != NULL) {
        kiln_fuse_engine_stats(device->engines.fused, &stats);
    }
    return stats.tournaments_surprising >= SURPRISES &&
           stats.tournaments_surprising * 2 > stats.tournaments_measured;
}

void kilni_engines_count(const kiln_device *device, kiln_device_stats *stats)
{
    const kiln_fuse_engine *const all[] = {device->engines.fused, device->engines.plain,
                                           device->engines.former_fused,
                                           device->engines.former_plain};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        kiln_fuse_stats one = {0};
        if (all[i] != NULL) {
            kiln_fuse_engine_stats(all[i], &one);
        }
        stats->ops_recorded += one.ops_recorded;
        stats->plans_searched += one.plans_searched;
        stats->plans_found += one.plans_found;
        stats->blocks_measured += one.tournaments_measured;
        stats->plans_kept += one.plans_kept;
    }
}

/// The former ones stay: graphs run plans of theirs. A device loses its compiler once.
static kiln_status renew(kiln_device *device, const kiln_device_info *info, kiln_error *err)
{
    kiln_fuse_engine *plain = NULL, *engine = NULL;
    kiln_status status = kiln_fuse_engine_again(device->engines.plain, info, &plain, err);
    if (status == KILN_STATUS_OK && device->engines.fused != NULL) {
        status = kiln_fuse_engine_again(device->engines.fused, info, &engine, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_fuse_engine_destroy(plain);
        return status;
    }
    device->engines.former_plain = device->engines.plain;
    device->engines.former_fused = device->engines.fused;
    device->engines.plain = plain;
    device->engines.fused = engine;
    return KILN_STATUS_OK;
}

kiln_status kilni_engines_follow(kilni_stream *stream, kiln_error *err)
{
    kiln_device *device = stream->device;
    const kiln_device_info *info = device->backend->device->info(device->backend);
    kiln_status status = KILN_STATUS_OK;
    if (info->features != device->engines.planned_for && device->engines.former_plain == NULL) {
        status = renew(device, info, err);
        if (status == KILN_STATUS_OK) {
            device->engines.planned_for = info->features;
        }
    }
    if (status == KILN_STATUS_OK && device->engines.former_plain != NULL &&
        (stream->engine == device->engines.former_plain ||
         stream->engine == device->engines.former_fused)) {
        stream->engine = stream->engine == device->engines.former_plain ? device->engines.plain
                                                                        : device->engines.fused;
        kiln_fuse_stream_move(stream->queue, stream->engine);
    }
    return status;
}

// ---- asking ----

/// A library multiplies what is alone, and compiles for it in each process.
static bool leaves_product_alone(const kiln_fuse_segment *segment)
{
    for (uint32_t i = 0; i < segment->plan->n_steps; i++) {
        const kiln_plan_step *step = &segment->plan->steps[i];
        if (step->kind == KILN_STEP_HOST_OP && segment->ops[step->index].op == KILN_OP_MATMUL) {
            return true;
        }
    }
    return false;
}

bool kilni_engines_settled(const kilni_stream *stream, const kiln_fuse_segment *segment,
                           bool searched)
{
    kiln_device *device = stream->device;
    kiln_backend *backend = device->backend;
    const kiln_device_info *info = backend->device->info(backend);
    device->engines.settled =
        device->engines.settled || (info->features & KILN_FEATURE_COMPILER) == 0;
    if (device->engines.settled || stream->engine == device->engines.plain) {
        return true;
    }
    bool known = backend->program->compiles(backend, /*ask=*/false);
    for (uint32_t i = 0; i < segment->plan->n_blocks && !known; i++) {
        // What is missing is needed anyway. Why it fails is said when it runs.
        (void)!kilni_plan_block_build(device, stream->engine, &segment->plan->blocks[i], NULL);
        known = backend->program->compiles(backend, /*ask=*/false);
    }
    if (!known && (searched || leaves_product_alone(segment))) {
        known = backend->program->compiles(backend, /*ask=*/true);
    }
    device->engines.settled = known;
    return (info->features & KILN_FEATURE_COMPILER) != 0;
}
