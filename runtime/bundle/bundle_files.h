// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_FILES_H
#define KILNI_BUNDLE_FILES_H

/// A bundle's folder: its files, and the list of their hashes (XXH3, 128 bits), a line for each as
/// xxh128sum has it. The last line is the hash of those before it, under the name "-".

#include "base.h"

enum { BUNDLE_PATH_ROOM = 1024, BUNDLE_PIECE = 4 << 20 };

#define BUNDLE_HASHES "HASHES"

typedef struct bundle_file_hash {
    kiln_hash128 hash;
    const char *name; ///< below the folder
    struct bundle_file_hash *next;
} bundle_file_hash;

typedef struct bundle_folder {
    const kiln_env *env;
    const char *path;
    bundle_file_hash *hashes; ///< in the order of HASHES
    kiln_arena *arena; ///< of the list
} bundle_folder;

/// "PATH/NAME". Errors: INVALID_ARGUMENT where that is too long, and for a name that leads out of
/// the folder.
kiln_status kilni_bundle_path(const char *path, const char *name, char out_path[BUNDLE_PATH_ROOM],
                              kiln_error *err);

/// Reads a whole file; the caller frees `out_bytes->data` (kiln_free); a zero stands behind it.
/// Errors: NOT_FOUND, UNAVAILABLE, RESOURCE_EXHAUSTED.
kiln_status kilni_bundle_read(const kiln_env *env, const char *path, kiln_blob *out_bytes,
                              kiln_error *err);
kiln_status kilni_bundle_write(const char *path, const void *bytes, size_t length, kiln_error *err);

/// Reads HASHES. Errors: DATA_LOSS for a list that is not as it was written; RESOURCE_EXHAUSTED.
kiln_status kilni_bundle_folder_open(bundle_folder *folder, kiln_error *err);

/// Reads a file that HASHES lists. Errors: also DATA_LOSS for one that is not as HASHES says, or
/// that it does not list.
kiln_status kilni_bundle_folder_read(const bundle_folder *folder, const char *name,
                                     kiln_blob *out_bytes, kiln_error *err);

typedef kiln_status (*bundle_piece_fn)(void *user, uint64_t offset, const void *bytes,
                                       size_t length, kiln_error *err);

/// The length of a listed file. Errors: NOT_FOUND, UNAVAILABLE; DATA_LOSS for what is no file or
/// has no bytes.
kiln_status kilni_bundle_folder_length(const bundle_folder *folder, const char *name,
                                       uint64_t *out_length, kiln_error *err);

/// Shows `piece` a listed file from its start to its end, for one that is too long to be held
/// whole. Only at the end is it known whether the file is as HASHES says: on failure, whatever was
/// made of the pieces is void. A file that becomes shorter meanwhile is such a failure.
/// Errors: as kilni_bundle_folder_read, and those of `piece`.
kiln_status kilni_bundle_folder_visit(const bundle_folder *folder, const char *name,
                                      bundle_piece_fn piece, void *user, kiln_error *err);

/// Whether every listed file that is there is as it was written; `but`, when not NULL, is not read.
kiln_status kilni_bundle_folder_check(const bundle_folder *folder, const char *but,
                                      kiln_error *err);

/// Writes a file and a line for it.
kiln_status kilni_bundle_folder_write(const bundle_folder *folder, kiln_string *hashes,
                                      const char *name, const void *bytes, size_t length,
                                      kiln_error *err);
/// Writes HASHES, from the lines.
kiln_status kilni_bundle_folder_close(const bundle_folder *folder, kiln_string *hashes,
                                      kiln_error *err);

#endif
