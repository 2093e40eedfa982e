// SPDX-License-Identifier: MIT OR Apache-2.0
// Processes that are spoken with in lines: how they start, how they are asked, and what the kernel
// says of them. What the lines mean is the benches'.

#define _XOPEN_SOURCE 700
#include "bench_speaker.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

const char *bench_python_at(const bench_options *options, size_t index)
{
    return options->n_pythons > 0 ? index < options->n_pythons ? options->pythons[index] : NULL
           : index == 0           ? "/usr/bin/python3"
                                  : NULL;
}

/// The next line without its end.
static kiln_status take_line(bench_speaker *speaker, char *out_line, size_t capacity,
                             kiln_error *err)
{
    if (fgets(out_line, (int)capacity, speaker->answers) == NULL) {
        return kiln_fail(err, NOT_FOUND, "a measured process has ended");
    }
    out_line[strcspn(out_line, "\n")] = '\0';
    return KILN_STATUS_OK;
}

static int start(const char *const *arguments, bool quiet, int channel, pid_t *out_process)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, channel, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, channel, STDOUT_FILENO);
    if (quiet) {
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    int failed = posix_spawnp(out_process, arguments[0], &actions, NULL,
                              (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

kiln_status bench_speaker_open(const char *const *arguments, bool quiet, bench_speaker *out_speaker,
                               char *out_greeting, size_t capacity, kiln_error *err)
{
    bench_speaker made = {.channel = -1};
    int ends[2];
    pid_t process = 0;
    kiln_status status = KILN_STATUS_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return kiln_fail(err, UNAVAILABLE, "no socket: %s", strerror(errno));
    }
    int failed = start(arguments, quiet, ends[1], &process);
    close(ends[1]);
    made.channel = ends[0];
    made.process = failed == 0 ? process : 0;
    made.answers = fdopen(ends[0], "r");
    if (failed != 0) {
        status = kiln_fail(err, NOT_FOUND, "cannot start %s: %s", arguments[0], strerror(failed));
    } else if (made.answers == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    if (status == KILN_STATUS_OK) {
        status = take_line(&made, out_greeting, capacity, err);
    }
    if (status != KILN_STATUS_OK) {
        bench_speaker_close(&made);
        return status;
    }
    *out_speaker = made;
    return KILN_STATUS_OK;
}

kiln_status bench_speaker_ask(bench_speaker *speaker, const char *line, char *out_answer,
                              size_t capacity, kiln_error *err)
{
    char text[4200];
    size_t length = (size_t)snprintf(text, sizeof(text), "%.4190s\n", line);
    if (send(speaker->channel, text, length, MSG_NOSIGNAL) != (ssize_t)length) {
        return kiln_fail(err, NOT_FOUND, "a measured process has ended");
    }
    return take_line(speaker, out_answer, capacity, err);
}

void bench_speaker_rest(const bench_speaker *speaker)
{
    enum { PAUSE_NS = 10000000, MOST_PAUSES = 100 };
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    clockid_t clock;
    int64_t before = INT64_MIN / 2;
    if (speaker->process == 0 || clock_getcpuclockid(speaker->process, &clock) != 0) {
        return;
    }
    for (int i = 0; i < MOST_PAUSES; i++) {
        struct timespec now = {0};
        (void)clock_gettime(clock, &now);
        int64_t used = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        if (used - before < PAUSE_NS / 10) {
            return;
        }
        before = used;
        (void)nanosleep(&pause, NULL);
    }
}

uint64_t bench_speaker_peak(const bench_speaker *speaker)
{
    static const char word[] = "VmHWM:";
    char line[160];
    uint64_t kib = 0;
    snprintf(line, sizeof(line), "/proc/%d/status", speaker->process);
    FILE *file = fopen(line, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, word, strlen(word)) == 0) {
            kib = strtoull(line + strlen(word), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib * 1024;
}

void bench_speaker_close(bench_speaker *speaker)
{
    if (speaker->answers != NULL) {
        fclose(speaker->answers);
    } else if (speaker->channel > 0) {
        close(speaker->channel);
    }
    while (speaker->process > 0 && waitpid(speaker->process, NULL, 0) < 0 && errno == EINTR) {
    }
    memset(speaker, 0, sizeof(*speaker));
}
