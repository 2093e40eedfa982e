// SPDX-License-Identifier: MIT OR Apache-2.0
// Collective rows over the wire: two sessions on two devices of a server, each of which runs its
// member's part in a group that the serving process has made; and what they read when one does not
// come, or names what is not there.
#include <stdio.h>
#include <string.h>

#include "collective.h"
#include "kiln.h"
#include "remote_fixture.h"

enum { MEMBERS = 2, COUNT = 4 };

typedef struct served {
    pair peers;
    kiln_device *second;
    kiln_collective *group;
    hand clients[MEMBERS];
} served;

static bool served_open(served *self, uint64_t deadline_ns)
{
    pair *peers = &self->peers;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    memset(self, 0, sizeof(*self));
    bool ok = pair_context(peers) && PAIR_OK(peers, kiln_device_open(peers->context, "reference:1",
                                                                     &self->second, &peers->err));
    kiln_device *devices[MEMBERS] = {peers->local, self->second};
    ok = ok &&
         PAIR_OK(peers,
                 kiln_rpc_server_create(devices, MEMBERS, NULL, &peers->server, &peers->err)) &&
         PAIR_OK(peers,
                 kiln_collective_create(devices, MEMBERS, &options, &self->group, &peers->err));
    for (uint32_t i = 0; i < MEMBERS && ok; i++) {
        ok = hand_open_device(&self->clients[i], peers, i);
    }
    return ok;
}

static void served_close(served *self)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        hand_close(&self->clients[i]);
    }
    kiln_collective_destroy(self->group);
    kiln_rpc_server_destroy(self->peers.server);
    self->peers.server = NULL;
    kiln_device_release(self->second);
    pair_close(&self->peers);
}

/// Buffer 1 holds 1, 2, 3, 4 times `factor`; buffer 2 gets the sum of all members' negated, when
/// it is there. Nothing is answered.
static void run_member(served *self, uint32_t member, float factor, int64_t group, int64_t number)
{
    hand *client = &self->clients[member];
    float data[COUNT];
    kiln_tensor_desc values[COUNT];
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_STRING, .count = 3, .v.text = "sum"},
        {.type = KILN_ATTR_I64, .count = 1, .v.i = group},
        {.type = KILN_ATTR_I64, .count = 1, .v.i = number},
    };
    for (uint64_t i = 0; i < COUNT; i++) {
        data[i] = factor * (float)(i + 1);
        values[i] = hand_floats(i + 1, COUNT);
    }
    const kiln_op_record records[] = {
        {.op = KILN_OP_NEG,
         .n_inputs = 1,
         .n_outputs = 1,
         .inputs = &values[0],
         .outputs = &values[1]},
        {.op = KILN_OP_ALL_REDUCE,
         .n_inputs = 1,
         .n_outputs = 1,
         .n_attrs = 3,
         .inputs = &values[1],
         .outputs = &values[2],
         .attrs = attrs},
        {.op = KILN_OP_COLLECTIVE_SYNC,
         .n_inputs = 1,
         .n_outputs = 1,
         .inputs = &values[2],
         .outputs = &values[3]},
    };
    hand_write(client, 1, 0, sizeof(data), data, sizeof(data));
    hand_run(client, records, 3, 1, 2, 0);
}

static void test_group(void)
{
    served self;
    if (served_open(&self, 0)) {
        for (int round = 1; round <= 3; round++) {
            for (uint32_t i = 0; i < MEMBERS; i++) {
                run_member(&self, i, (float)(round + (int)i), kiln_collective_id(self.group), i);
            }
            for (uint32_t i = 0; i < MEMBERS; i++) {
                KILN_CHECK_INT(hand_read(&self.clients[i], 2, 0, COUNT * sizeof(float)), 0);
                for (size_t k = 0; k < COUNT; k++) {
                    float expected = -(float)(2 * round + 1) * (float)(k + 1);
                    KILN_CHECK(hand_float(self.clients[i].frame->data, k) == expected);
                }
            }
        }
    }
    served_close(&self);
}

/// Only one session comes to the call.
static void test_missing_member(void)
{
    served self;
    if (served_open(&self, 300000000u)) {
        uint64_t begin = kiln_time_ns();
        run_member(&self, 0, 1, kiln_collective_id(self.group), 0);
        KILN_CHECK_INT(hand_read(&self.clients[0], 2, 0, COUNT * sizeof(float)),
                       KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK_CONTAINS(self.clients[0].frame->body.body.answer.message,
                            "rank 1: did not come");
        KILN_CHECK(kiln_time_ns() - begin < 1300000000u);
    }
    served_close(&self);
}

static void test_no_such_group(void)
{
    served self;
    if (served_open(&self, 0)) {
        run_member(&self, 0, 1, kiln_collective_id(self.group) + 1, 0);
        KILN_CHECK_INT(hand_fence(&self.clients[0]), KILN_STATUS_NOT_FOUND);
        run_member(&self, 1, 1, kiln_collective_id(self.group), 0); // another session's place
        KILN_CHECK_INT(hand_fence(&self.clients[1]), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), KILN_STATUS_OK);
    }
    served_close(&self);
}

