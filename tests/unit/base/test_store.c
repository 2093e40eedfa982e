// SPDX-License-Identifier: MIT OR Apache-2.0
// The store: values come back, across processes and at once; damage is a miss and never an error
// that stays; the limit holds, oldest first; every allocation failing once.
#define _GNU_SOURCE // syscall
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_files.h"
#include "faults.h"
#include "harness.h"

static kiln_env plain_env(void)
{
    return (kiln_env){.allocator = kiln_allocator_default()};
}

static kiln_store *open_store(const kiln_env *env, const char *folder)
{
    kiln_store *store = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_store_open(env, folder, &store, &err), KILN_STATUS_OK);
    if (store == NULL) {
        KILN_FAIL("%s", err.message);
    }
    return store;
}

static const char *new_folder(const char *name)
{
    return kiln_test_path(kiln_test_tmpdir(), name);
}

static kiln_hash128 key_of(uint64_t number)
{
    return kiln_hash_bytes(&number, sizeof(number));
}

/// A value that depends on its number, `length` bytes.
static unsigned char *value_of(uint64_t number, size_t length)
{
    unsigned char *bytes = malloc(length + 1);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (unsigned char)(number * 131 + i * 7 + i / 256);
    }
    return bytes;
}

static kiln_status put(kiln_store *store, kiln_store_table table, uint64_t number, size_t length)
{
    unsigned char *bytes = value_of(number, length);
    kiln_status status = kiln_store_put(store, table, key_of(number), bytes, length, NULL);
    free(bytes);
    return status;
}

/// NOT_FOUND, or OK after the value was compared.
static kiln_status get(const kiln_env *env, kiln_store *store, kiln_store_table table,
                       uint64_t number, size_t length)
{
    kiln_blob blob = {NULL, 0};
    kiln_status status = kiln_store_get(store, table, key_of(number), &blob, NULL);
    if (status == KILN_STATUS_OK) {
        unsigned char *bytes = value_of(number, length);
        KILN_CHECK_INT(blob.length, length);
        KILN_CHECK(blob.length == length && memcmp(blob.data, bytes, length) == 0);
        free(bytes);
    } else {
        KILN_CHECK(blob.data == NULL);
    }
    kiln_free(env, blob.data);
    return status;
}

