// SPDX-License-Identifier: MIT OR Apache-2.0
// What a plugin gets from the host: diagnostics that reach the call in progress, accounted memory,
// and texts made safe.
#include <string.h>

#include "fuse_fixture.h"
#include "kf_util.h"

static void report(const kf_host *host, const char *text, size_t length)
{
    kf_diag diag = {.struct_size = (uint32_t)sizeof(diag),
                    .severity = KF_SEVERITY_INFO,
                    .code = KF_CODE_SHAPE,
                    .op_index = 3,
                    .message = {text, length}};
    host->report(host, &diag);
}

static void test_diagnostics_reach_the_call(void)
{
    fuse_fixture f;
    kilni_fuse_host host;
    kilni_fuse_diag diag = {0};
    fixture_prepare(&f);
    kilni_fuse_host_init(&host, &f.env, "test");
    report(&host.abi, "nobody listens", 14);
    KILN_CHECK_STR(diag.text, "");
    kilni_fuse_host_listen(&host, &diag);
    report(&host.abi, "first", 5);
    report(&host.abi, "two\nlines\x7f", 10);
    KILN_CHECK_STR(diag.text, "two lines ");
    KILN_CHECK_INT(diag.code, KF_CODE_SHAPE);
    KILN_CHECK_INT(diag.op_index, 3);
    report(&host.abi, "caf\xE9", 4);
    KILN_CHECK_STR(diag.text, "(text is not UTF-8)");
    char text[400];
    for (size_t i = 0; i < sizeof(text); i += 2) {
        memcpy(text + i, "\xC3\xA9", 2);
    }
    report(&host.abi, text, sizeof(text));
    KILN_CHECK_INT(strlen(diag.text), 158); // whole characters only
    kf_diag small = {.struct_size = 8};
    host.abi.report(&host.abi, &small); // too small to have a message
    KILN_CHECK_INT(strlen(diag.text), 158);
    kilni_fuse_host_listen(&host, NULL);
    report(&host.abi, "late", 4);
    KILN_CHECK_INT(strlen(diag.text), 158);
    kilni_fuse_host_fini(&host);
}

static void test_memory_is_accounted(void)
{
    fuse_fixture f;
    kilni_fuse_host host;
    fixture_prepare(&f);
    kilni_fuse_host_init(&host, &f.env, "test");
    for (uint64_t align = 1; align <= 4096; align *= 2) {
        char *p = host.abi.alloc(&host.abi, 100, align);
        KILN_CHECK(p != NULL && (uintptr_t)p % align == 0);
        memset(p, 1, 100);
        KILN_CHECK_INT(host.bytes_live, 100);
        host.abi.free(&host.abi, p);
        KILN_CHECK_INT(host.bytes_live, 0);
    }
    KILN_CHECK(host.abi.alloc(&host.abi, 100, 3) == NULL);
    KILN_CHECK(host.abi.alloc(&host.abi, 100, 8192) == NULL);
    KILN_CHECK(host.abi.alloc(&host.abi, UINT64_MAX, 8) == NULL);
    host.abi.free(&host.abi, NULL);
    KILN_CHECK_INT(host.abi.cancelled(&host.abi), 0);
    KILN_CHECK(host.abi.extension(&host.abi, "kiln.unknown/1") == NULL);
    kilni_fuse_host_fini(&host);
    KILN_CHECK_INT(f.live, 0);
}

/// What a plugin keeps is its own: another plugin finds nothing under the same key.
static void test_a_plugin_has_a_place_in_the_cache(void)
{
    fuse_fixture f;
    kilni_fuse_host host, other;
    kiln_store *store = NULL;
    fixture_prepare(&f);
    KILN_CHECK_INT(kiln_config_create(&f.env.allocator, NULL, false, &f.env.config, NULL), 0);
    KILN_CHECK_INT(kiln_store_open(&f.env, kiln_test_path(kiln_test_tmpdir(), "own"), &store, NULL),
                   KILN_STATUS_OK);
    kilni_fuse_host_init(&host, &f.env, "test");
    KILN_CHECK(kf_store_of(&host.abi) == NULL); // this host has no cache
    kilni_fuse_host_init(&other, &f.env, "test.other");
    host.store = other.store = store;
    other.store_key.low = 1;
    const kf_store *own = kf_store_of(&host.abi);
    if (KILN_CHECK(own != NULL)) {
        const kf_blob key = {"key", 3}, value = {"0123456789", 10};
        char big[KF_STORE_MAX_VALUE + 1] = {0}, found[16] = "";
        uint64_t length = 7;
        KILN_CHECK_INT(own->get(&host.abi, key, found, sizeof(found), &length), KF_DECLINED);
        KILN_CHECK_INT(own->put(&host.abi, key, value), KF_OK);
        KILN_CHECK_INT(own->get(&host.abi, key, found, 4, &length), KF_OK);
        KILN_CHECK_INT(length, 10);
        KILN_CHECK_STR(found, "0123");
        KILN_CHECK_INT(own->get(&host.abi, key, NULL, 0, &length), KF_OK);
        KILN_CHECK_INT(own->get(&other.abi, key, found, sizeof(found), &length), KF_DECLINED);
        KILN_CHECK_INT(own->put(&host.abi, key, (kf_blob){NULL, 0}), KF_OK);
        KILN_CHECK_INT(own->get(&host.abi, key, found, sizeof(found), &length), KF_OK);
        KILN_CHECK_INT(length, 0);
        KILN_CHECK_INT(own->put(&host.abi, key, (kf_blob){big, sizeof(big)}), KF_E_INVALID);
        KILN_CHECK_INT(own->put(&host.abi, key, (kf_blob){NULL, 3}), KF_E_INVALID);
        KILN_CHECK_INT(own->put(&host.abi, (kf_blob){big, 0}, value), KF_E_INVALID);
        KILN_CHECK_INT(own->put(&host.abi, (kf_blob){big, KF_STORE_MAX_KEY + 1}, value),
                       KF_E_INVALID);
        KILN_CHECK_INT(own->get(&host.abi, (kf_blob){NULL, 3}, found, 4, &length), KF_E_INVALID);
    }
    kilni_fuse_host_fini(&host);
    kilni_fuse_host_fini(&other);
    kiln_store_close(store);
    kiln_config_destroy(f.env.config);
    f.env.config = NULL;
    KILN_CHECK_INT(f.live, 0);
}

static void test_utf8(void)
{
    static const char *const good[] = {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x94\xA5"};
    static const char *const bad[] = {"\x80",         "\xC3",         "\xC0\xAF",
                                      "\xE2\x82",     "\xE0\x80\xAF", "\xED\xA0\x80",
                                      "\xF5\x80\x80", "\xFF",         "\xF4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        KILN_CHECK(kilni_fuse_utf8_ok(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        KILN_CHECK(!kilni_fuse_utf8_ok(bad[i], strlen(bad[i])));
    }
    KILN_CHECK(!kilni_fuse_text_ok((kf_str){NULL, 3}, 10));
    KILN_CHECK(!kilni_fuse_text_ok((kf_str){"abc", 3}, 2));
    KILN_CHECK(!kilni_fuse_text_ok((kf_str){"a\nb", 3}, 10));
    KILN_CHECK(kilni_fuse_text_ok((kf_str){NULL, 0}, 10));
}

KILN_TEST_MAIN("unit/fusion_host/host_services", KILN_TEST(test_diagnostics_reach_the_call),
               KILN_TEST(test_memory_is_accounted),
               KILN_TEST(test_a_plugin_has_a_place_in_the_cache), KILN_TEST(test_utf8))
