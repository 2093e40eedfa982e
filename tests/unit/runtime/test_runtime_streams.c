// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams and events of the public API, and what other threads may do with a stream's tensors:
// whoever releases or reads them, and whenever, the operations are grouped as they were recorded.

#include "runtime_fixture.h"

#include <pthread.h>

enum { N = 64 };

static kiln_tensor *ramp(fixture *f)
{
    const int64_t dims[] = {N};
    float data[N];
    for (int i = 0; i < N; i++) {
        data[i] = (float)i;
    }
    return fixture_f32(f, 1, dims, data);
}

/// x * a + b, the intermediate let go.
static kiln_tensor *line(fixture *f, kiln_tensor *x, double a, double b)
{
    kiln_tensor *t = NULL, *u = NULL;
    FIXTURE_OK(f, kiln_mul_scalar(x, kiln_f64(a), &t, &f->err));
    FIXTURE_OK(f, kiln_add_scalar(t, kiln_f64(b), &u, &f->err));
    kiln_release(t);
    return u;
}

static void check_line(fixture *f, kiln_tensor *y, double a, double b)
{
    float back[N] = {0};
    FIXTURE_OK(f, kiln_read(y, back, sizeof(back), &f->err));
    for (int i = 0; i < N; i++) {
        KILN_CHECK(back[i] == (float)(a * i + b));
    }
}

static kiln_device_stats stats_of(const fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats;
}

// ---- streams ----

/// Two programs recorded in turns are planned as if each were alone: the second time round nothing
/// is searched, in whatever turns they were recorded.
static void test_streams_are_planned_apart(void)
{
    fixture f;
    kiln_stream *streams[2] = {NULL};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    uint64_t searched = 0;
    for (int i = 0; i < 2; i++) {
        FIXTURE_OK(&f, kiln_stream_create(f.device, &streams[i], &f.err));
    }
    for (int round = 0; round < 3; round++) {
        kiln_tensor *at[2] = {kiln_retain(x), kiln_retain(x)};
        for (int step = 0; step < 6; step++) {
            int i = round == 0 ? step / 3 : step % 2;
            kiln_tensor *next = NULL;
            FIXTURE_OK(&f, kiln_stream_set(f.device, streams[i], &f.err));
            FIXTURE_OK(&f, i == 0 ? kiln_add_scalar(at[i], kiln_f64(1), &next, &f.err)
                                  : kiln_mul_scalar(at[i], kiln_f64(2), &next, &f.err));
            kiln_release(at[i]);
            at[i] = next;
        }
        check_line(&f, at[0], 1, 3);
        check_line(&f, at[1], 8, 0);
        kiln_release(at[0]);
        kiln_release(at[1]);
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        searched = round == 0 ? stats_of(&f).plans_searched : searched;
    }
    KILN_CHECK_INT(stats_of(&f).plans_searched, searched);
    KILN_CHECK_INT(stats_of(&f).blocks_fused, 6);
    FIXTURE_OK(&f, kiln_stream_set(f.device, NULL, &f.err));
    kiln_stream_release(streams[0]);
    kiln_stream_release(streams[1]);
    kiln_release(x);
    fixture_close(&f);
}

static void test_values_cross_streams(void)
{
    fixture f;
    kiln_stream *stream = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    FIXTURE_OK(&f, kiln_stream_create(f.device, &stream, &f.err));
    FIXTURE_OK(&f, kiln_stream_set(f.device, stream, &f.err));
    kiln_tensor *y = line(&f, x, 2, 1);
    FIXTURE_OK(&f, kiln_stream_set(f.device, NULL, &f.err));
    kiln_tensor *z = line(&f, y, 3, 0); // its input is recorded elsewhere and has not run
    kiln_release(y);
    check_line(&f, z, 6, 3);
    kiln_release(z);
    kiln_release(x);
    kiln_stream_release(stream);
    fixture_close(&f);
}

