// SPDX-License-Identifier: MIT OR Apache-2.0
// One seed of the search: every fuser has a builder there and is shown the operations from it on,
// one by one. What a builder does not take is left out, as long as nothing that it takes later
// depends on it; after a few of these in a row it is finished. Answers values that a builder asks
// for and notes them, for they become guards of its plan. A builder that breaks the contract is no
// candidate and its fuser gets a strike. Who wins is decided in search.c.
#include <stdio.h>
#include <string.h>

#include "position.h"

/// Until the next mark a process that ends does so in this call of the fuser's plugin.
static void mark_position(const kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_call call)
{
    kilni_fuse_crash_record_mark(engine->fusers[fuser].plugin, engine->crash_slot, call);
}

void kilni_fuse_position_init(kilni_fuse_position *position)
{
    *position = (kilni_fuse_position){0};
}

static void reset_builder(const kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial)
{
    const kf_plugin *table = &engine->fusers[fuser].plugin->table;
    mark_position(engine, fuser, KILNI_FUSE_CALL_BUILDER);
    if (trial->builder != NULL && table->builder_reset(trial->builder) != KF_OK) {
        table->builder_destroy(trial->builder);
        trial->builder = NULL;
    }
    mark_position(engine, fuser, KILNI_FUSE_CALL_NONE);
}

void kilni_fuse_position_reset(kilni_fuse_position *position, const kiln_fuse_engine *engine)
{
    for (uint32_t i = 0; position->started && i < engine->n_fusers; i++) {
        reset_builder(engine, i, &position->trials[i]);
    }
    position->started = false;
    kilni_fuse_hazards_forget(&position->hazards);
}

void kilni_fuse_position_fini(kilni_fuse_position *position, const kiln_fuse_engine *engine)
{
    for (uint32_t i = 0; position->trials != NULL && i < engine->n_fusers; i++) {
        kilni_fuse_trial *trial = &position->trials[i];
        mark_position(engine, i, KILNI_FUSE_CALL_BUILDER);
        engine->fusers[i].plugin->table.builder_destroy(trial->builder);
        mark_position(engine, i, KILNI_FUSE_CALL_NONE);
        kilni_fuse_block_view_fini(&trial->view, engine->env);
        kiln_free(engine->env, trial->marks);
    }
    kiln_free(engine->env, position->trials);
    kilni_fuse_hazards_fini(&position->hazards, engine->env);
    *position = (kilni_fuse_position){0};
}

static void say(kilni_fuse_diag *diag, const char *text)
{
    diag->op_index = KF_NONE;
    snprintf(diag->text, sizeof(diag->text), "%s", text);
}

static void start_trial(kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial,
                        const kilni_fuse_recorded *recorded, uint32_t seed)
{
    const kilni_fuse_fuser *f = &engine->fusers[fuser];
    kf_builder *builder = trial->builder;
    const kilni_fuse_trial kept = *trial;
    *trial = (kilni_fuse_trial){.builder = builder,
                                .view = kept.view,
                                .scanned = seed,
                                .diag_op = KILNI_FUSE_NONE,
                                .marks = kept.marks,
                                .marks_capacity = kept.marks_capacity};
    kilni_fuse_block_view_reset(&trial->view, recorded);
    if (!kilni_fuse_fuser_enabled(f)) {
        trial->finished = true;
        say(&trial->diag, "disabled after three failures; `kiln plugin reset` forgets them");
        return;
    }
    if (builder == NULL) {
        kilni_fuse_host_listen(f->host, &trial->diag);
        mark_position(engine, fuser, KILNI_FUSE_CALL_BUILDER);
        kf_status status = f->plugin->table.builder_create(f->handle, &trial->builder);
        mark_position(engine, fuser, KILNI_FUSE_CALL_NONE);
        kilni_fuse_host_listen(f->host, NULL);
        if (status != KF_OK || trial->builder == NULL) {
            trial->builder = NULL;
            trial->finished = true;
            say(&trial->diag, "could not make a builder");
        }
    }
}

