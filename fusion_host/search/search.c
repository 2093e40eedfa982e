// SPDX-License-Identifier: MIT OR Apache-2.0
// The search: a segment in, blocks out. From each operation that is in no block yet, every fuser
// gathers what it can (position.c); those that are ready are described, verified and scored, the
// best takes its block, and the search goes on with what is left, holes inside blocks included.
// What a program may contain is checked in translate.c.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tournament.h"
#include "translate.h"

// ---- candidates of one position ----

typedef struct choice { ///< the candidates of one position
    kiln_fuse_engine *engine;
    kilni_fuse_position *position;
    kilni_fuse_hazards *hazards;
    kiln_arena *arena;
    kilni_fuse_blocks *blocks;
    kilni_fuse_candidate best;
    bool has_best;
    kilni_fuse_candidate entered[KILNI_FUSE_MAX_CONTENDERS]; ///< all that may be measured
    uint32_t n_entered;
} choice;

/// Until the next mark a process that ends does so in this call of the fuser's plugin.
static void mark_call(const choice *c, uint32_t fuser, kilni_fuse_call call)
{
    kilni_fuse_crash_record_mark(c->engine->fusers[fuser].plugin, c->engine->crash_slot, call);
}

static const char *keep_text(choice *c, const char *text)
{
    const char *copy = kiln_arena_copy(c->arena, text, strlen(text) + 1);
    return copy != NULL ? copy : "";
}

static kilni_fuse_verdict *add_verdict(choice *c, uint32_t fuser)
{
    kilni_fuse_blocks *b = c->blocks;
    if (!kilni_fuse_grow(c->engine->env, &b->verdicts, &b->verdicts_capacity,
                         (uint64_t)b->n_verdicts + 1, sizeof(*b->verdicts))) {
        return NULL;
    }
    kilni_fuse_verdict *verdict = &b->verdicts[b->n_verdicts++];
    *verdict = (kilni_fuse_verdict){
        .first_op = c->position->seed, .fuser = fuser, .name = "", .reason = ""};
    return verdict;
}

static void give_reason(choice *c, kilni_fuse_verdict *verdict, const kilni_fuse_trial *trial)
{
    char text[224];
    if (trial->diag.text[0] == 0) {
        verdict->reason = trial->finished ? "declined without a reason" : "wants more operations";
        return;
    }
    if (trial->diag.op_index == KF_NONE) {
        verdict->reason = keep_text(c, trial->diag.text);
        return;
    }
    const kilni_fuse_block_view *view = &trial->view;
    uint32_t op = trial->diag.op_index;
    if (op > view->n_ops || trial->diag_op == KILNI_FUSE_NONE) {
        verdict->reason = keep_text(c, trial->diag.text);
        return;
    }
    op = op < view->n_ops ? view->ops[op] : trial->diag_op;
    snprintf(text, sizeof(text), "operation %u (%s): %s", op,
             kiln_op_info_of(view->recorded->ops[op].op)->name, trial->diag.text);
    verdict->reason = keep_text(c, text);
}

enum {
    MOST_VARIANTS = 3, ///< of one candidate, beside its first program
    MOST_DESCRIBED = 16, ///< of these a fuser may describe, usable or not
    MOST_KEY = 4096 ///< bytes by which a fuser knows its program again
};

typedef struct variants {
    kiln_program *programs[MOST_VARIANTS];
    uint32_t numbers[MOST_VARIANTS]; ///< as the fuser counts them
    int64_t claims[MOST_VARIANTS]; ///< nanoseconds; below 0: none of its own
    uint32_t count;
} variants;

/// The claims, now that the block's length is settled; the pointers in the state are good until the
/// next call, and may be anything: the caller reads them under the same mark.
static bool ask_state(choice *c, uint32_t fuser, kf_state *state)
{
    kilni_fuse_trial *trial = &c->position->trials[fuser];
    const kf_plugin *table = &c->engine->fusers[fuser].plugin->table;
    *state = (kf_state){.struct_size = (uint32_t)sizeof(*state)};
    mark_call(c, fuser, KILNI_FUSE_CALL_STATE);
    kf_status status = table->builder_state(trial->builder, state);
    const char *bad =
        status != KF_OK ? "failed inside builder_state" : kilni_fuse_state_fault(state, trial);
    if (bad == NULL && (state->len != trial->len || state->ready != 1)) {
        bad = "changed its mind between builder_fuse and builder_state";
    }
    if (bad != NULL) {
        kilni_fuse_trial_break(c->engine, fuser, trial, bad);
    }
    return bad == NULL;
}

