// SPDX-License-Identifier: MIT OR Apache-2.0
// What goes wrong: a rank that is late, leaves, fails or asks for something else. All ranks get the
// same error, within the deadline, naming the rank and the cause; nothing stays open; nothing
// hangs.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coll_faulty.h"
#include "coll_fixture.h"
#include "coll_streaming.h"
#include "faults.h"
#include "harness.h"

enum { COUNT = 1000, DEADLINE_MS = 250 };

typedef struct arrays {
    float values[FIXTURE_RANKS][COUNT];
} arrays;

static kiln_coll_call all_reduce(arrays *data, uint32_t rank)
{
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    call.algorithm = KILN_COLL_ALL_REDUCE_RING;
    call.dtype = KILN_DTYPE_F32;
    call.count = COUNT;
    call.input = (kiln_coll_buffer *)data->values[rank];
    call.output = call.input;
    return call;
}

/// Starts a call and waits for it.
static kiln_status run_call(kiln_coll_member *member, const kiln_coll_call *call, kiln_error *err)
{
    kiln_coll_request *request = NULL;
    kiln_status status = kiln_coll_start(member, call, &request, err);
    return request != NULL ? kiln_coll_wait(request, err) : status;
}

static void fill_calls(arrays *data, uint32_t ranks, kiln_coll_call *out_calls)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (int i = 0; i < COUNT; i++) {
            data->values[rank][i] = (float)(rank + 1);
        }
        out_calls[rank] = all_reduce(data, rank);
    }
}

static void check_poisoned(fixture *fix, kiln_status code, int32_t rank, const char *part)
{
    kiln_error err = KILN_ERROR_INIT;
    int32_t failed = -2;
    KILN_CHECK_INT(kiln_coll_group_status(fix->group, &failed, &err), code);
    KILN_CHECK_INT(failed, rank);
    KILN_CHECK_CONTAINS(err.message, part);
}

/// All ranks have the status and the words of the group's failure.
static void check_same(fixture *fix, const kiln_status *status, const kiln_error *errors)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status code = kiln_coll_group_status(fix->group, NULL, &err);
    for (uint32_t i = 0; i < fix->ranks; i++) {
        KILN_CHECK_INT(status[i], code);
        KILN_CHECK_STR(errors[i].message, err.message);
    }
}

