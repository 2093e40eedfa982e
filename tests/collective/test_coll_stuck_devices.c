// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices that do not come back: a queue that never ends, of the lane of collective calls or the
// device's own, and a server that hangs. Every member's result ends with the error that names the
// device's rank by the deadline and a second, the group can be destroyed meanwhile, and memory goes
// back when the device comes back.
#include <stdlib.h>

#include "collective.h"
#include "device_set.h"
#include "harness.h"
#include "rt_device.h"
#ifdef TEST_WITH_OPENCL
#include "cl_queue.h"
#include "cl_state.h"
#include "coll_memory.h"
#endif

enum { MOST = 3, STUCK = 1, COUNT = 100003, DEADLINE_MS = 500, WITHIN_MS = DEADLINE_MS + 1000 };

typedef struct scene {
    uint32_t count;
    device_set set;
    kiln_collective *group;
    kiln_tensor *inputs[MOST];
    kiln_tensor *sums[MOST];
} scene;

static bool make_group(scene *self, uint64_t deadline_ms)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    options.deadline_ns = deadline_ms * 1000000;
    if (kiln_collective_create(self->set.devices, self->count, &options, &self->group, &err) != 0) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    return true;
}

/// One call goes through, so that everything is compiled and open; then a group of the short
/// deadline.
static bool scene_init(scene *self, const char *const *addresses, uint32_t count)
{
    const int64_t elems = COUNT;
    *self = (scene){.count = count};
    bool ok = device_set_open(&self->set, addresses, count) && make_group(self, 30000);
    for (uint32_t i = 0; i < count && ok; i++) {
        ok = KILN_CHECK_INT(kiln_full(self->set.devices[i], &elems, 1, KILN_DTYPE_F32,
                                      kiln_f64(i + 1), &self->inputs[i], NULL),
                            0);
    }
    ok = ok &&
         KILN_CHECK_INT(
             kiln_collective_all_reduce(self->group, self->inputs, "sum", self->sums, NULL), 0);
    for (uint32_t i = 0; i < count && ok; i++) {
        ok = KILN_CHECK_INT(kiln_collective_resolve(self->sums[i], NULL), 0) &&
             KILN_CHECK_INT(kiln_sync(self->set.devices[i], NULL), 0);
        kiln_release(self->sums[i]);
        self->sums[i] = NULL;
    }
    kiln_collective_destroy(self->group);
    self->group = NULL;
    return ok && make_group(self, DEADLINE_MS);
}

static void scene_fini(scene *self)
{
    kiln_collective_destroy(self->group);
    for (uint32_t i = 0; i < self->count; i++) {
        kiln_release(self->inputs[i]);
        kiln_release(self->sums[i]);
    }
    device_set_close(&self->set);
}

static void check_read(scene *self, uint32_t rank)
{
    static float data[COUNT];
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_read(self->sums[rank], data, sizeof(data), &err),
                   KILN_STATUS_DEADLINE_EXCEEDED);
    KILN_CHECK_CONTAINS(err.message, "rank 1: ");
}

/// The call on all members; `reads_stuck`: the device's own queue still works.
static void check_call(scene *self, bool reads_stuck)
{
    uint64_t begin = kiln_time_ns();
    if (!KILN_CHECK_INT(
            kiln_collective_all_reduce(self->group, self->inputs, "sum", self->sums, NULL), 0)) {
        return;
    }
    for (uint32_t i = 0; i < self->count; i++) { // of a host that waits, the failure
        kiln_status status = kiln_collective_resolve(self->sums[i], NULL);
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_DEADLINE_EXCEEDED);
    }
    for (uint32_t i = 0; i < self->count; i++) {
        if (i != STUCK || reads_stuck) {
            check_read(self, i);
        }
    }
    int32_t rank = -1;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_collective_status(self->group, &rank, &err), KILN_STATUS_DEADLINE_EXCEEDED);
    KILN_CHECK_INT(rank, STUCK);
    KILN_CHECK_INT(kiln_collective_barrier(self->group, NULL), KILN_STATUS_DEADLINE_EXCEEDED);
    kiln_collective_destroy(self->group);
    self->group = NULL;
    for (uint32_t i = 0; i < self->count; i++) {
        KILN_CHECK(kiln_collective_ended(self->sums[i]));
    }
    KILN_CHECK((kiln_time_ns() - begin) / 1000000 < WITHIN_MS);
}

