// SPDX-License-Identifier: MIT OR Apache-2.0
// All-reduce and collective_sync as operations, in place or not: the wait for a result is the
// device's, so that nobody holds a thread; and a failure that comes while work already waits for
// the result reaches that work, and nothing else.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "collective.h"
#include "faults.h"
#include "harness.h"
#include "recorded_scene.h"
#include "rt_device.h"

// ---- who waits ----

#ifdef TEST_WITH_OPENCL
/// One member's part is not there yet: the other's thread resolves and records on all the same, and
/// its result is right when the other has come.
static void test_device_waits(void)
{
    scene self;
    kiln_tensor *sums[MOST] = {NULL};
    kiln_tensor *results[MOST] = {NULL};
    if (scene_init(&self, kiln_test_param(), 30000)) {
        int64_t id = kiln_collective_id(self.group);
        uint64_t begin = kiln_time_ns();
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id, 0, &sums[0], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], NULL), 0);
        KILN_CHECK(!kiln_collective_ended(sums[0]));
        KILN_CHECK_INT(kiln_add_scalar(sums[0], kiln_f64(1), &results[0], NULL), 0);
        KILN_CHECK_INT(kiln_flush(self.set.devices[0], NULL), 0);
        KILN_CHECK(kiln_time_ns() - begin < 20000000000u); // not the deadline
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[1], "sum", id, 1, &sums[1], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[1], NULL), 0);
        holds(&self, results[0], 1, 1);
        holds(&self, sums[1], 1, 0);
        KILN_CHECK(kiln_collective_ended(sums[0]));
    }
    release_all(sums);
    release_all(results);
    scene_fini(&self);
}

/// Every way to combine, of one element and of as many as travel in pieces: the same bits on both.
static void test_ways(void)
{
    static const char *const ways[] = {"sum", "mean", "min", "max", "prod"};
    const int64_t counts[] = {1, 5000003};
    scene self;
    bool ok = scene_init(&self, kiln_test_param(), 30000);
    float *data = malloc(3 * (size_t)counts[1] * sizeof(*data));
    for (int c = 0; c < 2 && ok && KILN_CHECK(data != NULL); c++) {
        int64_t count = counts[c];
        float *of[3] = {data, data + count, data + 2 * count};
        for (int way = 0; way < 5 && ok; way++) {
            kiln_tensor *t[2] = {NULL};
            kiln_tensor *out[MOST] = {NULL};
            for (uint32_t rank = 0; rank < 2; rank++) {
                for (int64_t i = 0; i < count; i++) {
                    of[rank][i] = (float)((i * 7 + rank * 3) % 1013) / 7 - 40;
                }
                KILN_CHECK_INT(kiln_tensor_create(self.set.devices[rank], KILN_DTYPE_F32, 1, &count,
                                                  of[rank], &t[rank], NULL),
                               0);
                KILN_CHECK_INT(kiln_all_reduce(t[rank], ways[way], kiln_collective_id(self.group),
                                               rank, &out[rank], NULL),
                               0);
                KILN_CHECK_INT(kiln_flush(self.set.devices[rank], NULL), 0);
            }
            for (uint32_t rank = 0; rank < 2 && ok; rank++) {
                KILN_CHECK_INT(kiln_collective_resolve(out[rank], NULL), 0);
                ok = KILN_CHECK_INT(
                    kiln_read(out[rank], of[2], (size_t)count * sizeof(float), NULL), 0);
                for (int64_t i = 0; i < count && ok; i++) {
                    float x = of[0][i];
                    float y = of[1][i];
                    const float wanted[] = {x + y, (x + y) / 2, x < y ? x : y, x < y ? y : x,
                                            x * y};
                    ok = KILN_CHECK(of[2][i] == wanted[way]);
                }
            }
            kiln_release(t[0]);
            kiln_release(t[1]);
            release_all(out);
        }
    }
    free(data);
    scene_fini(&self);
}

/// Who knows otherwise that the calls have ended says so, and has the result.
static void test_assumed(void)
{
    scene self;
    kiln_tensor *sums[MOST] = {NULL};
    if (scene_init(&self, kiln_test_param(), 30000)) {
        for (uint32_t rank = 0; rank < self.count; rank++) {
            KILN_CHECK_INT(kiln_all_reduce(self.inputs[rank], "sum", kiln_collective_id(self.group),
                                           rank, &sums[rank], NULL),
                           0);
            KILN_CHECK_INT(kiln_flush(self.set.devices[rank], NULL), 0);
        }
        KILN_CHECK_INT(kiln_collective_barrier(self.group, NULL), 0);
        for (uint32_t rank = 0; rank < self.count; rank++) {
            kiln_collective_assume_resolved(sums[rank]);
            holds(&self, sums[rank], 1, 0);
        }
    }
    release_all(sums);
    scene_fini(&self);
}

