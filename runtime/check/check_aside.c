// SPDX-License-Identifier: MIT OR Apache-2.0
// What the check runs for itself, between guard words, is put aside: the device's figures and its
// failure are afterwards as they were before.

#include "rt_binding.h"
#include "rt_check.h"
#include "rt_device.h"
#include "rt_guards.h"

kilni_aside kilni_aside_begin(kiln_device *device, kilni_guards *guards)
{
    kilni_aside aside = {device->faults.first,        device->memory.allocator,
                         device->counts.blocks_fused, device->counts.ops_fused,
                         device->samples.measuring,   device->samples.measured};
    device->memory.allocator = kilni_guards_allocator(guards);
    device->samples.measuring = true;
    return aside;
}

void kilni_aside_end(kiln_device *device, const kilni_aside *aside)
{
    device->memory.allocator = aside->allocator;
    device->counts.blocks_fused = aside->blocks_fused;
    device->counts.ops_fused = aside->ops_fused;
    device->samples.measuring = aside->measuring;
    device->samples.measured = aside->measured;
    if (device->faults.first != aside->fault) { // a failure of what nobody waits for
        kilni_fault_release(device, device->faults.first);
        device->faults.first = aside->fault;
    }
}
