// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of a group recorded by several threads: one for each member, one that ends before its
// result is asked for, and one that uses a device whenever the device's lock is free.
#define _GNU_SOURCE // RTLD_NEXT
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "harness.h"
#include "recorded_scene.h"
#include "rt_tensor.h"

// ---- a thread for each member ----

typedef struct member {
    const scene *self;
    uint32_t rank;
} member;

/// Work before, the call, its wait, work after: all recorded, read once at the end.
static void *train(void *user)
{
    const member *own = user;
    kiln_tensor *x = kiln_retain(own->self->inputs[own->rank]);
    bool ok = true;
    for (int round = 0; round < ROUNDS && ok; round++) {
        kiln_tensor *doubled = NULL;
        kiln_tensor *sum = NULL;
        kiln_tensor *there = NULL;
        kiln_tensor *result = NULL;
        ok = KILN_CHECK_INT(kiln_mul_scalar(x, kiln_f64(2), &doubled, NULL), 0) &&
             KILN_CHECK_INT(kiln_all_reduce(doubled, "sum", kiln_collective_id(own->self->group),
                                            own->rank, &sum, NULL),
                            0) &&
             KILN_CHECK_INT(kiln_collective_sync(sum, &there, NULL), 0) &&
             KILN_CHECK_INT(kiln_add_scalar(there, kiln_f64(round), &result, NULL), 0);
        kiln_release(doubled);
        kiln_release(sum);
        kiln_release(there);
        ok = ok && holds(own->self, result, 2, (float)round);
        kiln_release(result);
    }
    kiln_release(x);
    return NULL;
}

static void test_threads(void)
{
    scene self;
    pthread_t threads[MOST];
    member members[MOST];
    if (scene_init(&self, kiln_test_param(), 30000)) {
        for (uint32_t i = 0; i < self.count; i++) {
            members[i] = (member){&self, i};
            KILN_CHECK_INT(pthread_create(&threads[i], NULL, train, &members[i]), 0);
        }
        for (uint32_t i = 0; i < self.count; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    scene_fini(&self);
}

// ---- a thread that ends ----

#ifdef TEST_WITH_OPENCL
/// A thread records its member's part and ends: the result is resolved and read by another, twice
/// at a time.
static void *begin_part(void *user)
{
    const scene *self = user;
    kiln_tensor *sum = NULL;
    KILN_CHECK_INT(
        kiln_all_reduce(self->inputs[0], "sum", kiln_collective_id(self->group), 0, &sum, NULL), 0);
    return sum;
}

typedef struct reader {
    const scene *self;
    kiln_tensor *sum;
} reader;

static void *resolve_and_read(void *user)
{
    const reader *own = user;
    KILN_CHECK_INT(kiln_collective_resolve(own->sum, NULL), 0);
    holds(own->self, own->sum, 1, 0);
    return NULL;
}

static void test_thread_ends(void)
{
    enum { READERS = 4 };
    scene self;
    pthread_t threads[READERS];
    void *sum = NULL;
    kiln_tensor *other = NULL;
    if (scene_init(&self, &opencl, 30000)) {
        KILN_CHECK_INT(pthread_create(&threads[0], NULL, begin_part, &self), 0);
        pthread_join(threads[0], &sum);
        reader own = {&self, sum};
        for (int i = 0; i < READERS; i++) {
            KILN_CHECK_INT(pthread_create(&threads[i], NULL, resolve_and_read, &own), 0);
        }
        KILN_CHECK_INT(
            kiln_all_reduce(self.inputs[1], "sum", kiln_collective_id(self.group), 1, &other, NULL),
            0);
        KILN_CHECK_INT(kiln_collective_resolve(other, NULL), 0);
        for (int i = 0; i < READERS; i++) {
            pthread_join(threads[i], NULL);
        }
        holds(&self, other, 1, 0);
    }
    kiln_release(sum);
    kiln_release(other);
    scene_fini(&self);
}
#endif

// ---- the device's lock in a run ----

/// While `watched` is set, whenever its owner gives a device's lock up another thread runs a
/// segment on that device before the owner goes on.
static struct {
    pthread_mutex_t *_Atomic watched;
    pthread_t owner;
    sem_t given_up;
    sem_t taken;
    atomic_bool over;
} turns;

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*_Atomic real)(pthread_mutex_t *);
    int (*unlock)(pthread_mutex_t *) = real;
    if (unlock == NULL) {
        union {
            void *address;
            int (*function)(pthread_mutex_t *);
        } found = {.address = dlsym(RTLD_NEXT, "pthread_mutex_unlock")};
        real = unlock = found.function;
    }
    int result = unlock(mutex);
    if (mutex == turns.watched && pthread_equal(turns.owner, pthread_self())) {
        sem_post(&turns.given_up);
        sem_wait(&turns.taken);
    }
    return result;
}

static void *run_in_between(void *user)
{
    kiln_tensor *x = user;
    float data[COUNT];
    bool ok = true;
    for (;;) {
        sem_wait(&turns.given_up);
        if (atomic_load(&turns.over)) {
            return NULL;
        }
        kiln_tensor *y[4] = {NULL};
        for (int i = 0; i < 4 && ok; i++) {
            ok = KILN_CHECK_INT(kiln_mul_scalar(x, kiln_f64(i), &y[i], NULL), 0);
        }
        ok = ok && KILN_CHECK_INT(kiln_read(y[3], data, sizeof(data), NULL), 0) &&
             KILN_CHECK(data[0] == 3 * value_at(0, 0));
        release_all(y);
        kiln_release(y[3]);
        sem_post(&turns.taken);
    }
}

/// The wait is the last that mentions the sum: its memory is given back in the run of the wait.
static void reduce_and_drop(const scene *self)
{
    kiln_tensor *sum = NULL;
    kiln_tensor *there = NULL;
    kiln_tensor *result = NULL;
    int64_t id = kiln_collective_id(self->group);
    KILN_CHECK_INT(kiln_all_reduce(self->inputs[0], "sum", id, 0, &sum, NULL), 0);
    KILN_CHECK_INT(kiln_collective_sync(sum, &there, NULL), 0);
    kiln_release(sum);
    KILN_CHECK_INT(kiln_add_scalar(there, kiln_f64(1), &result, NULL), 0);
    kiln_release(there);
    holds(self, result, 1, 1);
    kiln_release(result);
}

/// A device without gates has waited before a run begins: nothing that comes from others in between
/// meets a run that is not over.
static void test_runs_are_whole(void)
{
    static const setting one = {1, {"reference:0"}, NULL, false, false};
    scene self;
    pthread_t other;
    if (scene_init(&self, &one, 30000)) {
        sem_init(&turns.given_up, 0, 0);
        sem_init(&turns.taken, 0, 0);
        turns.owner = pthread_self();
        pthread_create(&other, NULL, run_in_between, self.inputs[0]);
        turns.watched = &self.set.devices[0]->lock;
        for (int round = 0; round < 5; round++) {
            reduce_and_drop(&self);
        }
        turns.watched = NULL;
        atomic_store(&turns.over, true);
        sem_post(&turns.given_up);
        pthread_join(other, NULL);
    }
    scene_fini(&self);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_threads, "threads, reference", &references),
        KILN_TEST(test_runs_are_whole),
#ifdef TEST_WITH_OPENCL
        KILN_TEST_PARAM(test_threads, "threads, opencl", &opencl),
        KILN_TEST_PARAM(test_threads, "threads, mixed", &mixed),
        KILN_TEST(test_thread_ends),
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/recorded_threads", cases, sizeof(cases) / sizeof(cases[0]),
                         argc, argv);
}
