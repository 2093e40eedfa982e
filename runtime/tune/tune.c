// SPDX-License-Identifier: MIT OR Apache-2.0
// Tournaments: when a block is worth measuring, its candidates and its operations one by one run on
// the tensors at hand, in turns, each into memory of its own. A sample is a small plan, run by
// plan_exec.c like any other (block_sample.c). What follows from the times is the fusion host's
// business.

#include "rt_binding.h"
#include "rt_block_sample.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_run.h"
#include "rt_tune.h"

#include <string.h>

enum {
    ROUNDS = 6, ///< at least
    CHECK_EVERY = 4, ///< rounds after which the times are looked at
    MOST_REPEATS = 16, ///< runs of one sample, so that the wait for the device does not count
    HOT = 8, ///< runs after which a block is measured
    LOOK_EVERY = 16, ///< runs, once it is hot and waits for the budget
    CLOSE_RUNS = 2, ///< the same when a rival is close
    CLOSE_PERCENT = 10
};

static const uint64_t sample_ns = 200000; ///< that a sample of short runs should take
static const int64_t copied_bytes = 4 << 20; ///< at most, for one sample of several runs
/// A lazy tournament begins no other round in a run after that, but one to be warm.
static const uint64_t slice_ns = 60000000;
static const uint64_t longest_ns = 2000000000; ///< a tournament begins no other round after that
static const uint64_t short_ns = 300000000; ///< nor, beyond ROUNDS, after that

kilni_tune kilni_tune_mode(const kiln_context *context)
{
    const char *text = kiln_config_string(context->env.config, KILN_OPTION_TUNE);
    bool off = kiln_config_bool(context->env.config, KILN_OPTION_DETERMINISTIC);
    return off || text[0] == 'o' ? KILNI_TUNE_OFF
           : text[0] == 'l'      ? KILNI_TUNE_LAZY
                                 : KILNI_TUNE_FULL;
}

// ---- what takes part ----

typedef struct contender { ///< the last one is the unfused operations, without a program
    kilni_small_plan small;
    kilni_score *score;
} contender;

typedef struct tournament {
    const kilni_run *run;
    uint32_t block;
    kilni_sample sample;
    kilni_scores *scores;
    contender entries[KILN_FUSE_MAX_CONTENDERS + 1];
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS];
    uint32_t n_known;
} tournament;

// ---- samples ----

/// The time of one run, or 0: it cannot be told.
static kiln_status take_sample(tournament *t, contender *c, uint32_t repeats, float *out_ns,
                               kiln_error *err)
{
    kiln_device *device = t->sample.run->device;
    kiln_status status = kilni_shadow_copy_inputs(&t->sample, repeats, err);
    *out_ns = 0;
    device->samples.starved = false;
    if (status == KILN_STATUS_OK) {
        uint64_t start = kiln_time_ns();
        status = kilni_shadow_run(&t->sample, &c->small, err);
        *out_ns = (float)(kiln_time_ns() - start) / (float)repeats;
    }
    c->score->failed = c->score->failed || kilni_shadow_fault(&t->sample) != NULL;
    kilni_shadow_clear(&t->sample);
    if (status == KILN_STATUS_OK && device->samples.starved) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "there is no memory for a sample's results");
    }
    return status;
}

/// A program that cannot be built or launched runs its unfused operations: the time is not its own.
static void note_failures(tournament *t)
{
    kiln_fuse_contender now[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    uint32_t count = kiln_fuse_contenders(t->sample.run->engine, t->sample.run->segment->plan,
                                          t->sample.index, now, KILN_FUSE_MAX_CONTENDERS);
    for (uint32_t i = 0; i < count; i++) {
        t->scores->entries[i].failed = t->scores->entries[i].failed || now[i].failed;
    }
}

/// Everybody's turn once, each time beginning with another. `out_ns` per entry; 0: no part.
static kiln_status play_round(tournament *t, uint32_t number, uint32_t repeats, float *out_ns,
                              kiln_error *err)
{
    kilni_scores *scores = t->scores;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < scores->n_entries; i++) {
        uint32_t at = (i + number) % scores->n_entries;
        out_ns[at] = 0;
        if (status == KILN_STATUS_OK && !scores->entries[at].failed && !scores->entries[at].out) {
            status = take_sample(t, &t->entries[at], repeats, &out_ns[at], err);
        }
    }
    note_failures(t);
    return status;
}

static void note_round(kilni_scores *scores, const float *ns)
{
    for (uint32_t i = 0; i < scores->n_entries; i++) {
        scores->entries[i].ns[scores->rounds] = ns[i];
    }
    scores->rounds++;
    if (scores->rounds >= ROUNDS && scores->rounds % CHECK_EVERY == 0) {
        kilni_scores_leave_out(scores);
    }
}

