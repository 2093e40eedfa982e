// SPDX-License-Identifier: MIT OR Apache-2.0
// What one process learns of a plugin and the next one knows: a scan in a process of its own, calls
// that ended a process, failures of fusers; and how all of it is forgotten. The plugins are those
// of tests/plugins/hostile.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin_scene.h"

typedef struct session { ///< a process's registry
    fuse_fixture f;
    kiln_error err;
} session;

static bool begin_with(session *s, const char *folder, const char *scan_helper, uint32_t limit_ms)
{
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    memset(s, 0, sizeof(*s));
    fixture_prepare(&s->f);
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

// ---- the crash marker ----

/* Plans a segment and tells what its programs took; what was measured before in this store is not
 * measured again. */
static void plan_and_measure(session *s, const char *store, uint32_t search_ms)
{
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    uint64_t ns[KILN_FUSE_MAX_CONTENDERS];
    options.search_ms = search_ms;
    if (kiln_store_open(&s->f.env, store, &options.store, &s->err) != KILN_STATUS_OK ||
        kiln_fuse_engine_create(s->f.registry, &s->f.device, &options, &s->f.engine, &s->err) !=
            KILN_STATUS_OK ||
        kiln_fuse_stream_create(s->f.engine, false, &s->f.stream, &s->err) != KILN_STATUS_OK) {
        return;
    }
    const kiln_fuse_segment *segment = record_segment(&s->f);
    for (uint32_t i = 0; i < KILN_FUSE_MAX_CONTENDERS; i++) {
        ns[i] = 1000;
    }
    if (kiln_fuse_contenders(s->f.engine, segment->plan, 0, known, KILN_FUSE_MAX_CONTENDERS) > 0) {
        kiln_fuse_settle(s->f.engine, segment->plan, 0, segment->symbols, ns, 100000);
    }
}

/* A process that ends inside the plugin. */
static void crash(const char *folder, const char *name)
{
    const char *store = kiln_test_tmpdir();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        session s;
        if (begin(&s, folder) && load(&s, name) == KILN_STATUS_OK) {
            plan_and_measure(&s, store, 0);
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

static void test_a_wild_pointer_in_a_claim(void)
{
    check_crash("evil_wild_claim", "a process ended in builder_state");
}

static void test_a_wild_pointer_in_the_claims_of_variants(void)
{
    check_crash("evil_wild_variants", "a process ended in builder_finish");
}

static void test_a_crash_while_told_what_was_measured(void)
{
    check_crash("evil_crashes_in_measured", "a process ended in fuser_measured");
}

static void test_a_wild_pointer_for_the_store(void)
{
    check_crash("evil_wild_store", "a process ended in fuser_measured");
}

/* Calls the rule of an operator that crashes. */
static void call_rule(session *s)
{
    static const char name[] = "bad::crashes";
    const kiln_custom_op *op = NULL;
    kiln_tensor_desc x = {.id = 1, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {4}}, y = {.id = 2};
    kiln_attr attrs[] = {{KILN_ATTR_STRING, sizeof(name) - 1, {.text = name}},
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
            make_engine(&mine.f);
            (void)record_segment(&mine.f);
        }
        (void)kill(getpid(), SIGKILL);
    }
    KILN_CHECK_INT(waitpid(child, NULL, 0), child);
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        kilni_fuse_crash_record_mark(s.f.registry->plugins[0], 0,
                                     KILNI_FUSE_CALL_FUSE); // in a call now
        if (begin(&other, folder)) {
            KILN_CHECK_INT(load(&other, "evil_none"), KILN_STATUS_OK);
        }
        finish(&other);
    }
    finish(&s);
}

static void test_who_is_interrupted_is_not_to_blame(void)
{
    const char *folder = kiln_test_tmpdir();
    for (int interrupted = 1; interrupted >= 0; interrupted--) {
        session s;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            session mine;
            if (begin(&mine, folder) && load(&mine, "evil_none") == KILN_STATUS_OK) {
                kilni_fuse_crash_record_mark(mine.f.registry->plugins[0], 1, KILNI_FUSE_CALL_FUSE);
                if (interrupted) {
                    kiln_fuse_registry_interrupted(mine.f.registry);
                }
            }
            (void)kill(getpid(), SIGKILL);
        }
        KILN_CHECK_INT(waitpid(child, NULL, 0), child);
        if (begin(&s, folder)) {
            KILN_CHECK_INT(load(&s, "evil_none"),
                           interrupted ? KILN_STATUS_OK : KILN_STATUS_FAILED_PRECONDITION);
        }
        finish(&s);
    }
}