#ifdef TEST_WITH_OPENCL
static const char *const opencl[] = {"opencl:0", "opencl:1", "reference:0"};
static const char *const mixed[] = {"opencl:0", "reference:0", "reference:1"};

/// What is queued on the backend from now on never ends, until the event is let go. The event does
/// not need the backend any more.
static cl_event hold(kiln_backend *base, pthread_mutex_t *lock)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    pthread_mutex_lock(lock);
    cl_event gate = clCreateUserEvent(backend->context, NULL);
    KILN_CHECK_INT(clEnqueueBarrierWithWaitList(backend->queue, 1, &gate, NULL), CL_SUCCESS);
    kilni_cl_set_last(backend, NULL);
    pthread_mutex_unlock(lock);
    return gate;
}

static void let_go(cl_event gate)
{
    clSetUserEventStatus(gate, CL_COMPLETE);
    clReleaseEvent(gate);
}

static void test_lane(void)
{
    scene self;
    if (scene_init(&self, opencl, 3)) {
        device_set_use_commands(self.group);
        kiln_device *device = self.set.devices[STUCK];
        cl_event gate = hold(device->in.backend, &device->in.lock);
        check_call(&self, /*reads_stuck=*/true);
        let_go(gate);
    }
    scene_fini(&self);
}

/// A call without commands does not meet the lane.
static void test_lane_is_not_used(void)
{
    static float data[COUNT];
    scene self;
    bool ok = scene_init(&self, opencl, 3);
    if (ok) { // on a busy machine, too, before the deadline
        kiln_collective_destroy(self.group);
        ok = make_group(&self, 30000);
    }
    if (ok && KILN_CHECK(self.group->ranks[STUCK].memory->commands != NULL)) {
        kiln_device *device = self.set.devices[STUCK];
        cl_event gate = hold(device->in.backend, &device->in.lock);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", self.sums, NULL),
                       0);
        for (uint32_t i = 0; i < self.count; i++) {
            KILN_CHECK_INT(kiln_collective_resolve(self.sums[i], NULL), 0);
            KILN_CHECK_INT(kiln_read(self.sums[i], data, sizeof(data), NULL), 0);
            KILN_CHECK(data[0] == 6 && data[COUNT - 1] == 6); // 1 + 2 + 3
        }
        let_go(gate);
    }
    scene_fini(&self);
}

/// Earlier work on the device never ends.
static void test_queue(void)
{
    scene self;
    if (scene_init(&self, opencl, 3)) {
        kiln_device *device = self.set.devices[STUCK];
        cl_event gate = hold(device->backend, &device->lock);
        check_call(&self, /*reads_stuck=*/false);
        let_go(gate);
        check_read(&self, STUCK);
    }
    scene_fini(&self);
}

/// The first member's queue does not go on, and nobody waits for it: the other ones' earlier work
/// is submitted all the same, and the call with it.
static void test_earlier_work(void)
{
    scene self;
    kiln_tensor *doubled[MOST] = {NULL};
    kiln_device_stats before = KILN_DEVICE_STATS_INIT;
    kiln_device_stats after = KILN_DEVICE_STATS_INIT;
    float value = 0;
    const int64_t start = COUNT - 1;
    const int64_t end = COUNT;
    kiln_tensor *last = NULL;
    if (scene_init(&self, opencl, 3)) {
        kiln_collective_destroy(self.group);
        self.group = NULL;
        kiln_device *first = self.set.devices[0];
        cl_event gate = hold(first->backend, &first->lock);
        (void)make_group(&self, 30000);
        for (uint32_t i = 0; i < self.count; i++) {
            KILN_CHECK_INT(kiln_mul_scalar(self.inputs[i], kiln_f64(2), &doubled[i], NULL), 0);
        }
        kiln_device_stats_get(self.set.devices[STUCK], &before);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, doubled, "sum", self.sums, NULL), 0);
        kiln_device_stats_get(self.set.devices[STUCK], &after);
        KILN_CHECK(after.backend.kernels_launched > before.backend.kernels_launched);
        KILN_CHECK(!kiln_collective_ended(self.sums[STUCK]));
        let_go(gate);
        KILN_CHECK_INT(kiln_collective_resolve(self.sums[STUCK], NULL), 0);
        KILN_CHECK_INT(kiln_slice(self.sums[STUCK], &start, 1, &end, 1, NULL, 0, &last, NULL), 0);
        KILN_CHECK_INT(kiln_read(last, &value, sizeof(value), NULL), 0);
        KILN_CHECK(value == 12.0f); // 2 + 4 + 6
    }
    for (uint32_t i = 0; i < self.count; i++) {
        kiln_release(doubled[i]);
    }
    kiln_release(last);
    scene_fini(&self);
}

