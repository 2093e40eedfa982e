// SPDX-License-Identifier: MIT OR Apache-2.0
// Several threads on one device: streams of their own, tensors that cross, releases from elsewhere.

#include "runtime_fixture.h"

#include <pthread.h>

enum { THREADS = 6, ROUNDS = 50, N = 64 };

typedef struct job {
    fixture *f;
    kiln_tensor *shared;
    int number;
    int wrong;
} job;

static void *work(void *pointer)
{
    job *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    for (int round = 0; round < ROUNDS; round++) {
        kiln_tensor *t = NULL;
        kiln_tensor *u = NULL;
        float back[N];
        double add = self->number * 1000 + round;
        bool good = kiln_add_scalar(self->shared, kiln_f64(add), &t, &err) == KILN_STATUS_OK &&
                    kiln_mul_scalar(t, kiln_f64(2), &u, &err) == KILN_STATUS_OK;
        kiln_release(t);
        good = good && kiln_read(u, back, sizeof(back), &err) == KILN_STATUS_OK;
        for (int i = 0; i < N && good; i++) {
            good = back[i] == (float)(2 * (i + add));
        }
        kiln_release(u);
        self->wrong += good ? 0 : 1;
    }
    return NULL;
}

static void run_threads(const char *address)
{
    fixture f;
    const int64_t dims[] = {N};
    float data[N];
    pthread_t threads[THREADS];
    job jobs[THREADS];
    if (!fixture_open(&f, address)) {
        return;
    }
    for (int i = 0; i < N; i++) {
        data[i] = (float)i;
    }
    kiln_tensor *shared = fixture_f32(&f, 1, dims, data);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.f = &f, .shared = shared, .number = i};
        pthread_create(&threads[i], NULL, work, &jobs[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK_INT(jobs[i].wrong, 0);
    }
    kiln_release(shared);
    fixture_close(&f);
}

static void test_reference(void)
{
    run_threads("reference");
}

static void test_opencl(void)
{
    run_threads("opencl:0");
}

static void *produce(void *pointer)
{
    job *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    kiln_tensor *t = NULL;
    if (kiln_exp(self->shared, &t, &err) != KILN_STATUS_OK ||
        kiln_neg(t, &self->shared, &err) != KILN_STATUS_OK) {
        self->wrong++;
    }
    kiln_release(t);
    return NULL;
}

/// A value that an ended thread recorded and nobody has run yet is used, read and released here.
static void test_crossing(void)
{
    fixture f;
    const float zero = 0;
    float back = 0;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    for (int round = 0; round < 40; round++) { // more threads than idle streams are kept
        pthread_t thread;
        kiln_tensor *x = fixture_f32(&f, 0, NULL, &zero);
        kiln_tensor *out = NULL;
        job made = {.f = &f, .shared = x};
        pthread_create(&thread, NULL, produce, &made);
        pthread_join(thread, NULL);
        KILN_CHECK_INT(made.wrong, 0);
        FIXTURE_OK(&f, kiln_add_scalar(made.shared, kiln_f64(5), &out, &f.err));
        kiln_release(x);
        kiln_release(made.shared);
        FIXTURE_OK(&f, kiln_read(out, &back, sizeof(back), &f.err));
        KILN_CHECK(back == 4.0f);
        kiln_release(out);
    }
    fixture_close(&f);
}

static void *record_and_release(void *pointer)
{
    job *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    for (int round = 0; round < 2000; round++) {
        kiln_tensor *t = NULL;
        self->wrong += kiln_exp(self->shared, &t, &err) != KILN_STATUS_OK;
        kiln_release(t);
    }
    return NULL;
}

static void *drain(void *pointer)
{
    job *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    for (int round = 0; round < 2000; round++) {
        self->wrong += kiln_sync(self->f->device, &err) != KILN_STATUS_OK;
    }
    return NULL;
}

/// The last release of a tensor meets the end of the segment that mentions it, on other threads.
static void test_release_while_draining(void)
{
    fixture f;
    pthread_t threads[3];
    job jobs[3];
    void *(*const work_of[3])(void *) = {record_and_release, drain, drain};
    if (!fixture_open(&f, "reference")) {
        return;
    }
    const float one = 1;
    kiln_tensor *shared = fixture_f32(&f, 0, NULL, &one);
    for (int i = 0; i < 3; i++) {
        jobs[i] = (job){.f = &f, .shared = shared};
        pthread_create(&threads[i], NULL, work_of[i], &jobs[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK_INT(jobs[i].wrong, 0);
    }
    kiln_release(shared);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/threads", KILN_TEST(test_reference), KILN_TEST(test_opencl),
               KILN_TEST(test_crossing), KILN_TEST(test_release_while_draining))