/// Short blocks run several times for one sample.
static uint32_t repeats_for(const tournament *t, const float *ns)
{
    double shortest = 0;
    for (uint32_t i = 0; i < t->scores->n_entries; i++) {
        shortest =
            ns[i] > 0 && (shortest <= 0 || (double)ns[i] < shortest) ? (double)ns[i] : shortest;
    }
    double repeats = shortest > 0 ? (double)sample_ns / shortest : 1;
    double copies = (double)copied_bytes / ((double)kilni_shadow_dying_bytes(&t->sample) + 1);
    repeats = repeats < copies ? repeats : copies;
    return repeats < 1 ? 1 : repeats > MOST_REPEATS ? MOST_REPEATS : (uint32_t)repeats;
}

static bool is_over(const tournament *t)
{
    const kilni_scores *scores = t->scores;
    uint64_t limit = scores->rounds < ROUNDS ? longest_ns : short_ns;
    bool looks = scores->rounds >= ROUNDS && scores->rounds % CHECK_EVERY == 0;
    return scores->rounds >= KILNI_TUNE_ROUNDS ||
           (scores->rounds > 0 && scores->spent_ns > limit) || (looks && kilni_scores_sure(scores));
}

// ---- what it may take ----

static kilni_tune_budget *budget_of(const kilni_run *run)
{
    return &run->device->samples.budget;
}

/// On processors the library's products are behind those of the candidates, which were predicted to
/// be faster (docs/benchmarks.md): a program that does not use it anyway is not held up by the
/// seconds that it takes to compile. Who asks for all times gets them.
static bool is_library_in_vain(const tournament *t)
{
    const kiln_fuse_segment *segment = t->run->segment;
    const kiln_plan_block *block = &segment->plan->blocks[t->block];
    kiln_backend *backend = t->run->device->backend;
    kiln_backend_stats stats = {0};
    bool product = false;
    for (uint32_t i = 0; i < block->n_ops; i++) {
        product = product || segment->ops[block->ops[i]].op == KILN_OP_MATMUL;
    }
    backend->device->stats(backend, &stats);
    return product && stats.blas_calls == 0 && t->run->device->samples.tune == KILNI_TUNE_LAZY &&
           backend->device->info(backend)->type == KILN_DEVICE_CPU;
}

/// Kernels that an entry consists of: what is compiled before it can run, at most. The first
/// product compiles all kernels of the library for products.
static uint32_t count_kernels(const tournament *t, uint32_t entry, bool library)
{
    enum { LIBRARY_KERNELS = 16 };
    const kiln_fuse_segment *segment = t->run->segment;
    const kiln_plan_block *block = &segment->plan->blocks[t->block];
    uint32_t count = 0;
    if (entry < t->n_known) {
        return t->known[entry].program->n_launches;
    }
    if (t->scores->entries != NULL ? t->scores->entries[entry].failed : is_library_in_vain(t)) {
        return 0;
    }
    for (uint32_t i = 0; i < block->n_ops; i++) {
        kiln_op op = segment->ops[block->ops[i]].op;
        kiln_op_class cls = kiln_op_info_of(op)->cls;
        count += cls != KILN_CLASS_CONTROL && cls != KILN_CLASS_VIEW;
        count += library && op == KILN_OP_MATMUL ? LIBRARY_KERNELS : 0;
        library = library && op != KILN_OP_MATMUL;
    }
    return count;
}

/// Whether the budget is enough to make ready all that is not, or else for a round.
static bool can_go_on(const tournament *t)
{
    kilni_tune_budget *budget = budget_of(t->run);
    kiln_backend *backend = t->run->device->backend;
    kiln_backend_stats stats = {0};
    uint32_t kernels = 0;
    if (t->run->device->samples.tune == KILNI_TUNE_FULL) {
        return true;
    }
    if (t->scores->n_ready > t->n_known) {
        return kilni_tune_budget_allows(budget, t->scores->round_ns);
    }
    backend->device->stats(backend, &stats);
    for (uint32_t entry = t->scores->n_ready; entry <= t->n_known; entry++) {
        kernels += count_kernels(t, entry, stats.blas_calls == 0);
    }
    return kilni_tune_budget_allows(budget, kilni_tune_budget_guess(budget, kernels, &stats));
}

/// Runs entries that did not run in this process, so that they are compiled, one by one.
static kiln_status make_ready(tournament *t, kiln_error *err)
{
    kilni_scores *scores = t->scores;
    kilni_tune_budget *budget = budget_of(t->run);
    kiln_status status = KILN_STATUS_OK;
    while (status == KILN_STATUS_OK && scores->n_ready < scores->n_entries && can_go_on(t)) {
        uint64_t before_ns = budget->spent_ns;
        uint32_t entry = scores->n_ready++;
        contender *next = &t->entries[entry];
        bool ran = entry < t->n_known && t->known[entry].chosen;
        float ns = 0;
        if (!next->score->failed) {
            status = take_sample(t, next, 1, &ns, err);
        }
        kilni_tune_budget_spend(budget, kiln_time_ns());
        if (entry < t->n_known && !ran) {
            kilni_tune_budget_learn(budget, count_kernels(t, entry, false),
                                    budget->spent_ns - before_ns);
        }
    }
    note_failures(t);
    return status;
}

