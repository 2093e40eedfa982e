// SPDX-License-Identifier: MIT OR Apache-2.0
// The store's entries: get, put, statistics, clearing, and the removal of what was used longest
// ago. A hit writes nothing while the entry's time of use is recent, so that a warm start only
// reads. A row whose checksum is wrong is a miss and goes. Values are opaque: keys and contents
// belong to the callers.
#include "store_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    STALE_SECONDS = 3600,
    PATH_BYTES = 4096,
    KEY_BYTES = 16,
    EVICT_PART = 16 ///< an eviction frees this part of the limit beyond the need
};

static const char *const statement_texts[STATEMENT_COUNT] = {
    [STATEMENT_GET] = "SELECT id, used, checksum, value FROM entry WHERE kind=?1 AND key=?2",
    [STATEMENT_PUT] = ("INSERT OR REPLACE INTO entry(kind, key, used, checksum, value)"
                       " VALUES(?1, ?2, ?3, ?4, ?5)"),
    [STATEMENT_TOUCH] = "UPDATE entry SET used=?2 WHERE id=?1",
    [STATEMENT_REMOVE] = "DELETE FROM entry WHERE id=?1",
    [STATEMENT_OLDEST] = "SELECT id, length(value) FROM entry ORDER BY used, id LIMIT 1",
    [STATEMENT_PAGES] = "PRAGMA page_count",
    [STATEMENT_FREE_PAGES] = "PRAGMA freelist_count",
    [STATEMENT_STAT] = "SELECT kind, count(*), sum(length(value)) FROM entry GROUP BY kind",
};

// ---- statements ----

/// Makes a statement at its first use. SQLite's code.
static int statement_ready(kiln_store *store, kilni_store_statement which)
{
    if (store->database == NULL) {
        return SQLITE_CANTOPEN;
    }
    if (store->statements[which] != NULL) {
        return SQLITE_OK;
    }
    return sqlite3_prepare_v3(store->database, statement_texts[which], -1,
                              SQLITE_PREPARE_PERSISTENT, &store->statements[which], NULL);
}

static void statement_done(kiln_store *store, kilni_store_statement which)
{
    sqlite3_reset(store->statements[which]);
    sqlite3_clear_bindings(store->statements[which]);
}

