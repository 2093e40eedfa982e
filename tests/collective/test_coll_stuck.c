// SPDX-License-Identifier: MIT OR Apache-2.0
// A call into a rank's memory that does not come back, as of a driver or a network that hangs:
// wherever in a call it is, all ranks get the same error, which names the rank, by the deadline and
// a second; who destroys the member does not wait; and when the call comes back at last, everything
// is let go.
#include <time.h>

#include "coll_faulty.h"
#include "coll_fixture.h"
#include "coll_streaming.h"
#include "harness.h"

enum { RANKS = 3, STUCK = 1, COUNT = 1000, DEADLINE_MS = 200, WITHIN_MS = DEADLINE_MS + 1000 };

typedef struct scene {
    kiln_env env;
    fixture fix;
    faulty_memory memories[RANKS];
    float values[RANKS][COUNT];
    int events[RANKS];
    kiln_coll_call calls[RANKS];
} scene;

typedef struct kind {
    kiln_coll_kind kind;
    kiln_coll_algorithm algorithm;
    kiln_dtype dtype;
    uint32_t delay_us; ///< of the transport
} kind;

static const kind ring = {KILN_COLL_ALL_REDUCE, KILN_COLL_ALL_REDUCE_RING, KILN_DTYPE_F32, 0};
static const kind half = {KILN_COLL_ALL_REDUCE, KILN_COLL_ALL_REDUCE_RING, KILN_DTYPE_BF16, 0};
static const kind tree = {KILN_COLL_ALL_REDUCE, KILN_COLL_ALL_REDUCE_TREE, KILN_DTYPE_F16, 200};
static const kind gather = {KILN_COLL_ALL_GATHER, KILN_COLL_AUTO, KILN_DTYPE_F32, 200};

static void fill(const kind *what, kiln_coll_call *calls, float (*values)[COUNT], int *events)
{
    for (int i = 0; i < RANKS; i++) {
        for (int k = 0; k < COUNT; k++) {
            values[i][k] = 1;
        }
        events[i] = -1;
        calls[i] = (kiln_coll_call)KILN_COLL_CALL_INIT;
        calls[i].kind = what->kind;
        calls[i].algorithm = what->algorithm;
        calls[i].dtype = what->dtype;
        calls[i].op = KILN_COLL_MEAN;
        calls[i].count = what->kind == KILN_COLL_ALL_GATHER ? COUNT / RANKS : COUNT;
        calls[i].input = (kiln_coll_buffer *)values[i];
        calls[i].output = calls[i].input;
        calls[i].event = &events[i];
    }
}

/// Runs the calls, and checks that all have one error, which names the stuck rank, or a whole
/// result.
static void check_calls(fixture *fix, const kiln_coll_call *calls)
{
    kiln_status status[RANKS];
    kiln_error errors[RANKS];
    kiln_error err = KILN_ERROR_INIT;
    int32_t rank = -1;
    uint64_t begin = kiln_time_ns();
    fixture_run(fix, calls, status, errors);
    uint64_t took_ms = (kiln_time_ns() - begin) / 1000000;
    KILN_CHECK(took_ms < WITHIN_MS);
    KILN_CHECK_INT(kiln_coll_group_status(fix->group, &rank, &err), KILN_STATUS_DEADLINE_EXCEEDED);
    KILN_CHECK_INT(rank, STUCK);
    KILN_CHECK_CONTAINS(err.message, "rank 1: ");
    KILN_CHECK_INT(status[STUCK], KILN_STATUS_DEADLINE_EXCEEDED);
    for (int i = 0; i < RANKS; i++) {
        if (status[i] != KILN_STATUS_OK) {
            KILN_CHECK_INT(status[i], KILN_STATUS_DEADLINE_EXCEEDED);
            KILN_CHECK_STR(errors[i].message, err.message);
        }
    }
}

// ---- every call into a memory ----

static void scene_init(scene *self, const kind *what)
{
    self->env = (kiln_env){.allocator = kiln_allocator_default()};
    kiln_coll_memory *bases[RANKS];
    for (int i = 0; i < RANKS; i++) {
        faulty_init(&self->memories[i], &self->env);
        bases[i] = &self->memories[i].base;
    }
    KILN_CHECK(fixture_init_delayed(&self->fix, RANKS, DEADLINE_MS, what->delay_us, bases));
    fill(what, self->calls, self->values, self->events);
}