static void test_put_get(void)
{
    kiln_env env = plain_env();
    const char *folder = new_folder("put/in/depth");
    for (int round = 0; round < 2; round++) {
        kiln_store *store = open_store(&env, folder);
        if (store == NULL) {
            return;
        }
        for (int table = 0; table < KILN_STORE_TABLE_COUNT; table++) {
            for (uint64_t i = 0; i < 5; i++) {
                kiln_status status = get(&env, store, (kiln_store_table)table, i, i * i * 1000);
                KILN_CHECK_INT(status, round == 0 ? KILN_STATUS_NOT_FOUND : KILN_STATUS_OK);
                KILN_CHECK_INT(put(store, (kiln_store_table)table, i, 3), KILN_STATUS_OK);
                KILN_CHECK_INT(put(store, (kiln_store_table)table, i, i * i * 1000), 0);
                KILN_CHECK_INT(get(&env, store, (kiln_store_table)table, i, i * i * 1000), 0);
            }
        }
        kiln_store_stat stat;
        KILN_CHECK_INT(kiln_store_stat_get(store, &stat, NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(stat.entries[KILN_STORE_PLANS], 5);
        KILN_CHECK_INT(stat.bytes[KILN_STORE_PLANS], 30000);
        KILN_CHECK(stat.file_bytes > 120000);
        kiln_store_close(store);
    }
    kiln_store_close(NULL);
}

static void test_clear(void)
{
    kiln_env env = plain_env();
    kiln_store *store = open_store(&env, new_folder("clear"));
    kiln_store_stat before;
    kiln_store_stat after;
    for (uint64_t i = 0; i < 50; i++) {
        KILN_CHECK_INT(put(store, KILN_STORE_PROGRAMS, i, 20000), 0);
    }
    KILN_CHECK_INT(kiln_store_stat_get(store, &before, NULL), 0);
    KILN_CHECK_INT(kiln_store_clear(store, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_store_stat_get(store, &after, NULL), 0);
    KILN_CHECK_INT(after.entries[KILN_STORE_PROGRAMS], 0);
    KILN_CHECK(after.file_bytes < before.file_bytes / 5);
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PROGRAMS, 1, 20000), KILN_STATUS_NOT_FOUND);
    kiln_store_close(store);
}

static void test_cannot_open(void)
{
    kiln_env env = plain_env();
    kiln_store *store = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const char *file = new_folder("a-file");
    kiln_test_write_file(file, "x", 1);
    KILN_CHECK_INT(kiln_store_open(&env, kiln_test_path(file, "below"), &store, &err),
                   KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(err.message, "a-file");
    KILN_CHECK_INT(kiln_store_open(&env, "", &store, &err), KILN_STATUS_UNAVAILABLE);
    KILN_CHECK(store == NULL);
}

/// What a user who may read but not write sees in `name`; 0 when all is as it
/// must be.
static int read_as_other_user(const char *parent, const char *name)
{
    kiln_env env = plain_env();
    kiln_store *store = NULL;
    kiln_blob blob = {NULL, 0};
    kiln_store_stat stat;
    bool is_root = geteuid() == 0;
    if (chdir(parent) != 0 || (is_root && (setgid(65534) != 0 || setuid(65534) != 0))) {
        return 1;
    }
    if (access(name, W_OK) == 0 || kiln_store_open(&env, name, &store, NULL) != KILN_STATUS_OK) {
        return 2;
    }
    if (kiln_store_get(store, KILN_STORE_PLANS, key_of(7), &blob, NULL) != KILN_STATUS_OK ||
        blob.length != 3000) {
        return 3;
    }
    kiln_free(&env, blob.data);
    if (kiln_store_stat_get(store, &stat, NULL) != KILN_STATUS_OK ||
        stat.entries[KILN_STORE_PLANS] != 1) {
        return 4;
    }
    bool refused = put(store, KILN_STORE_PLANS, 8, 10) == KILN_STATUS_UNAVAILABLE &&
                   kiln_store_clear(store, NULL) == KILN_STATUS_UNAVAILABLE;
    kiln_store_close(store);
    return refused ? 0 : 5;
}

/// A folder of an image or of another user is read; nothing is written or set aside.
static void test_read_only(void)
{
    kiln_env env = plain_env();
    static const char name[] = "read %3F#only";
    const char *parent = kiln_test_tmpdir();
    const char *folder = kiln_test_path(parent, name);
    kiln_store *store = open_store(&env, folder);
    KILN_CHECK_INT(put(store, KILN_STORE_PLANS, 7, 3000), KILN_STATUS_OK);
    kiln_store_close(store);
    KILN_CHECK_INT(chmod(kiln_test_path(folder, "kiln.db"), 0444), 0);
    KILN_CHECK_INT(chmod(folder, 0555), 0);
    KILN_CHECK_INT(chmod(parent, 0711), 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(read_as_other_user(parent, name));
    }
    int status = 0;
    KILN_CHECK_INT(waitpid(child, &status, 0), child);
    KILN_CHECK(WIFEXITED(status));
    KILN_CHECK_INT(WEXITSTATUS(status), 0);
    KILN_CHECK_INT(chmod(folder, 0755), 0);
    KILN_CHECK_INT(access(kiln_test_path(folder, "kiln.db.damaged"), F_OK), -1);
}

// ---- damage ----

static void sql(const char *folder, const char *text)
{
    sqlite3 *database = NULL;
    KILN_CHECK_INT(sqlite3_open(kiln_test_path(folder, "kiln.db"), &database), SQLITE_OK);
    sqlite3_busy_timeout(database, 2000);
    KILN_CHECK_INT(sqlite3_exec(database, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(database);
}

static void test_damaged_entry(void)
{
    static const char *const harms[] = {
        "UPDATE entry SET value=zeroblob(length(value))",
        "UPDATE entry SET checksum=checksum+1",
        "UPDATE entry SET value=substr(value, 1, 10)",
        "UPDATE entry SET value=x''",
        "UPDATE entry SET kind=1",
    };
    kiln_env env = plain_env();
    for (size_t i = 0; i < sizeof(harms) / sizeof(harms[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "entry%zu", i);
        const char *parent = kiln_test_tmpdir();
        const char *folder = kiln_test_path(parent, name);
        kiln_store *store = open_store(&env, folder);
        KILN_CHECK_INT(put(store, KILN_STORE_PROGRAMS, 1, 5000), 0);
        sql(folder, harms[i]);
        for (int table = 0; table < 2; table++) {
            KILN_CHECK_INT(get(&env, store, (kiln_store_table)table, 1, 5000),
                           KILN_STATUS_NOT_FOUND);
        }
        kiln_store_stat stat;
        KILN_CHECK_INT(kiln_store_stat_get(store, &stat, NULL), 0);
        KILN_CHECK_INT(stat.entries[0] + stat.entries[1], 0);
        KILN_CHECK_INT(put(store, KILN_STORE_PROGRAMS, 1, 5000), 0);
        KILN_CHECK_INT(get(&env, store, KILN_STORE_PROGRAMS, 1, 5000), 0);
        kiln_store_close(store);
    }
}

static void overwrite(const char *path, long offset, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "r+b");
    if (KILN_CHECK(file != NULL)) {
        fseek(file, offset, SEEK_SET);
        fwrite(bytes, 1, count, file);
        fclose(file);
    }
}

static void fill_file(const kiln_env *env, const char *folder)
{
    kiln_store *store = open_store(env, folder);
    for (uint64_t i = 0; i < 100; i++) {
        KILN_CHECK_INT(put(store, KILN_STORE_PROGRAMS, i, 3000), 0);
    }
    kiln_store_close(store);
}

/// Every 8 KiB page is overwritten in turn; whatever is met, the store goes on working.
static void test_damaged_file(void)
{
    kiln_env env = plain_env();
    unsigned char junk[8192];
    memset(junk, 0xa5, sizeof(junk));
    for (long page = 0; page < 12; page++) {
        char name[32];
        snprintf(name, sizeof(name), "page%ld", page);
        const char *parent = kiln_test_tmpdir();
        const char *folder = kiln_test_path(parent, name);
        fill_file(&env, folder);
        overwrite(kiln_test_path(folder, "kiln.db"), page * 8192, junk, sizeof(junk));
        kiln_store *store = open_store(&env, folder);
        for (uint64_t i = 0; i < 100; i++) {
            kiln_status status = get(&env, store, KILN_STORE_PROGRAMS, i, 3000);
            KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_NOT_FOUND);
            KILN_CHECK_INT(put(store, KILN_STORE_PROGRAMS, i, 3000), 0);
            KILN_CHECK_INT(get(&env, store, KILN_STORE_PROGRAMS, i, 3000), 0);
        }
        kiln_store_close(store);
        if (page == 0) {
            KILN_CHECK(access(kiln_test_path(folder, "kiln.db.damaged"), F_OK) == 0);
        }
    }
}

static void test_truncated_and_foreign(void)
{
    kiln_env env = plain_env();
    const char *folder = new_folder("truncated");
    fill_file(&env, folder);
    KILN_CHECK_INT(truncate(kiln_test_path(folder, "kiln.db"), 20000), 0);
    kiln_store *store = open_store(&env, folder);
    KILN_CHECK_INT(put(store, KILN_STORE_PLANS, 1, 10), 0);
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PLANS, 1, 10), 0);
    kiln_store_close(store);
    kiln_test_write_file(kiln_test_path(folder, "kiln.db"), "no database, long enough text", 29);
    store = open_store(&env, folder);
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PLANS, 1, 10), KILN_STATUS_NOT_FOUND);
    kiln_store_close(store);
    sql(folder, "PRAGMA user_version=77; INSERT INTO entry VALUES(1, 1, x'00', 1, 1, x'00')");
    store = open_store(&env, folder); // another cache format: begun anew
    kiln_store_stat stat;
    KILN_CHECK_INT(kiln_store_stat_get(store, &stat, NULL), 0);
    KILN_CHECK_INT(stat.entries[1], 0);
    kiln_store_close(store);
}

