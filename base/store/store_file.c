// SPDX-License-Identifier: MIT OR Apache-2.0
// The store's file: opening in little time (it is part of every start), the schema and its version,
// and what happens to a damaged file: it is renamed to kiln.db.damaged, once, whichever of several
// processes sees it first, and a new one is begun. A lock file beside it orders those rare moments;
// the database file itself is never opened except by SQLite, whose POSIX locks a close would drop.
#include "store_internal.h"

#include "base_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FORMAT = 1, ///< cache format, kept as the database's user_version
    BUSY_MS = 2000,
    OPEN_ATTEMPTS = 40,
    OPEN_PAUSE_NS = 5000000,
    FILE_PATH_BYTES = 4096
};

kiln_status kilni_store_fail(const kiln_store *store, int code, const char *doing, kiln_error *err)
{
    const char *why = sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_NOMEM:
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s %s: %s (%d)", doing, store->path, why, code);
    default:
        return kiln_fail(err, UNAVAILABLE, "%s %s: %s (%d)", doing, store->path, why, code);
    }
}

/// Held while the file is made, renewed or set aside. Where the lock cannot be had, the caller goes
/// on without, which risks a lost cache and nothing else.
static int lock_take(const kiln_store *store)
{
    return kilni_base_lock_open(store->env, "base", store->lock_path, BUSY_MS);
}

static void lock_drop(int file)
{
    if (file >= 0) {
        close(file);
    }
}

/// The first column of the first row as a number.
static int query_int(sqlite3 *database, const char *text, int64_t *out_value)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(database, text, -1, &statement, NULL);
    if (code != SQLITE_OK) {
        return code;
    }
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *out_value = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
    } else if (code == SQLITE_DONE) {
        code = SQLITE_CORRUPT;
    }
    sqlite3_finalize(statement);
    return code;
}

static void remember_file(kiln_store *store)
{
    struct stat facts;
    if (stat(store->path, &facts) == 0) {
        store->device = facts.st_dev;
        store->inode = facts.st_ino;
    }
}

/// True while the path still names the file that we opened.
static bool is_our_file(const kiln_store *store)
{
    struct stat facts;
    return stat(store->path, &facts) == 0 && facts.st_dev == store->device &&
           facts.st_ino == store->inode;
}

/// Inside the transaction: another process that had no lock either may have been first.
static int make_tables(kiln_store *store)
{
    static const char tables[] =
        "DROP TABLE IF EXISTS entry;"
        // One SQL table for all of ours, so that one order of last use spans them.
        "CREATE TABLE entry(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, key BLOB NOT NULL,"
        " used INTEGER NOT NULL, checksum INTEGER NOT NULL, value BLOB NOT NULL,"
        " UNIQUE(kind, key));"
        "CREATE INDEX entry_used ON entry(used, id);"
        "PRAGMA user_version=1;";
    _Static_assert(FORMAT == 1, "user_version in the schema is the cache format");
    int64_t version = 0;
    int code = query_int(store->database, "PRAGMA user_version", &version);
    if (code == SQLITE_OK && version != FORMAT) {
        code = sqlite3_exec(store->database, tables, NULL, NULL, NULL);
    }
    return code;
}

static int make_schema(kiln_store *store)
{
    static const char begin[] = "PRAGMA page_size=8192;"
                                "PRAGMA journal_mode=WAL;"
                                "BEGIN IMMEDIATE;";
    int lock = lock_take(store);
    int code = sqlite3_exec(store->database, begin, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = make_tables(store);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_exec(store->database, "COMMIT", NULL, NULL, NULL);
    }
    if (code != SQLITE_OK) {
        sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
    }
    lock_drop(lock);
    return code;
}

