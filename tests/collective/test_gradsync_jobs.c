// SPDX-License-Identifier: MIT OR Apache-2.0
// Jobs of gradient synchronisation: their names and lives, the identity of parameters, and
// everything that can go wrong, which all members must hear of in the same words.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gradsync_scene.h"
#include "harness.h"

// ---- what goes wrong ----

/// Every member gets the failure, in these words.
static void check_failed(scene *self, kiln_status code, const char *part)
{
    for (uint32_t m = 0; m < MEMBERS; m++) {
        kiln_error err = KILN_ERROR_INIT;
        KILN_CHECK_INT(kiln_gradsync_register(self->job, m, NULL, 0, &err), code);
        KILN_CHECK_CONTAINS(err.message, part);
        KILN_CHECK_INT(kiln_gradsync_sync(self->job, m, &err), code);
        KILN_CHECK_CONTAINS(err.message, part);
    }
}

static const kiln_param_id two[] = {1, 2};

static void register_all(scene *self)
{
    for (uint32_t m = 0; m < MEMBERS; m++) {
        KILN_CHECK_INT(kiln_gradsync_register(self->job, m, two, 2, NULL), 0);
    }
}

static kiln_status late_register(scene *self, kiln_error *err)
{
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if (m != 2) {
            KILN_CHECK_INT(kiln_gradsync_register(self->job, m, two, 1, NULL), 0);
            KILN_CHECK_INT(submit(self, m, 1, 3, 1, NULL), 0);
        }
    }
    uint64_t begin = kiln_time_ns();
    kiln_status status = kiln_gradsync_sync(self->job, 0, err);
    uint64_t waited_ms = (kiln_time_ns() - begin) / 1000000;
    KILN_CHECK(waited_ms >= DEADLINE_MS - 1 && waited_ms < DEADLINE_MS + 1000);
    return status;
}

static kiln_status late_submit(scene *self, kiln_error *err)
{
    register_all(self);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        KILN_CHECK_INT(submit(self, m, 1, 3, 1, NULL), 0);
        KILN_CHECK_INT(m == 1 ? 0 : submit(self, m, 2, 3, 1, NULL), 0);
    }
    return kiln_gradsync_sync(self->job, 0, err);
}

static kiln_status submit_twice(scene *self, kiln_error *err)
{
    register_all(self);
    KILN_CHECK_INT(submit(self, 3, 2, 3, 1, NULL), 0);
    return submit(self, 3, 2, 3, 1, err);
}

static kiln_status submit_other_shape(scene *self, kiln_error *err)
{
    register_all(self);
    KILN_CHECK_INT(submit(self, 0, 2, 3, 1, NULL), 0);
    return submit(self, 1, 2, 4, 1, err);
}

static kiln_status submit_other_dtype(scene *self, kiln_error *err)
{
    const int64_t count = 3;
    kiln_tensor *tensor = NULL;
    register_all(self);
    KILN_CHECK_INT(submit(self, 0, 2, 3, 1, NULL), 0);
    KILN_CHECK_INT(
        kiln_tensor_create(self->set.devices[1], KILN_DTYPE_F16, 1, &count, NULL, &tensor, NULL),
        0);
    kiln_tensor_set_param(tensor, 2);
    kiln_status status = kiln_gradsync_submit(self->job, 1, tensor, err);
    kiln_release(tensor);
    return status;
}

static kiln_status submit_unregistered(scene *self, kiln_error *err)
{
    register_all(self);
    return submit(self, 2, 3, 3, 1, err);
}

static kiln_status register_twice(scene *self, kiln_error *err)
{
    register_all(self);
    return kiln_gradsync_register(self->job, 0, two, 2, err);
}

static kiln_status sync_too_early(scene *self, kiln_error *err)
{
    register_all(self);
    return kiln_gradsync_sync(self->job, 0, err);
}

static kiln_status finish_too_early(scene *self, kiln_error *err)
{
    register_all(self);
    return kiln_gradsync_finish(self->job, 1, err);
}