// ---- clients that are Kiln ----

typedef struct clients {
    kiln_context *context; ///< knows nothing of the server's groups
    kiln_device *devices[MEMBERS];
    kiln_tensor *inputs[MEMBERS];
    kiln_tensor *sums[MEMBERS];
    kiln_error err;
} clients;

static bool clients_open(clients *self, const served *server)
{
    const int64_t count = COUNT;
    memset(self, 0, sizeof(*self));
    bool ok =
        PAIR_OK(self, kiln_context_create(NULL, &self->context, &self->err)) &&
        PAIR_OK(self, kiln_context_add_provider(self->context, kiln_rpc_provider(), &self->err));
    for (int i = 0; i < MEMBERS && ok; i++) {
        char address[256];
        const float data[COUNT] = {1, 2, 3, (float)i};
        snprintf(address, sizeof(address), "%s/%d",
                 kiln_rpc_server_address(server->peers.server, 0), i);
        ok = PAIR_OK(self,
                     kiln_device_open(self->context, address, &self->devices[i], &self->err)) &&
             PAIR_OK(self, kiln_tensor_create(self->devices[i], KILN_DTYPE_F32, 1, &count, data,
                                              &self->inputs[i], &self->err));
    }
    return ok;
}

static void clients_close(clients *self)
{
    for (int i = 0; i < MEMBERS; i++) {
        kiln_release(self->inputs[i]);
        kiln_release(self->sums[i]);
        kiln_device_release(self->devices[i]);
    }
    kiln_context_destroy(self->context);
}

/// The bytes stay on the server: what is computed before and after is, too.
static void test_kiln_clients(void)
{
    served server;
    clients self;
    if (served_open(&server, 0) && clients_open(&self, &server)) {
        int64_t group = kiln_collective_id(server.group);
        for (int i = 0; i < MEMBERS; i++) {
            kiln_tensor *doubled = NULL;
            PAIR_OK(&self, kiln_mul_scalar(self.inputs[i], kiln_f64(2), &doubled, &self.err));
            PAIR_OK(&self, kiln_all_reduce(doubled, "sum", group, i, &self.sums[i], &self.err));
            kiln_release(doubled);
        }
        for (int i = 0; i < MEMBERS; i++) {
            kiln_tensor *there = NULL;
            kiln_tensor *result = NULL;
            float data[COUNT] = {0};
            if (i == 0) {
                PAIR_OK(&self, kiln_collective_sync(self.sums[i], &there, &self.err));
            } else {
                PAIR_OK(&self, kiln_collective_resolve(self.sums[i], &self.err));
                there = kiln_retain(self.sums[i]);
            }
            PAIR_OK(&self, kiln_flush(self.devices[1 - i], &self.err));
            PAIR_OK(&self, kiln_add_scalar(there, kiln_f64(1), &result, &self.err));
            PAIR_OK(&self, kiln_read(result, data, sizeof(data), &self.err));
            KILN_CHECK(data[0] == 5 && data[1] == 9 && data[2] == 13 && data[3] == 3);
            kiln_release(there);
            kiln_release(result);
        }
    }
    clients_close(&self);
    served_close(&server);
}

static void test_kiln_client_alone(void)
{
    served server;
    clients self;
    float data[COUNT];
    if (served_open(&server, 300000000u) && clients_open(&self, &server)) {
        int64_t group = kiln_collective_id(server.group);
        PAIR_OK(&self, kiln_all_reduce(self.inputs[0], "sum", group, 0, &self.sums[0], &self.err));
        PAIR_OK(&self, kiln_collective_resolve(self.sums[0], &self.err));
        KILN_CHECK_INT(kiln_read(self.sums[0], data, sizeof(data), &self.err),
                       KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK_CONTAINS(self.err.message, "rank 1: did not come");
        kiln_release(self.sums[0]);
        self.sums[0] = NULL;
        PAIR_OK(&self,
                kiln_all_reduce(self.inputs[0], "sum", group + 7, 0, &self.sums[0], &self.err));
        PAIR_OK(&self, kiln_collective_resolve(self.sums[0], &self.err));
        KILN_CHECK_INT(kiln_read(self.sums[0], data, sizeof(data), &self.err),
                       KILN_STATUS_NOT_FOUND);
        KILN_CHECK_INT(kiln_read(self.inputs[0], data, sizeof(data), &self.err), 0);
    }
    clients_close(&self);
    served_close(&server);
}

KILN_TEST_MAIN("remote_grpc/group", KILN_TEST(test_group), KILN_TEST(test_missing_member),
               KILN_TEST(test_no_such_group), KILN_TEST(test_kiln_clients),
               KILN_TEST(test_kiln_client_alone))
