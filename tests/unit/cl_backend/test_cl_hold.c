// SPDX-License-Identifier: MIT OR Apache-2.0
// What spares PoCL's workers a wake: launches that start together, and small reads that are no
// commands.

#include <string.h>
#include <time.h>

#include "cl_error.h"
#include "cl_fixture.h"

enum { LENGTH = 64, LAUNCHES = 12 };

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

/// Launches that are held do not begin, however long it takes, and then all do.
static void test_held_launches_wait(void)
{
    adder a;
    if (!adder_open(&a)) {
        return;
    }
    kilni_cl_hold(a.f.backend);
    KILN_CHECK(a.f.backend->flight.held != NULL);
    run(&a, 3);
    nap();
    KILN_CHECK(!kilni_cl_is_idle(a.f.backend));
    KILN_CHECK_INT(atomic_load(&a.f.backend->flight.user_events), 1);
    kilni_cl_let_go(a.f.backend);
    kilni_cl_let_go(a.f.backend); // of nothing
    KILN_CHECK_INT(atomic_load(&a.f.backend->flight.user_events), 0);
    read_value(&a, 4);
    kilni_cl_hold(a.f.backend); // for nothing
    kilni_cl_let_go(a.f.backend);
    run(&a, 1);
    read_value(&a, 5);
    adder_close(&a);
}

/// Where workers are awake already, or commands are to be seen, nobody waits.
static void test_who_is_not_held(void)
{
    adder a;
    kiln_cl_event *gate = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!adder_open(&a)) {
        return;
    }
    KILN_CHECK_INT(kiln_cl_gate(a.f.base, &gate, &err), KILN_STATUS_OK);
    run(&a, 1);
    kilni_cl_hold(a.f.backend);
    KILN_CHECK(a.f.backend->flight.held == NULL);
    kiln_cl_event_destroy(gate);
    (void)a.f.base->device->sync(a.f.base, &err); // says that nobody signalled
    KILN_CHECK_INT(a.f.base->trace->set(a.f.base, true, &err), KILN_STATUS_OK);
    run(&a, 1);
    read_value(&a, 3);
    kilni_cl_hold(a.f.backend);
    KILN_CHECK(a.f.backend->flight.held == NULL);
    KILN_CHECK_INT(a.f.base->trace->set(a.f.base, false, &err), KILN_STATUS_OK);
    adder_close(&a);
}

static uint32_t enqueue(adder *a, kiln_prepared **prepared, uint32_t count, kiln_status expected)
{
    kiln_error err = KILN_ERROR_INIT;
    uint32_t done = 0;
    KILN_CHECK_INT(a->f.base->prepared->enqueue(a->f.base, prepared, count, &done, &err), expected);
    KILN_CHECK(a->f.backend->flight.held == NULL);
    KILN_CHECK_INT(atomic_load(&a->f.backend->flight.user_events), 0);
    return done;
}

/// More launches than start together, some of which get another buffer meanwhile.
static void test_prepared_launches(void)
{
    adder a;
    kiln_error err = KILN_ERROR_INIT;
    kiln_prepared *prepared[LAUNCHES] = {NULL};
    if (!adder_open(&a)) {
        return;
    }
    static const int zeros[LENGTH];
    kiln_buffer *other = cl_fixture_buffer(&a.f, sizeof(zeros), zeros);
    for (int i = 0; i < LAUNCHES; i++) {
        KILN_CHECK_INT(
            a.f.base->prepared->prepare(a.f.base, a.built, &a.launch, &prepared[i], &err),
            KILN_STATUS_OK);
    }
    for (int round = 1; round <= 50; round++) {
        KILN_CHECK_INT(enqueue(&a, prepared, LAUNCHES, KILN_STATUS_OK), LAUNCHES);
        read_value(&a, 1 + LAUNCHES * round);
    }
    a.f.base->prepared->replace(a.f.base, prepared[2], 0, other);
    a.f.base->prepared->replace(a.f.base, prepared[LAUNCHES - 1], 0, other);
    KILN_CHECK_INT(enqueue(&a, prepared, LAUNCHES, KILN_STATUS_OK), LAUNCHES);
    read_value(&a, 1 + LAUNCHES * 51 - 2);
    for (int i = 0; i < LAUNCHES; i++) {
        a.f.base->prepared->unprepare(a.f.base, prepared[i]);
    }
    a.f.base->memory->free(a.f.base, other);
    adder_close(&a);
}

/// What stands before a launch that cannot be queued runs, also when that one is the first.
static void test_a_launch_that_fails(void)
{
    adder a;
    kiln_error err = KILN_ERROR_INIT;
    kiln_prepared *prepared[3] = {NULL};
    if (!adder_open(&a)) {
        return;
    }
    kiln_launch odd = a.launch;
    odd.global[0] = LENGTH + 1; // no multiple of the local size
    for (int i = 0; i < 3; i++) {
        KILN_CHECK_INT(a.f.base->prepared->prepare(a.f.base, a.built, i == 2 ? &odd : &a.launch,
                                                   &prepared[i], &err),
                       KILN_STATUS_OK);
    }
    KILN_CHECK_INT(enqueue(&a, prepared, 3, KILN_STATUS_INVALID_ARGUMENT), 2);
    read_value(&a, 3);
    kiln_prepared *turned[] = {prepared[2], prepared[0]};
    KILN_CHECK_INT(enqueue(&a, turned, 2, KILN_STATUS_INVALID_ARGUMENT), 0);
    read_value(&a, 3);
    KILN_CHECK_INT(enqueue(&a, prepared, 2, KILN_STATUS_OK), 2);
    read_value(&a, 5);
    for (int i = 0; i < 3; i++) {
        a.f.base->prepared->unprepare(a.f.base, prepared[i]);
    }
    adder_close(&a);
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
    int value = 0;
    if (!adder_open(&a)) {
        return;
    }
    kilni_cl_hold(a.f.backend);
    run(&a, 2);
    cl_event last = a.f.backend->flight.last;
    kiln_pending *pending = begin_read(&a, &value);
    KILN_CHECK(last != NULL && a.f.backend->flight.last == last);
    nap();
    KILN_CHECK(!a.f.base->transfer->read_poll(pending));
    kilni_cl_let_go(a.f.backend);
    a.f.base->transfer->read_wait(pending, false);
    KILN_CHECK_INT(a.f.base->transfer->read_end(a.f.base, pending, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(value, 3);
    adder_close(&a);
}

/// A read that is given up does not wait, and writes nothing.
static void test_a_small_read_is_given_up(void)
{
    adder a;
    kiln_error err = KILN_ERROR_INIT;
    int value = -1;
    if (!adder_open(&a)) {
        return;
    }
    kilni_cl_hold(a.f.backend);
    run(&a, 1);
    kiln_pending *pending = begin_read(&a, &value);
    a.f.base->transfer->read_wait(pending, true);
    kilni_cl_let_go(a.f.backend);
    KILN_CHECK_INT(a.f.base->transfer->read_end(a.f.base, pending, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(a.f.base->device->sync(a.f.base, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(value, -1);
    adder_close(&a);
}

KILN_TEST_MAIN("unit/cl_backend/test_cl_hold", KILN_TEST(test_held_launches_wait),
               KILN_TEST(test_who_is_not_held), KILN_TEST(test_prepared_launches),
               KILN_TEST(test_a_launch_that_fails), KILN_TEST(test_small_reads_are_no_commands),
               KILN_TEST(test_a_small_read_is_given_up))