/// An estimate that says nothing true is no claim, and the host's roofline would be the boldest.
static kiln_status read_claim(const kilni_fuse_translation *input, kf_expr est_ns, int64_t *out_ns,
                              kiln_error *err)
{
    kiln_formula formula;
    *out_ns = -1;
    kiln_status status = kilni_fuse_formula_translate(input, est_ns, &formula, err);
    if (status == KILN_STATUS_OK && formula.count > 0) {
        status = kilni_fuse_formula_now(input, &formula, out_ns, err);
        if (status == KILN_STATUS_OK && *out_ns < 0) {
            status = kiln_fail(err, INVALID_ARGUMENT, "%" PRId64 " ns are less than none", *out_ns);
        }
    }
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "its estimate of the time cannot be used");
    }
    return status;
}

/// Other ways to write the same program, for tournaments, or with a claim of their own; one that is
/// not well described is left out.
static void take_variants(choice *c, const kf_plugin *table, const kf_opt *opt,
                          const kf_opt_info *info, const kilni_fuse_translation *input,
                          variants *out)
{
    uint32_t end = info->n_variants < MOST_DESCRIBED ? info->n_variants : MOST_DESCRIBED;
    for (uint32_t i = 1; i < end && out->count < MOST_VARIANTS; i++) {
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        kf_expr est_ns = {0};
        kiln_program *translated = NULL;
        kiln_error why = KILN_ERROR_INIT;
        if (info->variant_ns != NULL && i < info->n_variant_ns) {
            est_ns = info->variant_ns[i];
        }
        if (table->opt_describe(opt, i, &program) == KF_OK &&
            read_claim(input, est_ns, &out->claims[out->count], &why) == KILN_STATUS_OK &&
            kilni_fuse_translate(input, &program, &translated, &why) == KILN_STATUS_OK) {
            out->numbers[out->count] = i;
            out->programs[out->count++] = translated;
        } else {
            kiln_log_write(c->engine->env, KILN_LOG_INFO, KILNI_FUSE_MODULE, "variant %u: %s", i,
                           why.message);
        }
    }
}

/// The name and the key, which end with the optimization.
static void keep_info(choice *c, const kf_opt_info *info, kilni_fuse_candidate *out)
{
    char *name = kiln_arena_alloc(c->arena, info->name.len + 1);
    if (name != NULL && info->name.len > 0) {
        memcpy(name, info->name.ptr, info->name.len);
    }
    out->name = name != NULL ? name : "";
    bool told = info->key.ptr != NULL && info->key.len <= MOST_KEY &&
                c->engine->fusers[out->fuser].plugin->table.fuser_measured != NULL;
    void *key = told ? kiln_arena_copy(c->arena, info->key.ptr, info->key.len) : NULL;
    out->key = (kf_blob){key, key != NULL ? info->key.len : 0};
}

/// Describes and verifies what the builder has.
static kiln_status take_program(choice *c, uint32_t fuser, const kilni_fuse_translation *input,
                                kilni_fuse_candidate *out, variants *others, kiln_error *err)
{
    const kf_plugin *table = &c->engine->fusers[fuser].plugin->table;
    kf_opt *opt = NULL;
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    kiln_status status = KILN_STATUS_OK;
    mark_call(c, fuser, KILNI_FUSE_CALL_FINISH);
    if (table->builder_finish(c->position->trials[fuser].builder, &opt) != KF_OK || opt == NULL) {
        status = kiln_fail(err, INTERNAL, "was ready but did not finish");
    } else if (table->opt_info(opt, &info) != KF_OK || info.struct_size != sizeof(info)) {
        status = kiln_fail(err, INTERNAL, "gives no information about its result");
    } else if (info.len != input->len) {
        status = kiln_fail(err, INTERNAL, "finished %u operations where it had promised %u",
                           info.len, input->len);
    } else if (!kilni_fuse_text_ok(info.name, 128)) {
        status = kiln_fail(err, INTERNAL,
                           "gives its result a name that is no text of at most 128 bytes");
    } else if (table->opt_describe(opt, 0, &program) != KF_OK) {
        status = kiln_fail(err, INTERNAL, "did not describe its result");
    } else {
        status = kilni_fuse_translate(input, &program, &out->program, err);
    }
    if (status == KILN_STATUS_OK) {
        keep_info(c, &info, out);
        take_variants(c, table, opt, &info, input, others);
    }
    if (opt != NULL) {
        table->opt_destroy(opt);
    }
    mark_call(c, fuser, KILNI_FUSE_CALL_NONE);
    return status;
}

