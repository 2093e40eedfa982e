// SPDX-License-Identifier: MIT OR Apache-2.0
// Tensors from server to server: counts, secrets, waiting, checksums, peers, and what the client
// sees of it.

#include "remote_fixture.h"
#include "rpc_listener.h"
#include "rpc_transfer.h"
#include "tcp_proxy.h"

#include <pb_encode.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1 << 19 }; ///< floats: two replies

/// Two servers of one device; the second may fetch from the first, and with `both` the first from
/// the second.
typedef struct two {
    pair a;
    pair b;
    char names[2][96];
} two;

static bool serve_at(pair *self, const char *name, const char *peer, uint64_t max_bytes)
{
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    const char *const listen[] = {name, "127.0.0.1:0"};
    const char *const peers[] = {peer};
    options.listen = listen;
    options.n_listen = 2;
    options.fetch_peers = peers;
    options.n_fetch_peers = peer != NULL;
    options.advertise = name;
    options.max_bytes = max_bytes;
    return pair_context(self) && PAIR_OK(self, kiln_rpc_server_create(&self->local, 1, &options,
                                                                      &self->server, &self->err));
}

static bool two_open(two *self, bool both, bool allowed)
{
    for (int i = 0; i < 2; i++) {
        snprintf(self->names[i], sizeof(self->names[i]), "unix:/tmp/kiln-transfer-%d-%d",
                 (int)getpid(), i);
    }
    return serve_at(&self->a, self->names[0], both ? self->names[1] : NULL, 0) &&
           serve_at(&self->b, self->names[1], allowed ? self->names[0] : NULL, 0);
}

static void two_close(two *self)
{
    pair_close(&self->a);
    pair_close(&self->b);
}

static void make_secret(unsigned char *out_secret, unsigned char seed)
{
    for (int i = 0; i < KILNI_RPC_TOKEN; i++) {
        out_secret[i] = (unsigned char)(seed * 7 + i);
    }
}

static void hand_expose(hand *self, uint64_t transfer, uint64_t buffer, uint32_t count,
                        uint32_t expiry_ms)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_expose_tag;
    kiln_v1_Expose *expose = &frame.body.body.expose;
    *expose = (kiln_v1_Expose){
        .transfer = transfer, .buffer = buffer, .count = count, .expiry_ms = expiry_ms};
    expose->secret.size = KILNI_RPC_TOKEN;
    make_secret(expose->secret.bytes, 1);
    hand_send(self, &frame);
}

static void write_obtain(kilni_rpc_frame *frame, const char *address, uint64_t transfer,
                         uint64_t buffer, uint64_t total, uint32_t wait_ms, unsigned char seed)
{
    frame->body.which_body = kiln_v1_Frame_obtain_tag;
    kiln_v1_Obtain *obtain = &frame->body.body.obtain;
    *obtain = (kiln_v1_Obtain){
        .transfer = transfer, .buffer = buffer, .total = total, .wait_ms = wait_ms};
    obtain->secret.size = KILNI_RPC_TOKEN;
    make_secret(obtain->secret.bytes, seed);
    snprintf(obtain->address, sizeof(obtain->address), "%s", address);
}

static uint32_t hand_obtain(hand *self, const char *address, uint64_t transfer, uint64_t buffer,
                            uint64_t total, uint32_t wait_ms, unsigned char seed)
{
    kilni_rpc_frame frame = {0};
    write_obtain(&frame, address, transfer, buffer, total, wait_ms, seed);
    return hand_ask(self, &frame);
}

// ---- between sessions ----

