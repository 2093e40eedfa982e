// SPDX-License-Identifier: MIT OR Apache-2.0
// The graphs that a session knows by number. Decides what they count for, how many there may be,
// and which of them are replayed: a capture is planned as a whole, which can take long where
// programs are compiled, so a graph is captured only after it was run several times, and anew,
// after as many, when its Runs keep other values.

#include "rpc_pace.h"

enum {
    GRAPH_CHARGE = 8, ///< bytes of memory for a byte of the wire, at most about
    ALIKE = 16 ///< Runs in a row before it is captured
};

// ---- replays ----

/// Collective rows are others' too, custom ones are their plugin's.
static bool takes_op(const kiln_op_record *op)
{
    return op->op != KILN_OP_CUSTOM && kiln_op_info_of(op->op)->cls != KILN_CLASS_COLLECTIVE;
}

/// What is packed for a constant belongs to its tensor, which an input does not name.
static bool takes_inputs(const kiln_ir_graph *graph)
{
    size_t count = 0;
    const kiln_tensor_desc *inputs = kiln_ir_graph_inputs(graph, &count);
    bool takes = count <= KILNI_RPC_BINDINGS;
    for (size_t i = 0; i < count && takes; i++) {
        takes = (inputs[i].flags & KILN_TENSOR_CONST) == 0;
    }
    return takes;
}

/// Gives false where the sum is beyond 64 bits.
static bool add_count(uint64_t *sum, uint64_t more)
{
    *sum += more;
    return *sum >= more;
}

static void begin_replay(kilni_rpc_replay *replay, const kiln_ir_graph *graph)
{
    *replay = (kilni_rpc_replay){0};
    bool takes = kiln_ir_graph_op_count(graph) > 0 && takes_inputs(graph);
    for (size_t i = 0; i < kiln_ir_graph_op_count(graph) && takes; i++) {
        const kiln_op_record *op = kiln_ir_graph_op(graph, i);
        takes = takes_op(op) && add_count(&replay->work, kilni_rpc_pace_work(op));
        bool view = kiln_op_info_of(op->op)->cls == KILN_CLASS_VIEW;
        for (size_t k = 0; k < op->n_outputs && takes && !view; k++) {
            takes = add_count(&replay->bytes, (uint64_t)kiln_desc_bytes(&op->outputs[k]));
        }
    }
    replay->never = !takes;
}

static void drop_capture(kilni_rpc_replay *replay)
{
    kiln_graph_destroy(replay->graph);
    replay->graph = NULL;
}

bool kilni_rpc_is_freed(const kiln_v1_Run *run, uint64_t buffer)
{
    for (pb_size_t i = 0; i < run->frees_count; i++) {
        if (run->frees[i] == buffer) {
            return true;
        }
    }
    return false;
}

bool kilni_rpc_graph_is_replayed(kilni_rpc_replay *replay, const kiln_v1_Run *run)
{
    uint32_t count = 0;
    bool same = true;
    if (replay->never) {
        return false;
    }
    for (pb_size_t i = 0; i < run->outputs_count; i++) {
        if (!kilni_rpc_is_freed(run, run->outputs[i].buffer)) {
            same = same && count < replay->n_kept && replay->kept[count] == run->outputs[i].value;
            replay->kept[count++] = run->outputs[i].value;
        }
    }
    same = same && count == replay->n_kept;
    replay->n_kept = count;
    if (!same) {
        drop_capture(replay);
    }
    replay->alike = same ? replay->alike + (replay->alike < ALIKE) : 1;
    return replay->alike == ALIKE;
}

// ---- by number ----