/// `claimed_ns` below 0: no estimate, so the host takes its own roofline of the program.
static void score(choice *c, const kilni_fuse_translation *input, int64_t claimed_ns,
                  kilni_fuse_candidate *candidate)
{
    const kiln_device_info *device = &c->engine->device;
    const kilni_fuse_recorded *recorded = input->view->recorded;
    kilni_fuse_score *s = &candidate->score;
    double unfused_ns = 0;
    s->len = input->len;
    for (uint32_t i = 0; i < candidate->program->n_steps; i++) {
        const kiln_program_step *step = &candidate->program->steps[i];
        if (step->kind == KILN_STEP_LAUNCH) {
            s->launches++;
        } else {
            unfused_ns +=
                kilni_fuse_score_baseline(device, recorded, input->view->ops[step->index]);
        }
    }
    for (uint32_t i = 0; i < input->len; i++) {
        s->baseline_ns += kilni_fuse_score_baseline(device, recorded, input->view->ops[i]);
        s->n_ops += recorded->ops[input->view->ops[i]].op != KILN_OP_DROP;
    }
    s->floor_ns = kilni_fuse_score_floor(input, s->launches);
    s->claimed_ns = claimed_ns >= 0 ? (double)claimed_ns : s->floor_ns + unfused_ns;
    s->trust = kilni_fuse_trust_factor(c->engine, candidate->fuser) *
               kilni_fuse_doubt(candidate->confidence);
    kilni_fuse_score_close(s);
}

static bool is_worth_fusing(const choice *c, const kilni_fuse_score *score)
{
    return c->engine->fuse_slower || fmax(score->claimed_ns, score->floor_ns) < score->baseline_ns;
}

static void enter(choice *c, kilni_fuse_verdict *verdict, const kilni_fuse_candidate *candidate)
{
    bool worth = is_worth_fusing(c, &candidate->score);
    const char *failure = kilni_fuse_program_failure(c->engine, candidate->program->key);
    kiln_error why = KILN_ERROR_INIT;
    verdict->ready = true;
    verdict->score = candidate->score;
    verdict->name = candidate->name;
    if (!kilni_fuse_admits(c->engine, candidate->program, &why)) {
        verdict->reason = keep_text(c, why.message);
        c->blocks->lacking = true;
        return;
    }
    // Who may be measured follows from claims alone, so that a tournament is found again.
    if (worth && c->n_entered < KILNI_FUSE_MAX_CONTENDERS) {
        c->entered[c->n_entered++] = *candidate;
    }
    if (!worth) {
        verdict->reason = "not faster than the unfused operations";
    } else if (failure != NULL) {
        char text[224];
        snprintf(text, sizeof(text), "this program failed before: %s", failure);
        verdict->reason = keep_text(c, text);
        c->blocks->lacking = true; // another process may do without the failure
    } else if (!c->has_best || kilni_fuse_candidate_before(candidate, &c->best)) {
        c->best = *candidate;
        c->has_best = true;
    }
}

/// A variant with a claim of its own may take the block, and is then what is told of the fuser.
static void contend(choice *c, kilni_fuse_verdict *verdict, const kilni_fuse_candidate *variant)
{
    if (kilni_fuse_program_failure(c->engine, variant->program->key) != NULL) {
        c->blocks->lacking = true;
        return;
    }
    bool best = !c->has_best || kilni_fuse_candidate_before(variant, &c->best);
    if (best) {
        c->best = *variant;
        c->has_best = true;
    }
    if (best || variant->score.benefit_ns > verdict->score.benefit_ns) {
        verdict->score = variant->score;
        verdict->reason = "";
    }
}

