// SPDX-License-Identifier: MIT OR Apache-2.0
// The desk: takes one connection after the other, one message with one descriptor from each, and
// answers with a byte. Who connects is this user, for the file's mode says so; whose session it is,
// the token says. Nobody is waited for longer than a second.

#define _GNU_SOURCE // accept4
#include "rpc_desk.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_DESCRIPTORS = 4 };

struct kilni_rpc_desk {
    const kiln_env *env;
    kilni_rpc_desk_fn give;
    void *user;
    pthread_t thread;
    int socket;
    atomic_bool stopping;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/// The one descriptor of a message, or -1; all others are closed.
static int take_descriptor(struct msghdr *message)
{
    int found = -1;
    size_t count = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each != NULL;
         each = CMSG_NXTHDR(message, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t here = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++, count++) {
            int next = -1;
            memcpy(&next, CMSG_DATA(each) + i * sizeof(int), sizeof(next));
            if (found >= 0) {
                (void)close(found);
            }
            found = next;
        }
    }
    if (found >= 0 && count != 1) {
        (void)close(found);
        found = -1;
    }
    return found;
}

static char serve_one(const kilni_rpc_desk *self, int link)
{
    kilni_rpc_memory_hello hello = {.bytes = 0};
    kilni_rpc_memory memory = {NULL, 0};
    kiln_error ignored = KILN_ERROR_INIT;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {.iov_base = &hello, .iov_len = sizeof(hello)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    ssize_t got = recvmsg(link, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    int descriptor = got >= 0 ? take_descriptor(&message) : -1;
    bool good = got == (ssize_t)sizeof(hello) &&
                (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                memcmp(hello.magic, kilni_rpc_memory_magic, sizeof(hello.magic)) == 0;
    if (good && (descriptor >= 0 || hello.bytes > 0)) {
        good = descriptor >= 0 &&
               kilni_rpc_memory_map(descriptor, hello.bytes, &memory, &ignored) == KILN_STATUS_OK;
    }
    if (descriptor >= 0) {
        (void)close(descriptor); // the mapping holds it
    }
    char answer = good ? self->give(self->user, &hello, &memory) : (char)KILNI_RPC_MEMORY_REFUSED;
    if (answer != KILNI_RPC_MEMORY_TAKEN) {
        kilni_rpc_memory_unmap(&memory);
    }
    return answer;
}

static void *serve_desk(void *pointer)
{
    const kilni_rpc_desk *self = pointer;
    const struct timeval patience = {.tv_sec = 1};
    while (!atomic_load(&self->stopping)) {
        int link = accept4(self->socket, NULL, NULL, SOCK_CLOEXEC);
        if (link < 0 && errno != EINTR && errno != ECONNABORTED) {
            if (atomic_load(&self->stopping) || errno == EBADF || errno == EINVAL) {
                break;
            }
            (void)sleep(1); // no descriptors are left
        }
        if (link < 0) {
            continue;
        }
        (void)setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        const char answer = serve_one(self, link);
        (void)send(link, &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)close(link);
    }
    return NULL;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(path); // of a server that is gone: gRPC has taken the address beside it
    mode_t before = umask(0177);
    bool bound =
        listener >= 0 && bind(listener, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)umask(before);
    if (!bound || listen(listener, SOMAXCONN) != 0) {
        if (listener >= 0) {
            (void)close(listener);
        }
        return -1;
    }
    return listener;
}

kiln_status kilni_rpc_desk_open(const kiln_env *env, const char *path, kilni_rpc_desk_fn give,
                                void *user, kilni_rpc_desk **out_desk, kiln_error *err)
{
    kilni_rpc_desk *desk = kiln_alloc(env, sizeof(*desk));
    if (desk == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to share memory");
    }
    *desk = (kilni_rpc_desk){.env = env, .give = give, .user = user, .socket = -1};
    atomic_init(&desk->stopping, false);
    if (kilni_rpc_memory_path(path, desk->path, sizeof(desk->path))) {
        desk->socket = listen_at(desk->path);
    }
    if (desk->socket < 0 || pthread_create(&desk->thread, NULL, serve_desk, desk) != 0) {
        kiln_status status =
            kiln_fail(err, UNAVAILABLE, "no socket beside %.100s: %s", path, strerror(errno));
        if (desk->socket >= 0) {
            (void)close(desk->socket);
            (void)unlink(desk->path);
        }
        kiln_free(env, desk);
        return status;
    }
    *out_desk = desk;
    return KILN_STATUS_OK;
}

void kilni_rpc_desk_close(kilni_rpc_desk *desk)
{
    if (desk != NULL) {
        atomic_store(&desk->stopping, true);
        (void)shutdown(desk->socket, SHUT_RDWR);
        (void)pthread_join(desk->thread, NULL);
        (void)close(desk->socket);
        (void)unlink(desk->path);
        kiln_free(desk->env, desk);
    }
}
