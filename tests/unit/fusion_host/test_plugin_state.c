// SPDX-License-Identifier: MIT OR Apache-2.0
// What one process learns of a plugin and the next one knows: a scan in a process of its own, calls
// that ended a process, failures of fusers; and how all of it is forgotten. The plugins are those
// of tests/plugins/hostile. Besides: lists of allowed files, owners, switches.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse_fixture.h"

static const char helper[] = KILN_TEST_BUILD_DIR "/lib/kiln/kiln-plugin-scan";

typedef struct session { ///< a process's registry
    fuse_fixture f;
    kiln_error err;
    const char *folder;
} session;

static bool begin_with(session *s, const char *folder, const char *scan_helper, uint32_t limit_ms)
{
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    memset(s, 0, sizeof *s);
    fixture_prepare(&s->f);
    s->folder = folder;
    options.state_folder = folder;
    options.scan_helper = scan_helper;
    options.scan_limit_ms = limit_ms;
    return KILN_CHECK_INT(kiln_fuse_registry_create(&s->f.env, &options, &s->f.registry, &s->err),
                          KILN_STATUS_OK);
}

static bool begin(session *s, const char *folder)
{
    return begin_with(s, folder, NULL, 0);
}

static kiln_status load(session *s, const char *name)
{
    return kiln_fuse_registry_add(s->f.registry, fixture_plugin_path(name), &s->err);
}

static void finish(session *s)
{
    fixture_close(&s->f);
}

static void make_engine(session *s)
{
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    KILN_CHECK_INT(
        kiln_fuse_engine_create(s->f.registry, &s->f.device, &options, &s->f.engine, &s->err),
        KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_fuse_stream_create(s->f.engine, false, &s->f.stream, &s->err), 0);
}

/* abs(relu(neg(x))), everything between let go. */
static const kiln_fuse_segment *record(session *s)
{
    kiln_tensor_desc x = fixture_vector(&s->f, 100000);
    kiln_tensor_desc a = fixture_op(&s->f, KILN_OP_NEG, &x, NULL);
    kiln_tensor_desc b = fixture_op(&s->f, KILN_OP_RELU, &a, NULL);
    fixture_drop(&s->f, &a);
    (void)fixture_op(&s->f, KILN_OP_ABS, &b, NULL);
    fixture_drop(&s->f, &b);
    return fixture_next(&s->f, true);
}

// ---- the crash marker --------------------------------------------------------------------------

/* A process that ends inside the plugin. */
static void crash(const char *folder, const char *name)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        session s;
        if (begin(&s, folder) && load(&s, name) == KILN_STATUS_OK) {
            make_engine(&s);
            (void)record(&s);
        }
        _exit(0);
    }
    int status = 0;
    KILN_CHECK_INT(waitpid(child, &status, 0), child);
    KILN_CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

static void check_crash(const char *name, const char *said)
{
    const char *folder = kiln_test_tmpdir();
    session s;
    crash(folder, name);
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, name), KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(s.err.message, said);
        KILN_CHECK_CONTAINS(s.err.message,
                            "`kiln plugin reset test.hostile-kernel` tries it again");
        KILN_CHECK_INT(kiln_fuse_registry_plugin(s.f.registry, 0)->state, KILN_FUSE_REFUSED);
    }
    finish(&s);
    if (begin(&s, folder)) { // it stays so
        KILN_CHECK_INT(load(&s, name), KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK); // other bytes
    }
    finish(&s);
    KILN_CHECK_INT(kiln_fuse_registry_reset(folder, "test.other"), 0);
    KILN_CHECK_INT(kiln_fuse_registry_reset(folder, "test.hostile-kernel"), 1);
    crash(folder, name); // it was tried again
}

static void test_a_crash_while_loading(void)
{
    check_crash("evil_crashes_in_query", "a process ended in loading");
}

static void test_a_crash_while_planning(void)
{
    check_crash("evil_crashes_late", "a process ended in builder_fuse");
}

