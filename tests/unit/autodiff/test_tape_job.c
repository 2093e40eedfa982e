// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients that members of a job average: what they are, when each is handed over, threads, what
// was accumulated before, and failures.
#include <pthread.h>
#include <string.h>

#include "device_set.h"
#include "gradsync_internal.h"
#include "harness.h"
#include "kiln_grad.h"

enum { MEMBERS = 2, LENGTH = 2, FIRST = 11, LAST = 12, UNUSED = 13 };

static const char *const addresses[MEMBERS] = {"reference:0", "reference:1"};

typedef struct member {
    kiln_tape *tape;
    kiln_tensor *x; ///< number + 1, number + 2
    kiln_tensor *params[3]; ///< FIRST 2, 3; LAST 5, 7; UNUSED
    kiln_tensor *loss;
} member;

typedef struct scene {
    device_set set;
    kiln_gradsync *job;
    member members[MEMBERS];
} scene;

static kiln_error err = KILN_ERROR_INIT;

#define OK(call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, err.message)

static kiln_tensor *make(kiln_device *device, float a, float b, kiln_param_id id)
{
    const int64_t length = LENGTH;
    const float data[LENGTH] = {a, b};
    kiln_tensor *tensor = NULL;
    OK(kiln_tensor_create(device, KILN_DTYPE_F32, 1, &length, data, &tensor, &err));
    kiln_tensor_set_param(tensor, id);
    return tensor;
}

static bool scene_open(scene *self, uint32_t count)
{
    *self = (scene){.job = NULL};
    if (!device_set_open(&self->set, addresses, count) ||
        !OK(kiln_gradsync_start(self->set.context, "job", self->set.devices, count, NULL,
                                &self->job, &err))) {
        return false;
    }
    for (uint32_t m = 0; m < count; m++) {
        member *at = &self->members[m];
        kiln_device *device = self->set.devices[m];
        at->x = make(device, (float)m + 1, (float)m + 2, 0);
        at->params[0] = make(device, 2, 3, FIRST);
        at->params[1] = make(device, 5, 7, LAST);
        at->params[2] = make(device, 1, 1, UNUSED);
        OK(kiln_tape_create(device, &at->tape, &err));
        OK(kiln_tape_join(at->tape, self->job, m, &err));
        for (int p = 0; p < 3; p++) {
            OK(kiln_tape_track(at->tape, at->params[p], &err));
        }
    }
    return true;
}

static void scene_close(scene *self)
{
    for (uint32_t m = 0; m < MEMBERS; m++) {
        member *at = &self->members[m];
        kiln_tape_destroy(at->tape);
        kiln_release(at->x);
        kiln_release(at->loss);
        for (int p = 0; p < 3; p++) {
            kiln_release(at->params[p]);
        }
    }
    KILN_CHECK_INT(kiln_gradsync_remove(self->set.context, "job", NULL), 0); // with what it holds
    kiln_gradsync_release(self->job);
    device_set_close(&self->set);
}

/// The sum of x FIRST LAST.
static void forward(member *at)
{
    kiln_tensor *t[2] = {NULL};
    kiln_release(at->loss);
    OK(kiln_mul(at->x, at->params[0], &t[0], &err));
    OK(kiln_mul(t[0], at->params[1], &t[1], &err));
    OK(kiln_sum(t[1], NULL, 0, false, &at->loss, &err));
    kiln_release(t[0]);
    kiln_release(t[1]);
}

static void check(const member *at, int p, float a, float b)
{
    kiln_tensor *gradient = NULL;
    float found[LENGTH] = {0};
    if (OK(kiln_gradient(at->tape, at->params[p], &gradient, &err)) &&
        OK(kiln_read(gradient, found, sizeof(found), &err))) {
        KILN_CHECK_NEAR((double)found[0], (double)a, 1e-6);
        KILN_CHECK_NEAR((double)found[1], (double)b, 1e-6);
    }
    kiln_release(gradient);
}

/// The mean of x over the members is 1.5, 2.5.
static void check_all(const scene *self, float times)
{
    for (uint32_t m = 0; m < MEMBERS; m++) {
        check(&self->members[m], 0, times * 7.5F, times * 17.5F);
        check(&self->members[m], 1, times * 3, times * 7.5F);
        check(&self->members[m], 2, 0, 0);
    }
}

