// SPDX-License-Identifier: MIT OR Apache-2.0
// The loader against a folder of hostile plugins: each is refused with its exact reason, nothing of
// a refused one stays, and the configuration, owners and duplicates are honoured.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse_fixture.h"

typedef struct hostile {
    const char *name;
    kiln_status status;
    const char *reason;
} hostile;

static const hostile table[] = {
    {"no_note", KILN_STATUS_FAILED_PRECONDITION, "no fuser manifest (note .note.kiln_fuser)"},
    {"wrong_major", KILN_STATUS_FAILED_PRECONDITION, "built for fuser ABI 2, this host has 1"},
    {"wrong_sanitizer", KILN_STATUS_FAILED_PRECONDITION, "built with sanitizer"},
    {"newer_host", KILN_STATUS_FAILED_PRECONDITION, "needs fuser ABI 1.99, this host has 1.1"},
    {"no_opset", KILN_STATUS_FAILED_PRECONDITION, "manifest names no operator set"},
    {"cpu", KILN_STATUS_FAILED_PRECONDITION, "needs processor features that are missing"},
    {"size_zero", KILN_STATUS_INVALID_ARGUMENT, "table has a struct size of 0, not 208 to 65536"},
    {"size_huge", KILN_STATUS_INVALID_ARGUMENT, "table has a struct size of 4294967295"},
    {"null_entry", KILN_STATUS_INVALID_ARGUMENT, "table has no builder_fuse"},
    {"no_table", KILN_STATUS_FAILED_PRECONDITION, "query gives no table for host ABI 1.1"},
    {"other_id", KILN_STATUS_INVALID_ARGUMENT, "id differs from its manifest's test.hostile"},
    {"bad_utf8", KILN_STATUS_INVALID_ARGUMENT, "id, version or vendor is not UTF-8 text"},
    {"no_fuser", KILN_STATUS_INVALID_ARGUMENT, "names 0 fusers, not 1 to 64"},
    {"init_fails", KILN_STATUS_FAILED_PRECONDITION, "init fails with status -2"},
    {"prints", KILN_STATUS_FAILED_PRECONDITION, "prints: it imports puts"},
    {"extra_export", KILN_STATUS_FAILED_PRECONDITION, "exports chain_helper beside"},
    {"fuse_fails", KILN_STATUS_FAILED_PRECONDITION, "failed inside builder_fuse"},
    {"long_len", KILN_STATUS_FAILED_PRECONDITION, "claims more operations than it was shown"},
    {"ready_empty", KILN_STATUS_FAILED_PRECONDITION, "is ready with no operation"},
    {"state_value", KILN_STATUS_FAILED_PRECONDITION, "gave a state that there is not"},
    {"info_len", KILN_STATUS_FAILED_PRECONDITION, "finished 4 operations where it had promised 3"},
    {"endless", KILN_STATUS_FAILED_PRECONDITION, "launch 0: formula of 1152921504606846976"},
    {"zero_extent", KILN_STATUS_FAILED_PRECONDITION, "launch 0: global size is 0, not from 1"},
    {"underflow", KILN_STATUS_FAILED_PRECONDITION, "formula code 18 finds 0 values"},
    {"bad_symbol", KILN_STATUS_FAILED_PRECONDITION, "formula names symbol 99 of 2"},
    {"divides", KILN_STATUS_FAILED_PRECONDITION, "formula: code 19 of 64 and 0"},
    {"false_guard", KILN_STATUS_FAILED_PRECONDITION, "guard does not hold"},
    {"huge_temp", KILN_STATUS_FAILED_PRECONDITION, "temporary 0: size is 1125899906842624"},
    {"reads_temp", KILN_STATUS_FAILED_PRECONDITION, "reads temporary 0 before it is written"},
    {"writes_input", KILN_STATUS_FAILED_PRECONDITION, "writes tensor 0, which the block does not"},
    {"no_result", KILN_STATUS_FAILED_PRECONDITION, "tensor 3 lives on and is never written"},
    {"no_step", KILN_STATUS_FAILED_PRECONDITION, "launch 0 is in no step"},
    {"bad_ref", KILN_STATUS_FAILED_PRECONDITION, "argument 0: argument names tensor 1000 of 4"},
    {"kernel_name", KILN_STATUS_FAILED_PRECONDITION, "launch 0 has a kernel name that is no name"},
    {"format", KILN_STATUS_FAILED_PRECONDITION, "source 0 has unknown format 9"},
    {"approx", KILN_STATUS_FAILED_PRECONDITION, "source 0 needs approximate arithmetic"},
    {"bad_text", KILN_STATUS_FAILED_PRECONDITION, "source 0 is not UTF-8 text"},
    {"newer_tail", KILN_STATUS_FAILED_PRECONDITION, "source 0 uses a newer form"},
    {"program_flag", KILN_STATUS_FAILED_PRECONDITION, "program has unknown flags 0x80000000"},
    {"many_sources", KILN_STATUS_FAILED_PRECONDITION, "program has 1099511627776 sources"},
};

