// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_STORE_INTERNAL_H
#define KILN_BASE_STORE_INTERNAL_H

/// The two halves of the store: store_file.c keeps the file, store.c keeps what is in it.

#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

#include "base.h"

typedef enum kilni_store_statement {
    STATEMENT_GET,
    STATEMENT_PUT,
    STATEMENT_TOUCH,
    STATEMENT_REMOVE,
    STATEMENT_OLDEST,
    STATEMENT_PAGES,
    STATEMENT_FREE_PAGES,
    STATEMENT_STAT,
    STATEMENT_COUNT
} kilni_store_statement;

struct kiln_store {
    const kiln_env *env;
    pthread_mutex_t mutex; ///< guards all below
    sqlite3 *database; ///< NULL after a damaged file could not be begun anew
    sqlite3_stmt *statements[STATEMENT_COUNT];
    int64_t page_bytes;
    dev_t device; ///< of the open file, so that a damaged file is set aside once
    ino_t inode;
    char *path;
    char *lock_path;
};

/// Opens `store->path`, sets a damaged file aside, makes the schema where it lacks. Until
/// kilni_store_file_close. Mutex held, or not yet shared. Errors: UNAVAILABLE, RESOURCE_EXHAUSTED.
kiln_status kilni_store_file_open(kiln_store *store, kiln_error *err);
void kilni_store_file_close(kiln_store *store);

/// Closes, sets the file aside unless another process has done so, and opens a new one. Mutex held.
/// Errors: UNAVAILABLE, RESOURCE_EXHAUSTED.
kiln_status kilni_store_file_renew(kiln_store *store, kiln_error *err);

/// True when SQLite's `code` says that the file is no sound database, or no longer the one at our
/// path, since another process has set it aside. Mutex held.
bool kilni_store_must_renew(const kiln_store *store, int code);

/// The status that SQLite's `code` stands for, with its text in `err`. Mutex held. Errors: the
/// translated one.
kiln_status kilni_store_fail(const kiln_store *store, int code, const char *doing, kiln_error *err);

#endif
