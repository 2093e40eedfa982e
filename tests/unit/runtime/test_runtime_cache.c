// SPDX-License-Identifier: MIT OR Apache-2.0
// What the cache keeps beside plans and programs, winners of contests, facts of devices, first
// programs of starts, with values that are wrong under a right checksum: cut, longer, empty, of
// zeros, of ones, with bits changed. A process that finds them gives the same results, and its
// choices are made anew.
#include "base.h"
#include "base_store.h"
#include "faults.h"
#include "runtime_fixture.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 96, MOST_ENTRIES = 512, MOST_BYTES = 65536 };

typedef struct entry {
    int kind;
    kiln_hash128 key;
    size_t length;
    unsigned char *value;
} entry;

typedef enum wrong { CUT, LONGER, EMPTY, ZEROS, ONES, BITS, WRONGS } wrong;

static entry entries[MOST_ENTRIES];
static size_t n_entries;
static float numbers[ROWS * COLUMNS];

/// A product, what fuses behind it, and rows: each has contests where the device is tuned.
static bool run_program(fixture *f, float out[ROWS * ROWS])
{
    const int64_t dims[] = {ROWS, COLUMNS};
    kiln_tensor *x = fixture_f32(f, 2, dims, numbers);
    kiln_tensor *product = NULL, *scaled = NULL, *bent = NULL, *rows = NULL;
    bool failed = kiln_matmul(x, x, false, /*transpose_b=*/true, &product, &f->err) ||
                  kiln_mul_scalar(product, kiln_f64(0.125), &scaled, &f->err) ||
                  kiln_tanh(scaled, &bent, &f->err) || kiln_softmax(bent, 1, &rows, &f->err) ||
                  kiln_read(rows, out, sizeof(float) * ROWS * ROWS, &f->err);
    kiln_tensor *made[] = {x, product, scaled, bent, rows};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        kiln_release(made[i]);
    }
    return FIXTURE_OK(f, failed ? (kiln_status)f->err.code : KILN_STATUS_OK);
}

/// A process: context, device, the program twice; false where there is no device.
static bool live(const char *folder, float out[ROWS * ROWS])
{
    fixture f = {.err = KILN_ERROR_INIT};
    if (!FIXTURE_OK(&f, kiln_context_create(NULL, &f.context, &f.err)) ||
        !FIXTURE_OK(&f, kiln_context_set(f.context, "cache-dir", folder, &f.err)) ||
        !FIXTURE_OK(&f, kiln_context_set(f.context, "tune", "full", &f.err))) {
        return false;
    }
    if (kiln_device_open(f.context, kiln_test_address("opencl:0"), &f.device, &f.err) !=
        KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", f.err.message);
        kiln_context_destroy(f.context);
        return false;
    }
    bool done = run_program(&f, out) && run_program(&f, out);
    fixture_close(&f);
    return done;
}

// ---- the cache's file ----

static void read_entries(const char *folder)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    KILN_CHECK_INT(sqlite3_open(kiln_test_path(folder, "kiln.db"), &database), SQLITE_OK);
    KILN_CHECK_INT(sqlite3_prepare_v2(database, "SELECT kind, key, value FROM entry WHERE kind>?1",
                                      -1, &statement, NULL),
                   SQLITE_OK);
    sqlite3_bind_int(statement, 1, KILN_STORE_PLANS);
    while (sqlite3_step(statement) == SQLITE_ROW && n_entries < MOST_ENTRIES) {
        entry *e = &entries[n_entries++];
        e->kind = sqlite3_column_int(statement, 0);
        memcpy(&e->key, sqlite3_column_blob(statement, 1), sizeof(e->key));
        e->length = (size_t)sqlite3_column_bytes(statement, 2);
        e->value = calloc(1, e->length + MOST_BYTES);
        memcpy(e->value, sqlite3_column_blob(statement, 2), e->length);
    }
    sqlite3_finalize(statement);
    sqlite3_close(database);
}

static size_t spoil(const entry *e, wrong how, unsigned char *out)
{
    memcpy(out, e->value, e->length + 1);
    for (size_t i = 0; i < e->length; i++) {
        out[i] = how == ZEROS ? 0 : how == ONES ? 0xff : out[i];
        out[i] ^= how == BITS ? (unsigned char)(1u << (i * 5 % 8)) : 0;
    }
    return how == CUT      ? e->length / 2
           : how == LONGER ? e->length + 1
           : how == EMPTY  ? 0
                           : e->length;
}

static size_t spoil_entries(const char *folder, kiln_store_table table, wrong how)
{
    static unsigned char value[2 * MOST_BYTES];
    kiln_env env = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_store *store = NULL;
    size_t count = 0;
    kiln_faults counted;
    kiln_faults_init(&counted);
    env.allocator = counted.allocator;
    KILN_CHECK_INT(
        kiln_config_create(&env.allocator, NULL, /*use_environment=*/false, &env.config, &err),
        KILN_STATUS_OK);
    if (!KILN_CHECK_INT(kiln_store_open(&env, folder, &store, &err), KILN_STATUS_OK)) {
        return 0;
    }
    for (size_t i = 0; i < n_entries; i++) {
        if (entries[i].kind == (int)table && entries[i].length < MOST_BYTES) {
            size_t length = spoil(&entries[i], how, value);
            KILN_CHECK_INT(kiln_store_put(store, table, entries[i].key, value, length, &err),
                           KILN_STATUS_OK);
            count++;
        }
    }
    kiln_store_close(store);
    kiln_config_destroy(env.config);
    return count;
}

// ---- the cases ----

static void test_wrong_values(void)
{
    static const kiln_store_table tables[] = {KILN_STORE_WINNERS, KILN_STORE_DEVICES,
                                              KILN_STORE_STARTS};
    static float first[ROWS * ROWS], again[ROWS * ROWS];
    const char *folder = kiln_test_tmpdir();
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        numbers[i] = sinf((float)i);
    }
    if (!live(folder, first)) {
        return;
    }
    read_entries(folder);
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (wrong how = 0; how < WRONGS; how++) {
            KILN_CHECK(spoil_entries(folder, tables[t], how) > 0);
            if (!KILN_CHECK(live(folder, again))) {
                return;
            }
            for (size_t i = 0; i < ROWS * ROWS; i++) {
                if (!(fabsf(again[i] - first[i]) <= 1e-6f)) {
                    KILN_FAIL("table %d, way %d: %g is not %g", (int)tables[t], (int)how, again[i],
                              first[i]);
                    return;
                }
            }
        }
    }
}

KILN_TEST_MAIN("unit/runtime/cache", KILN_TEST(test_wrong_values))
