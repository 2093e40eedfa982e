// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts and ends `kiln serve`, and finds the bare peers.

#define _GNU_SOURCE // pipe2
#include "bench_server.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_server_stop(bench_server *server)
{
    if (server->process > 0) {
        (void)kill(server->process, SIGTERM);
        (void)waitpid(server->process, NULL, 0);
        (void)unlink(server->path + strlen("unix:"));
    }
    server->process = 0;
}

static kiln_status read_line(int fd, char *out_line, size_t capacity, kiln_error *err)
{
    size_t length = 0;
    while (length + 1 < capacity && read(fd, out_line + length, 1) == 1 &&
           out_line[length] != '\n') {
        length++;
    }
    out_line[length] = '\0';
    return strstr(out_line, " at ") != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, UNAVAILABLE, "kiln serve did not start");
}

kiln_status bench_server_start(const bench_options *options, const char *device, const char *models,
                               bench_server *out_server, kiln_error *err)
{
    extern char **environ;
    char line[512];
    int ends[2];
    posix_spawn_file_actions_t actions;
    snprintf(out_server->path, sizeof(out_server->path), "unix:/tmp/kiln-bench-%d%s", (int)getpid(),
             models != NULL ? "-models" : "");
    const char *const argv[] = {"kiln",
                                "serve",
                                "--device",
                                device,
                                "--listen",
                                out_server->path,
                                "--grace",
                                "1",
                                models != NULL ? "--models" : "--listen",
                                models != NULL ? models : "127.0.0.1:0",
                                NULL};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return kiln_fail(err, UNAVAILABLE, "no pipe for a server");
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int failed = posix_spawn(&out_server->process, options->program, &actions, NULL,
                             (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    kiln_status status = failed == 0 ? read_line(ends[0], line, sizeof(line), err)
                                     : kiln_fail(err, UNAVAILABLE, "cannot start kiln serve");
    (void)close(ends[0]);
    const char *tcp = status == KILN_STATUS_OK ? strstr(line, "grpc://") : NULL;
    if (tcp != NULL) {
        (void)sscanf(tcp, "%63[^, ]", out_server->tcp);
    }
    return status;
}

// ---- bare peers ----

static kiln_status load(const char *name, void **out_symbol, kiln_error *err)
{
    void *library = dlopen("libkiln_bench_peer.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    *out_symbol = library != NULL ? dlsym(library, name) : NULL;
    return *out_symbol != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, NOT_FOUND, "no %s to compare with: %s", name, dlerror());
}

kiln_status bench_peer_pingpong(bench_pingpong_fn *out_function, kiln_error *err)
{
    void *symbol = NULL;
    kiln_status status = load("kiln_bench_pingpong", &symbol, err);
    memcpy(out_function, &symbol, sizeof(symbol));
    return status;
}

kiln_status bench_peer_answers(bench_answers_fn *out_function, kiln_error *err)
{
    void *symbol = NULL;
    kiln_status status = load("kiln_bench_answers", &symbol, err);
    memcpy(out_function, &symbol, sizeof(symbol));
    return status;
}