static uint64_t budget_of(kiln_backend *backend)
{
    kiln_backend_stats stats = {0};
    backend->device->stats(backend, &stats);
    return stats.bytes_budget;
}

/// The budget that a program sets is that of a device's lanes too, of those that it has and of
/// those that it gets.
static void test_budget_of_lanes(void)
{
    scene self;
    device_set set;
    const uint64_t budget = 40u << 20;
    kiln_collective *group = NULL;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    if (scene_init(&self, &opencl, 30000)) {
        kiln_device *device = self.set.devices[0];
        KILN_CHECK_INT(kiln_device_set_memory_budget(device, budget, NULL), 0);
        KILN_CHECK_INT(budget_of(device->in.backend), budget);
        KILN_CHECK_INT(budget_of(device->out.backend), budget);
    }
    scene_fini(&self);
    if (device_set_open(&set, opencl.addresses, 1) &&
        KILN_CHECK_INT(kiln_device_set_memory_budget(set.devices[0], budget, NULL), 0) &&
        KILN_CHECK_INT(kiln_collective_create(set.devices, 1, &options, &group, NULL), 0)) {
        KILN_CHECK_INT(budget_of(set.devices[0]->in.backend), budget);
        KILN_CHECK_INT(budget_of(set.devices[0]->out.backend), budget);
    }
    kiln_collective_destroy(group);
    device_set_close(&set);
}

static bool names_rank_1(kiln_status status, const kiln_error *err)
{
    return KILN_CHECK_INT(status, KILN_STATUS_DEADLINE_EXCEEDED) &&
           KILN_CHECK_CONTAINS(err->message, "rank 1");
}

/// The other member never comes. What was computed from the result gives the error, in the same
/// words, whatever the way to it: fused, a view, another device, a graph; the rest of the device is
/// sound.
static void compute_from(const scene *self, kiln_tensor *x, kiln_tensor **out_tensors)
{
    const int64_t start[] = {0};
    const int64_t end[] = {500};
    kiln_tensor **t = out_tensors;
    KILN_CHECK_INT(kiln_mul_scalar(x, kiln_f64(3), &t[0], NULL), 0);
    KILN_CHECK_INT(kiln_add_scalar(t[0], kiln_f64(3), &t[1], NULL), 0);
    KILN_CHECK_INT(kiln_add(t[1], self->inputs[0], &t[2], NULL), 0);
    KILN_CHECK_INT(kiln_slice(t[2], start, 1, end, 1, NULL, 0, &t[3], NULL), 0);
    KILN_CHECK_INT(kiln_cum_sum(t[2], 0, false, false, &t[4], NULL), 0);
    KILN_CHECK_INT(kiln_to_device(t[2], self->set.devices[1], &t[5], NULL), 0);
}

enum { COMPUTED = 6 };

static void release_computed(kiln_tensor **tensors)
{
    for (int i = 0; i < COMPUTED; i++) {
        kiln_release(tensors[i]);
        tensors[i] = NULL;
    }
}

