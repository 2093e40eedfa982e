// SPDX-License-Identifier: MIT OR Apache-2.0
// Two devices, one OpenCL context each, add up a tensor that each of them computed: x + 1 on the
// first, 2 x on the second, so that both end with 3 x + 1. Prints one line with the result and the
// bytes per second against memcpy of the same traffic in the same run.
#include "collective.h"
#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, COUNT = 16 << 20, ROUNDS = 5 };

typedef struct demo {
    kiln_context *context;
    kiln_device *devices[DEVICES];
    kiln_collective *group;
    kiln_tensor *inputs[DEVICES];
    float *host;
} demo;

static kiln_status open_devices(demo *self, kiln_error *err)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_coll_group_options group = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(&options, &self->context, err));
    KILN_TRY(out, status, kiln_device_open(self->context, "opencl:0", &self->devices[0], err));
    KILN_TRY(out, status, kiln_device_open(self->context, "opencl:1", &self->devices[1], err));
    KILN_TRY(out, status,
             kiln_collective_create(self->devices, DEVICES, &group, &self->group, err));
out:
    return status;
}

/// x + 1 on device 0, 2 x on device 1; recorded, not waited for.
static kiln_status compute(demo *self, int device, kiln_error *err)
{
    const int64_t dims[] = {COUNT};
    kiln_tensor *x = NULL;
    kiln_status status =
        kiln_tensor_create(self->devices[device], KILN_DTYPE_F32, 1, dims, self->host, &x, err);
    if (status == KILN_STATUS_OK) {
        status = device == 0 ? kiln_add_scalar(x, kiln_f64(1), &self->inputs[device], err)
                             : kiln_mul_scalar(x, kiln_f64(2), &self->inputs[device], err);
    }
    kiln_release(x);
    return status;
}

/// Nanoseconds of the fastest of several all-reduces; the first one's result stays in `host`.
static kiln_status measure(demo *self, uint64_t *out_ns, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    *out_ns = UINT64_MAX;
    for (int round = 0; round < ROUNDS && status == KILN_STATUS_OK; round++) {
        kiln_tensor *sums[DEVICES] = {NULL, NULL};
        uint64_t begin = kiln_time_ns();
        status = kiln_collective_all_reduce(self->group, self->inputs, "sum", sums, err);
        for (int i = 0; i < DEVICES && status == KILN_STATUS_OK; i++) {
            status = kiln_collective_resolve(sums[i], err);
        }
        for (int i = 0; i < DEVICES && status == KILN_STATUS_OK; i++) {
            status = kiln_sync(self->devices[i], err); // the devices wait, and we for them
        }
        uint64_t took = kiln_time_ns() - begin;
        *out_ns = took < *out_ns ? took : *out_ns;
        for (int i = 0; i < DEVICES; i++) {
            if (status == KILN_STATUS_OK && round == 0) {
                status =
                    kiln_read(sums[i], self->host + (size_t)i * COUNT, sizeof(float) * COUNT, err);
            }
            kiln_release(sums[i]);
        }
    }
    return status;
}

/// What memcpy takes for the bytes that a ring moves: each rank sends half of its buffer twice.
static uint64_t memcpy_ns(demo *self)
{
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin = kiln_time_ns();
        memcpy(self->host, self->host + COUNT, sizeof(float) * COUNT);
        memcpy(self->host + COUNT, self->host, sizeof(float) * COUNT);
        uint64_t took = kiln_time_ns() - begin;
        best = took < best ? took : best;
    }
    return best;
}

static kiln_status run(demo *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint64_t reduce_ns = 0;
    KILN_TRY(out, status, open_devices(self, err));
    for (size_t i = 0; i < COUNT; i++) {
        self->host[i] = (float)(i % 1000);
    }
    for (int i = 0; i < DEVICES; i++) {
        KILN_TRY(out, status, compute(self, i, err));
    }
    KILN_TRY(out, status, measure(self, &reduce_ns, err));
    for (size_t i = 0; i < (size_t)COUNT * DEVICES; i++) {
        if (self->host[i] != 3 * (float)(i % COUNT % 1000) + 1) {
            return kiln_fail(err, DATA_LOSS, "element %zu is %g", i, (double)self->host[i]);
        }
    }
    uint64_t copy_ns = memcpy_ns(self);
    double gigabytes = 2.0 * sizeof(float) * COUNT / 1e9;
    printf("collective: all-reduce of %d MiB on 2 devices (%s, %s): sums as expected, "
           "%.2f GB/s, %.2f of memcpy\n",
           (int)(sizeof(float) * COUNT >> 20), kiln_device_info_of(self->devices[0])->name,
           kiln_device_info_of(self->devices[1])->name, gigabytes / ((double)reduce_ns / 1e9),
           (double)copy_ns / (double)reduce_ns);
out:
    return status;
}

int main(void)
{
    // PoCL offers one device; this asks it for two. Read once, before the first OpenCL call.
    setenv("POCL_DEVICES", "pthread pthread", /*overwrite=*/0);
    kiln_error err = KILN_ERROR_INIT;
    demo self = {.host = malloc(sizeof(float) * COUNT * DEVICES)};
    kiln_status status =
        self.host == NULL ? kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory") : run(&self, &err);
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "collective_demo: %s: %s\n", kiln_status_name(status), err.message);
    }
    for (int i = 0; i < DEVICES; i++) {
        kiln_release(self.inputs[i]);
    }
    kiln_collective_destroy(self.group);
    for (int i = 0; i < DEVICES; i++) {
        kiln_device_release(self.devices[i]);
    }
    kiln_context_destroy(self.context);
    free(self.host);
    return status == KILN_STATUS_OK ? 0 : 1;
}
