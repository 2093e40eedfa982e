// SPDX-License-Identifier: MIT OR Apache-2.0
// systemd's protocol: one datagram to the socket that NOTIFY_SOCKET names, and descriptors from 3
// on. Decides nothing about when something is told.

#define _GNU_SOURCE // SOCK_CLOEXEC

#include "serve_notify.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

void serve_notify(const char *state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length >= sizeof(name.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(name.sun_path, path, length);
    name.sun_path[0] = path[0] == '@' ? '\0' : path[0]; // an abstract name
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = 1}; // who does not read has a full queue in the end
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&name,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        (void)close(fd);
    }
}

uint64_t serve_watchdog_ns(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    if (usec == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid())) {
        return 0;
    }
    return strtoull(usec, NULL, 10) * 1000 / 2;
}

uint32_t serve_activated(void)
{
    const char *count = getenv("LISTEN_FDS");
    const char *pid = getenv("LISTEN_PID");
    long n = count != NULL && pid != NULL && strtol(pid, NULL, 10) == (long)getpid()
                 ? strtol(count, NULL, 10)
                 : 0;
    n = n > 0 && n < 64 ? n : 0;
    for (int i = 0; i < (int)n; i++) {
        (void)fcntl(SERVE_FIRST_SOCKET + i, F_SETFD, FD_CLOEXEC);
    }
    return (uint32_t)n;
}