static void test_failure_follows(void)
{
    scene self;
    kiln_tensor *t[COMPUTED] = {NULL};
    kiln_tensor *sum = NULL;
    kiln_tensor *apart = NULL;
    kiln_tensor *later = NULL;
    kiln_error err = KILN_ERROR_INIT;
    float data[COUNT];
    if (!scene_init(&self, kiln_test_param(), 3000)) {
        scene_fini(&self);
        return;
    }
    compute_from(&self, self.inputs[0], t); // so that nothing is compiled below
    KILN_CHECK_INT(kiln_read(t[4], data, sizeof(data), NULL), 0);
    KILN_CHECK_INT(kiln_read(t[5], data, sizeof(data), NULL), 0);
    release_computed(t);
    KILN_CHECK_INT(kiln_mul_scalar(self.inputs[0], kiln_f64(2), &apart, NULL), 0);
    KILN_CHECK_INT(kiln_flush(self.set.devices[0], NULL), 0);
    uint64_t begin = kiln_time_ns();
    KILN_CHECK_INT(
        kiln_all_reduce(self.inputs[0], "sum", kiln_collective_id(self.group), 0, &sum, NULL), 0);
    KILN_CHECK_INT(kiln_collective_resolve(sum, NULL), 0);
    compute_from(&self, sum, t);
    KILN_CHECK(kiln_time_ns() - begin < 2500000000u); // nobody has waited
    names_rank_1(kiln_read(t[4], data, sizeof(data), &err), &err);
    KILN_CHECK(kiln_time_ns() - begin < 4000000000u); // the deadline + 1 s
    names_rank_1(kiln_read(t[3], data, 500 * sizeof(data[0]), &err), &err);
    names_rank_1(kiln_read(sum, data, sizeof(data), &err), &err);
    names_rank_1(kiln_read(t[5], data, sizeof(data), &err), &err);
    names_rank_1(kiln_collective_resolve(sum, &err), &err);
    KILN_CHECK_INT(kiln_add_scalar(sum, kiln_f64(1), &later, NULL), 0);
    names_rank_1(kiln_read(later, data, sizeof(data), &err), &err);
    KILN_CHECK_INT(kiln_read(apart, data, sizeof(data), &err), 0);
    KILN_CHECK(data[5] == 2 * value_at(0, 5));
    names_rank_1(kiln_sync(self.set.devices[0], &err), &err);
    KILN_CHECK_INT(kiln_sync(self.set.devices[0], &err), 0); // reported once
    kiln_release(sum);
    kiln_release(later);
    kiln_release(apart);
    release_computed(t);
    scene_fini(&self);
}

/// A group whose call stands behind another group's in a device's queue fails by its own deadline;
/// the other goes on. What was asked of the queue meanwhile comes after both groups' end.
static void test_behind_another_group(void)
{
    scene self;
    kiln_collective *hasty = NULL;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_tensor *sums[MOST] = {NULL};
    kiln_tensor *others[MOST] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    options.deadline_ns = 3000000000; // far more than a call needs, far less than the other group's
    if (scene_init(&self, &opencl, 60000) &&
        KILN_CHECK_INT(kiln_collective_create(self.set.devices, 2, &options, &hasty, NULL), 0)) {
        int64_t id = kiln_collective_id(self.group);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id, 0, &sums[0], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], NULL), 0);
        uint64_t begin = kiln_time_ns();
        KILN_CHECK_INT(kiln_collective_all_reduce(hasty, self.inputs, "sum", others, NULL), 0);
        KILN_CHECK_INT(kiln_collective_barrier(hasty, &err), KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK_CONTAINS(err.message, "rank 0");
        KILN_CHECK(kiln_time_ns() - begin < 45000000000u);
        for (uint32_t i = 0; i < self.count; i++) {
            KILN_CHECK_INT(kiln_collective_resolve(others[i], &err), KILN_STATUS_DEADLINE_EXCEEDED);
        }
        kiln_collective_destroy(hasty);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[1], "sum", id, 1, &sums[1], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[1], NULL), 0);
        holds(&self, sums[0], 1, 0);
        holds(&self, sums[1], 1, 0);
        hear_failures(&self);
    }
    release_all(sums);
    release_all(others);
    scene_fini(&self);
}

typedef struct syncer {
    kiln_device *device;
    kiln_status status;
} syncer;

static void *sync_device(void *user)
{
    syncer *own = user;
    own->status = kiln_sync(own->device, NULL);
    return NULL;
}

