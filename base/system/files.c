// SPDX-License-Identifier: MIT OR Apache-2.0
// Files that several processes share. Decides how long a lock is waited for and what is said when
// there is none, and how a file takes another's place: written beside it under a name that no
// other thread or process has, flushed, renamed. A part of a file is read whole or not at all.
#define _GNU_SOURCE // flock
#include "base_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_PAUSE_NS = 100000, LONGEST_PAUSE_NS = 20000000, NAMES = 10000 };

/// 0, or why the lock could not be had: EWOULDBLOCK when another held it all the time.
static int lock_within(int file, uint32_t wait_ms)
{
    uint64_t end_ns = kiln_time_ns() + (uint64_t)wait_ms * 1000000;
    struct timespec pause = {.tv_nsec = FIRST_PAUSE_NS};
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || kiln_time_ns() >= end_ns) {
            return errno;
        }
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < LONGEST_PAUSE_NS ? pause.tv_nsec * 2 : LONGEST_PAUSE_NS;
    }
    return 0;
}

static void say_no_lock(const kiln_env *env, const char *module, const char *path, int code,
                        uint32_t wait_ms)
{
    if (env == NULL) {
        return;
    }
    if (code == EWOULDBLOCK || code == EINTR) {
        kiln_log_write(env, KILN_LOG_WARN, module,
                       "%s is held by another process for more than %u ms: going on without", path,
                       wait_ms);
    } else {
        kiln_log_write(env, KILN_LOG_WARN, module, "%s cannot be locked (%s): going on without",
                       path, strerror(code));
    }
}

int kilni_base_lock_open(const kiln_env *env, const char *module, const char *path,
                         uint32_t wait_ms)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return -1;
    }
    int code = lock_within(file, wait_ms);
    if (code != 0) {
        say_no_lock(env, module, path, code, wait_ms);
        (void)close(file);
        return -1;
    }
    return file;
}

/// What is no plain file, such as a device, a pipe or a link, is written where it is; and so is a
/// file whose folder takes no new ones.
static bool stays_in_place(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && !S_ISREG(found.st_mode);
}

static FILE *open_in_place(const char *path, char *out_beside)
{
    out_beside[0] = '\0';
    return fopen(path, "w");
}

FILE *kilni_base_replace_begin(const char *path, char *out_beside, size_t capacity)
{
    int file = -1;
    if (stays_in_place(path)) {
        return open_in_place(path, out_beside);
    }
    for (unsigned i = 0; i < NAMES && file < 0; i++) {
        int length = snprintf(out_beside, capacity, "%s.%ld-%u", path, (long)getpid(), i);
        if (length < 0 || (size_t)length >= capacity) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        file = open(out_beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && (errno == EACCES || errno == EROFS) && access(path, W_OK) == 0) {
            return open_in_place(path, out_beside);
        }
        if (file < 0 && errno != EEXIST) {
            return NULL;
        }
    }
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    if (file >= 0 && stream == NULL) {
        (void)close(file);
        (void)unlink(out_beside);
    }
    return stream;
}

bool kilni_base_replace_end(FILE *take_file, const char *beside, const char *path, bool keep)
{
    bool in_place = beside[0] == '\0';
    bool ok = keep && fflush(take_file) == 0 && ferror(take_file) == 0 &&
              (in_place || fsync(fileno(take_file)) == 0);
    int code = errno;
    if (fclose(take_file) != 0 && ok) {
        code = errno;
        ok = false;
    }
    if (ok && (in_place || rename(beside, path) == 0)) {
        return true;
    }
    code = ok ? errno : code;
    if (!in_place) {
        (void)unlink(beside);
    }
    errno = code;
    return false;
}

bool kilni_base_read_at(int file, size_t at, void *out_bytes, size_t bytes)
{
    unsigned char *to = out_bytes;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(file, to + done, bytes - done, (off_t)(at + done));
        if (got == 0 || (got < 0 && errno != EINTR)) {
            errno = got == 0 ? ENODATA : errno;
            return false;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}