static kiln_status round_not_finished(scene *self, kiln_error *err)
{
    KILN_CHECK_INT(kiln_gradsync_finish(self->job, 0, NULL), 0);
    return kiln_gradsync_register(self->job, 0, two, 2, err);
}

static void test_failures(void)
{
    static const struct {
        kiln_status (*act)(scene *self, kiln_error *err);
        kiln_status code;
        const char *part;
    } cases[] = {
        {late_register, KILN_STATUS_DEADLINE_EXCEEDED, "member 2 did not register for epoch 1"},
        {late_submit, KILN_STATUS_DEADLINE_EXCEEDED, "member 1 did not submit parameter 2"},
        {submit_twice, KILN_STATUS_ALREADY_EXISTS, "member 3 submitted parameter 2 twice"},
        {submit_other_shape, KILN_STATUS_INVALID_ARGUMENT, "member 1 submitted parameter 2"},
        {submit_other_dtype, KILN_STATUS_INVALID_ARGUMENT, "3 elements of f16"},
        {submit_unregistered, KILN_STATUS_FAILED_PRECONDITION, "member 2 submitted parameter 3"},
        {register_twice, KILN_STATUS_FAILED_PRECONDITION, "member 0 registered again"},
        {sync_too_early, KILN_STATUS_FAILED_PRECONDITION, "without parameter 1"},
        {finish_too_early, KILN_STATUS_FAILED_PRECONDITION, "member 1 finished in the middle"},
        {round_not_finished, KILN_STATUS_DEADLINE_EXCEEDED, "member 1 did not finish its round"},
    };
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    options.deadline_ns = (uint64_t)DEADLINE_MS * 1000000;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        scene self;
        kiln_error err = KILN_ERROR_INIT;
        if (scene_open(&self, gradsync_references, &options)) {
            KILN_CHECK_INT(cases[i].act(&self, &err), cases[i].code);
            KILN_CHECK_CONTAINS(err.message, cases[i].part);
            check_failed(&self, cases[i].code, cases[i].part);
        }
        scene_close(&self);
    }
}

/// A member's device fails while gradients are reduced: all members hear the same.
static void test_failing_device(void)
{
    static const char *const addresses[MEMBERS] = {"reference:0", "reference:1", "failing",
                                                   "reference:2"};
    for (int n = 1; n <= 2; n++) {
        scene self;
        kiln_error errors[MEMBERS] = {KILN_ERROR_INIT};
        kiln_tensor *last[MEMBERS] = {NULL};
        uint32_t failed = 0;
        device_set_fail_at(0, 0, 0);
        bool ok = scene_open(&self, addresses, NULL);
        if (ok) {
            register_all(&self);
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            ok = KILN_CHECK_INT(submit(&self, m, 1, 3, 1, NULL), 0);
            last[m] = gradient(&self, m, 2, 40, 1);
        }
        device_set_fail_at(n, 0, 0); // a read of what is sent
        for (uint32_t m = 0; m < MEMBERS; m++) {
            ok = ok && KILN_CHECK_INT(kiln_gradsync_submit(self.job, m, last[m], NULL), 0);
            kiln_release(last[m]);
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            failed += kiln_gradsync_sync(self.job, m, &errors[m]) != KILN_STATUS_OK;
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            if (errors[m].code != 0) {
                KILN_CHECK_CONTAINS(errors[m].message, "a read failed on purpose");
                KILN_CHECK_CONTAINS(errors[m].message, "2: ");
            }
        }
        KILN_CHECK(failed > 0 &&
                   kiln_gradsync_register(self.job, 0, NULL, 0, NULL) == KILN_STATUS_DEVICE_LOST);
        scene_close(&self);
    }
}