/// One without a claim of its own has that of the first program, and is only taken when it was
/// measured to be the fastest.
static void enter_variants(choice *c, const kilni_fuse_translation *input,
                           kilni_fuse_verdict *verdict, const kilni_fuse_candidate *first,
                           const variants *others)
{
    for (uint32_t i = 0; i < others->count && c->n_entered < KILNI_FUSE_MAX_CONTENDERS; i++) {
        kilni_fuse_candidate variant = *first;
        variant.program = others->programs[i];
        variant.variant = others->numbers[i];
        if (others->claims[i] >= 0) {
            variant.score = (kilni_fuse_score){0};
            score(c, input, others->claims[i], &variant);
        }
        if (!is_worth_fusing(c, &variant.score) ||
            !kilni_fuse_admits(c->engine, variant.program, NULL)) {
            continue;
        }
        c->entered[c->n_entered++] = variant;
        if (others->claims[i] >= 0) {
            contend(c, verdict, &variant);
        }
    }
}

static const int64_t *block_values(const kilni_fuse_translation *input)
{
    uint32_t count = input->view->marks[input->len - 1].n_symbols;
    int64_t *values = kiln_arena_alloc(input->arena, count * sizeof(*values));
    for (uint32_t i = 0; values != NULL && i < count; i++) {
        values[i] = kilni_fuse_block_symbol_value(input->view, i);
    }
    return values;
}

static void judge(choice *c, uint32_t fuser)
{
    kilni_fuse_trial *trial = &c->position->trials[fuser];
    const kilni_fuse_fuser *f = &c->engine->fusers[fuser];
    kilni_fuse_verdict *verdict = add_verdict(c, fuser);
    kf_state state;
    if (verdict == NULL) {
        return;
    }
    if (!trial->ready) {
        give_reason(c, verdict, trial);
        return;
    }
    kilni_fuse_translation input = {.view = &trial->view,
                                    .len = trial->len,
                                    .device = &c->engine->device,
                                    .facts = c->engine->facts,
                                    .asks = &trial->asks,
                                    .arena = c->arena};
    input.values = block_values(&input);
    if (input.values == NULL) {
        return;
    }
    kilni_fuse_candidate candidate = {.fuser = fuser,
                                      .plugin_id = f->plugin->info.id,
                                      .fuser_id = f->id,
                                      .ships = f->plugin->trust == KILNI_FUSE_TRUST_SHIPPED};
    kiln_error why = KILN_ERROR_INIT;
    int64_t claim = -1;
    variants others = {.count = 0};
    bool has_state = ask_state(c, fuser, &state);
    kiln_status status =
        has_state ? read_claim(&input, state.est_ns, &claim, &why) : KILN_STATUS_INTERNAL;
    mark_call(c, fuser, KILNI_FUSE_CALL_NONE);
    if (!has_state) {
        give_reason(c, verdict, trial);
        return;
    }
    if (status != KILN_STATUS_OK) {
        verdict->reason = keep_text(c, why.message);
        return;
    }
    candidate.confidence = kilni_fuse_confidence(f->plugin, &state);
    status = take_program(c, fuser, &input, &candidate, &others, &why);
    if (status == KILN_STATUS_OK && candidate.program != NULL) {
        score(c, &input, claim, &candidate);
        enter(c, verdict, &candidate);
        enter_variants(c, &input, verdict, &candidate, &others);
        return;
    }
    verdict->reason = keep_text(c, why.message);
    if (status != KILN_STATUS_RESOURCE_EXHAUSTED && status != KILN_STATUS_UNIMPLEMENTED &&
        status != KILN_STATUS_FAILED_PRECONDITION) {
        kilni_fuse_trial_break(c->engine, fuser, trial, why.message);
    }
}

// ---- blocks ----

static bool add_guards(choice *c, const kilni_fuse_trial *trial)
{
    kilni_fuse_blocks *b = c->blocks;
    const kilni_fuse_block_view *view = &trial->view;
    for (uint32_t i = 0; i < trial->asks.count; i++) {
        if (!trial->asks.items[i].is_scalar) {
            continue; // in the program's own guard
        }
        if (!kilni_fuse_grow(c->engine->env, &b->guards, &b->guards_capacity,
                             (uint64_t)b->n_guards + 1, sizeof(*b->guards))) {
            return false;
        }
        if (trial->asks.items[i].ref >= view->marks[trial->len - 1].n_scalars) {
            continue; // behind the block, so the block does not depend on it
        }
        uint32_t scalar = view->scalars[trial->asks.items[i].ref];
        b->guards[b->n_guards++] =
            (kilni_fuse_scalar_guard){scalar, view->recorded->scalars[scalar]};
    }
    return true;
}

