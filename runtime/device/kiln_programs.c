// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device makes of a program of a fuser: the compiler's options and its binary, for people
// and tools that look at it. Decides that the device is held meanwhile.

#include "kiln_explained.h"
#include "rt_device.h"

kiln_status kiln_program_parts(kiln_device *device, const kiln_program *program,
                               kiln_program_part_fn take, void *user, kiln_error *err)
{
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    if (device->backend->program == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "device %s takes no programs", device->address);
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = device->backend->program->parts(device->backend, program, take, user, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}