/// What was recorded before a stream's last release still runs, and the thread is back on its own.
static void test_released_with_queued_work(void)
{
    fixture f;
    kiln_stream *stream = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    FIXTURE_OK(&f, kiln_stream_create(f.device, &stream, &f.err));
    FIXTURE_OK(&f, kiln_stream_set(f.device, stream, &f.err));
    kiln_tensor *y = line(&f, x, 2, 1);
    kiln_stream_release(stream);
    kiln_tensor *z = line(&f, x, 5, 0);
    check_line(&f, y, 2, 1);
    check_line(&f, z, 5, 0);
    kiln_release(y);
    kiln_release(z);
    kiln_release(x);
    fixture_close(&f);
}

static void test_streams_outlive_a_change_of_fusion(void)
{
    fixture f;
    kiln_stream *stream = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    FIXTURE_OK(&f, kiln_stream_create(f.device, &stream, &f.err));
    FIXTURE_OK(&f, kiln_stream_set(f.device, stream, &f.err));
    for (int on = 1; on >= 0; on--) {
        uint64_t before = stats_of(&f).ops_fused;
        FIXTURE_OK(&f, kiln_device_set_fusion(f.device, on != 0, &f.err));
        kiln_tensor *y = line(&f, x, 2, on);
        check_line(&f, y, 2, on);
        kiln_release(y);
        KILN_CHECK_INT(stats_of(&f).ops_fused - before, on != 0 ? 2 : 0);
    }
    kiln_stream_release(stream);
    kiln_release(x);
    fixture_close(&f);
}

