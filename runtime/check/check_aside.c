// SPDX-License-Identifier: MIT OR Apache-2.0
// What the check runs for itself, between guard words, is put aside: the device's figures and its
// failure are afterwards as they were before.

#include "runtime_internal.h"

kilni_aside kilni_aside_begin(kiln_device *device, kilni_guards *guards)
{
    kilni_aside aside = {device->fault,     device->allocator, device->blocks_fused,
                         device->ops_fused, device->measuring, device->measured};
    device->allocator = kilni_guards_allocator(guards);
    device->measuring = true;
    return aside;
}

void kilni_aside_end(kiln_device *device, const kilni_aside *aside)
{
    device->allocator = aside->allocator;
    device->blocks_fused = aside->blocks_fused;
    device->ops_fused = aside->ops_fused;
    device->measuring = aside->measuring;
    device->measured = aside->measured;
    if (device->fault != aside->fault) { // a failure of what nobody waits for
        kilni_fault_release(device, device->fault);
        device->fault = aside->fault;
    }
}