/// A call that is waited for while another thread syncs the device fails after that sync has ended,
/// which does not use the failure up: the next sync gives it.
static void test_failure_after_sync(void)
{
    scene self;
    pthread_t thread;
    kiln_collective *failing = NULL;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_tensor *sums[MOST] = {NULL};
    kiln_tensor *late = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const struct timespec nap = {.tv_nsec = 200000000};
    options.deadline_ns = 3000000000u;
    if (scene_init(&self, kiln_test_param(), 30000) &&
        KILN_CHECK_INT(kiln_collective_create(self.set.devices, 2, &options, &failing, NULL), 0)) {
        int64_t id = kiln_collective_id(self.group);
        syncer own = {self.set.devices[0], KILN_STATUS_OK};
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id, 0, &sums[0], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], NULL), 0);
        KILN_CHECK_INT(pthread_create(&thread, NULL, sync_device, &own), 0);
        nanosleep(&nap, NULL); // it waits for the first call
        KILN_CHECK_INT(
            kiln_all_reduce(self.inputs[0], "sum", kiln_collective_id(failing), 0, &late, NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(late, NULL), 0);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[1], "sum", id, 1, &sums[1], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[1], NULL), 0);
        pthread_join(thread, NULL);
        KILN_CHECK_INT(own.status, KILN_STATUS_OK);
        KILN_CHECK(!kiln_collective_ended(late));
        names_rank_1(kiln_sync(self.set.devices[0], &err), &err);
        KILN_CHECK_INT(kiln_sync(self.set.devices[0], NULL), 0); // reported once
        holds(&self, sums[0], 1, 0);
    }
    kiln_collective_destroy(failing);
    release_all(sums);
    kiln_release(late);
    scene_fini(&self);
}

/// A resolve that finds no memory changes nothing: the result stays refused, and resolves later.
static void test_resolve_without_memory(void)
{
    scene self;
    kiln_faults faults;
    kiln_tensor *sums[MOST] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    float data[COUNT];
    kiln_faults_init(&faults);
    setting what = opencl;
    what.allocator = &faults.allocator;
    if (scene_init(&self, &what, 30000)) {
        const struct timespec nap = {.tv_nsec = 200000000}; // its worker waits for the other's
        int64_t id = kiln_collective_id(self.group);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id, 0, &sums[0], NULL), 0);
        KILN_CHECK_INT(kiln_flush(self.set.devices[0], NULL), 0);
        nanosleep(&nap, NULL);
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), 0);
        faults.fail_at = atomic_load(&faults.requests) + 1;
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], &err), KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK_INT(kiln_read(sums[0], data, sizeof(data), &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], NULL), 0);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[1], "sum", id, 1, &sums[1], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[1], NULL), 0);
        holds(&self, sums[0], 1, 0);
        holds(&self, sums[1], 1, 0);
    }
    release_all(sums);
    scene_fini(&self);
    KILN_CHECK_INT(atomic_load(&faults.live), 0);
}

/// The devices get the parts of two groups in opposite orders, each behind the wait for the other:
/// nobody hangs, a group says so by the deadline, and the devices are sound afterwards.
static void test_crossed_groups(void)
{
    scene self;
    kiln_collective *groups[2] = {NULL};
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_tensor *sums[2][2] = {{NULL}};
    kiln_error err = KILN_ERROR_INIT;
    float data[COUNT];
    options.deadline_ns = 500000000;
    if (scene_init(&self, &opencl, 30000) &&
        KILN_CHECK_INT(kiln_collective_create(self.set.devices, 2, &options, &groups[0], NULL),
                       0) &&
        KILN_CHECK_INT(kiln_collective_create(self.set.devices, 2, &options, &groups[1], NULL),
                       0)) {
        uint64_t begin = kiln_time_ns();
        for (uint32_t part = 0; part < 4; part++) {
            uint32_t rank = part % 2;
            uint32_t g = rank == 0 ? part / 2 : 1 - part / 2;
            kiln_status status =
                kiln_all_reduce(self.inputs[rank], "sum", kiln_collective_id(groups[g]), rank,
                                &sums[g][rank], NULL);
            KILN_CHECK_INT(status, 0);
            status = kiln_collective_resolve(sums[g][rank], NULL);
            KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_DEADLINE_EXCEEDED);
        }
        int failed[2] = {0};
        for (uint32_t i = 0; i < 4; i++) { // when one has failed, the other may yet go through
            kiln_status status = kiln_read(sums[i / 2][i % 2], data, sizeof(data), &err);
            failed[i / 2] += status == KILN_STATUS_DEADLINE_EXCEEDED;
            KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_DEADLINE_EXCEEDED);
        }
        KILN_CHECK(failed[0] % 2 == 0 && failed[1] % 2 == 0 && failed[0] + failed[1] > 0);
        KILN_CHECK_CONTAINS(err.message, "rank ");
        KILN_CHECK(kiln_time_ns() - begin < 2500000000u); // both deadlines and what follows
        hear_failures(&self);
        KILN_CHECK_INT(kiln_collective_all_reduce_in_place(self.group, self.inputs, "sum", NULL),
                       0);
        KILN_CHECK_INT(kiln_collective_resolve(self.inputs[1], NULL), 0);
        holds(&self, self.inputs[1], 1, 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        kiln_release(sums[i / 2][i % 2]);
    }
    kiln_collective_destroy(groups[0]);
    kiln_collective_destroy(groups[1]);
    scene_fini(&self);
}
#endif

