// SPDX-License-Identifier: MIT OR Apache-2.0
// What a server answers while somebody has its device for long: who compiles, or runs a long
// operation. The test has the device's lock in that one's place, so all that asks for it waits.

#include "remote_fixture.h"
#include "rpc_ask.h"
#include "rt_device.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>

enum { TRIES = 6, PATIENCE_MS = 60000 };

static bool open_server(pair *self, uint32_t resume_seconds)
{
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.resume_seconds = resume_seconds;
    return pair_context(self) && PAIR_OK(self, kiln_rpc_server_create(&self->local, 1, &options,
                                                                      &self->server, &self->err));
}

static void occupy(const pair *self)
{
    pthread_mutex_lock(&kilni_core(self->local)->lock);
}

static void leave(const pair *self)
{
    pthread_mutex_unlock(&kilni_core(self->local)->lock);
}

static bool address_of(pair *self, kilni_rpc_address *out_address)
{
    return PAIR_OK(self, kilni_rpc_address_parse(kiln_rpc_server_address(self->server, 0),
                                                 out_address, &self->err));
}

/// An answer is given up after 5 s, and a loaded machine may need more: several may be asked for.
static bool ask(pair *self, const char *method, kilni_wire_piece *out_reply)
{
    const kiln_env *env = kiln_context_env(self->context);
    kilni_rpc_address address;
    kiln_status status = KILN_STATUS_DEADLINE_EXCEEDED;
    if (!address_of(self, &address)) {
        return false;
    }
    for (int i = 0; i < TRIES && status == KILN_STATUS_DEADLINE_EXCEEDED; i++) {
        status = kilni_rpc_ask(env, &address, NULL, method, out_reply, &self->err);
    }
    return PAIR_OK(self, status);
}

static void test_a_greeting_does_not_wait(void)
{
    pair self;
    hand client;
    if (!open_server(&self, 0)) {
        return;
    }
    occupy(&self);
    bool greeted = hand_open(&client, &self);
    leave(&self);
    if (greeted) {
        const kiln_v1_Welcome *welcome = &client.frame->body.body.welcome;
        KILN_CHECK((welcome->storage_dtypes >> KILN_DTYPE_F32 & 1) == 1);
        KILN_CHECK((welcome->arithmetic_dtypes >> KILN_DTYPE_F32 & 1) == 1);
    }
    hand_close(&client);
    pair_close(&self);
}

static uint64_t number_in(kilni_wire_piece message, uint32_t number)
{
    kilni_wire_field field;
    while (kilni_wire_take(&message, &field)) {
        if (field.number == number && !field.is_bytes) {
            return field.value;
        }
    }
    return 0;
}

/// Info tells what was recorded before, and how many sessions there are now.
static void test_info_and_health_do_not_wait(void)
{
    enum { LOAD = 8, SESSIONS = 1, OPERATIONS = 4 }; // of InfoResponse
    pair self;
    hand client;
    const float x = 3;
    kilni_wire_piece reply = {NULL, 0};
    kiln_device_stats before = KILN_DEVICE_STATS_INIT;
    if (!open_server(&self, 0) || !hand_open(&client, &self)) {
        return;
    }
    const kiln_env *env = kiln_context_env(self.context);
    hand_write(&client, 1, 0, 4, &x, 4);
    hand_negate(&client, 1, 1, 2);
    KILN_CHECK_INT(hand_read(&client, 2, 0, 4), 0);
    kiln_device_stats_peek(self.local, &before);
    KILN_CHECK(before.ops_recorded > 0);
    occupy(&self);
    if (ask(&self, KILNI_RPC_INFO, &reply)) {
        kilni_wire_piece load = kilni_wire_get(reply, LOAD);
        KILN_CHECK_INT(number_in(load, SESSIONS), 1);
        KILN_CHECK_INT(number_in(load, OPERATIONS), before.ops_recorded);
        kiln_free(env, (void *)(uintptr_t)reply.bytes);
    }
    if (ask(&self, "/grpc.health.v1.Health/Check", &reply)) {
        KILN_CHECK(reply.length == 2 && reply.bytes[0] == 8 && reply.bytes[1] == 1);
        kiln_free(env, (void *)(uintptr_t)reply.bytes);
    }
    leave(&self);
    hand_close(&client);
    pair_close(&self);
}

