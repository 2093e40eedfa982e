// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread, one connection at a time, poll in both directions. A cut falls exactly between two
// messages: what belongs to one is passed on, nothing after it.
#define _GNU_SOURCE // accept4
#include "tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PREFACE = 24, HEADER = 9, PREFIX = 5, STEP_MS = 50 };

/// Where a direction is between the frames.
typedef struct follower {
    size_t skip; ///< bytes of the preface or of a payload that are still to come
    unsigned char header[HEADER];
    size_t have; ///< bytes of the header
    bool data; ///< the payload is a DATA frame's
    unsigned char prefix[PREFIX]; ///< of a message of gRPC: a flag and its length
    size_t have_prefix;
    size_t message; ///< bytes of it that are still to come
} follower;

struct tcp_proxy {
    int listener;
    int port;
    int target_port;
    pthread_t thread;
    atomic_bool stop;
    atomic_bool has_cut;
    atomic_bool hard;
    atomic_int direction;
    atomic_ullong limit;
    atomic_ullong limit_bytes;
    atomic_ullong frames[2];
    atomic_ullong bytes[2];
};

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return name;
}

/// One byte of a stream of messages; true when one ends with it.
static bool follow_message(follower *self, unsigned char byte)
{
    if (self->message > 0) {
        return --self->message == 0;
    }
    self->prefix[self->have_prefix++] = byte;
    if (self->have_prefix < PREFIX) {
        return false;
    }
    self->have_prefix = 0;
    self->message = (size_t)self->prefix[1] << 24 | (size_t)self->prefix[2] << 16 |
                    (size_t)self->prefix[3] << 8 | self->prefix[4];
    return self->message == 0;
}

/// Follows one byte; true when a message ends with it.
static bool follow(follower *self, unsigned char byte)
{
    if (self->skip > 0) {
        self->skip--;
        return self->data && follow_message(self, byte);
    }
    self->header[self->have++] = byte;
    if (self->have < HEADER) {
        return false;
    }
    self->have = 0;
    self->skip = (size_t)self->header[0] << 16 | (size_t)self->header[1] << 8 | self->header[2];
    self->data = self->header[3] == 0 && self->skip > 0;
    return false;
}

/// How much of `bytes` may pass: all, or up to the cut.
static size_t measure(tcp_proxy *proxy, int direction, follower *state, const unsigned char *bytes,
                      size_t length, bool *out_cut)
{
    uint64_t passed = atomic_load(&proxy->bytes[direction]);
    uint64_t most = atomic_load(&proxy->limit_bytes);
    if (most != 0 && atomic_load(&proxy->direction) == direction && passed + length >= most &&
        !atomic_exchange(&proxy->has_cut, true)) {
        *out_cut = true;
        length = passed < most ? (size_t)(most - passed) : 0;
    }
    for (size_t i = 0; i < length; i++) {
        bool preface = state->skip > 0 && !state->data && state->have == HEADER;
        if (preface) { // marked by a full header
            state->have = --state->skip > 0 ? HEADER : 0;
            continue;
        }
        if (!follow(state, bytes[i])) {
            continue;
        }
        uint64_t seen = atomic_fetch_add(&proxy->frames[direction], 1) + 1;
        uint64_t limit = atomic_load(&proxy->limit);
        if (limit != 0 && atomic_load(&proxy->direction) == direction && seen == limit &&
            !atomic_exchange(&proxy->has_cut, true)) {
            *out_cut = true;
            return i + 1;
        }
    }
    return length;
}

static bool write_all(int fd, const unsigned char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t done = send(fd, bytes, length, MSG_NOSIGNAL);
        if (done <= 0) {
            return false;
        }
        bytes += done;
        length -= (size_t)done;
    }
    return true;
}

