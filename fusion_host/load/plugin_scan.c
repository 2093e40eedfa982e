// SPDX-License-Identifier: MIT OR Apache-2.0
// The first look at a plugin happens in a process of its own: a helper loads it, runs its smoke
// test and writes one line. A crash, an endless loop or an early exit ends the helper and not the
// program. Decides how it is started and how long it is waited for; the helper is
// scan_main.c of cli/.
#define _GNU_SOURCE // pipe2
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse_map.h"
#include "plugin_load.h"

extern char **environ;

static bool start(const char *helper, const char *path, int out_fd, pid_t *out_child)
{
    posix_spawn_file_actions_t actions;
    char *const arguments[] = {(char *)(uintptr_t)helper, (char *)(uintptr_t)path, NULL};
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return false;
    }
    bool ok = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
              posix_spawn_file_actions_adddup2(&actions, out_fd, 1) == 0 &&
              posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0 &&
              posix_spawn(out_child, helper, &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return ok;
}

/// What the helper writes until it closes its end; false: it still runs.
static bool listen_to(int fd, uint64_t deadline_ns, char *out_text, size_t capacity)
{
    size_t length = 0;
    for (;;) {
        uint64_t now = kiln_time_ns();
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        int left_ms = now >= deadline_ns ? 0 : (int)((deadline_ns - now) / 1000000) + 1;
        int ready = poll(&waiting, 1, left_ms);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return false;
        }
        ssize_t got = read(fd, out_text + length, capacity - 1 - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        length += got > 0 ? (size_t)got : 0;
        out_text[length] = 0;
        if (got <= 0 || length == capacity - 1) {
            return true;
        }
    }
}

bool kilni_fuse_scan(const kiln_env *env, const char *helper, const char *path, uint32_t limit_ms,
                     char *out_fault, size_t capacity)
{
    int ends[2];
    pid_t child = -1;
    char text[256] = "";
    uint64_t begin = kiln_time_ns();
    out_fault[0] = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    if (!start(helper, path, ends[1], &child)) {
        kiln_log_write(env, KILN_LOG_WARN, KILNI_FUSE_MODULE, "%s cannot be started: no scan",
                       helper);
        (void)close(ends[0]);
        (void)close(ends[1]);
        return false;
    }
    (void)close(ends[1]);
    bool ended = listen_to(ends[0], begin + limit_ms * UINT64_C(1000000), text, sizeof(text));
    (void)close(ends[0]);
    if (!ended) {
        (void)kill(child, SIGKILL);
        snprintf(out_fault, capacity, "it did not end within %u ms", limit_ms);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    if (ended && strcmp(text, "ok\n") != 0) {
        text[strcspn(text, "\n")] = 0;
        snprintf(out_fault, capacity, "%s",
                 strncmp(text, "refused: ", 9) == 0 ? text + 9 : "it ended the process");
    }
    kiln_log_write(env, KILN_LOG_INFO, KILNI_FUSE_MODULE, "scan of %s: %s, %.1f ms", path,
                   out_fault[0] == 0 ? "ok" : out_fault, (double)(kiln_time_ns() - begin) / 1e6);
    return true;
}
