// SPDX-License-Identifier: MIT OR Apache-2.0
// If and Loop. What decides about the way is a number on the host: read from the device when it is
// not there already. Decides what a loop without a limit and a condition is (refused: it would not
// end), and that each round counts as a node of the run.
#include "onnx_run.h"

#include <string.h>

// ---- graphs in attributes ----

const kilni_onnx_plan *kilni_onnx_body(kilni_onnx_call *call, const char *name, uint32_t n_inputs)
{
    const kilni_onnx_attr *attr = kilni_onnx_ok(call) ? kilni_onnx_attr_find(call, name) : NULL;
    const kilni_onnx_plan *plan = attr == NULL || attr->type != KILNI_ONNX_ATTR_GRAPH
                                      ? NULL
                                      : kilni_onnx_plan_find(call->session, attr->graph);
    if (plan == NULL || plan->n_inputs != n_inputs) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' is no graph with %u inputs", name,
                        n_inputs);
        return NULL;
    }
    return plan;
}

void kilni_onnx_run_body(kilni_onnx_call *call, const kilni_onnx_plan *plan, kilni_onnx_ref *inputs,
                         kilni_onnx_ref *out_values)
{
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (++call->session->steps_run > KILNI_ONNX_MAX_STEPS) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "a run of more than %d nodes",
                        KILNI_ONNX_MAX_STEPS);
        return;
    }
    call->has_body = true;
    call->status = kilni_onnx_run_plan(call->session, plan, call, call->frame, inputs,
                                       plan->n_inputs, out_values, call->err);
}

kilni_onnx_ref *kilni_onnx_refs(kilni_onnx_call *call, uint32_t count)
{
    kilni_onnx_ref *refs = NULL;
    if (kilni_onnx_ok(call)) {
        refs = kiln_alloc_array(&call->session->env, count + 1u, sizeof(*refs));
        if (refs == NULL) {
            KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %u values", count);
        }
    }
    return refs;
}

void kilni_onnx_refs_free(kilni_onnx_call *call, kilni_onnx_ref *refs, uint32_t count)
{
    for (uint32_t i = 0; refs != NULL && i < count; i++) {
        kilni_onnx_release(&call->session->env, refs[i]);
    }
    kiln_free(&call->session->env, refs);
}

// ---- what rounds leave behind ----

void kilni_onnx_pile_add(kilni_onnx_call *call, kilni_onnx_pile *pile, kilni_onnx_ref value)
{
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (value == NULL || value->form != KILNI_ONNX_TENSOR) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a round gives no tensor where one is collected");
        return;
    }
    if (pile->count == pile->capacity) {
        uint32_t capacity = pile->capacity == 0 ? 16 : pile->capacity * 2;
        kilni_onnx_ref *items =
            kiln_realloc(&call->session->env, pile->items, pile->capacity * sizeof(*items),
                         capacity * sizeof(*items));
        if (items == NULL) {
            KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %u values", capacity);
            return;
        }
        pile->items = items;
        pile->capacity = capacity;
    }
    pile->items[pile->count++] = kilni_onnx_retain(value);
}

/// Of no rounds: no elements, the other lengths as the graph's output says, 0 where it does not.
static kilni_onnx_ref empty_stack(kilni_onnx_call *call, const kiln_onnx_value_info *info,
                                  int64_t axis)
{
    int64_t dims[KILN_MAX_RANK];
    if (info->dtype == KILN_DTYPE_NONE || info->rank >= KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "no rounds, and output '%s' has type %s", info->name,
                        info->type_name);
        return NULL;
    }
    uint32_t rank = info->rank + 1;
    uint32_t at = kilni_onnx_axis(call, axis, rank);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t length = i == at ? 0 : info->dims[i < at ? i : i - 1].length;
        dims[i] = length < 0 ? 0 : length;
    }
    return kilni_onnx_scratch(call, info->dtype, rank, dims);
}

static kilni_onnx_ref with_axis(kilni_onnx_call *call, kilni_onnx_ref x, int64_t axis)
{
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank = x->desc.rank + 1u;
    uint32_t at = kilni_onnx_axis(call, axis, rank);
    if (rank > KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "rank %u exceeds limit %d", rank, KILN_MAX_RANK);
        return NULL;
    }
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == at ? 1 : x->desc.dims[i < at ? i : i - 1];
    }
    return kilni_onnx_reshape(call, x, dims, rank);
}