static void backward_all(scene *self)
{
    kiln_tape *const tapes[] = {self->members[0].tape, self->members[1].tape};
    kiln_tensor *const losses[] = {self->members[0].loss, self->members[1].loss};
    OK(kiln_backward_all(tapes, losses, MEMBERS, &err));
}

/// From one thread, twice: the second time is added.
static void test_one_thread(void)
{
    scene self;
    if (scene_open(&self, MEMBERS)) {
        for (int round = 1; round <= 2; round++) {
            forward(&self.members[0]);
            forward(&self.members[1]);
            backward_all(&self);
            check_all(&self, (float)round);
        }
        KILN_CHECK_INT(kiln_tensor_param(self.members[0].x), 0);
    }
    scene_close(&self);
}

static void *run_member(void *user)
{
    scene *self = user;
    kiln_error own = KILN_ERROR_INIT;
    member *at = &self->members[1];
    kiln_tape_destroy(at->tape); // a tape watches the thread that made it
    bool ok = kiln_tape_create(self->set.devices[1], &at->tape, &own) == KILN_STATUS_OK &&
              kiln_tape_join(at->tape, self->job, 1, &own) == KILN_STATUS_OK;
    for (int p = 0; p < 3 && ok; p++) {
        ok = kiln_tape_track(at->tape, at->params[p], &own) == KILN_STATUS_OK;
    }
    forward(at);
    KILN_CHECK(ok && kiln_backward(at->tape, at->loss, NULL, &own) == KILN_STATUS_OK);
    check(at, 0, 7.5F, 17.5F);
    kiln_tape_destroy(at->tape);
    at->tape = NULL;
    return NULL;
}

/// Each member by a thread: backward itself waits for the other.
static void test_two_threads(void)
{
    scene self;
    pthread_t thread;
    if (scene_open(&self, MEMBERS)) {
        KILN_CHECK_INT(pthread_create(&thread, NULL, run_member, &self), 0);
        forward(&self.members[0]);
        OK(kiln_backward(self.members[0].tape, self.members[0].loss, NULL, &err));
        check(&self.members[0], 0, 7.5F, 17.5F);
        check(&self.members[0], 1, 3, 7.5F);
        pthread_join(thread, NULL);
    }
    scene_close(&self);
}

/// What was found without a job goes along with the first that it gets, and only once.
static void test_accumulated(void)
{
    scene self;
    if (scene_open(&self, MEMBERS)) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            member *at = &self.members[m];
            OK(kiln_tape_join(at->tape, NULL, 0, &err));
            forward(at);
            OK(kiln_backward(at->tape, at->loss, NULL, &err));
            check(at, 1, 2 * (float)(m + 1), 3 * (float)(m + 2)); // its own
            OK(kiln_tape_join(at->tape, self.job, m, &err));
        }
        for (int round = 2; round <= 3; round++) {
            forward(&self.members[0]);
            forward(&self.members[1]);
            backward_all(&self);
            check_all(&self, (float)round);
        }
    }
    scene_close(&self);
}

// ---- when ----

typedef struct witness {
    scene *self;
    int calls;
    bool has_last; ///< the job had the gradient of LAST while that of FIRST was not whole
    bool has_first;
} witness;

static bool job_has(kiln_gradsync *job, kiln_param_id id)
{
    pthread_mutex_lock(&job->lock);
    const kilni_param *param = kilni_param_find(kilni_epoch_find(job, job->members[0].epoch), id);
    bool has = param != NULL && param->launch != NULL;
    pthread_mutex_unlock(&job->lock);
    return has;
}

static kiln_status look(void *user, kiln_tensor *const *gradients, kiln_tensor **out_gradients,
                        kiln_error *error)
{
    witness *self = user;
    (void)error;
    self->calls++;
    self->has_last = job_has(self->self->job, LAST);
    self->has_first = job_has(self->self->job, FIRST);
    out_gradients[0] = kiln_retain(gradients[0]);
    return KILN_STATUS_OK;
}

