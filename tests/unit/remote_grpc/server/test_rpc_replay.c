// SPDX-License-Identifier: MIT OR Apache-2.0
// Known graphs that are run again and again: the server stops to record their operations, and
// nothing else shows it.

#include "remote_fixture.h"

#include <string.h>

enum { GRAPH = 7, RUNS = 40, CAPTURED = 20 }; ///< from CAPTURED on, certainly

typedef struct chain { ///< value 1, and what each operation makes of the one before
    kiln_tensor_desc values[5];
    kiln_op_record records[4];
} chain;

static void chain_init(chain *self, kiln_op op, int64_t count)
{
    for (uint64_t i = 0; i < 5; i++) {
        self->values[i] = hand_floats(i + 1, count);
    }
    for (size_t i = 0; i < 4; i++) {
        self->records[i] = (kiln_op_record){.op = op,
                                            .n_inputs = 1,
                                            .n_outputs = 1,
                                            .inputs = &self->values[i],
                                            .outputs = &self->values[i + 1]};
    }
}

/// Runs the graph by its number; `kept` is the value that goes to buffer `to`.
static void run_kept(hand *self, uint64_t graph, uint64_t from, uint64_t kept, uint64_t to)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_run_tag;
    kiln_v1_Run *run = &frame.body.body.run;
    run->graph = graph;
    run->inputs[run->inputs_count++] = (kiln_v1_Binding){.value = 1, .buffer = from};
    run->outputs[run->outputs_count++] = (kiln_v1_Binding){.value = kept, .buffer = to};
    hand_send(self, &frame);
}

static void free_buffer(hand *self, uint64_t buffer)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_free_tag;
    frame.body.body.free.buffers_count = 1;
    frame.body.body.free.buffers[0] = buffer;
    hand_send(self, &frame);
}

static uint64_t ops_recorded(const pair *self)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(self->local, &stats);
    return stats.ops_recorded;
}

static uint64_t operations(const pair *self)
{
    kiln_rpc_server_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    kiln_rpc_server_stats_get(self->server, &stats);
    return stats.operations;
}

static float read_float(hand *self, uint64_t buffer, size_t index)
{
    KILN_CHECK_INT(hand_read(self, buffer, 0, 16), KILN_STATUS_OK);
    return self->frame->data_length == 16 ? hand_float(self->frame->data, index) : 0;
}

/// Runs the graph until it is captured, and checks that it is.
static void settle(hand *self, const pair *peers, uint64_t from, uint64_t kept, uint64_t to)
{
    for (int i = 0; i < CAPTURED; i++) {
        run_kept(self, GRAPH, from, kept, to);
    }
    KILN_CHECK_INT(hand_fence(self), KILN_STATUS_OK);
    uint64_t before = ops_recorded(peers);
    run_kept(self, GRAPH, from, kept, to);
    free_buffer(self, to); // the fence would record a look at it
    KILN_CHECK_INT(hand_fence(self), KILN_STATUS_OK);
    KILN_CHECK_INT(ops_recorded(peers), before);
}

static void test_operations_are_not_recorded_again(void)
{
    pair self;
    hand client;
    chain c;
    const float four[] = {1, 2, 3, 4};
    chain_init(&c, KILN_OP_RELU, 4);
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, 16, four, 16);
    hand_run(&client, c.records, 4, 1, 2, GRAPH);
    settle(&client, &self, 1, 5, 2);
    KILN_CHECK_INT(operations(&self), (CAPTURED + 2) * 4);
    for (int i = 0; i < RUNS; i++) { // the bytes differ, the buffers too
        const float other[] = {(float)i, -1, 2, 3};
        hand_write(&client, 10, 0, 16, other, 16);
        run_kept(&client, GRAPH, 10, 5, 11);
        KILN_CHECK(read_float(&client, 11, 0) == (float)i);
        KILN_CHECK(read_float(&client, 11, 1) == 0.0f);
    }
    KILN_CHECK_INT(operations(&self), (CAPTURED + 2 + RUNS) * 4);
    hand_close(&client);
    pair_close(&self);
}

/// Each Run takes what the one before has left, in the same buffer.
static void test_result_goes_where_it_came_from(void)
{
    pair self;
    const int64_t dims[] = {4};
    float back[4] = {0};
    if (!pair_open(&self, NULL)) {
        return;
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, NULL);
    for (int i = 0; i < 100 * KILNI_RPC_BATCH; i++) { // a batch as the others, over and over
        kiln_tensor *y = NULL;
        PAIR_OK(&self, kiln_add_scalar(x, kiln_f64(1), &y, &self.err));
        kiln_release(x);
        x = y;
    }
    PAIR_OK(&self, kiln_read(x, back, sizeof(back), &self.err));
    KILN_CHECK(back[0] == 100.0f * KILNI_RPC_BATCH && back[3] == back[0]);
    KILN_CHECK(ops_recorded(&self) < 50 * KILNI_RPC_BATCH);
    kiln_release(x);
    pair_close(&self);
}