/// The k-th call into one memory stays; 0: none does. Returns how many there were.
static unsigned run_stuck(const kind *what, unsigned k)
{
    static scene self;
    faulty_memory *stuck = &self.memories[STUCK];
    scene_init(&self, what);
    stuck->snag.at = k;
    if (k == 0) {
        kiln_status status[RANKS];
        fixture_run(&self.fix, self.calls, status, NULL);
        KILN_CHECK_INT(status[0] | status[1] | status[2], KILN_STATUS_OK);
    } else {
        check_calls(&self.fix, self.calls);
        KILN_CHECK(snag_caught(&stuck->snag));
        KILN_CHECK_INT(self.events[STUCK], KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK_INT(atomic_load(&stuck->given_up), 1);
        KILN_CHECK_INT(atomic_load(&stuck->signalled), 0); // it still has the buffers
        snag_release(&stuck->snag);
    }
    fixture_fini(&self.fix);
    unsigned calls = atomic_load(&stuck->calls);
    for (int i = 0; i < RANKS; i++) {
        KILN_CHECK_INT(atomic_load(&self.memories[i].signalled), 1);
        faulty_fini(&self.memories[i]); // nothing is open
    }
    return calls;
}

static void test_memory(void)
{
    const kind *what = kiln_test_param();
    unsigned calls = run_stuck(what, 0);
    KILN_CHECK(calls > 6);
    for (unsigned k = 2; k <= calls; k += 1 + calls / 8) { // the first is the starting thread's
        (void)run_stuck(what, k);
    }
    (void)run_stuck(what, calls);
}

/// As above, of a memory that streams, on either thread of the rank.
static unsigned run_stuck_stream(unsigned k)
{
    static float values[RANKS][COUNT];
    static int events[RANKS];
    kiln_env env = {.allocator = kiln_allocator_default()};
    streaming_memory memories[RANKS];
    kiln_coll_memory *bases[RANKS];
    kiln_coll_call calls[RANKS];
    kiln_status status[RANKS];
    fixture fix;
    for (int i = 0; i < RANKS; i++) {
        streaming_init(&memories[i], &env);
        bases[i] = &memories[i].base;
    }
    fill(&ring, calls, values, events);
    memories[STUCK].snag.at = k;
    if (fixture_init_cut(&fix, RANKS, DEADLINE_MS, 0, bases, /*chunk_bytes=*/400) && k > 0) {
        check_calls(&fix, calls);
        KILN_CHECK(snag_caught(&memories[STUCK].snag));
    } else {
        fixture_run(&fix, calls, status, NULL);
        KILN_CHECK_INT(status[0] | status[1] | status[2], KILN_STATUS_OK);
    }
    snag_release(&memories[STUCK].snag);
    fixture_fini(&fix);
    unsigned number = atomic_load(&memories[STUCK].calls);
    for (int i = 0; i < RANKS; i++) {
        streaming_fini(&memories[i]);
    }
    return number;
}

static void test_stream(void)
{
    unsigned calls = run_stuck_stream(0);
    KILN_CHECK(calls > 40);
    for (unsigned k = 1; k <= calls; k += 1 + calls / 8) {
        (void)run_stuck_stream(k);
    }
    (void)run_stuck_stream(calls);
}

// ---- who goes does not wait ----

static void await_closed(const faulty_memory *memory)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 10000 && !atomic_load(&memory->closed); i++) {
        nanosleep(&pause, NULL);
    }
    KILN_CHECK(atomic_load(&memory->closed));
}

