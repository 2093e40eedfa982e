// SPDX-License-Identifier: MIT OR Apache-2.0
// Connections of a socket that was handed to us, given to gRPC one by one. Whether the socket may
// be used is decided elsewhere.

#define _GNU_SOURCE // accept4

#include "rpc_activated.h"

#include "rpc_grpc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ACTIVATED_PAUSE_MS = 50 };

struct kilni_rpc_activated {
    const kiln_env *env;
    grpc_server *server;
    grpc_server_credentials *credentials;
    int fd;
    int stop[2]; ///< a pipe: closed for writing, it ends the thread
    pthread_t thread;
};

kiln_status kilni_rpc_activated_name(int fd, char *out_text, size_t size, kiln_error *err)
{
    struct sockaddr_storage name = {0};
    socklen_t length = sizeof(name);
    int listens = 0;
    socklen_t room = sizeof(listens);
    char host[INET6_ADDRSTRLEN] = "";
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &room) != 0 || listens == 0 ||
        getsockname(fd, (struct sockaddr *)&name, &length) != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "descriptor %d is no socket that listens", fd);
    }
    const struct sockaddr_in *in = (const void *)&name;
    const struct sockaddr_in6 *in6 = (const void *)&name;
    const struct sockaddr_un *un = (const void *)&name;
    if (name.ss_family == AF_UNIX && un->sun_path[0] != '\0') {
        snprintf(out_text, size, "unix:%s", un->sun_path);
    } else if (name.ss_family == AF_INET &&
               inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host)) != NULL) {
        snprintf(out_text, size, "%s:%u", host, ntohs(in->sin_port));
    } else if (name.ss_family == AF_INET6 &&
               inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host)) != NULL) {
        snprintf(out_text, size, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        return kiln_fail(err, INVALID_ARGUMENT, "descriptor %d has no address with a path or port",
                         fd);
    }
    return KILN_STATUS_OK;
}

static void take_connection(const kilni_rpc_activated *self)
{
    int fd = accept4(self->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int on = 1;
    if (fd >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); // not of a Unix socket
        grpc_server_add_channel_from_fd(self->server, fd, self->credentials);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        (void)poll(NULL, 0, ACTIVATED_PAUSE_MS); // no descriptor is free, perhaps
    }
}

static void *accept_connections(void *pointer)
{
    const kilni_rpc_activated *self = pointer;
    struct pollfd waits[] = {{.fd = self->fd, .events = POLLIN},
                             {.fd = self->stop[0], .events = POLLIN}};
    while (poll(waits, 2, -1) >= 0 || errno == EINTR) {
        if (waits[1].revents != 0) {
            break;
        }
        if (waits[0].revents != 0) {
            take_connection(self);
        }
    }
    return NULL;
}

kiln_status kilni_rpc_activated_start(const kiln_env *env, grpc_server *server, int fd,
                                      kilni_rpc_activated **out_activated, kiln_error *err)
{
    kilni_rpc_activated *made = kiln_alloc(env, sizeof(*made));
    int flags = fcntl(fd, F_GETFL);
    if (made == NULL || pipe2(made->stop, O_CLOEXEC) != 0) {
        kiln_free(env, made);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "nothing left to take a socket over with");
    }
    made->env = env;
    made->server = server;
    made->fd = fd;
    made->credentials = grpc_insecure_server_credentials_create();
    (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK); // a client may go before it is accepted
    if (pthread_create(&made->thread, NULL, accept_connections, made) != 0) {
        (void)close(made->stop[0]);
        (void)close(made->stop[1]);
        grpc_server_credentials_release(made->credentials);
        kiln_free(env, made);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
    }
    *out_activated = made;
    return KILN_STATUS_OK;
}

void kilni_rpc_activated_stop(kilni_rpc_activated *activated)
{
    if (activated == NULL) {
        return;
    }
    (void)close(activated->stop[1]);
    (void)pthread_join(activated->thread, NULL);
    (void)close(activated->stop[0]);
    grpc_server_credentials_release(activated->credentials);
    kiln_free(activated->env, activated);
}