static const kiln_fuse_plugin_info *info_of(const fuse_fixture *f, const char *path)
{
    for (size_t i = 0; i < kiln_fuse_registry_count(f->registry); i++) {
        const kiln_fuse_plugin_info *info = kiln_fuse_registry_plugin(f->registry, i);
        if (strcmp(info->path, path) == 0) {
            return info;
        }
    }
    return NULL;
}

static void check_refused(fuse_fixture *f, const char *path, kiln_status status, const char *reason)
{
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_fuse_registry_add(f->registry, path, &err), status);
    KILN_CHECK_CONTAINS(err.message, reason);
    const kiln_fuse_plugin_info *info = info_of(f, path);
    KILN_CHECK(info != NULL);
    if (info != NULL) {
        KILN_CHECK_INT(info->state, KILN_FUSE_REFUSED);
        KILN_CHECK_CONTAINS(info->reason, reason);
        KILN_CHECK_INT(info->n_fusers, 0);
    }
}

static void test_hostile(void)
{
    const hostile *h = kiln_test_param();
    fuse_fixture f;
    char name[64];
    snprintf(name, sizeof(name), "hostile_%s", h->name);
    if (fixture_open(&f, NULL)) {
        check_refused(&f, fixture_plugin_path(name), h->status, h->reason);
    }
    fixture_close(&f);
}

static void test_good(void)
{
    fuse_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (fixture_open(&f, NULL)) {
        const char *path = fixture_plugin_path("chain");
        KILN_CHECK_INT(kiln_fuse_registry_add(f.registry, path, &err), KILN_STATUS_OK);
        const kiln_fuse_plugin_info *info = info_of(&f, path);
        KILN_CHECK(info != NULL);
        if (info != NULL) {
            KILN_CHECK_INT(info->state, KILN_FUSE_TAKEN);
            KILN_CHECK_STR(info->reason, "taken: 1 fuser, fuser ABI 1.1");
            KILN_CHECK_STR(info->id, "test.chain");
            KILN_CHECK_STR(info->version, "1.0");
            KILN_CHECK_STR(info->vendor, "tests");
            KILN_CHECK_INT(strlen(info->hash), 32);
            KILN_CHECK(info->load_ns > 0);
        }
        KILN_CHECK_INT(kiln_fuse_registry_add(f.registry, path, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_fuse_registry_count(f.registry), 1);
    }
    fixture_close(&f);
}

static void test_duplicate_id(void)
{
    fuse_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (fixture_open(&f, NULL)) {
        KILN_CHECK_INT(kiln_fuse_registry_add(f.registry, fixture_plugin_path("chain"), &err),
                       KILN_STATUS_OK);
        check_refused(&f, fixture_plugin_path("chain_again"), KILN_STATUS_ALREADY_EXISTS,
                      "id is taken by");
    }
    fixture_close(&f);
}

static void test_missing_file(void)
{
    fuse_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (fixture_open(&f, NULL)) {
        KILN_CHECK_INT(kiln_fuse_registry_add(f.registry, "/nowhere/x.so", &err),
                       KILN_STATUS_NOT_FOUND);
        KILN_CHECK_INT(kiln_fuse_registry_count(f.registry), 0);
    }
    fixture_close(&f);
}

/* A crash in init happens in a process of its own. */
static void test_crash_is_contained(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int silence = open("/dev/null", O_WRONLY);
        (void)dup2(silence, STDERR_FILENO); // a sanitizer's report is no news here
        fuse_fixture f;
        kiln_error err = KILN_ERROR_INIT;
        (void)fixture_open(&f, NULL);
        kiln_status status =
            kiln_fuse_registry_add(f.registry, fixture_plugin_path("hostile_crashes"), &err);
        _exit(status == KILN_STATUS_OK ? 0 : 2);
    }
    int status = 0;
    KILN_CHECK_INT(waitpid(child, &status, 0), child);
    bool returned = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
    KILN_CHECK(!returned); // the sanitizers turn the signal into an exit status of their own
}