/// Runs a statement that gives no rows, its parameters bound. SQLite's code, OK when done.
static int statement_run(kiln_store *store, kilni_store_statement which)
{
    int code = sqlite3_step(store->statements[which]);
    statement_done(store, which);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

static int run_with_id(kiln_store *store, kilni_store_statement which, int64_t id, int64_t value)
{
    int code = statement_ready(store, which);
    if (code != SQLITE_OK) {
        return code;
    }
    sqlite3_bind_int64(store->statements[which], 1, id);
    if (which == STATEMENT_TOUCH) {
        sqlite3_bind_int64(store->statements[which], 2, value);
    }
    return statement_run(store, which);
}

static int exec(kiln_store *store, const char *text)
{
    return store->database == NULL ? SQLITE_CANTOPEN
                                   : sqlite3_exec(store->database, text, NULL, NULL, NULL);
}

// ---- keys and checksums ----

static void key_bytes(kiln_hash128 key, unsigned char out_bytes[KEY_BYTES])
{
    for (unsigned i = 0; i < 8; i++) {
        out_bytes[i] = (unsigned char)(key.high >> (56 - 8 * i));
        out_bytes[8 + i] = (unsigned char)(key.low >> (56 - 8 * i));
    }
}

/// Over the value and the place it belongs to, so that a row under a wrong key is found out too.
static int64_t checksum_of(kiln_store_table table, kiln_hash128 key, const void *value,
                           size_t length)
{
    uint64_t seed = key.low ^ (key.high << 1) ^ ((uint64_t)table << 56);
    return (int64_t)kiln_hash64(value, length, seed);
}

static int bind_key(sqlite3_stmt *statement, kiln_store_table table, kiln_hash128 key)
{
    unsigned char bytes[KEY_BYTES];
    key_bytes(key, bytes);
    sqlite3_bind_int(statement, 1, (int)table);
    return sqlite3_bind_blob(statement, 2, bytes, KEY_BYTES, SQLITE_TRANSIENT);
}

// ---- get ----

typedef struct found_row {
    int64_t id;
    int64_t used;
    bool sound;
} found_row;

/// Copies the row under the statement into `out_value`. False when there is no memory.
static bool copy_row(kiln_store *store, kiln_store_table table, kiln_hash128 key, found_row *row,
                     kiln_blob *out_value)
{
    sqlite3_stmt *statement = store->statements[STATEMENT_GET];
    const void *value = sqlite3_column_blob(statement, 3);
    int length = sqlite3_column_bytes(statement, 3);
    row->id = sqlite3_column_int64(statement, 0);
    row->used = sqlite3_column_int64(statement, 1);
    if (value == NULL && length > 0) {
        return false;
    }
    int64_t expected = sqlite3_column_int64(statement, 2);
    row->sound = checksum_of(table, key, value == NULL ? "" : value, (size_t)length) == expected;
    if (!row->sound) {
        return true;
    }
    void *copy = kiln_alloc(store->env, (size_t)length);
    if (copy == NULL) {
        return false;
    }
    if (length > 0) {
        memcpy(copy, value, (size_t)length);
    }
    *out_value = (kiln_blob){.data = copy, .length = (size_t)length};
    return true;
}

/// After the read: a wrong row goes, a row not used for long gets a new time. Failing is harmless.
static void tend_row(kiln_store *store, const found_row *row)
{
    int64_t now = (int64_t)time(NULL);
    if (!row->sound) {
        kiln_log_write(store->env, KILN_LOG_WARN, "base", "a damaged entry of %s is removed",
                       store->path);
        run_with_id(store, STATEMENT_REMOVE, row->id, /*value=*/0);
    } else if (row->used > now || now - row->used > STALE_SECONDS) {
        run_with_id(store, STATEMENT_TOUCH, row->id, now);
    }
}

static kiln_status get_locked(kiln_store *store, kiln_store_table table, kiln_hash128 key,
                              kiln_blob *out_value, kiln_error *err)
{
    found_row row = {0};
    bool copied = false;
    int code = statement_ready(store, STATEMENT_GET);
    if (code == SQLITE_OK) {
        code = bind_key(store->statements[STATEMENT_GET], table, key);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(store->statements[STATEMENT_GET]);
        copied = code == SQLITE_ROW && copy_row(store, table, key, &row, out_value);
        statement_done(store, STATEMENT_GET);
    }
    if (kilni_store_must_renew(store, code)) {
        kilni_store_file_renew(store, NULL);
        return kiln_fail(err, NOT_FOUND, "%s was damaged", store->path);
    }
    if (code == SQLITE_DONE) {
        return kiln_fail(err, NOT_FOUND, "no such entry in %s", store->path);
    }
    if (code != SQLITE_ROW) {
        return kilni_store_fail(store, code, "reading", err);
    }
    if (!copied) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an entry of %s", store->path);
    }
    tend_row(store, &row);
    return row.sound ? KILN_STATUS_OK
                     : kiln_fail(err, NOT_FOUND, "the entry in %s was damaged", store->path);
}

kiln_status kiln_store_get(kiln_store *store, kiln_store_table table, kiln_hash128 key,
                           kiln_blob *out_value, kiln_error *err)
{
    *out_value = (kiln_blob){.data = NULL, .length = 0};
    pthread_mutex_lock(&store->mutex);
    kiln_status status = get_locked(store, table, key, out_value, err);
    pthread_mutex_unlock(&store->mutex);
    return status;
}

// ---- put and eviction ----

static int query_pages(kiln_store *store, kilni_store_statement which, int64_t *out_pages)
{
    int code = statement_ready(store, which);
    if (code == SQLITE_OK) {
        code = sqlite3_step(store->statements[which]);
        if (code == SQLITE_ROW) {
            *out_pages = sqlite3_column_int64(store->statements[which], 0);
            code = SQLITE_OK;
        }
        statement_done(store, which);
    }
    return code;
}

/// Bytes of the pages that hold something. Both counters stand in the file's header.
static int bytes_in_use(kiln_store *store, int64_t *out_bytes)
{
    int64_t pages = 0;
    int64_t unused = 0;
    int code = query_pages(store, STATEMENT_PAGES, &pages);
    if (code == SQLITE_OK) {
        code = query_pages(store, STATEMENT_FREE_PAGES, &unused);
    }
    *out_bytes = (pages - unused) * store->page_bytes;
    return code;
}