static kiln_status start(kilni_fuse_position *position, kiln_fuse_engine *engine,
                         const kilni_fuse_recorded *recorded, uint32_t seed, kiln_error *err)
{
    if (position->trials == NULL && engine->n_fusers > 0) {
        position->trials =
            kiln_alloc_array(engine->env, engine->n_fusers, sizeof(*position->trials));
        if (position->trials == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a search");
        }
    }
    position->started = true;
    position->finished = false;
    position->seed = seed;
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        start_trial(engine, i, &position->trials[i], recorded, seed);
    }
    return KILN_STATUS_OK;
}

static kf_status dim_value(const kf_block *block, uint32_t symbol, int64_t *out)
{
    kilni_fuse_trial *trial = block->ctx;
    const kilni_fuse_block_view *view = &trial->view;
    if (out == NULL || symbol >= view->n_symbols) {
        return KF_E_INVALID;
    }
    int64_t value = kilni_fuse_block_symbol_value(view, symbol);
    kilni_fuse_ask ask = {.ref = symbol, .value = value};
    if (symbol != 0 && !kilni_fuse_asks_add(&trial->asks, ask)) {
        return KF_E_UNSUPPORTED;
    }
    *out = value;
    return KF_OK;
}

/// A number that a random operation draws, and has not drawn yet: it does at each run of a graph.
static bool is_drawn_later(const kilni_fuse_block_view *view, uint32_t scalar)
{
    uint32_t at = 0;
    while (view->marks[at].n_scalars <= scalar) {
        at++;
    }
    const kiln_op_record *record = &view->recorded->ops[view->ops[at]];
    const kiln_op_info *info = kiln_op_info_of(record->op);
    uint32_t number = at > 0 ? view->marks[at - 1].n_scalars : 0;
    if (info->cls != KILN_CLASS_CREATION) {
        return false;
    }
    for (uint32_t i = 0; i < info->signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &info->signature->attrs[i];
        if (spec->role == KILN_ROLE_SCALAR && number++ == scalar) {
            return record->attrs[i].type == KILN_ATTR_NONE &&
                   (spec->key == KILN_KEY_SEED || spec->key == KILN_KEY_STREAM ||
                    spec->key == KILN_KEY_POSITION);
        }
    }
    return false;
}

static kf_status scalar_value(const kf_block *block, uint32_t scalar, kf_scalar *out)
{
    kilni_fuse_trial *trial = block->ctx;
    const kilni_fuse_block_view *view = &trial->view;
    if (out == NULL || view->n_ops == 0 || scalar >= view->marks[view->n_ops - 1].n_scalars) {
        return KF_E_INVALID;
    }
    const kiln_attr *attr = &view->recorded->scalars[view->scalars[scalar]];
    if (is_drawn_later(view, scalar) ||
        !kilni_fuse_asks_add(&trial->asks, (kilni_fuse_ask){.is_scalar = true, .ref = scalar})) {
        return KF_E_UNSUPPORTED;
    }
    *out = (kf_scalar){.type = (uint32_t)attr->type};
    memcpy(&out->v, &attr->v, sizeof(out->v));
    return KF_OK;
}

/// What is wrong with an answer, or NULL.
const char *kilni_fuse_state_fault(const kf_state *state, const kilni_fuse_trial *trial)
{
    if (state->struct_size != sizeof(*state)) {
        return "changed the size of the host's struct";
    }
    if (state->status > KF_CLOSED || state->ready > 1) {
        return "gave a state that there is not";
    }
    if (state->len > trial->view.n_ops) {
        return "claims more operations than it was shown";
    }
    if (state->ready == 1 && state->len == 0) {
        return "is ready with no operation";
    }
    return NULL;
}

void kilni_fuse_trial_break(kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial,
                            const char *reason)
{
    trial->finished = true;
    trial->broken = true;
    trial->ready = false;
    say(&trial->diag, reason);
    kilni_fuse_fuser_strike(engine, fuser, reason);
}

