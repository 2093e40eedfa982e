// SPDX-License-Identifier: MIT OR Apache-2.0
// A raw socket: writes and reads of 1 MiB, one byte as the order and one as the receipt.

#include "bench_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 1 << 20, ORDER_UP = 'u', ORDER_DOWN = 'd' };

struct bench_socket {
    int ends[2]; ///< ours, the other's
    pthread_t thread;
    char *memory; ///< the other's
    size_t bytes;
};

static bool send_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = send(fd, data, bytes < PIECE ? bytes : PIECE, MSG_NOSIGNAL);
        if (done <= 0) {
            return false;
        }
        data += done;
        bytes -= (size_t)done;
    }
    return true;
}

static bool receive_all(int fd, char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = recv(fd, data, bytes < PIECE ? bytes : PIECE, 0);
        if (done <= 0) {
            return false;
        }
        data += done;
        bytes -= (size_t)done;
    }
    return true;
}

static void *answer_all(void *pointer)
{
    bench_socket *self = pointer;
    int fd = self->ends[1];
    char order = 0;
    bool good = true;
    while (good && receive_all(fd, &order, 1)) {
        good = order == ORDER_UP
                   ? receive_all(fd, self->memory, self->bytes) && send_all(fd, &order, 1)
                   : send_all(fd, self->memory, self->bytes);
    }
    return NULL;
}

/// Two ends of one TCP connection on loopback.
static bool connect_ends(int *out_ends)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t length = sizeof(name);
    const int on = 1;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    out_ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    bool good = bind(listener, (struct sockaddr *)&name, sizeof(name)) == 0 &&
                listen(listener, 1) == 0 &&
                getsockname(listener, (struct sockaddr *)&name, &length) == 0 &&
                connect(out_ends[0], (struct sockaddr *)&name, sizeof(name)) == 0;
    out_ends[1] = good ? accept(listener, NULL, NULL) : -1;
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(out_ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    (void)close(listener);
    return good && out_ends[1] >= 0;
}

kiln_status bench_socket_open(size_t bytes, bench_socket **out_socket, kiln_error *err)
{
    bench_socket *self = calloc(1, sizeof(*self));
    char *memory = malloc(bytes);
    if (self == NULL || memory == NULL || !connect_ends(self->ends)) {
        free(self);
        free(memory);
        return kiln_fail(err, UNAVAILABLE, "no raw socket to compare with");
    }
    memset(memory, 1, bytes);
    self->memory = memory;
    self->bytes = bytes;
    if (pthread_create(&self->thread, NULL, answer_all, self) != 0) {
        (void)close(self->ends[0]);
        (void)close(self->ends[1]);
        free(memory);
        free(self);
        return kiln_fail(err, UNAVAILABLE, "no thread for a raw socket");
    }
    *out_socket = self;
    return KILN_STATUS_OK;
}

void bench_socket_close(bench_socket *self)
{
    if (self != NULL) {
        (void)close(self->ends[0]);
        pthread_join(self->thread, NULL);
        (void)close(self->ends[1]);
        free(self->memory);
        free(self);
    }
}

kiln_status bench_socket_copy(bench_socket *self, void *data, size_t bytes, bool up,
                              uint64_t *out_ns, kiln_error *err)
{
    char order = up ? ORDER_UP : ORDER_DOWN;
    uint64_t start = kiln_time_ns();
    bool good = send_all(self->ends[0], &order, 1) &&
                (up ? send_all(self->ends[0], data, bytes) && receive_all(self->ends[0], &order, 1)
                    : receive_all(self->ends[0], data, bytes));
    *out_ns = kiln_time_ns() - start;
    return good ? KILN_STATUS_OK : kiln_fail(err, UNAVAILABLE, "the raw socket broke");
}
