// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device has done and holds: counted under its lock for who may wait for it, and as it was
// shown last for who may not. Whoever runs segments shows it between them, now and then.

#include "rt_device.h"
#include "rt_engines.h"

#include <string.h>

enum { SHOW_AGAIN_NS = 10 * 1000 * 1000 };

/// Under the lock.
static void count_all(const kiln_device *device, kiln_device_stats *stats)
{
    kilni_engines_count(device, stats);
    device->backend->device->stats(device->backend, &stats->backend);
    stats->blocks_fused = device->counts.blocks_fused;
    stats->ops_fused = device->counts.ops_fused;
    stats->tensors_live = device->tensors.live;
    if (device->arena.buffer != NULL && !device->arena.busy) { // no tensor is in it
        stats->backend.bytes_used -= device->arena.bytes;
        stats->backend.buffers_live--;
    }
    stats->bytes_live = device->memory.live;
    stats->bytes_arena = device->arena.bytes;
    stats->bytes_pending = device->memory.pending;
    stats->values_planned = device->counts.values_planned;
    stats->early_runs = device->memory.early_runs;
    stats->indices_outside = device->counts.indices_outside;
    stats->kernels_measuring = device->counts.kernels_measuring;
    stats->blas_measuring = device->counts.blas_measuring;
    stats->measuring_ns = device->samples.budget.spent_ns;
    stats->bytes_uploaded = device->counts.bytes_uploaded;
    stats->bytes_read = device->counts.bytes_read;
}

/// As much as the caller has room for.
static void give(const kiln_device_stats *stats, kiln_device_stats *out_stats)
{
    uint32_t own = out_stats->struct_size;
    memcpy(out_stats, stats, own < sizeof(*stats) ? own : sizeof(*stats));
    out_stats->struct_size = own;
}

void kiln_device_stats_get(kiln_device *device, kiln_device_stats *out_stats)
{
    if (device == NULL || out_stats == NULL) {
        return;
    }
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    count_all(device, &stats);
    pthread_mutex_unlock(&device->lock);
    give(&stats, out_stats);
}

// ---- without waiting ----

static void show(kiln_device *device, uint64_t now_ns)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    count_all(device, &stats);
    pthread_mutex_lock(&device->shown.lock);
    device->shown.stats = stats;
    pthread_mutex_unlock(&device->shown.lock);
    device->shown.at_ns = now_ns;
}

void kilni_stats_show(kiln_device *device)
{
    uint64_t now_ns = kiln_time_rough_ns();
    if (now_ns - device->shown.at_ns >= SHOW_AGAIN_NS) {
        show(device, now_ns);
    }
}

void kiln_device_stats_peek(kiln_device *device, kiln_device_stats *out_stats)
{
    if (device == NULL || out_stats == NULL) {
        return;
    }
    device = kilni_core(device);
    if (pthread_mutex_trylock(&device->lock) == 0) {
        show(device, kiln_time_rough_ns());
        pthread_mutex_unlock(&device->lock);
    }
    pthread_mutex_lock(&device->shown.lock);
    give(&device->shown.stats, out_stats);
    pthread_mutex_unlock(&device->shown.lock);
}