static kilni_rpc_known_graph **find_graph(kilni_rpc_session *session, uint64_t id)
{
    kilni_rpc_known_graph **link = &session->graphs[id % KILNI_RPC_BUCKETS];
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

void kilni_rpc_graph_forget(kilni_rpc_session *session, uint64_t id)
{
    kilni_rpc_known_graph **link = find_graph(session, id);
    kilni_rpc_known_graph *found = *link;
    if (found != NULL) {
        *link = found->next;
        kilni_rpc_session_let_go(session, found->charge);
        session->held_graphs--;
        drop_capture(&found->replay);
        kiln_ir_graph_destroy(found->graph);
        kiln_free(session->env, found);
    }
}

void kilni_rpc_graph_forget_all(kilni_rpc_session *session)
{
    for (size_t i = 0; i < KILNI_RPC_BUCKETS; i++) {
        while (session->graphs[i] != NULL) {
            kilni_rpc_graph_forget(session, session->graphs[i]->id);
        }
    }
}

/// Takes `graph`, also on failure.
static kiln_status learn_graph(kilni_rpc_session *session, uint64_t id, kiln_ir_graph *graph,
                               uint64_t wire_bytes, kiln_error *err)
{
    uint64_t charge = GRAPH_CHARGE * wire_bytes;
    kilni_rpc_graph_forget(session, id);
    kiln_status status = kilni_rpc_session_charge(session, charge, err);
    if (status == KILN_STATUS_OK && session->held_graphs >= session->options->limits.max_graphs) {
        status =
            kiln_fail(err, RESOURCE_EXHAUSTED, "the session knows %llu graphs, the most allowed",
                      (unsigned long long)session->held_graphs);
    }
    kilni_rpc_known_graph *fresh =
        status == KILN_STATUS_OK ? kiln_alloc(session->env, sizeof(*fresh)) : NULL;
    if (status == KILN_STATUS_OK && fresh == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to keep a graph");
    }
    if (status != KILN_STATUS_OK) {
        kiln_ir_graph_destroy(graph);
        return status;
    }
    *fresh = (kilni_rpc_known_graph){.id = id, .charge = charge, .graph = graph};
    begin_replay(&fresh->replay, graph);
    *find_graph(session, id) = fresh;
    kilni_rpc_session_hold(session, charge);
    session->held_graphs++;
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_graph_learn(kilni_rpc_session *session, uint64_t id, const void *bytes,
                                  size_t length, kiln_error *err)
{
    kiln_ir_graph *graph = NULL;
    kiln_status status = kiln_ir_decode(session->env, bytes, length, &graph, err);
    return status == KILN_STATUS_OK ? learn_graph(session, id, graph, length, err) : status;
}

kiln_status kilni_rpc_graph_charge_replay(kilni_rpc_session *session, kilni_rpc_known_graph *known,
                                          kiln_error *err)
{
    if (known->replay.charged) { // for an earlier capture
        return KILN_STATUS_OK;
    }
    kiln_status status = kilni_rpc_session_charge(session, known->charge, err);
    if (status == KILN_STATUS_OK) {
        kilni_rpc_session_hold(session, known->charge);
        known->charge *= 2;
        known->replay.charged = true;
    }
    return status;
}

kiln_status kilni_rpc_graph_get(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_ir_graph **out_graph, kilni_rpc_known_graph **out_known,
                                kiln_error *err)
{
    uint64_t id = frame->body.body.run.graph;
    kiln_status status = KILN_STATUS_OK;
    *out_graph = NULL;
    *out_known = NULL;
    if (id == 0) {
        return frame->graph_length == 0 // only frees
                   ? KILN_STATUS_OK
                   : kiln_ir_decode(session->env, frame->graph, frame->graph_length, out_graph,
                                    err);
    }
    if (frame->graph_length > 0) {
        status = kilni_rpc_graph_learn(session, id, frame->graph, frame->graph_length, err);
    }
    if (status == KILN_STATUS_OK && *find_graph(session, id) == NULL) {
        status = kiln_fail(err, NOT_FOUND, "there is no graph %llu", (unsigned long long)id);
    }
    if (status == KILN_STATUS_OK) {
        *out_known = *find_graph(session, id);
        *out_graph = (*out_known)->graph;
    }
    return status;
}
