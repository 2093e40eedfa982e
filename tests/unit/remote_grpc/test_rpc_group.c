// SPDX-License-Identifier: MIT OR Apache-2.0
// Collective rows over the wire: two sessions on two devices of a server, each of which runs its
// member's part in a group that the serving process has made; and what they read when one does not
// come, or names what is not there.
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

KILN_TEST_MAIN("remote_grpc/group", KILN_TEST(test_group), KILN_TEST(test_missing_member),
               KILN_TEST(test_no_such_group))
