// SPDX-License-Identifier: MIT OR Apache-2.0
// The short way in and out: a context with one device, and all of its tensors. A device that was
// opened so lists its tensors; others do not pay for that.

#include "rt_device.h"
#include "rt_tensor.h"

kiln_status kiln_open(const char *address, kiln_device **out_device, kiln_error *err)
{
    if (out_device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_device must not be NULL");
    }
    kiln_context *context = NULL;
    *out_device = NULL;
    kiln_status status = kiln_context_create(/*options=*/NULL, &context, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_device_open(context, address, out_device, err);
    if (status == KILN_STATUS_OK) {
        (*out_device)->tensors.listed = true; // nobody else has the device yet
    }
    kiln_context_destroy(context); // the device holds it
    return status;
}

void kiln_close(kiln_device *device)
{
    device = kilni_core(device);
    if (device != NULL) {
        kilni_tensors_release_listed(device);
        kiln_device_release(device);
    }
}