/// y = x, whose gradient says what the job has by then.
static kiln_tensor *watch(member *at, kiln_tensor *x, witness *watcher)
{
    const int64_t length = LENGTH;
    kiln_tensor *y = NULL;
    kiln_tape_pause(at->tape);
    OK(kiln_reshape(x, &length, 1, &y, &err));
    kiln_tape_resume(at->tape);
    OK(kiln_tape_custom(at->tape, &x, 1, &y, 1, look, NULL, watcher, &err));
    return y;
}

/// x FIRST is looked at when LAST is whole: its reduction goes on beside the rest of backward.
static void test_handed_early(void)
{
    scene self;
    witness w = {.self = &self};
    if (scene_open(&self, 1)) {
        member *at = &self.members[0];
        kiln_tensor *t[2] = {NULL};
        kiln_tensor *y = watch(at, at->params[0], &w);
        OK(kiln_mul(at->x, y, &t[0], &err));
        OK(kiln_mul(t[0], at->params[1], &t[1], &err));
        OK(kiln_sum(t[1], NULL, 0, false, &at->loss, &err));
        OK(kiln_backward(at->tape, at->loss, NULL, &err));
        KILN_CHECK(w.calls == 1 && w.has_last && !w.has_first);
        check(at, 0, 5, 14);
        check(at, 1, 2, 6);
        kiln_release(y);
        kiln_release(t[0]);
        kiln_release(t[1]);
    }
    scene_close(&self);
}

static kiln_status part(void *user, kiln_tensor *const *inputs, kiln_tensor **out_outputs,
                        kiln_error *error)
{
    const member *at = user;
    return kiln_mul(inputs[0], at->params[1], out_outputs, error);
}

/// A parameter that a checkpointed part reads, and an operation behind it: whole only behind both.
/// The tape sees the part's own use of it when the part is computed again, which is later.
static void test_read_in_a_part(void)
{
    scene self;
    witness w = {.self = &self};
    if (scene_open(&self, 1)) {
        member *at = &self.members[0];
        kiln_tensor *t[3] = {NULL};
        OK(kiln_mul(at->x, at->params[0], &t[0], &err));
        OK(kiln_tape_checkpoint(at->tape, part, NULL, at, &t[0], 1, &t[1], 1, &err));
        kiln_tensor *y = watch(at, t[1], &w);
        OK(kiln_mul(y, at->params[1], &t[2], &err));
        OK(kiln_sum(t[2], NULL, 0, false, &at->loss, &err));
        OK(kiln_backward(at->tape, at->loss, NULL, &err));
        KILN_CHECK(w.calls == 1 && !w.has_last);
        check(at, 0, 25, 98); // x LAST^2
        check(at, 1, 20, 84); // 2 x FIRST LAST
        kiln_release(y);
        for (int i = 0; i < 3; i++) {
            kiln_release(t[i]);
        }
    }
    scene_close(&self);
}

/// A parameter that is computed from another one passes its gradient on; two parameters have one
/// gradient tensor.
static void test_computed_parameter(void)
{
    scene self;
    if (scene_open(&self, 1)) {
        member *at = &self.members[0];
        kiln_tensor *t[2] = {NULL};
        kiln_release(at->params[2]);
        OK(kiln_mul(at->params[0], at->params[0], &at->params[2], &err));
        kiln_tensor_set_param(at->params[2], UNUSED + 1);
        OK(kiln_tape_track(at->tape, at->params[2], &err));
        OK(kiln_add(at->params[2], at->params[1], &t[0], &err));
        OK(kiln_mul(t[0], at->x, &t[1], &err));
        OK(kiln_sum(t[1], NULL, 0, false, &at->loss, &err));
        OK(kiln_backward(at->tape, at->loss, NULL, &err));
        check(at, 0, 4, 12); // 2 FIRST x
        check(at, 1, 1, 2);
        check(at, 2, 1, 2);
        kiln_release(t[0]);
        kiln_release(t[1]);
    }
    scene_close(&self);
}

// ---- an all-reduce on the way ----

typedef struct partner {
    scene *self;
    int64_t group;
    const char *op;
    uint32_t number;
} partner;

