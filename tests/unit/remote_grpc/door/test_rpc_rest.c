// SPDX-License-Identifier: MIT OR Apache-2.0
// A listener that rests when nobody is there: its clients are in a process of their own, since they
// would hold gRPC. They come at any time, also while gRPC is taken down, and every call is
// answered.

#include "harness.h"
#include "rpc_listener.h"
#include "rpc_protocol.h"
#include "rpc_socket.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <grpc/grpc.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { CYCLES = 200, WARM_CYCLES = 20, ACCEPTORS = 4, REST_MS = 20, FULL_REST_MS = 120 };
enum { FAILED = 1, SLOW = 2 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_MS = 1000 }; ///< of the fastest call that wakes gRPC; others may wait for a processor
#else
enum { MOST_MS = 20 };
#endif
enum { LEFT_BYTES = 400 }; ///< of a cycle, in malloc's caches: any object of gRPC is larger

static void sleep_us(long us)
{
    const struct timespec nap = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&nap, NULL);
}

// ---- the server ----

typedef struct resting_server {
    kiln_env env;
    kilni_rpc_listener *listener;
    pthread_t threads[ACCEPTORS];
    char name[64]; ///< as clients open it
    atomic_uint calls;
} resting_server;

static void answer(const resting_server *self, kilni_rpc_stream *stream)
{
    kilni_rpc_message message = {0};
    bool end = false;
    if (kilni_rpc_begin_call(self->listener, stream, /*single=*/false) &&
        kilni_rpc_receive(stream, -1, &message, &end, NULL) == KILN_STATUS_OK && !end) {
        (void)kilni_rpc_send_bytes(stream, "pong", 4, NULL);
    }
    kilni_rpc_message_free(&message);
    kilni_rpc_stream_close(stream, NULL);
}

static void *serve(void *pointer)
{
    resting_server *self = pointer;
    kilni_rpc_stream *stream = NULL;
    while ((stream = kilni_rpc_accept(self->listener, -1)) != NULL) {
        atomic_fetch_add(&self->calls, 1);
        answer(self, stream);
    }
    return NULL;
}

static bool server_open(resting_server *self, const char *address)
{
    kiln_error err = KILN_ERROR_INIT;
    int port = 0;
    const kilni_rpc_listen_options options = {
        .addresses = &address, .n_addresses = 1, .out_ports = &port, .rest_ms = REST_MS};
    self->env.allocator = kiln_allocator_default();
    atomic_init(&self->calls, 0);
    if (!KILN_CHECK_INT(kilni_rpc_listen(&self->env, &options, &self->listener, &err),
                        KILN_STATUS_OK)) {
        return false;
    }
    for (int i = 0; i < ACCEPTORS; i++) {
        KILN_CHECK_INT(pthread_create(&self->threads[i], NULL, serve, self), 0);
    }
    if (port > 0) {
        snprintf(self->name, sizeof(self->name), "grpc://127.0.0.1:%d", port);
    } else {
        snprintf(self->name, sizeof(self->name), "%s", address);
    }
    return true;
}

static void server_close(resting_server *self)
{
    kilni_rpc_listener_shutdown(self->listener);
    for (int i = 0; i < ACCEPTORS; i++) {
        pthread_join(self->threads[i], NULL);
    }
    kilni_rpc_listener_close(self->listener);
}

static bool await_rest(void)
{
    for (int i = 0; i < 1000 && grpc_is_initialized() != 0; i++) {
        sleep_us(10000);
    }
    return grpc_is_initialized() == 0;
}

// ---- a client, and the process that it is in ----

