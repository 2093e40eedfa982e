// SPDX-License-Identifier: MIT OR Apache-2.0
// When memory is short: the budget, and running queued work early. Work that waits in queues keeps
// alive what its operations read, also after the caller has let go of it; so when what is held and
// what queued results will need come near the budget, and enough would come free, the queues run.

#include "rt_aux_queues.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_memory_account.h"

enum {
    PRESSURE_EIGHTHS = 7 ///< of the budget
};

static uint64_t threshold_of(kiln_device *device)
{
    kiln_backend_stats stats = {0};
    device->backend->device->stats(device->backend, &stats);
    return stats.bytes_budget / 8 * PRESSURE_EIGHTHS;
}

void kilni_pressure_init(kiln_device *device)
{
    device->memory.pressure = threshold_of(device);
}

bool kilni_reclaim(kiln_device *device)
{
    bool any = false;
    for (const kilni_reclaim_fn *one = device->memory.reclaimers->all; *one != NULL; one++) {
        any = (*one)(device) || any;
    }
    return any;
}

void kilni_run_for_memory(kiln_device *device)
{
    kiln_error later = KILN_ERROR_INIT;
    device->memory.early_runs++;
    if (kilni_run_all_queued(device, &later) != KILN_STATUS_OK) {
        kiln_log_write(&device->context->env, KILN_LOG_WARN, "runtime", "planning: %s",
                       later.message);
    }
}

kiln_status kiln_device_set_memory_budget(kiln_device *device, uint64_t bytes, kiln_error *err)
{
    device = kilni_core(device);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = device->backend->memory->set_budget(device->backend, bytes, err);
    if (status == KILN_STATUS_OK) {
        kilni_pressure_init(device);
        if (kilni_under_pressure(&device->memory)) {
            kilni_run_for_memory(device);
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_error_context(err, "%s", device->address);
        return status;
    }
    return kilni_aux_queues_set_budget(device, bytes, err);
}

void kiln_device_reset_peaks(kiln_device *device)
{
    if (device == NULL) {
        return;
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    device->backend->memory->reset_peaks(device->backend);
    device->memory.live_peak = device->memory.live;
    pthread_mutex_unlock(&device->lock);
}
