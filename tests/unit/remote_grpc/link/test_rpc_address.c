// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses: canonical forms, the process's registry of them, numbers of devices; and the numbers
// of transfers.

#include "harness.h"
#include "remote_grpc.h"
#include "rpc_address.h"
#include "rpc_identity.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t id_of(const char *address)
{
    kiln_error err = KILN_ERROR_INIT;
    uint32_t id = UINT32_MAX;
    KILN_CHECK_INT(kiln_rpc_address_id(address, &id, &err), KILN_STATUS_OK);
    return id;
}

static void test_canonical(void)
{
    static const char *const cases[][2] = {
        {"grpc://Example.ORG", "grpc://example.org:3000/0"},
        {"grpc://example.org:3000/", "grpc://example.org:3000/0"},
        {"grpcs://example.org/12", "grpcs://example.org:3000/12"},
        {"grpc://[::1]:0080", "grpc://[::1]:80/0"},
        {"grpc://[0:0:0:0:0:0:0:1]:80/0", "grpc://[::1]:80/0"},
        {"grpc://[2001:DB8:0::1]", "grpc://[2001:db8::1]:3000/0"},
        {"grpc://127.0.0.1:1", "grpc://127.0.0.1:1/0"},
        {"unix:/tmp/a", "unix:/tmp/a#0"},
        {"unix:relative#3", "unix:relative#3"},
    };
    kiln_error err = KILN_ERROR_INIT;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kilni_rpc_address parsed;
        kilni_rpc_address again;
        if (KILN_CHECK_INT(kilni_rpc_address_parse(cases[i][0], &parsed, &err), KILN_STATUS_OK)) {
            KILN_CHECK_STR(parsed.text, cases[i][1]);
            KILN_CHECK_INT(kilni_rpc_address_parse(parsed.text, &again, &err), KILN_STATUS_OK);
            KILN_CHECK_STR(again.text, parsed.text);
        }
    }
}

