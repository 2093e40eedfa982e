// SPDX-License-Identifier: MIT OR Apache-2.0
// A client of soak.py: steps of a small program until its time is over, each result compared with
// what it must be, each operation of the last session counted. A lost session may end a step with
// UNAVAILABLE; then it begins anew. Anything else is a failure.
#include "kiln.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4096, CHAIN = 20 };

typedef struct soak {
    kiln_device *device;
    kiln_tensor *x;
    float data[COUNT];
    unsigned long steps;
    unsigned long operations; ///< recorded since the last session was lost
    unsigned long lost;
    uint64_t longest_ns; ///< of a call that failed
    kiln_error err;
} soak;

static kiln_status one_step(soak *self)
{
    const int64_t dims[] = {COUNT};
    static float back[COUNT];
    kiln_tensor *t = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (self->x == NULL) {
        status = kiln_tensor_create(self->device, KILN_DTYPE_F32, 1, dims, self->data, &self->x,
                                    &self->err);
    }
    t = kiln_retain(self->x);
    for (int i = 0; i < CHAIN && status == KILN_STATUS_OK; i++) {
        kiln_tensor *next = NULL;
        status = kiln_add_scalar(t, kiln_f64((double)(self->steps % 7)), &next, &self->err);
        kiln_release(t);
        t = next;
        self->operations++;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(t, back, sizeof(back), &self->err);
    }
    kiln_release(t);
    for (int i = 0; i < COUNT && status == KILN_STATUS_OK; i++) {
        if (back[i] != self->data[i] + (float)(CHAIN * (self->steps % 7))) {
            status = kiln_fail(&self->err, DATA_LOSS, "step %lu: element %d is %g", self->steps, i,
                               (double)back[i]);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    soak *self = calloc(1, sizeof(*self));
    kiln_context *context = NULL;
    uint64_t end = kiln_time_ns() + (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 1000000000u;
    kiln_status status = kiln_context_create(NULL, &context, &self->err);
    for (int i = 0; i < COUNT; i++) {
        self->data[i] = (float)(i % 100);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_device_open(context, argv[1], &self->device, &self->err);
    }
    while (status == KILN_STATUS_OK && kiln_time_ns() < end) {
        uint64_t start = kiln_time_ns();
        status = one_step(self);
        if (status == KILN_STATUS_UNAVAILABLE) {
            uint64_t ns = kiln_time_ns() - start;
            self->longest_ns = ns > self->longest_ns ? ns : self->longest_ns;
            self->lost++;
            self->operations = 0;
            kiln_release(self->x);
            self->x = NULL;
            status = KILN_STATUS_OK;
        } else if (status == KILN_STATUS_OK) {
            self->steps++;
        }
    }
    printf("steps %lu lost %lu longest_ms %llu operations %lu %s\n", self->steps, self->lost,
           (unsigned long long)(self->longest_ns / 1000000), self->operations,
           status == KILN_STATUS_OK ? "good" : self->err.message);
    kiln_release(self->x);
    kiln_device_release(self->device);
    kiln_context_destroy(context);
    free(self);
    return status != KILN_STATUS_OK;
}