/// The next state that a watch is told; 0: none.
static int next_state(pair *self, kilni_rpc_stream *watch)
{
    char state[2] = {0, 0};
    kilni_rpc_message message = {0};
    bool end = false;
    if (PAIR_OK(self, kilni_rpc_receive(watch, PATIENCE_MS, &message, &end, &self->err)) &&
        KILN_CHECK(!end && message.length == sizeof(state))) {
        kilni_rpc_message_copy(&message, 0, sizeof(state), state);
    }
    kilni_rpc_message_free(&message);
    return state[1];
}

/// Until nobody serves any session; `all`: until there is none.
static void await_sessions(const pair *self, bool all)
{
    kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
    bool over = false;
    for (int i = 0; i < PATIENCE_MS / 5 && !over; i++) {
        kiln_rpc_server_stats_get(self->server, &stats);
        over = stats.sessions == (all ? 0 : stats.detached);
        pause_us(5000);
    }
    KILN_CHECK(over);
}

/// A session that nobody came back for ends, which takes the device; meanwhile a watch is told.
static void test_who_watches_does_not_wait(void)
{
    pair self;
    hand client;
    kilni_rpc_address address;
    kilni_rpc_stream *watch = NULL;
    if (!open_server(&self, /*resume_seconds=*/2) || !hand_greet(&client, &self, true) ||
        !address_of(&self, &address)) {
        return;
    }
    kilni_rpc_cancel(client.stream);
    hand_close(&client);
    await_sessions(&self, false);
    occupy(&self);
    await_sessions(&self, true);
    if (PAIR_OK(&self, kilni_rpc_connect(kiln_context_env(self.context), &address, NULL,
                                         "/grpc.health.v1.Health/Watch", PATIENCE_MS, &watch,
                                         &self.err))) {
        PAIR_OK(&self, kilni_rpc_send_bytes(watch, "", 0, &self.err));
        KILN_CHECK_INT(next_state(&self, watch), 1);
        KILN_CHECK(kiln_rpc_server_drain(self.server, 0));
        KILN_CHECK_INT(next_state(&self, watch), 2);
    }
    leave(&self);
    kilni_rpc_stream_close(watch, NULL);
    pair_close(&self);
}

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *each; tasks != NULL && (each = readdir(tasks)) != NULL;) {
        count += each->d_name[0] != '.';
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return count;
}

/// Who waited for a call answers it: others wait in its stead, as many as there are calls, and end
/// when nobody calls. Some are left, and answer.
static void test_threads_come_and_go(void)
{
    enum { MANY = 12, ROUNDS = 2 };
    static hand clients[MANY];
    pair self;
    kilni_wire_piece reply = {NULL, 0};
    if (!open_server(&self, 0)) {
        return;
    }
    for (int round = 0; round < ROUNDS; round++) {
        int opened = 0;
        while (opened < MANY && hand_open(&clients[opened], &self)) {
            opened++;
        }
        KILN_CHECK_INT(opened, MANY);
        int most = threads();
        for (int i = 0; i < opened; i++) {
            hand_close(&clients[i]);
        }
        for (int i = 0; i < PATIENCE_MS / 5 && threads() > most - MANY / 2; i++) {
            pause_us(5000);
        }
        KILN_CHECK(threads() <= most - MANY / 2); // gRPC has some of its own
        if (ask(&self, "/grpc.health.v1.Health/Check", &reply)) {
            kiln_free(kiln_context_env(self.context), (void *)(uintptr_t)reply.bytes);
        }
    }
    pair_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/busy", KILN_TEST(test_a_greeting_does_not_wait),
               KILN_TEST(test_info_and_health_do_not_wait),
               KILN_TEST(test_who_watches_does_not_wait), KILN_TEST(test_threads_come_and_go))
