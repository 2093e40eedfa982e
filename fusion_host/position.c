// SPDX-License-Identifier: MIT OR Apache-2.0
// One position of the search: every fuser has a builder there and is shown the operations one by
// one until it closes. Answers values that a builder asks for and notes them, for they become
// guards of its plan. A builder that breaks the contract is no candidate and its fuser gets a
// strike. Who wins is decided in search.c.
#include <stdio.h>
#include <string.h>

#include "fusion_host_internal.h"

void kilni_fuse_position_init(kilni_fuse_position *position)
{
    *position = (kilni_fuse_position){0};
}

void kilni_fuse_position_reset(kilni_fuse_position *position, const kiln_fuse_engine *engine)
{
    for (uint32_t i = 0; position->started && i < engine->n_fusers; i++) {
        kilni_fuse_trial *trial = &position->trials[i];
        const kf_plugin *table = &engine->fusers[i].plugin->table;
        if (trial->builder != NULL && table->builder_reset(trial->builder) != KF_OK) {
            table->builder_destroy(trial->builder);
            trial->builder = NULL;
        }
    }
    position->started = false;
}

void kilni_fuse_position_fini(kilni_fuse_position *position, const kiln_fuse_engine *engine)
{
    for (uint32_t i = 0; position->trials != NULL && i < engine->n_fusers; i++) {
        engine->fusers[i].plugin->table.builder_destroy(position->trials[i].builder);
    }
    kiln_free(engine->env, position->trials);
    kilni_fuse_block_view_fini(&position->view, engine->env);
    *position = (kilni_fuse_position){0};
}

static void say(kilni_fuse_diag *diag, const char *text)
{
    diag->op_index = KF_NONE;
    snprintf(diag->text, sizeof diag->text, "%s", text);
}

static void start_trial(kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial)
{
    const kilni_fuse_fuser *f = &engine->fusers[fuser];
    kf_builder *builder = trial->builder;
    *trial = (kilni_fuse_trial){.builder = builder};
    if (!kilni_fuse_fuser_enabled(f)) {
        trial->closed = true;
        say(&trial->diag, "disabled after three failures");
        return;
    }
    if (builder == NULL) {
        kilni_fuse_host_listen(f->host, &trial->diag);
        kf_status status = f->plugin->table.builder_create(f->handle, &trial->builder);
        kilni_fuse_host_listen(f->host, NULL);
        if (status != KF_OK || trial->builder == NULL) {
            trial->builder = NULL;
            trial->closed = true;
            say(&trial->diag, "could not make a builder");
        }
    }
}

static kiln_status start(kilni_fuse_position *position, kiln_fuse_engine *engine,
                         const kilni_fuse_tape *tape, uint32_t first, kiln_error *err)
{
    if (position->trials == NULL && engine->n_fusers > 0) {
        position->trials =
            kiln_alloc_array(engine->env, engine->n_fusers, sizeof *position->trials);
        if (position->trials == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a search");
        }
    }
    kilni_fuse_block_view_reset(&position->view, tape, first);
    position->started = true;
    position->stopped = false;
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        start_trial(engine, i, &position->trials[i]);
    }
    return KILN_STATUS_OK;
}

typedef struct answers { ///< what a builder may ask about the block: behind kf_block
    kilni_fuse_position *position;
    kilni_fuse_trial *trial;
} answers;

bool kilni_fuse_trial_ask(kilni_fuse_trial *trial, kilni_fuse_ask ask)
{
    for (uint32_t i = 0; i < trial->n_asks; i++) {
        if (trial->asks[i].ref == ask.ref && trial->asks[i].is_scalar == ask.is_scalar) {
            return true;
        }
    }
    if (trial->n_asks == KILNI_FUSE_MAX_ASKS) {
        return false;
    }
    trial->asks[trial->n_asks++] = ask;
    return true;
}

static kf_status dim_value(const kf_block *block, uint32_t symbol, int64_t *out)
{
    const answers *a = block->ctx;
    const kilni_fuse_block_view *view = &a->position->view;
    if (out == NULL || symbol >= view->n_symbols) {
        return KF_E_INVALID;
    }
    int64_t value = kilni_fuse_block_symbol_value(view, symbol);
    kilni_fuse_ask ask = {.ref = symbol, .value = value};
    if (symbol != 0 && !kilni_fuse_trial_ask(a->trial, ask)) {
        return KF_E_UNSUPPORTED;
    }
    *out = value;
    return KF_OK;
}