/// The loss of each member is the sum of (all-reduce of x FIRST)^2.
static void *reduce_on_the_way(void *user)
{
    const partner *p = user;
    member *at = &p->self->members[p->number];
    kiln_error own = KILN_ERROR_INIT;
    kiln_tensor *t[3] = {NULL};
    kiln_tape_destroy(at->tape); // one of this thread
    at->tape = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tape_create(p->self->set.devices[p->number], &at->tape, &own));
    KILN_TRY(out, status, kiln_tape_track(at->tape, at->params[0], &own));
    KILN_TRY(out, status, kiln_mul(at->x, at->params[0], &t[0], &own));
    KILN_TRY(out, status, kiln_all_reduce(t[0], p->op, p->group, p->number, &t[1], &own));
    KILN_TRY(out, status, kiln_collective_resolve(t[1], &own));
    KILN_TRY(out, status, kiln_mul(t[1], t[1], &t[2], &own));
    KILN_TRY(out, status, kiln_sum(t[2], NULL, 0, false, &at->loss, &own));
    KILN_TRY(out, status, kiln_backward(at->tape, at->loss, NULL, &own));
    // y = all-reduce: 2 + 4 and 6 + 9, or half of it; of both losses 2 y 2 x, or 2 y x.
    float y = strcmp(p->op, "sum") == 0 ? 6 : 3;
    float z = strcmp(p->op, "sum") == 0 ? 15 : 7.5F;
    float each = strcmp(p->op, "sum") == 0 ? 4 : 2;
    check(at, 0, each * y * ((float)p->number + 1), each * z * ((float)p->number + 2));
out:
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", own.message);
    }
    for (int i = 0; i < 3; i++) {
        kiln_release(t[i]);
    }
    kiln_tape_destroy(at->tape);
    at->tape = NULL;
    return NULL;
}

static void run_all_reduce(const char *op)
{
    scene self;
    pthread_t thread;
    kiln_collective *group = NULL;
    if (scene_open(&self, MEMBERS) &&
        OK(kiln_collective_create(self.set.devices, MEMBERS, NULL, &group, &err))) {
        partner partners[MEMBERS];
        for (uint32_t m = 0; m < MEMBERS; m++) {
            partners[m] = (partner){&self, kiln_collective_id(group), op, m};
        }
        KILN_CHECK_INT(pthread_create(&thread, NULL, reduce_on_the_way, &partners[1]), 0);
        (void)reduce_on_the_way(&partners[0]);
        pthread_join(thread, NULL);
    }
    kiln_collective_destroy(group);
    scene_close(&self);
}

static void test_through_an_all_reduce(void)
{
    run_all_reduce("sum");
    run_all_reduce("mean");
}

// ---- failures ----

/// What the job refuses is backward's error; a loss that is refused is not told to the job.
static void test_failures(void)
{
    scene self;
    if (scene_open(&self, 1)) {
        member *at = &self.members[0];
        KILN_CHECK_INT(kiln_backward(at->tape, at->x, NULL, &err), KILN_STATUS_INVALID_ARGUMENT);
        forward(at);
        kiln_tape *const twice[] = {at->tape, at->tape};
        kiln_tensor *const losses[] = {at->loss, at->loss};
        KILN_CHECK_INT(kiln_backward_all(twice, losses, 2, &err), KILN_STATUS_INVALID_ARGUMENT);
        forward(at);
        OK(kiln_backward(at->tape, at->loss, NULL, &err));
        OK(kiln_tape_join(at->tape, self.job, 1, &err));
        forward(at);
        KILN_CHECK_INT(kiln_backward(at->tape, at->loss, NULL, &err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "member 1");
        OK(kiln_tape_join(at->tape, self.job, 0, &err));
        OK(kiln_gradsync_close(self.set.context, "job", &err));
        forward(at);
        KILN_CHECK_INT(kiln_backward(at->tape, at->loss, NULL, &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(err.message, "closed");
        OK(kiln_tape_join(at->tape, NULL, 0, &err)); // the tape goes on alone
        forward(at);
        OK(kiln_backward(at->tape, at->loss, NULL, &err));
        check(at, 0, 10, 28); // twice
    }
    scene_close(&self);
}

KILN_TEST_MAIN("unit/autodiff/tape_job", KILN_TEST(test_one_thread), KILN_TEST(test_two_threads),
               KILN_TEST(test_accumulated), KILN_TEST(test_handed_early),
               KILN_TEST(test_read_in_a_part), KILN_TEST(test_computed_parameter),
               KILN_TEST(test_through_an_all_reduce), KILN_TEST(test_failures))