static void test_count_secret_expiry(void)
{
    two self;
    hand source;
    hand target;
    const float data[] = {1, 2};
    if (!two_open(&self, false, true) || !hand_open(&source, &self.a) ||
        !hand_open(&target, &self.b)) {
        return;
    }
    const char *from = self.names[0];
    hand_write(&source, 1, 0, 8, data, 8);
    hand_expose(&source, 5, 1, 2, 60000);
    KILN_CHECK_INT(hand_fence(&source), 0);
    KILN_CHECK_INT(hand_obtain(&target, from, 5, 1, 8, 200, 2), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(hand_obtain(&target, from, 5, 1, 12, 200, 1), KILN_STATUS_INVALID_ARGUMENT);
    for (uint64_t i = 0; i < 2; i++) {
        KILN_CHECK_INT(hand_obtain(&target, from, 5, 2 + i, 8, 5000, 1), 0);
        KILN_CHECK_INT(hand_read(&target, 2 + i, 0, 8), 0);
        KILN_CHECK(hand_float(target.frame->data, 1) == 2.0f);
    }
    KILN_CHECK_INT(hand_obtain(&target, from, 5, 4, 8, 200, 1), KILN_STATUS_DEADLINE_EXCEEDED);
    // Whoever uses what did not come is told why.
    KILN_CHECK_INT(hand_read(&target, 4, 0, 8), KILN_STATUS_DEADLINE_EXCEEDED);
    hand_expose(&source, 6, 1, 1, 1);
    KILN_CHECK_INT(hand_fence(&source), 0);
    pause_us(600000);
    KILN_CHECK_INT(hand_obtain(&target, from, 6, 5, 8, 100, 1), KILN_STATUS_DEADLINE_EXCEEDED);
    hand_expose(&source, 7, 1, 1, 60000);
    kilni_rpc_frame withdraw = {0};
    withdraw.body.which_body = kiln_v1_Frame_withdraw_tag;
    withdraw.body.body.withdraw.transfer = 7;
    hand_send(&source, &withdraw);
    KILN_CHECK_INT(hand_fence(&source), 0);
    KILN_CHECK_INT(hand_obtain(&target, from, 7, 6, 8, 100, 1), KILN_STATUS_DEADLINE_EXCEEDED);
    hand_expose(&source, 8, 1, 1, 60000);
    hand_expose(&source, 8, 1, 1, 60000);
    KILN_CHECK_INT(hand_fence(&source), KILN_STATUS_ALREADY_EXISTS);
    hand_close(&source);
    hand_close(&target);
    two_close(&self);
}

static void test_refusals(void)
{
    two self;
    hand client;
    if (!two_open(&self, false, false) || !hand_open(&client, &self.b)) {
        return;
    }
    KILN_CHECK_INT(hand_obtain(&client, self.names[0], 1, 1, 8, 100, 1),
                   KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(hand_obtain(&client, "nonsense", 1, 1, 8, 100, 1), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(hand_obtain(&client, self.names[1], 1, 1, UINT64_C(1) << 60, 100, 1),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    hand_expose(&client, 1, 99, 1, 1000);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_NOT_FOUND);
    hand_expose(&client, 1, 99, 0, 1000);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
    hand_close(&client);
    two_close(&self);
}

typedef struct fetcher {
    const pair *server;
    const char *from;
    uint32_t code;
    uint64_t ns;
    uint32_t wait_ms;
} fetcher;

static void *fetch_one(void *pointer)
{
    fetcher *self = pointer;
    hand client;
    if (hand_open(&client, self->server)) {
        uint64_t start = kiln_time_ns();
        self->code = hand_obtain(&client, self->from, 9, 1, 8, self->wait_ms, 1);
        self->ns = kiln_time_ns() - start;
    }
    hand_close(&client);
    return NULL;
}

/// Five come before it is exposed; three get it, and two wait until their time is over.
static void test_fetch_first_and_exact_count(void)
{
    enum { FETCHERS = 5, COPIES = 3, WAIT_MS = 1500 };
    two self;
    hand source;
    fetcher fetchers[FETCHERS];
    pthread_t threads[FETCHERS];
    const float data[] = {1, 2};
    if (!two_open(&self, false, true) || !hand_open(&source, &self.a)) {
        return;
    }
    for (int i = 0; i < FETCHERS; i++) {
        fetchers[i] = (fetcher){
            .server = &self.b, .from = self.names[0], .code = UINT32_MAX, .wait_ms = WAIT_MS};
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, fetch_one, &fetchers[i]), 0);
    }
    pause_us(300000);
    hand_write(&source, 1, 0, 8, data, 8);
    hand_expose(&source, 9, 1, COPIES, 60000);
    KILN_CHECK_INT(hand_fence(&source), 0);
    int served = 0;
    int late = 0;
    for (int i = 0; i < FETCHERS; i++) {
        pthread_join(threads[i], NULL);
        served += fetchers[i].code == KILN_STATUS_OK;
        late += fetchers[i].code == KILN_STATUS_DEADLINE_EXCEEDED &&
                fetchers[i].ns > UINT64_C(1000000) * (WAIT_MS - 300);
    }
    KILN_CHECK_INT(served, COPIES);
    KILN_CHECK_INT(late, FETCHERS - COPIES);
    hand_close(&source);
    two_close(&self);
}

/// Within the quota only if every exposure is let go: and what is not fetched ends with its
/// session.
static void test_memory_returns(void)
{
    two self;
    hand source;
    hand target;
    float *data = calloc(COUNT, sizeof(*data));
    const uint64_t bytes = COUNT * sizeof(*data);
    snprintf(self.names[0], sizeof(self.names[0]), "unix:/tmp/kiln-transfer-%d-0", (int)getpid());
    snprintf(self.names[1], sizeof(self.names[1]), "unix:/tmp/kiln-transfer-%d-1", (int)getpid());
    data[COUNT - 1] = 7;
    if (!serve_at(&self.a, self.names[0], NULL, 2 * bytes + 100) ||
        !serve_at(&self.b, self.names[1], self.names[0], 0) || !hand_open(&source, &self.a) ||
        !hand_open(&target, &self.b)) {
        return;
    }
    for (uint64_t at = 0; at < bytes; at += KILNI_RPC_CHUNK) {
        hand_write(&source, 1, at, bytes, (const char *)data + at, KILNI_RPC_CHUNK);
    }
    for (uint64_t i = 1; i <= 10; i++) {
        uint32_t code = UINT32_MAX;
        for (int wait = 0; wait < 400 && code != 0; wait++) {
            hand_expose(&source, i, 1, 1, 60000);
            code = hand_fence(&source);
            pause_us(code != 0 ? 5000 : 0); // the source hears a moment later that it was fetched
        }
        KILN_CHECK_INT(code, 0);
        hand_expose(&source, 1000 + i, 1, 1, 60000); // does not fit beside the other
        KILN_CHECK_INT(hand_fence(&source), KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK_INT(hand_obtain(&target, self.names[0], i, 1, bytes, 5000, 1), 0);
    }
    KILN_CHECK_INT(hand_read(&target, 1, bytes - 4, 4), 0);
    KILN_CHECK(hand_float(target.frame->data, 0) == 7.0f);
    pause_us(300000);
    hand_expose(&source, 77, 1, 1, 60000);
    KILN_CHECK_INT(hand_fence(&source), 0);
    hand_close(&source);
    KILN_CHECK_INT(hand_obtain(&target, self.names[0], 77, 2, bytes, 300, 1),
                   KILN_STATUS_DEADLINE_EXCEEDED);
    hand_close(&target);
    two_close(&self);
    free(data);
}

// ---- a server that lies, or is silent ----

typedef enum lie_kind {
    WRONG_CHECKSUM,
    SHORT, ///< less than was asked for
    SILENT ///< nothing, while the connection stays and pings are answered
} lie_kind;

typedef struct liar {
    kilni_rpc_listener *listener;
    pthread_t thread;
    atomic_int kind;
    atomic_uint calls;
    char name[96];
    kiln_env env;
} liar;

static void answer_falsely(liar *self, kilni_rpc_stream *stream)
{
    // total 8, offset 0, both halves of the checksum 0, 8 bytes of data
    static const char wrong[] = "\x08\x08\x19\0\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\0\x7a\x08"
                                "abcdefgh";
    kilni_rpc_message message = {0};
    kiln_error err = KILN_ERROR_INIT;
    bool end = false;
    (void)!kilni_rpc_receive(stream, 5000, &message, &end, &err);
    kilni_rpc_message_free(&message);
    atomic_fetch_add(&self->calls, 1);
    if (atomic_load(&self->kind) == WRONG_CHECKSUM) {
        (void)!kilni_rpc_send_bytes(stream, wrong, sizeof(wrong) - 1, &err);
        (void)!kilni_rpc_receive(stream, 5000, &message, &end, &err);
        kilni_rpc_message_free(&message);
    }
    while (atomic_load(&self->kind) == SILENT && !kilni_rpc_is_ended(stream, 100)) {
    }
}

static void *lie(void *pointer)
{
    liar *self = pointer;
    kilni_rpc_stream *stream = NULL;
    while ((stream = kilni_rpc_accept(self->listener, -1)) != NULL) {
        if (kilni_rpc_begin_call(self->listener, stream, /*single=*/false)) {
            answer_falsely(self, stream);
        }
        kilni_rpc_stream_close(stream, NULL);
    }
    return NULL;
}

static bool liar_open(liar *self, lie_kind kind)
{
    static const char *const listen[] = {"127.0.0.1:0"};
    kiln_error err = KILN_ERROR_INIT;
    int port = 0;
    const kilni_rpc_listen_options options = {
        .addresses = listen, .n_addresses = 1, .out_ports = &port};
    self->env.allocator = kiln_allocator_default();
    atomic_init(&self->kind, kind);
    atomic_init(&self->calls, 0);
    bool good = KILN_CHECK_INT(kilni_rpc_listen(&self->env, &options, &self->listener, &err),
                               KILN_STATUS_OK) &&
                KILN_CHECK_INT(pthread_create(&self->thread, NULL, lie, self), 0);
    snprintf(self->name, sizeof(self->name), "grpc://127.0.0.1:%d", port);
    return good;
}

static void liar_close(liar *self)
{
    atomic_store(&self->kind, SHORT);
    kilni_rpc_listener_shutdown(self->listener);
    pthread_join(self->thread, NULL);
    kilni_rpc_listener_close(self->listener);
}

/// A server that may fetch from this one, and a client of it.
static bool open_beside(pair *self, hand *client, const liar *other)
{
    kiln_rpc_server_options mine = KILN_RPC_SERVER_OPTIONS_INIT;
    const char *const peers[] = {other->name};
    mine.fetch_peers = peers;
    mine.n_fetch_peers = 1;
    return pair_open(self, &mine) && hand_open(client, self);
}

static void test_checksum(void)
{
    liar other = {0};
    pair self;
    hand client;
    if (!liar_open(&other, WRONG_CHECKSUM)) {
        return;
    }
    if (open_beside(&self, &client, &other)) {
        KILN_CHECK_INT(hand_obtain(&client, other.name, 1, 1, 8, 500, 1), KILN_STATUS_DATA_LOSS);
        atomic_store(&other.kind, SHORT);
        KILN_CHECK(hand_obtain(&client, other.name, 1, 1, 8, 500, 1) != 0);
        KILN_CHECK(hand_read(&client, 1, 0, 8) != 0);
        hand_close(&client);
        pair_close(&self);
    }
    liar_close(&other);
}

/// It is waited for as long as the transfer says, and the client is told who sent nothing.
static void test_a_silent_server_is_left(void)
{
    liar other = {0};
    pair self;
    hand client;
    if (!liar_open(&other, SILENT)) {
        return;
    }
    if (open_beside(&self, &client, &other)) {
        KILN_CHECK_INT(hand_obtain(&client, other.name, 1, 1, 8, 100, 1),
                       KILN_STATUS_DEADLINE_EXCEEDED);
        const char *message = client.frame->body.body.answer.message;
        KILN_CHECK_CONTAINS(message, other.name);
        KILN_CHECK_CONTAINS(message, "after 0 of 8 bytes");
        KILN_CHECK_INT(atomic_load(&other.calls), 1);
        hand_negate(&client, 1, 1, 2); // the session goes on, and its buffer says why it is empty
        KILN_CHECK_INT(hand_read(&client, 2, 0, 4), KILN_STATUS_DEADLINE_EXCEEDED);
        hand_close(&client);
        pair_close(&self);
    }
    liar_close(&other);
}

/// Nor does the end of a server wait for it.
static void test_the_end_leaves_a_silent_server(void)
{
    enum { WAIT_MS = 280000 };
    liar other = {0};
    pair self;
    hand client;
    kilni_rpc_frame frame = {0};
    if (!liar_open(&other, SILENT)) {
        return;
    }
    if (open_beside(&self, &client, &other)) {
        write_obtain(&frame, other.name, 1, 1, 8, WAIT_MS, 1);
        hand_send(&client, &frame);
        for (int i = 0; i < 12000 && atomic_load(&other.calls) == 0; i++) {
            pause_us(5000);
        }
        uint64_t begun = kiln_time_ns();
        kiln_device_release(self.remote);
        self.remote = NULL;
        kiln_rpc_server_destroy(self.server);
        self.server = NULL;
        KILN_CHECK((kiln_time_ns() - begun) / 1000000 < WAIT_MS / 2);
        hand_close(&client);
        pair_close(&self);
    }
    liar_close(&other);
}

// ---- a secret is for one server ----

static void expose_to(hand *self, uint64_t transfer, const void *key, size_t key_bytes)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_expose_tag;
    kiln_v1_Expose *expose = &frame.body.body.expose;
    *expose = (kiln_v1_Expose){.transfer = transfer, .buffer = 1, .count = 1, .expiry_ms = 60000};
    expose->secret.size = KILNI_RPC_TOKEN;
    make_secret(expose->secret.bytes, 1);
    expose->fetcher.size = (pb_size_t)key_bytes;
    memcpy(expose->fetcher.bytes, key, key_bytes);
    hand_send(self, &frame);
}

/// Calls Fetch by hand for 8 bytes, signed for number `signed_for` by `signer` (NULL: not at all).
/// Gives its status.
static kiln_status fetch_by_hand(const char *address, uint64_t transfer, uint64_t offset,
                                 const kilni_rpc_signer *signer, uint64_t signed_for)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_address parsed;
    kilni_rpc_stream *stream = NULL;
    kilni_rpc_message message = {0};
    bool end = false;
    pb_byte_t body[256];
    unsigned char text[16 + KILNI_RPC_TOKEN] = {(unsigned char)signed_for, 0, 0, 0, 0, 0, 0, 0, 8};
    kiln_v1_FetchRequest request = {
        .transfer = transfer, .wait_ms = 300, .total = 8, .offset = offset};
    request.secret.size = KILNI_RPC_TOKEN;
    make_secret(request.secret.bytes, 1);
    memcpy(text + 16, request.secret.bytes, KILNI_RPC_TOKEN);
    if (signer != NULL) {
        request.signature.size = KILNI_RPC_SIGNATURE;
        KILN_CHECK_INT(kilni_rpc_sign(signer, text, sizeof(text), request.signature.bytes, &err),
                       KILN_STATUS_OK);
    }
    pb_ostream_t out = pb_ostream_from_buffer(body, sizeof(body));
    KILN_CHECK(pb_encode(&out, kiln_v1_FetchRequest_fields, &request));
    KILN_CHECK_INT(kilni_rpc_address_parse(address, &parsed, &err), KILN_STATUS_OK);
    kiln_status status =
        kilni_rpc_connect(&env, &parsed, NULL, KILNI_RPC_FETCH, 5000, &stream, &err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send_bytes(stream, body, out.bytes_written, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_receive(stream, 5000, &message, &end, &err);
    }
    kilni_rpc_message_free(&message);
    kilni_rpc_stream_close(stream, NULL);
    return status;
}

static void test_bound_to_one_server(void)
{
    two self;
    hand source;
    hand target;
    kilni_rpc_signer *mine = NULL;
    kilni_rpc_signer *other = NULL;
    unsigned char key[KILNI_RPC_PUBLIC_KEY] = {0};
    const float data[] = {1, 2};
    const kiln_env env = {.allocator = kiln_allocator_default()};
    if (!two_open(&self, false, true) || !hand_open(&source, &self.a) ||
        !hand_open(&target, &self.b) ||
        !KILN_CHECK_INT(kilni_rpc_signer_create(&env, &mine, NULL), KILN_STATUS_OK) ||
        !KILN_CHECK_INT(kilni_rpc_signer_create(&env, &other, NULL), KILN_STATUS_OK)) {
        return;
    }
    const char *from = self.names[0];
    const kiln_v1_Welcome *welcome = &target.frame->body.body.welcome;
    if (KILN_CHECK_INT(welcome->fetch_key.size, sizeof(key))) {
        memcpy(key, welcome->fetch_key.bytes, sizeof(key));
    }
    hand_write(&source, 1, 0, 8, data, 8);
    expose_to(&source, 5, key, sizeof(key)); // for the second server
    expose_to(&source, 6, kilni_rpc_public_key(mine), sizeof(key)); // for this test
    KILN_CHECK_INT(hand_fence(&source), 0);
    expose_to(&source, 7, key, 31);
    KILN_CHECK_INT(hand_fence(&source), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(fetch_by_hand(from, 5, 0, NULL, 5), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(fetch_by_hand(from, 5, 0, mine, 5), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(hand_obtain(&source, from, 5, 9, 8, 300, 1), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(hand_obtain(&target, from, 6, 9, 8, 300, 1), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(fetch_by_hand(from, 6, 0, other, 6), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(fetch_by_hand(from, 6, 0, mine, 5), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(fetch_by_hand(from, 6, 9, mine, 6), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(fetch_by_hand(from, 6, 4, mine, 6), KILN_STATUS_OK);
    KILN_CHECK_INT(hand_obtain(&target, from, 5, 2, 8, 300, 1), 0);
    KILN_CHECK_INT(hand_read(&target, 2, 0, 8), 0);
    KILN_CHECK(hand_float(target.frame->data, 1) == 2.0f);
    kilni_rpc_signer_destroy(mine);
    kilni_rpc_signer_destroy(other);
    hand_close(&source);
    hand_close(&target);
    two_close(&self);
}

// ---- a connection that breaks ----

/// Serves on the network too; gives the port.
static int port_of(const pair *peers)
{
    return (int)strtol(strrchr(kiln_rpc_server_address(peers->server, 1), ':') + 1, NULL, 10);
}

static void test_interrupted_fetch_goes_on(void)
{
    enum { PARTS = 8, TOTAL = PARTS * KILNI_RPC_CHUNK };
    two self = {0};
    hand source;
    hand target;
    char through[64];
    unsigned char *data = malloc(TOTAL);
    unsigned char back[1024];
    for (size_t i = 0; i < TOTAL; i++) {
        data[i] = (unsigned char)(i / 977);
    }
    snprintf(self.names[0], sizeof(self.names[0]), "unix:/tmp/kiln-transfer-%d-0", (int)getpid());
    snprintf(self.names[1], sizeof(self.names[1]), "unix:/tmp/kiln-transfer-%d-1", (int)getpid());
    if (!serve_at(&self.a, self.names[0], NULL, 0)) {
        return;
    }
    tcp_proxy *proxy = proxy_start(port_of(&self.a));
    snprintf(through, sizeof(through), "grpc://127.0.0.1:%d", proxy_port(proxy));
    if (!serve_at(&self.b, self.names[1], through, 0) || !hand_open(&source, &self.a) ||
        !hand_open(&target, &self.b)) {
        return;
    }
    for (uint64_t at = 0; at < TOTAL; at += KILNI_RPC_CHUNK) {
        hand_write(&source, 1, at, TOTAL, data + at, KILNI_RPC_CHUNK);
    }
    for (uint64_t cut = 1; cut < PARTS; cut += 2) {
        hand_expose(&source, cut, 1, 1, 60000);
        KILN_CHECK_INT(hand_fence(&source), 0);
        proxy_arm(proxy, PROXY_DOWN, cut, cut % 4 == 1);
        KILN_CHECK_INT(hand_obtain(&target, through, cut, cut, TOTAL, 5000, 1), 0);
        KILN_CHECK(proxy_has_cut(proxy));
        KILN_CHECK(proxy_frames(proxy, PROXY_DOWN) <= PARTS + 2); // not all of them again
        for (uint64_t at = 0; at < TOTAL; at += KILNI_RPC_CHUNK) {
            KILN_CHECK_INT(hand_read(&target, cut, at, sizeof(back)), 0);
            kilni_rpc_frame_data(target.frame, back);
            KILN_CHECK_MEM(back, data + at, sizeof(back));
        }
    }
    hand_close(&source);
    hand_close(&target);
    proxy_stop(proxy);
    two_close(&self);
    free(data);
}

// ---- through the runtime ----

static float *make_data(void)
{
    float *data = calloc(COUNT, sizeof(*data));
    for (int i = 0; i < COUNT; i++) {
        data[i] = (float)(i % 771);
    }
    return data;
}

/// kiln_to_device between two servers: with the target's leave its bytes do not pass the client,
/// and without it they do; the result is the same.
static void move_between(bool allowed)
{
    two self;
    const int64_t dims[] = {COUNT};
    float *data = make_data();
    float *back = calloc(COUNT, sizeof(*back));
    kilni_rpc_address direct;
    char address[96];
    kiln_device *source = NULL;
    kiln_device *target = NULL;
    kiln_tensor *moved = NULL;
    if (!two_open(&self, false, allowed)) {
        return;
    }
    pair *client = &self.a;
    PAIR_OK(client, kilni_rpc_address_parse(kiln_rpc_server_address(self.a.server, 1), &direct,
                                            &client->err));
    tcp_proxy *proxy = proxy_start(direct.port);
    snprintf(address, sizeof(address), "grpc://127.0.0.1:%d", proxy_port(proxy));
    PAIR_OK(client, kiln_device_open(client->context, address, &source, &client->err));
    PAIR_OK(client, kiln_device_open(client->context, self.names[1], &target, &client->err));
    client->remote = source;
    kiln_tensor *x = pair_upload(client, 1, dims, data);
    kiln_tensor_set_param(x, UINT64_C(0xfedcba9876543210));
    PAIR_OK(client, kiln_sync(source, &client->err));
    proxy_arm(proxy, PROXY_DOWN, 0, false);
    PAIR_OK(client, kiln_to_device(x, target, &moved, &client->err));
    PAIR_OK(client, kiln_read(moved, back, COUNT * sizeof(*back), &client->err));
    KILN_CHECK(memcmp(back, data, COUNT * sizeof(*back)) == 0);
    KILN_CHECK((proxy_bytes(proxy, PROXY_DOWN) < 65536) == allowed);
    KILN_CHECK(kiln_tensor_param(moved) == UINT64_C(0xfedcba9876543210));
    kiln_release(moved);
    kiln_release(x);
    kiln_device_release(target);
    kiln_device_release(source);
    client->remote = NULL;
    proxy_stop(proxy);
    two_close(&self);
    free(data);
    free(back);
}

static void test_move_directly(void)
{
    move_between(true);
}

static void test_move_through_client(void)
{
    move_between(false);
}

/// Source and target are two devices of one server.
static void test_same_server(void)
{
    pair self;
    const int64_t dims[] = {COUNT};
    float *data = make_data();
    float *back = calloc(COUNT, sizeof(*back));
    char address[96];
    kiln_device *other = NULL;
    kiln_tensor *moved = NULL;
    if (!pair_context(&self)) {
        return;
    }
    kiln_device *const devices[] = {self.local, self.local};
    PAIR_OK(&self, kiln_rpc_server_create(devices, 2, NULL, &self.server, &self.err));
    PAIR_OK(&self, kiln_device_open(self.context, kiln_rpc_server_address(self.server, 0),
                                    &self.remote, &self.err));
    snprintf(address, sizeof(address), "%s/1", kiln_rpc_server_address(self.server, 0));
    PAIR_OK(&self, kiln_device_open(self.context, address, &other, &self.err));
    kiln_tensor *x = pair_upload(&self, 1, dims, data);
    PAIR_OK(&self, kiln_to_device(x, other, &moved, &self.err));
    PAIR_OK(&self, kiln_read(moved, back, COUNT * sizeof(*back), &self.err));
    KILN_CHECK(memcmp(back, data, COUNT * sizeof(*back)) == 0);
    kiln_release(moved);
    kiln_release(x);
    kiln_device_release(other);
    snprintf(address, sizeof(address), "%s/2", kiln_rpc_server_address(self.server, 0));
    KILN_CHECK_INT(kiln_device_open(self.context, address, &other, &self.err),
                   KILN_STATUS_NOT_FOUND);
    pair_close(&self);
    free(data);
    free(back);
}

typedef struct traveller {
    const two *servers;
    int from;
    bool good;
} traveller;

static void *travel(void *pointer)
{
    enum { ROUNDS = 10, SMALL = 1000 };
    traveller *self = pointer;
    pair client;
    kiln_device *ends[2] = {NULL, NULL};
    const int64_t dims[] = {SMALL};
    float data[SMALL];
    float back[SMALL];
    bool good = pair_context(&client);
    for (int i = 0; i < 2 && good; i++) {
        good = PAIR_OK(&client, kiln_device_open(client.context, self->servers->names[i], &ends[i],
                                                 &client.err));
    }
    client.remote = ends[self->from];
    for (int round = 0; round < ROUNDS && good; round++) {
        kiln_tensor *moved = NULL;
        for (int i = 0; i < SMALL; i++) {
            data[i] = (float)(i + round + self->from);
        }
        kiln_tensor *x = pair_upload(&client, 1, dims, data);
        good = PAIR_OK(&client, kiln_to_device(x, ends[1 - self->from], &moved, &client.err)) &&
               PAIR_OK(&client, kiln_read(moved, back, sizeof(back), &client.err)) &&
               memcmp(back, data, sizeof(back)) == 0;
        kiln_release(moved);
        kiln_release(x);
    }
    kiln_device_release(ends[0]);
    kiln_device_release(ends[1]);
    client.remote = NULL;
    pair_close(&client);
    self->good = good;
    return NULL;
}

/// There and back at the same time, by several clients: nobody waits for ever.
static void test_no_deadlock(void)
{
    enum { CLIENTS = 4 };
    two self;
    traveller travellers[CLIENTS];
    pthread_t threads[CLIENTS];
    if (!two_open(&self, true, true)) {
        return;
    }
    for (int i = 0; i < CLIENTS; i++) {
        travellers[i] = (traveller){.servers = &self, .from = i % 2};
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, travel, &travellers[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK(travellers[i].good);
    }
    two_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/transfer", KILN_TEST(test_count_secret_expiry),
               KILN_TEST(test_refusals), KILN_TEST(test_fetch_first_and_exact_count),
               KILN_TEST(test_memory_returns), KILN_TEST(test_checksum),
               KILN_TEST(test_a_silent_server_is_left),
               KILN_TEST(test_the_end_leaves_a_silent_server), KILN_TEST(test_bound_to_one_server),
               KILN_TEST(test_interrupted_fetch_goes_on), KILN_TEST(test_move_directly),
               KILN_TEST(test_move_through_client), KILN_TEST(test_same_server),
               KILN_TEST(test_no_deadlock))
