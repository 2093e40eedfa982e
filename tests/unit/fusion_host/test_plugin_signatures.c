// SPDX-License-Identifier: MIT OR Apache-2.0
// Signed plugins: keys and signatures, those of OpenSSL too, damaged ones, a file that changes
// after it was judged, and the digests underneath.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin_scene.h"

typedef struct signing {
    place p;
    kiln_error err;
    char file[300];
    char signature[310];
    char keys[300];
    char secret[300];
    char other[300];
} signing;

static bool signing_init(signing *s)
{
    *s = (signing){0};
    place_init(&s->p);
    snprintf(s->file, sizeof(s->file), "%s/a.so", s->p.path);
    snprintf(s->signature, sizeof(s->signature), "%s/a.so.sig", s->p.path);
    snprintf(s->keys, sizeof(s->keys), "%s/keys", s->p.path);
    snprintf(s->secret, sizeof(s->secret), "%s/secret.pem", s->p.path);
    snprintf(s->other, sizeof(s->other), "%s/other.pem", s->p.path);
    place_set(&s->p, "plugin-mode", "signed");
    place_set(&s->p, "plugin-keys", s->keys);
    kiln_status status = kiln_fuse_key_create(&s->p.env, s->secret, &s->err);
    if (status == KILN_STATUS_UNIMPLEMENTED) {
        kiln_test_skip("%s", s->err.message);
        place_fini(&s->p);
        return false;
    }
    KILN_CHECK_INT(status, KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_fuse_key_create(&s->p.env, s->other, &s->err), KILN_STATUS_OK);
    return true;
}

/* The file of keys: those of the secrets, NULL ends. */
static void list_keys(signing *s, const char *secret, const char *second)
{
    char text[400] = "# who may\n", hex[65];
    const char *const secrets[] = {secret, second};
    for (size_t i = 0; i < 2 && secrets[i] != NULL; i++) {
        KILN_CHECK_INT(kiln_fuse_key_public(&s->p.env, secrets[i], hex, &s->err), KILN_STATUS_OK);
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%s somebody\n", hex);
    }
    (void)kiln_test_write_file(s->keys, text, strlen(text));
    (void)chmod(s->keys, 0644);
}

static const char unsigned_bytes[] = "its signature is not of these bytes by a key of plugin-keys";

