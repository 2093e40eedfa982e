// SPDX-License-Identifier: MIT OR Apache-2.0
// Sockets that listen, bound as gRPC's own server does it: a wildcard takes both families, a name
// all its addresses. Whether one may listen there is decided elsewhere.

#define _GNU_SOURCE // accept4

#include "rpc_socket.h"

#include "rpc_grpc.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// ---- socket files ----

/// A socket's file is removed before another is bound; somebody may be listening there.
static bool is_served(const struct sockaddr_un *name)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool served = fd >= 0 && connect(fd, (const struct sockaddr *)name, sizeof(*name)) == 0;
    (void)close(fd);
    return served;
}

static void remove_file(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISSOCK(about.st_mode)) {
        (void)unlink(path);
    }
}

/// Without a mask between making the socket and closing it to others somebody could connect.
static bool bind_file(int fd, const struct sockaddr_un *name)
{
    mode_t old = umask(S_IRWXG | S_IRWXO | S_IXUSR);
    bool bound = bind(fd, (const struct sockaddr *)name, sizeof(*name)) == 0;
    (void)umask(old);
    return bound && listen(fd, SOMAXCONN) == 0;
}

static kiln_status listen_file(const char *address, int *out_fd, kiln_error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *path = address + strlen("unix:");
    bool fits = strlen(path) < sizeof(name.sun_path);
    if (fits) {
        memcpy(name.sun_path, path, strlen(path) + 1);
    }
    if (fits && is_served(&name)) {
        return kiln_fail(err, UNAVAILABLE, "somebody listens at %s already", address);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fits) {
        remove_file(path);
    }
    if (!fits || fd < 0 || !bind_file(fd, &name)) {
        (void)close(fd);
        return kiln_fail(err, UNAVAILABLE,
                         "cannot listen at %s: the folder is missing or closed, or the path too "
                         "long",
                         address);
    }
    *out_fd = fd;
    return KILN_STATUS_OK;
}

// ---- ports ----

/// As gRPC sets up its own sockets; connections inherit it.
static void set_options(int fd)
{
    int on = 1;
    int timeout_ms = KILNI_PONG_MS;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static int bind_name(const struct sockaddr *name, socklen_t length, bool both)
{
    int fd = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int apart = !both;
    if (fd < 0) {
        return -1;
    }
    set_options(fd);
    if ((name->sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &apart, sizeof(apart)) != 0) ||
        bind(fd, name, length) != 0 || listen(fd, SOMAXCONN) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static bool is_wildcard(const struct addrinfo *each)
{
    const struct sockaddr_in *in = (const void *)each->ai_addr;
    const struct sockaddr_in6 *in6 = (const void *)each->ai_addr;
    return each->ai_family == AF_INET ? in->sin_addr.s_addr == htonl(INADDR_ANY)
                                      : IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

/// A wildcard of either family is both, where the machine has both.
static int bind_wildcard(in_port_t port)
{
    const struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = port};
    const struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port};
    int fd = bind_name((const struct sockaddr *)&six, sizeof(six), /*both=*/true);
    return fd >= 0 ? fd : bind_name((const struct sockaddr *)&four, sizeof(four), false);
}

static int bind_address(const struct addrinfo *each, int port)
{
    struct sockaddr_storage name = {0};
    in_port_t wire_port = htons((uint16_t)port);
    if (is_wildcard(each)) {
        return bind_wildcard(wire_port);
    }
    memcpy(&name, each->ai_addr, each->ai_addrlen);
    if (name.ss_family == AF_INET) {
        ((struct sockaddr_in *)(void *)&name)->sin_port = wire_port;
    } else {
        ((struct sockaddr_in6 *)(void *)&name)->sin6_port = wire_port;
    }
    return bind_name((const struct sockaddr *)&name, each->ai_addrlen, /*both=*/false);
}

static int port_of(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t length = sizeof(name);
    (void)getsockname(fd, (struct sockaddr *)&name, &length);
    return ntohs(name.ss_family == AF_INET
                     ? ((const struct sockaddr_in *)(const void *)&name)->sin_port
                     : ((const struct sockaddr_in6 *)(const void *)&name)->sin6_port);
}

/// Gives the addresses of HOST:PORT, the port apart; NULL: there are none.
static struct addrinfo *resolve(const char *address, int *out_port)
{
    const struct addrinfo wanted = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[256];
    const char *colon = strrchr(address, ':');
    bool brackets = address[0] == '[' && colon > address && colon[-1] == ']';
    size_t length = (size_t)(colon - address) - (brackets ? 2 : 0);
    unsigned long port = strtoul(colon + 1, NULL, 10);
    if (length >= sizeof(host) || port > UINT16_MAX) {
        return NULL;
    }
    memcpy(host, address + brackets, length);
    host[length] = '\0';
    *out_port = (int)port;
    return getaddrinfo(host, NULL, &wanted, &found) == 0 ? found : NULL;
}

static bool is_internet(const struct addrinfo *each)
{
    return each->ai_family == AF_INET || each->ai_family == AF_INET6;
}

/// Some of a name's addresses may be taken, or not this machine's.
static kiln_status listen_port(const char *address, int out_fds[KILNI_RPC_SOCKETS_EACH],
                               size_t *out_count, int *out_port, kiln_error *err)
{
    int port = 0;
    size_t count = 0;
    struct addrinfo *all = resolve(address, &port);
    for (const struct addrinfo *each = all; each != NULL && count < KILNI_RPC_SOCKETS_EACH;
         each = each->ai_next) {
        int fd = is_internet(each) ? bind_address(each, port) : -1;
        if (fd >= 0) {
            out_fds[count++] = fd;
            port = port_of(fd);
        }
    }
    if (all != NULL) {
        freeaddrinfo(all);
    }
    if (count == 0) {
        return kiln_fail(err, UNAVAILABLE,
                         "cannot listen at %s: the port is taken, or this machine has no such "
                         "address",
                         address);
    }
    *out_count = count;
    *out_port = port;
    return KILN_STATUS_OK;
}

// ---- all of them ----

kiln_status kilni_rpc_socket_listen(const char *address, int out_fds[KILNI_RPC_SOCKETS_EACH],
                                    size_t *out_count, int *out_port, kiln_error *err)
{
    if (strncmp(address, "unix:", 5) != 0) {
        return listen_port(address, out_fds, out_count, out_port, err);
    }
    kiln_status status = listen_file(address, out_fds, err);
    *out_count = status == KILN_STATUS_OK;
    *out_port = 0;
    return status;
}

void kilni_rpc_socket_close(int fd)
{
    struct sockaddr_un name = {0};
    socklen_t length = sizeof(name);
    if (getsockname(fd, (struct sockaddr *)&name, &length) == 0 && name.sun_family == AF_UNIX) {
        remove_file(name.sun_path);
    }
    (void)close(fd);
}

int kilni_rpc_socket_accept(int fd)
{
    int on = 1;
    int taken = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (taken >= 0) {
        (void)setsockopt(taken, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); // not of a Unix socket
    }
    return taken;
}

ino_t kilni_rpc_socket_id(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) ? about.st_ino : 0;
}

kiln_status kilni_rpc_socket_name(int fd, char *out_text, size_t size, kiln_error *err)
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