#ifdef TEST_WITH_REMOTE
/// The server behind member 2 hangs in the middle of an epoch.
static void test_server_that_hangs(void)
{
    static const char *const addresses[MEMBERS] = {"reference:0", "reference:1", "remote failing",
                                                   "reference:2"};
    scene self;
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    kiln_tensor *last[MEMBERS] = {NULL};
    kiln_error errors[MEMBERS] = {KILN_ERROR_INIT};
    options.deadline_ns = DEADLINE_MS * 1000000u;
    device_set_fail_at(0, 0, 0);
    device_set_stay_at(0);
    bool ok = scene_open(&self, addresses, &options);
    if (ok) {
        register_all(&self);
    }
    for (uint32_t m = 0; m < MEMBERS && ok; m++) {
        ok = KILN_CHECK_INT(submit(&self, m, 1, 3, 1, NULL), 0);
        last[m] = gradient(&self, m, 2, 40, 1);
        ok = ok && KILN_CHECK_INT(kiln_sync(self.set.devices[m], NULL), 0);
    }
    device_set_stay_at(1);
    uint64_t begin = kiln_time_ns();
    for (uint32_t m = 0; m < MEMBERS; m++) {
        ok = ok && KILN_CHECK_INT(kiln_gradsync_submit(self.job, m, last[m], NULL), 0);
        kiln_release(last[m]);
    }
    for (uint32_t m = 0; m < MEMBERS && ok; m++) {
        KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, &errors[m]), KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK_CONTAINS(errors[m].message, "rank 2: ");
        KILN_CHECK_STR(errors[m].message, errors[0].message);
    }
    KILN_CHECK((kiln_time_ns() - begin) / 1000000 < DEADLINE_MS + 1000);
    device_set_let_go();
    scene_close(&self);
}
#endif