// ---- in place, and refusals ----

static void test_in_place(void)
{
    scene self;
    if (scene_init(&self, kiln_test_param(), 30000)) {
        kiln_tensor *other = NULL; // sees the same memory: keeps its value
        const int64_t shape[] = {17, 59};
        kiln_device_stats before = KILN_DEVICE_STATS_INIT;
        kiln_device_stats after = KILN_DEVICE_STATS_INIT;
        KILN_CHECK_INT(kiln_reshape(self.inputs[0], shape, 2, &other, NULL), 0);
        KILN_CHECK_INT(kiln_sync(self.set.devices[0], NULL), 0);
        kiln_device_stats_get(self.set.devices[1], &before);
        KILN_CHECK_INT(kiln_collective_all_reduce_in_place(self.group, self.inputs, "sum", NULL),
                       0);
        kiln_device_stats_get(self.set.devices[1], &after);
        KILN_CHECK(after.backend.bytes_used <= before.backend.bytes_used + COUNT * 4u);
        for (uint32_t i = 0; i < self.count; i++) {
            float data[COUNT];
            KILN_CHECK_INT(kiln_read(self.inputs[i], data, sizeof(data), NULL),
                           KILN_STATUS_FAILED_PRECONDITION);
            KILN_CHECK_INT(kiln_collective_resolve(self.inputs[i], NULL), 0);
            holds(&self, self.inputs[i], 1, 0);
        }
        float data[COUNT];
        KILN_CHECK_INT(kiln_read(other, data, sizeof(data), NULL), 0);
        for (int64_t i = 0; i < COUNT; i++) {
            KILN_CHECK(data[i] == value_at(0, i));
        }
        kiln_release(other);
    }
    scene_fini(&self);
}

/// A call in place that is refused leaves every tensor as it was, whichever rank is at fault.
static void test_in_place_refused(void)
{
    scene self;
    kiln_tensor *bools[MOST] = {NULL};
    kiln_tensor *sums[MOST] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    const int64_t count = 2;
    if (scene_init(&self, kiln_test_param(), 30000)) {
        uint32_t last = self.count - 1;
        for (uint32_t i = 0; i < self.count; i++) {
            KILN_CHECK_INT(kiln_tensor_create(self.set.devices[i], KILN_DTYPE_BOOL, 1, &count,
                                              "\1\0", &bools[i], NULL),
                           0);
        }
        KILN_CHECK_INT(kiln_collective_all_reduce_in_place(self.group, bools, "sum", &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        for (uint32_t i = 0; i < self.count; i++) {
            char data[2] = {0};
            KILN_CHECK_INT(kiln_read(bools[i], data, sizeof(data), NULL), 0);
            KILN_CHECK(data[0] == 1 && data[1] == 0);
        }
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", sums, NULL), 0);
        kiln_tensor *last_input = self.inputs[last];
        self.inputs[last] = sums[last]; // not resolved
        KILN_CHECK_INT(kiln_collective_all_reduce_in_place(self.group, self.inputs, "sum", &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        self.inputs[last] = last_input;
        float data[COUNT];
        KILN_CHECK_INT(kiln_read(sums[last], data, sizeof(data), NULL),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), 0);
        KILN_CHECK_INT(kiln_collective_all_reduce_in_place(self.group, self.inputs, "sum", NULL),
                       0);
        for (uint32_t i = 0; i < self.count; i++) {
            KILN_CHECK_INT(kiln_collective_resolve(self.inputs[i], NULL), 0);
            holds(&self, self.inputs[i], 1, 0);
        }
    }
    release_all(bools);
    release_all(sums);
    scene_fini(&self);
}

/// A call that is refused leaves the group as it was, whichever rank is at fault.
static void test_group_outlives_refusals(void)
{
    scene self;
    kiln_tensor *bools[MOST] = {NULL};
    kiln_tensor *sums[MOST] = {NULL};
    kiln_tensor *others[MOST] = {NULL};
    const int64_t count = 1;
    if (scene_init(&self, kiln_test_param(), 30000)) {
        uint32_t last = self.count - 1;
        for (uint32_t i = 0; i < self.count; i++) {
            KILN_CHECK_INT(kiln_tensor_create(self.set.devices[i], KILN_DTYPE_BOOL, 1, &count, "\1",
                                              &bools[i], NULL),
                           0);
        }
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, bools, "sum", others, NULL),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "median", others, NULL),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", sums, NULL), 0);
        kiln_tensor *last_input = self.inputs[last];
        self.inputs[last] = sums[last]; // not resolved; the ranks before it are sound
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", others, NULL),
                       KILN_STATUS_FAILED_PRECONDITION);
        self.inputs[last] = last_input;
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), 0);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", others, NULL), 0);
        for (uint32_t i = 0; i < self.count; i++) {
            KILN_CHECK_INT(kiln_collective_resolve(others[i], NULL), 0);
            holds(&self, others[i], 1, 0);
            KILN_CHECK_INT(kiln_collective_resolve(sums[i], NULL), 0);
            holds(&self, sums[i], 1, 0);
        }
    }
    release_all(bools);
    release_all(sums);
    release_all(others);
    scene_fini(&self);
}