/// Passes on what is there; false: the connection is over.
static bool pump(tcp_proxy *proxy, int direction, int from, int to, follower *state)
{
    unsigned char bytes[65536];
    ssize_t got = recv(from, bytes, sizeof(bytes), 0);
    bool cut = false;
    if (got <= 0) {
        return false;
    }
    size_t length = measure(proxy, direction, state, bytes, (size_t)got, &cut);
    atomic_fetch_add(&proxy->bytes[direction], length);
    return write_all(to, bytes, length) && !cut;
}

static void finish(tcp_proxy *proxy, int fd)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    if (atomic_load(&proxy->hard) && atomic_load(&proxy->has_cut)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    (void)close(fd);
}

static void serve(tcp_proxy *proxy, int client)
{
    const struct sockaddr_in name = loopback(proxy->target_port);
    const int on = 1;
    // The preface is marked by a header that is full before it has begun.
    follower states[2] = {{.skip = PREFACE, .have = HEADER}, {.skip = 0}};
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(server, (const struct sockaddr *)&name, sizeof(name)) == 0;
    (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    while (good && !atomic_load(&proxy->stop)) {
        struct pollfd ends[2] = {{.fd = client, .events = POLLIN},
                                 {.fd = server, .events = POLLIN}};
        (void)poll(ends, 2, STEP_MS);
        if (ends[0].revents != 0) {
            good = pump(proxy, PROXY_UP, client, server, &states[0]);
        }
        if (good && ends[1].revents != 0) {
            good = pump(proxy, PROXY_DOWN, server, client, &states[1]);
        }
    }
    finish(proxy, client);
    finish(proxy, server);
}

static void *run(void *pointer)
{
    tcp_proxy *proxy = pointer;
    while (!atomic_load(&proxy->stop)) {
        struct pollfd end = {.fd = proxy->listener, .events = POLLIN};
        if (poll(&end, 1, STEP_MS) > 0) {
            int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
            if (client >= 0) {
                serve(proxy, client);
            }
        }
    }
    return NULL;
}

tcp_proxy *proxy_start(int target_port)
{
    struct sockaddr_in name = loopback(0);
    socklen_t length = sizeof(name);
    tcp_proxy *proxy = calloc(1, sizeof(*proxy));
    if (proxy == NULL) {
        return NULL;
    }
    proxy->target_port = target_port;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->listener, (const struct sockaddr *)&name, sizeof(name)) != 0 ||
        listen(proxy->listener, 16) != 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&name, &length) != 0 ||
        pthread_create(&proxy->thread, NULL, run, proxy) != 0) {
        free(proxy);
        return NULL;
    }
    proxy->port = ntohs(name.sin_port);
    return proxy;
}

int proxy_port(const tcp_proxy *proxy)
{
    return proxy->port;
}

void proxy_arm(tcp_proxy *proxy, int direction, uint64_t frames, bool hard)
{
    atomic_store(&proxy->limit, 0);
    atomic_store(&proxy->limit_bytes, 0);
    for (int i = 0; i < 2; i++) {
        atomic_store(&proxy->frames[i], 0);
        atomic_store(&proxy->bytes[i], 0);
    }
    atomic_store(&proxy->has_cut, false);
    atomic_store(&proxy->hard, hard);
    atomic_store(&proxy->direction, direction);
    atomic_store(&proxy->limit, frames);
}

void proxy_arm_bytes(tcp_proxy *proxy, int direction, uint64_t bytes, bool hard)
{
    proxy_arm(proxy, direction, 0, hard);
    atomic_store(&proxy->limit_bytes, bytes);
}

uint64_t proxy_frames(const tcp_proxy *proxy, int direction)
{
    return atomic_load(&proxy->frames[direction]);
}

uint64_t proxy_bytes(const tcp_proxy *proxy, int direction)
{
    return atomic_load(&proxy->bytes[direction]);
}

bool proxy_has_cut(const tcp_proxy *proxy)
{
    return atomic_load(&proxy->has_cut);
}

void proxy_stop(tcp_proxy *proxy)
{
    if (proxy != NULL) {
        atomic_store(&proxy->stop, true);
        pthread_join(proxy->thread, NULL);
        (void)close(proxy->listener);
        free(proxy);
    }
}