// ---- playing ----

/// The first round of each slice makes memory and programs warm, so its samples are no times; the
/// second one tells how often short blocks are to run.
static kiln_status play(tournament *t, bool sliced, kiln_error *err)
{
    kilni_scores *scores = t->scores;
    kilni_tune_budget *budget = budget_of(t->run);
    float ns[KILN_FUSE_MAX_CONTENDERS + 1];
    kiln_status status = make_ready(t, err);
    if (status != KILN_STATUS_OK || scores->n_ready < scores->n_entries) {
        return status;
    }
    status = play_round(t, 0, 1, ns, err);
    kilni_tune_budget_spend(budget, kiln_time_ns());
    uint64_t start_ns = kiln_time_ns(), before_ns = scores->spent_ns;
    if (status == KILN_STATUS_OK && scores->repeats == 0) {
        status = play_round(t, 1, 1, ns, err);
        scores->repeats = repeats_for(t, ns);
        if (scores->repeats == 1 && status == KILN_STATUS_OK) {
            note_round(scores, ns);
        }
        scores->spent_ns = before_ns + kiln_time_ns() - start_ns;
    }
    while (status == KILN_STATUS_OK && !is_over(t) && can_go_on(t) &&
           !(sliced && scores->spent_ns - before_ns > slice_ns)) {
        uint64_t round_start_ns = scores->spent_ns;
        status = play_round(t, scores->rounds, scores->repeats, ns, err);
        if (status == KILN_STATUS_OK) {
            note_round(scores, ns);
        }
        scores->spent_ns = before_ns + kiln_time_ns() - start_ns;
        scores->round_ns = scores->spent_ns - round_start_ns;
        kilni_tune_budget_spend(budget, kiln_time_ns());
    }
    return status;
}

// ---- when, and what came of it ----

static bool is_close(const tournament *t)
{
    uint64_t chosen = 0;
    for (uint32_t i = 0; i < t->n_known; i++) {
        chosen = t->known[i].chosen ? t->known[i].predicted_ns : chosen;
    }
    for (uint32_t i = 0; i < t->n_known; i++) {
        if (!t->known[i].chosen &&
            t->known[i].predicted_ns <= chosen + chosen * CLOSE_PERCENT / 100) {
            return true;
        }
    }
    return false;
}

