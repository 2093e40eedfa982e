// SPDX-License-Identifier: MIT OR Apache-2.0
// Loading the bytes that were judged, where somebody else could change the file between the two:
// from a sealed copy in memory. Decides when that is, and what the copy is called.
#define _GNU_SOURCE // memfd_create, F_ADD_SEALS
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin_trust.h"

/// In folders of plugin-path owners were asked already, and of a file that `signed` does not judge
/// nobody knows what it should be.
bool kilni_fuse_may_change(const kiln_env *env, kilni_fuse_trust trust, const char *path,
                           const struct stat *info)
{
    return trust == KILNI_FUSE_TRUST_ADDED &&
           strcmp(kiln_config_string(env->config, KILN_OPTION_PLUGIN_MODE), "signed") == 0 &&
           (kilni_fuse_check_owner(info, "file", NULL) != KILN_STATUS_OK ||
            kilni_fuse_check_folders(env, path, NULL) != KILN_STATUS_OK);
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t put = write(fd, bytes, length);
        if (put <= 0 && errno != EINTR) {
            return false;
        }
        bytes += put > 0 ? put : 0;
        length -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/// The dynamic loader takes an equal name for the same library, and descriptors' numbers come
/// again: so the name has the content in it, as "/." and "/", which lead nowhere else.
static void name_it(int fd, kiln_hash128 content, char *out, size_t capacity)
{
    size_t at = (size_t)snprintf(out, capacity, "/proc/%d", (int)getpid());
    for (int bit = 0; bit < 64 && at + 32 < capacity; bit++) {
        at += (size_t)snprintf(out + at, capacity - at, "%s",
                               (content.low >> bit & 1) != 0 ? "/." : "/");
    }
    snprintf(out + at, capacity - at, "/fd/%d", fd);
}

kiln_status kilni_fuse_copy_create(const char *path, const void *bytes, size_t length,
                                   kilni_fuse_copy *out_copy, kiln_error *err)
{
    const char *slash = strrchr(path, '/');
    char base[128];
    snprintf(base, sizeof(base), "%.120s", slash != NULL ? slash + 1 : path);
    int fd = memfd_create(base, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool ok = fd >= 0 && write_all(fd, bytes, length) &&
              fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
    if (!ok) {
        int why = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "others can write it or a folder above it, and there is no memory for a "
                         "copy: %s",
                         strerror(why));
    }
    out_copy->fd = fd;
    name_it(fd, kiln_hash_bytes(bytes, length), out_copy->path, sizeof(out_copy->path));
    return KILN_STATUS_OK;
}

void kilni_fuse_copy_destroy(kilni_fuse_copy *copy)
{
    if (copy->path[0] != 0) {
        (void)close(copy->fd);
        copy->path[0] = 0;
    }
}