kilni_onnx_ref kilni_onnx_stack(kilni_onnx_call *call, const kilni_onnx_ref *items, uint32_t count,
                                int64_t axis)
{
    kilni_onnx_ref *parts = kilni_onnx_refs(call, count);
    kilni_onnx_ref joined = NULL;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        parts[i] = with_axis(call, items[i], axis);
    }
    if (kilni_onnx_ok(call)) {
        joined = kilni_onnx_concat(call, parts, count, axis);
    }
    kiln_free(&call->session->env, parts);
    return joined;
}

kilni_onnx_ref kilni_onnx_pile_stack(kilni_onnx_call *call, const kilni_onnx_pile *pile,
                                     const kiln_onnx_value_info *info, int64_t axis)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    return pile->count == 0 ? empty_stack(call, info, axis)
                            : kilni_onnx_stack(call, pile->items, pile->count, axis);
}

kilni_onnx_pile *kilni_onnx_piles(kilni_onnx_call *call, uint32_t count)
{
    kilni_onnx_pile *piles = NULL;
    if (kilni_onnx_ok(call)) {
        piles = kiln_alloc_array(&call->session->env, count + 1u, sizeof(*piles));
        if (piles == NULL) {
            KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %u lists", count);
        }
    }
    return piles;
}

void kilni_onnx_piles_free(kilni_onnx_call *call, kilni_onnx_pile *piles, uint32_t count)
{
    for (uint32_t i = 0; piles != NULL && i < count; i++) {
        kilni_onnx_refs_free(call, piles[i].items, piles[i].count);
    }
    kiln_free(&call->session->env, piles);
}

// ---- If ----

/// The branch that the condition names, in a frame of its own.
void kilni_onnx_op_if_branch(kilni_onnx_call *call)
{
    kiln_number condition = kilni_onnx_value_number(call, kilni_onnx_in(call, 0));
    const char *name = condition.v.i != 0 ? "then_branch" : "else_branch";
    const kilni_onnx_plan *plan = kilni_onnx_body(call, name, 0);
    if (plan != NULL && plan->n_outputs != call->n_outputs) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "'%s' gives %u values, the node %u", name,
                        plan->n_outputs, call->n_outputs);
    }
    kilni_onnx_run_body(call, plan, NULL, call->outputs);
}

// ---- Loop ----

typedef struct loop {
    const kilni_onnx_plan *body;
    uint32_t n_carried;
    uint32_t n_scans;
    kilni_onnx_ref *inputs; ///< round, condition, carried
    kilni_onnx_ref *outputs; ///< condition, carried, collected
    kilni_onnx_pile *scans;
    bool checks; ///< the condition ends the loop
} loop;

static void begin_loop(kilni_onnx_call *call, loop *l)
{
    l->n_carried = call->n_inputs > 2 ? call->n_inputs - 2 : 0;
    l->body = kilni_onnx_body(call, "body", 2 + l->n_carried);
    if (l->body == NULL) {
        return;
    }
    if (l->body->n_outputs < 1 + l->n_carried || call->n_outputs > l->body->n_outputs - 1) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "the body gives %u values for %u carried ones and %u outputs",
                        l->body->n_outputs, l->n_carried, call->n_outputs);
        return;
    }
    l->n_scans = l->body->n_outputs - 1 - l->n_carried;
    l->inputs = kilni_onnx_refs(call, 2 + l->n_carried);
    l->outputs = kilni_onnx_refs(call, l->body->n_outputs);
    l->scans = kilni_onnx_piles(call, l->n_scans);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < l->n_carried; i++) {
        l->inputs[2 + i] = kilni_onnx_retain(kilni_onnx_in_any(call, 2 + i));
    }
}

/// What the round gave becomes what the next one takes.
static void end_round(kilni_onnx_call *call, loop *l)
{
    const kiln_env *env = &call->session->env;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < l->n_scans; i++) {
        kilni_onnx_pile_add(call, &l->scans[i], l->outputs[1 + l->n_carried + i]);
    }
    for (uint32_t i = 0; i < l->body->n_outputs; i++) {
        bool carried = i <= l->n_carried && kilni_onnx_ok(call);
        if (carried) {
            kilni_onnx_release(env, l->inputs[1 + i]);
            l->inputs[1 + i] = l->outputs[i];
        } else {
            kilni_onnx_release(env, l->outputs[i]);
        }
        l->outputs[i] = NULL;
    }
}

