// SPDX-License-Identifier: MIT OR Apache-2.0
// One session's long Run beside other sessions, and without its client: others have their turns,
// and what was not launched waits for the client or is dropped.

#include "remote_fixture.h"
#include "rpc_server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOATS = 256 * 1024 / PATIENCE, STEPS = 60 };

static uint64_t operations_of(const pair *self)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(self->local, &stats);
    return stats.ops_recorded;
}

static uint32_t sessions_of(const pair *self)
{
    kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
    kiln_rpc_server_stats_get(self->server, &stats);
    return stats.sessions;
}

static bool open_server(pair *self, uint32_t resume_seconds)
{
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.resume_seconds = resume_seconds;
    return pair_context(self) && PAIR_OK(self, kiln_rpc_server_create(&self->local, 1, &options,
                                                                      &self->server, &self->err));
}

/// Buffer 2 will be that of ones, after STEPS negations in one Run.
static void run_long(hand *client)
{
    kiln_tensor_desc values[STEPS + 1];
    kiln_op_record records[STEPS];
    const float one = 1;
    hand_write(client, 1, 0, sizeof(float) * FLOATS, &one, sizeof(one)); // the rest is zeros
    for (int i = 0; i <= STEPS; i++) {
        values[i] = hand_floats((uint64_t)i + 1, FLOATS);
    }
    for (int i = 0; i < STEPS; i++) {
        records[i] = (kiln_op_record){.op = KILN_OP_NEG,
                                      .n_inputs = 1,
                                      .n_outputs = 1,
                                      .inputs = &values[i],
                                      .outputs = &values[i + 1]};
    }
    hand_run(client, records, STEPS, 1, 2, 0);
}

/// Until some operations of the Run have been launched.
static void await_operations(const pair *self, uint64_t count)
{
    for (int i = 0; i < 4000 * PATIENCE && operations_of(self) < count; i++) {
        pause_us(5000);
    }
    KILN_CHECK(operations_of(self) >= count);
}

static void hang_up(hand *client)
{
    kilni_rpc_cancel(client->stream);
    hand_close(client);
}

static void test_others_do_not_wait_for_a_run(void)
{
    pair self;
    hand heavy;
    hand light;
    const float value = 3;
    if (!open_server(&self, 0) || !hand_open(&heavy, &self) || !hand_open(&light, &self)) {
        return;
    }
    uint64_t begun = kiln_time_ns();
    run_long(&heavy);
    await_operations(&self, 2);
    uint64_t asked = kiln_time_ns();
    hand_write(&light, 1, 0, 4, &value, 4);
    hand_negate(&light, 1, 1, 2);
    if (KILN_CHECK_INT(hand_read(&light, 2, 0, 4), KILN_STATUS_OK)) {
        KILN_CHECK(hand_float(light.frame->data, 0) == -3);
    }
    uint64_t answered = kiln_time_ns();
    KILN_CHECK_INT(hand_fence(&heavy), KILN_STATUS_OK);
    uint64_t done = kiln_time_ns();
    printf("    a short answer took %.0f ms, beside a Run of %.0f ms\n",
           (double)(answered - asked) / 1e6, (double)(done - begun) / 1e6);
    KILN_CHECK(answered - asked < (done - begun) / 2);
    if (KILN_CHECK_INT(hand_read(&heavy, 2, 0, 4), KILN_STATUS_OK)) {
        KILN_CHECK(hand_float(heavy.frame->data, 0) == 1);
    }
    hand_close(&heavy);
    hand_close(&light);
    pair_close(&self);
}

/// A session that cannot resume ends with its connection.
static void test_work_of_the_gone_is_dropped(void)
{
    pair self;
    hand client;
    if (!open_server(&self, 0) || !hand_open(&client, &self)) {
        return;
    }
    run_long(&client);
    await_operations(&self, 2);
    hang_up(&client);
    for (int i = 0; i < 2000 * PATIENCE && sessions_of(&self) > 0; i++) {
        pause_us(5000);
    }
    KILN_CHECK_INT(sessions_of(&self), 0);
    printf("    %llu of %d operations were launched\n", (unsigned long long)operations_of(&self),
           STEPS);
    KILN_CHECK(operations_of(&self) < STEPS * 3 / 4);
    pair_close(&self);
}

/// One that can waits with the rest: nothing is lost and nothing is done twice.
static void test_work_waits_for_its_client(void)
{
    pair self;
    hand client;
    if (!open_server(&self, 0) || !hand_greet(&client, &self, /*resumable=*/true)) {
        return;
    }
    const kiln_v1_Welcome welcome = client.frame->body.body.welcome;
    run_long(&client);
    await_operations(&self, 2);
    hang_up(&client);
    uint64_t launched = operations_of(&self);
    for (uint64_t before = 0; before != launched;) { // until the slice that ran has ended
        pause_us(300000 * PATIENCE);
        before = launched;
        launched = operations_of(&self);
    }
    pause_us(300000);
    KILN_CHECK_INT(operations_of(&self), launched);
    KILN_CHECK(launched < STEPS * 3 / 4);
    KILN_CHECK_INT(sessions_of(&self), 1);
    kilni_rpc_frame hello = {0};
    hello.body.which_body = kiln_v1_Frame_hello_tag;
    hello.body.body.hello = (kiln_v1_Hello){
        .version = KILNI_RPC_VERSION, .resumable = true, .session = welcome.session};
    hello.body.body.hello.token.size = welcome.token.size;
    memcpy(hello.body.body.hello.token.bytes, welcome.token.bytes, welcome.token.size);
    uint32_t code = KILN_STATUS_ABORTED;
    // While the rest is done, it is to come again.
    for (int i = 0; i < 120 * PATIENCE && code != 0; i++) {
        code = hand_connect(&client, &self) ? hand_try(&client, &hello) : UINT32_MAX;
        if (code != 0) {
            hand_close(&client);
        }
    }
    if (KILN_CHECK_INT(code, 0)) {
        KILN_CHECK_INT(client.frame->body.body.welcome.session, welcome.session);
        KILN_CHECK_INT(client.frame->body.body.welcome.received, 2);
        if (KILN_CHECK_INT(hand_read(&client, 2, 0, 4), KILN_STATUS_OK)) {
            KILN_CHECK(hand_float(client.frame->data, 0) == 1);
        }
        hand_close(&client);
    }
    pair_close(&self);
}

