// SPDX-License-Identifier: MIT OR Apache-2.0
// The store of a build without KILN_STORE, which has no SQLite: it cannot be opened, and says so.
// Callers treat that as an empty cache.
#include "base.h"

kiln_status kiln_store_open(const kiln_env *env, const char *folder, kiln_store **out_store,
                            kiln_error *err)
{
    (void)env;
    (void)folder;
    *out_store = NULL;
    return kiln_fail(err, UNIMPLEMENTED, "this build has no store (KILN_STORE)");
}

void kiln_store_close(kiln_store *store)
{
    (void)store;
}

kiln_status kiln_store_get(kiln_store *store, kiln_store_table table, kiln_hash128 key,
                           kiln_blob *out_value, kiln_error *err)
{
    (void)store;
    (void)table;
    (void)key;
    *out_value = (kiln_blob){.data = NULL, .length = 0};
    return kiln_fail(err, UNIMPLEMENTED, "this build has no store (KILN_STORE)");
}

kiln_status kiln_store_put(kiln_store *store, kiln_store_table table, kiln_hash128 key,
                           const void *value, size_t length, kiln_error *err)
{
    (void)store;
    (void)table;
    (void)key;
    (void)value;
    (void)length;
    return kiln_fail(err, UNIMPLEMENTED, "this build has no store (KILN_STORE)");
}

kiln_status kiln_store_stat_get(kiln_store *store, kiln_store_stat *out_stat, kiln_error *err)
{
    (void)store;
    *out_stat = (kiln_store_stat){0};
    return kiln_fail(err, UNIMPLEMENTED, "this build has no store (KILN_STORE)");
}

kiln_status kiln_store_clear(kiln_store *store, kiln_error *err)
{
    (void)store;
    return kiln_fail(err, UNIMPLEMENTED, "this build has no store (KILN_STORE)");
}