/* Calls the rule of an operator that crashes. */
static void call_rule(session *s)
{
    static const char name[] = "bad::crashes";
    const kiln_custom_op *op = NULL;
    kiln_tensor_desc x = {.id = 1, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {4}}, y = {.id = 2};
    kiln_attr attrs[] = {{KILN_ATTR_STRING, sizeof name - 1, {.text = name}},
                         {KILN_ATTR_I64, 1, {.i = 1}},
                         {KILN_ATTR_STRING, 0, {.text = ""}}};
    kiln_op_record call = {.op = KILN_OP_CUSTOM,
                           .n_inputs = 1,
                           .n_outputs = 1,
                           .n_attrs = 3,
                           .inputs = &x,
                           .outputs = &y,
                           .attrs = attrs};
    if (kiln_fuse_registry_operator(s->f.registry, name, 1, true, &op, &s->err) == KILN_STATUS_OK) {
        call.custom = op;
        (void)!kiln_ir_infer(&call, &y, &s->err);
    }
}

static void test_a_crash_in_an_operator(void)
{
    const char *folder = kiln_test_tmpdir();
    session s;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        if (begin(&s, folder) && load(&s, "operators") == KILN_STATUS_OK) {
            call_rule(&s);
        }
        _exit(0);
    }
    int status = 0;
    KILN_CHECK_INT(waitpid(child, &status, 0), child);
    KILN_CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "operators"), KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(s.err.message, "a process ended in a rule of an operator");
    }
    finish(&s);
}

/* A process that was ended by others between calls says nothing; one that lives says nothing. */
static void test_no_crash_no_blame(void)
{
    const char *folder = kiln_test_tmpdir();
    session s, other;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        session mine;
        if (begin(&mine, folder) && load(&mine, "evil_none") == KILN_STATUS_OK) {
            make_engine(&mine);
            (void)record(&mine);
        }
        (void)kill(getpid(), SIGKILL);
    }
    KILN_CHECK_INT(waitpid(child, NULL, 0), child);
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        kilni_fuse_crumb_set(s.f.registry->plugins[0], 0, KILNI_FUSE_CALL_FUSE); // in a call now
        if (begin(&other, folder)) {
            KILN_CHECK_INT(load(&other, "evil_none"), KILN_STATUS_OK);
        }
        finish(&other);
    }
    finish(&s);
}

/* While a compiler runs, whoever ends the process may be the user: once is forgiven. */
static void test_a_build_is_forgiven_once(void)
{
    const char *folder = kiln_test_tmpdir();
    for (int round = 0; round < 3; round++) {
        session s;
        if (begin(&s, folder)) {
            kiln_status status = load(&s, "evil_none");
            KILN_CHECK_INT(status, round < 2 ? KILN_STATUS_OK : KILN_STATUS_FAILED_PRECONDITION);
        }
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            session mine;
            if (begin(&mine, folder) && load(&mine, "evil_none") == KILN_STATUS_OK) {
                kilni_fuse_crumb_set(mine.f.registry->plugins[0], 1, KILNI_FUSE_CALL_BUILD);
            }
            (void)kill(getpid(), SIGKILL);
        }
        KILN_CHECK_INT(waitpid(child, NULL, 0), child);
        finish(&s);
    }
}

// ---- the scan ----------------------------------------------------------------------------------

typedef struct scanned {
    const char *name;
    const char *said; ///< "": it is well
} scanned;

static const scanned scans[] = {
    {"evil_none", ""},
    {"chain", ""},
    {"evil_crashes_in_query", "its scan failed: it ended the process"},
    {"evil_dangling", "its scan failed: it ended the process"},
    {"evil_loops_in_fuse", "its scan failed: it did not end within 1500 ms"},
    {"evil_loops_in_init", "its scan failed: it did not end within 1500 ms"},
    {"hostile_crashes", "its scan failed: it ended the process"},
};