static void test_malformed(void)
{
    static const char *const cases[] = {
        "",
        "grpc://",
        "grpc://:80",
        "grpc://host:",
        "grpc://host:0",
        "grpc://host:65536",
        "grpc://host:99999999999999999999",
        "grpc://host:8x",
        "grpc://host/x",
        "grpc://host/-1",
        "grpc://host/65536",
        "grpc://host/1/2",
        "grpc://[::1",
        "grpc://[::g]:1",
        "grpc://[::1]x",
        "grpc://ho st",
        "grpc://user@host",
        "http://host",
        "grpcx://host",
        "unix:",
        "unix:#1",
        "unix:/tmp/a#x",
    };
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_address parsed;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t id = 0;
        KILN_CHECK_INT(kilni_rpc_address_parse(cases[i], &parsed, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_rpc_address_id(cases[i], &id, &err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(id, UINT32_MAX);
    }
    char *longest = calloc(1, 1000);
    memset(longest, 'a', 999);
    memcpy(longest, "grpc://", 7);
    KILN_CHECK_INT(kilni_rpc_address_parse(longest, &parsed, &err), KILN_STATUS_INVALID_ARGUMENT);
    memcpy(longest, "unix:aa", 7);
    KILN_CHECK_INT(kilni_rpc_address_parse(longest, &parsed, &err), KILN_STATUS_INVALID_ARGUMENT);
    free(longest);
    KILN_CHECK_INT(kilni_rpc_address_parse(NULL, &parsed, &err), KILN_STATUS_INVALID_ARGUMENT);
}

static void test_several_servers(void)
{
    kiln_error err = KILN_ERROR_INIT;
    static kilni_rpc_addresses list; // large
    char many[256] = "grpc://a";
    KILN_CHECK_INT(kilni_rpc_addresses_parse("grpcs://B:9,[0::1],c/2", &list, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_STR(list.text, "grpcs://b:9,[::1]:3000,c:3000/2");
    KILN_CHECK_INT(list.count, 3);
    KILN_CHECK_STR(list.each[1].text, "grpcs://[::1]:3000/2");
    KILN_CHECK_INT(kilni_rpc_addresses_parse("grpc://Host", &list, &err), KILN_STATUS_OK);
    KILN_CHECK(list.count == 1 && strcmp(list.text, "grpc://host:3000/0") == 0);
    KILN_CHECK_INT(kilni_rpc_addresses_parse("unix:/a://,b", &list, &err), KILN_STATUS_OK);
    KILN_CHECK(list.count == 1 && strcmp(list.each[0].host, "/a://,b") == 0);
    KILN_CHECK_INT(id_of("grpc://a,B"), id_of("grpc://a:3000,b/0"));
    KILN_CHECK(id_of("grpc://a,b") != id_of("grpc://b,a"));
    static const char *const wrong[] = {"grpc://a,",    "grpc://,a",    "grpc://a,,b",
                                        "grpc://a/1,b", "grpc://a,b:x", "http://a,b"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        KILN_CHECK_INT(kilni_rpc_addresses_parse(wrong[i], &list, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
    }
    size_t length = strlen(many);
    for (size_t i = 1; i < KILNI_RPC_SERVERS; i++) {
        length += (size_t)snprintf(many + length, sizeof(many) - length, ",a");
    }
    KILN_CHECK_INT(kilni_rpc_addresses_parse(many, &list, &err), KILN_STATUS_OK);
    snprintf(many + length, sizeof(many) - length, ",a");
    KILN_CHECK_INT(kilni_rpc_addresses_parse(many, &list, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "more than 16 servers");
}

/// It is what an option says, and nobody can parse it; but it has a number.
static void test_default_has_a_number(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_address parsed;
    uint64_t device = 0;
    const char *address = NULL;
    KILN_CHECK_INT(kilni_rpc_address_parse("grpc:", &parsed, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(id_of("grpc:"), id_of("grpc"));
    KILN_CHECK(id_of("grpc:") != id_of("grpc://127.0.0.1:3000"));
    KILN_CHECK_INT(kiln_rpc_device_id("grpc:", &device, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_rpc_device_address(device, &address, &err), KILN_STATUS_OK);
    KILN_CHECK_STR(address, "grpc:");
}

static void test_equal_and_different(void)
{
    KILN_CHECK_INT(id_of("grpc://Host:3000/0"), id_of("grpc://host"));
    KILN_CHECK_INT(id_of("grpc://[::1]"), id_of("grpc://[0::1]:3000/0"));
    static const char *const others[] = {"grpc://host:3001",  "grpcs://host",  "grpc://host/1",
                                         "grpc://host2",      "grpc://[::1]",  "grpc://[::2]",
                                         "grpc://127.0.0.1",  "unix:host",     "unix:host#1",
                                         "grpc://host.local", "unix:/tmp/Host"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        KILN_CHECK(id_of(others[i]) != id_of("grpc://host"));
        for (size_t k = 0; k < i; k++) {
            KILN_CHECK(id_of(others[i]) != id_of(others[k]));
        }
    }
    KILN_CHECK_STR(kiln_rpc_address_of(id_of("grpcs://HOST/7")), "grpcs://host:3000/7");
    KILN_CHECK(kiln_rpc_address_of(UINT32_MAX) == NULL);
    KILN_CHECK(kiln_rpc_address_of(UINT32_MAX - 1) == NULL);
}

enum { MANY = 70000 };

/// Far above 65536, so that no number is cut.
static void test_many(void)
{
    uint32_t *ids = calloc(MANY, sizeof(*ids));
    char text[64];
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "grpc://h%d.example:%d/%d", i / 7, 1 + i % 65535, i % 7);
        ids[i] = id_of(text);
    }
    bool inverts = true;
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "grpc://h%d.example:%d/%d", i / 7, 1 + i % 65535, i % 7);
        const char *found = kiln_rpc_address_of(ids[i]);
        inverts = inverts && found != NULL && strcmp(found, text) == 0 && id_of(text) == ids[i];
    }
    KILN_CHECK(inverts);
    free(ids);
}

static void test_device_ids(void)
{
    kiln_error err = KILN_ERROR_INIT;
    uint64_t device = 0;
    const char *address = NULL;
    KILN_CHECK_INT(kiln_rpc_device_id("grpcs://round.trip:5/3", &device, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_rpc_device_address(device, &address, &err), KILN_STATUS_OK);
    KILN_CHECK_STR(address, "grpcs://round.trip:5/3");
    uint64_t other_type = (uint64_t)KILN_DEVICE_GPU << 32 | (uint32_t)device;
    KILN_CHECK_INT(kiln_rpc_device_address(other_type, &address, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(address == NULL);
    uint64_t unknown = (uint64_t)KILN_DEVICE_REMOTE << 32 | 4000000000u;
    KILN_CHECK_INT(kiln_rpc_device_address(unknown, &address, &err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(kiln_rpc_device_id("nonsense", &device, &err), KILN_STATUS_INVALID_ARGUMENT);
}

// ---- threads ----

enum { THREADS = 8, ADDRESSES = 2000, TRANSFERS = 100000 / THREADS };

typedef struct drawn {
    uint32_t addresses[ADDRESSES];
    uint64_t transfers[TRANSFERS];
    bool failed;
} drawn;

static void *draw(void *pointer)
{
    drawn *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    char text[64];
    for (int i = 0; i < ADDRESSES; i++) {
        snprintf(text, sizeof(text), "grpc://thread.%d", i);
        self->failed =
            self->failed || kiln_rpc_address_id(text, &self->addresses[i], &err) != KILN_STATUS_OK;
    }
    for (int i = 0; i < TRANSFERS; i++) {
        self->failed = self->failed ||
                       kilni_rpc_transfer_id(&self->transfers[i], &err) != KILN_STATUS_OK ||
                       self->transfers[i] == 0;
    }
    return NULL;
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/// Eight threads see the same numbers for the same addresses, and never the same transfer.
static void test_threads(void)
{
    drawn *all = calloc(THREADS, sizeof(*all));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, draw, &all[i]), 0);
    }
    uint64_t *transfers = calloc((size_t)THREADS * TRANSFERS, sizeof(*transfers));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK(!all[i].failed);
        KILN_CHECK_MEM(all[i].addresses, all[0].addresses, sizeof(all[0].addresses));
        memcpy(transfers + (size_t)i * TRANSFERS, all[i].transfers, sizeof(all[i].transfers));
    }
    qsort(transfers, (size_t)THREADS * TRANSFERS, sizeof(*transfers), by_number);
    size_t repeated = 0;
    for (size_t i = 1; i < (size_t)THREADS * TRANSFERS; i++) {
        repeated += transfers[i] == transfers[i - 1];
    }
    KILN_CHECK_INT(repeated, 0);
    free(transfers);
    free(all);
}

KILN_TEST_MAIN("unit/remote_grpc/address", KILN_TEST(test_canonical), KILN_TEST(test_malformed),
               KILN_TEST(test_several_servers), KILN_TEST(test_default_has_a_number),
               KILN_TEST(test_equal_and_different), KILN_TEST(test_many),
               KILN_TEST(test_device_ids), KILN_TEST(test_threads))
