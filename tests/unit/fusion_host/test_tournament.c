// SPDX-License-Identifier: MIT OR Apache-2.0
// What was measured wins over what was claimed: a liar is demoted, here and in other programs, a
// candidate that failed loses, load order never matters, and a second process measures nothing.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fuse_fixture.h"

typedef struct process { ///< one engine on a store
    fuse_fixture f;
    kiln_store *store;
    kiln_fuse_engine *engine;
    kiln_fuse_stream *stream;
    kiln_fuse_stream *own;
} process;

static void (*twist)(fuse_fixture *f); ///< what is different from the first process

static bool open(process *p, const char *const *plugins, const char *folder, bool deterministic,
                 const char *driver)
{
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    memset(p, 0, sizeof(*p));
    if (!fixture_open(&p->f, plugins)) {
        return false;
    }
    KILN_CHECK_INT(kiln_config_create(&p->f.env.allocator, NULL, false, &p->f.env.config, NULL), 0);
    KILN_CHECK_INT(kiln_config_set(p->f.env.config, "deterministic", deterministic ? "1" : "0",
                                   KILN_ORIGIN_FLAG, NULL),
                   0);
    p->f.device.driver = driver != NULL ? driver : p->f.device.driver;
    if (twist != NULL) {
        twist(&p->f);
    }
    if (folder != NULL) {
        KILN_CHECK_INT(kiln_store_open(&p->f.env, folder, &p->store, NULL), KILN_STATUS_OK);
    }
    options.store = p->store;
    KILN_CHECK_INT(kiln_fuse_engine_create(p->f.registry, &p->f.device, &options, &p->engine, NULL),
                   0);
    KILN_CHECK_INT(kiln_fuse_stream_create(p->engine, false, &p->stream, NULL), 0);
    p->own = p->f.stream;
    p->f.stream = p->stream;
    return true;
}

static void close_process(process *p)
{
    p->f.stream = p->own;
    kiln_fuse_stream_destroy(p->stream);
    kiln_fuse_engine_destroy(p->engine);
    kiln_store_close(p->store);
    kiln_config_destroy(p->f.env.config);
    p->f.env.config = NULL;
    fixture_close(&p->f);
}

static const kiln_fuse_segment *record(process *p, int64_t length)
{
    kiln_tensor_desc a = fixture_vector(&p->f, length);
    kiln_tensor_desc b = fixture_scalar_op(&p->f, KILN_OP_ADD_SCALAR, &a, 2.5);
    kiln_tensor_desc c = fixture_op(&p->f, KILN_OP_EXP, &b, NULL);
    fixture_drop(&p->f, &b);
    (void)fixture_op(&p->f, KILN_OP_ADD, &c, &a);
    fixture_drop(&p->f, &c);
    return fixture_next(&p->f, true);
}

/// Who has the segment's block; "" when its operations run unfused.
static const char *winner(const kiln_fuse_segment *segment)
{
    return segment->plan->n_blocks == 0 ? "" : segment->plan->blocks[0].fuser;
}

typedef struct figure {
    const char *fuser;
    uint64_t ns;
} figure;

/// Tells what the contenders took, found by name; gives how many there were.
static uint32_t settle(process *p, const kiln_fuse_segment *segment, const figure *figures,
                       uint64_t unfused_ns)
{
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    uint64_t ns[KILN_FUSE_MAX_CONTENDERS] = {0};
    uint32_t count =
        kiln_fuse_contenders(p->engine, segment->plan, 0, known, KILN_FUSE_MAX_CONTENDERS);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; figures[k].fuser != NULL; k++) {
            ns[i] = strcmp(known[i].fuser, figures[k].fuser) == 0 ? figures[k].ns : ns[i];
        }
    }
    if (count > 0) {
        kiln_fuse_settle(p->engine, segment->plan, 0, segment->symbols, ns, unfused_ns);
    }
    return count;
}

enum { LENGTH = 1 << 18, OTHER = 2 * LENGTH + 3 }; // long enough to learn from

