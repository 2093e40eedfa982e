// SPDX-License-Identifier: MIT OR Apache-2.0
// Small reads from memory that the host knows: they are no commands, and wait for the last one.

#include <string.h>
#include <time.h>

#include "cl_error.h"
#include "cl_fixture.h"

enum { LENGTH = 64 };

static const char add_one[] =
    "__kernel void add_one(__global int *x) { x[get_global_id(0)] += 1; }";

typedef struct adder {
    cl_fixture f;
    cl_program_text text;
    kiln_built *built;
    kiln_buffer *buffer;
    kiln_launch_arg arg;
    kiln_launch launch;
} adder;

static void read_value(adder *a, int expected)
{
    kiln_error err = KILN_ERROR_INIT;
    int values[LENGTH] = {0};
    KILN_CHECK_INT(a->f.base->transfer->read(a->f.base, a->buffer, 0, values, sizeof(values), &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(values[0], expected);
    KILN_CHECK_INT(values[LENGTH - 1], expected);
}

static void run(adder *a, int times)
{
    kiln_error err = KILN_ERROR_INIT;
    for (int i = 0; i < times; i++) {
        KILN_CHECK_INT(a->f.base->program->launch(a->f.base, a->built, &a->launch, &err),
                       KILN_STATUS_OK);
    }
}

static void adder_close(adder *a)
{
    a->f.base->memory->free(a->f.base, a->buffer);
    a->f.base->program->free(a->f.base, a->built);
    cl_fixture_close(&a->f);
}

/// Looks at the device only: PoCL makes an event for each command anyway.
static bool adder_open(adder *a)
{
    static const char *const names[] = {"add_one"};
    static const int zeros[LENGTH];
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&a->f, NULL)) {
        return false;
    }
    if (!a->f.backend->flight.keeps_last) {
        kiln_test_skip("a driver whose launches have no events");
        cl_fixture_close(&a->f);
        return false;
    }
    cl_program_text_init(&a->text, add_one, names, 1);
    if (a->f.base->program->build(a->f.base, &a->text.program, &a->built, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        cl_fixture_close(&a->f);
        return false;
    }
    a->buffer = cl_fixture_buffer(&a->f, sizeof(zeros), zeros);
    a->arg = (kiln_launch_arg){.kind = KILN_VALUE_BUFFER, .buffer = a->buffer};
    a->launch = (kiln_launch){.n_dims = 1,
                              .global = {LENGTH, 1, 1},
                              .local = {LENGTH, 1, 1},
                              .args = &a->arg,
                              .n_args = 1};
    run(a, 1); // compiled, and the last command is a launch
    read_value(a, 1);
    return true;
}

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
}

static kiln_pending *begin_read(adder *a, int *out_value)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_pending *pending = NULL;
    KILN_CHECK_INT(a->f.base->transfer->read_begin(a->f.base, a->buffer, 4, out_value,
                                                   sizeof(*out_value), &pending, &err),
                   KILN_STATUS_OK);
    return pending;
}

/// Nothing is put behind the last launch for a small read, which waits for that launch.
static void test_small_reads_are_no_commands(void)
{
    adder a;
    kiln_error err = KILN_ERROR_INIT;
    kiln_cl_event *gate = NULL;
    int value = 0;
    if (!adder_open(&a)) {
        return;
    }
    KILN_CHECK_INT(kiln_cl_gate(a.f.base, &gate, &err), KILN_STATUS_OK);
    run(&a, 2);
    cl_event last = a.f.backend->flight.last;
    kiln_pending *pending = begin_read(&a, &value);
    KILN_CHECK(last != NULL && a.f.backend->flight.last == last);
    nap();
    KILN_CHECK(!a.f.base->transfer->read_poll(pending));
    kiln_cl_event_signal(gate, KILN_STATUS_OK);
    a.f.base->transfer->read_wait(pending, false);
    KILN_CHECK_INT(a.f.base->transfer->read_end(a.f.base, pending, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(value, 3);
    kiln_cl_event_destroy(gate);
    adder_close(&a);
}

/// A read that is given up does not wait, and writes nothing.
static void test_a_small_read_is_given_up(void)
{
    adder a;
    kiln_error err = KILN_ERROR_INIT;
    kiln_cl_event *gate = NULL;
    int value = -1;
    if (!adder_open(&a)) {
        return;
    }
    KILN_CHECK_INT(kiln_cl_gate(a.f.base, &gate, &err), KILN_STATUS_OK);
    run(&a, 1);
    kiln_pending *pending = begin_read(&a, &value);
    a.f.base->transfer->read_wait(pending, true);
    kiln_cl_event_signal(gate, KILN_STATUS_OK);
    KILN_CHECK_INT(a.f.base->transfer->read_end(a.f.base, pending, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(a.f.base->device->sync(a.f.base, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(value, -1);
    kiln_cl_event_destroy(gate);
    adder_close(&a);
}

KILN_TEST_MAIN("unit/cl_backend/test_cl_read", KILN_TEST(test_small_reads_are_no_commands),
               KILN_TEST(test_a_small_read_is_given_up))