static void test_scan(void)
{
    const scanned *c = kiln_test_param();
    const char *folder = kiln_test_tmpdir();
    bool well = c->said[0] == 0;
    for (int round = 0; round < 2; round++) {
        session s;
        uint64_t start = kiln_time_ns();
        // The second process knows the answer: a helper that does not exist is not asked.
        const char *by = round == 0 ? helper : "/nowhere/helper";
        if (begin_with(&s, folder, by, well ? 30000 : 1500)) {
            KILN_CHECK_INT(load(&s, c->name),
                           well ? KILN_STATUS_OK : KILN_STATUS_FAILED_PRECONDITION);
            KILN_CHECK_CONTAINS(s.err.message, c->said);
        }
        finish(&s);
        KILN_CHECK(round == 0 || kiln_time_ns() - start < UINT64_C(1000000000));
    }
}

static void test_no_helper_no_scan(void)
{
    session s;
    if (begin_with(&s, kiln_test_tmpdir(), "/nowhere/helper", 100)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
    }
    finish(&s);
}

// ---- failures of fusers ------------------------------------------------------------------------

static void strike(const char *folder, const char *reason)
{
    session s;
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        make_engine(&s);
        kilni_fuse_fuser_strike(s.f.engine, 0, reason);
    }
    finish(&s);
}

static void test_three_strikes_in_three_processes(void)
{
    const char *folder = kiln_test_tmpdir();
    session s;
    strike(folder, "one");
    strike(folder, "two");
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        make_engine(&s);
        const kiln_fuse_segment *segment = record(&s);
        KILN_CHECK_INT(segment->plan->n_blocks, 1);
        fixture_done(&s.f, segment);
        KILN_CHECK_STR(kiln_fuse_registry_plugin(s.f.registry, 0)->reason,
                       "taken: 1 fuser, fuser ABI 1.0");
    }
    finish(&s);
    strike(folder, "three\nlines");
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(kiln_fuse_registry_plugin(s.f.registry, 0)->reason,
                            "fuser evil: put away after 3 failures, the last: three lines (`kiln "
                            "plugin reset test.hostile-kernel`)");
        make_engine(&s);
        const kiln_fuse_segment *segment = record(&s);
        KILN_CHECK_INT(segment->plan->n_blocks, 0);
        fixture_done(&s.f, segment);
    }
    finish(&s);
    KILN_CHECK_INT(kiln_fuse_registry_reset(folder, NULL), 1);
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        make_engine(&s);
        const kiln_fuse_segment *segment = record(&s);
        KILN_CHECK_INT(segment->plan->n_blocks, 1);
        fixture_done(&s.f, segment);
    }
    finish(&s);
}

static void test_a_banned_program_stays_banned(void)
{
    const char *folder = kiln_test_tmpdir();
    kiln_error cause = KILN_ERROR_INIT;
    kiln_hash128 key = {0, 0};
    session s;
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        make_engine(&s);
        const kiln_fuse_segment *segment = record(&s);
        KILN_CHECK_INT(segment->plan->n_blocks, 1);
        key = segment->plan->blocks[0].program->key;
        (void)kiln_fail(&cause, DATA_LOSS, "wrong result");
        kiln_fuse_block_failed(s.f.engine, &segment->plan->blocks[0], &cause);
        fixture_done(&s.f, segment);
    }
    finish(&s);
    for (int round = 0; round < 2; round++) {
        if (begin(&s, folder)) {
            KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
            make_engine(&s);
            const char *failure = kilni_fuse_program_failure(s.f.engine, key);
            KILN_CHECK((failure != NULL) == (round == 0));
            KILN_CHECK(failure == NULL || strcmp(failure, "wrong result") == 0);
        }
        finish(&s);
        (void)kiln_fuse_registry_reset(folder, NULL);
    }
}

