// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening and closing of groups on devices, and what their members' tensors hold.
#include "recorded_scene.h"

#include "coll_memory.h"
#include "collective.h"
#include "harness.h"
#include "rt_device.h"
#ifdef TEST_WITH_OPENCL
#include "cl_state.h"
#endif

const setting references = {3, {"reference:0", "reference:1", "reference:2"}, NULL, false, false};
const setting opencl = {2, {"opencl:0", "opencl:1"}, NULL, false, false};
const setting opencl_apart = {2, {"opencl:0", "opencl:1"}, NULL, true, false};
const setting opencl_queued = {2, {"opencl:0", "opencl:1"}, NULL, false, true};
const setting mixed = {3, {"opencl:1", "reference:0", "opencl:0"}, NULL, false, false};

float value_at(uint32_t rank, int64_t i)
{
    return (float)((i * 7 + rank * 3) % 11) - 4;
}

float sum_at(const scene *self, int64_t i)
{
    float sum = 0;
    for (uint32_t rank = 0; rank < self->count; rank++) {
        sum += value_at(rank, i);
    }
    return sum;
}

static void set_apart(kiln_device *device)
{
#ifdef TEST_WITH_OPENCL
    kilni_cl_backend_of(device->backend)->info.features &= ~(uint32_t)KILN_FEATURE_UNIFIED_MEMORY;
#else
    (void)device;
#endif
}

bool scene_init(scene *self, const setting *what, uint64_t deadline_ms)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    const int64_t count = COUNT;
    float data[COUNT];
    *self = (scene){.count = what->count};
    options.deadline_ns = deadline_ms * 1000000;
    if (!device_set_open_with(&self->set, what->allocator, what->addresses, what->count)) {
        return false;
    }
    for (uint32_t i = 0; i < what->count && what->apart; i++) {
        set_apart(self->set.devices[i]);
    }
    if (kiln_collective_create(self->set.devices, what->count, &options, &self->group, &err) != 0) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    if (what->queued) {
        device_set_use_commands(self->group);
    }
    bool ok = KILN_CHECK(!what->apart || self->group->ranks[0].memory->base.stream != NULL);
    for (uint32_t rank = 0; rank < self->count && ok; rank++) {
        for (int64_t i = 0; i < COUNT; i++) {
            data[i] = value_at(rank, i);
        }
        ok = KILN_CHECK_INT(kiln_tensor_create(self->set.devices[rank], KILN_DTYPE_F32, 1, &count,
                                               data, &self->inputs[rank], NULL),
                            0);
    }
    return ok;
}

void release_all(kiln_tensor **tensors)
{
    for (uint32_t i = 0; i < MOST; i++) {
        kiln_release(tensors[i]);
        tensors[i] = NULL;
    }
}

void scene_fini(scene *self)
{
    release_all(self->inputs);
    kiln_collective_destroy(self->group);
    device_set_close(&self->set);
}

bool holds(const scene *self, kiln_tensor *tensor, float factor, float offset)
{
    float data[COUNT];
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_read(tensor, data, sizeof(data), &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    for (int64_t i = 0; i < COUNT; i++) {
        float wanted = factor * sum_at(self, i) + offset;
        if (data[i] != wanted) {
            KILN_FAIL("element %lld is %g, not %g", (long long)i, (double)data[i], (double)wanted);
            return false;
        }
    }
    return true;
}

void hear_failures(const scene *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        for (int tries = 0; tries < 4 && kiln_sync(self->set.devices[i], NULL) != 0; tries++) {
        }
    }
}
