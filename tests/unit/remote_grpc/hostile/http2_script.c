// SPDX-License-Identifier: MIT OR Apache-2.0
// Plays scripts of HTTP/2 frames. Decides how a step becomes bytes; what must hold is the caller's.
#define _GNU_SOURCE // memmem
#include "http2_script.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SENT_MOST = 65536, ///< bytes of a script's frames; a socket's buffer takes them all
    HEARD_MOST = 65536, ///< bytes that are kept
    HEAR_MS = 10,
    EXPECT_MS = 20000,
    DATA = 0,
    HEADERS = 1,
    END_HEADERS = 4,
    HEAD_BYTES = 9,
    PREFIX_BYTES = 5 ///< gRPC's, before a message
};

typedef struct player {
    int fd;
    const said *messages;
    const uint8_t *script;
    size_t left;
    unsigned char out[SENT_MOST];
    size_t n_out;
    unsigned char heard[HEARD_MOST];
    size_t n_heard;
} player;

// ---- bytes ----

static void put(player *self, const void *bytes, size_t length)
{
    if (length <= sizeof(self->out) - self->n_out) {
        memcpy(self->out + self->n_out, bytes, length);
        self->n_out += length;
    }
}

static void put_head(player *self, size_t length, uint8_t type, uint8_t flags, uint8_t stream)
{
    const unsigned char head[HEAD_BYTES] = {(unsigned char)(length >> 16),
                                            (unsigned char)(length >> 8),
                                            (unsigned char)length,
                                            type,
                                            flags,
                                            0,
                                            0,
                                            0,
                                            stream};
    put(self, head, sizeof(head));
}

/// A frame that begins with a message of gRPC.
static void put_message(player *self, uint8_t stream, const void *bytes, size_t length)
{
    const unsigned char prefix[PREFIX_BYTES] = {0, 0, 0, (unsigned char)(length >> 8),
                                                (unsigned char)length};
    put_head(self, sizeof(prefix) + length, DATA, 0, stream);
    put(self, prefix, sizeof(prefix));
    put(self, bytes, length);
}

/// A header without index and without Huffman's code.
static size_t add_header(unsigned char *block, size_t at, const char *name, const char *value)
{
    const char *parts[] = {name, value};
    block[at++] = 0;
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(parts[i]);
        block[at++] = (unsigned char)length; // all are shorter than 127
        memcpy(block + at, parts[i], length);
        at += length;
    }
    return at;
}

static void put_call(player *self, uint8_t stream, uint8_t method)
{
    static const char *const methods[] = {
        KILNI_RPC_SESSION, KILNI_RPC_INFO, KILNI_RPC_FETCH, "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"};
    unsigned char block[512];
    size_t n = add_header(block, 0, ":method", "POST");
    n = add_header(block, n, ":scheme", "http");
    n = add_header(block, n, ":path", methods[method % (sizeof(methods) / sizeof(methods[0]))]);
    n = add_header(block, n, ":authority", "kiln");
    n = add_header(block, n, "te", "trailers");
    n = add_header(block, n, "content-type", "application/grpc");
    put_head(self, n, HEADERS, END_HEADERS, stream);
    put(self, block, n);
}

static void flush_out(player *self)
{
    size_t at = 0;
    while (at < self->n_out) {
        ssize_t sent = send(self->fd, self->out + at, self->n_out - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            break; // the server has closed, or reads no more
        }
        at += (size_t)sent;
    }
    self->n_out = 0;
}

/// Reads what there is, waiting for its first byte; false: nothing, or the end.
static bool hear(player *self, int timeout_ms)
{
    struct pollfd ready = {.fd = self->fd, .events = POLLIN};
    if (poll(&ready, 1, timeout_ms) <= 0) {
        return false;
    }
    if (self->n_heard == sizeof(self->heard)) {
        self->n_heard = 0;
    }
    ssize_t got =
        recv(self->fd, self->heard + self->n_heard, sizeof(self->heard) - self->n_heard, 0);
    self->n_heard += got > 0 ? (size_t)got : 0;
    return got > 0;
}

// ---- steps ----

static uint8_t take(player *self)
{
    if (self->left == 0) {
        return 0;
    }
    self->left--;
    return *self->script++;
}

/// As many bytes of the script as there are, at most `wanted`.
static const uint8_t *take_bytes(player *self, uint8_t wanted, size_t *out_length)
{
    const uint8_t *bytes = self->script;
    *out_length = wanted < self->left ? wanted : self->left;
    self->script += *out_length;
    self->left -= *out_length;
    return bytes;
}

static void play_frame(player *self)
{
    size_t length = 0;
    uint8_t type = take(self);
    uint8_t flags = take(self);
    uint8_t stream = take(self);
    const uint8_t *bytes = take_bytes(self, take(self), &length);
    put_head(self, length, type, flags, stream);
    put(self, bytes, length);
}

static void play_step(player *self)
{
    uint8_t kind = take(self) % HTTP2_KINDS;
    uint8_t stream = 0;
    size_t length = 0;
    const uint8_t *bytes = NULL;
    const said_message *message = NULL;
    switch (kind) {
    case HTTP2_FRAME:
        play_frame(self);
        break;
    case HTTP2_CALL:
        stream = take(self);
        put_call(self, stream, take(self));
        break;
    case HTTP2_SAY:
        stream = take(self);
        message = &self->messages->messages[take(self) % self->messages->count];
        put_message(self, stream, message->bytes, message->length);
        break;
    case HTTP2_BYTES:
        stream = take(self);
        bytes = take_bytes(self, take(self), &length);
        put_message(self, stream, bytes, length);
        break;
    default:
        flush_out(self);
        if (hear(self, HEAR_MS)) {
            while (hear(self, 0)) {
            }
        }
    }
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = 2}; // with a server that reads no more
    if (fd >= 0 && strlen(path) < sizeof(address.sun_path)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        memcpy(address.sun_path, path, strlen(path));
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
            return fd;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

bool http2_play(const char *path, const said *messages, const uint8_t *script, size_t size,
                const void *expected, size_t expected_length)
{
    static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static player self; // too much for a stack; one plays at a time
    self = (player){.fd = connect_to(path), .messages = messages, .script = script, .left = size};
    if (self.fd < 0) {
        return false;
    }
    uint8_t how = take(&self);
    if ((how & 1) == 0) {
        put(&self, greeting, sizeof(greeting) - 1);
    }
    if ((how & 2) == 0) {
        put_head(&self, 0, 4, 0, 0);
    }
    while (self.left > 0) {
        play_step(&self);
    }
    flush_out(&self);
    bool found = expected == NULL;
    while (!found && hear(&self, EXPECT_MS)) {
        found = memmem(self.heard, self.n_heard, expected, expected_length) != NULL;
    }
    if ((how & 4) != 0) { // what has come is not read: for the server that is a reset
        close(self.fd);
        return found;
    }
    (void)shutdown(self.fd, SHUT_WR);
    while (hear(&self, HEAR_MS)) {
    }
    close(self.fd);
    return found;
}