/// The damaged file that we hold open is no longer the one at the path: the new one stays as it is.
static void test_damaged_and_replaced(void)
{
    kiln_env env = plain_env();
    const char *folder = new_folder("replaced");
    const char *path = kiln_test_path(folder, "kiln.db");
    unsigned char junk[8192];
    memset(junk, 0xa5, sizeof(junk));
    fill_file(&env, folder);
    kiln_store *old = open_store(&env, folder);
    for (long page = 1; page < 40; page++) {
        overwrite(path, page * 8192, junk, sizeof(junk));
    }
    KILN_CHECK_INT(rename(path, kiln_test_path(folder, "elsewhere")), 0);
    unlink(kiln_test_path(folder, "kiln.db-wal"));
    unlink(kiln_test_path(folder, "kiln.db-shm"));
    kiln_store *other = open_store(&env, folder);
    KILN_CHECK_INT(put(other, KILN_STORE_PLANS, 5, 100), 0);
    KILN_CHECK_INT(get(&env, old, KILN_STORE_PROGRAMS, 5, 3000), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(get(&env, old, KILN_STORE_PLANS, 5, 100), KILN_STATUS_OK);
    KILN_CHECK(access(kiln_test_path(folder, "kiln.db.damaged"), F_OK) != 0);
    kiln_store_close(other);
    kiln_store_close(old);
}

// ---- limit ----

static kiln_env env_with_limit(const char *limit)
{
    kiln_env env = plain_env();
    KILN_CHECK_INT(kiln_config_create(&env.allocator, NULL, false, &env.config, NULL), 0);
    KILN_CHECK_INT(kiln_config_set(env.config, "cache-limit", limit, KILN_ORIGIN_FLAG, NULL), 0);
    return env;
}

static void test_limit(void)
{
    kiln_env env = env_with_limit("1M");
    const char *folder = new_folder("limit");
    kiln_store *store = open_store(&env, folder);
    for (uint64_t i = 0; i < 200; i++) {
        KILN_CHECK_INT(put(store, (kiln_store_table)(i % 2), i, 20000), 0);
        KILN_CHECK_INT(get(&env, store, (kiln_store_table)(i % 2), i, 20000), 0);
    }
    kiln_store_stat stat;
    KILN_CHECK_INT(kiln_store_stat_get(store, &stat, NULL), 0);
    uint64_t bytes = stat.bytes[0] + stat.bytes[1];
    KILN_CHECK(bytes <= 1 << 20 && bytes > 700000);
    KILN_CHECK_INT(get(&env, store, 0, 0, 20000), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(put(store, 0, 7, (1 << 20) + 1), KILN_STATUS_RESOURCE_EXHAUSTED);
    kiln_store_close(store);
    kiln_config_destroy(env.config);
}

static void test_least_recently_used(void)
{
    kiln_env env = env_with_limit("256K");
    const char *folder = new_folder("lru");
    kiln_store *store = open_store(&env, folder);
    for (uint64_t i = 0; i < 10; i++) {
        KILN_CHECK_INT(put(store, KILN_STORE_PROGRAMS, i, 16000), 0);
    }
    sql(folder, "UPDATE entry SET used = used - 7200 - id"); // the last id is the oldest
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PROGRAMS, 9, 16000),
                   0); // used again: now the youngest
    for (uint64_t i = 10; i < 20; i++) {
        KILN_CHECK_INT(put(store, KILN_STORE_PROGRAMS, i, 16000), 0);
    }
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PROGRAMS, 9, 16000), 0);
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PROGRAMS, 8, 16000), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PROGRAMS, 19, 16000), 0);
    kiln_store_close(store);
    kiln_config_destroy(env.config);
}

