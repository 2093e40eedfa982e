// SPDX-License-Identifier: MIT OR Apache-2.0
// Processes of this command with caches of their own: a temporary folder, what the environment says
// to those that are started, and one of them from start to end.

#include "bench.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

kiln_status bench_caches_make(const bench_options *options, bool pocl, bench_caches *out_caches,
                              kiln_error *err)
{
    *out_caches = (bench_caches){.root = "/tmp/kiln-bench-XXXXXX"};
    if (mkdtemp(out_caches->root) == NULL) {
        return kiln_fail(err, UNAVAILABLE, "no temporary folder: %s", strerror(errno));
    }
    snprintf(out_caches->kiln, sizeof(out_caches->kiln), "%s/kiln", out_caches->root);
    snprintf(out_caches->pocl, sizeof(out_caches->pocl), "%s/pocl", out_caches->root);
    setenv("KILN_CACHE_DIR", out_caches->kiln, 1);
    if (pocl) {
        setenv("POCL_CACHE_DIR", out_caches->pocl, 1);
    }
    if (options->device != NULL) {
        setenv("KILN_DEVICE", options->device, 1);
    }
    return KILN_STATUS_OK;
}

void bench_caches_remove(const bench_caches *caches)
{
    bench_remove_tree(caches->root);
}

/// What comes out of `file` until it ends; the first `capacity - 1` bytes are kept.
static void read_all(int file, char *out_text, size_t capacity)
{
    char rest[512];
    size_t length = 0;
    for (;;) {
        bool room = length + 1 < capacity;
        ssize_t got = read(file, room ? out_text + length : rest,
                           room ? capacity - 1 - length : sizeof(rest));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        length += room ? (size_t)got : 0;
    }
    out_text[length] = '\0';
}

kiln_status bench_process_run(const bench_options *options, const char *const *arguments,
                              char *out_text, size_t capacity, double *out_ms, kiln_error *err)
{
    char *argv[16] = {(char *)(uintptr_t)options->program};
    for (size_t i = 0; arguments[i] != NULL && i + 2 < sizeof(argv) / sizeof(argv[0]); i++) {
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    }
    posix_spawn_file_actions_t actions;
    int ends[2];
    int code = 0;
    pid_t child = 0;
    if (pipe(ends) != 0) {
        return kiln_fail(err, UNAVAILABLE, "no pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    uint64_t start = kiln_time_ns();
    int failed = posix_spawn(&child, options->program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed == 0) {
        read_all(ends[0], out_text, capacity);
        while (waitpid(child, &code, 0) < 0 && errno == EINTR) {
        }
    }
    *out_ms = (double)(kiln_time_ns() - start) / 1e6;
    close(ends[0]);
    if (failed != 0) {
        return kiln_fail(err, NOT_FOUND, "cannot start %s: %s", options->program, strerror(failed));
    }
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0) {
        return kiln_fail(err, INTERNAL, "`kiln %s %s` failed", arguments[0], arguments[1]);
    }
    return KILN_STATUS_OK;
}