/// Shows the block's last operation to the builder. False when it closed without it.
static bool show(kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial)
{
    const kilni_fuse_fuser *f = &engine->fusers[fuser];
    kf_block block = {.struct_size = (uint32_t)sizeof(block),
                      .ctx = trial,
                      .dim_value = dim_value,
                      .scalar_value = scalar_value};
    kf_state state = {.struct_size = (uint32_t)sizeof(state)};
    const kf_op *shown =
        kilni_fuse_op_view_fill(engine->op_view, &trial->view, trial->view.n_ops - 1, &trial->asks);
    kilni_fuse_host_listen(f->host, &trial->diag);
    mark_position(engine, fuser, KILNI_FUSE_CALL_FUSE);
    kf_status status = f->plugin->table.builder_fuse(trial->builder, &block, &shown, 1, &state);
    mark_position(engine, fuser, KILNI_FUSE_CALL_NONE);
    kilni_fuse_host_listen(f->host, NULL);
    const char *bad = status == KF_OK ? kilni_fuse_state_fault(&state, trial) : NULL;
    if (status == KF_E_INTERNAL || status == KF_E_INVALID) {
        bad = "failed inside builder_fuse";
    }
    if (bad != NULL) {
        kilni_fuse_trial_break(engine, fuser, trial, bad);
        return true;
    }
    bool closed = status != KF_OK || state.status == KF_CLOSED;
    if (closed && (status != KF_OK || state.len < trial->view.n_ops)) {
        return false;
    }
    trial->finished = closed;
    trial->ready = state.ready == 1;
    trial->len = state.len;
    trial->launches = state.launches;
    return true;
}

/// Puts the builder back to what it was before the operation at hand.
static void give_back(const kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial,
                      kf_builder *before, uint32_t n_asks, uint32_t op)
{
    mark_position(engine, fuser, KILNI_FUSE_CALL_BUILDER);
    engine->fusers[fuser].plugin->table.builder_destroy(trial->builder);
    mark_position(engine, fuser, KILNI_FUSE_CALL_NONE);
    trial->builder = before;
    trial->asks.count = n_asks;
    trial->marks[op] = 0;
    kilni_fuse_block_view_cut(&trial->view, trial->view.n_ops - 1);
}

/// Offers one operation; it is taken, or everything is as before.
static bool offer(kiln_fuse_engine *engine, kilni_fuse_hazards *hazards, uint32_t fuser,
                  kilni_fuse_trial *trial, uint32_t op)
{
    const kf_plugin *table = &engine->fusers[fuser].plugin->table;
    const kilni_fuse_trial old = *trial;
    kf_builder *before = NULL;
    if (!kilni_fuse_block_view_extend(&trial->view, op)) {
        trial->finished = true;
        return false;
    }
    mark_position(engine, fuser, KILNI_FUSE_CALL_BUILDER);
    if (table->builder_clone(trial->builder, &before) != KF_OK) {
        before = NULL;
    }
    mark_position(engine, fuser, KILNI_FUSE_CALL_NONE);
    (void)kilni_fuse_overdue(engine, hazards); // the program may have done other things meanwhile
    hazards->feeds++;
    trial->marks[op] = KILNI_FUSE_INSIDE;
    trial->diag.text[0] = 0;
    trial->diag_op = op;
    bool taken = show(engine, fuser, trial);
    if (taken && !trial->broken && !kilni_fuse_hazards_hold(hazards, trial)) {
        taken = false;
        say(&trial->diag, "would depend on itself through another block");
    }
    if (taken) {
        mark_position(engine, fuser, KILNI_FUSE_CALL_BUILDER);
        table->builder_destroy(before);
        mark_position(engine, fuser, KILNI_FUSE_CALL_NONE);
        return true;
    }
    give_back(engine, fuser, trial, before, old.asks.count, op);
    trial->finished = before == NULL; // nothing to go on with
    trial->ready = before != NULL && old.ready;
    trial->len = old.len;
    trial->launches = old.launches;
    if (old.idle > 0) {
        trial->diag = old.diag; // the first reason is the one that counts
        trial->diag_op = old.diag_op;
    }
    return false;
}

