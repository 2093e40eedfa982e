// SPDX-License-Identifier: MIT OR Apache-2.0
// rooms.c of a library that runs bundles only: nothing is recorded, so nothing waits to be run and
// nobody keeps memory beside the tensors.

#include "rt_assembly.h"
#include "rt_device.h"

static kiln_status drain_nothing(kiln_device *device, kiln_error *err)
{
    (void)device;
    (void)err;
    return KILN_STATUS_OK;
}

// What is called for a stream, or for memory that an earlier run kept, has no caller here.
static const kilni_executor bundle_executor = {
    .drain = drain_nothing,
};

static const kilni_reclaim_fn no_reclaim[] = {NULL};

static const kilni_reclaimers bundle_reclaimers = {
    .all = no_reclaim,
};

void kilni_rooms_enter(kiln_device *device)
{
    device->executor = &bundle_executor;
    device->memory.reclaimers = &bundle_reclaimers;
}

kiln_status kilni_rooms_open(kiln_device *device, kiln_error *err)
{
    (void)device;
    (void)err;
    return KILN_STATUS_OK;
}

void kilni_rooms_close(kiln_device *device)
{
    (void)device;
}

void kilni_rooms_leave(kiln_device *device)
{
    (void)device;
}

void kilni_rooms_forget(kiln_context *context)
{
    (void)context;
}