static bool goes_on(kilni_onnx_call *call, const loop *l)
{
    return !l->checks || kilni_onnx_value_number(call, l->inputs[1]).v.i != 0;
}

static void run_loop(kilni_onnx_call *call, loop *l, int64_t limit)
{
    const kiln_env *env = &call->session->env;
    for (int64_t i = 0; kilni_onnx_ok(call) && i < limit && goes_on(call, l); i++) {
        l->inputs[0] = kilni_onnx_retain(kilni_onnx_const_int(call, i));
        kilni_onnx_run_body(call, l->body, l->inputs, l->outputs);
        end_round(call, l);
        kilni_onnx_release(env, l->inputs[0]);
        l->inputs[0] = NULL;
    }
}

/// A loop of no rounds whose graph does not say what it collects: a round is recorded in a capture
/// that is given up, so that nothing runs. What reads the device has no answer, nor has a loop that
/// is captured itself.
static bool probe_round(kilni_onnx_call *call, loop *l)
{
    kiln_error ignored = KILN_ERROR_INIT;
    kiln_onnx_session *session = call->session;
    kilni_onnx_call probe = *call;
    const bool capturing = session->capturing;
    const kiln_onnx_trace_fn trace = session->trace;
    kilni_onnx_ref round = kilni_onnx_const_int(call, 0);
    if (round == NULL || kiln_graph_begin(session->device, NULL, 0, &ignored) != KILN_STATUS_OK) {
        return false;
    }
    probe.err = &ignored;
    session->trace = NULL;
    session->capturing = true;
    l->inputs[0] = round;
    kilni_onnx_run_body(&probe, l->body, l->inputs, l->outputs);
    l->inputs[0] = NULL;
    session->capturing = capturing;
    session->trace = trace;
    kiln_graph_cancel(session->device);
    return probe.status == KILN_STATUS_OK;
}

/// What is collected when nothing is.
static kilni_onnx_ref no_rounds(kilni_onnx_call *call, loop *l, uint32_t output)
{
    kiln_onnx_value_info info = l->body->graph->outputs[1 + output];
    const kilni_onnx_value *made = l->outputs[1 + output];
    bool said = info.dtype != KILN_DTYPE_NONE && info.has_shape;
    if (!said && (made != NULL || probe_round(call, l))) {
        made = l->outputs[1 + output];
    }
    if (!said && made != NULL && made->form == KILNI_ONNX_TENSOR) {
        info.dtype = made->desc.dtype;
        info.rank = made->desc.rank;
        for (uint32_t i = 0; i < info.rank; i++) {
            info.dims[i].length = made->desc.dims[i];
        }
    }
    return empty_stack(call, &info, 0);
}

static void give_loop(kilni_onnx_call *call, loop *l)
{
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < call->n_outputs; i++) {
        if (i < l->n_carried) {
            kilni_onnx_out(call, i, l->inputs[2 + i]);
        } else if (l->scans[i - l->n_carried].count == 0) {
            kilni_onnx_out(call, i, no_rounds(call, l, i));
        } else {
            const kilni_onnx_pile *pile = &l->scans[i - l->n_carried];
            kilni_onnx_out(call, i, kilni_onnx_stack(call, pile->items, pile->count, 0));
        }
    }
}

void kilni_onnx_op_loop(kilni_onnx_call *call)
{
    loop l = {.n_carried = 0};
    kilni_onnx_ref limit = kilni_onnx_opt(call, 0);
    kilni_onnx_ref condition = kilni_onnx_opt(call, 1);
    if (limit == NULL && condition == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "a loop without a count and a condition");
    }
    int64_t rounds = limit == NULL ? INT64_MAX : kilni_onnx_value_number(call, limit).v.i;
    begin_loop(call, &l);
    if (kilni_onnx_ok(call)) {
        const uint8_t yes = 1;
        l.checks = condition != NULL;
        l.inputs[1] = kilni_onnx_retain(
            l.checks ? condition : kilni_onnx_const_data(call, KILN_DTYPE_BOOL, 0, NULL, &yes));
        run_loop(call, &l, rounds);
        give_loop(call, &l);
    }
    kilni_onnx_refs_free(call, l.inputs, 2 + l.n_carried);
    kilni_onnx_refs_free(call, l.outputs, l.body == NULL ? 0 : l.body->n_outputs);
    kilni_onnx_piles_free(call, l.scans, l.n_scans);
}
