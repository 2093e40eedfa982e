// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens devices for the runtime's tests and checks for what was left behind.

#include "runtime_fixture.h"

#include <string.h>

bool fixture_open_with(fixture *self, const char *address, const char *option, const char *value)
{
    memset(self, 0, sizeof(*self));
    if (!FIXTURE_OK(self, kiln_context_create(NULL, &self->context, &self->err))) {
        return false;
    }
    uint32_t count = 0; // what earlier tests' fusers did is not held against them
    kiln_status reset = kiln_plugin_reset(self->context, NULL, &count, &self->err);
    KILN_CHECK(reset == KILN_STATUS_OK || reset == KILN_STATUS_FAILED_PRECONDITION);
    self->err = (kiln_error)KILN_ERROR_INIT;
    if (option != NULL &&
        !FIXTURE_OK(self, kiln_context_set(self->context, option, value, &self->err))) {
        return false;
    }
    kiln_status status =
        kiln_device_open(self->context, kiln_test_address(address), &self->device, &self->err);
    if (status != KILN_STATUS_OK && strncmp(address, "opencl", 6) == 0) {
        kiln_test_skip("no OpenCL device: %s", self->err.message);
        kiln_context_destroy(self->context);
        return false;
    }
    return FIXTURE_OK(self, status);
}

bool fixture_open(fixture *self, const char *address)
{
    return fixture_open_with(self, address, NULL, NULL);
}

void fixture_close(fixture *self)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    FIXTURE_OK(self, kiln_sync(self->device, &self->err));
    if (kiln_device_info_of(self->device)->type == KILN_DEVICE_GPU) {
        kiln_device_trim(self->device); // plans of GPUs keep counters
    }
    kiln_device_stats_get(self->device, &stats);
    KILN_CHECK_INT(stats.tensors_live, 0);
    KILN_CHECK_INT(stats.backend.buffers_live, 0);
    KILN_CHECK_INT(stats.backend.bytes_used, 0);
    kiln_device_release(self->device);
    kiln_context_destroy(self->context);
}

kiln_tensor *fixture_f32(fixture *self, size_t rank, const int64_t *dims, const float *data)
{
    kiln_tensor *tensor = NULL;
    FIXTURE_OK(self, kiln_tensor_create(self->device, KILN_DTYPE_F32, rank, dims, data, &tensor,
                                        &self->err));
    return tensor;
}
