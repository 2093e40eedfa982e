// SPDX-License-Identifier: MIT OR Apache-2.0
// The file of fuzz_target.h: in memory, opened by way of /proc.
#define _GNU_SOURCE // memfd_create
#include "fuzz_target.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[40];
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        must(file >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    must(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    return path;
}