static void test_signatures(void)
{
    signing s;
    struct stat info;
    if (!signing_init(&s)) {
        return;
    }
    KILN_CHECK_INT(stat(s.secret, &info), 0);
    KILN_CHECK_INT(info.st_mode & 0777, 0600);
    KILN_CHECK_INT(kiln_fuse_key_create(&s.p.env, s.secret, &s.err), KILN_STATUS_ALREADY_EXISTS);
    KILN_CHECK_CONTAINS(look(&s.p), "plugin-keys cannot be read: nothing is allowed");
    list_keys(&s, s.secret, NULL);
    KILN_CHECK_CONTAINS(look(&s.p), "it is not signed: there is no FILE.sig beside it");
    KILN_CHECK_INT(kiln_fuse_sign(&s.p.env, s.secret, s.file, &s.err), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(look(&s.p), "taken");
    KILN_CHECK_STR(add_by_name(&s.p), "taken");
    list_keys(&s, s.other, NULL);
    KILN_CHECK_STR(look(&s.p), unsigned_bytes);
    KILN_CHECK_CONTAINS(add_by_name(&s.p), unsigned_bytes);
    list_keys(&s, s.other, s.secret); // any of them will do
    KILN_CHECK_CONTAINS(look(&s.p), "taken");
    (void)chmod(s.keys, 0666);
    KILN_CHECK_STR(look(&s.p), "plugin-keys is writable for others: nothing is allowed");
    (void)chmod(s.keys, 0644);
    if (geteuid() == 0) {
        KILN_CHECK_INT(chown(s.keys, 12345, 12345), 0);
        KILN_CHECK_STR(look(&s.p), "plugin-keys belongs to user 12345: nothing is allowed");
    }
    place_fini(&s.p);
}

/* `name` of the test's plugins under `path`, filled up to `length` bytes. */
static void put_plugin(const char *name, const char *path, size_t length)
{
    size_t own = 0;
    char *bytes = kiln_test_read_file(fixture_plugin_path(name), &own);
    char *filled = calloc(1, length);
    if (KILN_CHECK(bytes != NULL && filled != NULL && own <= length)) {
        memcpy(filled, bytes, own);
        (void)kiln_test_write_file(path, filled, length);
    }
    free(bytes);
    free(filled);
}

/* Others write another plugin into a signed file once it was judged, and leave no trace: what is
 * loaded, by the scan's helper, too, is what was judged. `SWAP` stands in for that helper. */
static void test_a_file_that_changes_when_it_was_judged(void)
{
    static const char SWAP[] = "#!/bin/sh\n"
                               "d=$(dirname \"$0\")\n"
                               "cmp -s \"$1\" \"$d/judged\" || exit 1\n"
                               "touch -r \"$d/a.so\" \"$d/time\"\n"
                               "cat \"$d/other\" > \"$d/a.so\"\n"
                               "touch -r \"$d/time\" \"$d/a.so\"\n"
                               "cmp -s \"$1\" \"$d/judged\" && echo ok\n";
    enum { LENGTH = 1 << 20 };
    signing s;
    char swap[300];
    if (!signing_init(&s)) {
        return;
    }
    snprintf(swap, sizeof(swap), "%s/swap", s.p.path);
    put_plugin("evil_none", s.file, LENGTH);
    put_plugin("evil_none", kiln_test_path(s.p.path, "judged"), LENGTH);
    put_plugin("chain", kiln_test_path(s.p.path, "other"), LENGTH);
    (void)kiln_test_write_file(swap, SWAP, sizeof(SWAP) - 1);
    list_keys(&s, s.secret, NULL);
    KILN_CHECK_INT(kiln_fuse_sign(&s.p.env, s.secret, s.file, &s.err), KILN_STATUS_OK);
    const char *keys = kiln_test_path(kiln_test_tmpdir(), "keys"); // others may not write there
    KILN_CHECK_INT(rename(s.keys, keys), 0);
    place_set(&s.p, "plugin-keys", keys);
    place_set(&s.p, "plugin-path", "");
    (void)chmod(swap, 0755);
    (void)chmod(s.p.path, 0777);
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    options.scan_limit_ms = 30000;
    for (int round = 0; round < 3; round++) { // several in one process do not mix up
        options.scan_helper = round < 2 ? swap : plugin_scan_helper;
        put_plugin("evil_none", s.file, LENGTH);
        KILN_CHECK_INT(kiln_fuse_registry_create(&s.p.env, &options, &s.p.registry, &s.err), 0);
        KILN_CHECK_INT(kiln_fuse_registry_add(s.p.registry, s.file, &s.err), KILN_STATUS_OK);
        KILN_CHECK_STR(s.err.message, "");
        const kiln_fuse_plugin_info *info = kiln_fuse_registry_plugin(s.p.registry, 0);
        KILN_CHECK(info != NULL);
        KILN_CHECK_STR(info != NULL ? info->path : "", s.file);
        KILN_CHECK_CONTAINS(info != NULL ? info->reason : "", "taken");
        kiln_fuse_registry_destroy(s.p.registry);
        s.p.registry = NULL;
    }
    place_fini(&s.p);
}

/* Every byte of a signature counts, every byte of the file, and nothing may follow. */
static void test_damaged_signatures(void)
{
    signing s;
    size_t length = 0;
    if (!signing_init(&s)) {
        return;
    }
    list_keys(&s, s.secret, NULL);
    KILN_CHECK_INT(kiln_fuse_sign(&s.p.env, s.secret, s.file, &s.err), KILN_STATUS_OK);
    char *signature = kiln_test_read_file(s.signature, &length);
    KILN_CHECK_INT(length, 64);
    char bytes[66] = {0};
    for (size_t i = 0; i < 64 && signature != NULL; i++) {
        memcpy(bytes, signature, 64);
        bytes[i] = (char)(bytes[i] ^ (1 << (i % 8)));
        (void)kiln_test_write_file(s.signature, bytes, 64);
        KILN_CHECK_STR(look(&s.p), unsigned_bytes);
    }
    memcpy(bytes, signature, 64);
    (void)kiln_test_write_file(s.signature, bytes, 63);
    KILN_CHECK_STR(look(&s.p), "its signature has 63 bytes, not 64");
    (void)kiln_test_write_file(s.signature, bytes, 0);
    KILN_CHECK_STR(look(&s.p), "its signature has 0 bytes, not 64");
    (void)kiln_test_write_file(s.signature, bytes, 65);
    KILN_CHECK_STR(look(&s.p), "its signature has more than 64 bytes, not 64");
    (void)kiln_test_write_file(s.signature, bytes, 64);
    KILN_CHECK_CONTAINS(look(&s.p), "taken");
    free(signature);
    FILE *changed = fopen(s.file, "ab");
    KILN_CHECK(changed != NULL && fputc(0, changed) == 0 && fclose(changed) == 0);
    KILN_CHECK_STR(look(&s.p), unsigned_bytes);
    place_fini(&s.p);
}

static void test_damaged_keys(void)
{
    static const char *const texts[] = {
        "", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\n!!!!",
        ("-----BEGIN PRIVATE KEY-----\n"
         "AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMMMMNNNNOOOOPPPP\n"
         "-----END PRIVATE KEY-----\n"), // another algorithm's
        ("-----BEGIN PRIVATE KEY-----\n"
         "MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")}; // no end
    signing s;
    char hex[65];
    if (!signing_init(&s)) {
        return;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)kiln_test_write_file(s.other, texts[i], strlen(texts[i]));
        KILN_CHECK_INT(kiln_fuse_key_public(&s.p.env, s.other, hex, &s.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(kiln_fuse_sign(&s.p.env, s.other, s.file, &s.err),
                       KILN_STATUS_INVALID_ARGUMENT);
    }
    (void)chmod(s.secret, 0640);
    KILN_CHECK_INT(kiln_fuse_sign(&s.p.env, s.secret, s.file, &s.err),
                   KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(kiln_fuse_key_public(&s.p.env, "/nowhere.pem", hex, &s.err),
                   KILN_STATUS_NOT_FOUND);
    static const char keys[] = "0123\nabc\n# 00\n"; // no line has 64 digits
    (void)kiln_test_write_file(s.keys, keys, sizeof(keys) - 1);
    (void)chmod(s.keys, 0644);
    KILN_CHECK_CONTAINS(look(&s.p), "plugin-keys has no key: nothing is allowed");
    place_fini(&s.p);
}

/* Keys and signatures are those of OpenSSL's command, both ways; RFC 8032, 7.1, test 1. */
static void test_signatures_of_openssl(void)
{
    static const char rfc[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                              "-----END PRIVATE KEY-----\n";
    signing s;
    char hex[65], command[1800];
    if (!signing_init(&s)) {
        return;
    }
    (void)kiln_test_write_file(s.other, rfc, sizeof(rfc) - 1);
    (void)chmod(s.other, 0600);
    KILN_CHECK_INT(kiln_fuse_key_public(&s.p.env, s.other, hex, &s.err), KILN_STATUS_OK);
    KILN_CHECK_STR(hex, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    if (system("openssl version >/dev/null 2>&1") != 0) {
        kiln_test_skip("no openssl command");
        place_fini(&s.p);
        return;
    }
    (void)unlink(s.other);
    snprintf(command, sizeof(command),
             "umask 077; openssl genpkey -algorithm ed25519 -out %s && "
             "openssl pkeyutl -sign -inkey %s -rawin -in %s -out %s",
             s.other, s.other, s.file, s.signature);
    KILN_CHECK_INT(system(command), 0);
    list_keys(&s, s.other, NULL);
    KILN_CHECK_CONTAINS(look(&s.p), "taken");
    KILN_CHECK_INT(kiln_fuse_sign(&s.p.env, s.secret, s.file, &s.err), KILN_STATUS_OK);
    snprintf(command, sizeof(command),
             "openssl pkey -in %s -pubout -out %s.pub && openssl pkeyutl -verify -pubin -inkey "
             "%s.pub -rawin -in %s -sigfile %s >/dev/null",
             s.secret, s.secret, s.secret, s.file, s.signature);
    KILN_CHECK_INT(system(command), 0);
    place_fini(&s.p);
}

/* FIPS 180-4's examples. */
static void test_sha256(void)
{
    static const struct {
        const char *text;
        unsigned char begins[4];
    } cases[] = {
        {"", {0xe3, 0xb0, 0xc4, 0x42}},
        {"abc", {0xba, 0x78, 0x16, 0xbf}},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", {0x24, 0x8d, 0x6a, 0x61}},
    };
    unsigned char digest[32];
    for (size_t i = 0; i < 3; i++) {
        kilni_fuse_sha256(cases[i].text, strlen(cases[i].text), digest);
        KILN_CHECK_MEM(digest, cases[i].begins, 4);
    }
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    kilni_fuse_sha256(million, 1000000, digest);
    const unsigned char first[4] = {0xcd, 0xc7, 0x6e, 0x5c}, last[4] = {0xc7, 0x11, 0x2c, 0xd0};
    KILN_CHECK_MEM(digest, first, 4);
    KILN_CHECK_MEM(digest + 28, last, 4);
    free(million);
}

KILN_TEST_MAIN("unit/fusion_host/plugin_signatures", KILN_TEST(test_signatures),
               KILN_TEST(test_a_file_that_changes_when_it_was_judged),
               KILN_TEST(test_damaged_signatures), KILN_TEST(test_damaged_keys),
               KILN_TEST(test_signatures_of_openssl), KILN_TEST(test_sha256))
