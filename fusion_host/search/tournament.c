// SPDX-License-Identifier: MIT OR Apache-2.0
// What was measured decides over what was claimed. Here: which programs can take a block's place,
// what a tournament between them (the executor's) said, the winners in memory and on disk, and how
// far a fuser's claims are from the truth. When and how to measure is the executor's business.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "position.h"
#include "tournament.h"

enum { RECORD_FORMAT = 3, MOST_SAMPLES = 16, MOST_WINNERS = 4096, MOST_TRIES = 3 };

static const double margin = 0.97; // of the predicted winner's time: what a rival must stay below
static const double unfused_margin = 0.96; // the same for the operations unfused, which need memory
static const double believed = 1.25; // a claim that is wrong by less is left alone
static const double most_wrong = 64;
static const double busy = 10; // all times are so much longer than predicted: of a busy machine
static const double usual = 2; // unfused they took at most so much more than was predicted
static const double telling_ns =
    100000; // of them: below, the host's wait for the device is measured

// ---- keys ----

static bool key_before(kiln_hash128 a, kiln_hash128 b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}

/// The programs in order of their keys, so that who was loaded first does not matter.
static uint32_t sorted_keys(const kiln_hash128 *keys, uint32_t count, kiln_hash128 *out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        while (at > 0 && key_before(keys[i], out[at - 1])) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = keys[i];
    }
    return count;
}

static kiln_hash128 tournament_key(const kiln_fuse_engine *engine, const kiln_hash128 *keys,
                                   uint32_t count, const int64_t *extents, uint32_t n_extents)
{
    kiln_hash128 sorted[KILNI_FUSE_MAX_CONTENDERS] = {{0}};
    kiln_hash128 sums[4] = {
        engine->disk_key,
        kiln_hash_bytes(sorted, sorted_keys(keys, count, sorted) * sizeof(sorted[0])),
        {kilni_fuse_size_class(extents, n_extents, false), n_extents},
        {RECORD_FORMAT, count}};
    return kiln_hash_bytes(sums, sizeof(sums));
}

// ---- winners ----

static kilni_fuse_winner *find_winner(const kiln_fuse_engine *engine, kiln_hash128 key)
{
    for (uint32_t i = 0; i < engine->n_winners; i++) {
        if (kiln_hash_same(engine->winners[i].key, key)) {
            return &engine->winners[i];
        }
    }
    return NULL;
}

static bool is_sound(const kilni_fuse_winner *winner, kiln_hash128 key)
{
    bool sound = kiln_hash_same(winner->key, key) && winner->count > 0 &&
                 winner->count <= KILNI_FUSE_MAX_CONTENDERS && isfinite(winner->unfused_ns);
    for (uint32_t i = 0; sound && i < winner->count; i++) {
        sound = isfinite(winner->measured_ns[i]) && winner->measured_ns[i] >= 0;
    }
    return sound;
}

static void remember(kiln_fuse_engine *engine, const kilni_fuse_winner *winner)
{
    kilni_fuse_winner *known = find_winner(engine, winner->key);
    if (known != NULL) {
        *known = *winner;
        return;
    }
    engine->n_winners = engine->n_winners < MOST_WINNERS ? engine->n_winners : 0; // on disk anyway
    if (kilni_fuse_grow(engine->env, &engine->winners, &engine->winners_capacity,
                        (uint64_t)engine->n_winners + 1, sizeof(*engine->winners))) {
        engine->winners[engine->n_winners++] = *winner;
    }
}

/// From memory, else from disk; what is not as it was written is not there.
static const kilni_fuse_winner *winner_of(kiln_fuse_engine *engine, kiln_hash128 key)
{
    const kilni_fuse_winner *known = find_winner(engine, key);
    kilni_fuse_winner read;
    kiln_blob blob = {0};
    if (known != NULL || engine->store == NULL ||
        kiln_store_get(engine->store, KILN_STORE_WINNERS, key, &blob, NULL) != KILN_STATUS_OK) {
        return known;
    }
    if (blob.length == sizeof(read)) {
        memcpy(&read, blob.data, sizeof(read));
        if (is_sound(&read, key)) {
            remember(engine, &read);
        }
    }
    kiln_free(engine->env, blob.data);
    return find_winner(engine, key);
}

