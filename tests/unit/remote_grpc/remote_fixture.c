// SPDX-License-Identifier: MIT OR Apache-2.0
// A pair of server and client, and a client by hand. Decides nothing about what is tested.
#include "remote_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/// For an answer: no deadline. On a busy machine the server may get no processor for minutes; a
/// test whose answer never comes is ended by its own limit.
enum { PATIENCE_MS = -1 };

// ---- a pair ----

bool pair_context(pair *self)
{
    memset(self, 0, sizeof(*self));
    return PAIR_OK(self, kiln_context_create(NULL, &self->context, &self->err)) &&
           PAIR_OK(self, kiln_context_set(self->context, "remote-timeout", "4000", &self->err)) &&
           PAIR_OK(self,
                   kiln_context_add_provider(self->context, kiln_rpc_provider(), &self->err)) &&
           PAIR_OK(self,
                   kiln_context_add_provider(self->context, kiln_rpc_tls_provider(), &self->err)) &&
           PAIR_OK(self, kiln_context_add_provider(self->context, kiln_rpc_unix_provider(),
                                                   &self->err)) &&
           PAIR_OK(self, kiln_device_open(self->context, "reference", &self->local, &self->err));
}

bool pair_open(pair *self, const kiln_rpc_server_options *options)
{
    return pair_context(self) &&
           PAIR_OK(self,
                   kiln_rpc_server_create(&self->local, 1, options, &self->server, &self->err)) &&
           PAIR_OK(self, kiln_device_open(self->context, kiln_rpc_server_address(self->server, 0),
                                          &self->remote, &self->err));
}

void pair_close(pair *self)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_release(self->remote);
    kiln_rpc_server_destroy(self->server);
    if (self->local != NULL) {
        kiln_device_stats_get(self->local, &stats);
    }
    KILN_CHECK_INT(stats.tensors_live, 0);
    KILN_CHECK_INT(stats.backend.buffers_live, 0);
    kiln_device_release(self->local);
    kiln_context_destroy(self->context);
}

kiln_tensor *pair_upload(pair *self, size_t rank, const int64_t *dims, const float *data)
{
    kiln_tensor *tensor = NULL;
    PAIR_OK(self, kiln_tensor_create(self->remote, KILN_DTYPE_F32, rank, dims, data, &tensor,
                                     &self->err));
    return tensor;
}

// ---- a client by hand ----

void hand_send(hand *self, kilni_rpc_frame *frame)
{
    kilni_rpc_parcel *parcel = NULL;
    if (HAND_OK(self, kilni_rpc_frame_encode(&self->env, frame, &parcel, &self->err))) {
        HAND_OK(self, kilni_rpc_send(self->stream, parcel, &self->err));
    }
    kilni_rpc_parcel_free(&self->env, parcel);
}

uint32_t hand_try(hand *self, kilni_rpc_frame *frame)
{
    bool end = false;
    frame->body.request = ++self->request;
    hand_send(self, frame);
    if (kilni_rpc_receive(self->stream, PATIENCE_MS, &self->inbox->message, &end, &self->err) !=
        KILN_STATUS_OK) {
        return (uint32_t)self->err.code;
    }
    HAND_OK(self, kilni_rpc_inbox_decode(&self->env, self->inbox, &self->err));
    return 0;
}

/// Data may have come in pieces, small ones too: where they are depends on what came before them.
static void gather_data(hand *self)
{
    size_t length = self->frame->data_length;
    if (length == 0 || self->frame->data != NULL) {
        return;
    }
    free(self->gathered);
    self->gathered = malloc(length);
    if (KILN_CHECK(self->gathered != NULL)) {
        kilni_rpc_frame_data(self->frame, self->gathered);
        self->frame->data = self->gathered;
    }
}

uint32_t hand_ask(hand *self, kilni_rpc_frame *frame)
{
    bool end = false;
    frame->body.request = ++self->request;
    hand_send(self, frame);
    kilni_rpc_inbox_clear(&self->env, self->inbox);
    if (!HAND_OK(self, kilni_rpc_receive(self->stream, PATIENCE_MS, &self->inbox->message, &end,
                                         &self->err)) ||
        !HAND_OK(self, kilni_rpc_inbox_decode(&self->env, self->inbox, &self->err))) {
        return UINT32_MAX;
    }
    gather_data(self);
    if (!KILN_CHECK_INT(self->frame->body.request, self->request)) {
        return UINT32_MAX;
    }
    return self->frame->body.which_body == kiln_v1_Frame_answer_tag
               ? self->frame->body.body.answer.code
               : 0;
}

static bool connect_as(hand *self, const pair *peers, const kilni_rpc_identity *identity)
{
    kilni_rpc_address address;
    memset(self, 0, sizeof(*self));
    self->env.allocator = kiln_allocator_default();
    self->inbox = calloc(1, sizeof(*self->inbox));
    self->frame = &self->inbox->frame;
    return HAND_OK(self, kilni_rpc_address_parse(kiln_rpc_server_address(peers->server, 0),
                                                 &address, &self->err)) &&
           HAND_OK(self, kilni_rpc_connect(&self->env, &address, identity, KILNI_RPC_SESSION,
                                           5000 * PATIENCE, &self->stream, &self->err));
}

