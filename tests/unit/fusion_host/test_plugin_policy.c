// SPDX-License-Identifier: MIT OR Apache-2.0
// What the configuration lets in: lists of allowed files, modes, owners, links, switches, files
// that are named; and what is believed of a plugin's claims once it is in.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin_scene.h"

static void digest_of(const char *path, char out_hex[65])
{
    unsigned char digest[32];
    size_t length = 0;
    char *bytes = kiln_test_read_file(path, &length);
    kilni_fuse_sha256(bytes, length, digest);
    for (size_t i = 0; i < 32; i++) {
        snprintf(out_hex + 2 * i, 3, "%02x", digest[i]);
    }
    free(bytes);
}

static void test_list_of_allowed_files(void)
{
    place p;
    char hex[65], text[300];
    place_init(&p);
    const char *list = kiln_test_path(p.path, "allowed.txt");
    digest_of(kiln_test_path(p.path, "a.so"), hex);
    place_set(&p, "plugin-mode", "allowlist");
    place_set(&p, "plugin-allow", list);
    KILN_CHECK_CONTAINS(look(&p), "plugin-allow cannot be read: nothing is allowed");
    (void)kiln_test_write_file(list, "# none\n", 7);
    (void)chmod(list, 0644);
    KILN_CHECK_CONTAINS(look(&p), "its SHA-256 is not in the list of plugin-allow");
    int length = snprintf(text, sizeof(text), "# one\n%064d other\n  %s  mine\n", 0, hex);
    (void)kiln_test_write_file(list, text, (size_t)length);
    KILN_CHECK_CONTAINS(look(&p), "taken");
    (void)kiln_test_write_file(list, hex, 64); // no newline
    KILN_CHECK_CONTAINS(look(&p), "taken");
    (void)kiln_test_write_file(list, hex, 63);
    KILN_CHECK_CONTAINS(look(&p), "its SHA-256 is not in the list");
    (void)kiln_test_write_file(list, hex, 64);
    (void)chmod(list, 0666);
    KILN_CHECK_CONTAINS(look(&p), "plugin-allow is writable for others: nothing is allowed");
    place_set(&p, "plugin-allow", "allowed.txt");
    KILN_CHECK_CONTAINS(look(&p), "plugin-allow is not an absolute path: nothing is allowed");
    place_fini(&p);
}

static const char *reason_of(const place *p, const char *path)
{
    for (size_t i = 0; i < kiln_fuse_registry_count(p->registry); i++) {
        const kiln_fuse_plugin_info *info = kiln_fuse_registry_plugin(p->registry, i);
        if (strcmp(info->path, path) == 0) {
            return info->reason;
        }
    }
    return "not there";
}

/* What the user names goes before what lies in the plugin path: the same file when it was refused
   there, and another of the same id, unless that is none. */