static int64_t change_counter(const char *folder)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    sqlite3_open(kiln_test_path(folder, "kiln.db"), &database);
    sqlite3_prepare_v2(database, "SELECT sum(used) FROM entry", -1, &statement, NULL);
    sqlite3_step(statement);
    int64_t sum = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return sum;
}

static void test_hits_do_not_write(void)
{
    kiln_env env = plain_env();
    const char *folder = new_folder("hits");
    kiln_store *store = open_store(&env, folder);
    KILN_CHECK_INT(put(store, KILN_STORE_PLANS, 1, 100), 0);
    sql(folder, "UPDATE entry SET used = used - 600");
    int64_t before = change_counter(folder);
    for (int i = 0; i < 100; i++) {
        KILN_CHECK_INT(get(&env, store, KILN_STORE_PLANS, 1, 100), 0);
    }
    KILN_CHECK_INT(change_counter(folder), before);
    sql(folder, "UPDATE entry SET used = used - 7200");
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PLANS, 1, 100), 0);
    KILN_CHECK(change_counter(folder) >= before + 600);
    kiln_store_close(store);
}

// ---- several users at once ----

enum { PROCESSES = 4, ROUNDS = 60 };

/// Reads and writes keys that all share; every value read must be whole. Exit status 0 when so.
static int work_in_process(const char *folder, uint64_t seed)
{
    kiln_env env = plain_env();
    kiln_store *store = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_store_open(&env, folder, &store, &err) != KILN_STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t number = (i * 7 + seed * 3) % 20;
        kiln_blob blob = {NULL, 0};
        unsigned char *bytes = value_of(number, 4000);
        kiln_hash128 key = key_of(number);
        if (kiln_store_put(store, KILN_STORE_PROGRAMS, key, bytes, 4000, NULL) != 0) {
            return 3;
        }
        kiln_status status = kiln_store_get(store, KILN_STORE_PROGRAMS, key, &blob, NULL);
        if (status != 0 || blob.length != 4000 || memcmp(blob.data, bytes, 4000) != 0) {
            return 4;
        }
        kiln_free(&env, blob.data);
        free(bytes);
    }
    kiln_store_close(store);
    return 0;
}