static void keep(kiln_fuse_engine *engine, kiln_store_table table, kiln_hash128 key,
                 const void *value, size_t bytes)
{
    kiln_error err = KILN_ERROR_INIT;
    if (engine->store != NULL &&
        kiln_store_put(engine->store, table, key, value, bytes, &err) != KILN_STATUS_OK) {
        kiln_log_write(engine->env, KILN_LOG_DEBUG, KILNI_FUSE_MODULE, "winner not stored: %s",
                       err.message);
    }
}

// ---- how far claims are from the truth ----

static kiln_hash128 trust_key(const kiln_fuse_engine *engine, uint32_t fuser)
{
    const kilni_fuse_fuser *f = &engine->fusers[fuser];
    kiln_hash128 sums[2] = {kiln_hash_bytes(f->name, strlen(f->name)),
                            kiln_hash_bytes(f->plugin->info.hash, strlen(f->plugin->info.hash))};
    sums[0].low ^= engine->disk_key.low;
    sums[0].high ^= engine->disk_key.high;
    return kiln_hash_bytes(sums, sizeof(sums));
}

void kilni_fuse_trust_load(kiln_fuse_engine *engine)
{
    for (uint32_t i = 0; engine->store != NULL && i < engine->n_fusers; i++) {
        kiln_blob blob = {0};
        kilni_fuse_trust_record read = {0};
        if (kiln_store_get(engine->store, KILN_STORE_WINNERS, trust_key(engine, i), &blob, NULL) !=
            KILN_STATUS_OK) {
            continue;
        }
        if (blob.length == sizeof(read)) {
            memcpy(&read, blob.data, sizeof(read));
        }
        if (isfinite(read.log_ratio) && read.samples <= MOST_SAMPLES) {
            engine->fusers[i].trust = read;
        }
        kiln_free(engine->env, blob.data);
    }
}

/// The claims against the operations unfused, both measured: what the host's own figures are wrong
/// by is not the fuser's fault. Of short blocks the host's wait was measured, and where its figures
/// are wrong by much, other work on the machine: nothing is learned then.
static void learn(kiln_fuse_engine *engine, const kilni_fuse_rival *rival, double baseline_ns,
                  double unfused_ns)
{
    kilni_fuse_trust_record *trust = &engine->fusers[rival->fuser].trust;
    if (rival->measured_ns <= 0 || unfused_ns <= 0 || baseline_ns <= 0 || rival->claimed_ns <= 0 ||
        unfused_ns < telling_ns || unfused_ns > baseline_ns * usual) {
        return;
    }
    double ratio = rival->measured_ns / rival->claimed_ns / (unfused_ns / baseline_ns);
    trust->samples += trust->samples < MOST_SAMPLES;
    trust->log_ratio += (log(ratio) - trust->log_ratio) / (double)trust->samples;
    keep(engine, KILN_STORE_WINNERS, trust_key(engine, rival->fuser), trust, sizeof(*trust));
}

double kilni_fuse_trust_factor(const kiln_fuse_engine *engine, uint32_t fuser)
{
    double ratio = exp(engine->fusers[fuser].trust.log_ratio);
    return !isfinite(ratio) || ratio < believed ? 1 : fmin(ratio, most_wrong);
}

// ---- tournaments of a plan ----

static kiln_hash128 block_key(const kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                              const kilni_fuse_block *block)
{
    kiln_hash128 keys[KILNI_FUSE_MAX_CONTENDERS] = {{0}};
    int64_t extents[KILNI_FUSE_MAX_EXTENTS] = {0};
    uint32_t n =
        block->n_symbols < KILNI_FUSE_MAX_EXTENTS ? block->n_symbols : KILNI_FUSE_MAX_EXTENTS;
    for (uint32_t i = 0; i < block->n_rivals; i++) {
        keys[i] = block->rivals[i].program->key;
    }
    for (uint32_t i = 0; i < n; i++) {
        extents[i] = recorded->symbols[block->symbols[i]];
    }
    return tournament_key(engine, keys, block->n_rivals, extents, n);
}