static void test_named_goes_first(void)
{
    place p;
    kiln_error err = KILN_ERROR_INIT;
    place_init(&p);
    const char *there = kiln_test_path(p.path, "a.so");
    place_set(&p, "plugin-mode", "allowlist");
    place_set(&p, "plugin-allow", "/nowhere");
    KILN_CHECK_CONTAINS(look(&p), "nothing is allowed");
    KILN_CHECK_INT(kiln_fuse_registry_add(p.registry, there, &err), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(reason_of(&p, there), "taken");
    KILN_CHECK_INT(kiln_fuse_registry_count(p.registry), 1);
    place_set(&p, "plugin-mode", "developer");
    KILN_CHECK_CONTAINS(look(&p), "taken");
    const char *folder = kiln_test_tmpdir();
    const char *mine = kiln_test_path(folder, "b.so"), *bad = kiln_test_path(folder, "c.so");
    size_t length = 0;
    char *bytes = kiln_test_read_file(there, &length);
    (void)kiln_test_write_file(mine, bytes, length);
    (void)kiln_test_write_file(bad, bytes, length / 2);
    free(bytes);
    KILN_CHECK(kiln_fuse_registry_add(p.registry, bad, &err) != KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(reason_of(&p, there), "taken");
    KILN_CHECK_INT(kiln_fuse_registry_add(p.registry, mine, &err), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(reason_of(&p, mine), "taken");
    KILN_CHECK_CONTAINS(reason_of(&p, there), "b.so, which was named");
    KILN_CHECK_INT(kiln_fuse_registry_add(p.registry, there, &err), KILN_STATUS_ALREADY_EXISTS);
    place_fini(&p);
}

/* Who may write above the folder that a link leads to may put another in its place. */
static void test_links_to_open_folders(void)
{
    place p;
    place_init(&p);
    const char *home = kiln_test_tmpdir();
    const char *open = kiln_test_path(home, "open"), *link = kiln_test_path(home, "link");
    KILN_CHECK_INT(mkdir(open, 0777) | chmod(open, 0777), 0);
    KILN_CHECK_INT(rename(p.path, kiln_test_path(home, "open/inner")), 0);
    KILN_CHECK_INT(symlink("open/inner", link), 0);
    place_set(&p, "plugin-path", link);
    KILN_CHECK_CONTAINS(look(&p), "open is writable for others");
    (void)chmod(open, 0700);
    KILN_CHECK_CONTAINS(look(&p), "taken");
    place_fini(&p);
}

/* Without the option the list is the user's own, which `kiln plugin allow` writes; none is empty.
 */
static void test_default_list(void)
{
    place p;
    kiln_error err = KILN_ERROR_INIT;
    struct stat info;
    place_init(&p);
    const char *home = kiln_test_tmpdir();
    const char *file = kiln_test_path(p.path, "a.so");
    setenv("XDG_CONFIG_HOME", home, 1);
    place_set(&p, "plugin-mode", "allowlist");
    KILN_CHECK_CONTAINS(look(&p), "not in the list of plugin-allow; `kiln plugin allow FILE` adds");
    KILN_CHECK_INT(kiln_fuse_plugin_allow(&p.env, "/nowhere.so", &err), KILN_STATUS_NOT_FOUND);
    const char *text = kiln_test_path(p.path, "notes.txt");
    (void)kiln_test_write_file(text, "no plugin", 9);
    KILN_CHECK_INT(kiln_fuse_plugin_allow(&p.env, text, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_fuse_plugin_allow(&p.env, file, &err), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(look(&p), "taken");
    KILN_CHECK_INT(kiln_fuse_plugin_allow(&p.env, file, &err), KILN_STATUS_ALREADY_EXISTS);
    const char *list = kiln_test_path(home, "kiln/plugins.allow");
    KILN_CHECK_INT(stat(list, &info), 0);
    KILN_CHECK_INT(info.st_mode & 0777, 0600);
    (void)chmod(kiln_test_path(home, "kiln"), 0777); // somebody could put another list there
    KILN_CHECK_CONTAINS(look(&p), "is writable for others: nothing is allowed");
    KILN_CHECK_INT(kiln_fuse_plugin_allow(&p.env, file, &err), KILN_STATUS_PERMISSION_DENIED);
    (void)chmod(kiln_test_path(home, "kiln"), 0700);
    FILE *changed = fopen(file, "ab"); // another build
    KILN_CHECK(changed != NULL && fputc(0, changed) == 0 && fclose(changed) == 0);
    KILN_CHECK_CONTAINS(look(&p), "not in the list of plugin-allow");
    place_fini(&p);
}

static void test_modes(void)
{
    place p;
    place_init(&p);
    setenv("XDG_CONFIG_HOME", kiln_test_tmpdir(), 1);
    KILN_CHECK_CONTAINS(look(&p), "taken");
    place_set(&p, "plugin-mode", "off");
    KILN_CHECK_STR(look(&p), "plugin-mode is off: only fusers that ship are loaded");
    KILN_CHECK_CONTAINS(add_by_name(&p), "plugin-mode is off");
    place_set(&p, "plugin-mode", "allowlist");
    KILN_CHECK_CONTAINS(look(&p), "not in the list");
    KILN_CHECK_STR(add_by_name(&p), "taken");
    place_set(&p, "plugin-mode", "signed");
    KILN_CHECK_CONTAINS(look(&p), "plugin-keys has no key: nothing is allowed");
    KILN_CHECK_CONTAINS(add_by_name(&p), "plugin-keys has no key");
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_config_set(p.env.config, "plugin-mode", "lenient", KILN_ORIGIN_FLAG, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message,
                   "plugin-mode is lenient; off, allowlist, signed and developer are known");
    KILN_CHECK_CONTAINS(add_by_name(&p), "plugin-keys has no key"); // the mode is what it was
    options.shipped_folder = p.path; // what ships is trusted as the library is
    place_set(&p, "plugin-path", "");
    place_set(&p, "plugin-mode", "off");
    kiln_fuse_registry_destroy(p.registry);
    KILN_CHECK_INT(kiln_fuse_registry_create(&p.env, &options, &p.registry, NULL), 0);
    KILN_CHECK_CONTAINS(kiln_fuse_registry_plugin(p.registry, 0)->reason, "taken");
    place_fini(&p);
}

static void test_owners(void)
{
    place p;
    if (geteuid() != 0) {
        kiln_test_skip("only root can give files away");
        return;
    }
    place_init(&p);
    const char *file = kiln_test_path(p.path, "a.so");
    KILN_CHECK_INT(chown(file, 12345, 12345), 0);
    KILN_CHECK_STR(look(&p), "file belongs to user 12345");
    KILN_CHECK_INT(chown(file, 0, 0), 0);
    KILN_CHECK_INT(chown(p.path, 12345, 12345), 0);
    KILN_CHECK_CONTAINS(look(&p), "belongs to user 12345");
    KILN_CHECK_INT(chown(p.path, 0, 0), 0);
    KILN_CHECK_CONTAINS(look(&p), "taken");
    place_fini(&p);
}

static uint32_t blocks_with(place *p, kiln_hash128 *out_key)
{
    fuse_fixture f;
    fixture_prepare(&f);
    (void)look(p);
    f.registry = p->registry;
    make_engine(&f);
    const kiln_fuse_segment *segment = record_segment(&f);
    uint32_t count = segment->plan->n_blocks;
    if (count > 0) {
        *out_key = segment->plan->blocks[0].program->key;
    }
    fixture_done(&f, segment);
    f.registry = NULL;
    fixture_close(&f);
    return count;
}

static void test_switches(void)
{
    place p;
    kiln_hash128 key = {0, 0}, other = {0, 0};
    char hex[33], text[200];
    place_init(&p);
    KILN_CHECK_INT(blocks_with(&p, &key), 1);
    place_set(&p, "plugins", "-test.hostile-kernel/evil");
    KILN_CHECK_STR(look(&p), "taken: 1 fuser, fuser ABI 1.1; fuser evil: denied by the list of "
                             "plugins");
    KILN_CHECK_INT(blocks_with(&p, &other), 0);
    place_set(&p, "plugins", "-test.hostile-kernel/another");
    KILN_CHECK_INT(blocks_with(&p, &other), 1);
    kiln_hash_hex(key, hex);
    snprintf(text, sizeof(text), "-test.hostile-kernel/evil/%.10s", hex);
    place_set(&p, "plugins", text);
    uint32_t left = blocks_with(&p, &other); // a shorter block may take its place
    KILN_CHECK(left == 0 || other.low != key.low || other.high != key.high);
    place_set(&p, "plugins", "-test.hostile-kernel");
    KILN_CHECK_STR(look(&p), "denied by the list of plugins");
    place_set(&p, "plugins", "off");
    KILN_CHECK_STR(look(&p), "plugins are switched off");
    snprintf(text, sizeof(text), "-%.150s/", p.path);
    place_set(&p, "plugins", text);
    KILN_CHECK_STR(look(&p), "its folder is denied by the list of plugins");
    text[strlen(text) - 2] = 0; // another folder, whose name this one's begins with
    place_set(&p, "plugins", text);
    KILN_CHECK_CONTAINS(look(&p), "taken");
    place_fini(&p);
}

// ---- claims ----

typedef struct claim {
    const char *name;
    uint32_t blocks;
} claim;

/* A claim is worth what the host can believe of it: never less than the bytes take, never more.
 * What is no time is no claim at all. */
static void test_claims(void)
{
    static const claim claims[] = {{"evil_none", 1},           {"evil_zero_claim", 1},
                                   {"evil_negative_claim", 0}, {"evil_overflowing_claim", 0},
                                   {"evil_huge_claim", 0},     {"evil_null_source", 0},
                                   {"evil_impure", 1}};
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        const char *const names[] = {claims[i].name, NULL};
        fuse_fixture f;
        if (fixture_open(&f, names)) {
            const kiln_fuse_segment *segment = record_segment(&f);
            if (segment->plan->n_blocks != claims[i].blocks) {
                KILN_FAIL("%s: %u blocks", claims[i].name, segment->plan->n_blocks);
            } else if (claims[i].blocks > 0) {
                const kiln_plan_block *block = &segment->plan->blocks[0];
                double least = 2.0 * 4 * 100000 / 10 + 5000; // bytes at 10 a nanosecond, one launch
                KILN_CHECK_NEAR((double)block->predicted_ns, least, 1);
            }
            if (strcmp(claims[i].name, "evil_zero_claim") == 0) { // what was claimed is shown
                kiln_string text;
                kiln_string_init(&text, &f.env);
                KILN_CHECK_INT(kiln_fuse_explain(f.engine, segment, 0, &text, NULL), 0);
                KILN_CHECK_CONTAINS(text.text, "(claims 0.0)");
                kiln_string_fini(&text);
            }
            fixture_done(&f, segment);
        }
        fixture_close(&f);
    }
}

KILN_TEST_MAIN("unit/fusion_host/plugin_policy", KILN_TEST(test_list_of_allowed_files),
               KILN_TEST(test_named_goes_first), KILN_TEST(test_links_to_open_folders),
               KILN_TEST(test_default_list), KILN_TEST(test_modes), KILN_TEST(test_owners),
               KILN_TEST(test_switches), KILN_TEST(test_claims))
