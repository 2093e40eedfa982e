// SPDX-License-Identifier: MIT OR Apache-2.0
// What is in flight, marks and gates that other threads follow, failures that come late, a lost
// device.

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "cl_error.h"
#include "cl_fixture.h"

static const char add_one[] =
    "__kernel void add_one(__global int *x) { x[get_global_id(0)] += 1; }";

typedef struct adder {
    cl_program_text text;
    kiln_built *built;
    kiln_buffer *buffer;
    kiln_launch_arg arg;
    kiln_launch launch;
} adder;

static bool adder_open(cl_fixture *f, adder *a)
{
    static const char *const names[] = {"add_one"};
    static const int zeros[64];
    kiln_error err = KILN_ERROR_INIT;
    cl_program_text_init(&a->text, add_one, names, 1);
    if (f->base->program->build(f->base, &a->text.program, &a->built, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    a->buffer = cl_fixture_buffer(f, sizeof(zeros), zeros);
    a->arg = (kiln_launch_arg){.kind = KILN_VALUE_BUFFER, .buffer = a->buffer};
    a->launch = (kiln_launch){
        .n_dims = 1, .global = {64, 1, 1}, .local = {64, 1, 1}, .args = &a->arg, .n_args = 1};
    return true;
}

static void adder_run(cl_fixture *f, adder *a, int times)
{
    kiln_error err = KILN_ERROR_INIT;
    for (int i = 0; i < times; i++) {
        if (f->base->program->launch(f->base, a->built, &a->launch, &err) != KILN_STATUS_OK) {
            KILN_FAIL("launch %d: %s", i, err.message);
            return;
        }
    }
}

static int adder_value(cl_fixture *f, adder *a)
{
    kiln_error err = KILN_ERROR_INIT;
    int value = -1;
    KILN_CHECK_INT(
        f->base->transfer->read(f->base, a->buffer, 63 * sizeof(int), &value, sizeof(value), &err),
        KILN_STATUS_OK);
    return value;
}

static void adder_close(cl_fixture *f, adder *a)
{
    f->base->memory->free(f->base, a->buffer);
    f->base->program->free(f->base, a->built);
}

static void test_more_than_the_window(void)
{
    cl_fixture f;
    adder a;
    kiln_backend_stats stats;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    if (adder_open(&f, &a)) {
        adder_run(&f, &a, 5 * KILNI_CL_BATCH + 3);
        KILN_CHECK_INT(adder_value(&f, &a), 5 * KILNI_CL_BATCH + 3);
        f.base->device->stats(f.base, &stats);
        KILN_CHECK_INT(stats.kernels_launched, 5 * KILNI_CL_BATCH + 3);
        adder_close(&f, &a);
    }
    cl_fixture_close(&f);
}

typedef struct seen {
    atomic_int calls;
    atomic_int status;
} seen;

static void on_reached(kiln_status status, void *user)
{
    seen *s = user;
    atomic_store(&s->status, (int)status);
    atomic_fetch_add(&s->calls, 1);
}

static bool wait_for(seen *s, int calls)
{
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 10000 && atomic_load(&s->calls) < calls; i++) {
        nanosleep(&pause, NULL);
    }
    return atomic_load(&s->calls) == calls;
}

static bool looked_at; ///< marks have a thread, as with NVIDIA's driver, which calls back late

static void test_mark_calls_back(void)
{
    cl_fixture f;
    adder a;
    seen s = {0};
    kiln_cl_event *mark = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    f.backend->flight.follows |= looked_at;
    if (strcmp(f.base->device->info(f.base)->platform, "Oclgrind") == 0) {
        kiln_test_skip("Oclgrind runs queued work only when the host waits");
        cl_fixture_close(&f);
        return;
    }
    if (adder_open(&f, &a)) {
        adder_run(&f, &a, 100);
        KILN_CHECK_INT(kiln_cl_mark(f.base, &mark, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_cl_event_after(mark, on_reached, &s, &err), KILN_STATUS_OK);
        KILN_CHECK(wait_for(&s, 1));
        KILN_CHECK_INT(s.status, KILN_STATUS_OK);
        kiln_cl_event_signal(mark, KILN_STATUS_INTERNAL); // a mark is no gate
        KILN_CHECK_INT(adder_value(&f, &a), 100);
        kiln_cl_event_destroy(mark);
        adder_close(&f, &a);
    }
    cl_fixture_close(&f);
}

/// Looks at the device only: PoCL makes an event for each command anyway.
static bool keeps_last(const cl_fixture *f)
{
    if (!f->backend->flight.keeps_last) {
        kiln_test_skip("a driver whose launches have no events");
    }
    return f->backend->flight.keeps_last;
}

/// Whoever waits for the whole queue follows the launch that is its last command, and no marker.
static void test_wait_for_the_last_launch(void)
{
    cl_fixture f;
    adder a;
    kiln_error err = KILN_ERROR_INIT;
    kiln_pending *pending = NULL;
    static const int zeros[64];
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    if (keeps_last(&f) && adder_open(&f, &a)) {
        KILN_CHECK(f.backend->flight.last == NULL); // an upload was the last command
        adder_run(&f, &a, 2);
        cl_event last = f.backend->flight.last, event = NULL;
        KILN_CHECK(last != NULL);
        KILN_CHECK_INT(kilni_cl_all_done(f.backend, &event), CL_SUCCESS);
        KILN_CHECK(event == last);
        clReleaseEvent(event);
        KILN_CHECK_INT(f.base->transfer->read_begin(f.base, NULL, 0, NULL, 0, &pending, &err),
                       KILN_STATUS_OK);
        KILN_CHECK(f.backend->flight.last == last);
        f.base->transfer->read_wait(pending, false);
        KILN_CHECK_INT(f.base->transfer->read_end(f.base, pending, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(adder_value(&f, &a), 2);
        adder_run(&f, &a, 1);
        KILN_CHECK_INT(f.base->transfer->upload(f.base, a.buffer, 0, zeros, sizeof(zeros), &err),
                       KILN_STATUS_OK);
        // A command, or, where the launch was done already, written by the host.
        KILN_CHECK(f.backend->flight.last == NULL || kilni_cl_is_idle(f.backend));
        KILN_CHECK_INT(adder_value(&f, &a), 0);
        KILN_CHECK_INT(f.base->trace->set(f.base, true, &err), KILN_STATUS_OK);
        adder_run(&f, &a, 1); // its event is the trace's, too
        KILN_CHECK(f.backend->flight.last != NULL);
        KILN_CHECK_INT(f.base->trace->set(f.base, false, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(adder_value(&f, &a), 1);
        adder_close(&f, &a);
    }
    cl_fixture_close(&f);
}

/// A gate behind the last launch is a command to wait for.
static void test_wait_for_a_gate_behind(void)
{
    cl_fixture f;
    adder a;
    kiln_cl_event *gate = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_pending *pending = NULL;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    if (adder_open(&f, &a)) {
        adder_run(&f, &a, 1);
        KILN_CHECK_INT(kiln_cl_gate(f.base, &gate, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(f.base->transfer->read_begin(f.base, NULL, 0, NULL, 0, &pending, &err),
                       KILN_STATUS_OK);
        clFlush(f.backend->queue);
        KILN_CHECK(!f.base->transfer->read_poll(pending));
        kiln_cl_event_signal(gate, KILN_STATUS_OK);
        f.base->transfer->read_wait(pending, false);
        KILN_CHECK_INT(f.base->transfer->read_end(f.base, pending, &err), KILN_STATUS_OK);
        kiln_cl_event_destroy(gate);
        adder_close(&f, &a);
    }
    cl_fixture_close(&f);
}

typedef struct opener {
    kiln_cl_event *gate;
    kiln_status status;
} opener;

static void *open_later(void *user)
{
    opener *o = user;
    struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
    kiln_cl_event_signal(o->gate, o->status);
    return NULL;
}

// Work behind a gate waits for another thread; a failure is reported once and the device goes on.
static void gate_with(kiln_status given)
{
    cl_fixture f;
    adder a;
    seen s = {0};
    kiln_cl_event *gate = NULL;
    kiln_cl_event *mark = NULL;
    kiln_error err = KILN_ERROR_INIT;
    pthread_t thread;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    f.backend->flight.follows |= looked_at;
    if (!adder_open(&f, &a)) {
        cl_fixture_close(&f);
        return;
    }
    KILN_CHECK_INT(kiln_cl_gate(f.base, &gate, &err), KILN_STATUS_OK);
    adder_run(&f, &a, 3);
    KILN_CHECK_INT(kiln_cl_mark(f.base, &mark, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_cl_event_after(mark, on_reached, &s, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(s.calls, 0);
    opener o = {.gate = gate, .status = given};
    KILN_CHECK_INT(pthread_create(&thread, NULL, open_later, &o), 0);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), given);
    KILN_CHECK_INT(pthread_join(thread, NULL), 0);
    KILN_CHECK(wait_for(&s, 1));
    if (given != KILN_STATUS_OK) {
        KILN_CHECK_CONTAINS(err.message, kiln_status_name(given));
    }
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(adder_value(&f, &a), 3);
    kiln_cl_event_destroy(gate);
    kiln_cl_event_destroy(mark);
    adder_close(&f, &a);
    cl_fixture_close(&f);
}

static void test_marks_are_looked_at(void)
{
    looked_at = true;
    test_mark_calls_back();
    for (int i = 0; i < 20; i++) {
        gate_with(i % 2 == 0 ? KILN_STATUS_OK : KILN_STATUS_CANCELLED);
    }
    looked_at = false;
}

static void test_gate_opens(void)
{
    gate_with(KILN_STATUS_OK);
}

static void test_gate_fails(void)
{
    gate_with(KILN_STATUS_DEADLINE_EXCEEDED);
}

static void test_gate_destroyed_unopened(void)
{
    cl_fixture f;
    kiln_cl_event *gate = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    KILN_CHECK_INT(kiln_cl_gate(f.base, &gate, &err), KILN_STATUS_OK);
    kiln_cl_event_destroy(gate);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_CANCELLED);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_OK);
    cl_fixture_close(&f);
}

/// A lane works on the buffers of the first backend while the queue of that one is shut, with an
/// upload that does not wait and a kernel of its own.
static void test_lane(void)
{
    cl_fixture f;
    int ones[64];
    int sums[64] = {0};
    kiln_backend *lane = NULL;
    kiln_cl_event *gate = NULL;
    kiln_cl_event *mark = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    for (int i = 0; i < 64; i++) {
        ones[i] = i;
    }
    kiln_buffer *a = cl_fixture_buffer(&f, sizeof(ones), ones);
    kiln_buffer *b = cl_fixture_buffer(&f, sizeof(ones), sums);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_cl_open_auxiliary(f.base, &lane, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_cl_gate(f.base, &gate, &err), KILN_STATUS_OK);
    if (lane != NULL) {
        const kiln_view x = {
            .buffer = a, .dtype = KILN_DTYPE_I32, .rank = 1, .dims = {64}, .strides = {1}};
        const kiln_view y = {
            .buffer = b, .dtype = KILN_DTYPE_I32, .rank = 1, .dims = {64}, .strides = {1}};
        const kiln_tensor_desc desc = {.dtype = KILN_DTYPE_I32, .rank = 1, .dims = {64}};
        const kiln_tensor_desc inputs[] = {desc, desc};
        const kiln_view operands[] = {x, y};
        const kiln_op_record add = {
            .op = KILN_OP_ADD, .n_inputs = 2, .n_outputs = 1, .inputs = inputs, .outputs = &desc};
        KILN_CHECK_INT(kiln_cl_write(lane, b, 0, ones, sizeof(ones), &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_cl_write(lane, b, 4, ones, sizeof(ones), &err),
                       KILN_STATUS_OUT_OF_RANGE);
        KILN_CHECK_INT(lane->device->execute(lane, &add, operands, &y, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_cl_mark(lane, &mark, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_cl_event_wait(mark, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(lane->transfer->read(lane, b, 0, sums, sizeof(sums), &err), KILN_STATUS_OK);
        KILN_CHECK(sums[0] == 0 && sums[63] == 126);
        kiln_cl_event_destroy(mark);
        lane->device->close(lane);
    }
    kiln_cl_event_signal(gate, KILN_STATUS_OK);
    kiln_cl_event_destroy(gate);
    f.base->memory->free(f.base, a);
    f.base->memory->free(f.base, b);
    cl_fixture_close(&f);
}

static void test_codes(void)
{
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_STR(kilni_cl_code_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    KILN_CHECK_INT(kilni_cl_fail(NULL, &err, CL_OUT_OF_RESOURCES, "a buffer of %d", 7),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_STR(err.message, "a buffer of 7: CL_OUT_OF_RESOURCES (-5)");
    KILN_CHECK_INT(kilni_cl_fail_wait(NULL, &err, CL_OUT_OF_RESOURCES, "waiting"),
                   KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(kilni_cl_fail(NULL, &err, CL_DEVICE_NOT_AVAILABLE, "x"),
                   KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(kilni_cl_fail(NULL, &err, -4242, "x"), KILN_STATUS_INTERNAL);
    KILN_CHECK_INT(kilni_cl_fail(NULL, NULL, CL_INVALID_KERNEL_NAME, "x"), KILN_STATUS_NOT_FOUND);
}

// After a loss every call says so, and closing still gives everything back.
static void test_lost_device(void)
{
    cl_fixture f;
    adder a;
    int value = 0;
    kiln_buffer *buffer = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    if (!adder_open(&f, &a)) {
        cl_fixture_close(&f);
        return;
    }
    adder_run(&f, &a, 1);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_cl_fail_wait(f.backend, &err, CL_OUT_OF_RESOURCES, "waiting"),
                   KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_CONTAINS(f.log, "device lost");
    KILN_CHECK_INT(f.base->memory->alloc(f.base, 16, &buffer, &err), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(f.base->transfer->upload(f.base, a.buffer, 0, &value, 4, &err),
                   KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(f.base->transfer->read(f.base, a.buffer, 0, &value, 4, &err),
                   KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(f.base->transfer->copy(f.base, a.buffer, 0, a.buffer, 8, 4, &err),
                   KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(f.base->program->launch(f.base, a.built, &a.launch, &err),
                   KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(f.base->device->flush(f.base, &err), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_CONTAINS(err.message, "open it again");
    adder_close(&f, &a);
    cl_fixture_close(&f);
}

// A kernel that writes where nothing is: the wait says that the device is lost, and so does every
// call after it.
static void test_illegal_access(void)
{
    static const char wild[] =
        "__kernel void wild(__global int *x) { x[(ulong)get_global_id(0) + (1UL << 42)] = 1; }";
    static const char *const name[] = {"wild"};
    cl_fixture f;
    cl_program_text text;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    static const cl_settings none;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    if (f.base->device->info(f.base)->type != KILN_DEVICE_GPU) {
        kiln_test_skip("on a CPU an illegal access ends the process");
        cl_fixture_close(&f);
        return;
    }
    kiln_buffer *buffer = cl_fixture_buffer(&f, 4096, NULL);
    cl_program_text_init(&text, wild, name, 1);
    KILN_CHECK_INT(f.base->program->build(f.base, &text.program, &built, &err), KILN_STATUS_OK);
    kiln_launch_arg arg = {.kind = KILN_VALUE_BUFFER, .buffer = buffer};
    kiln_launch launch = {
        .n_dims = 1, .global = {64, 1, 1}, .local = {64, 1, 1}, .args = &arg, .n_args = 1};
    KILN_CHECK_INT(f.base->program->launch(f.base, built, &launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_INT(f.base->device->sync(f.base, &err), KILN_STATUS_DEVICE_LOST);
    KILN_CHECK_CONTAINS(err.message, "open it again");
    f.base->memory->free(f.base, buffer);
    f.base->program->free(f.base, built);
    cl_fixture_close(&f);
    // NVIDIA gives no new context to a process that did this; others may.
    if (cl_fixture_env(&f, &none)) {
        kiln_status status =
            kiln_cl_provider()->open(&f.env, kiln_test_address("opencl:0"), &f.base, &err, NULL);
        if (status == KILN_STATUS_OK) {
            f.base->device->close(f.base);
        } else {
            KILN_CHECK_INT(status, KILN_STATUS_DEVICE_LOST);
            KILN_CHECK_CONTAINS(err.message, "new process");
        }
        cl_fixture_env_fini(&f);
    }
}

static void count_span(const kiln_device_span *span, void *user)
{
    (void)span;
    ++*(int *)user;
}

/// A trace that nobody takes stops growing, and says how much it has lost.
static void test_trace_is_bounded(void)
{
    enum { MOST = 10, UPLOADS = 25 };
    cl_fixture f;
    const cl_settings none = {0};
    kiln_error err = KILN_ERROR_INIT;
    const int data[16] = {0};
    if (!cl_fixture_open(&f, &none)) {
        return;
    }
    kiln_buffer *buffer = cl_fixture_buffer(&f, sizeof(data), data);
    KILN_CHECK_INT(f.base->trace->set(f.base, true, &err), KILN_STATUS_OK);
    f.backend->trace.most_spans = MOST;
    for (int round = 0; round < 2; round++) {
        int taken = 0;
        uint64_t lost = 0;
        for (int i = 0; i < UPLOADS; i++) {
            KILN_CHECK_INT(f.base->transfer->upload(f.base, buffer, 0, data, sizeof(data), &err),
                           0);
        }
        KILN_CHECK_INT(f.base->trace->take(f.base, count_span, &taken, &lost, &err), 0);
        KILN_CHECK_INT(taken, MOST);
        KILN_CHECK_INT(lost, UPLOADS - MOST);
    }
    KILN_CHECK_INT(f.base->trace->set(f.base, false, &err), KILN_STATUS_OK);
    f.base->memory->free(f.base, buffer);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/queue", KILN_TEST(test_more_than_the_window),
               KILN_TEST(test_mark_calls_back), KILN_TEST(test_marks_are_looked_at),
               KILN_TEST(test_wait_for_the_last_launch), KILN_TEST(test_wait_for_a_gate_behind),
               KILN_TEST(test_gate_opens), KILN_TEST(test_gate_fails),
               KILN_TEST(test_gate_destroyed_unopened), KILN_TEST(test_lane),
               KILN_TEST(test_trace_is_bounded), KILN_TEST(test_codes), KILN_TEST(test_lost_device),
               KILN_TEST(test_illegal_access))
