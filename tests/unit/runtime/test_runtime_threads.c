// SPDX-License-Identifier: MIT OR Apache-2.0
// Several threads on one device: streams of their own, tensors that cross, releases from elsewhere.

#include "rt_device.h"
#include "rt_streams.h"
#include "rt_tensor.h"
#include "rt_threads.h"
#include "runtime_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

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

typedef struct setter {
    kiln_context *context;
    atomic_bool stop;
} setter;

static void *set_plugins(void *user)
{
    setter *self = user;
    kiln_error err = KILN_ERROR_INIT;
    for (int i = 0; !atomic_load(&self->stop) && i < 100000; i++) {
        char text[96];
        snprintf(text, sizeof(text), "-acme.none/fuser/%0*d", 10 + i % 60, i);
        KILN_CHECK_INT(kiln_context_set(self->context, "plugins", text, &err), KILN_STATUS_OK);
    }
    return NULL;
}

/// Nine operations, chosen by the bits of a number: each number is a plan that has to be searched.
static kiln_tensor *unseen(fixture *f, kiln_tensor *x, int number)
{
    kiln_tensor *a = kiln_retain(x);
    for (int bit = 0; bit < 9; bit++) {
        kiln_tensor *b = NULL;
        FIXTURE_OK(f,
                   (number >> bit & 1) != 0 ? kiln_neg(a, &b, &f->err) : kiln_abs(a, &b, &f->err));
        kiln_release(a);
        a = b;
    }
    return a;
}

/// A option is for what is opened afterwards; an open device searches meanwhile, with the list of
/// plugins that there was.
static void test_options_while_searching(void)
{
    fixture f;
    pthread_t thread;
    const int64_t dims[] = {100};
    float data[100] = {-1};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    setter self = {.context = f.context};
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    pthread_create(&thread, NULL, set_plugins, &self);
    for (int number = 0; number < 40; number++) {
        kiln_tensor *y = unseen(&f, x, number);
        FIXTURE_OK(&f, kiln_read(y, data, sizeof(data), &f.err));
        KILN_CHECK(data[0] == 1.0f); // the last of the nine is abs
        kiln_release(y);
    }
    atomic_store(&self.stop, true);
    pthread_join(thread, NULL);
    FIXTURE_OK(&f, kiln_context_set(f.context, "plugins", "off", &f.err));
    kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &before);
    kiln_tensor *y = unseen(&f, x, 511);
    FIXTURE_OK(&f, kiln_read(y, data, sizeof(data), &f.err));
    kiln_device_stats_get(f.device, &after);
    KILN_CHECK(after.blocks_fused > before.blocks_fused); // as it was opened
    kiln_release(y);
    kiln_release(x);
    fixture_close(&f);
}

static void *record_and_end(void *pointer)
{
    job *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    kiln_tensor *t = NULL;
    self->wrong += kiln_neg(self->shared, &t, &err) != KILN_STATUS_OK;
    kiln_release(t);
    return NULL;
}

/// Threads that end with something queued do not pile up.
static void test_streams_of_ended_threads(void)
{
    enum { ENDED = 700, MOST = 300 };
    fixture f;
    const float one = 1;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *shared = fixture_f32(&f, 0, NULL, &one);
    for (int i = 0; i < ENDED; i++) {
        pthread_t thread;
        job made = {.f = &f, .shared = shared};
        KILN_CHECK_INT(pthread_create(&thread, NULL, record_and_end, &made), 0);
        pthread_join(thread, NULL);
        KILN_CHECK_INT(made.wrong, 0);
    }
    KILN_CHECK(f.device->streams.count < MOST);
    kiln_release(shared);
    fixture_close(&f);
}

/// What a device knows of a thread is found at once among many, and the table does not keep what is
/// not worth it.
static void test_many_threads_are_known(void)
{
    enum { MANY = 200000 };
    fixture f;
    kilni_stream chosen;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    uint64_t begin = kiln_time_ns();
    for (uint32_t i = 0; i < MANY; i++) {
        kilni_thread *thread = kilni_thread_get(f.device, 1000 + 2 * (uint64_t)i);
        thread->has_rng_stream = true;
        thread->random_number = i;
    }
    bool sound = true;
    for (uint32_t i = 0; i < MANY; i++) {
        const kilni_thread *thread = kilni_thread_find(f.device, 1000 + 2 * (uint64_t)i);
        sound = sound && thread != NULL && thread->random_number == i &&
                kilni_thread_find(f.device, 1001 + 2 * (uint64_t)i) == NULL;
    }
    KILN_CHECK(sound);
    KILN_CHECK(kiln_time_ns() - begin < 10000000000u); // one by one it would be minutes
    FIXTURE_OK(&f, kiln_seed(f.device, 1, &f.err)); // nobody draws any more
    kilni_thread *kept = kilni_thread_get(f.device, 1);
    kept->chosen = &chosen;
    for (uint32_t i = 0; i < MANY; i++) {
        KILN_CHECK(kilni_thread_get(f.device, 1000000 + i) != NULL);
    }
    KILN_CHECK(f.device->threads.capacity <= 4 * MANY);
    kept = kilni_thread_find(f.device, 1);
    KILN_CHECK(kept != NULL && kept->chosen == &chosen);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/threads", KILN_TEST(test_reference), KILN_TEST(test_opencl),
               KILN_TEST(test_crossing), KILN_TEST(test_release_while_draining),
               KILN_TEST(test_options_while_searching), KILN_TEST(test_streams_of_ended_threads),
               KILN_TEST(test_many_threads_are_known))