static bool asked_a_scalar(const kilni_fuse_trial *trial)
{
    for (uint32_t i = 0; i < trial->asks.count; i++) {
        if (trial->asks.items[i].is_scalar) {
            return true;
        }
    }
    return false;
}

/// The candidates with the same operations as the best, in a fixed order; with them the block may
/// be put to a tournament again. One that holds for a scalar's value only stays out.
static bool add_rivals(choice *c, kilni_fuse_block *block)
{
    block->rivals = kiln_arena_alloc(c->arena, (c->n_entered + 1) * sizeof(*block->rivals));
    if (block->rivals == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < c->n_entered; i++) {
        const kilni_fuse_candidate *candidate = &c->entered[i];
        const kilni_fuse_trial *trial = &c->position->trials[candidate->fuser];
        bool same = candidate->score.len == block->len &&
                    memcmp(trial->view.ops, block->ops, block->len * sizeof(*block->ops)) == 0;
        if (same && (candidate->fuser == block->fuser || !asked_a_scalar(trial))) {
            block->rivals[block->n_rivals++] = (kilni_fuse_rival){
                .fuser = candidate->fuser,
                .program = candidate->program,
                .variant = candidate->variant,
                .key = candidate->key,
                .claimed_ns = candidate->score.claimed_ns,
                .predicted_ns = candidate->score.adjusted_ns,
            };
        }
    }
    return true;
}

static bool add_block(choice *c)
{
    kilni_fuse_blocks *b = c->blocks;
    const kilni_fuse_trial *trial = &c->position->trials[c->best.fuser];
    const kilni_fuse_block_view *view = &trial->view;
    const kilni_fuse_block_mark *end = &view->marks[c->best.score.len - 1];
    if (!kilni_fuse_grow(c->engine->env, &b->blocks, &b->blocks_capacity, (uint64_t)b->n_blocks + 1,
                         sizeof(*b->blocks))) {
        return false;
    }
    kilni_fuse_block *block = &b->blocks[b->n_blocks];
    *block = (kilni_fuse_block){
        .ops = kiln_arena_copy(c->arena, view->ops, c->best.score.len * sizeof(uint32_t)),
        .len = c->best.score.len,
        .fuser = c->best.fuser,
        .program = c->best.program,
        .tensors = kiln_arena_copy(c->arena, view->tensors, end->n_tensors * sizeof(uint32_t)),
        .n_tensors = end->n_tensors,
        .symbols = kiln_arena_copy(c->arena, view->symbols, end->n_symbols * sizeof(uint32_t)),
        .n_symbols = end->n_symbols,
        .scalars = kiln_arena_copy(c->arena, view->scalars, end->n_scalars * sizeof(uint32_t)),
        .n_scalars = end->n_scalars,
        .score = c->best.score,
    };
    kilni_fuse_hazards_add(c->hazards, view->ops, block->len);
    b->n_blocks++;
    return block->ops != NULL && block->tensors != NULL && block->symbols != NULL &&
           block->scalars != NULL && add_rivals(c, block) && add_guards(c, trial);
}

static void say_who_won(choice *c, uint32_t first_verdict)
{
    for (uint32_t i = first_verdict; i < c->blocks->n_verdicts; i++) {
        kilni_fuse_verdict *verdict = &c->blocks->verdicts[i];
        verdict->won = c->has_best && verdict->fuser == c->best.fuser;
        if (verdict->won) {
            verdict->reason = "";
        } else if (verdict->ready && verdict->reason[0] == 0) {
            double less_ns = c->best.score.benefit_ns - verdict->score.benefit_ns;
            char text[96];
            if (less_ns > 0) {
                snprintf(text, sizeof(text), "saves %.0f ns less than the winner", less_ns);
            } else {
                snprintf(text, sizeof(text),
                         "saves as much as the winner: decided by launches, length, id");
            }
            verdict->reason = keep_text(c, text);
        }
        if (!verdict->won) {
            kiln_log_write(
                c->engine->env, KILN_LOG_DEBUG, KILNI_FUSE_MODULE, "%s of %s at operation %u: %s",
                c->position->trials[verdict->fuser].ready ? "no block" : "not ready",
                c->engine->fusers[verdict->fuser].name, verdict->first_op, verdict->reason);
        }
    }
}

