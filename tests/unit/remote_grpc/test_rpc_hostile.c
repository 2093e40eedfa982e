// SPDX-License-Identifier: MIT OR Apache-2.0
// Peers that break every rule: messages of real sessions, damaged at random and in any order, to
// every method. Nothing may crash, sessions of others go on, and memory stays bounded. How many
// messages: the environment's KILN_TEST_MESSAGES; few by default, 100000 is the full run.

#include "remote_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL = 4000, PATTERNS = 26, MOST_BYTES = 4096, PER_CALL = 12 };
#ifdef __SANITIZE_ADDRESS__
enum { MOST_GROWTH_MIB = 2048 }; // freed memory is kept, and everything is larger
#else
enum { MOST_GROWTH_MIB = 256 };
#endif

typedef struct pattern {
    size_t length;
    unsigned char bytes[MOST_BYTES];
} pattern;

typedef struct stock {
    pattern patterns[PATTERNS];
    size_t count;
    uint64_t state; ///< of the random numbers: the same in every run
} stock;

static uint64_t draw(stock *self, uint64_t below)
{
    self->state ^= self->state << 13;
    self->state ^= self->state >> 7;
    self->state ^= self->state << 17;
    return self->state % below;
}

// ---- what real sessions say ----

static void add_bytes(stock *self, const void *bytes, size_t length)
{
    if (KILN_CHECK(length <= MOST_BYTES && self->count < PATTERNS)) {
        memcpy(self->patterns[self->count].bytes, bytes, length);
        self->patterns[self->count++].length = length;
    }
}

static void add_frame(stock *self, const kiln_env *env, kilni_rpc_frame *frame)
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

static void add_runs(stock *self, const kiln_env *env)
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

static void add_offers(stock *self, const kiln_env *env)
{
    kilni_rpc_frame frame = {0};
    frame.body.request = 9;
    frame.body.which_body = kiln_v1_Frame_offer_tag;
    frame.body.body.offer = (kiln_v1_Offer){.buffer = 1, .total = 16, .digest = {.size = 32}};
    add_frame(self, env, &frame);
    frame.body.body.offer = (kiln_v1_Offer){.graph = 1, .total = 99, .digest = {.size = 32}};
    add_frame(self, env, &frame);
}

static void add_bodies(stock *self, const kiln_env *env)
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

static void add_hello(stock *self, const kiln_env *env)
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

// ---- damage ----

static size_t damage(stock *self, unsigned char *bytes, size_t length)
{
    static const unsigned char extremes[] = {0x00, 0x7f, 0x80, 0xff, 0x01, 0x08, 0x12, 0x7a};
    uint64_t times = draw(self, 4);
    for (uint64_t i = 0; i < times && length > 0; i++) {
        size_t at = (size_t)draw(self, length);
        size_t much = (size_t)draw(self, 16) + 1;
        const pattern *other = &self->patterns[draw(self, self->count)];
        switch (draw(self, 6)) {
        case 0:
            bytes[at] ^= (unsigned char)(1 << draw(self, 8));
            break;
        case 1:
            bytes[at] = extremes[draw(self, sizeof(extremes))];
            break;
        case 2:
            length = at;
            break;
        case 3: // a piece of it again
            much = much < length - at ? much : length - at;
            if (length + much <= MOST_BYTES) {
                memmove(bytes + at + much, bytes + at, length - at);
                length += much;
            }
            break;
        case 4: // a number without end
            memset(bytes + at, 0xff, much < length - at ? much : length - at);
            break;
        default: // the rest of another message
            if (other->length > at) {
                memcpy(bytes + at, other->bytes + at, other->length - at);
                length = other->length;
            }
            break;
        }
    }
    return length;
}

static const char *const methods[] = {
    KILNI_RPC_SESSION,
    KILNI_RPC_SESSION,
    KILNI_RPC_SESSION,
    KILNI_RPC_SESSION,
    KILNI_RPC_INFO,
    KILNI_RPC_FETCH,
    "/grpc.health.v1.Health/Check",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
};