static kf_status scalar_value(const kf_block *block, uint32_t scalar, kf_scalar *out)
{
    const answers *a = block->ctx;
    const kilni_fuse_block_view *view = &a->position->view;
    if (out == NULL || view->n_ops == 0 || scalar >= view->marks[view->n_ops - 1].n_scalars) {
        return KF_E_INVALID;
    }
    const kiln_attr *attr = &view->tape->scalars[view->scalar_base + scalar];
    if (!kilni_fuse_trial_ask(a->trial, (kilni_fuse_ask){.is_scalar = true, .ref = scalar})) {
        return KF_E_UNSUPPORTED;
    }
    *out = (kf_scalar){.type = (uint32_t)attr->type};
    memcpy(&out->v, &attr->v, sizeof out->v);
    return KF_OK;
}

/* What is wrong with an answer, or NULL. */
const char *kilni_fuse_state_fault(const kf_state *state, const kilni_fuse_trial *trial)
{
    if (state->struct_size != sizeof *state) {
        return "changed the size of the host's struct";
    }
    if (state->status > KF_CLOSED || state->ready > 1) {
        return "gave a state that there is not";
    }
    if (state->len > trial->fed) {
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
    trial->closed = true;
    trial->broken = true;
    trial->ready = false;
    say(&trial->diag, reason);
    kilni_fuse_fuser_strike(engine, fuser, reason);
}

static void feed_trial(kiln_fuse_engine *engine, kilni_fuse_position *position, uint32_t fuser,
                       uint32_t op)
{
    const kilni_fuse_fuser *f = &engine->fusers[fuser];
    kilni_fuse_trial *trial = &position->trials[fuser];
    answers context = {position, trial};
    kf_block block = {.struct_size = (uint32_t)sizeof block,
                      .ctx = &context,
                      .dim_value = dim_value,
                      .scalar_value = scalar_value};
    kf_state state = {.struct_size = (uint32_t)sizeof state};
    const kf_op *shown =
        kilni_fuse_op_view_fill(engine->op_view, &position->view, op, trial->asks, trial->n_asks);
    trial->diag.text[0] = 0;
    kilni_fuse_host_listen(f->host, &trial->diag);
    kf_status status = f->plugin->table.builder_fuse(trial->builder, &block, &shown, 1, &state);
    kilni_fuse_host_listen(f->host, NULL);
    trial->fed = op + 1;
    const char *bad = status == KF_OK ? kilni_fuse_state_fault(&state, trial) : NULL;
    if (status == KF_E_INTERNAL || status == KF_E_INVALID) {
        bad = "failed inside builder_fuse";
    }
    if (bad != NULL) {
        kilni_fuse_trial_break(engine, fuser, trial, bad);
        return;
    }
    if (status != KF_OK) {
        trial->closed = true; // out of memory or not supported: what it had stays
        return;
    }
    trial->closed = state.status == KF_CLOSED;
    trial->ready = state.ready == 1;
    trial->len = state.len;
    trial->launches = state.launches;
}

static void note_closed(kilni_fuse_position *position, uint32_t n_fusers)
{
    position->all_closed = true;
    for (uint32_t i = 0; i < n_fusers; i++) {
        position->all_closed = position->all_closed && position->trials[i].closed;
    }
}

kiln_status kilni_fuse_position_feed(kilni_fuse_position *position, kiln_fuse_engine *engine,
                                     const kilni_fuse_tape *tape, uint32_t first, uint32_t end,
                                     kiln_error *err)
{
    if (!position->started) {
        kiln_status status = start(position, engine, tape, first, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    note_closed(position, engine->n_fusers);
    while (!position->all_closed && !position->stopped && first + position->view.n_ops < end) {
        uint32_t op = position->view.n_ops;
        if (tape->marks[first + op].empty_extent) {
            position->stopped = true;
            break;
        }
        if (!kilni_fuse_block_view_extend(&position->view)) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a search");
        }
        for (uint32_t i = 0; i < engine->n_fusers; i++) {
            if (!position->trials[i].closed) {
                feed_trial(engine, position, i, op);
            }
        }
        note_closed(position, engine->n_fusers);
    }
    return KILN_STATUS_OK;
}