void kilni_fuse_set_late(kiln_fuse_engine *engine, uint64_t late_ns)
{
    atomic_store(&engine->late_ns, late_ns);
    kilni_fuse_crash_record_limit(engine->registry->crash_record, engine->crash_slot, late_ns);
}

bool kilni_fuse_overdue(kiln_fuse_engine *engine, kilni_fuse_hazards *hazards)
{
    uint64_t most = engine->search_ns * (1 + hazards->n_ops / engine->max_segment);
    if (most == 0) {
        return false;
    }
    uint64_t now = kiln_time_ns();
    hazards->taken_ns += now - hazards->counted_ns;
    hazards->counted_ns = now;
    kilni_fuse_set_late(engine, now + (most > hazards->taken_ns ? most - hazards->taken_ns : 0));
    if (hazards->taken_ns > most && !hazards->overdue) {
        hazards->overdue = true;
        kiln_log_write(engine->env, KILN_LOG_WARN, KILNI_FUSE_MODULE,
                       "search of %u %s stopped after %llu ms: the rest runs unfused",
                       hazards->n_ops, kiln_plural(hazards->n_ops, "operation", "operations"),
                       (unsigned long long)(hazards->taken_ns / 1000000));
    }
    return hazards->overdue;
}

/// Without a limit fusers that take much and are never ready make a search quadratic.
static bool may_show(kiln_fuse_engine *engine, kilni_fuse_hazards *hazards, uint32_t end)
{
    uint64_t most = KILNI_FUSE_MAX_FEEDS + (uint64_t)KILNI_FUSE_MORE_FEEDS * engine->n_fusers * end;
    if (hazards->feeds >= most && !hazards->spent) {
        hazards->spent = true;
        kiln_log_write(engine->env, KILN_LOG_WARN, KILNI_FUSE_MODULE,
                       "search of %u %s stopped after showing %llu: the rest runs unfused", end,
                       kiln_plural(end, "operation", "operations"), (unsigned long long)most);
    }
    return !hazards->spent && !kilni_fuse_overdue(engine, hazards);
}

/// Why the operation is not shown to the fuser; "" where that needs no word, NULL when it is.
static const char *withheld(kiln_fuse_engine *engine, kilni_fuse_hazards *hazards,
                            kilni_fuse_trial *trial, uint32_t op, uint32_t end)
{
    const kilni_fuse_recorded *recorded = hazards->recorded;
    if (recorded->ops[op].op == KILN_OP_DROP) {
        return kilni_fuse_hazards_drop(hazards, trial, op) ? NULL : "";
    }
    if (!kilni_fuse_hazards_allow(hazards, trial, op) || recorded->marks[op].empty_extent ||
        hazards->unit[op] != KILNI_FUSE_NONE || trial->marks[op] == KILNI_FUSE_VIEW) {
        return "";
    }
    if (kiln_op_info_of(recorded->ops[op].op)->cls == KILN_CLASS_COLLECTIVE) {
        return "is of several devices and runs unfused"; // a block may run twice, to be measured
    }
    return may_show(engine, hazards, end) ? NULL : "the search had taken as long as it may";
}

static void scan(kiln_fuse_engine *engine, kilni_fuse_hazards *hazards, uint32_t fuser,
                 kilni_fuse_trial *trial, uint32_t end)
{
    while (!trial->finished && trial->scanned < end) {
        uint32_t op = trial->scanned++;
        bool is_drop = hazards->recorded->ops[op].op == KILN_OP_DROP;
        bool is_view = trial->marks[op] == KILNI_FUSE_VIEW;
        bool seed = trial->view.n_ops == 0 && trial->idle == 0;
        const char *why = withheld(engine, hazards, trial, op, end);
        bool taken = why == NULL && offer(engine, hazards, fuser, trial, op);
        if (is_drop) {
            continue;
        }
        if (taken) {
            trial->idle = 0;
            continue;
        }
        if (why != NULL && *why != 0 && trial->idle == 0) {
            say(&trial->diag, why);
            trial->diag_op = op;
        }
        trial->idle += is_view ? 0 : 1; // it was taken before, and would be again
        kilni_fuse_hazards_leave_out(hazards, trial, op);
        trial->finished = trial->finished || seed || trial->idle >= KILNI_FUSE_PATIENCE;
    }
}