/// Starts processes on one folder; the first thing they do at once is to create or repair the file.
static void run_processes(const char *folder)
{
    pid_t children[PROCESSES];
    for (uint64_t i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            _exit(work_in_process(folder, i));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        KILN_CHECK_INT(waitpid(children[i], &status, 0), children[i]);
        KILN_CHECK(WIFEXITED(status));
        KILN_CHECK_INT(WEXITSTATUS(status), 0);
    }
}

static void test_processes(void)
{
    kiln_env env = plain_env();
    const char *folder = new_folder("processes");
    run_processes(folder); // none of them finds a file
    kiln_store *store = open_store(&env, folder);
    kiln_store_stat stat;
    KILN_CHECK_INT(kiln_store_stat_get(store, &stat, NULL), 0);
    KILN_CHECK_INT(stat.entries[KILN_STORE_PROGRAMS], 20);
    kiln_store_close(store);
    const char *path = kiln_test_path(folder, "kiln.db");
    overwrite(path, 0, "damaged header, whoever comes first", 35);
    run_processes(folder); // all of them find a damaged one
}

typedef struct thread_work {
    kiln_store *store;
    uint64_t seed;
    int failures;
} thread_work;

static void *work_in_thread(void *user)
{
    thread_work *work = user;
    kiln_env env = plain_env();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t number = (i + work->seed) % 10;
        kiln_blob blob = {NULL, 0};
        unsigned char *bytes = value_of(number, 900);
        work->failures += kiln_store_put(work->store, KILN_STORE_PLANS, key_of(number), bytes, 900,
                                         NULL) != KILN_STATUS_OK;
        work->failures += kiln_store_get(work->store, KILN_STORE_PLANS, key_of(number), &blob,
                                         NULL) != KILN_STATUS_OK ||
                          memcmp(blob.data, bytes, 900) != 0;
        kiln_free(&env, blob.data);
        free(bytes);
    }
    return NULL;
}

static void test_threads(void)
{
    kiln_env env = plain_env();
    kiln_store *store = open_store(&env, new_folder("threads"));
    pthread_t threads[4];
    thread_work works[4];
    for (uint64_t i = 0; i < 4; i++) {
        works[i] = (thread_work){.store = store, .seed = i, .failures = 0};
        pthread_create(&threads[i], NULL, work_in_thread, &works[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK_INT(works[i].failures, 0);
    }
    kiln_store_close(store);
}

/// A process that hangs with the lock of the store's file costs a wait, not the program.
static void test_held_lock(void)
{
    kiln_env env = plain_env();
    const char *folder = new_folder("held");
    KILN_CHECK_INT(mkdir(folder, 0700), 0);
    uint64_t start = kiln_time_ns();
    int file = kilni_base_lock_open(NULL, "base", kiln_test_path(folder, "kiln.db.lock"), 0);
    KILN_CHECK(file >= 0);
    kiln_store *store = open_store(&env, folder);
    KILN_CHECK(kiln_time_ns() - start < UINT64_C(30000000000));
    KILN_CHECK_INT(put(store, KILN_STORE_PLANS, 1, 10), KILN_STATUS_OK);
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PLANS, 1, 10), KILN_STATUS_OK);
    kiln_store_close(store);
    close(file);
}