static void test_refusals(void)
{
    scene self;
    kiln_error err = KILN_ERROR_INIT;
    const kiln_param_id bad[] = {4, 5, 4};
    const kiln_param_id zero = 0;
    kiln_gradsync *other = NULL;
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    if (scene_open(&self, gradsync_references, NULL)) {
        kiln_tensor *tensor = gradient(&self, 0, 0, 2, 1);
        KILN_CHECK_INT(kiln_gradsync_submit(NULL, 0, tensor, &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_INT(kiln_gradsync_register(self.job, 0, bad, 3, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_gradsync_register(self.job, 0, &zero, 1, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_gradsync_register(self.job, MEMBERS, bad, 1, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_gradsync_register(self.job, 0, bad, 1, &err), 0);
        KILN_CHECK_INT(kiln_gradsync_submit(self.job, 0, tensor, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "names no parameter");
        kiln_tensor_set_param(tensor, 4);
        KILN_CHECK_INT(kiln_gradsync_submit(self.job, 1, tensor, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_gradsync_submit(self.job, 0, tensor, &err), 0); // nothing was spoilt
        options.struct_size = 4;
        KILN_CHECK_INT(
            kiln_gradsync_start(self.set.context, "x", self.set.devices, 2, &options, &other, &err),
            KILN_STATUS_INVALID_ARGUMENT);
        options.struct_size = sizeof(options);
        options.op = "median";
        KILN_CHECK_INT(
            kiln_gradsync_start(self.set.context, "x", self.set.devices, 2, &options, &other, &err),
            KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(
            kiln_gradsync_start(self.set.context, "", self.set.devices, 2, NULL, &other, &err),
            KILN_STATUS_INVALID_ARGUMENT);
        kiln_release(tensor);
    }
    scene_close(&self);
}

/// What is accumulated has one shape: a sum must not be stretched over another, nor a gradient.
static void test_accumulated_shapes(void)
{
    const kiln_param_id id = 4;
    scene self;
    kiln_error err = KILN_ERROR_INIT;
    if (scene_open(&self, gradsync_references, NULL)) {
        kiln_tensor *six = gradient(&self, 0, id, 6, 1);
        kiln_tensor *one = gradient(&self, 0, id, 1, 1);
        KILN_CHECK_INT(kiln_gradsync_accumulate(self.job, 0, six, NULL), 0);
        KILN_CHECK_INT(kiln_gradsync_accumulate(self.job, 0, one, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "member 0");
        KILN_CHECK_CONTAINS(err.message, "parameter 4");
        KILN_CHECK_INT(kiln_gradsync_accumulate(self.job, 0, six, NULL), 0); // nothing was spoilt
        KILN_CHECK_INT(kiln_gradsync_register(self.job, 0, &id, 1, NULL), 0);
        KILN_CHECK_INT(kiln_gradsync_submit(self.job, 0, one, &err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "accumulated");
        kiln_release(six);
        kiln_release(one);
    }
    scene_close(&self);
}

/// Choices of algorithms of any length count to their last word.
static void test_long_select(void)
{
    const kiln_param_id id = 3;
    scene self;
    char select[400];
    size_t length = 0;
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    options.select = select;
    options.bucket_bytes = 16; // 12 floats do not travel with others
    for (int i = 0; i < 12; i++) {
        length +=
            (size_t)snprintf(select + length, sizeof(select) - length, "all_reduce:100M-:ring,");
    }
    length += (size_t)snprintf(select + length, sizeof(select) - length, "all_reduce:tree4");
    for (int wrong = 0; wrong < 2; wrong++) {
        bool ok = scene_open(&self, gradsync_references, &options);
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            ok = KILN_CHECK_INT(kiln_gradsync_register(self.job, m, &id, 1, NULL), 0);
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            kiln_error err = KILN_ERROR_INIT;
            bool fails = wrong == 1 && m == MEMBERS - 1;
            KILN_CHECK_INT(submit(&self, m, id, 12, (float)m, &err),
                           fails ? KILN_STATUS_INVALID_ARGUMENT : KILN_STATUS_OK);
            KILN_CHECK(!fails || strstr(err.message, "nonsense") != NULL);
        }
        if (wrong == 0 && ok && KILN_CHECK_INT(kiln_gradsync_sync(self.job, 0, NULL), 0)) {
            check_gradient(&self, 0, id, 12, 1.5f, 1);
        }
        scene_close(&self);
        (void)snprintf(select + length, sizeof(select) - length, ",all_reduce:nonsense");
    }
}

/// A job, and a group, is of one context, whose groups operations name by number.
static void test_other_context(void)
{
    static const char *const address[] = {"reference:0"};
    scene self;
    device_set other;
    kiln_gradsync *job = NULL;
    kiln_collective *group = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (scene_open(&self, gradsync_references, NULL) && device_set_open(&other, address, 1)) {
        kiln_device *devices[] = {self.set.devices[0], other.devices[0]};
        KILN_CHECK_INT(kiln_gradsync_start(self.set.context, "x", devices, 2, NULL, &job, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "device 1");
        KILN_CHECK_INT(kiln_collective_create(devices, 2, NULL, &group, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "another context");
        KILN_CHECK(job == NULL && group == NULL);
        device_set_close(&other);
    }
    scene_close(&self);
}

// ---- jobs ----

static void test_names(void)
{
    scene self;
    kiln_gradsync *again = NULL;
    kiln_gradsync *other = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    if (scene_open(&self, gradsync_references, NULL)) {
        kiln_context *context = self.set.context;
        kiln_device **devices = self.set.devices;
        KILN_CHECK_INT(kiln_gradsync_start(context, "job", devices, MEMBERS, NULL, &again, NULL),
                       0);
        KILN_CHECK(again == self.job);
        kiln_gradsync_release(again);
        options.op = "sum";
        KILN_CHECK_INT(
            kiln_gradsync_start(context, "job", devices, MEMBERS, &options, &again, &err),
            KILN_STATUS_ALREADY_EXISTS);
        KILN_CHECK_INT(kiln_gradsync_start(context, "job", devices, 2, NULL, &again, &err),
                       KILN_STATUS_ALREADY_EXISTS);
        KILN_CHECK(again == NULL);
        // Another job over the same devices at the same time.
        KILN_CHECK_INT(kiln_gradsync_start(context, "two", devices, 2, &options, &other, NULL), 0);
        KILN_CHECK_INT(kiln_gradsync_register(self.job, 0, two, 2, NULL), 0);
        scene second = {.set = self.set, .job = other};
        for (uint32_t m = 0; m < 2; m++) {
            KILN_CHECK_INT(kiln_gradsync_register(other, m, two, 1, NULL), 0);
            KILN_CHECK_INT(submit(&second, m, 1, 3, (float)m, NULL), 0);
        }
        KILN_CHECK_INT(kiln_gradsync_sync(other, 0, NULL), 0);
        check_gradient(&second, 0, 1, 3, 1, 2);
        KILN_CHECK_INT(kiln_gradsync_find(context, "two", &again, NULL), 0);
        KILN_CHECK(again == other);
        kiln_gradsync_release(again);
        KILN_CHECK_INT(kiln_gradsync_close(context, "two", NULL), 0);
        KILN_CHECK_INT(kiln_gradsync_close(context, "two", NULL), 0);
        KILN_CHECK_INT(kiln_gradsync_register(other, 0, two, 2, &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(err.message, "closed");
        KILN_CHECK_INT(kiln_gradsync_start(context, "two", devices, 2, NULL, &again, NULL), 0);
        KILN_CHECK(again != other); // a new one
        kiln_gradsync_release(other);
        kiln_gradsync_release(again);
        KILN_CHECK_INT(kiln_gradsync_remove(context, "two", NULL), 0);
        KILN_CHECK_INT(kiln_gradsync_find(context, "two", &again, &err), KILN_STATUS_NOT_FOUND);
        KILN_CHECK_INT(kiln_gradsync_close(context, "two", &err), KILN_STATUS_NOT_FOUND);
        KILN_CHECK_INT(kiln_gradsync_remove(context, "two", &err), KILN_STATUS_NOT_FOUND);
    }
    scene_close(&self);
}

typedef struct racer {
    scene *self;
    uint32_t number;
    atomic_uint *wrong;
} racer;

static void *race(void *user)
{
    racer *self = user;
    kiln_context *context = self->self->set.context;
    for (int round = 0; round < 60; round++) {
        kiln_gradsync *job = NULL;
        kiln_error err = KILN_ERROR_INIT;
        kiln_status status = kiln_gradsync_start(context, "race", self->self->set.devices, MEMBERS,
                                                 NULL, &job, &err);
        atomic_fetch_add(self->wrong, status != KILN_STATUS_OK || job == NULL);
        status = kiln_gradsync_register(job, self->number % MEMBERS, two, 2, &err);
        bool known = status == KILN_STATUS_OK || status == KILN_STATUS_FAILED_PRECONDITION ||
                     status == KILN_STATUS_CANCELLED;
        atomic_fetch_add(self->wrong, !known);
        status = round % 3 == 0 ? kiln_gradsync_remove(context, "race", &err)
                                : kiln_gradsync_close(context, "race", &err);
        atomic_fetch_add(self->wrong, status != KILN_STATUS_OK && status != KILN_STATUS_NOT_FOUND);
        kiln_gradsync_release(job);
    }
    return NULL;
}

static void test_start_and_close_race(void)
{
    enum { THREADS = 16 };
    scene self;
    pthread_t threads[THREADS];
    racer racers[THREADS];
    atomic_uint wrong = 0;
    if (scene_open(&self, gradsync_references, NULL)) {
        for (uint32_t i = 0; i < THREADS; i++) {
            racers[i] = (racer){&self, i, &wrong};
            KILN_CHECK_INT(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        KILN_CHECK_INT(atomic_load(&wrong), 0);
        kiln_status status = kiln_gradsync_remove(self.set.context, "race", NULL);
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_NOT_FOUND);
    }
    scene_close(&self);
}

typedef struct member_thread {
    scene *self;
    uint32_t member;
    int steps;
    kiln_status status;
    kiln_error err;
} member_thread;

/// A thread per member, as a program would have it.
static void *train(void *user)
{
    member_thread *own = user;
    for (int step = 0; step < own->steps && own->status == KILN_STATUS_OK; step++) {
        float value = (float)(own->member + (uint32_t)step);
        own->status = kiln_gradsync_register(own->self->job, own->member, two, 2, &own->err);
        for (int p = 1; p >= 0 && own->status == KILN_STATUS_OK; p--) {
            own->status = submit(own->self, own->member, two[p], 50, value, &own->err);
        }
        if (own->status == KILN_STATUS_OK) {
            own->status = kiln_gradsync_sync(own->self->job, own->member, &own->err);
        }
        if (own->status == KILN_STATUS_OK) {
            check_gradient(own->self, own->member, 2, 50, 1.5f + (float)step, 1);
        }
    }
    return NULL;
}

static void test_threads(void)
{
    scene self;
    pthread_t threads[MEMBERS];
    member_thread members[MEMBERS];
    if (scene_open(&self, gradsync_references, NULL)) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            members[m] = (member_thread){.self = &self, .member = m, .steps = 100};
            KILN_CHECK_INT(pthread_create(&threads[m], NULL, train, &members[m]), 0);
        }
        for (uint32_t m = 0; m < MEMBERS; m++) {
            pthread_join(threads[m], NULL);
            KILN_CHECK_INT(members[m].status, KILN_STATUS_OK);
        }
    }
    scene_close(&self);
}

/// Three members wait for a fourth that never comes, when the job is closed.
static void test_close_while_pending(void)
{
    scene self;
    pthread_t threads[3];
    member_thread members[3];
    struct timespec pause = {.tv_nsec = 50000000};
    if (scene_open(&self, gradsync_references, NULL)) {
        for (uint32_t m = 0; m < 3; m++) {
            members[m] = (member_thread){.self = &self, .member = m, .steps = 1};
            KILN_CHECK_INT(pthread_create(&threads[m], NULL, train, &members[m]), 0);
        }
        nanosleep(&pause, NULL);
        uint64_t begin = kiln_time_ns();
        KILN_CHECK_INT(kiln_gradsync_close(self.set.context, "job", NULL), 0);
        for (uint32_t m = 0; m < 3; m++) {
            pthread_join(threads[m], NULL);
            KILN_CHECK_INT(members[m].status, KILN_STATUS_CANCELLED);
            KILN_CHECK_CONTAINS(members[m].err.message, "closed");
        }
        KILN_CHECK(kiln_time_ns() - begin < 5000000000u);
    }
    scene_close(&self);
}

/// The id of a parameter stays with the tensor through retain, kiln_to_device and a remote device.
static void test_param_ids(void)
{
    static const char *const addresses[] = {"reference",
#ifdef TEST_WITH_REMOTE
                                            "remote",
#endif
                                            "reference:1"};
    enum { COUNT = sizeof(addresses) / sizeof(addresses[0]) };
    const kiln_param_id id = UINT64_C(0xfedcba9876543210);
    const int64_t count = 3;
    device_set set;
    kiln_tensor *x = NULL;
    if (device_set_open(&set, addresses, COUNT) &&
        KILN_CHECK_INT(
            kiln_tensor_create(set.devices[0], KILN_DTYPE_F32, 1, &count, NULL, &x, NULL), 0)) {
        KILN_CHECK(!kiln_tensor_is_distributed(x) && kiln_tensor_param(x) == 0);
        kiln_tensor_set_param(x, id);
        for (uint32_t i = 1; i < COUNT; i++) {
            kiln_tensor *y = NULL;
            kiln_release(kiln_retain(x));
            KILN_CHECK(kiln_tensor_is_distributed(x));
            KILN_CHECK_INT(kiln_to_device(x, set.devices[i], &y, NULL), 0);
            KILN_CHECK(y != NULL && kiln_tensor_param(y) == id);
            kiln_release(x);
            x = y;
        }
        kiln_tensor *sum = NULL;
        KILN_CHECK_INT(kiln_add(x, x, &sum, NULL), 0);
        KILN_CHECK(!kiln_tensor_is_distributed(sum));
        kiln_release(sum);
    }
    kiln_release(x);
    device_set_close(&set);
}

/// Gradients are floats: others are refused, in the name of who submits them, and the job goes on.
static void test_dtypes(void)
{
    static const kiln_dtype refused[] = {KILN_DTYPE_BOOL, KILN_DTYPE_I32, KILN_DTYPE_U8};
    const kiln_param_id id = 5;
    const int64_t count = 4;
    scene self;
    kiln_error err = KILN_ERROR_INIT;
    bool ok = scene_open(&self, gradsync_references, NULL);
    for (uint32_t m = 0; m < MEMBERS && ok; m++) {
        ok = KILN_CHECK_INT(kiln_gradsync_register(self.job, m, &id, 1, NULL), 0);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]) && ok; i++) {
        kiln_tensor *tensor = NULL;
        ok = KILN_CHECK_INT(
            kiln_tensor_create(self.set.devices[2], refused[i], 1, &count, NULL, &tensor, NULL), 0);
        kiln_tensor_set_param(tensor, id);
        KILN_CHECK_INT(kiln_gradsync_submit(self.job, 2, tensor, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "member 2");
        KILN_CHECK_CONTAINS(err.message, kiln_dtype_name(refused[i]));
        KILN_CHECK_INT(kiln_gradsync_accumulate(self.job, 2, tensor, NULL),
                       KILN_STATUS_INVALID_ARGUMENT);
        kiln_release(tensor);
    }
    for (uint32_t m = 0; m < MEMBERS && ok; m++) {
        ok = KILN_CHECK_INT(submit(&self, m, id, count, (float)m, NULL), 0);
    }
    for (uint32_t m = 0; m < MEMBERS && ok; m++) {
        ok = KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, &err), 0) &&
             check_gradient(&self, m, id, count, 1.5F, 1);
    }
    scene_close(&self);
}

/// Beside a test no library for MPI lies: start says so, and no job of that name stays.
static void test_without_mpi(void)
{
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    kiln_gradsync *job = NULL;
    kiln_error err = KILN_ERROR_INIT;
    device_set set;
    options.over_mpi = 1;
    if (device_set_open(&set, gradsync_references, MEMBERS)) {
        KILN_CHECK_INT(
            kiln_gradsync_start(set.context, "job", set.devices, MEMBERS, &options, &job, &err),
            KILN_STATUS_NOT_FOUND);
        KILN_CHECK_CONTAINS(err.message, "libkiln_mpi");
        KILN_CHECK(job == NULL);
        KILN_CHECK_INT(kiln_gradsync_find(set.context, "job", &job, NULL), KILN_STATUS_NOT_FOUND);
        options.over_mpi = 0;
        KILN_CHECK_INT(
            kiln_gradsync_start(set.context, "job", set.devices, MEMBERS, &options, &job, NULL),
            KILN_STATUS_OK);
    }
    kiln_gradsync_release(job);
    device_set_close(&set);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_failures),
        KILN_TEST(test_refusals),
        KILN_TEST(test_accumulated_shapes),
        KILN_TEST(test_other_context),
        KILN_TEST(test_long_select),
        KILN_TEST(test_failing_device),
#ifdef TEST_WITH_REMOTE
        KILN_TEST(test_server_that_hangs),
#endif
        KILN_TEST(test_names),
        KILN_TEST(test_start_and_close_race),
        KILN_TEST(test_threads),
        KILN_TEST(test_close_while_pending),
        KILN_TEST(test_param_ids),
        KILN_TEST(test_dtypes),
        KILN_TEST(test_without_mpi),
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/gradsync_jobs", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