/// Writes what was measured to the rivals; which of them won, or n_rivals for none.
static uint32_t apply(const kilni_fuse_winner *winner, kilni_fuse_block *block)
{
    uint32_t chosen = block->n_rivals;
    for (uint32_t i = 0; i < block->n_rivals; i++) {
        kiln_hash128 key = block->rivals[i].program->key;
        for (uint32_t k = 0; k < winner->count; k++) {
            if (kiln_hash_same(winner->programs[k], key)) {
                block->rivals[i].measured_ns = winner->measured_ns[k];
                chosen = winner->chosen == k ? i : chosen;
            }
        }
    }
    return chosen;
}

static void tell(kiln_arena *arena, kilni_fuse_verdict *verdict, const kilni_fuse_winner *winner,
                 const kilni_fuse_rival *rival, bool won)
{
    double best =
        winner->chosen < winner->count ? winner->measured_ns[winner->chosen] : winner->unfused_ns;
    char text[112];
    verdict->measured_ns = rival->measured_ns;
    verdict->won = won;
    verdict->reason = "";
    if (won) {
        return;
    }
    if (rival->measured_ns <= 0) {
        snprintf(text, sizeof(text), "could not be measured");
    } else {
        snprintf(text, sizeof(text), "measured %.0f %% slower than %s",
                 (rival->measured_ns / best - 1) * 100,
                 winner->chosen < winner->count ? "the winner" : "its unfused operations");
    }
    const char *copy = kiln_arena_copy(arena, text, strlen(text) + 1);
    verdict->reason = copy != NULL ? copy : "";
}

static void tell_all(kilni_fuse_blocks *blocks, kiln_arena *arena, const kilni_fuse_block *block,
                     const kilni_fuse_winner *winner, uint32_t chosen)
{
    for (uint32_t i = 0; i < blocks->n_verdicts; i++) {
        kilni_fuse_verdict *verdict = &blocks->verdicts[i];
        uint32_t won_by = chosen < block->n_rivals ? block->rivals[chosen].fuser : KILNI_FUSE_NONE;
        for (uint32_t k = block->n_rivals; verdict->first_op == block->ops[0] && k-- > 0;) {
            // Of a fuser's variants the winner is told of, or else the first.
            bool tells = k == chosen || block->rivals[k].fuser != won_by;
            if (verdict->fuser == block->rivals[k].fuser && verdict->ready && tells) {
                tell(arena, verdict, winner, &block->rivals[k], k == chosen);
            }
        }
    }
}

static void remove_block(kilni_fuse_blocks *blocks, uint32_t index)
{
    for (uint32_t i = index + 1; i < blocks->n_blocks; i++) {
        blocks->blocks[i - 1] = blocks->blocks[i];
    }
    blocks->n_blocks--;
}

/// How many times as long as predicted the entries of a tournament took.
typedef struct excess {
    double least;
    double most;
} excess;

static void note_excess(excess *all, double measured_ns, double predicted_ns)
{
    if (measured_ns > 0 && predicted_ns > 0 && fmax(measured_ns, predicted_ns) > telling_ns) {
        all->least = fmin(all->least, measured_ns / predicted_ns);
        all->most = fmax(all->most, measured_ns / predicted_ns);
    }
}

static excess excess_of(const kilni_fuse_winner *winner, const kilni_fuse_rival *rivals,
                        uint32_t n_rivals, double baseline_ns)
{
    excess all = {HUGE_VAL, 0};
    note_excess(&all, winner->unfused_ns, baseline_ns);
    for (uint32_t i = 0; i < n_rivals; i++) {
        for (uint32_t k = 0; k < winner->count; k++) {
            if (kiln_hash_same(winner->programs[k], rivals[i].program->key)) {
                note_excess(&all, winner->measured_ns[k], rivals[i].predicted_ns);
            }
        }
    }
    return all;
}

/// Measured while the machine was busy, or so it seems: it is played again, but not for ever, for
/// the prediction may be what is wrong.
static bool is_doubtful(const kilni_fuse_winner *winner, const kilni_fuse_block *block)
{
    excess all = excess_of(winner, block->rivals, block->n_rivals, block->score.baseline_ns);
    return winner->tries < MOST_TRIES && isfinite(all.least) && all.least > busy;
}

