// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_PLUGIN_TRUST_H
#define KILN_FUSION_HOST_PLUGIN_TRUST_H

/// Whom to trust: owners of files, hashes, keys, and copies that nobody can change.

#include <sys/stat.h>

#include "fuse_plugin.h"

/// Nobody but root and this user may write the file, or put another into a folder above it; a
/// sticky folder of root's protects its entries.
kiln_status kilni_fuse_check_owner(const struct stat *info, const char *what, kiln_error *err);
kiln_status kilni_fuse_check_folders(const kiln_env *env, const char *path, kiln_error *err);
/// Whether the option `plugin-mode` lets in a file with these bytes. Errors: PERMISSION_DENIED with
/// the reason.
kiln_status kilni_fuse_check_trust(const kiln_env *env, kilni_fuse_trust trust, const char *path,
                                   const void *bytes, size_t length, kiln_error *err);
/// Whether the file's bytes were judged, and somebody else could change it now.
bool kilni_fuse_may_change(const kiln_env *env, kilni_fuse_trust trust, const char *path,
                           const struct stat *info);
/// Bytes under a path for as long as the copy is there; nobody can change them.
typedef struct kilni_fuse_copy {
    int fd;
    char path[256]; ///< "": there is none
} kilni_fuse_copy;
kiln_status kilni_fuse_copy_create(const char *path, const void *bytes, size_t length,
                                   kilni_fuse_copy *out_copy, kiln_error *err);
void kilni_fuse_copy_destroy(kilni_fuse_copy *copy);
/// At most `most` bytes, terminated; the caller frees them.
kiln_status kilni_fuse_read_bytes(const kiln_env *env, int fd, size_t most, char **out_bytes,
                                  size_t *out_length, kiln_error *err);
/// The bytes of a file that the user named. The caller frees them, also on failure.
kiln_status kilni_fuse_read_plugin(const kiln_env *env, const char *path, char **out_bytes,
                                   size_t *out_length, kiln_error *err);
/// Whether one of `count` keys, 32 bytes each, made the signature that lies beside the file.
kiln_status kilni_fuse_check_signature(const kiln_env *env, const char *path, const void *bytes,
                                       size_t length, const unsigned char *keys, size_t count,
                                       kiln_error *err);
void kilni_fuse_sha256(const void *bytes, size_t length, unsigned char out_digest[32]);

#endif