static const char *const both[] = {"chain_fast", "chain_slow", NULL};
static const char *const turned[] = {"chain_slow", "chain_fast", NULL};
// The host's own figure for the operations unfused is met, so a claim is all that can be wrong.
static const figure fast_lies[] = {{"test.fast/chain", 5000000}, {"test.slow/chain", 500000}, {0}};

static void test_a_liar_is_demoted(void)
{
    process p;
    if (!open(&p, both, NULL, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    KILN_CHECK_STR(winner(s), "test.fast/chain");
    KILN_CHECK_INT(settle(&p, s, fast_lies, s->plan->blocks[0].baseline_ns), 2);
    fixture_done(&p.f, s);
    s = record(&p, LENGTH);
    KILN_CHECK_STR(winner(s), "test.slow/chain");
    KILN_CHECK_INT(settle(&p, s, fast_lies, 1), 0); // settled
    kiln_string text;
    kiln_string_init(&text, &p.f.env);
    KILN_CHECK_INT(kiln_fuse_explain(p.engine, s, 0, &text, NULL), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(text.text, "measured 5000.0 us");
    KILN_CHECK_CONTAINS(text.text, "measured 500.0 us");
    KILN_CHECK_CONTAINS(text.text, "900 % slower");
    kiln_string_fini(&text);
    fixture_done(&p.f, s);
    s = record(&p, OTHER); // another program: nothing was measured, but the claim is not believed
    KILN_CHECK_STR(winner(s), "test.slow/chain");
    fixture_done(&p.f, s);
    close_process(&p);
}

/// Of a short block the host's wait was measured: that the claim was less is nobody's fault.
static void test_short_blocks_teach_nothing(void)
{
    enum { SHORT = 4096 };
    const figure waits[] = {{"test.fast/chain", 60000}, {"test.slow/chain", 61000}, {0}};
    process p;
    if (!open(&p, both, NULL, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, SHORT);
    KILN_CHECK_INT(settle(&p, s, waits, 70000), 2);
    fixture_done(&p.f, s);
    s = record(&p, SHORT + 3);
    KILN_CHECK_STR(winner(s), "test.fast/chain"); // its claim is believed as before
    fixture_done(&p.f, s);
    close_process(&p);
}

static void test_load_order_never_changes_the_winner(void)
{
    for (int order = 0; order < 2; order++) {
        const figure ties[] = {{"test.fast/chain", 9000}, {"test.slow/chain", 8900}, {0}};
        process p;
        if (!open(&p, order == 0 ? both : turned, NULL, false, NULL)) {
            return;
        }
        const kiln_fuse_segment *s = record(&p, LENGTH);
        KILN_CHECK_INT(settle(&p, s, ties, 100000), 2);
        fixture_done(&p.f, s);
        s = record(&p, LENGTH);
        KILN_CHECK_STR(winner(s), "test.fast/chain"); // a hair is no reason
        fixture_done(&p.f, s);
        s = record(&p, OTHER);
        KILN_CHECK_INT(settle(&p, s, fast_lies, 1000000), 2);
        fixture_done(&p.f, s);
        s = record(&p, OTHER);
        KILN_CHECK_STR(winner(s), "test.slow/chain");
        fixture_done(&p.f, s);
        close_process(&p);
    }
}

/// A fuser's variants are measured like rivals, with the claim of the first; the faster one runs.
static void test_variants_compete(void)
{
    static const char *const variants[] = {"chain_variants", NULL};
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    const uint64_t second_wins[] = {50000, 9000};
    process p;
    if (!open(&p, variants, NULL, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    KILN_CHECK_INT(kiln_fuse_contenders(p.engine, s->plan, 0, known, KILN_FUSE_MAX_CONTENDERS), 2);
    KILN_CHECK(known[0].chosen && !known[1].chosen);
    kiln_hash128 second = known[1].program->key;
    KILN_CHECK_INT(kiln_fuse_plan_outdone(s->plan), false);
    kiln_fuse_settle(p.engine, s->plan, 0, s->symbols, second_wins, 100000);
    KILN_CHECK_INT(kiln_fuse_plan_outdone(s->plan), true);
    fixture_done(&p.f, s);
    s = record(&p, LENGTH);
    KILN_CHECK_STR(winner(s), "test.variants/chain");
    KILN_CHECK(s->plan->n_blocks == 1 &&
               memcmp(&s->plan->blocks[0].program->key, &second, sizeof(second)) == 0);
    kiln_string text;
    kiln_string_init(&text, &p.f.env);
    KILN_CHECK_INT(kiln_fuse_explain(p.engine, s, 0, &text, NULL), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(text.text, "measured 9.0 us");
    kiln_string_fini(&text);
    fixture_done(&p.f, s);
    close_process(&p);
}

/// The winner's name and whether it is its fuser's first program, as in "test.with-claims/chain 2".
static void find_winner_of(const char *const *plugins, char *out, size_t capacity)
{
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    process p;
    snprintf(out, capacity, "nobody");
    if (!open(&p, plugins, NULL, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    uint32_t count = kiln_fuse_contenders(p.engine, s->plan, 0, known, KILN_FUSE_MAX_CONTENDERS);
    uint32_t number = 0;
    for (uint32_t i = 0; i < count; i++) {
        number += strcmp(known[i].fuser, winner(s)) == 0;
        if (known[i].chosen) {
            snprintf(out, capacity, "%s %u", winner(s), number);
        }
    }
    fixture_done(&p.f, s);
    close_process(&p);
}

/// What each variant claims is compared, with others' claims too. One whose claim says nothing is
/// left out.
static void test_variants_have_claims_of_their_own(void)
{
    static const char *const alone[] = {"chain_claims", NULL};
    static const char *const others[] = {"chain_slow", "chain_claims", NULL};
    static const char *const wrong[] = {"chain_slow", "chain_claims_wrong", NULL};
    static const char *const only_wrong[] = {"chain_claims_wrong", NULL};
    char found[96];
    find_winner_of(alone, found, sizeof(found));
    KILN_CHECK_STR(found, "test.with-claims/chain 2");
    find_winner_of(others, found, sizeof(found));
    KILN_CHECK_STR(found, "test.with-claims/chain 2");
    find_winner_of(wrong, found, sizeof(found));
    KILN_CHECK_STR(found, "test.slow/chain 1");
    find_winner_of(only_wrong, found, sizeof(found));
    KILN_CHECK_STR(found, "test.wrong-claims/chain 1");
}

/// A guess that is a little better than a model's claim is not taken to be; plugins of 1.0 that
/// said nothing meant no guess. Where claims are equal, the surer one counts.
static void test_confidence_counts(void)
{
    static const char *const guess[] = {"chain_slow", "chain_guess", NULL};
    static const char *const silent[] = {"chain_slow", "chain_silent", NULL};
    static const char *const equal[] = {"chain_equal_a", "chain_sure", NULL};
    static const char *const alone[] = {"chain_guess", NULL};
    char found[96];
    find_winner_of(guess, found, sizeof(found));
    KILN_CHECK_STR(found, "test.slow/chain 1");
    find_winner_of(silent, found, sizeof(found));
    KILN_CHECK_STR(found, "test.wordless/chain 1");
    find_winner_of(equal, found, sizeof(found));
    KILN_CHECK_STR(found, "test.sure/chain 1");
    find_winner_of(alone, found, sizeof(found));
    KILN_CHECK_STR(found, "test.a-guess/chain 1");
}

/// What chain_learns claims for a block in a new process, and plans that were found on disk. With
/// `measured_ns` the block is measured then.
static uint64_t claim_of_learner(const char *folder, bool deterministic, int64_t length,
                                 uint64_t measured_ns, uint64_t *out_loaded)
{
    static const char *const learner[] = {"chain_learns", NULL};
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    kiln_fuse_stats stats;
    process p;
    if (!open(&p, learner, folder, deterministic, NULL)) {
        return 0;
    }
    const kiln_fuse_segment *s = record(&p, length);
    uint32_t count = kiln_fuse_contenders(p.engine, s->plan, 0, known, KILN_FUSE_MAX_CONTENDERS);
    KILN_CHECK_INT(count, 1);
    kiln_fuse_engine_stats(p.engine, &stats);
    *out_loaded = stats.plans_loaded;
    if (measured_ns != 0 && count == 1) {
        kiln_fuse_settle(p.engine, s->plan, 0, s->symbols, &measured_ns, 10 * measured_ns);
    }
    fixture_done(&p.f, s);
    close_process(&p);
    return known[0].predicted_ns;
}

/// Times go back to the fuser, for plans from disk as well, and it finds them again in the cache.
static void test_fusers_learn_what_was_measured(void)
{
    enum { THIRD = 5 * LENGTH + 7, MEASURED = 777000 };
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "learns");
    const char *elsewhere = kiln_test_path(kiln_test_tmpdir(), "learns-not");
    uint64_t loaded = 0;
    uint64_t model = claim_of_learner(folder, false, LENGTH, 0, &loaded);
    KILN_CHECK(model != 0 && model != MEASURED && loaded == 0);
    KILN_CHECK_INT(claim_of_learner(folder, false, LENGTH, MEASURED, &loaded), model);
    KILN_CHECK_INT(loaded, 1);
    KILN_CHECK_INT(claim_of_learner(folder, false, OTHER, 0, &loaded), MEASURED);
    KILN_CHECK(claim_of_learner(folder, true, THIRD, 0, &loaded) != MEASURED);
    KILN_CHECK(claim_of_learner(elsewhere, false, OTHER, MEASURED, &loaded) != MEASURED);
}

static void test_what_failed_loses(void)
{
    const figure failed[] = {{"test.fast/chain", 0}, {"test.slow/chain", 9000}, {0}};
    const figure both_failed[] = {{0}};
    process p;
    if (!open(&p, both, NULL, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    KILN_CHECK_INT(settle(&p, s, failed, 100000), 2);
    fixture_done(&p.f, s);
    s = record(&p, LENGTH);
    KILN_CHECK_STR(winner(s), "test.slow/chain");
    fixture_done(&p.f, s);
    s = record(&p, OTHER);
    KILN_CHECK_INT(settle(&p, s, both_failed, 100000), 2);
    fixture_done(&p.f, s);
    s = record(&p, OTHER);
    KILN_CHECK_STR(winner(s), "");
    fixture_done(&p.f, s);
    close_process(&p);
}

static void test_operations_alone_can_win(void)
{
    const figure slow[] = {{"test.fast/chain", 90000}, {"test.slow/chain", 80000}, {0}};
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "alone");
    for (int run = 0; run < 2; run++) {
        process p;
        if (!open(&p, both, folder, false, NULL)) {
            return;
        }
        const kiln_fuse_segment *s = record(&p, LENGTH);
        if (run == 0) {
            KILN_CHECK_INT(settle(&p, s, slow, 20000), 2);
            fixture_done(&p.f, s);
            s = record(&p, LENGTH);
        }
        KILN_CHECK_STR(winner(s), "");
        kiln_string text;
        kiln_string_init(&text, &p.f.env);
        KILN_CHECK_INT(kiln_fuse_explain(p.engine, s, 0, &text, NULL), KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(text.text, "slower than its");
        kiln_string_fini(&text);
        fixture_done(&p.f, s);
        close_process(&p);
    }
}

static void set_fuse_slower(fuse_fixture *f)
{
    KILN_CHECK_INT(kiln_config_set(f->env.config, "fuse-slower", "1", KILN_ORIGIN_FLAG, NULL), 0);
}

/// For tests of fusers: the fastest of them wins, however fast its operations are.
static void test_fuse_slower(void)
{
    const figure slow[] = {{"test.fast/chain", 90000}, {"test.slow/chain", 80000}, {0}};
    process p;
    twist = set_fuse_slower;
    bool opened = open(&p, both, NULL, false, NULL);
    twist = NULL;
    if (!opened) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    KILN_CHECK_INT(settle(&p, s, slow, 20000), 2);
    fixture_done(&p.f, s);
    s = record(&p, LENGTH);
    KILN_CHECK_STR(winner(s), "test.slow/chain");
    fixture_done(&p.f, s);
    close_process(&p);
}

/// The winner that a process finds on its first run, and what the engine counted.
static void second(const char *const *plugins, const char *folder, bool deterministic,
                   const char *driver, int64_t length, char *out, size_t capacity,
                   kiln_fuse_stats *stats)
{
    process p;
    *stats = (kiln_fuse_stats){0};
    if (!open(&p, plugins, folder, deterministic, driver)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, length);
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    uint32_t open_tournaments =
        s->plan->n_blocks == 0 ? 0 : kiln_fuse_contenders(p.engine, s->plan, 0, known, 8);
    snprintf(out, capacity, "%s %u", winner(s), open_tournaments);
    fixture_done(&p.f, s);
    kiln_fuse_engine_stats(p.engine, stats);
    close_process(&p);
}

static void test_a_second_process_measures_nothing(void)
{
    char found[96];
    kiln_fuse_stats stats;
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "winners");
    process p;
    if (!open(&p, both, folder, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    KILN_CHECK_INT(settle(&p, s, fast_lies, s->plan->blocks[0].baseline_ns), 2);
    fixture_done(&p.f, s);
    close_process(&p);
    second(both, folder, false, NULL, LENGTH, found, sizeof(found), &stats);
    KILN_CHECK_STR(found, "test.slow/chain 0");
    KILN_CHECK_INT(stats.plans_searched, 0);
    KILN_CHECK_INT(stats.plans_loaded, 1);
    KILN_CHECK_INT(stats.winners_recalled, 1);
    KILN_CHECK_INT(stats.tournaments_measured, 0);
    second(both, folder, false, NULL, OTHER, found, sizeof(found), &stats);
    KILN_CHECK_STR(found, "test.slow/chain 2"); // the liar is known, this program is not
    second(both, folder, false, "2.0", LENGTH, found, sizeof(found), &stats);
    KILN_CHECK_STR(found, "test.fast/chain 2"); // another driver
    KILN_CHECK_INT(stats.winners_recalled, 0);
    second(both, folder, true, NULL, LENGTH, found, sizeof(found), &stats);
    KILN_CHECK_STR(found, "test.fast/chain 2"); // predicted scores only
    KILN_CHECK_INT(stats.winners_recalled, 0);
}

/// A process that plays the block's tournament, if there is one to play; what it finds before.
static void play_again(const char *folder, const figure *figures, uint64_t unfused_ns,
                       const char *found)
{
    process p;
    char text[96];
    if (!open(&p, both, folder, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    const char *who = winner(s);
    uint32_t count = s->plan->n_blocks == 0 ? 0 : settle(&p, s, figures, unfused_ns);
    snprintf(text, sizeof(text), "%s %u", who, count);
    KILN_CHECK_STR(text, found);
    fixture_done(&p.f, s);
    if (count > 0) { // this process believes what it measured
        s = record(&p, LENGTH);
        KILN_CHECK(s->plan->n_blocks == 0 || settle(&p, s, figures, unfused_ns) == 0);
        fixture_done(&p.f, s);
    }
    close_process(&p);
}

/// All took hundreds of times what was predicted: other work had the machine. Later processes play
/// again, and believe it when it stays so.
static void test_a_busy_machines_tournament_is_played_again(void)
{
    const figure busy[] = {{"test.fast/chain", 900000000}, {"test.slow/chain", 800000000}, {0}};
    const char *mended = kiln_test_path(kiln_test_tmpdir(), "mended");
    const char *believed = kiln_test_path(kiln_test_tmpdir(), "believed");
    play_again(mended, busy, 700000000, "test.fast/chain 2");
    play_again(mended, fast_lies, 600000, "test.fast/chain 2"); // not unfused, as the busy one said
    play_again(mended, fast_lies, 600000, "test.slow/chain 0");
    for (int i = 0; i < 3; i++) {
        play_again(believed, busy, 700000000, "test.fast/chain 2");
    }
    play_again(believed, busy, 700000000, " 0");
}

/// Tournaments in which everything is far from its prediction are counted: the speeds are wrong.
static void test_surprises_are_counted(void)
{
    const struct {
        figure figures[3];
        uint64_t unfused_ns;
        uint64_t surprising;
    } all[] = {
        {{{"test.fast/chain", 900000000}, {"test.slow/chain", 800000000}, {0}}, 700000000, 1},
        {{{"test.fast/chain", 900}, {"test.slow/chain", 800}, {0}}, 700, 1},
        {{{"test.fast/chain", 900000000}, {"test.slow/chain", 800000000}, {0}}, 400000, 0},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        process p;
        kiln_fuse_stats stats;
        if (!open(&p, both, NULL, false, NULL)) {
            return;
        }
        const kiln_fuse_segment *s = record(&p, LENGTH);
        KILN_CHECK_INT(settle(&p, s, all[i].figures, all[i].unfused_ns), 2);
        fixture_done(&p.f, s);
        kiln_fuse_engine_stats(p.engine, &stats);
        KILN_CHECK_INT(stats.tournaments_measured, 1);
        KILN_CHECK_INT(stats.tournaments_surprising, all[i].surprising);
        close_process(&p);
    }
}

static void doubtful_speeds(fuse_fixture *f)
{
    f->device.bytes_per_s = 122000000;
    f->device.speeds_doubtful = true;
}

/// What was chosen by speeds that a busy machine may have shown is not kept.
static void test_a_plan_by_doubtful_speeds_is_not_kept(void)
{
    char found[96];
    kiln_fuse_stats stats;
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "speeds");
    for (int i = 0; i < 2; i++) {
        twist = doubtful_speeds;
        second(both, folder, false, NULL, LENGTH, found, sizeof(found), &stats);
        KILN_CHECK_INT(stats.plans_searched, 1);
        twist = NULL;
    }
    second(both, folder, false, NULL, LENGTH, found, sizeof(found), &stats);
    KILN_CHECK_INT(stats.plans_searched, 1);
    second(both, folder, false, NULL, LENGTH, found, sizeof(found), &stats);
    KILN_CHECK_INT(stats.plans_loaded, 1);
}

static void other_name(fuse_fixture *f)
{
    f->device.name = "another";
}

static void other_fingerprint(fuse_fixture *f)
{
    f->device.fingerprint.high++;
}

static void other_units(fuse_fixture *f)
{
    f->device.compute_units++;
}

static void other_vectors(fuse_fixture *f)
{
    f->device.vector_bytes *= 2;
}

static void other_features(fuse_fixture *f)
{
    f->device.features ^= KILN_FEATURE_FP16;
}

static void other_alignment(fuse_fixture *f)
{
    f->device.memory_align = 32;
}

static void other_extensions(fuse_fixture *f)
{
    f->device.extensions = "cl_khr_new";
}

/// The plugin that won was built anew: the same id and version, other bytes.
static void other_build(fuse_fixture *f)
{
    for (uint32_t i = 0; i < f->registry->n_plugins; i++) {
        if (strcmp(f->registry->plugins[i]->info.id, "test.slow") == 0) {
            f->registry->plugins[i]->info.hash[5] ^= 1;
        }
    }
}

/// A rival's build counts as well: it might be faster now.
static void other_rival(fuse_fixture *f)
{
    for (uint32_t i = 0; i < f->registry->n_plugins; i++) {
        if (strcmp(f->registry->plugins[i]->info.id, "test.fast") == 0) {
            f->registry->plugins[i]->info.hash[5] ^= 1;
        }
    }
}

static void test_each_part_of_a_winners_key(void)
{
    static const struct {
        const char *name;
        void (*twist)(fuse_fixture *f);
    } parts[] = {{"name", other_name},
                 {"fingerprint", other_fingerprint},
                 {"units", other_units},
                 {"vectors", other_vectors},
                 {"features", other_features},
                 {"alignment", other_alignment},
                 {"extensions", other_extensions},
                 {"build", other_build},
                 {"rival", other_rival}};
    char found[96];
    kiln_fuse_stats stats;
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "parts");
    process p;
    if (!open(&p, both, folder, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    KILN_CHECK_INT(settle(&p, s, fast_lies, s->plan->blocks[0].baseline_ns), 2);
    fixture_done(&p.f, s);
    close_process(&p);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        twist = parts[i].twist;
        second(both, folder, false, NULL, LENGTH, found, sizeof(found), &stats);
        twist = NULL;
        if (stats.winners_recalled != 0 || stats.plans_loaded != 0 || strchr(found, '2') == NULL) {
            KILN_FAIL("%s: %u winners recalled, %u plans loaded, %s", parts[i].name,
                      (unsigned)stats.winners_recalled, (unsigned)stats.plans_loaded, found);
        }
    }
    second(both, folder, false, NULL, OTHER, found, sizeof(found), &stats); // other extents
    KILN_CHECK_INT(stats.winners_recalled, 0);
    second(both, folder, false, NULL, LENGTH, found, sizeof(found), &stats);
    KILN_CHECK_INT(stats.winners_recalled, 1); // the first is still there
}

/// A record that is not what was written is not there.
static void test_a_damaged_winner_is_none(void)
{
    char found[96];
    kiln_fuse_stats stats;
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "damaged");
    kilni_fuse_winner right = {0};
    process p;
    if (!open(&p, both, folder, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, LENGTH);
    KILN_CHECK_INT(settle(&p, s, fast_lies, s->plan->blocks[0].baseline_ns), 2);
    fixture_done(&p.f, s);
    KILN_CHECK_INT(p.engine->n_winners, 1);
    right = p.engine->winners[0];
    close_process(&p);
    for (int damage = 0; damage < 5; damage++) {
        kilni_fuse_winner wrong = right;
        wrong.key.low += damage == 0;
        wrong.count = damage == 1 ? 1000 : damage == 2 ? 0 : wrong.count;
        wrong.measured_ns[0] = damage == 3 ? (double)NAN : wrong.measured_ns[0];
        if (!open(&p, both, folder, false, NULL)) {
            return;
        }
        KILN_CHECK_INT(kiln_store_put(p.store, KILN_STORE_WINNERS, right.key, &wrong,
                                      damage == 4 ? sizeof(wrong) - 1 : sizeof(wrong), NULL),
                       KILN_STATUS_OK);
        close_process(&p);
        second(both, folder, false, NULL, LENGTH, found, sizeof(found), &stats);
        KILN_CHECK_INT(stats.winners_recalled, 0);
    }
}

// ---- sizes ----

// The claims of these two cross at 3724 elements.
static const char *const crossing[] = {"chain_early", "chain_late", NULL};
enum { SMALL = 64, ALIKE = 112, LARGE = LENGTH, BELOW = 2048, ABOVE = 4080 };

static void check_winner(process *p, int64_t length, const char *expected)
{
    const kiln_fuse_segment *s = record(p, length);
    if (strcmp(winner(s), expected) != 0) {
        KILN_FAIL("%lld elements: \"%s\" won, \"%s\" should have", (long long)length, winner(s),
                  expected);
    }
    fixture_done(&p->f, s);
}

/// The same program: who is chosen follows from the size, not from the size that came first.
static void test_each_class_of_sizes_has_its_winner(void)
{
    for (int order = 0; order < 2; order++) {
        process p;
        if (!open(&p, crossing, NULL, false, NULL)) {
            return;
        }
        const int64_t lengths[] = {order == 0 ? SMALL : LARGE, order == 0 ? LARGE : SMALL};
        for (int i = 0; i < 6; i++) {
            int64_t length = lengths[i % 2];
            check_winner(&p, length, length == SMALL ? "test.early/chain" : "test.late/chain");
        }
        check_winner(&p, ALIKE, "test.early/chain");
        kiln_fuse_stats stats;
        kiln_fuse_engine_stats(p.engine, &stats);
        KILN_CHECK_INT(stats.plans_searched, 2);
        KILN_CHECK_INT(stats.plans_found, 5);
        close_process(&p);
    }
}

/// Where nothing measured decides, sizes of a class that came before do not either.
static void test_without_measuring_each_size_has_its_winner(void)
{
    for (int order = 0; order < 2; order++) {
        process p;
        if (!open(&p, crossing, NULL, true, NULL)) {
            return;
        }
        for (int i = 0; i < 4; i++) {
            bool below = (i + order) % 2 == 0;
            check_winner(&p, below ? BELOW : ABOVE, below ? "test.early/chain" : "test.late/chain");
        }
        close_process(&p);
    }
}

/// What was measured holds for its class: against the claims here, and in the next process.
static void test_each_class_has_its_tournament(void)
{
    const figure late_wins[] = {{"test.early/chain", 9000}, {"test.late/chain", 7000}, {0}};
    const figure early_wins[] = {{"test.early/chain", 250000}, {"test.late/chain", 400000}, {0}};
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "classes");
    process p;
    if (!open(&p, crossing, folder, false, NULL)) {
        return;
    }
    const kiln_fuse_segment *s = record(&p, SMALL);
    KILN_CHECK_INT(settle(&p, s, late_wins, 15000), 2);
    fixture_done(&p.f, s);
    s = record(&p, LARGE);
    KILN_CHECK_STR(winner(s), "test.late/chain"); // as predicted: nothing was measured here
    KILN_CHECK_INT(settle(&p, s, early_wins, s->plan->blocks[0].baseline_ns), 2);
    fixture_done(&p.f, s);
    for (int processes = 0; processes < 2; processes++) {
        for (int i = 0; i < 3; i++) {
            check_winner(&p, SMALL, "test.late/chain");
            check_winner(&p, LARGE, "test.early/chain");
            check_winner(&p, ALIKE, "test.late/chain");
        }
        kiln_fuse_stats stats;
        kiln_fuse_engine_stats(p.engine, &stats);
        KILN_CHECK_INT(stats.tournaments_measured, processes == 0 ? 2 : 0);
        KILN_CHECK_INT(stats.plans_searched, processes == 0 ? 2 : 0);
        KILN_CHECK_INT(stats.plans_loaded, 2);
        KILN_CHECK_INT(stats.winners_recalled, 2);
        close_process(&p);
        if (processes == 0 && !open(&p, crossing, folder, false, NULL)) {
            return;
        }
    }
}

KILN_TEST_MAIN("unit/fusion_host/tournament", KILN_TEST(test_a_liar_is_demoted),
               KILN_TEST(test_short_blocks_teach_nothing),
               KILN_TEST(test_load_order_never_changes_the_winner),
               KILN_TEST(test_variants_compete), KILN_TEST(test_variants_have_claims_of_their_own),
               KILN_TEST(test_confidence_counts), KILN_TEST(test_fusers_learn_what_was_measured),
               KILN_TEST(test_what_failed_loses), KILN_TEST(test_operations_alone_can_win),
               KILN_TEST(test_fuse_slower), KILN_TEST(test_a_second_process_measures_nothing),
               KILN_TEST(test_a_busy_machines_tournament_is_played_again),
               KILN_TEST(test_surprises_are_counted),
               KILN_TEST(test_a_plan_by_doubtful_speeds_is_not_kept),
               KILN_TEST(test_each_part_of_a_winners_key), KILN_TEST(test_a_damaged_winner_is_none),
               KILN_TEST(test_each_class_of_sizes_has_its_winner),
               KILN_TEST(test_without_measuring_each_size_has_its_winner),
               KILN_TEST(test_each_class_has_its_tournament))
