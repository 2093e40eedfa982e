// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_STORE_H
#define KILN_BASE_STORE_H

/// For Kiln's own modules: a database on disk: tables of key -> value with a checksum, shared by
/// processes, safe against crashes; above the limit the least recently used entries go. SQLite
/// below. A damaged entry is a miss and is removed; a damaged file is set aside and begun anew.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with UNAVAILABLE or RESOURCE_EXHAUSTED. No pointer is NULL unless a function
/// takes it.

#include <stddef.h>
#include <stdint.h>

#include "base_hash.h"
#include "kiln_env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_store kiln_store;

typedef struct kiln_blob {
    void *data;
    size_t length;
} kiln_blob;

typedef enum kiln_store_table {
    KILN_STORE_PROGRAMS = 0,
    KILN_STORE_PLANS = 1,
    KILN_STORE_WINNERS = 2,
    KILN_STORE_DEVICES = 3,
    KILN_STORE_STARTS = 4, ///< what a process asked for first
    KILN_STORE_DIGESTS = 5, ///< of constants that servers may have, by their stamp
    KILN_STORE_TABLE_COUNT
} kiln_store_table;

typedef struct kiln_store_stat {
    uint64_t entries[KILN_STORE_TABLE_COUNT];
    uint64_t bytes[KILN_STORE_TABLE_COUNT];
    uint64_t file_bytes;
} kiln_store_stat;

/// Opens `folder`/kiln.db, making both. `*out_store` is the caller's (kiln_store_close); `env` must
/// outlive it. Errors: UNAVAILABLE when the file cannot be opened or is locked for long;
/// UNIMPLEMENTED in the minimal build.
KILN_NODISCARD KILN_API kiln_status kiln_store_open(const kiln_env *env, const char *folder,
                                                    kiln_store **out_store, kiln_error *err);

/// Closes the store. Takes NULL.
KILN_API void kiln_store_close(kiln_store *store);

/// Gives a copy of the value of a key, which goes back through kiln_free(env, out_value->data).
/// Errors: also NOT_FOUND when there is none.
KILN_NODISCARD KILN_API kiln_status kiln_store_get(kiln_store *store, kiln_store_table table,
                                                   kiln_hash128 key, kiln_blob *out_value,
                                                   kiln_error *err);

/// Puts a copy of a value in place of what the key had.
KILN_NODISCARD KILN_API kiln_status kiln_store_put(kiln_store *store, kiln_store_table table,
                                                   kiln_hash128 key, const void *value,
                                                   size_t length, kiln_error *err);

/// Counts entries and bytes.
KILN_NODISCARD KILN_API kiln_status kiln_store_stat_get(kiln_store *store,
                                                        kiln_store_stat *out_stat, kiln_error *err);

/// Empties all tables.
KILN_NODISCARD KILN_API kiln_status kiln_store_clear(kiln_store *store, kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
