// SPDX-License-Identifier: MIT OR Apache-2.0
// The queue of a model without a model: which requests become one batch, in which order, and what
// becomes of those that wait too long.

#include "harness.h"
#include "serving_queue.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8, ROW_NS = 1000000 };

/// A client that waits on a thread of its own.
typedef struct client {
    kilni_serving_queue *queue;
    kiln_model_request request;
    kiln_model_answer answer;
    kilni_serving_job job;
    kiln_status status;
    kiln_error err;
    pthread_t thread;
} client;

static client clients[MOST]; // each is large
static const char *caller; // of whom the next one is
static kilni_serving_sequence *sequence; // of which the next one is

static void *ask(void *pointer)
{
    client *self = pointer;
    self->status = kilni_serving_queue_run(self->queue, &self->job, &self->err);
    return NULL;
}

/// An instance that runs a batch until the test says that it is done.
typedef struct bench {
    kilni_serving_runner runner; ///< first: what the queue knows
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kilni_serving_job *jobs; ///< NULL: none
    uint32_t count;
    uint64_t rows;
    pthread_t thread; ///< that runs them
} bench;

static bench desk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint64_t run(kilni_serving_runner *runner, kilni_serving_job *jobs, uint32_t count,
                    uint64_t rows)
{
    bench *self = (bench *)runner;
    pthread_mutex_lock(&self->lock);
    self->jobs = jobs;
    self->count = count;
    self->rows = rows;
    self->thread = pthread_self();
    pthread_cond_broadcast(&self->changed);
    while (self->jobs != NULL) {
        pthread_cond_wait(&self->changed, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return rows * ROW_NS;
}

/// Lets the next batch begin and waits for it. It runs until `done`.
static void take(kilni_serving_queue *queue, kilni_serving_job **out_jobs, uint32_t *out_count,
                 uint64_t *out_rows)
{
    desk.runner.run = run;
    kilni_serving_queue_ready(queue, &desk.runner);
    pthread_mutex_lock(&desk.lock);
    while (desk.jobs == NULL) {
        pthread_cond_wait(&desk.changed, &desk.lock);
    }
    *out_jobs = desk.jobs;
    *out_count = desk.count;
    *out_rows = desk.rows;
    pthread_mutex_unlock(&desk.lock);
}

static void done(void)
{
    pthread_mutex_lock(&desk.lock);
    desk.jobs = NULL;
    pthread_cond_broadcast(&desk.changed);
    pthread_mutex_unlock(&desk.lock);
}

/// Asks for `rows` rows of `width` elements, and returns when the queue has it.
static client *begin(kilni_serving_queue *queue, size_t index, int64_t rows, int64_t width,
                     uint64_t priority)
{
    client *self = &clients[index];
    uint32_t before = kilni_serving_queue_length(queue);
    memset(self, 0, sizeof(*self));
    self->queue = queue;
    self->err = (kiln_error)KILN_ERROR_INIT;
    self->request.caller = caller;
    self->request.inputs[0].rank = 2;
    self->request.inputs[0].dims[0] = rows;
    self->request.inputs[0].dims[1] = width;
    self->job.request = &self->request;
    self->job.answer = &self->answer;
    self->job.inputs[0] = &self->request.inputs[0];
    self->job.rows = (uint64_t)rows;
    self->job.priority = priority;
    self->job.sequence = sequence;
    KILN_CHECK_INT(pthread_create(&self->thread, NULL, ask, self), 0);
    for (int i = 0; i < 100000 && kilni_serving_queue_length(queue) == before; i++) {
        (void)sched_yield();
    }
    return self;
}

static kiln_model_info policy(void)
{
    return (kiln_model_info){.name = "m", .n_inputs = 1, .max_batch = 8, .batching = true};
}

static void join_all(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pthread_join(clients[i].thread, NULL);
    }
}

static void test_rows_are_joined(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    kilni_serving_queue_init(&queue, &info);
    for (size_t i = 0; i < 4; i++) {
        (void)begin(&queue, i, 3, i == 2 ? 5 : 4, 0); // the third has another shape
    }
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(count == 2 && rows == 6); // a third would be nine
    KILN_CHECK(jobs == &clients[0].job && jobs->next == &clients[1].job);
    done();
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(count == 1 && jobs == &clients[2].job);
    done();
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(count == 1 && jobs == &clients[3].job);
    done();
    join_all(4);
    kilni_serving_queue_close(&queue);
    kilni_serving_queue_fini(&queue);
}

static void test_preferred_sizes_and_priority(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    info.n_preferred = 1;
    info.preferred[0] = 2;
    info.priority_levels = 3;
    kilni_serving_queue_init(&queue, &info);
    (void)begin(&queue, 0, 1, 4, 3);
    (void)begin(&queue, 1, 1, 4, 2);
    (void)begin(&queue, 2, 1, 4, 1);
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(count == 2 && jobs == &clients[2].job && jobs->next == &clients[1].job);
    done();
    take(&queue, &jobs, &count, &rows);
    done();
    join_all(3);
    kilni_serving_queue_fini(&queue);
}

/// A batch has one request of a sequence at most, and a sequence keeps its order.
static void test_sequences_are_joined(void)
{
    static kilni_serving_sequence sequences[2];
    static const size_t pairs[][2] = {{0, 2}, {1, 4}, {3, 5}};
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    kilni_serving_queue_init(&queue, &info);
    for (size_t i = 0; i < 6; i++) { // a a b a b b
        sequence = &sequences[i == 2 || i > 3];
        (void)begin(&queue, i, 1, 4, 0);
    }
    sequence = NULL;
    for (size_t i = 0; i < 3; i++) {
        take(&queue, &jobs, &count, &rows);
        KILN_CHECK(count == 2 && rows == 2 && jobs == &clients[pairs[i][0]].job &&
                   jobs->next == &clients[pairs[i][1]].job);
        done();
    }
    join_all(6);
    kilni_serving_queue_fini(&queue);
}

static void test_delay_waits_for_others(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    info.queue_delay_us = 50000;
    kilni_serving_queue_init(&queue, &info);
    client *first = begin(&queue, 0, 1, 4, 0);
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(kiln_time_ns() - first->job.queued_ns >= 50000000);
    done();
    join_all(1);
    kilni_serving_queue_fini(&queue);
    info.queue_delay_us = 20000000;
    kilni_serving_queue_init(&queue, &info);
    (void)begin(&queue, 0, 8, 4, 0); // full: nothing is waited for
    uint64_t start = kiln_time_ns();
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(kiln_time_ns() - start < 15000000000u);
    done();
    join_all(1);
    kilni_serving_queue_fini(&queue);
}

/// A batch that may not take the next of those who wait waits for no others, though a size that
/// nobody has tried lies between: they would come behind.
static void test_delay_is_not_for_those_behind(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    info.queue_delay_us = 20000000;
    kilni_serving_queue_init(&queue, &info);
    (void)kilni_serving_shares_enter(&queue.shares, "bob", 1);
    kilni_serving_shares_leave(&queue.shares, "bob", 2);
    kilni_serving_shares_ran(&queue.shares, 2, 2 * ROW_NS);
    kilni_serving_shares_ran(&queue.shares, 4, 4 * ROW_NS);
    queue.shares.call_ns = 0;
    caller = "alice";
    client *first = begin(&queue, 0, 2, 4, 0);
    (void)begin(&queue, 1, 2, 4, 0);
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(kiln_time_ns() - first->job.queued_ns < 15000000000u);
    KILN_CHECK(jobs == &first->job && rows == 2);
    kilni_serving_queue_close(&queue); // the second has nobody behind it
    done();
    take(&queue, &jobs, &count, &rows);
    done();
    caller = NULL;
    join_all(2);
    kilni_serving_queue_fini(&queue);
}

static void test_bounds(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kiln_error err = KILN_ERROR_INIT;
    info.max_queue = 1;
    info.queue_timeout_us = 100000;
    kilni_serving_queue_init(&queue, &info);
    client *waiting = begin(&queue, 0, 1, 4, 0);
    client other = *waiting;
    KILN_CHECK_INT(kilni_serving_queue_run(&queue, &other.job, &err), KILN_STATUS_UNAVAILABLE);
    join_all(1);
    KILN_CHECK_INT(waiting->status, KILN_STATUS_DEADLINE_EXCEEDED);
    KILN_CHECK_INT(kilni_serving_queue_length(&queue), 0);
    kilni_serving_queue_close(&queue);
    KILN_CHECK_INT(kilni_serving_queue_run(&queue, &other.job, &err), KILN_STATUS_UNAVAILABLE);
    kilni_serving_queue_fini(&queue);
}

/// One who asks a lot does not stand in the way of one who asks a little.
static void test_callers_take_turns(void)
{
    static const size_t order[] = {0, 4, 1, 5, 2, 3};
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    info.batching = false;
    kilni_serving_queue_init(&queue, &info);
    for (size_t i = 0; i < 6; i++) {
        caller = i < 4 ? "alice" : "bob";
        (void)begin(&queue, i, i < 4 ? 2 : 3, 4, 0); // turns from 0, 2, 4, 6 and 0, 3
        if (i == 3) { // bob comes when alice is served already
            take(&queue, &jobs, &count, &rows);
            KILN_CHECK(jobs == &clients[order[0]].job);
            done();
        }
    }
    for (size_t i = 1; i < 6; i++) {
        take(&queue, &jobs, &count, &rows);
        KILN_CHECK_INT((client *)(void *)((char *)jobs - offsetof(client, job)) - clients,
                       order[i]);
        done();
    }
    caller = NULL;
    join_all(6);
    kilni_serving_queue_fini(&queue);
}

/// Takes the next batch: its rows are `rows`, and `who` asked for the first.
static void expect_batch(kilni_serving_queue *queue, size_t rows, const char *who)
{
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t taken = 0;
    take(queue, &jobs, &count, &taken);
    KILN_CHECK_INT(taken, rows);
    KILN_CHECK_STR(jobs->request->caller, who);
}

/// Beside one that asks once at a time, one that floods has as many rows as he, where rows cost
/// time; alone, and where they cost nothing, its requests are joined.
static void test_flood_has_half(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_queue_init(&queue, &info);
    kilni_serving_shares_ran(&queue.shares, 1, ROW_NS);
    kilni_serving_shares_ran(&queue.shares, 2, 2 * ROW_NS);
    caller = "bob";
    (void)begin(&queue, 0, 1, 4, 0);
    expect_batch(&queue, 1, "bob");
    caller = "alice";
    for (size_t i = 1; i < 7; i++) {
        (void)begin(&queue, i, 1, 4, 0);
    }
    for (int i = 0; i < 3; i++) {
        done();
        pthread_join(clients[0].thread, NULL);
        expect_batch(&queue, 1, "alice");
        caller = "bob";
        (void)begin(&queue, 0, 1, 4, 0);
        done();
        expect_batch(&queue, 1, "bob");
    }
    pthread_mutex_lock(&queue.lock); // a thread that was answered may still count its time
    queue.shares.run_ns[2] = queue.shares.run_ns[1]; // as on a device with room for more
    queue.shares.call_ns = 0;
    pthread_mutex_unlock(&queue.lock);
    done();
    expect_batch(&queue, 3, "alice");
    done();
    caller = NULL;
    join_all(7);
    kilni_serving_queue_fini(&queue);
}

static kilni_serving_shares shares;

/// Asks, has a turn and is answered at once.
static void visit(const char *who, uint64_t now)
{
    uint64_t turn = kilni_serving_shares_enter(&shares, who, now);
    kilni_serving_shares_batch(&shares);
    kilni_serving_shares_begin(&shares, who, turn, 1);
    kilni_serving_shares_leave(&shares, who, now);
}

/// Who asks again soon is waited for, a little, by who has just had a turn.
static void test_soon_is_waited_for(void)
{
    enum { MS = 1000000 };
    uint64_t now = MS;
    kilni_serving_shares_init(&shares);
    visit("bob", now);
    visit("alice", now);
    KILN_CHECK_INT(kilni_serving_shares_wait_ns(&shares, "alice", now), 0); // nobody knows bob yet
    for (int i = 0; i < 50; i++) {
        now += MS / 10;
        visit("bob", now);
        KILN_CHECK_INT(kilni_serving_shares_wait_ns(&shares, "alice", now), 0); // her turn
        visit("alice", now);
        KILN_CHECK(i < 20 || kilni_serving_shares_wait_ns(&shares, "alice", now) > now + MS / 10);
    }
    KILN_CHECK_INT(kilni_serving_shares_wait_ns(&shares, "alice", now + MS), 0); // he is gone
    for (int i = 0; i < 3; i++) { // who comes seldom is not waited for
        now += 100 * MS;
        visit("bob", now);
        visit("alice", now);
        KILN_CHECK_INT(kilni_serving_shares_wait_ns(&shares, "alice", now), 0);
    }
}

/// Turns are by rows, of those who have gone, too; and places are enough for many callers.
static void test_turns_are_remembered(void)
{
    kilni_serving_shares_init(&shares);
    visit("bob", 1);
    visit("bob", 2);
    KILN_CHECK_INT(kilni_serving_shares_enter(&shares, "bob", 3), 2);
    KILN_CHECK_INT(kilni_serving_shares_enter(&shares, "alice", 3), 1);
    for (int i = 0; i < 3 * KILNI_SERVING_CALLERS; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%d", i);
        visit(name, 4);
    }
    shares.call_ns = 0;
    KILN_CHECK(kilni_serving_shares_may_join(&shares, "95", 1, 8)); // nothing is known of times
    kilni_serving_shares_leave(&shares, "bob", 5); // his place is another's
    KILN_CHECK(!kilni_serving_shares_may_join(&shares, "95", 1, KILNI_SERVING_COSTED + 1));
}

/// Nobody is woken for a request that stands alone: its own thread runs it. One that came first
/// runs the batch of all.
static void test_first_runs_the_batch(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    kilni_serving_queue_init(&queue, &info);
    for (size_t i = 0; i < 3; i++) {
        (void)begin(&queue, i, 1, 4, 0);
    }
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(count == 3 && pthread_equal(desk.thread, clients[0].thread));
    client *late = begin(&queue, 3, 1, 4, 0); // while they run
    KILN_CHECK_INT(kilni_serving_queue_length(&queue), 1);
    kilni_serving_queue_close(&queue);
    done();
    take(&queue, &jobs, &count, &rows);
    KILN_CHECK(jobs == &late->job && pthread_equal(desk.thread, late->thread));
    done();
    join_all(4);
    kilni_serving_queue_fini(&queue);
}

/// A higher priority that comes during the delay stands first, and both run when the older is due.
static void test_delay_and_priority(void)
{
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    info.priority_levels = 2;
    info.queue_delay_us = 200000;
    desk.runner.run = run;
    kilni_serving_queue_init(&queue, &info);
    kilni_serving_queue_ready(&queue, &desk.runner); // before anybody asks
    client *older = begin(&queue, 0, 1, 4, 2);
    (void)begin(&queue, 1, 1, 4, 1);
    pthread_mutex_lock(&desk.lock);
    while (desk.jobs == NULL) {
        pthread_cond_wait(&desk.changed, &desk.lock);
    }
    jobs = desk.jobs;
    count = desk.count;
    pthread_mutex_unlock(&desk.lock);
    KILN_CHECK(kiln_time_ns() - older->job.queued_ns >= 200000000);
    if (count == 2) { // else the second came late, on a busy machine
        KILN_CHECK(jobs == &clients[1].job && jobs->next == &clients[0].job);
        done();
    } else {
        done();
        take(&queue, &jobs, &count, &rows);
        done();
    }
    join_all(2);
    kilni_serving_queue_fini(&queue);
}

/// Two that are ready run two batches at once.
static void test_several_runners(void)
{
    static bench other = {.lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER,
                          .runner = {.run = run}};
    kiln_model_info info = policy();
    kilni_serving_queue queue;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    uint64_t rows = 0;
    info.batching = false;
    kilni_serving_queue_init(&queue, &info);
    (void)begin(&queue, 0, 1, 4, 0);
    (void)begin(&queue, 1, 1, 4, 0);
    take(&queue, &jobs, &count, &rows);
    kilni_serving_queue_ready(&queue, &other.runner);
    pthread_mutex_lock(&other.lock);
    while (other.jobs == NULL) {
        pthread_cond_wait(&other.changed, &other.lock);
    }
    KILN_CHECK(jobs == &clients[0].job && other.jobs == &clients[1].job);
    other.jobs = NULL;
    pthread_cond_broadcast(&other.changed);
    pthread_mutex_unlock(&other.lock);
    pthread_join(clients[1].thread, NULL); // the first still runs
    done();
    pthread_join(clients[0].thread, NULL);
    kilni_serving_queue_fini(&queue);
}

KILN_TEST_MAIN("unit/serving/queue", KILN_TEST(test_rows_are_joined),
               KILN_TEST(test_preferred_sizes_and_priority), KILN_TEST(test_sequences_are_joined),
               KILN_TEST(test_delay_waits_for_others),
               KILN_TEST(test_delay_is_not_for_those_behind), KILN_TEST(test_bounds),
               KILN_TEST(test_callers_take_turns), KILN_TEST(test_flood_has_half),
               KILN_TEST(test_soon_is_waited_for), KILN_TEST(test_turns_are_remembered),
               KILN_TEST(test_first_runs_the_batch), KILN_TEST(test_delay_and_priority),
               KILN_TEST(test_several_runners))