// ---- reshapes that stay views ----

/// Whether operation `at` of the block reshapes what the block gives out, too, and nothing in the
/// block reads the result. The block would write all elements twice; left out, it is a view.
static bool gives_twice(const kilni_fuse_trial *trial, uint32_t at)
{
    const kilni_fuse_block_view *view = &trial->view;
    const kilni_fuse_recorded *recorded = view->recorded;
    if (recorded->ops[view->ops[at]].op != KILN_OP_RESHAPE) {
        return false;
    }
    const uint32_t *refs = recorded->marks[view->ops[at]].refs;
    uint32_t source = kilni_fuse_block_tensor(view, refs[0]);
    if (view->defined[source] == KILNI_FUSE_NONE || view->dropped[source] < trial->len) {
        return false;
    }
    for (uint32_t i = at + 1; i < trial->len; i++) {
        const kiln_op_record *reader = &recorded->ops[view->ops[i]];
        for (uint32_t k = 0; k < reader->n_inputs; k++) {
            if (recorded->marks[view->ops[i]].refs[k] == refs[1]) {
                return false;
            }
        }
    }
    return true;
}

static bool mark_views(kilni_fuse_trial *trial)
{
    bool any = false;
    for (uint32_t i = 0; trial->ready && i < trial->len; i++) {
        if (gives_twice(trial, i)) {
            trial->marks[trial->view.ops[i]] |= KILNI_FUSE_VIEW;
            any = true;
        }
    }
    return any;
}

/// From the seed on once more. Of the marks those of `kept` stay.
static void begin_again(kiln_fuse_engine *engine, kilni_fuse_position *position, uint32_t fuser,
                        uint8_t kept)
{
    kilni_fuse_trial *trial = &position->trials[fuser];
    reset_builder(engine, fuser, trial);
    start_trial(engine, fuser, trial, trial->view.recorded, position->seed);
    for (uint32_t op = 0; op < trial->marks_capacity; op++) {
        trial->marks[op] &= kept;
    }
}

void kilni_fuse_position_leave_views(kilni_fuse_position *position, kiln_fuse_engine *engine,
                                     kilni_fuse_hazards *hazards, uint32_t end)
{
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        kilni_fuse_trial *trial = &position->trials[i];
        if (!mark_views(trial)) {
            continue;
        }
        begin_again(engine, position, i, KILNI_FUSE_VIEW);
        scan(engine, hazards, i, trial, end);
        if (!trial->ready && !trial->broken) { // it wants them
            begin_again(engine, position, i, 0);
            scan(engine, hazards, i, trial, end);
        }
    }
}

kiln_status kilni_fuse_position_feed(kilni_fuse_position *position, kiln_fuse_engine *engine,
                                     kilni_fuse_hazards *hazards, uint32_t seed, uint32_t end,
                                     kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (!position->started) {
        status = start(position, engine, hazards->recorded, seed, err);
    }
    position->finished = true;
    for (uint32_t i = 0; i < engine->n_fusers && status == KILN_STATUS_OK; i++) {
        kilni_fuse_trial *trial = &position->trials[i];
        uint32_t known = trial->marks_capacity;
        if (!kilni_fuse_grow(engine->env, &trial->marks, &trial->marks_capacity, end,
                             sizeof(*trial->marks))) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a search");
        }
        if (trial->scanned == seed) {
            memset(trial->marks, 0, trial->marks_capacity);
        } else if (trial->marks_capacity > known) {
            memset(trial->marks + known, 0, trial->marks_capacity - known);
        }
        scan(engine, hazards, i, trial, end);
        position->finished = position->finished && trial->finished;
    }
    (void)kilni_fuse_overdue(engine, hazards); // the last operation shown took time too
    return status;
}