static bool call_once(const kiln_env *env, const char *name)
{
    kilni_rpc_address address;
    kilni_rpc_stream *stream = NULL;
    kilni_rpc_message message = {0};
    kiln_error err = KILN_ERROR_INIT;
    bool end = false;
    kiln_status status = kilni_rpc_address_parse(name, &address, &err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_connect(env, &address, NULL, KILNI_RPC_SESSION, 20000, &stream, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send_bytes(stream, "ping", 4, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_receive(stream, 20000, &message, &end, &err);
    }
    bool good = status == KILN_STATUS_OK && message.length == 4;
    if (!good) {
        printf("    a call failed: %s\n", err.message);
    }
    kilni_rpc_message_free(&message);
    kilni_rpc_stream_close(stream, NULL);
    return good;
}

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/// Gives what was wrong. `full` of 100 pauses last until the server rests, the others anything;
/// below 0 it stays awake.
static int call_often(const char *name, int count, int full)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    static double times[CYCLES];
    unsigned seed = (unsigned)getpid();
    int failed = 0;
    for (int i = 0; i < count; i++) {
        bool rests = rand_r(&seed) % 100 < full;
        sleep_us(rests      ? FULL_REST_MS * 1000
                 : full < 0 ? 1000
                            : rand_r(&seed) % (3 * REST_MS * 1000));
        uint64_t begun = kiln_time_ns();
        failed += !call_once(&env, name);
        times[i] = (double)(kiln_time_ns() - begun) * 1e-6;
    }
    qsort(times, (size_t)count, sizeof(*times), compare_times);
    printf("    %d calls %s in a median of %.2f ms, at most %.2f ms\n", count,
           full == 100 ? "to a server at rest"
           : full < 0  ? "to one awake"
                       : "at any time",
           times[count / 2], times[count - 1]);
    fflush(stdout);
    return failed > 0 ? FAILED : full == 100 && times[0] > MOST_MS ? SLOW : 0;
}

/// A client in a process of its own.
static pid_t client_start(const resting_server *server, int count, int full)
{
    char counts[16];
    char fulls[16];
    char *arguments[] = {"test_rpc_rest", "client", (char *)(uintptr_t)server->name,
                         counts,          fulls,    NULL};
    pid_t pid = -1;
    snprintf(counts, sizeof(counts), "%d", count);
    snprintf(fulls, sizeof(fulls), "%d", full);
    fflush(stdout);
    KILN_CHECK_INT(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    return pid;
}

static void client_check(pid_t pid)
{
    int status = -1;
    KILN_CHECK(waitpid(pid, &status, 0) == pid);
    KILN_CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

static void run_client(const resting_server *server, int count, int full)
{
    client_check(client_start(server, count, full));
    KILN_CHECK(await_rest());
}

// ---- what is left behind ----

/// By scandir: ThreadSanitizer does not see gRPC close a descriptor, and takes an opendir that gets
/// its number for a race.
static int entries_of(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, NULL);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    return count;
}

static size_t bytes_in_use(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0; // their allocators do not count for mallinfo2
#else
    return mallinfo2().uordblks;
#endif
}

/// Whether connections that come while gRPC starts, runs and is taken down are all served, and
/// nothing is left of so many of them.
static void test_calls_at_any_time(void)
{
    resting_server self = {0};
    if (!server_open(&self, "127.0.0.1:0")) {
        return;
    }
    KILN_CHECK(grpc_is_initialized() == 0);
    run_client(&self, WARM_CYCLES, 100);
    run_client(&self, WARM_CYCLES, -1);
    int fds = entries_of("/proc/self/fd");
    int threads = entries_of("/proc/self/task");
    size_t bytes = bytes_in_use();
    run_client(&self, CYCLES, 100);
    size_t then = bytes_in_use();
    run_client(&self, CYCLES, 0);
    printf("    %d bytes more after %d cycles, and %d after as many others\n", (int)(then - bytes),
           CYCLES, (int)(bytes_in_use() - then));
    KILN_CHECK_INT(entries_of("/proc/self/fd"), fds);
    KILN_CHECK_INT(entries_of("/proc/self/task"), threads);
    KILN_CHECK(bytes_in_use() < bytes + (size_t)2 * CYCLES * LEFT_BYTES);
    KILN_CHECK_INT(atomic_load(&self.calls), 2 * WARM_CYCLES + 2 * CYCLES);
    server_close(&self);
}

/// Several clients, and a socket file, which goes with its server.
static void test_socket_file(void)
{
    char address[64];
    pid_t clients[4];
    resting_server self = {0};
    snprintf(address, sizeof(address), "unix:/tmp/kiln-rest-%d", (int)getpid());
    if (!server_open(&self, address)) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        clients[i] = client_start(&self, WARM_CYCLES, 30);
    }
    for (int i = 0; i < 4; i++) {
        client_check(clients[i]);
    }
    server_close(&self);
    KILN_CHECK(access(address + 5, F_OK) != 0);
}

/// A stop in the middle of what a client does, and one of a server that rests.
static void test_ends_at_any_time(void)
{
    for (int i = 0; i < 20; i++) {
        resting_server self = {0};
        if (!server_open(&self, "127.0.0.1:0")) {
            return;
        }
        pid_t client = client_start(&self, WARM_CYCLES, 50);
        sleep_us(10000 * i);
        server_close(&self);
        (void)kill(client, SIGKILL);
        (void)waitpid(client, NULL, 0);
        KILN_CHECK(await_rest());
    }
}

// ---- no room ----

/// Without descriptors for gRPC whoever comes is sent away, and the next one is served.
static void test_few_descriptors(void)
{
    enum { MOST = 256 };
    struct rlimit before;
    int taken[MOST];
    resting_server self = {0};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char address[64];
    snprintf(address, sizeof(address), "unix:/tmp/kiln-rest-%d", (int)getpid());
    if (!server_open(&self, address)) {
        return;
    }
    snprintf(name.sun_path, sizeof(name.sun_path), "%s", address + 5);
    KILN_CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {.rlim_cur = MOST, .rlim_max = before.rlim_max};
    KILN_CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int left = 1; left <= 12; left += left < 6 ? 1 : 3) {
        int count = 0, one = 0;
        char byte = 0;
        int guest = socket(AF_UNIX, SOCK_STREAM, 0);
        while (count < MOST && (one = dup(0)) >= 0) {
            taken[count++] = one;
        }
        for (int i = 0; i < left; i++) { // the connection takes one of them
            (void)close(taken[--count]);
        }
        KILN_CHECK(connect(guest, (const struct sockaddr *)&name, sizeof(name)) == 0);
        while (read(guest, &byte, 1) > 0) { // until it is sent away, at once or as a silent one
        }
        (void)close(guest);
        while (count > 0) {
            (void)close(taken[--count]);
        }
        KILN_CHECK(await_rest());
    }
    KILN_CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    run_client(&self, 1, 0);
    server_close(&self);
}

