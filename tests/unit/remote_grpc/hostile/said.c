// SPDX-License-Identifier: MIT OR Apache-2.0
// The messages of real sessions, encoded once. Decides nothing about how they are damaged.
#include "said.h"

#include <string.h>

static void add_bytes(said *self, const void *bytes, size_t length)
{
    if (KILN_CHECK(length <= SAID_BYTES && self->count < SAID_MOST)) {
        memcpy(self->messages[self->count].bytes, bytes, length);
        self->messages[self->count++].length = length;
    }
}

static void add_frame(said *self, const kiln_env *env, kilni_rpc_frame *frame)
{
    kilni_rpc_parcel *parcel = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kilni_rpc_frame_encode(env, frame, &parcel, &err), KILN_STATUS_OK);
    add_bytes(self, parcel->head, parcel->head_length);
    kilni_rpc_parcel_free(env, parcel);
}

/// -(x + x).
static void encode_graph(const kiln_env *env, kiln_blob *out_blob)
{
    kiln_ir_graph *graph = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const kiln_tensor_desc x = hand_floats(1, 4);
    const kiln_tensor_desc both[] = {x, x};
    const kiln_tensor_desc y = hand_floats(2, 4);
    const kiln_tensor_desc z = hand_floats(3, 4);
    const uint64_t last = 3;
    const kiln_op_record add = {
        .op = KILN_OP_ADD, .n_inputs = 2, .n_outputs = 1, .inputs = both, .outputs = &y};
    const kiln_op_record neg = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &y, .outputs = &z};
    KILN_CHECK_INT(kiln_ir_graph_create(env, &graph, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_append(graph, &add, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_append(graph, &neg, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_set_io(graph, &x, 1, &last, 1, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_encode(env, graph, out_blob, &err), KILN_STATUS_OK);
    kiln_ir_graph_destroy(graph);
}

static void add_runs(said *self, const kiln_env *env)
{
    kiln_blob graph = {0};
    kilni_rpc_frame frame = {0};
    kiln_v1_Run *run = &frame.body.body.run;
    encode_graph(env, &graph);
    frame.body.which_body = kiln_v1_Frame_run_tag;
    frame.graph = graph.data;
    frame.graph_length = graph.length;
    run->inputs_count = run->outputs_count = 1;
    run->inputs[0] = (kiln_v1_Binding){.value = 1, .buffer = 1};
    run->outputs[0] = (kiln_v1_Binding){.value = 3, .buffer = 2};
    add_frame(self, env, &frame);
    run->graph = 1;
    add_frame(self, env, &frame);
    frame.graph_length = 0;
    run->frees_count = 1;
    run->frees[0] = 2;
    add_frame(self, env, &frame);
    kiln_free(env, graph.data);
}

static void add_offers(said *self, const kiln_env *env)
{
    kilni_rpc_frame frame = {0};
    frame.body.request = 9;
    frame.body.which_body = kiln_v1_Frame_offer_tag;
    frame.body.body.offer = (kiln_v1_Offer){.buffer = 1, .total = 16, .digest = {.size = 32}};
    add_frame(self, env, &frame);
    frame.body.body.offer = (kiln_v1_Offer){.graph = 1, .total = 99, .digest = {.size = 32}};
    add_frame(self, env, &frame);
}

static void add_bodies(said *self, const kiln_env *env)
{
    static const float data[] = {1, 2, 3, 4};
    kilni_rpc_frame frame = {.data = data, .data_length = sizeof(data)};
    frame.body.which_body = kiln_v1_Frame_write_tag;
    frame.body.body.write = (kiln_v1_Write){.buffer = 1, .total = sizeof(data)};
    add_frame(self, env, &frame);
    frame = (kilni_rpc_frame){.data = data, .data_length = 4};
    frame.body.which_body = kiln_v1_Frame_write_tag;
    frame.body.body.write = (kiln_v1_Write){.buffer = 3, .offset = 4096, .total = 1 << 20};
    add_frame(self, env, &frame);
    static const int kinds[] = {kiln_v1_Frame_read_tag,     kiln_v1_Frame_fence_tag,
                                kiln_v1_Frame_free_tag,     kiln_v1_Frame_forget_tag,
                                kiln_v1_Frame_withdraw_tag, kiln_v1_Frame_close_tag,
                                kiln_v1_Frame_answer_tag,   kiln_v1_Frame_welcome_tag};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        frame = (kilni_rpc_frame){.data = NULL};
        frame.body.request = i + 1;
        frame.body.ack = i % 3;
        frame.body.which_body = (pb_size_t)kinds[i];
        if (kinds[i] == kiln_v1_Frame_read_tag) {
            frame.body.body.read = (kiln_v1_Read){.buffer = 2, .length = sizeof(data)};
        } else if (kinds[i] == kiln_v1_Frame_free_tag) {
            frame.body.body.free.buffers[0] = 1;
            frame.body.body.free.buffers_count = 1;
        }
        add_frame(self, env, &frame);
    }
    frame = (kilni_rpc_frame){.data = NULL};
    frame.body.which_body = kiln_v1_Frame_expose_tag;
    frame.body.body.expose =
        (kiln_v1_Expose){.transfer = 1, .buffer = 1, .count = 1, .expiry_ms = 50};
    frame.body.body.expose.secret.size = KILNI_RPC_TOKEN;
    add_frame(self, env, &frame);
    frame.body.which_body = kiln_v1_Frame_obtain_tag;
    frame.body.body.obtain =
        (kiln_v1_Obtain){.transfer = 1, .buffer = 4, .total = 16, .wait_ms = 1};
    frame.body.body.obtain.secret.size = KILNI_RPC_TOKEN;
    add_frame(self, env, &frame);
}

static void add_hello(said *self, const kiln_env *env)
{
    kilni_rpc_frame frame = {0};
    frame.body.request = 1;
    frame.body.which_body = kiln_v1_Frame_hello_tag;
    frame.body.body.hello.version = KILNI_RPC_VERSION;
    add_frame(self, env, &frame);
    frame.body.body.hello.resumable = true;
    frame.body.body.hello.session = 7;
    frame.body.body.hello.token.size = KILNI_RPC_TOKEN;
    add_frame(self, env, &frame);
}

void said_fill(said *self, const kiln_env *env)
{
    memset(self, 0, sizeof(*self));
    add_hello(self, env);
    add_bodies(self, env);
    add_offers(self, env);
    add_runs(self, env);
}
