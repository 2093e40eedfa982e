// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared memory of client and server. Decides what is accepted as such: a memfd whose size is
// sealed, so that neither side can make the other fault, of a bounded length.

#define _GNU_SOURCE // memfd_create
#include "rpc_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { OFFER_SECONDS = 2, REVOKE_TRIES = 200, REVOKE_PAUSE_MS = 10 };

const char kilni_rpc_memory_magic[8] = {'k', 'i', 'l', 'n', 'm', 'e', 'm', '1'};

bool kilni_rpc_memory_path(const char *path, char *out_path, size_t capacity)
{
    int length = snprintf(out_path, capacity, "%s.memory", path);
    return length > 0 && (size_t)length < capacity &&
           (size_t)length < sizeof(((struct sockaddr_un *)0)->sun_path);
}

static kiln_status fail_system(kiln_error *err, const char *what)
{
    return kiln_fail(err, UNAVAILABLE, "no memory is shared: %s: %s", what, strerror(errno));
}

// ---- mapping ----

kiln_status kilni_rpc_memory_map(int descriptor, uint64_t bytes, kilni_rpc_memory *out_memory,
                                 kiln_error *err)
{
    struct stat facts;
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &facts) != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "memory that may shrink is not shared");
    }
    if (bytes == 0 || bytes > KILNI_RPC_MEMORY_MOST || (uint64_t)facts.st_size < bytes) {
        return kiln_fail(err, INVALID_ARGUMENT, "%llu bytes of a file of %lld are not shared",
                         (unsigned long long)bytes, (long long)facts.st_size);
    }
    void *mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to map %llu bytes",
                         (unsigned long long)bytes);
    }
    *out_memory = (kilni_rpc_memory){.bytes = mapped, .length = (size_t)bytes};
    return KILN_STATUS_OK;
}

void kilni_rpc_memory_unmap(kilni_rpc_memory *memory)
{
    if (memory->bytes != NULL) {
        (void)munmap(memory->bytes, memory->length);
    }
    *memory = (kilni_rpc_memory){NULL, 0};
}

// ---- offering ----

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = OFFER_SECONDS};
    if (!kilni_rpc_memory_path(path, address.sun_path, sizeof(address.sun_path))) {
        return -1;
    }
    int link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link >= 0 && (setsockopt(link, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
                      setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
                      connect(link, (const struct sockaddr *)&address, sizeof(address)) != 0)) {
        (void)close(link);
        link = -1;
    }
    return link;
}

/// A descriptor below 0 is none. Gives what is answered.
static char hand_over(int link, int descriptor, const kilni_rpc_memory_hello *hello)
{
    char answer = KILNI_RPC_MEMORY_REFUSED;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)hello, .iov_len = sizeof(*hello)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (descriptor >= 0) {
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &descriptor, sizeof(descriptor));
    } else {
        message.msg_controllen = 0;
    }
    bool sent = sendmsg(link, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(*hello);
    return sent && recv(link, &answer, 1, 0) == 1 ? answer : KILNI_RPC_MEMORY_REFUSED;
}

void kilni_rpc_memory_revoke(const char *path, uint64_t session, const void *token)
{
    const struct timespec pause = {.tv_nsec = REVOKE_PAUSE_MS * 1000000};
    kilni_rpc_memory_hello hello = {.session = session};
    char answer = KILNI_RPC_MEMORY_BUSY;
    memcpy(hello.magic, kilni_rpc_memory_magic, sizeof(hello.magic));
    memcpy(hello.token, token, sizeof(hello.token));
    for (int i = 0; i < REVOKE_TRIES && answer == KILNI_RPC_MEMORY_BUSY; i++) {
        int link = connect_to(path);
        answer = link >= 0 ? hand_over(link, -1, &hello) : KILNI_RPC_MEMORY_REFUSED;
        if (link >= 0) {
            (void)close(link);
        }
        if (answer == KILNI_RPC_MEMORY_BUSY) {
            (void)nanosleep(&pause, NULL);
        }
    }
}

static int make_memory(size_t bytes)
{
    int descriptor = memfd_create("kiln", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor >= 0 &&
        (ftruncate(descriptor, (off_t)bytes) != 0 ||
         fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        (void)close(descriptor);
        descriptor = -1;
    }
    return descriptor;
}

kiln_status kilni_rpc_memory_offer(const char *path, kilni_rpc_memory_hello *hello,
                                   kilni_rpc_memory *out_memory, kiln_error *err)
{
    memcpy(hello->magic, kilni_rpc_memory_magic, sizeof(hello->magic));
    int link = connect_to(path);
    if (link < 0) {
        return fail_system(err, "the second socket");
    }
    int descriptor = make_memory((size_t)hello->bytes);
    kiln_status status = descriptor >= 0
                             ? kilni_rpc_memory_map(descriptor, hello->bytes, out_memory, err)
                             : fail_system(err, "memfd_create");
    if (status == KILN_STATUS_OK && hand_over(link, descriptor, hello) != KILNI_RPC_MEMORY_TAKEN) {
        kilni_rpc_memory_unmap(out_memory);
        status = kiln_fail(err, UNAVAILABLE, "no memory is shared: the server does not take it");
    }
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
    (void)close(link);
    return status;
}
