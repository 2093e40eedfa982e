// SPDX-License-Identifier: MIT OR Apache-2.0
// A kernel of a plugin may never end, and OpenCL cannot stop one: whoever waits for its queue then
// waits for ever inside the driver. So the first run of each program is watched from outside, by
// asking. Decides which launches are, how long they may take, and what is said and remembered of
// one that does not end. The device is lost to the process then.

#include "rt_binding.h"
#include "rt_check.h"
#include "rt_device.h"
#include "rt_run.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

static const uint64_t estimates = 1000; ///< a launch may take so many of them
static const uint64_t limits = 60; ///< but not more than so many times the option's
static const uint64_t earlier_ns = 1000000000; ///< for what was queued before
static const uint64_t spin_ns = 200000;

typedef struct stopwatch {
    uint64_t wall_ns;
    uint64_t processor_ns; ///< of this process, which the device computes with; 0: it does not
    uint64_t most_ns; ///< after which it is over, computing or not
} stopwatch;

static stopwatch start_stopwatch(kiln_device *device)
{
    bool here = device->backend->device->info(device->backend)->type == KILN_DEVICE_CPU;
    return (stopwatch){.wall_ns = kiln_time_ns(),
                       .processor_ns = here ? kiln_processor_ns() : 0,
                       .most_ns = (uint64_t)device->check.watchdog_ms * 1000000 * limits};
}

/// A kernel that got no processor, because the machine is busy or the process was stopped, has not
/// had its time yet; but one that waits for ever uses none.
static bool is_over(const stopwatch *begun, uint64_t limit_ns)
{
    uint64_t wall_ns = kiln_time_ns() - begun->wall_ns;
    return wall_ns >= limit_ns && (begun->processor_ns == 0 || wall_ns >= begun->most_ns ||
                                   kiln_processor_ns() - begun->processor_ns >= limit_ns);
}

/// Asks until everything queued has ended. False: not by then.
static bool wait_for_queue(kiln_device *device, uint64_t limit_ns, kiln_status *out_status)
{
    kiln_backend *backend = device->backend;
    kiln_error err = KILN_ERROR_INIT;
    kiln_pending *pending = NULL;
    struct timespec nap = {.tv_nsec = 20000};
    *out_status = backend->transfer->read_begin(backend, NULL, 0, NULL, 0, &pending, &err);
    if (*out_status != KILN_STATUS_OK || pending == NULL) {
        return true;
    }
    const stopwatch begun = start_stopwatch(device);
    bool passed = backend->transfer->read_poll(pending);
    while (!passed && !is_over(&begun, limit_ns)) {
        if (kiln_time_ns() - begun.wall_ns < spin_ns) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL);
            nap.tv_nsec = nap.tv_nsec < 1000000 ? nap.tv_nsec * 2 : nap.tv_nsec;
        }
        passed = backend->transfer->read_poll(pending);
    }
    // Of no bytes: it does not wait when cancelled.
    backend->transfer->read_wait(pending, /*cancel=*/!passed);
    *out_status = backend->transfer->read_end(backend, pending, &err);
    if (*out_status != KILN_STATUS_OK &&
        device->faults.first == NULL) { // else nobody would hear of it
        device->faults.first = kilni_fault_create(device, &err);
    }
    return passed;
}

uint64_t kilni_watchdog_begin(const kilni_run *run, const kiln_plan_block *block)
{
    kiln_device *device = run->device;
    kiln_status status = KILN_STATUS_OK;
    // A user event may complete only by what this thread does later.
    if (device->check.watchdog_ms <= 0 || device->backend->queue == NULL ||
        device->awaited != NULL || kiln_fuse_block_ships(run->engine, block) ||
        !wait_for_queue(device, earlier_ns, &status) || status != KILN_STATUS_OK) {
        return 0;
    }
    uint64_t least = (uint64_t)device->check.watchdog_ms * 1000000;
    uint64_t most = least * limits;
    uint64_t estimate =
        block->predicted_ns < most / estimates ? block->predicted_ns * estimates : most;
    return estimate > least ? estimate : least;
}

bool kilni_watchdog_wait(const kilni_run *run, const kiln_plan_block *block, const char *kernel,
                         uint64_t deadline_ns, kiln_error *err)
{
    kiln_device *device = run->device;
    kiln_status status = KILN_STATUS_OK;
    char hex[33], why[200];
    kiln_fuse_block_doing(run->engine, block, KILN_FUSE_RUNS);
    bool ended = wait_for_queue(device, deadline_ns, &status);
    kiln_fuse_block_doing(run->engine, block, KILN_FUSE_DOES_NOTHING);
    if (ended) {
        return true;
    }
    kiln_hash_hex(block->program->key, hex);
    snprintf(why, sizeof(why), "kernel %.40s of %.80s, program %.10s, did not end in %.1f s",
             kernel, block->fuser, hex, (double)deadline_ns / 1e9);
    kiln_error cause = KILN_ERROR_INIT;
    (void)kiln_fail(&cause, DEADLINE_EXCEEDED, "%s", why);
    kiln_fuse_block_hung(run->engine, block, &cause);
    device->backend->queue->abandon(device->backend, why);
    (void)kiln_fail(err, DEVICE_LOST, "device given up: %s", why);
    return false;
}