static void test_other_values_are_kept(void)
{
    pair self;
    hand client;
    chain c;
    const float four[] = {1, 2, 3, 4};
    chain_init(&c, KILN_OP_NEG, 4);
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, 16, four, 16);
    hand_run(&client, c.records, 4, 1, 2, GRAPH);
    settle(&client, &self, 1, 5, 2);
    run_kept(&client, GRAPH, 1, 4, 2);
    KILN_CHECK(read_float(&client, 2, 3) == -4.0f);
    run_kept(&client, GRAPH, 1, 1, 3); // an input, passed on
    KILN_CHECK(read_float(&client, 3, 3) == 4.0f);
    run_kept(&client, GRAPH, 1, 9, 3); // nothing that the graph defines
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
    kiln_rpc_server_stats held = {.struct_size = (uint32_t)sizeof(held)};
    kiln_rpc_server_stats_get(self.server, &held);
    uint64_t before = held.held_bytes;
    settle(&client, &self, 1, 4, 2);
    settle(&client, &self, 1, 1, 2);
    kiln_rpc_server_stats_get(self.server, &held);
    KILN_CHECK(held.held_bytes <= before); // one capture at a time counts
    run_kept(&client, GRAPH, 1, 1, 2);
    hand_write(&client, 1, 0, 16, &four[3], 4); // a part: what was passed on stays
    KILN_CHECK(read_float(&client, 2, 0) == 1.0f);
    KILN_CHECK(read_float(&client, 1, 0) == 4.0f);
    hand_close(&client);
    pair_close(&self);
}

/// What a Run may hold is charged before each; the refusal is as if it were recorded.
static void test_replays_are_charged(void)
{
    enum { BYTES = 16, GRAPHS = 64 << 10, MOST = GRAPHS + 8 * BYTES };
    pair self;
    hand client;
    chain c;
    const float four[] = {1, 2, 3, 4};
    static const char most[MOST];
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_bytes = MOST;
    chain_init(&c, KILN_OP_NEG, 4);
    if (!pair_open(&self, &options) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, BYTES, four, BYTES);
    hand_run(&client, c.records, 4, 1, 2, GRAPH);
    settle(&client, &self, 1, 5, 2);
    kiln_rpc_server_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    kiln_rpc_server_stats_get(self.server, &stats);
    uint64_t rest = MOST - stats.held_bytes;
    hand_write(&client, 3, 0, rest - 3 * BYTES, most, rest - 3 * BYTES); // three of four results
    run_kept(&client, GRAPH, 1, 5, 2);
    KILN_CHECK_INT(hand_read(&client, 2, 0, 16), KILN_STATUS_RESOURCE_EXHAUSTED);
    free_buffer(&client, 3);
    run_kept(&client, GRAPH, 1, 5, 2);
    KILN_CHECK(read_float(&client, 2, 3) == 4.0f);
    kilni_rpc_frame forget = {0};
    forget.body.which_body = kiln_v1_Frame_forget_tag;
    forget.body.body.forget.graphs_count = 1;
    forget.body.body.forget.graphs[0] = GRAPH;
    hand_send(&client, &forget);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    kiln_rpc_server_stats_get(self.server, &stats);
    KILN_CHECK_INT(stats.held_bytes, 2 * BYTES); // what the graph counted for is back
    hand_close(&client);
    pair_close(&self);
}

static void test_failed_input_fails_replay(void)
{
    pair self;
    hand client;
    chain c;
    const float four[] = {1, 2, 3, 4};
    chain_init(&c, KILN_OP_NEG, 4);
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, 16, four, 16);
    hand_run(&client, c.records, 4, 1, 2, GRAPH);
    settle(&client, &self, 1, 5, 2);
    run_kept(&client, GRAPH, 99, 5, 2);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(client.frame->body.body.answer.message, "there is no buffer 99");
    KILN_CHECK_INT(hand_read(&client, 2, 0, 16), KILN_STATUS_NOT_FOUND);
    run_kept(&client, GRAPH, 2, 5, 3); // uses what has failed
    KILN_CHECK_INT(hand_read(&client, 3, 0, 16), KILN_STATUS_NOT_FOUND);
    hand_write(&client, 4, 0, 8, four, 8);
    run_kept(&client, GRAPH, 4, 5, 2); // another shape
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
    run_kept(&client, GRAPH, 1, 5, 2);
    KILN_CHECK(read_float(&client, 2, 3) == 4.0f);
    hand_close(&client);
    pair_close(&self);
}

/// The same number for another graph: nothing of the first one is left.
static void test_number_means_another_graph(void)
{
    pair self;
    hand client;
    chain c;
    const float four[] = {-1, 2, 3, 4};
    chain_init(&c, KILN_OP_NEG, 4);
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, 16, four, 16);
    hand_run(&client, c.records, 4, 1, 2, GRAPH);
    settle(&client, &self, 1, 5, 2);
    chain_init(&c, KILN_OP_ABS, 4);
    hand_run(&client, c.records, 4, 1, 2, GRAPH);
    KILN_CHECK(read_float(&client, 2, 0) == 1.0f);
    settle(&client, &self, 1, 5, 2);
    run_kept(&client, GRAPH, 1, 5, 2);
    KILN_CHECK(read_float(&client, 2, 0) == 1.0f);
    hand_close(&client);
    pair_close(&self);
}