static void test_work_is_dropped_with_its_session(void)
{
    pair self;
    hand client;
    if (!open_server(&self, /*resume_seconds=*/1) ||
        !hand_greet(&client, &self, /*resumable=*/true)) {
        return;
    }
    run_long(&client);
    await_operations(&self, 2);
    hang_up(&client);
    for (int i = 0; i < 1000 * PATIENCE && sessions_of(&self) > 0; i++) {
        pause_us(5000);
    }
    KILN_CHECK_INT(sessions_of(&self), 0);
    KILN_CHECK(operations_of(&self) < STEPS * 3 / 4);
    pair_close(&self);
}

/// A server that is to end does not wait for a client that has gone.
static void test_the_end_does_not_wait(void)
{
    pair self;
    hand client;
    if (!open_server(&self, 0) || !hand_greet(&client, &self, /*resumable=*/true)) {
        return;
    }
    run_long(&client);
    await_operations(&self, 2);
    hang_up(&client);
    KILN_CHECK(kiln_rpc_server_drain(self.server, 5000 * PATIENCE));
    uint64_t begun = kiln_time_ns();
    kiln_rpc_server_destroy(self.server);
    KILN_CHECK(kiln_time_ns() - begun < UINT64_C(5000000000) * PATIENCE);
    self.server = NULL;
    pair_close(&self);
}

static void *destroy_server(void *server)
{
    kiln_rpc_server_destroy(server);
    return NULL;
}

static uint64_t raw_bytes_of(const pair *self)
{
    kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
    kiln_rpc_server_stats_get(self->server, &stats);
    return stats.raw_bytes;
}

/// The test has the device when the server is to end, and Runs of several sessions wait for it.
static void test_the_end_begins_nothing(void)
{
    enum { CLIENTS = 4 };
    pair self;
    hand clients[CLIENTS];
    pthread_t end;
    kilni_rpc_lane *lane = NULL;
    const float value = 3;
    if (!open_server(&self, 0) ||
        !PAIR_OK(&self, kilni_rpc_lane_join(self.server->turns[0], &self, 1, &lane, &self.err))) {
        return;
    }
    kilni_rpc_turn_take(lane);
    for (int i = 0; i < CLIENTS; i++) {
        if (!hand_greet(&clients[i], &self, /*resumable=*/i % 2 == 0)) {
            return;
        }
        hand_write(&clients[i], 1, 0, 4, &value, 4);
        hand_negate(&clients[i], 1, 1, 2);
    }
    for (int i = 0; i < 4000 * PATIENCE && raw_bytes_of(&self) < CLIENTS * sizeof(value); i++) {
        pause_us(5000);
    }
    pause_us(50000); // most Runs came as well; the rest comes too late
    pthread_mutex_lock(&self.server->lock); // or the server would be gone before the lane
    if (KILN_CHECK_INT(pthread_create(&end, NULL, destroy_server, self.server), 0)) {
        while (!atomic_load(&self.server->stopping)) {
            pause_us(1000);
        }
        kilni_rpc_turn_give(lane);
        kilni_rpc_lane_leave(lane);
        pthread_mutex_unlock(&self.server->lock);
        (void)pthread_join(end, NULL);
        self.server = NULL;
        KILN_CHECK_INT(operations_of(&self), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        hand_close(&clients[i]);
    }
    pair_close(&self);
}

/// What was recorded and not launched yet is not launched for the end's sake.
static void test_the_end_launches_nothing(void)
{
    pair self;
    hand client;
    const float value = 3;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    if (!open_server(&self, 0) || !hand_greet(&client, &self, /*resumable=*/true)) {
        return;
    }
    hand_write(&client, 1, 0, 4, &value, 4);
    hand_negate(&client, 1, 1, 2);
    await_operations(&self, 1);
    kiln_rpc_server_destroy(self.server);
    self.server = NULL;
    kiln_device_stats_get(self.local, &stats);
    KILN_CHECK_INT(stats.backend.ops_executed, 0);
    hand_close(&client);
    pair_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/pace", KILN_TEST(test_others_do_not_wait_for_a_run),
               KILN_TEST(test_work_of_the_gone_is_dropped),
               KILN_TEST(test_work_waits_for_its_client),
               KILN_TEST(test_work_is_dropped_with_its_session),
               KILN_TEST(test_the_end_does_not_wait), KILN_TEST(test_the_end_begins_nothing),
               KILN_TEST(test_the_end_launches_nothing))