// ---- file systems without locks ----

static atomic_bool no_locks;

/// In place of the C library's.
int flock(int file, int operation)
{
    if (atomic_load(&no_locks)) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_flock, file, operation);
}

typedef struct peer {
    const char *folder;
    char said[400];
} peer;

/// Another process that saw the old version too makes the schema just before we begin.
static int be_first(unsigned event, void *user, void *statement, void *text)
{
    peer *p = user;
    (void)event;
    (void)statement;
    if (p->folder != NULL && strstr(text, "BEGIN IMMEDIATE") != NULL) {
        const char *folder = p->folder;
        p->folder = NULL;
        kiln_env env = plain_env();
        kiln_store *store = open_store(&env, folder);
        KILN_CHECK_INT(put(store, KILN_STORE_PLANS, 1, 10), KILN_STATUS_OK);
        kiln_store_close(store);
    }
    return 0;
}

static peer the_peer;

static int watch(sqlite3 *database, const char **out_error, const void *api)
{
    (void)out_error;
    (void)api;
    return the_peer.folder == NULL
               ? SQLITE_OK
               : sqlite3_trace_v2(database, SQLITE_TRACE_STMT, be_first, &the_peer);
}

static void hear(const kiln_log_record *record, void *user)
{
    peer *p = user;
    snprintf(p->said, sizeof(p->said), "%s", record->message);
}

/// Without locks two processes see an old version: the second keeps what the first has made.
static void check_two_makers(const char *folder)
{
    the_peer = (peer){.folder = folder};
    kiln_env env = plain_env();
    env.log = hear;
    env.log_user = &the_peer;
    atomic_store(&no_locks, true);
    KILN_CHECK_INT(sqlite3_auto_extension((void (*)(void))watch), SQLITE_OK);
    kiln_store *store = open_store(&env, folder);
    atomic_store(&no_locks, false);
    KILN_CHECK(the_peer.folder == NULL);
    KILN_CHECK_CONTAINS(the_peer.said, "cannot be locked (No locks available)");
    KILN_CHECK_INT(get(&env, store, KILN_STORE_PLANS, 1, 10), KILN_STATUS_OK);
    kiln_store_close(store);
    sqlite3_reset_auto_extension();
}

static void test_no_locks(void)
{
    kiln_env env = plain_env();
    const char *folder = new_folder("nolocks");
    check_two_makers(folder); // no file
    fill_file(&env, folder);
    sql(folder, "PRAGMA user_version=77");
    check_two_makers(folder); // one of another format
}

static void test_no_memory(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    const char *folder = new_folder("memory");
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_store *store = NULL;
        kiln_status status = kiln_store_open(&env, folder, &store, NULL);
        if (status == KILN_STATUS_OK) {
            kiln_blob blob;
            KILN_CHECK_INT(put(store, KILN_STORE_PLANS, 1, 50), 0);
            status = kiln_store_get(store, KILN_STORE_PLANS, key_of(1), &blob, NULL);
            kiln_free(&env, blob.data);
        }
        bool failed = atomic_load(&faults.requests) >= k;
        KILN_CHECK_INT(status, failed ? KILN_STATUS_RESOURCE_EXHAUSTED : KILN_STATUS_OK);
        kiln_store_close(store);
    }
}

KILN_TEST_MAIN("unit/base/store", KILN_TEST(test_put_get), KILN_TEST(test_clear),
               KILN_TEST(test_cannot_open), KILN_TEST(test_read_only),
               KILN_TEST(test_damaged_entry), KILN_TEST(test_damaged_file),
               KILN_TEST(test_truncated_and_foreign), KILN_TEST(test_damaged_and_replaced),
               KILN_TEST(test_limit), KILN_TEST(test_least_recently_used),
               KILN_TEST(test_hits_do_not_write), KILN_TEST(test_processes),
               KILN_TEST(test_threads), KILN_TEST(test_held_lock), KILN_TEST(test_no_locks),
               KILN_TEST(test_no_memory))