/// Removes the entry used longest ago. SQLITE_DONE when there is none.
static int evict_one(kiln_store *store)
{
    int code = statement_ready(store, STATEMENT_OLDEST);
    if (code != SQLITE_OK) {
        return code;
    }
    code = sqlite3_step(store->statements[STATEMENT_OLDEST]);
    int64_t id = sqlite3_column_int64(store->statements[STATEMENT_OLDEST], 0);
    statement_done(store, STATEMENT_OLDEST);
    return code == SQLITE_ROW ? run_with_id(store, STATEMENT_REMOVE, id, /*value=*/0) : code;
}

/// Inside a transaction: removes until the pages in use are well below the limit.
static int evict(kiln_store *store, int64_t limit)
{
    int64_t bytes = 0;
    int code = bytes_in_use(store, &bytes);
    if (code != SQLITE_OK || bytes <= limit) {
        return code;
    }
    while (code == SQLITE_OK && bytes > limit - limit / EVICT_PART) {
        code = evict_one(store);
        if (code == SQLITE_OK) {
            code = bytes_in_use(store, &bytes);
        }
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int insert(kiln_store *store, kiln_store_table table, kiln_hash128 key, const void *value,
                  size_t length)
{
    int code = statement_ready(store, STATEMENT_PUT);
    if (code != SQLITE_OK) {
        return code;
    }
    sqlite3_stmt *statement = store->statements[STATEMENT_PUT];
    code = bind_key(statement, table, key);
    sqlite3_bind_int64(statement, 3, (int64_t)time(NULL));
    sqlite3_bind_int64(statement, 4, checksum_of(table, key, value, length));
    if (code == SQLITE_OK) {
        code = sqlite3_bind_blob64(statement, 5, value, length, SQLITE_STATIC);
    }
    if (code != SQLITE_OK) {
        statement_done(store, STATEMENT_PUT);
        return code;
    }
    return statement_run(store, STATEMENT_PUT);
}

static int put_once(kiln_store *store, kiln_store_table table, kiln_hash128 key, const void *value,
                    size_t length)
{
    int64_t limit = kiln_config_int(store->env->config, KILN_OPTION_CACHE_LIMIT);
    int code = exec(store, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK) {
        return code;
    }
    code = insert(store, table, key, value, length);
    if (code == SQLITE_OK) {
        code = evict(store, limit);
    }
    if (code == SQLITE_OK) {
        code = exec(store, "COMMIT");
    }
    if (code != SQLITE_OK) {
        exec(store, "ROLLBACK");
    }
    return code;
}

kiln_status kiln_store_put(kiln_store *store, kiln_store_table table, kiln_hash128 key,
                           const void *value, size_t length, kiln_error *err)
{
    int64_t limit = kiln_config_int(store->env->config, KILN_OPTION_CACHE_LIMIT);
    if (length > INT32_MAX || (int64_t)length > limit) {
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "an entry of %zu bytes, where the cache holds %lld (cache-limit)", length,
                         (long long)limit);
    }
    pthread_mutex_lock(&store->mutex);
    const void *bytes = value == NULL ? "" : value;
    int code = put_once(store, table, key, bytes, length);
    if (kilni_store_must_renew(store, code) &&
        kilni_store_file_renew(store, NULL) == KILN_STATUS_OK) {
        code = put_once(store, table, key, bytes, length);
    }
    kiln_status status =
        code == SQLITE_OK ? KILN_STATUS_OK : kilni_store_fail(store, code, "writing", err);
    pthread_mutex_unlock(&store->mutex);
    return status;
}

// ---- statistics and clearing ----

static uint64_t file_bytes(const kiln_store *store, const char *suffix)
{
    char path[PATH_BYTES];
    struct stat facts;
    snprintf(path, sizeof(path), "%s%s", store->path, suffix);
    return stat(path, &facts) == 0 ? (uint64_t)facts.st_size : 0;
}

static int stat_rows(kiln_store *store, kiln_store_stat *out_stat)
{
    int code = statement_ready(store, STATEMENT_STAT);
    if (code != SQLITE_OK) {
        return code;
    }
    sqlite3_stmt *statement = store->statements[STATEMENT_STAT];
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        int kind = sqlite3_column_int(statement, 0);
        if (kind >= 0 && kind < KILN_STORE_TABLE_COUNT) {
            out_stat->entries[kind] = (uint64_t)sqlite3_column_int64(statement, 1);
            out_stat->bytes[kind] = (uint64_t)sqlite3_column_int64(statement, 2);
        }
    }
    statement_done(store, STATEMENT_STAT);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

kiln_status kiln_store_stat_get(kiln_store *store, kiln_store_stat *out_stat, kiln_error *err)
{
    *out_stat = (kiln_store_stat){0};
    pthread_mutex_lock(&store->mutex);
    int code = stat_rows(store, out_stat);
    if (kilni_store_must_renew(store, code) &&
        kilni_store_file_renew(store, NULL) == KILN_STATUS_OK) {
        *out_stat = (kiln_store_stat){0};
        code = stat_rows(store, out_stat);
    }
    out_stat->file_bytes = file_bytes(store, "") + file_bytes(store, "-wal");
    kiln_status status =
        code == SQLITE_OK ? KILN_STATUS_OK : kilni_store_fail(store, code, "reading", err);
    pthread_mutex_unlock(&store->mutex);
    return status;
}

kiln_status kiln_store_clear(kiln_store *store, kiln_error *err)
{
    pthread_mutex_lock(&store->mutex);
    int code = exec(store, "DELETE FROM entry");
    if (kilni_store_must_renew(store, code)) {
        code = kilni_store_file_renew(store, NULL) == KILN_STATUS_OK ? SQLITE_OK : code;
    }
    if (code == SQLITE_OK) { // gives the room back; another process at work may forbid it
        exec(store, "VACUUM");
        exec(store, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
    kiln_status status =
        code == SQLITE_OK ? KILN_STATUS_OK : kilni_store_fail(store, code, "clearing", err);
    pthread_mutex_unlock(&store->mutex);
    return status;
}

// ---- open and close ----

/// Makes `folder` and what lies above it, for the user alone.
static kiln_status make_folder(const char *folder, kiln_error *err)
{
    char path[PATH_BYTES];
    size_t length = strlen(folder);
    if (length == 0 || length + 32 > sizeof(path)) {
        return kiln_fail(err, UNAVAILABLE, "the folder of the cache has a path of %zu bytes",
                         length);
    }
    memcpy(path, folder, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) {
            continue;
        }
        path[i] = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST && errno != EISDIR && i == length) {
            return kiln_fail(err, UNAVAILABLE, "making %s: %s", folder, strerror(errno));
        }
        path[i] = folder[i];
    }
    return KILN_STATUS_OK;
}

static char *join(const kiln_env *env, const char *folder, const char *name)
{
    kiln_string path;
    kiln_string_init(&path, env);
    kiln_string_printf(&path, "%s/%s", folder, name);
    if (path.failed) {
        kiln_string_fini(&path);
        return NULL;
    }
    return path.text;
}

kiln_status kiln_store_open(const kiln_env *env, const char *folder, kiln_store **out_store,
                            kiln_error *err)
{
    *out_store = NULL;
    kiln_store *store = kiln_alloc(env, sizeof(*store));
    if (store == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the store");
    }
    kiln_status status = KILN_STATUS_OK;
    store->env = env;
    pthread_mutex_init(&store->mutex, NULL);
    store->path = join(env, folder, "kiln.db");
    store->lock_path = join(env, folder, "kiln.db.lock");
    if (store->path == NULL || store->lock_path == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the store");
        goto out;
    }
    KILN_TRY(out, status, make_folder(folder, err));
    KILN_TRY(out, status, kilni_store_file_open(store, err));
    *out_store = store;
    store = NULL;
out:
    kiln_store_close(store);
    return status;
}

void kiln_store_close(kiln_store *store)
{
    if (store == NULL) {
        return;
    }
    const kiln_env *env = store->env;
    kilni_store_file_close(store);
    pthread_mutex_destroy(&store->mutex);
    kiln_free(env, store->path);
    kiln_free(env, store->lock_path);
    kiln_free(env, store);
}
