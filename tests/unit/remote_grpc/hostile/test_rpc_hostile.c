// SPDX-License-Identifier: MIT OR Apache-2.0
// Peers that break every rule: messages of real sessions, damaged at random and in any order, to
// every method. Nothing may crash, sessions of others go on, and memory stays bounded. How many
// messages: the environment's KILN_TEST_MESSAGES; few by default, 100000 is the full run.

#include "http2_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL = 4000 / PATIENCE, PER_CALL = 12 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_GROWTH_MIB = 2048 }; // freed memory is kept, and everything is larger
#else
enum { MOST_GROWTH_MIB = 256 };
#endif

typedef struct stock {
    said said;
    uint64_t state; ///< of the random numbers: the same in every run
} stock;

static uint64_t draw(stock *self, uint64_t below)
{
    self->state ^= self->state << 13;
    self->state ^= self->state >> 7;
    self->state ^= self->state << 17;
    return self->state % below;
}

// ---- damage ----

static size_t damage(stock *self, unsigned char *bytes, size_t length)
{
    static const unsigned char extremes[] = {0x00, 0x7f, 0x80, 0xff, 0x01, 0x08, 0x12, 0x7a};
    uint64_t times = draw(self, 4);
    for (uint64_t i = 0; i < times && length > 0; i++) {
        size_t at = (size_t)draw(self, length);
        size_t much = (size_t)draw(self, 16) + 1;
        const said_message *other = &self->said.messages[draw(self, self->said.count)];
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
            if (length + much <= SAID_BYTES) {
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
        dialled =
            kilni_rpc_connect(env, address, NULL, methods[method], 20000 * PATIENCE, &stream, &err);
    }
    if (!kiln_test_check(dialled == KILN_STATUS_OK, __FILE__, __LINE__, err.message)) {
        return SIZE_MAX;
    }
    if (session && draw(self, 8) != 0) {
        (void)!kilni_rpc_send_bytes(stream, self->said.messages[0].bytes,
                                    self->said.messages[0].length, &err);
    }
    kiln_status status = KILN_STATUS_OK;
    uint64_t count = session ? draw(self, PER_CALL) + 1 : 1;
    for (uint64_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        unsigned char bytes[SAID_BYTES];
        const said_message *chosen = &self->said.messages[draw(self, self->said.count)];
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
    said_fill(&self->said, &env);
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
        before = calls == 50 / PATIENCE ? resident_mib() : before;
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
    printf("    %zu messages in %zu calls, %llu MiB resident after %d calls, %llu at the end\n",
           sent, calls, (unsigned long long)before, 50 / PATIENCE,
           (unsigned long long)resident_mib());
    hand_close(&witness);
    pair_close(&peers);
    free(self);
}

// ---- frames of HTTP/2 ----

/// What fuzz_sequence.c plays reaches what it is meant for: a script that breaks no rule is
/// answered, and after one that does, another is.
static void test_scripts_are_heard(void)
{
    enum { HELLO = 0, WRITE = 2, READ = 4, RUN = 16 };
    static const uint8_t good[] = {0,         HTTP2_CALL, 1,     0, //
                                   HTTP2_SAY, 1,          HELLO, HTTP2_SAY, 1, WRITE,
                                   HTTP2_SAY, 1,          RUN,   HTTP2_SAY, 1, READ};
    static const uint8_t bad[] = {0,           HTTP2_CALL, 1,     0, // as above, behind a
                                  HTTP2_FRAME, 9,          0,     1, // CONTINUATION of
                                  2,           0x40,       0x81, // nothing
                                  HTTP2_SAY,   1,          HELLO, HTTP2_SAY, 1, WRITE,
                                  HTTP2_SAY,   1,          RUN,   HTTP2_SAY, 1, READ};
    static const float doubled[] = {-2, -4, -6, -8};
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const char *folder = kiln_test_tmpdir();
    const char *path = kiln_test_path(folder, "socket");
    char listen[512];
    const char *const listens[] = {listen};
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    pair peers;
    said *messages = calloc(1, sizeof(*messages));
    snprintf(listen, sizeof(listen), "unix:%s", path);
    options.listen = listens;
    options.n_listen = 1;
    said_fill(messages, &env);
    if (pair_open(&peers, &options)) {
        KILN_CHECK(http2_play(path, messages, good, sizeof(good), doubled, sizeof(doubled)));
        KILN_CHECK(!http2_play(path, messages, bad, sizeof(bad), doubled, sizeof(doubled)));
        KILN_CHECK(http2_play(path, messages, good, sizeof(good), doubled, sizeof(doubled)));
    }
    pair_close(&peers);
    free(messages);
}

KILN_TEST_MAIN("unit/remote_grpc/hostile", KILN_TEST(test_scripts_are_heard),
               KILN_TEST(test_damaged_messages))