static void test_a_capture_goes_on(void)
{
    fixture f;
    kiln_stream *stream = NULL;
    kiln_graph *graph = NULL;
    kiln_event *event = NULL;
    kiln_tensor *out = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    FIXTURE_OK(&f, kiln_stream_create(f.device, &stream, &f.err));
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    FIXTURE_OK(&f, kiln_stream_set(f.device, stream, &f.err));
    kiln_tensor *y = line(&f, x, 2, 1);
    KILN_CHECK_INT(kiln_event_record(f.device, &event, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    FIXTURE_OK(&f, kiln_graph_end(f.device, &y, 1, &graph, &f.err));
    kiln_release(y);
    FIXTURE_OK(&f, kiln_graph_run(graph, &x, 1, &out, 1, &f.err));
    check_line(&f, out, 2, 1);
    kiln_release(out);
    kiln_graph_destroy(graph);
    kiln_stream_release(stream);
    kiln_release(x);
    fixture_close(&f);
}

static void test_misuse(void)
{
    fixture f;
    fixture g;
    kiln_stream *stream = NULL;
    kiln_event *event = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    if (fixture_open(&g, "reference")) {
        FIXTURE_OK(&f, kiln_stream_create(f.device, &stream, &f.err));
        KILN_CHECK_INT(kiln_stream_set(g.device, stream, &g.err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(g.err.message, "the stream is of reference");
        KILN_CHECK_INT(kiln_stream_create(NULL, &stream, &g.err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_event_record(NULL, &event, &g.err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_stream_wait(f.device, NULL, &g.err), KILN_STATUS_INVALID_ARGUMENT);
        kiln_stream_release(NULL);
        kiln_event_destroy(NULL);
        kiln_stream_release(stream);
        fixture_close(&g);
    }
    fixture_close(&f);
}

typedef struct adder {
    fixture *f;
    kiln_stream *stream;
    kiln_tensor *x;
    kiln_error err;
    int wrong;
} adder;

static void *add_often(void *pointer)
{
    adder *self = pointer;
    fixture mine = *self->f;
    for (int round = 0; round < 200; round++) {
        kiln_tensor *t = NULL;
        float back[N];
        // Every other thread chooses and goes back all the time.
        self->wrong += kiln_stream_set(mine.device, round % 3 == 2 ? NULL : self->stream,
                                       &self->err) != KILN_STATUS_OK;
        self->wrong += kiln_add_scalar(self->x, kiln_f64(round), &t, &self->err) != KILN_STATUS_OK;
        self->wrong += kiln_read(t, back, sizeof(back), &self->err) != KILN_STATUS_OK;
        self->wrong += back[1] != (float)(1 + round);
        kiln_release(t);
    }
    self->wrong += kiln_stream_set(mine.device, NULL, &self->err) != KILN_STATUS_OK;
    return NULL;
}

static void test_threads_share_a_stream(void)
{
    enum { THREADS = 4 };
    fixture f;
    pthread_t threads[THREADS];
    adder adders[THREADS];
    kiln_stream *stream = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    FIXTURE_OK(&f, kiln_stream_create(f.device, &stream, &f.err));
    for (int i = 0; i < THREADS; i++) {
        adders[i] = (adder){.f = &f, .stream = stream, .x = x, .err = KILN_ERROR_INIT};
        pthread_create(&threads[i], NULL, add_often, &adders[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK_INT(adders[i].wrong, 0);
    }
    kiln_stream_release(stream);
    kiln_release(x);
    fixture_close(&f);
}

// ---- events ----

/// What an event stands for is handed out when it is waited for, and nothing else is.
static void test_waiting_hands_out(const char *address, bool counts)
{
    fixture f;
    kiln_stream *streams[2] = {NULL};
    kiln_event *event = NULL;
    if (!fixture_open(&f, address)) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    kiln_tensor *x = ramp(&f);
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    for (int i = 0; i < 2; i++) {
        FIXTURE_OK(&f, kiln_stream_create(f.device, &streams[i], &f.err));
    }
    uint64_t before = stats_of(&f).backend.kernels_launched;
    FIXTURE_OK(&f, kiln_stream_set(f.device, streams[0], &f.err));
    kiln_tensor *y = line(&f, x, 2, 1);
    FIXTURE_OK(&f, kiln_event_record(f.device, &event, &f.err));
    FIXTURE_OK(&f, kiln_stream_set(f.device, streams[1], &f.err));
    kiln_tensor *z = line(&f, x, 3, 1);
    FIXTURE_OK(&f, kiln_stream_wait(f.device, event, &f.err));
    uint64_t launched = stats_of(&f).backend.kernels_launched - before;
    KILN_CHECK_INT(launched, counts ? 3 : 0); // y, and what is settled of z
    FIXTURE_OK(&f, kiln_event_wait(event, &f.err));
    FIXTURE_OK(&f, kiln_event_wait(event, &f.err));
    KILN_CHECK(kiln_event_poll(event));
    check_line(&f, z, 3, 1);
    check_line(&f, y, 2, 1);
    FIXTURE_OK(&f, kiln_stream_set(f.device, NULL, &f.err));
    kiln_event_destroy(event);
    kiln_release(y);
    kiln_release(z);
    kiln_release(x);
    kiln_stream_release(streams[0]);
    kiln_stream_release(streams[1]);
    fixture_close(&f);
}

static void test_events_on_the_reference(void)
{
    test_waiting_hands_out("reference", /*counts=*/false);
}

static void test_events_on_opencl(void)
{
    test_waiting_hands_out("opencl:0", /*counts=*/true);
}

/// Asking often enough is enough; destroying without waiting is allowed at any time.
static void test_poll(void)
{
    fixture f;
    kiln_event *event = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    for (int i = 0; i < 20; i++) {
        kiln_tensor *y = line(&f, x, 2, i);
        FIXTURE_OK(&f, kiln_event_record(f.device, &event, &f.err));
        while (i % 2 == 0 && !kiln_event_poll(event)) {
        }
        if (i % 4 == 3) {
            (void)kiln_event_poll(event);
        }
        kiln_event_destroy(event);
        kiln_release(y);
    }
    kiln_release(x);
    fixture_close(&f);
}

static void test_events_of_another_device(void)
{
    fixture f;
    fixture g;
    kiln_event *event = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    if (fixture_open(&g, "reference")) {
        kiln_tensor *x = ramp(&f);
        kiln_tensor *y = line(&f, x, 2, 1);
        FIXTURE_OK(&f, kiln_event_record(f.device, &event, &f.err));
        FIXTURE_OK(&g, kiln_stream_wait(g.device, event, &g.err));
        KILN_CHECK(kiln_event_poll(event));
        kiln_event_destroy(event);
        kiln_release(y);
        kiln_release(x);
        fixture_close(&g);
    }
    fixture_close(&f);
}

// ---- tensors in the hands of other threads ----

typedef enum when { BEFORE_NEXT, AFTER_NEXT, AFTER_ALL, TIMES } when;

typedef struct hand {
    fixture *f;
    kiln_tensor *tensor;
    float *out;
    kiln_status status;
} hand;

static void *let_go(void *pointer)
{
    hand *self = pointer;
    kiln_release(self->tensor);
    return NULL;
}

static void *look(void *pointer)
{
    hand *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    self->status = kiln_read(self->tensor, self->out, N * sizeof(float), &err);
    return NULL;
}

static void elsewhere(void *(*what)(void *), hand *self)
{
    pthread_t thread;
    pthread_create(&thread, NULL, what, self);
    pthread_join(thread, NULL);
}

typedef struct grouping {
    uint64_t kernels, blocks, ops_fused;
} grouping;

static grouping grouping_of(const fixture *f)
{
    kiln_device_stats stats = stats_of(f);
    return (grouping){stats.backend.kernels_launched, stats.blocks_fused, stats.ops_fused};
}

/// relu(x * 2 + 1) - 3, where another thread releases the product at one of three times.
static grouping run_with_drop(fixture *f, kiln_tensor *x, when at)
{
    kiln_tensor *t = NULL, *u = NULL, *v = NULL, *w = NULL;
    float back[N];
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    grouping before = grouping_of(f);
    FIXTURE_OK(f, kiln_mul_scalar(x, kiln_f64(2), &t, &f->err));
    FIXTURE_OK(f, kiln_add_scalar(t, kiln_f64(1), &u, &f->err));
    hand one = {.f = f, .tensor = t};
    if (at == BEFORE_NEXT) {
        elsewhere(let_go, &one);
    }
    FIXTURE_OK(f, kiln_relu(u, &v, &f->err));
    kiln_release(u);
    if (at == AFTER_NEXT) {
        elsewhere(let_go, &one);
    }
    FIXTURE_OK(f, kiln_add_scalar(v, kiln_f64(-3), &w, &f->err));
    kiln_release(v);
    if (at == AFTER_ALL) {
        elsewhere(let_go, &one);
    }
    FIXTURE_OK(f, kiln_read(w, back, sizeof(back), &f->err));
    for (int i = 0; i < N; i++) {
        KILN_CHECK(back[i] == (float)(2 * i - 2));
    }
    kiln_release(w);
    grouping after = grouping_of(f);
    return (grouping){after.kernels - before.kernels, after.blocks - before.blocks,
                      after.ops_fused - before.ops_fused};
}

static void test_when_others_drop_changes_no_group(void)
{
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    for (when at = BEFORE_NEXT; at < TIMES; at++) {
        grouping got = run_with_drop(&f, x, at);
        KILN_CHECK_INT(got.kernels, 1);
        KILN_CHECK_INT(got.blocks, 1);
        KILN_CHECK_INT(got.ops_fused, 4);
    }
    kiln_release(x);
    fixture_close(&f);
}

/// A read elsewhere runs what is queued, once; what is recorded after it is one group, whether the
/// reader came early or late.
static void test_a_read_elsewhere_drains_once(void)
{
    fixture f;
    float back[N];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    kiln_tensor *y = line(&f, x, 2, 1);
    grouping before = grouping_of(&f);
    hand one = {.f = &f, .tensor = y, .out = back};
    elsewhere(look, &one);
    KILN_CHECK_INT(one.status, KILN_STATUS_OK);
    KILN_CHECK(back[5] == 11.0f);
    grouping after = grouping_of(&f);
    KILN_CHECK_INT(after.blocks - before.blocks, 1);
    kiln_tensor *z = line(&f, y, 1, 1);
    elsewhere(look, &one); // y is there: nothing of z runs for it
    KILN_CHECK_INT(grouping_of(&f).kernels, after.kernels);
    check_line(&f, z, 2, 2);
    KILN_CHECK_INT(grouping_of(&f).blocks - after.blocks, 1);
    kiln_release(z);
    kiln_release(y);
    kiln_release(x);
    fixture_close(&f);
}

/// The last release elsewhere: of a value that a queued operation needs, its memory stays until
/// that has run; of one that nothing needs, it goes at once; of one that has yet to be computed, it
/// goes when that has run.
static void test_last_release_elsewhere(void)
{
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = ramp(&f);
    kiln_tensor *needed = ramp(&f);
    kiln_tensor *alone = ramp(&f);
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    kiln_tensor *y = line(&f, needed, 2, 1);
    uint64_t live = stats_of(&f).tensors_live;
    hand one = {.f = &f, .tensor = alone};
    elsewhere(let_go, &one);
    KILN_CHECK_INT(stats_of(&f).tensors_live, live - 1);
    one.tensor = needed;
    elsewhere(let_go, &one);
    KILN_CHECK_INT(stats_of(&f).tensors_live, live - 1); // queued operations mention it
    check_line(&f, y, 2, 1);
    live = stats_of(&f).tensors_live;
    one.tensor = line(&f, x, 7, 7);
    elsewhere(let_go, &one);
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    KILN_CHECK_INT(stats_of(&f).tensors_live, live);
    kiln_release(y);
    kiln_release(x);
    KILN_CHECK_INT(stats_of(&f).tensors_live, 0);
    fixture_close(&f);
}

/// Lengths vary: nothing runs before it is needed, and a plan serves the next length.
static void test_lengths_that_vary(void)
{
    fixture f;
    bool before = true;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    FIXTURE_OK(&f, kiln_stream_vary_lengths(f.device, true, &before, &f.err));
    KILN_CHECK(!before);
    uint64_t searched = 0;
    for (int64_t length = 30; length < 40; length++) {
        float data[40] = {0};
        kiln_tensor *x = fixture_f32(&f, 1, &length, data);
        kiln_tensor *y = NULL;
        FIXTURE_OK(&f, kiln_add_scalar(x, kiln_f64(1), &y, &f.err));
        kiln_release(x);
        FIXTURE_OK(&f, kiln_read(y, data, (size_t)length * sizeof(float), &f.err));
        KILN_CHECK_NEAR((double)data[length - 1], 1, 0);
        kiln_release(y);
        searched = length == 30 ? stats_of(&f).plans_searched : searched;
    }
    KILN_CHECK_INT(stats_of(&f).plans_searched, searched);
    KILN_CHECK_INT(kiln_stream_vary_lengths(NULL, true, NULL, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, NULL, 0, &f.err));
    KILN_CHECK_INT(kiln_stream_vary_lengths(f.device, true, NULL, &f.err),
                   KILN_STATUS_FAILED_PRECONDITION);
    kiln_graph_cancel(f.device);
    FIXTURE_OK(&f, kiln_stream_vary_lengths(f.device, false, &before, &f.err));
    KILN_CHECK(before);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/streams", KILN_TEST(test_streams_are_planned_apart),
               KILN_TEST(test_values_cross_streams), KILN_TEST(test_released_with_queued_work),
               KILN_TEST(test_streams_outlive_a_change_of_fusion),
               KILN_TEST(test_a_capture_goes_on), KILN_TEST(test_misuse),
               KILN_TEST(test_threads_share_a_stream), KILN_TEST(test_events_on_the_reference),
               KILN_TEST(test_events_on_opencl), KILN_TEST(test_poll),
               KILN_TEST(test_events_of_another_device),
               KILN_TEST(test_when_others_drop_changes_no_group),
               KILN_TEST(test_a_read_elsewhere_drains_once), KILN_TEST(test_last_release_elsewhere),
               KILN_TEST(test_lengths_that_vary))