/// A member's gradient is still being moved from a device that hangs.
static void test_move(void)
{
    scene self;
    kiln_error err = KILN_ERROR_INIT;
    if (scene_init(&self, mixed, 3)) {
        const int64_t elems = COUNT;
        kiln_device *source = NULL;
        kiln_tensor *there = NULL;
        KILN_CHECK_INT(kiln_device_open(self.set.context, "opencl:1", &source, NULL), 0);
        KILN_CHECK_INT(kiln_full(source, &elems, 1, KILN_DTYPE_F32, kiln_f64(2), &there, NULL), 0);
        cl_event gate = hold(source->backend, &source->lock);
        kiln_release(self.inputs[STUCK]);
        KILN_CHECK_INT(kiln_to_device(there, self.set.devices[STUCK], &self.inputs[STUCK], NULL),
                       0);
        uint64_t begin = kiln_time_ns();
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", self.sums, &err),
                       KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK((kiln_time_ns() - begin) / 1000000 < WITHIN_MS);
        KILN_CHECK_CONTAINS(err.message, "rank 1: the tensor was still on its way");
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL),
                       KILN_STATUS_DEADLINE_EXCEEDED);
        let_go(gate);
        kiln_release(there);
        kiln_device_release(source);
    }
    scene_fini(&self);
}

/// The device's last hold is the worker's that does not come back.
static void test_device_goes(void)
{
    scene self;
    if (scene_init(&self, opencl, 3)) {
        device_set_use_commands(self.group);
        kiln_device *device = self.set.devices[STUCK];
        cl_event gate = hold(device->in.backend, &device->in.lock);
        check_call(&self, /*reads_stuck=*/true);
        kiln_release(self.inputs[STUCK]);
        kiln_release(self.sums[STUCK]);
        kiln_device_release(device);
        self.inputs[STUCK] = self.sums[STUCK] = NULL;
        let_go(gate); // the device closes on the worker's thread
        self.set.devices[STUCK] = NULL;
        KILN_CHECK_INT(
            kiln_device_open(self.set.context, "opencl:1", &self.set.devices[STUCK], NULL), 0);
    }
    scene_fini(&self);
}
#endif

#ifdef TEST_WITH_REMOTE
static void test_server(void)
{
    static const char *const addresses[] = {"reference:0", "remote failing", "reference:1"};
    scene self;
    device_set_fail_at(0, 0, 0);
    device_set_stay_at(0);
    if (scene_init(&self, addresses, 3)) {
        device_set_stay_at(1);
        check_call(&self, /*reads_stuck=*/false);
        device_set_let_go();
        check_read(&self, STUCK);
    }
    scene_fini(&self);
}

#endif

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
#ifdef TEST_WITH_OPENCL
        KILN_TEST(test_lane),   KILN_TEST(test_lane_is_not_used),
        KILN_TEST(test_queue),  KILN_TEST(test_device_goes),
        KILN_TEST(test_move),   KILN_TEST(test_earlier_work),
#endif
#ifdef TEST_WITH_REMOTE
        KILN_TEST(test_server),
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/stuck_devices", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