/// A part of a tensor is kept as a copy, however often the graph runs.
static void test_part_is_kept_alone(void)
{
    enum { COUNT = 65536 };
    pair self;
    hand client;
    static float data[COUNT];
    const kiln_tensor_desc whole = hand_floats(1, COUNT);
    const kiln_tensor_desc part = hand_floats(2, 4);
    const int64_t start = 8;
    const int64_t end = 12;
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_I64_LIST, .count = 1, .v = {.ints = &start}},
        {.type = KILN_ATTR_I64_LIST, .count = 1, .v = {.ints = &end}},
        {.type = KILN_ATTR_NONE},
    };
    const kiln_op_record record = {.op = KILN_OP_SLICE,
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .n_attrs = 3,
                                   .inputs = &whole,
                                   .outputs = &part,
                                   .attrs = attrs};
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    data[9] = 5;
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, sizeof(data), data, sizeof(data));
    hand_run(&client, &record, 1, 1, 2, GRAPH);
    for (int i = 0; i < RUNS; i++) {
        run_kept(&client, GRAPH, 1, 2, 2);
    }
    free_buffer(&client, 1);
    KILN_CHECK(read_float(&client, 2, 1) == 5.0f);
    kiln_device_stats_get(self.local, &stats);
    KILN_CHECK(stats.backend.bytes_used < COUNT);
    hand_close(&client);
    pair_close(&self);
}

/// Numbers that the caller left to the device differ from Run to Run.
static void test_random_numbers_go_on(void)
{
    pair self;
    hand client;
    float last = -1;
    const int64_t count = 4;
    const kiln_tensor_desc like = hand_floats(1, 4);
    const kiln_tensor_desc drawn = hand_floats(2, 4);
    const kiln_tensor_desc sum = hand_floats(3, 4);
    const kiln_tensor_desc both[] = {like, drawn};
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_I64_LIST, .count = 1, .v = {.ints = &count}},
        {.type = KILN_ATTR_DTYPE, .v = {.i = KILN_DTYPE_F32}},
        {.type = KILN_ATTR_F64, .v = {.f = 0}},
        {.type = KILN_ATTR_F64, .v = {.f = 1}},
        {.type = KILN_ATTR_NONE},
        {.type = KILN_ATTR_NONE},
        {.type = KILN_ATTR_NONE},
    };
    const kiln_op_record records[] = {
        {.op = KILN_OP_RANDOM_UNIFORM,
         .n_outputs = 1,
         .n_attrs = 7,
         .outputs = &drawn,
         .attrs = attrs},
        {.op = KILN_OP_ADD, .n_inputs = 2, .n_outputs = 1, .inputs = both, .outputs = &sum},
    };
    const float zeros[] = {0, 0, 0, 0};
    kiln_ir_graph *graph = NULL;
    kiln_blob blob = {0};
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    HAND_OK(&client, kiln_ir_graph_create(&client.env, &graph, &client.err));
    HAND_OK(&client, kiln_ir_graph_append(graph, &records[0], &client.err));
    HAND_OK(&client, kiln_ir_graph_append(graph, &records[1], &client.err));
    HAND_OK(&client, kiln_ir_graph_set_io(graph, &like, 1, &sum.id, 1, &client.err));
    HAND_OK(&client, kiln_ir_encode(&client.env, graph, &blob, &client.err));
    kiln_ir_graph_destroy(graph);
    hand_write(&client, 1, 0, 16, zeros, 16);
    kilni_rpc_frame frame = {.graph = blob.data, .graph_length = blob.length};
    frame.body.which_body = kiln_v1_Frame_run_tag;
    kiln_v1_Run *run = &frame.body.body.run;
    run->graph = GRAPH;
    run->inputs[run->inputs_count++] = (kiln_v1_Binding){.value = 1, .buffer = 1};
    run->outputs[run->outputs_count++] = (kiln_v1_Binding){.value = 3, .buffer = 2};
    hand_send(&client, &frame);
    kiln_free(&client.env, blob.data);
    for (int i = 0; i < RUNS; i++) {
        float first = read_float(&client, 2, 0);
        KILN_CHECK(first != last && first >= 0 && first < 1);
        last = first;
        run_kept(&client, GRAPH, 1, 3, 2);
    }
    hand_close(&client);
    pair_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/replay", KILN_TEST(test_operations_are_not_recorded_again),
               KILN_TEST(test_result_goes_where_it_came_from),
               KILN_TEST(test_other_values_are_kept), KILN_TEST(test_replays_are_charged),
               KILN_TEST(test_failed_input_fails_replay),
               KILN_TEST(test_number_means_another_graph), KILN_TEST(test_part_is_kept_alone),
               KILN_TEST(test_random_numbers_go_on))