static void test_refusals(void)
{
    scene self;
    kiln_tensor *sum = NULL;
    kiln_error err = KILN_ERROR_INIT;
    float data[COUNT];
    if (scene_init(&self, kiln_test_param(), 30000)) {
        int64_t id = kiln_collective_id(self.group);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "median", id, 0, &sum, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "median");
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id + 1, 0, &sum, NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sum, &err), KILN_STATUS_NOT_FOUND);
        kiln_release(sum);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id, 1, &sum, NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sum, &err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "member 1");
        kiln_release(sum);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", 0, 0, &sum, NULL), 0); // alone
        KILN_CHECK_INT(kiln_read(sum, data, sizeof(data), NULL), 0);
        KILN_CHECK(data[7] == value_at(0, 7));
        kiln_release(sum);
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), 0);
        KILN_CHECK_INT(kiln_sync(self.set.devices[0], &err), KILN_STATUS_NOT_FOUND); // the first
    }
    scene_fini(&self);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_in_place, "in place, reference", &references),
        KILN_TEST_PARAM(test_in_place_refused, "in place, refused, reference", &references),
        KILN_TEST_PARAM(test_group_outlives_refusals, "sound group, reference", &references),
        KILN_TEST_PARAM(test_refusals, "refusals, reference", &references),
#ifdef TEST_WITH_OPENCL
        KILN_TEST_PARAM(test_in_place, "in place, opencl", &opencl),
        KILN_TEST_PARAM(test_in_place, "in place, memory apart", &opencl_apart),
        KILN_TEST_PARAM(test_in_place, "in place, commands", &opencl_queued),
        KILN_TEST_PARAM(test_in_place_refused, "in place, refused, mixed", &mixed),
        KILN_TEST_PARAM(test_group_outlives_refusals, "sound group, mixed", &mixed),
        KILN_TEST_PARAM(test_refusals, "refusals, opencl", &opencl),
        KILN_TEST_PARAM(test_device_waits, "device waits", &opencl),
        KILN_TEST_PARAM(test_device_waits, "device waits, memory apart", &opencl_apart),
        KILN_TEST_PARAM(test_device_waits, "device waits, commands", &opencl_queued),
        KILN_TEST_PARAM(test_failure_follows, "failure follows", &opencl),
        KILN_TEST_PARAM(test_failure_follows, "failure follows, memory apart", &opencl_apart),
        KILN_TEST_PARAM(test_failure_follows, "failure follows, commands", &opencl_queued),
        KILN_TEST_PARAM(test_assumed, "assumed, opencl", &opencl),
        KILN_TEST_PARAM(test_assumed, "assumed, memory apart", &opencl_apart),
        KILN_TEST_PARAM(test_ways, "ways, opencl", &opencl),
        KILN_TEST_PARAM(test_ways, "ways, memory apart", &opencl_apart),
        KILN_TEST_PARAM(test_ways, "ways, commands", &opencl_queued),
        KILN_TEST(test_behind_another_group),
        KILN_TEST(test_crossed_groups),
        KILN_TEST_PARAM(test_failure_after_sync, "failure after sync", &opencl),
        KILN_TEST_PARAM(test_failure_after_sync, "failure after sync, memory apart", &opencl_apart),
        KILN_TEST(test_resolve_without_memory),
        KILN_TEST(test_budget_of_lanes),
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/recorded", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