/// One attempt to open `name`, our path or an URI of it; SQLite's code. On failure the database is
/// closed again.
static int open_once(kiln_store *store, const char *name, int flags)
{
    int64_t version = 0;
    int code = sqlite3_open_v2(name, &store->database, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        remember_file(store);
        sqlite3_extended_result_codes(store->database, 1);
        sqlite3_busy_timeout(store->database, BUSY_MS);
        code = sqlite3_exec(store->database, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
    }
    if (code == SQLITE_OK) {
        code = query_int(store->database, "PRAGMA user_version", &version);
    }
    if (code == SQLITE_OK && version != FORMAT) {
        code = make_schema(store);
    }
    if (code == SQLITE_OK) {
        code = query_int(store->database, "PRAGMA page_size", &store->page_bytes);
    }
    if (code != SQLITE_OK) {
        kilni_store_file_close(store);
    }
    return code;
}

static int open_to_write(kiln_store *store)
{
    return open_once(store, store->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

/// Where the folder cannot be written (an image, another user's), a file of this format is read: as
/// one that nobody changes, since SQLite could not make the files through which writers would tell.
static int open_to_read(kiln_store *store)
{
    kiln_string uri;
    kiln_string_init(&uri, store->env);
    kiln_string_printf(&uri, "file:");
    for (const char *c = store->path; *c != 0; c++) {
        bool means_more = strchr("%?#", *c) != NULL;
        kiln_string_printf(&uri, means_more ? "%%%02X" : "%c", (unsigned char)*c);
    }
    kiln_string_printf(&uri, "?immutable=1");
    int code = uri.failed ? SQLITE_NOMEM
                          : open_once(store, uri.text, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    kiln_string_fini(&uri);
    if (code == SQLITE_OK) {
        kiln_log_write(store->env, KILN_LOG_INFO, "base",
                       "%s cannot be written: it is read, and nothing new is kept", store->path);
    }
    return code;
}

/// Renames the damaged file and drops its journal, unless somebody else has put a new one there.
static void set_aside(const kiln_store *store)
{
    char path[FILE_PATH_BYTES];
    int lock = lock_take(store);
    if (is_our_file(store)) {
        snprintf(path, sizeof(path), "%s.damaged", store->path);
        if (rename(store->path, path) != 0) {
            unlink(store->path);
        }
        snprintf(path, sizeof(path), "%s-wal", store->path);
        unlink(path);
        snprintf(path, sizeof(path), "%s-shm", store->path);
        unlink(path);
    }
    lock_drop(lock);
}

static bool is_damage(int code)
{
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

bool kilni_store_must_renew(const kiln_store *store, int code)
{
    bool may_be_moved = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_READONLY;
    return is_damage(code) || (may_be_moved && !is_our_file(store));
}

/// Opens; what another process does to the file meanwhile (making it, setting it aside) shows as
/// damage or as an I/O error, and is over after a few attempts.
kiln_status kilni_store_file_open(kiln_store *store, kiln_error *err)
{
    const struct timespec pause = {.tv_nsec = OPEN_PAUSE_NS};
    int code = open_to_write(store);
    for (int i = 0; i < OPEN_ATTEMPTS && code != SQLITE_OK; i++) {
        if (is_damage(code)) {
            kiln_log_write(store->env, KILN_LOG_WARN, "base", "%s is damaged and is begun anew",
                           store->path);
            set_aside(store);
        } else if ((code & 0xff) == SQLITE_IOERR) {
            nanosleep(&pause, NULL);
        } else {
            break;
        }
        code = open_to_write(store);
    }
    bool may_be_read = (code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_READONLY;
    if (may_be_read && open_to_read(store) == SQLITE_OK) {
        return KILN_STATUS_OK;
    }
    return code == SQLITE_OK ? KILN_STATUS_OK : kilni_store_fail(store, code, "opening", err);
}

kiln_status kilni_store_file_renew(kiln_store *store, kiln_error *err)
{
    kiln_log_write(store->env, KILN_LOG_WARN, "base", "%s is damaged or was replaced: opened again",
                   store->path);
    kilni_store_file_close(store);
    set_aside(store);
    return kilni_store_file_open(store, err);
}

void kilni_store_file_close(kiln_store *store)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    sqlite3_close(store->database);
    store->database = NULL;
}
