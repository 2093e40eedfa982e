// SPDX-License-Identifier: MIT OR Apache-2.0
// All-reduce over devices against memcpy of the same traffic in the same run: what a ring moves, 2
// (n
// - 1) times the buffer in all, copied between as many buffers by as many threads as there are
// devices.

#include "bench.h"
#include "collective.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, SIZES = 4 };
static const size_t sizes[SIZES] = {64 * 1024, 4 << 20, 64 << 20, 256 << 20};
static const size_t bar_size = 64 << 20;

typedef struct setup {
    kiln_context *context;
    kiln_device *devices[MOST];
    kiln_tensor *inputs[MOST];
    unsigned char *buffers[MOST];
    kiln_collective *group;
    uint32_t count;
} setup;

static void tear_down(setup *self)
{
    kiln_collective_destroy(self->group);
    for (uint32_t i = 0; i < MOST; i++) {
        kiln_release(self->inputs[i]);
        kiln_device_release(self->devices[i]);
        free(self->buffers[i]);
    }
    kiln_context_destroy(self->context);
    *self = (setup){0};
}

static kiln_status open_devices(setup *self, uint32_t count, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    self->count = count;
    KILN_TRY(out, status, kiln_context_create(NULL, &self->context, err));
    for (uint32_t i = 0; i < count; i++) {
        char address[32];
        snprintf(address, sizeof(address), "opencl:%u", i);
        KILN_TRY(out, status, kiln_device_open(self->context, address, &self->devices[i], err));
    }
    KILN_TRY(out, status, kiln_collective_create(self->devices, count, NULL, &self->group, err));
out:
    return status;
}

static kiln_status make_coll_inputs(setup *self, size_t bytes, kiln_error *err)
{
    const int64_t count = (int64_t)(bytes / sizeof(float));
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < self->count && status == KILN_STATUS_OK; i++) {
        kiln_release(self->inputs[i]);
        self->inputs[i] = NULL;
        free(self->buffers[i]);
        self->buffers[i] = malloc(bytes);
        if (self->buffers[i] == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
        }
        memset(self->buffers[i], (int)i, bytes);
        status = kiln_tensor_create(self->devices[i], KILN_DTYPE_F32, 1, &count, self->buffers[i],
                                    &self->inputs[i], err);
    }
    return status;
}

// ---- the two sides ----

static kiln_status all_reduce(setup *self, double *out_seconds, kiln_error *err)
{
    kiln_tensor *sums[MOST] = {NULL};
    uint64_t begin = kiln_time_ns();
    kiln_status status = kiln_collective_all_reduce(self->group, self->inputs, "sum", sums, err);
    for (uint32_t i = 0; i < self->count && status == KILN_STATUS_OK; i++) {
        status = kiln_collective_resolve(sums[i], err);
    }
    for (uint32_t i = 0; i < self->count && status == KILN_STATUS_OK; i++) {
        status = kiln_sync(self->devices[i], err); // the devices wait, and we for them
    }
    *out_seconds = (double)(kiln_time_ns() - begin) / 1e9;
    for (uint32_t i = 0; i < self->count; i++) {
        kiln_release(sums[i]);
    }
    return status;
}

typedef struct copier {
    unsigned char *target;
    const unsigned char *source;
    size_t bytes;
    uint32_t parts; ///< the buffer is cut in so many, as a ring does
    uint32_t copies; ///< of one part each
} copier;

static void *copy(void *user)
{
    const copier *self = user;
    size_t part = self->bytes / self->parts;
    for (uint32_t i = 0; i < self->copies; i++) {
        size_t at = i % self->parts * part;
        memcpy(self->target + at, self->source + at, part);
    }
    return NULL;
}

/// Each device's thread copies what that device receives: 2 (n - 1) parts of 1 / n of the buffer.
static double copy_all(setup *self, size_t bytes)
{
    pthread_t threads[MOST];
    copier copiers[MOST];
    bool started[MOST] = {false};
    uint64_t begin = kiln_time_ns();
    for (uint32_t i = 0; i < self->count; i++) {
        copiers[i] = (copier){.target = self->buffers[i],
                              .source = self->buffers[(i + 1) % self->count],
                              .bytes = bytes,
                              .parts = self->count,
                              .copies = 2 * (self->count - 1)};
        started[i] = pthread_create(&threads[i], NULL, copy, &copiers[i]) == 0;
        if (!started[i]) {
            copy(&copiers[i]);
        }
    }
    for (uint32_t i = 0; i < self->count; i++) {
        if (started[i]) {
            pthread_join(threads[i], NULL);
        }
    }
    return (double)(kiln_time_ns() - begin) / 1e9;
}

/// The devices are parts of the host; 256 MiB are for others, whose memory is their own.
static bool is_shared(const setup *self)
{
    const kiln_device_info *info = kiln_device_info_of(self->devices[0]);
    return (info->features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
}

static kiln_status measure_coll(setup *self, const bench_options *options, size_t bytes,
                                kiln_error *err)
{
    enum { WARM = 2 };
    uint32_t samples = options->samples != 0 ? options->samples : 9;
    double *ours = malloc(samples * sizeof(*ours));
    double *theirs = malloc(samples * sizeof(*theirs));
    char name[64];
    kiln_status status = ours != NULL && theirs != NULL
                             ? make_coll_inputs(self, bytes, err)
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for samples");
    for (uint32_t i = 0; i < samples + WARM && status == KILN_STATUS_OK; i++) {
        double seconds = 0;
        status = all_reduce(self, &seconds, err);
        double copied = copy_all(self, bytes);
        if (i >= WARM) {
            ours[i - WARM] = seconds;
            theirs[i - WARM] = copied;
        }
    }
    if (status == KILN_STATUS_OK) {
        double seconds = kiln_quantile(ours, samples, 0.5);
        double traffic = 2.0 * (self->count - 1) * (double)bytes;
        snprintf(name, sizeof(name), "all_reduce %zu KiB x %u", bytes / 1024, self->count);
        bench_report(options,
                     &(bench_result){.name = name,
                                     .value = traffic / seconds / 1e9,
                                     .unit = "GB/s",
                                     .against = "memcpy, as many threads",
                                     .ratio = kiln_quantile(theirs, samples, 0.5) / seconds,
                                     .bar = bytes == bar_size && is_shared(self) ? 0.4 : 0,
                                     .peer_version = "C library",
                                     .device = kiln_device_info_of(self->devices[0])->name,
                                     .samples = samples});
    }
    free(ours);
    free(theirs);
    return status;
}

kiln_status bench_coll(const bench_options *options, kiln_error *err)
{
    setup self = {0};
    kiln_status status = KILN_STATUS_OK;
    // PoCL shows as many devices as this says, and reads it once; elsewhere it means nothing.
    (void)setenv("POCL_DEVICES", "pthread pthread pthread pthread", /*overwrite=*/0);
    bench_header(options);
    for (uint32_t count = 2; count <= MOST; count += 2) {
        status = open_devices(&self, count, err);
        if (status == KILN_STATUS_NOT_FOUND && count > 2) {
            fprintf(stderr, "kiln bench: there are not %u OpenCL devices\n", count);
            status = KILN_STATUS_OK;
            break;
        }
        for (size_t i = 0; i < SIZES && status == KILN_STATUS_OK; i++) {
            if (sizes[i] <= bar_size || !is_shared(&self)) {
                status = measure_coll(&self, options, sizes[i], err);
            }
        }
        if (status != KILN_STATUS_OK) {
            break;
        }
        tear_down(&self);
    }
    tear_down(&self);
    return status;
}