/// What failed before the block says nothing about its candidates.
static bool inputs_failed(const tournament *t)
{
    for (uint32_t i = 0; i < t->sample.block->n_tensors; i++) {
        if (t->sample.run->bindings[t->sample.block->tensors[i]]->fault != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_time(const tournament *t, unsigned mode, uint32_t runs)
{
    return mode == KILNI_TUNE_FULL || runs + 1 >= HOT || (runs + 1 >= CLOSE_RUNS && is_close(t));
}

/// What was measured for other extents says nothing.
static void look_at_extents(const kilni_run *run, kilni_scores *scores)
{
    uint32_t count = run->segment->plan->n_symbols;
    kiln_hash128 extents =
        kiln_hash_bytes(run->segment->symbols, count * sizeof(*run->segment->symbols));
    if (extents.low != scores->extents.low || extents.high != scores->extents.high) {
        kilni_scores_fini(scores, &run->device->context->env);
        scores->extents = extents;
    }
}

static kiln_status prepare(tournament *t, kiln_error *err)
{
    bool begins = t->scores->entries == NULL;
    if (!kilni_scores_begin(t->scores, t->sample.env, t->n_known + 1)) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tournament");
    }
    if (begins) {
        t->scores->entries[t->n_known].failed = is_library_in_vain(t);
    }
    kiln_status status = kilni_shadow_alone(&t->sample, &t->entries[t->n_known].small, err);
    for (uint32_t i = 0; i <= t->n_known; i++) {
        t->entries[i].score = &t->scores->entries[i];
    }
    for (uint32_t i = 0; i < t->n_known && status == KILN_STATUS_OK; i++) {
        t->scores->entries[i].failed = t->scores->entries[i].failed || t->known[i].failed;
        status = kilni_shadow_fused(&t->sample, &t->entries[i].small, t->known[i].program, err);
    }
    return status;
}

static void finish(tournament *t, bool settle)
{
    const kilni_run *run = t->sample.run;
    uint64_t ns[KILN_FUSE_MAX_CONTENDERS + 1] = {0};
    if (settle) {
        kilni_scores_times(t->scores, ns);
        kiln_fuse_settle(run->engine, run->segment->plan, t->sample.index, run->segment->symbols,
                         ns, ns[t->n_known]);
    }
    for (uint32_t i = 0; i <= t->n_known; i++) {
        kilni_shadow_plan_fini(&t->sample, &t->entries[i].small);
    }
    kilni_shadow_fini(&t->sample);
}

/// What a tournament adds to the device's counts: its launches apart, its blocks not at all.
typedef struct counts_before {
    kilni_device_counts device;
    kiln_backend_stats backend;
} counts_before;

static void read_counts(kiln_device *device, counts_before *out)
{
    out->device = device->counts;
    device->backend->device->stats(device->backend, &out->backend);
}

static void settle_counts(kiln_device *device, const counts_before *before)
{
    kiln_backend_stats now = {0};
    kilni_device_counts *counts = &device->counts;
    device->backend->device->stats(device->backend, &now);
    counts->blocks_fused = before->device.blocks_fused;
    counts->ops_fused = before->device.ops_fused;
    counts->kernels_measuring += now.kernels_launched - before->backend.kernels_launched;
    counts->blas_measuring += now.blas_calls - before->backend.blas_calls;
}

static void tell(const tournament *t, const char *what)
{
    const kilni_tune_budget *budget = budget_of(t->run);
    uint32_t n_ops = t->run->segment->plan->blocks[t->block].n_ops;
    kiln_log_write(&t->run->device->context->env, KILN_LOG_INFO, "runtime",
                   "a tournament of %u %s for a block of %u %s %s, after %u %s; tuning has "
                   "taken %.0f ms",
                   t->n_known, kiln_plural(t->n_known, "candidate", "candidates"), n_ops,
                   kiln_plural(n_ops, "operation", "operations"), what, t->scores->rounds,
                   kiln_plural(t->scores->rounds, "round", "rounds"),
                   (double)budget->spent_ns / 1e6);
}

/// With memory for the samples. True: the tournament is over.
static bool hold(tournament *t)
{
    kiln_device *device = t->run->device;
    kiln_error err = KILN_ERROR_INIT;
    look_at_extents(t->run, t->scores);
    kiln_status status = prepare(t, &err);
    if (status == KILN_STATUS_OK) {
        if (t->scores->n_ready == 0) {
            tell(t, "begins");
        }
        status = play(t, device->samples.tune == KILNI_TUNE_LAZY, &err);
    }
    bool over = status != KILN_STATUS_OK || is_over(t);
    finish(t, status == KILN_STATUS_OK && over);
    kilni_tune_budget_spend(budget_of(t->run), kiln_time_ns());
    if (status != KILN_STATUS_OK) {
        kiln_log_write(&device->context->env, KILN_LOG_INFO, "runtime",
                       "a block could not be measured: %s", err.message);
    } else if (over) {
        tell(t, "ends");
    }
    if (over) {
        kilni_scores_fini(t->scores, &device->context->env);
    }
    return over;
}

/// A block that waits for the budget costs its runs next to nothing.
static bool waits(const kilni_run *run, const kilni_scores *scores)
{
    return run->device->samples.tune == KILNI_TUNE_LAZY && scores->entries == NULL &&
           scores->runs > HOT && scores->runs % LOOK_EVERY != 0;
}

bool kilni_tune_block(const kilni_run *run, uint32_t block, kilni_scores *scores)
{
    kiln_device *device = run->device;
    if (waits(run, scores)) {
        scores->runs++;
        return false;
    }
    tournament t = {.run = run, .block = block, .scores = scores};
    kiln_error err = KILN_ERROR_INIT;
    t.n_known = kiln_fuse_contenders(run->engine, run->segment->plan, block, t.known,
                                     KILN_FUSE_MAX_CONTENDERS);
    kilni_tune_budget_see(budget_of(run), kiln_time_ns());
    if (t.n_known == 0 || !is_time(&t, device->samples.tune, scores->runs++) || !can_go_on(&t)) {
        return t.n_known == 0;
    }
    kiln_status status = kilni_shadow_init(&t.sample, run, block, &err);
    if (status != KILN_STATUS_OK || inputs_failed(&t)) {
        kilni_shadow_fini(&t.sample);
        return false;
    }
    kilni_fault *fault = device->faults.first;
    counts_before before = {0};
    read_counts(device, &before);
    device->samples.measuring = true;
    bool over = hold(&t);
    device->samples.measuring = false;
    device->samples.measured = true;
    settle_counts(device, &before);
    if (device->faults.first != fault) { // a sample's failure is nobody's
        kilni_fault_release(device, device->faults.first);
        device->faults.first = fault;
    }
    return over;
}