/// Compares what the fusers gathered; the winner's block is added.
static kiln_status choose_block(choice *c, kiln_error *err)
{
    uint32_t first_verdict = c->blocks->n_verdicts;
    for (uint32_t i = 0; i < c->engine->n_fusers; i++) {
        judge(c, i);
    }
    say_who_won(c, first_verdict);
    return !c->has_best || add_block(c)
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a block");
}

/// What is settled of the segment: blocks and verdicts up to a cut that no block crosses.
typedef struct settled {
    uint32_t cut;
    uint32_t n_blocks;
    uint32_t n_verdicts;
    uint32_t n_guards;
} settled;

static uint32_t last_op(const kilni_fuse_blocks *blocks)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        uint32_t end = blocks->blocks[i].ops[blocks->blocks[i].len - 1] + 1;
        last = end > last ? end : last;
    }
    return last;
}

/// Before seed `at`, everything earlier is decided; when no block reaches past it, it is a cut.
static void note_cut(const kilni_fuse_blocks *blocks, uint32_t at, settled *s)
{
    if (last_op(blocks) <= at) {
        *s = (settled){at, blocks->n_blocks, blocks->n_verdicts, blocks->n_guards};
    }
}

/// `decide`: also what more operations might change.
static kiln_status search_from(choice *c, uint32_t seed, uint32_t n_ops, bool decide,
                               bool *out_wait, kiln_error *err)
{
    kiln_status status =
        kilni_fuse_position_feed(c->position, c->engine, c->hazards, seed, n_ops, err);
    *out_wait = !decide && !c->position->finished && !c->hazards->overdue;
    if (status == KILN_STATUS_OK && !*out_wait) {
        kilni_fuse_position_leave_views(c->position, c->engine, c->hazards, n_ops);
        status = choose_block(c, err);
    }
    if (c->position == c->engine->scratch) {
        kilni_fuse_position_reset(c->position, c->engine);
    }
    return status;
}

static kiln_status search_all(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                              uint32_t n_ops, kilni_fuse_cover cover, kilni_fuse_position *first,
                              kiln_arena *arena, kilni_fuse_blocks *out_blocks, kiln_error *err)
{
    bool full = cover == KILNI_FUSE_COVER_ALL;
    kilni_fuse_hazards *hazards = &first->hazards;
    settled safe = {0};
    bool wait = false;
    bool leading = true;
    if (!kilni_fuse_hazards_learn(hazards, recorded, n_ops)) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a search");
    }
    for (uint32_t at = 0; at < n_ops && !wait; at++) {
        if (recorded->ops[at].op == KILN_OP_DROP) {
            continue;
        }
        note_cut(out_blocks, at, &safe);
        if (hazards->unit[at] != KILNI_FUSE_NONE || kilni_fuse_overdue(engine, hazards)) {
            continue;
        }
        choice c = {.engine = engine,
                    .position = leading ? first : engine->scratch,
                    .hazards = hazards,
                    .arena = arena,
                    .blocks = out_blocks};
        bool decide = full || (leading && cover == KILNI_FUSE_COVER_FIRST);
        leading = false;
        kiln_status status = search_from(&c, at, n_ops, decide, &wait, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    out_blocks->lacking = out_blocks->lacking || hazards->overdue; // not for other processes
    full = full || (cover == KILNI_FUSE_COVER_FIRST && !wait);
    out_blocks->n_covered = full ? n_ops : safe.cut;
    if (!full) {
        out_blocks->n_blocks = safe.n_blocks;
        out_blocks->n_verdicts = safe.n_verdicts;
        out_blocks->n_guards = safe.n_guards;
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_fuse_search(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                              uint32_t n_ops, kilni_fuse_cover cover, kilni_fuse_position *first,
                              kiln_arena *arena, kilni_fuse_blocks *out_blocks, kiln_error *err)
{
    kiln_status status = search_all(engine, recorded, n_ops, cover, first, arena, out_blocks, err);
    kilni_fuse_set_late(engine, 0);
    return status;
}

void kilni_fuse_blocks_fini(kilni_fuse_blocks *blocks, const kiln_env *env)
{
    kiln_free(env, blocks->blocks);
    kiln_free(env, blocks->verdicts);
    kiln_free(env, blocks->guards);
    *blocks = (kilni_fuse_blocks){0};
}