static bool is_surprising(const kilni_fuse_winner *winner, const kilni_fuse_tournament *tournament,
                          double baseline_ns)
{
    excess all = excess_of(winner, tournament->rivals, tournament->n_rivals, baseline_ns);
    return isfinite(all.least) && (all.least > busy || all.most < 1 / busy);
}

void kilni_fuse_recall(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                       kiln_arena *arena, kilni_fuse_blocks *blocks)
{
    if (engine->deterministic) {
        return;
    }
    for (uint32_t i = 0; i < blocks->n_blocks;) {
        kilni_fuse_block *block = &blocks->blocks[i];
        const kilni_fuse_winner *winner =
            block->n_rivals == 0 ? NULL : winner_of(engine, block_key(engine, recorded, block));
        if (winner == NULL || is_doubtful(winner, block)) {
            i++;
            continue;
        }
        uint32_t chosen = apply(winner, block);
        tell_all(blocks, arena, block, winner, chosen);
        engine->stats.winners_recalled++;
        block->settled = true;
        block->unfused_ns = winner->unfused_ns;
        if (chosen == block->n_rivals) {
            remove_block(blocks, i);
            continue;
        }
        block->program = block->rivals[chosen].program;
        block->fuser = block->rivals[chosen].fuser;
        block->score.adjusted_ns = block->rivals[chosen].predicted_ns;
        i++;
    }
}

// ---- the executor's side ----

static const kilni_fuse_tournament *tournament_of(const kiln_plan *plan, uint32_t block)
{
    const kilni_fuse_plan *own = (const kilni_fuse_plan *)plan;
    return own->tournaments == NULL ? NULL : &own->tournaments[block];
}

uint32_t kiln_fuse_contenders(const kiln_fuse_engine *engine, const kiln_plan *plan, uint32_t block,
                              kiln_fuse_contender *out, uint32_t capacity)
{
    const kilni_fuse_tournament *tournament = tournament_of(plan, block);
    uint32_t count = tournament == NULL || tournament->settled ? 0 : tournament->n_rivals;
    count = count > capacity ? 0 : count;
    for (uint32_t i = 0; i < count; i++) {
        const kilni_fuse_rival *rival = &tournament->rivals[i];
        out[i] = (kiln_fuse_contender){
            rival->program, engine->fusers[rival->fuser].name, (uint64_t)rival->predicted_ns,
            rival->program == plan->blocks[block].program,
            kilni_fuse_program_failure(engine, rival->program->key) != NULL};
    }
    return count;
}

/// The fastest; a rival of the predicted winner, and the operations unfused, must be clearly so.
static uint32_t choose_fastest(const kiln_fuse_engine *engine, const kilni_fuse_rival *rivals,
                               uint32_t count, uint32_t predicted, double unfused_ns)
{
    uint32_t best = predicted;
    for (uint32_t i = 0; i < count; i++) {
        double limit = rivals[best].measured_ns > 0
                           ? rivals[best].measured_ns * (best == predicted ? margin : 1)
                           : HUGE_VAL;
        if (rivals[i].measured_ns > 0 && rivals[i].measured_ns < limit) {
            best = i;
        }
    }
    bool none = rivals[best].measured_ns <= 0;
    bool unfused = !engine->fuse_slower && unfused_ns > 0 &&
                   unfused_ns < rivals[best].measured_ns * unfused_margin;
    return none || unfused ? count : best;
}