static void test_sound_group(void)
{
    static arrays data;
    fixture fix;
    kiln_coll_call calls[3];
    kiln_status status[3];
    if (fixture_init(&fix, 3, DEADLINE_MS, NULL)) {
        int32_t failed = -2;
        int events[3] = {-1, -1, -1};
        fill_calls(&data, 3, calls);
        for (int i = 0; i < 3; i++) {
            calls[i].event = &events[i];
        }
        fixture_run(&fix, calls, status, NULL);
        for (int i = 0; i < 3; i++) {
            KILN_CHECK_INT(status[i], KILN_STATUS_OK);
            KILN_CHECK_INT(events[i], KILN_STATUS_OK);
            KILN_CHECK(data.values[i][COUNT - 1] == 6.0f);
        }
        KILN_CHECK_INT(kiln_coll_group_status(fix.group, &failed, NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(failed, -1);
    }
    fixture_fini(&fix);
}

/// Rank 1 comes after the deadline; the others know by then, and it learns the same at once.
static void test_late_rank(void)
{
    static arrays data;
    fixture fix;
    kiln_coll_call calls[3];
    kiln_error errors[3] = {KILN_ERROR_INIT, KILN_ERROR_INIT, KILN_ERROR_INIT};
    kiln_status status[3];
    kiln_coll_request *requests[3] = {NULL, NULL, NULL};
    bool ok = fixture_init(&fix, 3, DEADLINE_MS, NULL);
    fill_calls(&data, 3, calls);
    uint64_t begin = kiln_time_ns();
    for (int i = 0; i < 3 && ok; i += 2) {
        KILN_CHECK_INT(kiln_coll_start(fix.members[i], &calls[i], &requests[i], NULL), 0);
    }
    for (int i = 0; i < 3 && ok; i += 2) {
        status[i] = kiln_coll_wait(requests[i], &errors[i]);
    }
    uint64_t waited_ms = (kiln_time_ns() - begin) / 1000000;
    KILN_CHECK(waited_ms >= DEADLINE_MS - 1 && waited_ms < DEADLINE_MS + 1000);
    status[1] = run_call(fix.members[1], &calls[1], &errors[1]);
    check_same(&fix, status, errors);
    check_poisoned(&fix, KILN_STATUS_DEADLINE_EXCEEDED, 1, "rank 1: did not come to call 1");
    KILN_CHECK(data.values[0][0] == 1.0f); // nothing was touched
    fixture_fini(&fix);
}

/// Rank 1 calls twice where the others call once: the first call is whole, the second ends at the
/// deadline and names one that did not come.
static void test_duplicate_call(void)
{
    static arrays data;
    fixture fix;
    kiln_coll_call calls[3];
    kiln_status status[3];
    kiln_error errors[3] = {KILN_ERROR_INIT, KILN_ERROR_INIT, KILN_ERROR_INIT};
    kiln_coll_request *again = NULL;
    if (fixture_init(&fix, 3, DEADLINE_MS, NULL)) {
        fill_calls(&data, 3, calls);
        fixture_run(&fix, calls, status, NULL);
        KILN_CHECK_INT(status[0] | status[1] | status[2], KILN_STATUS_OK);
        KILN_CHECK(data.values[2][5] == 6.0f);
        KILN_CHECK_INT(kiln_coll_start(fix.members[1], &calls[1], &again, NULL), 0);
        KILN_CHECK_INT(kiln_coll_wait(again, &errors[1]), KILN_STATUS_DEADLINE_EXCEEDED);
        status[1] = KILN_STATUS_DEADLINE_EXCEEDED;
        status[0] = run_call(fix.members[0], &calls[0], &errors[0]);
        status[2] = run_call(fix.members[2], &calls[2], &errors[2]);
        check_same(&fix, status, errors);
        check_poisoned(&fix, KILN_STATUS_DEADLINE_EXCEEDED, 0, "did not come to call 2");
    }
    fixture_fini(&fix);
}

static void test_rank_that_left(void)
{
    static arrays data;
    fixture fix;
    kiln_coll_call calls[4];
    kiln_error err = KILN_ERROR_INIT;
    bool ok = fixture_init(&fix, 4, 60000, NULL);
    fill_calls(&data, 4, calls);
    kiln_coll_request *request = NULL;
    KILN_CHECK_INT(ok ? kiln_coll_start(fix.members[0], &calls[0], &request, NULL) : 1, 0);
    kiln_coll_member_destroy(fix.members[2]);
    fix.members[2] = NULL;
    KILN_CHECK_INT(kiln_coll_wait(request, &err), KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(err.message, "rank 2: left before call 1");
    KILN_CHECK_INT(run_call(fix.members[1], &calls[1], NULL), KILN_STATUS_UNAVAILABLE);
    fixture_fini(&fix);
}

static void test_leaving_with_calls_pending(void)
{
    static arrays data;
    fixture fix;
    kiln_coll_call calls[2];
    kiln_coll_request *requests[3] = {NULL, NULL, NULL};
    bool ok = fixture_init(&fix, 2, 60000, NULL);
    fill_calls(&data, 2, calls);
    for (int i = 0; i < 3 && ok; i++) {
        KILN_CHECK_INT(kiln_coll_start(fix.members[0], &calls[0], &requests[i], NULL), 0);
    }
    KILN_CHECK(!kiln_coll_ended(requests[2]));
    kiln_coll_member_destroy(fix.members[0]);
    fix.members[0] = NULL;
    for (int i = 0; i < 3; i++) {
        KILN_CHECK(kiln_coll_ended(requests[i]));
        KILN_CHECK_INT(kiln_coll_wait(requests[i], NULL), KILN_STATUS_CANCELLED);
    }
    check_poisoned(&fix, KILN_STATUS_CANCELLED, 0, "left with calls pending");
    KILN_CHECK_INT(run_call(fix.members[1], &calls[1], NULL), KILN_STATUS_CANCELLED);
    fixture_fini(&fix);
}

// ---- ranks that disagree ----

static void change_op(kiln_coll_call *call)
{
    call->op = KILN_COLL_MAX;
}

static void change_dtype(kiln_coll_call *call)
{
    call->dtype = KILN_DTYPE_I32;
}

static void change_count(kiln_coll_call *call)
{
    call->count--;
}

static void change_algorithm(kiln_coll_call *call)
{
    call->algorithm = KILN_COLL_ALL_REDUCE_CENTRALISED;
}

static void change_kind(kiln_coll_call *call)
{
    call->kind = KILN_COLL_BROADCAST;
    call->algorithm = KILN_COLL_AUTO;
}

static void change_root(kiln_coll_call *call)
{
    call->kind = KILN_COLL_REDUCE;
    call->algorithm = KILN_COLL_AUTO;
    call->root = 1;
}

static void change_shape(kiln_coll_call *call)
{
    call->tag = 17;
}

static void test_disagreement(void)
{
    static void (*const changes[])(kiln_coll_call *) = {
        change_op,   change_dtype, change_count, change_algorithm,
        change_kind, change_shape, change_root};
    static arrays data;
    for (size_t c = 0; c < sizeof(changes) / sizeof(changes[0]); c++) {
        fixture fix;
        kiln_coll_call calls[3];
        kiln_status status[3];
        kiln_error errors[3];
        if (fixture_init(&fix, 3, 60000, NULL)) {
            fill_calls(&data, 3, calls);
            if (changes[c] == change_root) {
                for (int i = 0; i < 3; i++) {
                    change_root(&calls[i]);
                }
                calls[1].root = 2;
            } else {
                changes[c](&calls[1]);
            }
            fixture_run(&fix, calls, status, errors);
            check_same(&fix, status, errors);
            KILN_CHECK_INT(status[0], KILN_STATUS_INVALID_ARGUMENT);
            KILN_CHECK_CONTAINS(errors[0].message, "call 1 is");
            KILN_CHECK(data.values[0][0] == 1.0f && data.values[1][0] == 2.0f);
        }
        fixture_fini(&fix);
    }
}

static void test_bad_calls(void)
{
    static arrays data;
    fixture fix;
    bool ok = fixture_init(&fix, 2, DEADLINE_MS, NULL);
    kiln_coll_call call = all_reduce(&data, 0);
    enum { BAD = 12 };
    kiln_coll_call bad[BAD];
    for (int i = 0; i < BAD; i++) {
        bad[i] = call;
    }
    bad[0].struct_size = 8;
    bad[1].kind = KILN_COLL_KIND_COUNT;
    bad[2].op = KILN_COLL_OP_COUNT;
    bad[3].dtype = KILN_DTYPE_BOOL;
    bad[4].root = 2;
    bad[5].count = UINT64_MAX / 2;
    bad[6].output = NULL;
    bad[7].algorithm = KILN_COLL_BROADCAST_TREE;
    for (int i = 8; i < BAD; i++) {
        bad[i].algorithm = KILN_COLL_AUTO;
    }
    bad[8].kind = KILN_COLL_ALL_TO_ALL; // its output is its input
    bad[9].kind = KILN_COLL_SEND; // to itself
    bad[10].kind = KILN_COLL_RECEIVE;
    bad[10].root = 1;
    bad[10].output = NULL;
    bad[11].kind = KILN_COLL_SCATTER;
    bad[11].input = NULL;
    for (int i = 0; i < BAD && ok; i++) {
        kiln_coll_request *request = NULL;
        kiln_error err = KILN_ERROR_INIT;
        KILN_CHECK_INT(kiln_coll_start(fix.members[0], &bad[i], &request, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK(request == NULL && err.message[0] != 0);
    }
    KILN_CHECK_INT(kiln_coll_group_status(fix.group, NULL, NULL), KILN_STATUS_OK);
    fixture_fini(&fix);
}

/// A message of a send waits where another call's is due, as between processes, where a send does
/// not wait for its receive.
static void test_pair_among_other_calls(void)
{
    static arrays data;
    fixture fix;
    kiln_coll_call calls[2];
    kiln_status status[2];
    kiln_error errors[2];
    kiln_coll_message message = {.sender = 1,
                                 .peer = 0,
                                 .sequence = KILN_COLL_PAIR,
                                 .data = data.values[2],
                                 .bytes = sizeof(data.values[2])};
    if (fixture_init_delayed(&fix, 2, 60000, /*delay_us=*/1, NULL)) {
        fill_calls(&data, 2, calls);
        kiln_coll_hub_deliver(fix.hub, &message);
        fixture_run(&fix, calls, status, errors);
        check_same(&fix, status, errors);
        check_poisoned(&fix, KILN_STATUS_INVALID_ARGUMENT, 0, "come between other calls");
        KILN_CHECK(kiln_coll_hub_delivered(fix.hub, &message));
    }
    fixture_fini(&fix);
}

static void test_bad_groups(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_coll_group *group = NULL;
    kiln_coll_member *member = NULL;
    kiln_coll_member *again = NULL;
    kiln_coll_memory *memory = NULL;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    KILN_CHECK_INT(kiln_coll_group_create(&env, &options, &group, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    options.ranks = 100000;
    KILN_CHECK_INT(kiln_coll_group_create(&env, &options, &group, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    options.ranks = 2;
    options.select = "all_reduce:quickly";
    KILN_CHECK_INT(kiln_coll_group_create(&env, &options, &group, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    options.select = "all_reduce:ring";
    KILN_CHECK_INT(kiln_coll_group_create(&env, &options, &group, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_coll_host_memory_create(&env, &memory, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_coll_member_create(group, 2, memory, NULL, &member, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_coll_member_create(group, 1, memory, NULL, &member, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_coll_member_create(group, 1, memory, NULL, &again, NULL),
                   KILN_STATUS_ALREADY_EXISTS);
    kiln_coll_group_destroy(group); // the member holds it
    kiln_coll_member_destroy(member);
    kiln_coll_member_destroy(NULL);
    kiln_coll_group_destroy(NULL);
    kiln_coll_host_memory_destroy(memory);
}

// ---- memories that fail ----

typedef struct faulty_case {
    kiln_coll_algorithm algorithm;
    kiln_dtype dtype;
    uint32_t delay_us; ///< of the transport
} faulty_case;

static const faulty_case ring_f32 = {KILN_COLL_ALL_REDUCE_RING, KILN_DTYPE_F32, 0};
static const faulty_case ring_f16 = {KILN_COLL_ALL_REDUCE_RING, KILN_DTYPE_F16, 0};
static const faulty_case centralised = {KILN_COLL_ALL_REDUCE_CENTRALISED, KILN_DTYPE_BF16, 0};
static const faulty_case tree = {KILN_COLL_ALL_REDUCE_TREE, KILN_DTYPE_F16, 0};
static const faulty_case delayed = {KILN_COLL_ALL_REDUCE_RING, KILN_DTYPE_BF16, 200};
static const faulty_case doubling = {KILN_COLL_ALL_REDUCE_DOUBLING, KILN_DTYPE_F32, 0};

static void adapt(const faulty_case *what, uint32_t ranks, kiln_coll_call *calls)
{
    for (uint32_t i = 0; i < ranks; i++) {
        calls[i].algorithm = what->algorithm;
        calls[i].dtype = what->dtype;
        calls[i].op = KILN_COLL_MEAN;
    }
}

/// The k-th call into one rank's memory fails, for all k and every rank: true when k was reached.
static bool run_failing(const faulty_case *what, uint32_t failing, unsigned k)
{
    static arrays data;
    enum { RANKS = 3 };
    kiln_env env = {.allocator = kiln_allocator_default()};
    faulty_memory memories[RANKS];
    kiln_coll_memory *bases[RANKS];
    kiln_coll_call calls[RANKS] = {0};
    kiln_status status[RANKS] = {KILN_STATUS_OK};
    kiln_error errors[RANKS] = {KILN_ERROR_INIT};
    fixture fix;
    for (int i = 0; i < RANKS; i++) {
        faulty_init(&memories[i], &env);
        bases[i] = &memories[i].base;
    }
    bool ok = fixture_init_delayed(&fix, RANKS, 60000, what->delay_us, bases);
    bool reached = false;
    fill_calls(&data, RANKS, calls);
    adapt(what, RANKS, calls);
    memories[failing].fail_at = k + 1; // the first is `after` at the start, reported there
    if (ok) {
        fixture_run(&fix, calls, status, errors);
        reached = atomic_load(&memories[failing].calls) >= k + 1;
    }
    if (reached) {
        check_poisoned(&fix, KILN_STATUS_DEVICE_LOST, (int32_t)failing, "failed on purpose");
        KILN_CHECK_INT(status[failing], KILN_STATUS_DEVICE_LOST);
        for (int i = 0; i < RANKS; i++) { // one that was through before has a whole result
            bool is_whole = what->dtype != KILN_DTYPE_F32 || data.values[i][COUNT / 2] == 2.0f;
            KILN_CHECK(status[i] == KILN_STATUS_DEVICE_LOST ||
                       (status[i] == KILN_STATUS_OK && is_whole));
        }
        fixture_run(&fix, calls, status, errors);
        check_same(&fix, status, errors);
    } else {
        KILN_CHECK_INT(status[0], KILN_STATUS_OK);
    }
    fixture_fini(&fix);
    for (int i = 0; i < RANKS; i++) {
        faulty_fini(&memories[i]);
    }
    return reached;
}

static void test_failing_memory(void)
{
    for (uint32_t failing = 0; failing < 3; failing++) {
        unsigned k = 1;
        while (run_failing(kiln_test_param(), failing, k) && k < 200) {
            k++;
        }
        KILN_CHECK(k > 5 && k < 200);
    }
}

/// As run_failing, for memories that stream: the call may be of either thread, in any piece.
static bool run_failing_stream(const faulty_case *what, uint32_t failing, unsigned k)
{
    static arrays data;
    enum { RANKS = 3 };
    kiln_env env = {.allocator = kiln_allocator_default()};
    streaming_memory memories[RANKS];
    kiln_coll_memory *bases[RANKS];
    kiln_coll_call calls[RANKS] = {0};
    kiln_status status[RANKS] = {KILN_STATUS_OK};
    kiln_error errors[RANKS] = {KILN_ERROR_INIT};
    fixture fix;
    for (int i = 0; i < RANKS; i++) {
        streaming_init(&memories[i], &env);
        bases[i] = &memories[i].base;
    }
    bool reached = false;
    fill_calls(&data, RANKS, calls);
    adapt(what, RANKS, calls);
    memories[failing].fail_at = k;
    if (fixture_init_cut(&fix, RANKS, 60000, what->delay_us, bases, /*chunk_bytes=*/400)) {
        fixture_run(&fix, calls, status, errors);
        reached = atomic_load(&memories[failing].calls) >= k;
    }
    if (reached && status[failing] != KILN_STATUS_OK) {
        check_poisoned(&fix, KILN_STATUS_DEVICE_LOST, (int32_t)failing, "failed on purpose");
        fixture_run(&fix, calls, status, errors);
        check_same(&fix, status, errors);
    }
    KILN_CHECK(!reached || status[failing] == KILN_STATUS_DEVICE_LOST);
    fixture_fini(&fix);
    for (int i = 0; i < RANKS; i++) {
        streaming_fini(&memories[i]);
    }
    return reached;
}

static void test_failing_stream(void)
{
    for (uint32_t failing = 0; failing < 3; failing++) {
        unsigned k = 1;
        while (run_failing_stream(kiln_test_param(), failing, k) && k < 400) {
            k++;
        }
        KILN_CHECK(k > 20 && k < 400);
    }
}

// ---- who gives the senders' stages back ----

enum { STAGE_RANKS = 3, ACCEPTED = 8 };

/// What a rank has accepted and not released yet.
typedef struct accepted_pieces {
    kiln_coll_transport *transport;
    streaming_memory *memory;
    kiln_coll_message open[ACCEPTED];
    int early; ///< released while the memory still read from them
} accepted_pieces;

static pthread_mutex_t accepted_lock = PTHREAD_MUTEX_INITIALIZER; ///< guards `accepted`
static accepted_pieces accepted[STAGE_RANKS];
static const kiln_coll_transport_ops *delayed_ops;
static kiln_coll_transport_ops noting_ops;

static accepted_pieces *accepted_by(const kiln_coll_transport *transport)
{
    size_t rank = 0;
    while (accepted[rank].transport != transport) {
        rank++;
    }
    return &accepted[rank];
}

static kiln_status note_accept(kiln_coll_transport *transport, kiln_coll_message *message,
                               uint64_t deadline_ns, kiln_error *err)
{
    accepted_pieces *self = accepted_by(transport);
    kiln_status status = delayed_ops->accept(transport, message, deadline_ns, err);
    if (status == KILN_STATUS_OK) {
        int i = 0;
        pthread_mutex_lock(&accepted_lock);
        while (self->open[i].handle != NULL && i < ACCEPTED - 1) {
            i++;
        }
        self->open[i] = *message;
        pthread_mutex_unlock(&accepted_lock);
    }
    return status;
}

static void note_release(kiln_coll_transport *transport, kiln_coll_message *message)
{
    accepted_pieces *self = accepted_by(transport);
    pthread_mutex_lock(&accepted_lock);
    self->early += streaming_reads(self->memory, message->data);
    for (int i = 0; i < ACCEPTED; i++) {
        if (self->open[i].handle == message->handle) {
            self->open[i].handle = NULL;
        }
    }
    pthread_mutex_unlock(&accepted_lock);
    delayed_ops->release(transport, message);
}

static void note_stages(fixture *fix, streaming_memory *memories)
{
    delayed_ops = fix->transports[0].base.ops;
    noting_ops = *delayed_ops;
    noting_ops.accept = note_accept;
    noting_ops.release = note_release;
    for (int i = 0; i < STAGE_RANKS; i++) {
        accepted[i] = (accepted_pieces){&fix->transports[i].base, &memories[i], {{0}}, 0};
        fix->transports[i].base.ops = &noting_ops;
    }
}

static int count_open(void)
{
    int count = 0;
    pthread_mutex_lock(&accepted_lock);
    for (int i = 0; i < STAGE_RANKS * ACCEPTED; i++) {
        count += accepted[i / ACCEPTED].open[i % ACCEPTED].handle != NULL;
    }
    pthread_mutex_unlock(&accepted_lock);
    return count;
}

/// Every stage goes back, on a busy machine a while after the calls' results are there. What has
/// not gone back does now: its sender would wait for ever.
static bool stages_are_back(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int ms = 0; ms < 10000 && count_open() > 0; ms++) {
        nanosleep(&pause, NULL);
    }
    if (KILN_CHECK_INT(count_open(), 0)) {
        return true;
    }
    for (int i = 0; i < STAGE_RANKS * ACCEPTED; i++) {
        accepted_pieces *self = &accepted[i / ACCEPTED];
        if (self->open[i % ACCEPTED].handle != NULL) {
            delayed_ops->release(self->transport, &self->open[i % ACCEPTED]);
        }
    }
    return false;
}

/// The k-th call into rank 1's slow memory fails, and with `is_lost` all after it. True when k was
/// reached and all went well.
static bool run_stages(unsigned k, bool is_lost)
{
    static arrays data;
    enum { RANKS = STAGE_RANKS, FAILING = 1 };
    kiln_env env = {.allocator = kiln_allocator_default()};
    streaming_memory memories[RANKS];
    kiln_coll_memory *bases[RANKS];
    kiln_coll_call calls[RANKS] = {0};
    kiln_status status[RANKS] = {KILN_STATUS_OK};
    fixture fix;
    bool are_back = false;
    for (int i = 0; i < RANKS; i++) {
        streaming_init(&memories[i], &env);
        bases[i] = &memories[i].base;
    }
    fill_calls(&data, RANKS, calls);
    memories[FAILING].fail_at = k;
    memories[FAILING].is_lost_then = is_lost;
    memories[FAILING].up.pause_us = 300;
    if (fixture_init_cut(&fix, RANKS, 60000, /*delay_us=*/1, bases, /*chunk_bytes=*/400)) {
        note_stages(&fix, memories);
        fixture_run(&fix, calls, status, NULL);
        are_back = stages_are_back();
    }
    bool reached = atomic_load(&memories[FAILING].calls) >= k;
    KILN_CHECK_INT(status[FAILING], reached ? KILN_STATUS_DEVICE_LOST : KILN_STATUS_OK);
    fixture_fini(&fix);
    for (int i = 0; i < RANKS; i++) {
        KILN_CHECK_INT(accepted[i].early, 0); // none while the device could still read from it
        streaming_fini(&memories[i]);
    }
    return reached && are_back;
}

static void test_stages_go_back(void)
{
    const bool *lost = kiln_test_param();
    unsigned k = 1;
    while (run_stages(k, *lost) && k < 400) {
        k++;
    }
    KILN_CHECK(k > 20 && k < 400);
}

static const bool fails_once = false;
static const bool device_lost = true;

/// The last rank's earlier work does not end: the others name it; its end comes after the group has
/// gone.
static void test_work_that_does_not_end(void)
{
    static arrays data;
    kiln_env env = {.allocator = kiln_allocator_default()};
    faulty_memory memories[2];
    kiln_coll_memory *bases[2] = {&memories[0].base, &memories[1].base};
    kiln_coll_call calls[2];
    kiln_status status[2];
    kiln_error errors[2];
    fixture fix;
    faulty_init(&memories[0], &env);
    faulty_init(&memories[1], &env);
    memories[1].holds_after = true;
    fill_calls(&data, 2, calls);
    if (fixture_init(&fix, 2, DEADLINE_MS, bases)) {
        fixture_run(&fix, calls, status, errors);
        check_same(&fix, status, errors);
        check_poisoned(&fix, KILN_STATUS_DEADLINE_EXCEEDED, 1, "rank 1: ");
    }
    fixture_fini(&fix);
    faulty_fini(&memories[1]);
    faulty_fini(&memories[0]);
}

/// Random delays change nothing but the time.
static void test_slow_memories(void)
{
    static arrays data;
    enum { RANKS = 4 };
    kiln_env env = {.allocator = kiln_allocator_default()};
    faulty_memory memories[RANKS];
    kiln_coll_memory *bases[RANKS];
    kiln_coll_call calls[RANKS];
    kiln_status status[RANKS];
    fixture fix;
    for (int i = 0; i < RANKS; i++) {
        faulty_init(&memories[i], &env);
        memories[i].delay_us = 300;
        bases[i] = &memories[i].base;
    }
    bool ok = fixture_init(&fix, RANKS, 60000, bases);
    for (int round = 0; round < 20 && ok; round++) {
        fill_calls(&data, RANKS, calls);
        fixture_run(&fix, calls, status, NULL);
        for (int i = 0; i < RANKS; i++) {
            ok = KILN_CHECK_INT(status[i], 0) && KILN_CHECK(data.values[i][round * 7] == 10.0f);
        }
    }
    fixture_fini(&fix);
    for (int i = 0; i < RANKS; i++) {
        faulty_fini(&memories[i]);
    }
}

// ---- many calls, many threads, little memory ----

typedef struct caller {
    fixture *fix;
    uint32_t rank;
    int failures;
} caller;

/// Its own thread per rank; several calls are under way at once.
static void *call_often(void *user)
{
    caller *self = user;
    enum { DEPTH = 4, ROUNDS = 50 };
    float values[DEPTH][33];
    for (int round = 0; round < ROUNDS; round++) {
        kiln_coll_request *requests[DEPTH];
        for (int i = 0; i < DEPTH; i++) {
            kiln_coll_call call = KILN_COLL_CALL_INIT;
            for (int j = 0; j < 33; j++) {
                values[i][j] = (float)(self->rank * (uint32_t)(i + 1));
            }
            call.algorithm = (kiln_coll_algorithm)(KILN_COLL_ALL_REDUCE_CENTRALISED + i % 2);
            call.dtype = KILN_DTYPE_F32;
            call.count = 33;
            call.input = (kiln_coll_buffer *)values[i];
            call.output = call.input;
            self->failures += kiln_coll_start(self->fix->members[self->rank], &call, &requests[i],
                                              NULL) != KILN_STATUS_OK;
        }
        for (int i = DEPTH - 1; i >= 0; i--) {
            self->failures += kiln_coll_wait(requests[i], NULL) != KILN_STATUS_OK;
            self->failures += values[i][32] != (float)(10 * (i + 1));
        }
    }
    return NULL;
}

static void test_threads(void)
{
    enum { RANKS = 5 };
    fixture fix;
    pthread_t threads[RANKS];
    caller callers[RANKS];
    if (fixture_init(&fix, RANKS, 60000, NULL)) {
        for (uint32_t i = 0; i < RANKS; i++) {
            callers[i] = (caller){.fix = &fix, .rank = i, .failures = 0};
            KILN_CHECK_INT(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
        }
        for (uint32_t i = 0; i < RANKS; i++) {
            pthread_join(threads[i], NULL);
            KILN_CHECK_INT(callers[i].failures, 0);
        }
    }
    fixture_fini(&fix);
}

/// One group of two ranks from beginning to end; the first failure's status.
static kiln_status whole_life(const kiln_env *env, arrays *data)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_coll_group *group = NULL;
    kiln_coll_memory *memory = NULL;
    kiln_coll_member *members[2] = {NULL, NULL};
    kiln_coll_request *requests[2] = {NULL, NULL};
    kiln_status status = KILN_STATUS_OK;
    options.ranks = 2;
    options.deadline_ns = 20000000;
    options.select = "all_reduce:ring";
    KILN_TRY(out, status, kiln_coll_group_create(env, &options, &group, NULL));
    KILN_TRY(out, status, kiln_coll_host_memory_create(env, &memory, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        KILN_TRY(out, status, kiln_coll_member_create(group, i, memory, NULL, &members[i], NULL));
    }
    for (uint32_t i = 0; i < 2; i++) {
        kiln_coll_call call = all_reduce(data, i);
        KILN_TRY(out, status, kiln_coll_start(members[i], &call, &requests[i], NULL));
    }
out:
    for (int i = 0; i < 2; i++) {
        kiln_status ended = requests[i] == NULL ? status : kiln_coll_wait(requests[i], NULL);
        status = status == KILN_STATUS_OK ? ended : status;
    }
    for (int i = 0; i < 2; i++) {
        kiln_coll_member_destroy(members[i]);
    }
    kiln_coll_host_memory_destroy(memory);
    kiln_coll_group_destroy(group);
    return status;
}

static void test_no_memory(void)
{
    static arrays data;
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    size_t runs = 0;
    for (size_t k = 1; kiln_faults_next(&faults, k); k++, runs++) {
        kiln_status status = whole_life(&env, &data);
        bool failed = atomic_load(&faults.requests) >= k;
        KILN_CHECK_INT(status, failed ? KILN_STATUS_RESOURCE_EXHAUSTED : KILN_STATUS_OK);
    }
    KILN_CHECK(runs > 12);
}

KILN_TEST_MAIN("collective/failures", KILN_TEST(test_sound_group), KILN_TEST(test_late_rank),
               KILN_TEST(test_duplicate_call), KILN_TEST(test_rank_that_left),
               KILN_TEST(test_leaving_with_calls_pending), KILN_TEST(test_disagreement),
               KILN_TEST(test_bad_calls), KILN_TEST(test_bad_groups),
               KILN_TEST(test_pair_among_other_calls),
               KILN_TEST_PARAM(test_failing_memory, "failing memory, ring f32", &ring_f32),
               KILN_TEST_PARAM(test_failing_memory, "failing memory, ring f16", &ring_f16),
               KILN_TEST_PARAM(test_failing_memory, "failing memory, centralised", &centralised),
               KILN_TEST_PARAM(test_failing_memory, "failing memory, tree", &tree),
               KILN_TEST_PARAM(test_failing_memory, "failing memory, doubling", &doubling),
               KILN_TEST_PARAM(test_failing_memory, "failing memory, delays", &delayed),
               KILN_TEST_PARAM(test_failing_stream, "failing stream, ring", &ring_f32),
               KILN_TEST_PARAM(test_failing_stream, "failing stream, centralised", &centralised),
               KILN_TEST_PARAM(test_stages_go_back, "stages go back", &fails_once),
               KILN_TEST_PARAM(test_stages_go_back, "stages go back, device lost", &device_lost),
               KILN_TEST(test_work_that_does_not_end), KILN_TEST(test_slow_memories),
               KILN_TEST(test_threads), KILN_TEST(test_no_memory))
