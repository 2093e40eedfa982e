// SPDX-License-Identifier: MIT OR Apache-2.0
// Files as trust needs them: who may write one, or put another into a folder above it, and the
// bytes of one. Whom to trust is decided in plugin_trust.c and signature.c.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin_trust.h"

enum { MAX_FILE_BYTES = 64 << 20 };

// ---- owners ----

static bool is_ours(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

kiln_status kilni_fuse_check_owner(const struct stat *info, const char *what, kiln_error *err)
{
    if (!is_ours(info->st_uid)) {
        return kiln_fail(err, PERMISSION_DENIED, "%.120s belongs to user %u", what,
                         (unsigned)info->st_uid);
    }
    bool wide = (info->st_mode & (S_IWGRP | S_IWOTH)) != 0;
    bool sticky = S_ISDIR(info->st_mode) && info->st_uid == 0 && (info->st_mode & S_ISVTX) != 0;
    return !wide || sticky
               ? KILN_STATUS_OK
               : kiln_fail(err, PERMISSION_DENIED, "%.120s is writable for others", what);
}

/// `path` is cut on the way.
static kiln_status check_chain(char *path, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (char *slash = strrchr(path, '/'); slash != NULL && status == KILN_STATUS_OK;
         slash = strrchr(path, '/')) {
        bool root = slash == path;
        char what[160];
        struct stat info;
        slash[root ? 1 : 0] = 0;
        snprintf(what, sizeof(what), "folder %.120s", path);
        status = stat(path, &info) != 0
                     ? kiln_fail(err, PERMISSION_DENIED, "%s: %s", what, strerror(errno))
                     : kilni_fuse_check_owner(&info, what, err);
        if (root) {
            break;
        }
    }
    return status;
}

/// Both the folders that the path names and, where one of them is a link, those that it leads to.
kiln_status kilni_fuse_check_folders(const kiln_env *env, const char *path, kiln_error *err)
{
    char real[PATH_MAX];
    char *folder = kiln_strdup(env, path);
    if (folder == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a path");
    }
    kiln_status status = check_chain(folder, err);
    kiln_free(env, folder);
    if (status == KILN_STATUS_OK && realpath(path, real) == NULL) {
        status = kiln_fail(err, PERMISSION_DENIED, "%.160s: %s", path, strerror(errno));
    }
    return status == KILN_STATUS_OK ? check_chain(real, err) : status;
}

// ---- bytes ----

kiln_status kilni_fuse_read_bytes(const kiln_env *env, int fd, size_t most, char **out_bytes,
                                  size_t *out_length, kiln_error *err)
{
    char *bytes = kiln_alloc(env, most + 1);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to read a file");
    }
    size_t length = 0;
    while (length < most) {
        ssize_t got = read(fd, bytes + length, most - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    bytes[length] = 0;
    *out_bytes = bytes;
    *out_length = length;
    return KILN_STATUS_OK;
}

kiln_status kilni_fuse_read_plugin(const kiln_env *env, const char *path, char **out_bytes,
                                   size_t *out_length, kiln_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_size > MAX_FILE_BYTES) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return kiln_fail(err, NOT_FOUND, "%.180s is no file of a plugin", path);
    }
    kiln_status status =
        kilni_fuse_read_bytes(env, fd, (size_t)info.st_size, out_bytes, out_length, err);
    (void)close(fd);
    return status;
}