/* Whatever stands in a record, it is read without harm. */
static void test_damaged_records(void)
{
    const char *folder = kiln_test_tmpdir();
    kiln_hash128 hash = {1, 2};
    char hex[33], name[48], bytes[400];
    kilni_fuse_record written = {.id = "an.id", .scanned = true, .ended = 1}, read;
    snprintf(written.ended_in, sizeof written.ended_in, "loading");
    snprintf(written.scan_fault, sizeof written.scan_fault, "why");
    written.strikes[63].count = 2;
    snprintf(written.strikes[63].reason, sizeof written.strikes[63].reason, "because");
    kiln_hash_hex(hash, hex);
    for (int i = 0; i < KILNI_FUSE_MAX_BANS + 3; i++) {
        kilni_fuse_record_ban(&written, hex, "no\ngood");
    }
    for (int i = 0; i < KILNI_FUSE_MAX_BANS; i++) {
        KILN_CHECK_STR(written.bans[i].reason, "no");
    }
    KILN_CHECK(kilni_fuse_record_write(folder, hex, &written));
    KILN_CHECK(kilni_fuse_record_read(folder, hex, &read));
    KILN_CHECK_MEM(&read, &written, sizeof read);
    snprintf(name, sizeof name, "%s.txt", hex);
    const char *path = kiln_test_path(folder, name);
    uint64_t random = 7;
    for (int i = 0; i < 500; i++) {
        size_t length = (size_t)snprintf(bytes, sizeof bytes, "%s",
                                         "kiln plugin record 1\nid x\nscan failed y\nended 1 z\n"
                                         "strikes 1 2 r\nstrikes 99999999999 5 q\n"
                                         "banned 0123456789abcdef0123456789abcdef s\n");
        for (int k = 0; k < 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[random % length] = (char)(random >> 40);
        }
        if (kiln_test_write_file(path, bytes, length)) {
            (void)kilni_fuse_record_read(folder, hex, &read);
            KILN_CHECK(memchr(read.id, 0, sizeof read.id) != NULL);
        }
    }
}

// ---- what the configuration lets in ------------------------------------------------------------

typedef struct place { ///< a folder of plugins and a configuration
    kiln_env env;
    const char *path;
    kiln_fuse_registry *registry;
} place;

static void place_set(place *p, const char *knob, const char *value)
{
    KILN_CHECK_INT(kiln_config_set(p->env.config, knob, value, KILN_ORIGIN_FLAG, NULL), 0);
}

static void place_init(place *p)
{
    size_t length = 0;
    *p = (place){.env = {.allocator = kiln_allocator_default()}, .path = kiln_test_tmpdir()};
    char *bytes = kiln_test_read_file(fixture_plugin_path("evil_none"), &length);
    const char *file = kiln_test_path(p->path, "a.so");
    if (KILN_CHECK(bytes != NULL) && kiln_test_write_file(file, bytes, length)) {
        (void)chmod(file, 0644);
    }
    free(bytes);
    KILN_CHECK_INT(kiln_config_create(&p->env.allocator, NULL, false, &p->env.config, NULL), 0);
    place_set(p, "plugin-path", p->path);
    place_set(p, "plugin-mode", "developer");
}

/// What is said of the folder's plugin.
static const char *look(place *p)
{
    static char reason[1100];
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    kiln_fuse_registry_destroy(p->registry);
    KILN_CHECK_INT(kiln_fuse_registry_create(&p->env, &options, &p->registry, NULL), 0);
    const kiln_fuse_plugin_info *info = kiln_fuse_registry_plugin(p->registry, 0);
    snprintf(reason, sizeof reason, "%s", info != NULL ? info->reason : "no plugin");
    return reason;
}

static void place_fini(place *p)
{
    kiln_fuse_registry_destroy(p->registry);
    kiln_config_destroy(p->env.config);
}

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
    int length = snprintf(text, sizeof text, "# one\n%064d other\n  %s  mine\n", 0, hex);
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

/* Without the knob the list is the user's own, which `kiln plugin allow` writes; none is empty. */
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

/* What is named is allowed by naming it, except where nothing or only signed files are. */
static const char *add_by_name(place *p)
{
    static kiln_error err;
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    place_set(p, "plugin-path", "");
    err = (kiln_error)KILN_ERROR_INIT;
    kiln_fuse_registry_destroy(p->registry);
    KILN_CHECK_INT(kiln_fuse_registry_create(&p->env, &options, &p->registry, NULL), 0);
    kiln_status status = kiln_fuse_registry_add(p->registry, kiln_test_path(p->path, "a.so"), &err);
    place_set(p, "plugin-path", p->path);
    return status == KILN_STATUS_OK ? "taken" : err.message;
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
    place_set(&p, "plugin-mode", "lenient");
    KILN_CHECK_STR(look(&p), "plugin-mode is lenient; off, allowlist, signed and developer are "
                             "known: nothing is allowed");
    KILN_CHECK_CONTAINS(add_by_name(&p), "nothing is allowed");
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    options.shipped_folder = p.path; // what ships is trusted as the library is
    place_set(&p, "plugin-path", "");
    place_set(&p, "plugin-mode", "off");
    kiln_fuse_registry_destroy(p.registry);
    KILN_CHECK_INT(kiln_fuse_registry_create(&p.env, &options, &p.registry, NULL), 0);
    KILN_CHECK_CONTAINS(kiln_fuse_registry_plugin(p.registry, 0)->reason, "taken");
    place_fini(&p);
}