// ---- sockets ----

static bool connects(int family, const void *name, socklen_t length)
{
    int fd = socket(family, SOCK_STREAM, 0);
    bool good = fd >= 0 && connect(fd, name, length) == 0;
    (void)close(fd);
    return good;
}

/// One who says nothing wakes gRPC, is sent away after the time of a handshake, and lets it rest.
static void test_silent_guest(void)
{
    resting_server self = {0};
    char byte = 0;
    char address[64];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(address, sizeof(address), "unix:/tmp/kiln-rest-%d", (int)getpid());
    if (!server_open(&self, address)) {
        return;
    }
    snprintf(name.sun_path, sizeof(name.sun_path), "%s", address + 5);
    for (int i = 0; i < 2; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        KILN_CHECK(connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0);
        if (i == 1) { // a preface that is not completed
            KILN_CHECK(write(fd, "PRI * HTTP/2.0\r\n", 16) == 16);
        }
        uint64_t begun = kiln_time_ns();
        while (read(fd, &byte, 1) > 0) { // gRPC's settings
        }
        double seconds = (double)(kiln_time_ns() - begun) * 1e-9;
        printf("    a silent connection was ended after %.1f s\n", seconds);
        KILN_CHECK(seconds < 10);
        (void)close(fd);
        KILN_CHECK(await_rest());
    }
    server_close(&self);
}

static void test_addresses(void)
{
    kiln_error err = KILN_ERROR_INIT;
    int fds[KILNI_RPC_SOCKETS_EACH];
    size_t count = 0;
    int port = 0;
    KILN_CHECK_INT(kilni_rpc_socket_listen("[::]:0", fds, &count, &port, &err), KILN_STATUS_OK);
    const struct sockaddr_in four = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    KILN_CHECK_INT(count, 1);
    KILN_CHECK(connects(AF_INET, &four, sizeof(four)));
    char taken[32];
    int more[KILNI_RPC_SOCKETS_EACH];
    size_t n_more = 0;
    int other = 0;
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", port);
    KILN_CHECK_INT(kilni_rpc_socket_listen(taken, more, &n_more, &other, &err),
                   KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(err.message, "the port is taken");
    kilni_rpc_socket_close(fds[0]);
    KILN_CHECK_INT(kilni_rpc_socket_listen("localhost:0", fds, &count, &port, &err),
                   KILN_STATUS_OK);
    const struct sockaddr_in local = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 local6 = {.sin6_family = AF_INET6,
                                        .sin6_port = htons((uint16_t)port),
                                        .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    KILN_CHECK(connects(AF_INET, &local, sizeof(local)));
    KILN_CHECK(count == 1 || connects(AF_INET6, &local6, sizeof(local6)));
    for (size_t i = 0; i < count; i++) {
        kilni_rpc_socket_close(fds[i]);
    }
    KILN_CHECK_INT(kilni_rpc_socket_listen("no.such.host.invalid:0", fds, &count, &port, &err),
                   KILN_STATUS_UNAVAILABLE);
    count = 1;
    KILN_CHECK_INT(kilni_rpc_socket_listen("unix:/no/such/folder/socket", fds, &count, &port, &err),
                   KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_INT(count, 0);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_calls_at_any_time), KILN_TEST(test_socket_file),
        KILN_TEST(test_ends_at_any_time),  KILN_TEST(test_few_descriptors),
        KILN_TEST(test_silent_guest),      KILN_TEST(test_addresses)};
    if (argc == 5 && strcmp(argv[1], "client") == 0) {
        grpc_init(); // for all calls
        return call_often(argv[2], (int)strtol(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10));
    }
    return kiln_test_run("unit/remote_grpc/rest", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
