// SPDX-License-Identifier: MIT OR Apache-2.0
// The graphs that a session knows by number. Decides what they count for, and how many there may
// be.

#include "rpc_session.h"

enum { GRAPH_CHARGE = 8 }; ///< bytes of memory for a byte of the wire, at most about

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
        kilni_rpc_replay_fini(&found->replay);
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
    kilni_rpc_replay_init(&fresh->replay, graph);
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
    kiln_status status = kilni_rpc_session_charge(session, known->charge, err);
    if (status == KILN_STATUS_OK) {
        kilni_rpc_session_hold(session, known->charge);
        known->charge *= 2;
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