// ---- files that are no plugins ----

static void check_bytes(const char *name, const void *bytes, size_t length, const char *reason)
{
    fuse_fixture f;
    const char *path = kiln_test_path(kiln_test_tmpdir(), name);
    kiln_error err = KILN_ERROR_INIT;
    if (fixture_open(&f, NULL) && kiln_test_write_file(path, bytes, length)) {
        KILN_CHECK(kiln_fuse_registry_add(f.registry, path, &err) != KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(err.message, reason);
    }
    fixture_close(&f);
}

static void test_not_elf(void)
{
    check_bytes("text.so", "#!/bin/sh\necho hello\n", 21, "not an ELF file");
    check_bytes("empty.so", "", 0, "not an ELF file");
}

/* Every truncation of a good plugin is refused, and none reads past its end. */
static void test_truncated(void)
{
    size_t length = 0;
    char *bytes = kiln_test_read_file(fixture_plugin_path("chain"), &length);
    if (bytes == NULL) {
        KILN_FAIL("the plugin cannot be read");
        return;
    }
    check_bytes("short.so", bytes, 40, "ELF file is truncated: 40 bytes");
    check_bytes("half.so", bytes, length / 2, "ELF file is truncated: its tables lie outside");
    for (size_t n = 0; n < length; n += n < 1024 ? 7 : 509) {
        kilni_fuse_manifest manifest;
        char *exact = malloc(n + 1);
        memcpy(exact, bytes, n);
        char *end = realloc(exact, n == 0 ? 1 : n); // so that a sanitizer sees a read past the end
        kiln_status status = kilni_fuse_elf_manifest(end, n, &manifest, NULL);
        KILN_CHECK(status != KILN_STATUS_OK ||
                   kilni_fuse_elf_check(end, n, 0, NULL) != KILN_STATUS_OK || n > length / 2);
        free(end);
    }
    free(bytes);
}

/* Any damage of the tables is an answer, not a crash. */
static void test_damaged(void)
{
    size_t length = 0;
    char *bytes = kiln_test_read_file(fixture_plugin_path("chain"), &length);
    if (bytes == NULL) {
        KILN_FAIL("the plugin cannot be read");
        return;
    }
    uint64_t random = 12345;
    uint32_t refused = 0;
    char *copy = malloc(length);
    for (int round = 0; round < 2000; round++) {
        memcpy(copy, bytes, length);
        for (int i = 0; i < 4; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t at = (random >> 33) % (round % 2 == 0 ? 64 + 56 * 12 : length);
            at = round % 4 == 3 ? length - 1 - at % 2048 : at;
            copy[at] = (char)(random >> 20);
        }
        kilni_fuse_manifest manifest;
        kiln_status status = kilni_fuse_elf_manifest(copy, length, &manifest, NULL);
        status = status == KILN_STATUS_OK ? kilni_fuse_elf_check(copy, length, 0, NULL) : status;
        // Half of the rounds damage the headers only; elsewhere most bytes are code, which nobody
        // checks.
        refused += round % 2 == 0 && status != KILN_STATUS_OK;
    }
    KILN_CHECK(refused > 400);
    free(copy);
    free(bytes);
}

// ---- the plugin path ----

typedef struct folder { ///< a folder of copied plugins and a registry over it
    kiln_env env;
    char path[256];
    kiln_fuse_registry *registry;
} folder;

static void copy_plugin(const folder *d, const char *name, const char *as)
{
    size_t length = 0;
    char *bytes = kiln_test_read_file(fixture_plugin_path(name), &length);
    const char *target = kiln_test_path(d->path, as);
    if (KILN_CHECK(bytes != NULL) && kiln_test_write_file(target, bytes, length)) {
        (void)chmod(target, 0644);
    }
    free(bytes);
}

static void folder_init(folder *d)
{
    *d = (folder){.env = {.allocator = kiln_allocator_default()}};
    KILN_CHECK_INT(kiln_config_create(&d->env.allocator, NULL, false, &d->env.config, NULL),
                   KILN_STATUS_OK);
    snprintf(d->path, sizeof(d->path), "%s", kiln_test_tmpdir());
    KILN_CHECK_INT(
        kiln_config_set(d->env.config, "plugin-mode", "developer", KILN_ORIGIN_FLAG, NULL), 0);
}

static void folder_set(folder *d, const char *option, const char *value)
{
    KILN_CHECK_INT(kiln_config_set(d->env.config, option, value, KILN_ORIGIN_FLAG, NULL),
                   KILN_STATUS_OK);
}

static void folder_scan(folder *d)
{
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    KILN_CHECK_INT(kiln_fuse_registry_create(&d->env, &options, &d->registry, NULL),
                   KILN_STATUS_OK);
}

static const char *folder_reason(const folder *d, const char *file)
{
    const char *path = kiln_test_path(d->path, file);
    for (size_t i = 0; i < kiln_fuse_registry_count(d->registry); i++) {
        const kiln_fuse_plugin_info *info = kiln_fuse_registry_plugin(d->registry, i);
        if (strcmp(info->path, path) == 0) {
            return info->reason;
        }
    }
    return "not looked at";
}

static void folder_fini(folder *d)
{
    kiln_fuse_registry_destroy(d->registry);
    kiln_config_destroy(d->env.config);
}

static void test_path_has_a_reason_for_each(void)
{
    folder d;
    folder_init(&d);
    copy_plugin(&d, "chain", "b.so");
    copy_plugin(&d, "chain_again", "a.so");
    copy_plugin(&d, "hostile_no_note", "c.so");
    copy_plugin(&d, "chain_fast", "fast.so");
    copy_plugin(&d, "chain_slow", "wide.so");
    (void)chmod(kiln_test_path(d.path, "wide.so"), 0666);
    (void)kiln_test_write_file(kiln_test_path(d.path, "readme.txt"), "no", 2);
    (void)symlink(kiln_test_path(d.path, "b.so"), kiln_test_path(d.path, "link.so"));
    (void)mkdir(kiln_test_path(d.path, "folder.so"), 0755);
    folder_set(&d, "plugin-path", d.path);
    folder_scan(&d);
    KILN_CHECK_INT(kiln_fuse_registry_count(d.registry), 7);
    KILN_CHECK_STR(folder_reason(&d, "a.so"), "taken: 1 fuser, fuser ABI 1.1");
    KILN_CHECK_CONTAINS(folder_reason(&d, "b.so"), "id is taken by");
    KILN_CHECK_CONTAINS(folder_reason(&d, "c.so"), "no fuser manifest");
    KILN_CHECK_STR(folder_reason(&d, "fast.so"), "taken: 1 fuser, fuser ABI 1.1");
    KILN_CHECK_STR(folder_reason(&d, "wide.so"), "file is writable for others");
    KILN_CHECK_STR(folder_reason(&d, "link.so"), "a symbolic link");
    KILN_CHECK_STR(folder_reason(&d, "folder.so"), "not a regular file");
    KILN_CHECK_STR(folder_reason(&d, "readme.txt"), "not looked at");
    for (size_t i = 1; i < kiln_fuse_registry_count(d.registry); i++) {
        KILN_CHECK(strcmp(kiln_fuse_registry_plugin(d.registry, i - 1)->path,
                          kiln_fuse_registry_plugin(d.registry, i)->path) < 0);
    }
    folder_fini(&d);
}

static void test_writable_folder(void)
{
    folder d;
    folder_init(&d);
    copy_plugin(&d, "chain", "a.so");
    (void)chmod(d.path, 0777);
    folder_set(&d, "plugin-path", d.path);
    folder_scan(&d);
    KILN_CHECK_CONTAINS(folder_reason(&d, "a.so"), "is writable for others");
    kiln_fuse_registry_destroy(d.registry);
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    options.developer = 1;
    KILN_CHECK_INT(kiln_fuse_registry_create(&d.env, &options, &d.registry, NULL), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(folder_reason(&d, "a.so"), "taken");
    if (geteuid() == 0) { // a sticky folder of root's is as good as a private one
        kiln_fuse_registry_destroy(d.registry);
        (void)chmod(d.path, 01777);
        folder_scan(&d);
        KILN_CHECK_CONTAINS(folder_reason(&d, "a.so"), "taken");
    }
    (void)chmod(d.path, 0700);
    folder_fini(&d);
}

static void test_relative_folder_is_left_out(void)
{
    folder d;
    folder_init(&d);
    folder_set(&d, "plugin-path", ".:lib:/nowhere/at/all:");
    folder_scan(&d);
    KILN_CHECK_INT(kiln_fuse_registry_count(d.registry), 0);
    folder_fini(&d);
}

static void check_option(const char *value, const char *fast, const char *slow)
{
    folder d;
    folder_init(&d);
    copy_plugin(&d, "chain_fast", "fast.so");
    copy_plugin(&d, "chain_slow", "slow.so");
    folder_set(&d, "plugin-path", d.path);
    folder_set(&d, "plugins", value);
    folder_scan(&d);
    KILN_CHECK_CONTAINS(folder_reason(&d, "fast.so"), fast);
    KILN_CHECK_CONTAINS(folder_reason(&d, "slow.so"), slow);
    folder_fini(&d);
}

static void test_plugins_option(void)
{
    check_option("", "taken", "taken");
    check_option("off", "plugins are switched off", "plugins are switched off");
    check_option("test.fast", "taken", "not in the list of allowed plugins");
    check_option("-test.fast", "denied by the list of plugins", "taken");
    check_option("test.slow,-test.fast, test.fast", "denied", "taken");
    check_option("test.fas,test.fastest", "not in the list", "not in the list");
}

static void test_shipped_folder_is_trusted(void)
{
    folder d;
    folder_init(&d);
    copy_plugin(&d, "chain", "b.so");
    (void)chmod(kiln_test_path(d.path, "b.so"), 0666);
    folder_set(&d, "plugin-path", d.path);
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    options.shipped_folder = d.path;
    KILN_CHECK_INT(kiln_fuse_registry_create(&d.env, &options, &d.registry, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_fuse_registry_count(d.registry), 1);
    KILN_CHECK_CONTAINS(folder_reason(&d, "b.so"), "taken");
    folder_fini(&d);
}

int main(int argc, char **argv)
{
    enum { HOSTILE_COUNT = sizeof(table) / sizeof(table[0]) };
    static const kiln_test_case others[] = {
        KILN_TEST(test_good),
        KILN_TEST(test_duplicate_id),
        KILN_TEST(test_missing_file),
        KILN_TEST(test_crash_is_contained),
        KILN_TEST(test_not_elf),
        KILN_TEST(test_truncated),
        KILN_TEST(test_damaged),
        KILN_TEST(test_path_has_a_reason_for_each),
        KILN_TEST(test_writable_folder),
        KILN_TEST(test_relative_folder_is_left_out),
        KILN_TEST(test_plugins_option),
        KILN_TEST(test_shipped_folder_is_trusted),
    };
    enum { OTHERS = sizeof(others) / sizeof(others[0]) };
    kiln_test_case cases[HOSTILE_COUNT + OTHERS];
    for (size_t i = 0; i < HOSTILE_COUNT; i++) {
        cases[i] = (kiln_test_case){table[i].name, test_hostile, &table[i]};
    }
    memcpy(cases + HOSTILE_COUNT, others, sizeof(others));
    return kiln_test_run("unit/fusion_host/loader", cases, HOSTILE_COUNT + OTHERS, argc, argv);
}
