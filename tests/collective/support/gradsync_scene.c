// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening and closing of jobs, and gradients.
#include "gradsync_scene.h"

#include <stdlib.h>

#include "harness.h"

const char *const gradsync_references[MEMBERS] = {"reference:0", "reference:1", "reference:2",
                                                  "reference:3"};

bool scene_open(scene *self, const char *const *addresses, const kiln_gradsync_options *options)
{
    kiln_error err = KILN_ERROR_INIT;
    self->job = NULL;
    bool ok = device_set_open(&self->set, addresses, MEMBERS);
    if (ok && kiln_gradsync_start(self->set.context, "job", self->set.devices, MEMBERS, options,
                                  &self->job, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        ok = false;
    }
    return ok;
}

void scene_close(scene *self)
{
    if (self->job != NULL) {
        KILN_CHECK_INT(kiln_gradsync_remove(self->set.context, "job", NULL), KILN_STATUS_OK);
    }
    kiln_gradsync_release(self->job);
    device_set_close(&self->set);
}

/// `count` elements of value, value + 1, ...
kiln_tensor *gradient(scene *self, uint32_t member, kiln_param_id id, int64_t count, float value)
{
    float *data = malloc(((size_t)count + 1) * sizeof(*data));
    kiln_tensor *tensor = NULL;
    for (int64_t i = 0; data != NULL && i < count; i++) {
        data[i] = value + (float)i;
    }
    if (KILN_CHECK_INT(kiln_tensor_create(self->set.devices[member], KILN_DTYPE_F32, 1, &count,
                                          data, &tensor, NULL),
                       0)) {
        kiln_tensor_set_param(tensor, id);
    }
    free(data);
    return tensor;
}

kiln_status submit(scene *self, uint32_t member, kiln_param_id id, int64_t count, float value,
                   kiln_error *err)
{
    kiln_tensor *tensor = gradient(self, member, id, count, value);
    kiln_status status = kiln_gradsync_submit(self->job, member, tensor, err);
    kiln_release(tensor);
    return status;
}

/// What a member got is value, value + slope, ...
bool check_gradient(scene *self, uint32_t member, kiln_param_id id, int64_t count, float value,
                    float slope)
{
    kiln_tensor *tensor = NULL;
    float *data = malloc(((size_t)count + 1) * sizeof(*data));
    bool ok = KILN_CHECK_INT(kiln_gradsync_gradient(self->job, member, id, &tensor, NULL), 0) &&
              KILN_CHECK(kiln_tensor_device(tensor) == self->set.devices[member]) &&
              KILN_CHECK(kiln_tensor_param(tensor) == id) &&
              KILN_CHECK_INT(kiln_read(tensor, data, (size_t)count * sizeof(*data), NULL), 0);
    for (int64_t i = 0; i < count && ok; i++) {
        if (data[i] != value + (float)i * slope) {
            KILN_FAIL("member %u, parameter %llu at %lld: %g, not %g", member,
                      (unsigned long long)id, (long long)i, (double)data[i],
                      (double)(value + (float)i * slope));
            ok = false;
        }
    }
    free(data);
    kiln_release(tensor);
    return ok;
}