/// Calls are pending behind the one that does not come back; all end, and the group is destroyed,
/// before it does.
static void test_destroy(void)
{
    static scene self;
    faulty_memory *stuck = &self.memories[STUCK];
    kiln_coll_request *requests[4] = {NULL};
    kiln_coll_request *others[RANKS] = {NULL};
    scene_init(&self, &ring);
    for (int i = 0; i < RANKS; i++) {
        faulty_leave_behind(&self.memories[i]);
    }
    stuck->snag.at = 6; // four at the starts
    uint64_t begin = kiln_time_ns();
    for (int i = 0; i < 4; i++) {
        KILN_CHECK_INT(
            kiln_coll_start(self.fix.members[STUCK], &self.calls[STUCK], &requests[i], NULL), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        if (i != STUCK) {
            KILN_CHECK_INT(kiln_coll_start(self.fix.members[i], &self.calls[i], &others[i], NULL),
                           0);
        }
    }
    for (int i = 0; i < RANKS; i++) {
        if (i != STUCK) {
            KILN_CHECK_INT(kiln_coll_wait(others[i], NULL), KILN_STATUS_DEADLINE_EXCEEDED);
        }
    }
    for (int i = 0; i < 4; i++) {
        kiln_error err = KILN_ERROR_INIT;
        KILN_CHECK_INT(kiln_coll_wait(requests[i], &err), KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK_CONTAINS(err.message, "rank 1: ");
    }
    kiln_coll_member_drain(self.fix.members[STUCK]);
    fixture_fini(&self.fix);
    KILN_CHECK((kiln_time_ns() - begin) / 1000000 < WITHIN_MS);
    KILN_CHECK(!atomic_load(&stuck->closed));
    KILN_CHECK(atomic_load(&self.memories[0].closed));
    KILN_CHECK_INT(atomic_load(&stuck->given_up), 4);
    snag_release(&stuck->snag);
    await_closed(stuck);
    KILN_CHECK_INT(atomic_load(&stuck->signalled), 4);
    for (int i = 0; i < RANKS; i++) {
        faulty_fini(&self.memories[i]);
    }
}

/// The member is destroyed while its call stays, long before the deadline.
static void test_destroy_before_the_deadline(void)
{
    static scene self;
    faulty_memory *stuck = &self.memories[STUCK];
    kiln_coll_request *requests[RANKS] = {NULL};
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    scene_init(&self, &ring);
    fixture_fini(&self.fix); // one with a long deadline instead
    options.ranks = RANKS;
    options.deadline_ns = 60000000000u;
    KILN_CHECK_INT(kiln_coll_group_create(&self.env, &options, &self.fix.group, NULL), 0);
    stuck->snag.at = 3;
    for (uint32_t i = 0; i < RANKS; i++) {
        faulty_leave_behind(&self.memories[i]);
        KILN_CHECK_INT(kiln_coll_member_create(self.fix.group, i, &self.memories[i].base, NULL,
                                               &self.fix.members[i], NULL),
                       0);
        KILN_CHECK_INT(kiln_coll_start(self.fix.members[i], &self.calls[i], &requests[i], NULL), 0);
    }
    while (!snag_caught(&stuck->snag)) {
        const struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    uint64_t begin = kiln_time_ns();
    kiln_coll_member_destroy(self.fix.members[STUCK]);
    self.fix.members[STUCK] = NULL;
    for (int i = 0; i < RANKS; i++) {
        KILN_CHECK_INT(kiln_coll_wait(requests[i], NULL), KILN_STATUS_CANCELLED);
    }
    KILN_CHECK(kiln_time_ns() - begin < 2000000000u);
    fixture_fini(&self.fix);
    snag_release(&stuck->snag);
    for (int i = 0; i < RANKS; i++) {
        await_closed(&self.memories[i]);
        faulty_fini(&self.memories[i]);
    }
}

/// The device of a group of one, for which nobody waits but who called.
static void test_alone(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    static float values[COUNT];
    faulty_memory memory;
    kiln_coll_memory *base = &memory.base;
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_error err = KILN_ERROR_INIT;
    fixture fix;
    faulty_init(&memory, &env);
    memory.snag.at = 2;
    call.dtype = KILN_DTYPE_BF16;
    call.count = COUNT;
    call.input = (kiln_coll_buffer *)values;
    call.output = call.input;
    if (fixture_init(&fix, 1, DEADLINE_MS, &base)) {
        uint64_t begin = kiln_time_ns();
        fixture_run(&fix, &call, &status, &err);
        KILN_CHECK((kiln_time_ns() - begin) / 1000000 < WITHIN_MS);
        KILN_CHECK_INT(status, KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK_CONTAINS(err.message, "rank 0: its memory did not come back");
    }
    snag_release(&memory.snag);
    fixture_fini(&fix);
    faulty_fini(&memory);
}

KILN_TEST_MAIN("collective/stuck", KILN_TEST_PARAM(test_memory, "memory, ring f32", &ring),
               KILN_TEST_PARAM(test_memory, "memory, ring bf16", &half),
               KILN_TEST_PARAM(test_memory, "memory, tree, delays", &tree),
               KILN_TEST_PARAM(test_memory, "memory, all-gather, delays", &gather),
               KILN_TEST(test_stream), KILN_TEST(test_destroy),
               KILN_TEST(test_destroy_before_the_deadline), KILN_TEST(test_alone))