/// The times of a fuser's programs, for whoever wants to know them.
static void tell_fusers(kiln_fuse_engine *engine, const kilni_fuse_tournament *tournament,
                        const int64_t *extents, uint32_t n_extents)
{
    for (uint32_t i = 0; i < tournament->n_rivals; i++) {
        const kilni_fuse_rival *rival = &tournament->rivals[i];
        const kilni_fuse_fuser *fuser = &engine->fusers[rival->fuser];
        const kf_plugin *table = &fuser->plugin->table;
        if (table->fuser_measured == NULL || rival->key.len == 0 || rival->measured_ns <= 0 ||
            !kilni_fuse_fuser_enabled(fuser)) {
            continue;
        }
        const kf_measured measured = {.struct_size = (uint32_t)sizeof(measured),
                                      .variant = rival->variant,
                                      .key = rival->key,
                                      .ns = (uint64_t)rival->measured_ns,
                                      .unfused_ns = (uint64_t)tournament->unfused_ns,
                                      .extents = extents,
                                      .n_extents = n_extents};
        kilni_fuse_set_late(engine, engine->search_ns > 0 ? kiln_time_ns() + engine->search_ns : 0);
        kilni_fuse_crash_record_mark(fuser->plugin, engine->crash_slot, KILNI_FUSE_CALL_MEASURED);
        table->fuser_measured(fuser->handle, &measured);
        kilni_fuse_crash_record_mark(fuser->plugin, engine->crash_slot, KILNI_FUSE_CALL_NONE);
        kilni_fuse_set_late(engine, 0);
    }
}

void kiln_fuse_settle(kiln_fuse_engine *engine, const kiln_plan *plan, uint32_t block,
                      const int64_t *symbols, const uint64_t *measured_ns, uint64_t unfused_ns)
{
    kilni_fuse_plan *own = (kilni_fuse_plan *)(uintptr_t)plan;
    kilni_fuse_tournament *tournament =
        (kilni_fuse_tournament *)(uintptr_t)tournament_of(plan, block);
    const kiln_plan_block *b = &plan->blocks[block];
    kilni_fuse_winner winner = {.count = tournament->n_rivals, .unfused_ns = (double)unfused_ns};
    int64_t extents[KILNI_FUSE_MAX_EXTENTS] = {0};
    uint32_t n = b->n_symbols < KILNI_FUSE_MAX_EXTENTS ? b->n_symbols : KILNI_FUSE_MAX_EXTENTS;
    uint32_t predicted = 0;
    for (uint32_t i = 0; i < tournament->n_rivals; i++) {
        kilni_fuse_rival *rival = &tournament->rivals[i];
        rival->measured_ns = (double)measured_ns[i];
        winner.programs[i] = rival->program->key;
        winner.measured_ns[i] = rival->measured_ns;
        predicted = rival->program == b->program ? i : predicted;
        if (i == 0 ||
            tournament->rivals[i - 1].fuser != rival->fuser) { // the claim is of the first
            learn(engine, rival, (double)b->baseline_ns, winner.unfused_ns);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        extents[i] = symbols[b->symbols[i]];
    }
    winner.chosen = choose_fastest(engine, tournament->rivals, tournament->n_rivals, predicted,
                                   winner.unfused_ns);
    winner.key = tournament_key(engine, winner.programs, winner.count, extents, n);
    const kilni_fuse_winner *before = winner_of(engine, winner.key);
    winner.tries = before != NULL ? before->tries + 1 : 1;
    keep(engine, KILN_STORE_WINNERS, winner.key, &winner, sizeof(winner));
    winner.tries = MOST_TRIES; // this process has no better one
    remember(engine, &winner);
    kiln_log_write(engine->env, KILN_LOG_DEBUG, KILNI_FUSE_MODULE,
                   "block of %u %s measured: %s %.1f us, alone %.1f us, winner %s", b->n_ops,
                   kiln_plural(b->n_ops, "operation", "operations"), b->fuser,
                   tournament->rivals[predicted].measured_ns / 1e3, winner.unfused_ns / 1e3,
                   winner.chosen < winner.count
                       ? engine->fusers[tournament->rivals[winner.chosen].fuser].name
                       : "none");
    tournament->settled = true;
    tournament->unfused_ns = winner.unfused_ns;
    tell_fusers(engine, tournament, extents, n);
    engine->stats.tournaments_measured++;
    engine->stats.tournaments_surprising +=
        is_surprising(&winner, tournament, (double)b->baseline_ns);
    own->outdone = own->outdone || winner.chosen != predicted;
    if (own->node != NULL) { // the next plan of this segment begins with the winner, and tells
        kilni_fuse_plan_store_discard(&engine->plans, own);
    }
}

bool kiln_fuse_plan_outdone(const kiln_plan *plan)
{
    return ((const kilni_fuse_plan *)plan)->outdone;
}