/* An engine whose searches may take so many milliseconds plans what the fuser answers at the third
 * operation. */
static void plan_within(session *s, uint32_t search_ms)
{
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.search_ms = search_ms;
    KILN_CHECK_INT(
        kiln_fuse_engine_create(s->f.registry, &s->f.device, &options, &s->f.engine, &s->err), 0);
    KILN_CHECK_INT(kiln_fuse_stream_create(s->f.engine, false, &s->f.stream, &s->err), 0);
    fixture_done(&s->f, record_segment(&s->f));
}

static kiln_fuse_registry *interrupted_registry;

static void interrupt(int number)
{
    (void)number;
    kiln_fuse_registry_interrupted(interrupted_registry);
    (void)kill(getpid(), SIGKILL);
}

/* A call of a fuser hangs and the user ends the process after 200 ms of computing, nearly all of it
 * in that call. It is the fuser's fault when that is more than planning may take. */
static void check_hang(const char *name, const char *said)
{
    static const uint32_t limits_ms[] = {60000, 50};
    const char *folder = kiln_test_tmpdir();
    for (size_t i = 0; i < 2; i++) {
        session s;
        const char *store = kiln_test_tmpdir();
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            session mine;
            const struct itimerval soon = {.it_value = {.tv_usec = 200000}};
            if (begin(&mine, folder) && load(&mine, name) == KILN_STATUS_OK) {
                interrupted_registry = mine.f.registry;
                (void)signal(SIGPROF, interrupt);
                (void)setitimer(ITIMER_PROF, &soon, NULL);
                plan_and_measure(&mine, store, limits_ms[i]);
            }
            _exit(0);
        }
        int status = 0;
        KILN_CHECK_INT(waitpid(child, &status, 0), child);
        KILN_CHECK(WIFSIGNALED(status));
        if (begin(&s, folder)) {
            KILN_CHECK_INT(load(&s, name),
                           i == 0 ? KILN_STATUS_OK : KILN_STATUS_FAILED_PRECONDITION);
            KILN_CHECK(i == 0 || strstr(s.err.message, said) != NULL);
        }
        finish(&s);
    }
}

static void test_a_fuser_that_hangs(void)
{
    check_hang("evil_loops_late", "a process ended in builder_fuse");
}

static void test_a_fuser_that_hangs_when_told_what_was_measured(void)
{
    check_hang("evil_loops_in_measured", "a process ended in fuser_measured");
}

static bool is_cancelled(const kiln_fuse_engine *engine)
{
    bool any = false;
    for (uint32_t i = 0; i < engine->n_hosts; i++) {
        const kf_host *host = &engine->hosts[i]->abi;
        any = any || host->cancelled(host) != 0;
    }
    return any;
}

/* One that asks whether it is cancelled hears so in time, and no more once planning is over. */
static void test_a_fuser_that_is_cancelled(void)
{
    session s;
    uint64_t start = kiln_time_ns();
    if (begin(&s, kiln_test_tmpdir()) &&
        KILN_CHECK_INT(load(&s, "evil_loops_until_cancelled"), KILN_STATUS_OK)) {
        plan_within(&s, 50);
        KILN_CHECK(kiln_time_ns() - start > UINT64_C(50000000));
        KILN_CHECK(s.f.engine->n_hosts > 0 && !is_cancelled(s.f.engine));
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
                kilni_fuse_crash_record_mark(mine.f.registry->plugins[0], 1, KILNI_FUSE_CALL_BUILD);
            }
            (void)kill(getpid(), SIGKILL);
        }
        KILN_CHECK_INT(waitpid(child, NULL, 0), child);
        finish(&s);
    }
}

// ---- the scan ----

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
        const char *by = round == 0 ? plugin_scan_helper : "/nowhere/helper";
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

// ---- failures of fusers ----