// ---- signatures --------------------------------------------------------------------------------

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
    snprintf(s->file, sizeof s->file, "%s/a.so", s->p.path);
    snprintf(s->signature, sizeof s->signature, "%s/a.so.sig", s->p.path);
    snprintf(s->keys, sizeof s->keys, "%s/keys", s->p.path);
    snprintf(s->secret, sizeof s->secret, "%s/secret.pem", s->p.path);
    snprintf(s->other, sizeof s->other, "%s/other.pem", s->p.path);
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
        snprintf(text + at, sizeof text - at, "%s somebody\n", hex);
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
        "-----BEGIN PRIVATE KEY-----\n"
        "AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKKLLLLMMMMNNNNOOOOPPPP\n"
        "-----END PRIVATE KEY-----\n", // another algorithm's
        "-----BEGIN PRIVATE KEY-----\n"
        "MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"}; // no end
    signing s;
    char hex[65];
    if (!signing_init(&s)) {
        return;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
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
    (void)kiln_test_write_file(s.keys, keys, sizeof keys - 1);
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
    (void)kiln_test_write_file(s.other, rfc, sizeof rfc - 1);
    (void)chmod(s.other, 0600);
    KILN_CHECK_INT(kiln_fuse_key_public(&s.p.env, s.other, hex, &s.err), KILN_STATUS_OK);
    KILN_CHECK_STR(hex, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    if (system("openssl version >/dev/null 2>&1") != 0) {
        kiln_test_skip("no openssl command");
        place_fini(&s.p);
        return;
    }
    (void)unlink(s.other);
    snprintf(command, sizeof command,
             "umask 077; openssl genpkey -algorithm ed25519 -out %s && "
             "openssl pkeyutl -sign -inkey %s -rawin -in %s -out %s",
             s.other, s.other, s.file, s.signature);
    KILN_CHECK_INT(system(command), 0);
    list_keys(&s, s.other, NULL);
    KILN_CHECK_CONTAINS(look(&s.p), "taken");
    KILN_CHECK_INT(kiln_fuse_sign(&s.p.env, s.secret, s.file, &s.err), KILN_STATUS_OK);
    snprintf(command, sizeof command,
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
    session s;
    uint32_t count = 0;
    memset(&s, 0, sizeof s);
    fixture_prepare(&s.f);
    (void)look(p);
    kiln_fuse_registry *registry = p->registry;
    s.f.registry = registry;
    make_engine(&s);
    const kiln_fuse_segment *segment = record(&s);
    count = segment->plan->n_blocks;
    if (count > 0) {
        *out_key = segment->plan->blocks[0].program->key;
    }
    fixture_done(&s.f, segment);
    s.f.registry = NULL;
    fixture_close(&s.f);
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
    KILN_CHECK_STR(look(&p), "taken: 1 fuser, fuser ABI 1.0; fuser evil: denied by the list of "
                             "plugins");
    KILN_CHECK_INT(blocks_with(&p, &other), 0);
    place_set(&p, "plugins", "-test.hostile-kernel/another");
    KILN_CHECK_INT(blocks_with(&p, &other), 1);
    kiln_hash_hex(key, hex);
    snprintf(text, sizeof text, "-test.hostile-kernel/evil/%.10s", hex);
    place_set(&p, "plugins", text);
    uint32_t left = blocks_with(&p, &other); // a shorter block may take its place
    KILN_CHECK(left == 0 || other.low != key.low || other.high != key.high);
    place_set(&p, "plugins", "-test.hostile-kernel");
    KILN_CHECK_STR(look(&p), "denied by the list of plugins");
    place_set(&p, "plugins", "off");
    KILN_CHECK_STR(look(&p), "plugins are switched off");
    snprintf(text, sizeof text, "-%.150s/", p.path);
    place_set(&p, "plugins", text);
    KILN_CHECK_STR(look(&p), "its folder is denied by the list of plugins");
    text[strlen(text) - 2] = 0; // another folder, whose name this one's begins with
    place_set(&p, "plugins", text);
    KILN_CHECK_CONTAINS(look(&p), "taken");
    place_fini(&p);
}

// ---- claims ------------------------------------------------------------------------------------

typedef struct claim {
    const char *name;
    uint32_t blocks;
} claim;

/* A claim is worth what the host can believe of it: never less than the bytes take, never more. */
static void test_claims(void)
{
    static const claim claims[] = {{"evil_none", 1},           {"evil_zero_claim", 1},
                                   {"evil_negative_claim", 1}, {"evil_overflowing_claim", 1},
                                   {"evil_huge_claim", 0},     {"evil_null_source", 0},
                                   {"evil_impure", 1}};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        const char *const names[] = {claims[i].name, NULL};
        session s;
        memset(&s, 0, sizeof s);
        if (fixture_open(&s.f, names)) {
            const kiln_fuse_segment *segment = record(&s);
            if (segment->plan->n_blocks != claims[i].blocks) {
                KILN_FAIL("%s: %u blocks", claims[i].name, segment->plan->n_blocks);
            } else if (claims[i].blocks > 0) {
                const kiln_plan_block *block = &segment->plan->blocks[0];
                double least = 2.0 * 4 * 100000 / 10 + 5000; // bytes at 10 a nanosecond, one launch
                KILN_CHECK_NEAR((double)block->predicted_ns, least, 1);
            }
            if (strcmp(claims[i].name, "evil_zero_claim") == 0) { // what was claimed is shown
                kiln_string text;
                kiln_string_init(&text, &s.f.env);
                KILN_CHECK_INT(kiln_fuse_explain(s.f.engine, segment, 0, &text, NULL), 0);
                KILN_CHECK_CONTAINS(text.text, "(claims 0.0)");
                kiln_string_fini(&text);
            }
            fixture_done(&s.f, segment);
        }
        fixture_close(&s.f);
    }
}

int main(int argc, char **argv)
{
    enum { SCANS = sizeof scans / sizeof scans[0] };
    static const kiln_test_case others[] = {
        KILN_TEST(test_a_crash_while_loading),
        KILN_TEST(test_a_crash_while_planning),
        KILN_TEST(test_a_crash_in_an_operator),
        KILN_TEST(test_no_crash_no_blame),
        KILN_TEST(test_a_build_is_forgiven_once),
        KILN_TEST(test_no_helper_no_scan),
        KILN_TEST(test_three_strikes_in_three_processes),
        KILN_TEST(test_a_banned_program_stays_banned),
        KILN_TEST(test_damaged_records),
        KILN_TEST(test_list_of_allowed_files),
        KILN_TEST(test_links_to_open_folders),
        KILN_TEST(test_default_list),
        KILN_TEST(test_modes),
        KILN_TEST(test_signatures),
        KILN_TEST(test_damaged_signatures),
        KILN_TEST(test_damaged_keys),
        KILN_TEST(test_signatures_of_openssl),
        KILN_TEST(test_sha256),
        KILN_TEST(test_owners),
        KILN_TEST(test_switches),
        KILN_TEST(test_claims),
    };
    enum { OTHERS = sizeof others / sizeof others[0] };
    kiln_test_case cases[SCANS + OTHERS];
    for (size_t i = 0; i < SCANS; i++) {
        cases[i] = (kiln_test_case){scans[i].name, test_scan, &scans[i]};
    }
    memcpy(cases + SCANS, others, sizeof others);
    return kiln_test_run("unit/fusion_host/plugin_state", cases, SCANS + OTHERS, argc, argv);
}