bool hand_connect(hand *self, const pair *peers)
{
    return connect_as(self, peers, NULL);
}

static bool greet(hand *self, const pair *peers, uint32_t device, bool resumable,
                  const kilni_rpc_identity *identity)
{
    if (!connect_as(self, peers, identity)) {
        return false;
    }
    kilni_rpc_frame hello = {0};
    hello.body.which_body = kiln_v1_Frame_hello_tag;
    hello.body.body.hello.version = KILNI_RPC_VERSION;
    hello.body.body.hello.resumable = resumable;
    hello.body.body.hello.device = device;
    return KILN_CHECK_INT(hand_ask(self, &hello), 0);
}

bool hand_greet(hand *self, const pair *peers, bool resumable)
{
    return greet(self, peers, 0, resumable, NULL);
}

bool hand_open_device(hand *self, const pair *peers, uint32_t device)
{
    return greet(self, peers, device, /*resumable=*/false, NULL);
}

bool hand_open(hand *self, const pair *peers)
{
    return hand_open_device(self, peers, 0);
}

bool hand_open_as(hand *self, const pair *peers, const char *token)
{
    const kilni_rpc_identity identity = {.token = (char *)(uintptr_t)token};
    return greet(self, peers, 0, /*resumable=*/false, &identity);
}

void hand_close(hand *self)
{
    kilni_rpc_stream_close(self->stream, NULL);
    kilni_rpc_inbox_clear(&self->env, self->inbox);
    free(self->inbox);
    free(self->gathered);
}

void hand_write(hand *self, uint64_t buffer, uint64_t offset, uint64_t total, const void *data,
                size_t length)
{
    kilni_rpc_frame frame = {.data = data, .data_length = length};
    frame.body.which_body = kiln_v1_Frame_write_tag;
    frame.body.body.write = (kiln_v1_Write){.buffer = buffer, .offset = offset, .total = total};
    hand_send(self, &frame);
}

uint32_t hand_read(hand *self, uint64_t buffer, uint64_t offset, uint64_t length)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_read_tag;
    frame.body.body.read = (kiln_v1_Read){.buffer = buffer, .offset = offset, .length = length};
    return hand_ask(self, &frame);
}

uint32_t hand_fence(hand *self)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_fence_tag;
    return hand_ask(self, &frame);
}

kiln_tensor_desc hand_floats(uint64_t id, int64_t count)
{
    return (kiln_tensor_desc){.id = id, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {count}};
}

void hand_encode(hand *self, const kiln_op_record *records, size_t count, kiln_blob *out_blob)
{
    kiln_ir_graph *graph = NULL;
    uint64_t last = records[count - 1].outputs[0].id;
    HAND_OK(self, kiln_ir_graph_create(&self->env, &graph, &self->err));
    for (size_t i = 0; i < count; i++) {
        HAND_OK(self, kiln_ir_graph_append(graph, &records[i], &self->err));
    }
    HAND_OK(self, kiln_ir_graph_set_io(graph, &records[0].inputs[0], 1, &last, 1, &self->err));
    HAND_OK(self, kiln_ir_encode(&self->env, graph, out_blob, &self->err));
    kiln_ir_graph_destroy(graph);
}

void hand_run(hand *self, const kiln_op_record *records, size_t count, uint64_t from, uint64_t to,
              uint64_t graph)
{
    kilni_rpc_frame frame = {0};
    kiln_blob blob = {0};
    uint64_t last = count > 0 ? records[count - 1].outputs[0].id : 2;
    if (count > 0) {
        hand_encode(self, records, count, &blob);
    }
    frame.body.which_body = kiln_v1_Frame_run_tag;
    frame.graph = blob.data;
    frame.graph_length = blob.length;
    kiln_v1_Run *run = &frame.body.body.run;
    run->graph = graph;
    run->inputs[run->inputs_count++] = (kiln_v1_Binding){.value = 1, .buffer = from};
    run->outputs[run->outputs_count++] = (kiln_v1_Binding){.value = last, .buffer = to};
    hand_send(self, &frame);
    kiln_free(&self->env, blob.data);
}

void hand_negate(hand *self, int64_t count, uint64_t from, uint64_t to)
{
    const kiln_tensor_desc x = hand_floats(1, count);
    const kiln_tensor_desc y = hand_floats(2, count);
    const kiln_op_record record = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
    hand_run(self, &record, 1, from, to, 0);
}

float hand_float(const void *bytes, size_t index)
{
    float value = 0;
    memcpy(&value, (const char *)bytes + index * sizeof(value), sizeof(value));
    return value;
}

void pause_us(unsigned long us)
{
    const struct timespec pause = {.tv_sec = (time_t)(us / 1000000),
                                   .tv_nsec = (long)(us % 1000000) * 1000};
    (void)nanosleep(&pause, NULL);
}
