// SPDX-License-Identifier: MIT OR Apache-2.0
// The smallest part of a stream that still fails: operations are left out in ever smaller pieces
// (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002), and what they
// made becomes an input with the reference's value. Decides what a part of a stream is; whether it
// fails is the caller's to say.
#include <string.h>

#include "graph_internal.h"
#include "ir_judge.h"
#include "ir_replay.h"

typedef struct reduction {
    const kiln_replay *whole;
    kiln_judge *judge; ///< values of what is cut
    bool *kept; ///< per operation
    size_t n_kept;
    kiln_replay_fails_fn fails;
    void *user;
    uint32_t tries_left;
    kiln_replay *best; ///< the last part that failed
    kiln_error *err;
} reduction;

// ---- a part of a stream ----

typedef struct part {
    const reduction *r;
    kiln_ir_graph *graph;
    kiln_tensor_desc *inputs;
    kiln_replay_input *memory;
    size_t n_inputs;
    uint64_t *outputs;
    size_t n_outputs;
} part;

static bool makes(const kiln_op_record *record, uint64_t id)
{
    for (unsigned i = 0; i < record->n_outputs; i++) {
        if (record->outputs[i].id == id) {
            return true;
        }
    }
    return false;
}

static bool reads(const kiln_op_record *record, uint64_t id)
{
    for (unsigned i = 0; record->op != KILN_OP_DROP && i < record->n_inputs; i++) {
        if (record->inputs[i].id == id) {
            return true;
        }
    }
    return false;
}

static bool is_made(const reduction *r, uint64_t id)
{
    const kiln_ir_graph *graph = r->whole->graph;
    for (size_t i = 0; i < graph->n_ops; i++) {
        if (r->kept[i] && makes(&graph->ops[i], id)) {
            return true;
        }
    }
    return false;
}

static bool is_read(const reduction *r, uint64_t id)
{
    const kiln_ir_graph *graph = r->whole->graph;
    for (size_t i = 0; i < graph->n_ops; i++) {
        if (r->kept[i] && reads(&graph->ops[i], id)) {
            return true;
        }
    }
    return false;
}

static bool is_dropped(const reduction *r, uint64_t id)
{
    const kiln_ir_graph *graph = r->whole->graph;
    for (size_t i = 0; i < graph->n_ops; i++) {
        if (graph->ops[i].op == KILN_OP_DROP && graph->ops[i].inputs[0].id == id) {
            return true;
        }
    }
    return false;
}

/// An input of the part: one of the whole's, as it lay, or a value that was cut.
static void add_input(part *p, const kiln_tensor_desc *desc)
{
    const kiln_replay *whole = p->r->whole;
    for (size_t i = 0; i < p->n_inputs; i++) {
        if (p->inputs[i].id == desc->id) {
            return;
        }
    }
    p->inputs[p->n_inputs] = *desc;
    p->inputs[p->n_inputs].flags = 0;
    p->memory[p->n_inputs] = (kiln_replay_input){.data = kiln_judge_value(p->r->judge, desc->id),
                                                 .bytes = (size_t)kiln_desc_bytes(desc)};
    for (size_t i = 0; i < whole->n_inputs; i++) {
        if (whole->graph->inputs[i].id == desc->id) {
            p->inputs[p->n_inputs] = whole->graph->inputs[i];
            p->memory[p->n_inputs] = whole->inputs[i];
        }
    }
    p->n_inputs++;
}

/// What nobody in the part reads, and what lives on behind the whole.
static void add_outputs(part *p, const kiln_op_record *record)
{
    for (unsigned i = 0; i < record->n_outputs; i++) {
        uint64_t id = record->outputs[i].id;
        if (!is_read(p->r, id) || !is_dropped(p->r, id)) {
            p->outputs[p->n_outputs++] = id;
        }
    }
}

static bool keeps_drop(const part *p, const kiln_op_record *record)
{
    uint64_t id = record->inputs[0].id;
    return is_read(p->r, id);
}

static kiln_status fill_part(part *p, kiln_error *err)
{
    const kiln_ir_graph *whole = p->r->whole->graph;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < whole->n_ops && status == KILN_STATUS_OK; i++) {
        const kiln_op_record *record = &whole->ops[i];
        bool drop = record->op == KILN_OP_DROP;
        if (drop ? !keeps_drop(p, record) : !p->r->kept[i]) {
            continue;
        }
        for (unsigned k = 0; !drop && k < record->n_inputs; k++) {
            if (!is_made(p->r, record->inputs[k].id)) {
                add_input(p, &record->inputs[k]);
            }
        }
        if (!drop) {
            add_outputs(p, record);
        }
        status = kiln_ir_graph_append(p->graph, record, err);
    }
    if (status == KILN_STATUS_OK) {
        status =
            kiln_ir_graph_set_io(p->graph, p->inputs, p->n_inputs, p->outputs, p->n_outputs, err);
    }
    return status == KILN_STATUS_OK ? kiln_ir_graph_verify(p->graph, err) : status;
}

static size_t most_tensors(const kiln_ir_graph *graph)
{
    size_t count = graph->n_inputs + 1;
    for (size_t i = 0; i < graph->n_ops; i++) {
        count += (size_t)graph->ops[i].n_inputs + graph->ops[i].n_outputs;
    }
    return count;
}

