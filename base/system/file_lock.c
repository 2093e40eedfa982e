// SPDX-License-Identifier: MIT OR Apache-2.0
// The exclusive lock of a file between processes, waited for with an end: a process that is stopped
// or hangs may hold it for ever, and what is locked here (caches, records) can do without.
#define _GNU_SOURCE // flock
#include "base.h"

#include <errno.h>
#include <sys/file.h>
#include <time.h>

enum { FIRST_PAUSE_NS = 100000, LONGEST_PAUSE_NS = 20000000 };

bool kiln_file_lock(int fd, uint32_t wait_ms)
{
    uint64_t end_ns = kiln_time_ns() + (uint64_t)wait_ms * 1000000;
    struct timespec pause = {.tv_nsec = FIRST_PAUSE_NS};
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || kiln_time_ns() >= end_ns) {
            return false;
        }
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < LONGEST_PAUSE_NS ? pause.tv_nsec * 2 : LONGEST_PAUSE_NS;
    }
    return true;
}