static void strike(const char *folder, const char *reason)
{
    session s;
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        make_engine(&s.f);
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
        make_engine(&s.f);
        const kiln_fuse_segment *segment = record_segment(&s.f);
        KILN_CHECK_INT(segment->plan->n_blocks, 1);
        fixture_done(&s.f, segment);
        KILN_CHECK_STR(kiln_fuse_registry_plugin(s.f.registry, 0)->reason,
                       "taken: 1 fuser, fuser ABI 1.1");
    }
    finish(&s);
    strike(folder, "three\nlines");
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(kiln_fuse_registry_plugin(s.f.registry, 0)->reason,
                            "fuser evil: put away after 3 failures, the last: three lines (`kiln "
                            "plugin reset test.hostile-kernel`)");
        make_engine(&s.f);
        const kiln_fuse_segment *segment = record_segment(&s.f);
        KILN_CHECK_INT(segment->plan->n_blocks, 0);
        fixture_done(&s.f, segment);
    }
    finish(&s);
    KILN_CHECK_INT(kiln_fuse_registry_reset(folder, NULL), 1);
    if (begin(&s, folder)) {
        KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
        make_engine(&s.f);
        const kiln_fuse_segment *segment = record_segment(&s.f);
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
        make_engine(&s.f);
        const kiln_fuse_segment *segment = record_segment(&s.f);
        KILN_CHECK_INT(segment->plan->n_blocks, 1);
        key = segment->plan->blocks[0].program->key;
        (void)kiln_fail(&cause, DATA_LOSS, "wrong result");
        (void)kiln_fuse_block_failed(s.f.engine, &segment->plan->blocks[0], &cause);
        fixture_done(&s.f, segment);
    }
    finish(&s);
    for (int round = 0; round < 2; round++) {
        if (begin(&s, folder)) {
            KILN_CHECK_INT(load(&s, "evil_none"), KILN_STATUS_OK);
            make_engine(&s.f);
            const char *failure = kilni_fuse_program_failure(s.f.engine, key);
            KILN_CHECK((failure != NULL) == (round == 0));
            KILN_CHECK(failure == NULL || strcmp(failure, "wrong result") == 0);
        }
        finish(&s);
        (void)kiln_fuse_registry_reset(folder, NULL);
    }
}

// ---- records ----

/* Whatever stands in a record, it is read without harm. */
static void test_damaged_records(void)
{
    const char *folder = kiln_test_tmpdir();
    kiln_hash128 hash = {1, 2};
    char hex[33], name[48], bytes[400];
    kilni_fuse_record written = {.id = "an.id", .scanned = true, .ended = 1}, read;
    snprintf(written.ended_in, sizeof(written.ended_in), "loading");
    snprintf(written.scan_fault, sizeof(written.scan_fault), "why");
    written.strikes[63].count = 2;
    snprintf(written.strikes[63].reason, sizeof(written.strikes[63].reason), "because");
    kiln_hash_hex(hash, hex);
    for (int i = 0; i < KILNI_FUSE_MAX_BANS + 3; i++) {
        kilni_fuse_record_ban(&written, hex, "no\ngood");
    }
    for (int i = 0; i < KILNI_FUSE_MAX_BANS; i++) {
        KILN_CHECK_STR(written.bans[i].reason, "no");
    }
    KILN_CHECK(kilni_fuse_record_write(folder, hex, &written));
    KILN_CHECK(kilni_fuse_record_read(folder, hex, &read));
    KILN_CHECK_MEM(&read, &written, sizeof(read));
    snprintf(name, sizeof(name), "%s.txt", hex);
    const char *path = kiln_test_path(folder, name);
    uint64_t random = 7;
    for (int i = 0; i < 500; i++) {
        size_t length = (size_t)snprintf(bytes, sizeof(bytes), "%s",
                                         "kiln plugin record 1\nid x\nscan failed y\nended 1 z\n"
                                         "strikes 1 2 r\nstrikes 99999999999 5 q\n"
                                         "banned 0123456789abcdef0123456789abcdef s\n");
        for (int k = 0; k < 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[random % length] = (char)(random >> 40);
        }
        if (kiln_test_write_file(path, bytes, length)) {
            (void)kilni_fuse_record_read(folder, hex, &read);
            KILN_CHECK(memchr(read.id, 0, sizeof(read.id)) != NULL);
        }
    }
}

enum { CHANGES = 60 };
static const char some_hash[] = "0123456789abcdef0123456789abcdef";

static void *change_often(void *user)
{
    for (int i = 0; i < CHANGES; i++) {
        kilni_fuse_record record;
        int lock = kilni_fuse_record_begin(&(kiln_env){0}, user, some_hash, &record);
        record.ended++;
        snprintf(record.ended_in, sizeof(record.ended_in), "a call");
        KILN_CHECK(kilni_fuse_record_end(lock, user, some_hash, &record));
    }
    return NULL;
}