static kiln_status make_part(const reduction *r, kiln_replay **out_replay, kiln_error *err)
{
    const kiln_env *env = r->whole->env;
    size_t most = most_tensors(r->whole->graph);
    part p = {.r = r};
    *out_replay = NULL;
    p.inputs = kiln_alloc_array(env, most, sizeof(*p.inputs));
    p.memory = kiln_alloc_array(env, most, sizeof(*p.memory));
    p.outputs = kiln_alloc_array(env, most, sizeof(*p.outputs));
    kiln_status status =
        p.inputs != NULL && p.memory != NULL && p.outputs != NULL
            ? kiln_ir_graph_create(env, &p.graph, err)
            : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a part of a stream");
    if (status == KILN_STATUS_OK) {
        status = fill_part(&p, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_replay_create(env, p.graph, p.memory, r->whole->note, out_replay, err);
        p.graph = NULL;
    }
    kiln_ir_graph_destroy(p.graph);
    kiln_free(env, p.inputs);
    kiln_free(env, p.memory);
    kiln_free(env, p.outputs);
    return status;
}

// ---- the search ----

/// Whether what is kept fails; it is the best then.
static bool try_it(reduction *r)
{
    kiln_replay *replay = NULL;
    if (r->tries_left == 0 || make_part(r, &replay, NULL) != KILN_STATUS_OK) {
        return false;
    }
    r->tries_left--;
    if (!r->fails(replay, r->user)) {
        kiln_replay_destroy(replay);
        return false;
    }
    kiln_replay_destroy(r->best);
    r->best = replay;
    return true;
}

/// Leaves out up to `count` kept operations from the n-th kept one on; false when none is left out,
/// or nothing would be left.
static bool leave_out(reduction *r, size_t first, size_t count, bool *before)
{
    size_t n_ops = r->whole->graph->n_ops;
    size_t place = 0, left_out = 0;
    memcpy(before, r->kept, n_ops * sizeof(*before));
    for (size_t i = 0; i < n_ops; i++) {
        if (before[i]) {
            bool out = place >= first && place < first + count;
            r->kept[i] = !out;
            left_out += out;
            place++;
        }
    }
    if (left_out == 0 || left_out == r->n_kept) {
        memcpy(r->kept, before, n_ops * sizeof(*before));
        return false;
    }
    r->n_kept -= left_out;
    return true;
}

static void search(reduction *r, bool *before)
{
    size_t n_ops = r->whole->graph->n_ops;
    for (size_t piece = r->n_kept / 2; piece > 0;) {
        bool smaller = false;
        for (size_t first = r->n_kept; first > 0 && r->tries_left > 0;) {
            size_t n_kept = r->n_kept;
            first = first > piece ? first - piece : 0;
            if (!leave_out(r, first, piece, before)) {
                continue;
            }
            if (try_it(r)) {
                smaller = true;
            } else {
                memcpy(r->kept, before, n_ops * sizeof(*before));
                r->n_kept = n_kept;
            }
        }
        piece = piece > r->n_kept / 2 ? r->n_kept / 2 : smaller && piece == 1 ? 1 : piece / 2;
        if (r->tries_left == 0) {
            return;
        }
    }
}

static kiln_status begin(reduction *r)
{
    const kiln_replay *whole = r->whole;
    const void **data = kiln_alloc_array(whole->env, whole->n_inputs + 1, sizeof(*data));
    kiln_status status =
        data != NULL ? KILN_STATUS_OK
                     : kiln_fail(r->err, RESOURCE_EXHAUSTED, "no memory to reduce a stream");
    for (size_t i = 0; i < whole->n_inputs && status == KILN_STATUS_OK; i++) {
        data[i] = whole->inputs[i].data;
        if (data[i] == NULL) {
            status = kiln_fail(r->err, INVALID_ARGUMENT, "input %zu has no data", i);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_judge_create(whole->env, whole->graph, data, &r->judge, r->err);
    }
    kiln_free(whole->env, (void *)data);
    for (size_t i = 0; i < whole->graph->n_ops && status == KILN_STATUS_OK; i++) {
        const kiln_op_info *info = kiln_op_info_of(whole->graph->ops[i].op);
        r->kept[i] = info->cls != KILN_CLASS_CONTROL;
        r->n_kept += r->kept[i];
    }
    if (status == KILN_STATUS_OK && !try_it(r)) {
        status = kiln_fail(r->err, FAILED_PRECONDITION, "the whole stream does not fail");
    }
    return status;
}

kiln_status kiln_replay_reduce(const kiln_replay *replay, kiln_replay_fails_fn fails, void *user,
                               uint32_t max_tries, kiln_replay **out_replay, kiln_error *err)
{
    if (out_replay == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_replay must not be NULL");
    }
    *out_replay = NULL;
    if (replay == NULL || fails == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "replay and fails must not be NULL");
    }
    size_t n_ops = replay->graph->n_ops;
    reduction r = {
        .whole = replay, .fails = fails, .user = user, .tries_left = max_tries, .err = err};
    bool *flags = kiln_alloc_array(replay->env, 2 * n_ops + 1, sizeof(*flags));
    if (flags == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to reduce a stream");
    }
    r.kept = flags;
    kiln_status status = begin(&r);
    if (status == KILN_STATUS_OK) {
        search(&r, flags + n_ops);
        *out_replay = r.best;
        r.best = NULL;
    }
    kiln_replay_destroy(r.best);
    kiln_judge_destroy(r.judge);
    kiln_free(replay->env, flags);
    return status;
}