/// One call with a few damaged messages; gives how many were sent.
static size_t attack(stock *self, const kiln_env *env, const kilni_rpc_address *address)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_stream *stream = NULL;
    size_t method = (size_t)draw(self, sizeof(methods) / sizeof(methods[0]));
    bool session = strcmp(methods[method], KILNI_RPC_SESSION) == 0;
    size_t sent = 0;
    kiln_status dialled = KILN_STATUS_UNAVAILABLE;
    for (int i = 0; i < 3 && dialled == KILN_STATUS_UNAVAILABLE; i++) {
        // On a machine that is too busy for five seconds the server gives a greeting up.
        dialled = kilni_rpc_connect(env, address, NULL, methods[method], 20000, &stream, &err);
    }
    if (!kiln_test_check(dialled == KILN_STATUS_OK, __FILE__, __LINE__, err.message)) {
        return SIZE_MAX;
    }
    if (session && draw(self, 8) != 0) {
        (void)!kilni_rpc_send_bytes(stream, self->patterns[0].bytes, self->patterns[0].length,
                                    &err);
    }
    kiln_status status = KILN_STATUS_OK;
    uint64_t count = session ? draw(self, PER_CALL) + 1 : 1;
    for (uint64_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        unsigned char bytes[MOST_BYTES];
        const pattern *chosen = &self->patterns[draw(self, self->count)];
        memcpy(bytes, chosen->bytes, chosen->length);
        size_t length = damage(self, bytes, chosen->length);
        status = kilni_rpc_send_bytes(stream, bytes, length, &err);
        sent++;
    }
    if (draw(self, 4) == 0) {
        kilni_rpc_cancel(stream);
    } else {
        kilni_rpc_message message = {0};
        bool end = false;
        (void)!kilni_rpc_receive(stream, 2, &message, &end, &err);
        kilni_rpc_message_free(&message);
        if (draw(self, 2) == 0) {
            kilni_rpc_cancel(stream);
        }
    }
    kilni_rpc_stream_close(stream, NULL);
    return sent;
}

static uint64_t resident_mib(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        (void)!fscanf(file, "%*u %llu", &pages);
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
}

static void test_damaged_messages(void)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const char *wanted = getenv("KILN_TEST_MESSAGES");
    size_t total = wanted != NULL ? strtoul(wanted, NULL, 10) : USUAL;
    stock *self = calloc(1, sizeof(*self));
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    kilni_rpc_address address;
    pair peers;
    hand witness;
    size_t sent = 0;
    size_t calls = 0;
    uint64_t before = 0;
    options.max_bytes = 8 << 20;
    options.max_buffers = 64;
    options.resume_seconds = 1;
    self->state = 88172645463325252u;
    add_hello(self, &env);
    add_bodies(self, &env);
    add_offers(self, &env);
    add_runs(self, &env);
    if (!pair_open(&peers, &options) || !hand_open(&witness, &peers) ||
        !PAIR_OK(&peers, kilni_rpc_address_parse(kiln_rpc_server_address(peers.server, 0), &address,
                                                 &peers.err))) {
        return;
    }
    const float data[] = {1, 2};
    hand_write(&witness, 1, 0, 8, data, 8);
    for (; sent < total; calls++) {
        size_t more = attack(self, &env, &address);
        if (more == SIZE_MAX) {
            break;
        }
        sent += more;
        before = calls == 50 ? resident_mib() : before;
        if (sent / (total / 4 + 1) != (sent - more) / (total / 4 + 1)) {
            printf("    %zu messages, %llu MiB resident\n", sent,
                   (unsigned long long)resident_mib());
        }
        if (calls % 200 == 0) { // somebody else's session goes on
            hand_negate(&witness, 2, 1, 2);
            if (!KILN_CHECK_INT(hand_read(&witness, 2, 0, 8), 0)) {
                break;
            }
            KILN_CHECK(hand_float(witness.frame->data, 1) == -2.0f);
        }
    }
    KILN_CHECK(sent >= total);
    KILN_CHECK(resident_mib() < before + MOST_GROWTH_MIB);
    printf("    %zu messages in %zu calls, %llu MiB resident after 50 calls, %llu at the end\n",
           sent, calls, (unsigned long long)before, (unsigned long long)resident_mib());
    hand_close(&witness);
    pair_close(&peers);
    free(self);
}

KILN_TEST_MAIN("unit/remote_grpc/hostile", KILN_TEST(test_damaged_messages))