static void *write_often(void *user)
{
    const kilni_fuse_record record = {.id = "an.id"};
    for (int i = 0; i < CHANGES; i++) {
        KILN_CHECK(kilni_fuse_record_write(user, some_hash, &record));
    }
    return NULL;
}

/// Threads that go on without the lock write a whole record each.
static void test_writes_at_once(void)
{
    enum { THREADS = 3 };
    char *folder = (char *)(uintptr_t)kiln_test_tmpdir();
    pthread_t threads[THREADS];
    kilni_fuse_record record;
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, write_often, folder);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    KILN_CHECK(kilni_fuse_record_read(folder, some_hash, &record));
    KILN_CHECK_STR(record.id, "an.id");
}

/// Of what several threads and processes remember at once nothing is lost.
static void test_changes_at_once(void)
{
    enum { THREADS = 3 };
    char *folder = (char *)(uintptr_t)kiln_test_tmpdir();
    pthread_t threads[THREADS];
    kilni_fuse_record record;
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        (void)change_often(folder);
        _exit(0);
    }
    for (int i = 0; i < THREADS; i++) {
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, change_often, folder), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    KILN_CHECK(waitpid(child, &status, 0) == child && status == 0);
    KILN_CHECK(kilni_fuse_record_read(folder, some_hash, &record));
    KILN_CHECK_INT(record.ended, (THREADS + 1) * CHANGES);
}

/* A process that hangs with the lock holds up nobody for long. */
static void test_a_held_lock_is_not_waited_for_long(void)
{
    const char *folder = kiln_test_tmpdir();
    kilni_fuse_record record;
    kiln_env env = {.allocator = kiln_allocator_default()};
    uint64_t start = kiln_time_ns();
    int held = kilni_fuse_record_begin(&env, folder, some_hash, &record);
    KILN_CHECK(held >= 0);
    int lock = kilni_fuse_record_begin(&env, folder, some_hash, &record);
    record.ended = 7;
    KILN_CHECK(kilni_fuse_record_end(lock, folder, some_hash, &record));
    KILN_CHECK(kiln_time_ns() - start < UINT64_C(30000000000));
    KILN_CHECK(kilni_fuse_record_read(folder, some_hash, &record));
    KILN_CHECK_INT(record.ended, 7);
    KILN_CHECK(kilni_fuse_record_end(held, folder, some_hash, &record));
}

int main(int argc, char **argv)
{
    enum { SCANS = sizeof(scans) / sizeof(scans[0]) };
    static const kiln_test_case others[] = {
        KILN_TEST(test_a_crash_while_loading),
        KILN_TEST(test_a_crash_while_planning),
        KILN_TEST(test_a_wild_pointer_in_a_claim),
        KILN_TEST(test_a_wild_pointer_in_the_claims_of_variants),
        KILN_TEST(test_a_crash_while_told_what_was_measured),
        KILN_TEST(test_a_wild_pointer_for_the_store),
        KILN_TEST(test_a_crash_in_an_operator),
        KILN_TEST(test_no_crash_no_blame),
        KILN_TEST(test_who_is_interrupted_is_not_to_blame),
        KILN_TEST(test_a_fuser_that_hangs),
        KILN_TEST(test_a_fuser_that_hangs_when_told_what_was_measured),
        KILN_TEST(test_a_fuser_that_is_cancelled),
        KILN_TEST(test_a_build_is_forgiven_once),
        KILN_TEST(test_no_helper_no_scan),
        KILN_TEST(test_three_strikes_in_three_processes),
        KILN_TEST(test_a_banned_program_stays_banned),
        KILN_TEST(test_damaged_records),
        KILN_TEST(test_writes_at_once),
        KILN_TEST(test_changes_at_once),
        KILN_TEST(test_a_held_lock_is_not_waited_for_long),
    };
    enum { OTHERS = sizeof(others) / sizeof(others[0]) };
    kiln_test_case cases[SCANS + OTHERS];
    for (size_t i = 0; i < SCANS; i++) {
        cases[i] = (kiln_test_case){scans[i].name, test_scan, &scans[i]};
    }
    memcpy(cases + SCANS, others, sizeof(others));
    return kiln_test_run("unit/fusion_host/plugin_state", cases, SCANS + OTHERS, argc, argv);
}
