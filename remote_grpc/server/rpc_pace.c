// SPDX-License-Identifier: MIT OR Apache-2.0
// How fast a session goes: it launches a little, waits for it, and lets others have the device
// before it goes on. So no session holds the device for long, and what a client that has gone asked
// for is not launched any more: the session waits with the rest until the client is back.

#include "rpc_pace.h"

#include <math.h>

enum { BYTE_WORK = 4, PAUSE_STEP_MS = 1000 };

/// Products, sums over windows: the root is exact for a matrix product.
uint64_t kilni_rpc_pace_work(const kiln_op_record *op)
{
    double bytes = 0;
    double counts = 1;
    for (size_t i = 0; i < op->n_inputs; i++) {
        bytes += (double)kiln_desc_bytes(&op->inputs[i]);
        counts *= i < 2 ? (double)kiln_desc_count(&op->inputs[i]) : 1;
    }
    for (size_t i = 0; i < op->n_outputs; i++) {
        bytes += (double)kiln_desc_bytes(&op->outputs[i]);
    }
    double work = BYTE_WORK * bytes;
    if (op->n_inputs > 1 && op->n_outputs > 0 &&
        kiln_op_info_of(op->op)->cls == KILN_CLASS_CONTRACTION) {
        work += 2 * sqrt(counts * (double)kiln_desc_count(&op->outputs[0]));
    }
    return work < 1e18 ? (uint64_t)work : UINT64_C(1000000000000000000);
}

// ---- turns ----

void kilni_rpc_pace_take(kilni_rpc_session *session)
{
    kilni_rpc_turn_take(session->lane);
    session->pace.budget = kilni_rpc_turn_budget(session->lane);
    session->pace.begun_ns = kiln_time_ns();
}

void kilni_rpc_pace_give(kilni_rpc_session *session)
{
    kilni_rpc_turn_give(session->lane);
}

static kiln_status check_stopping(const kilni_rpc_session *session, kiln_error *err)
{
    return atomic_load(session->options->stopping)
               ? kiln_fail(err, UNAVAILABLE, "the server is shutting down")
               : KILN_STATUS_OK;
}

kiln_status kilni_rpc_pace_enter(kilni_rpc_session *session, kiln_error *err)
{
    kilni_rpc_pace_take(session);
    kiln_status status = check_stopping(session, err);
    if (status != KILN_STATUS_OK) {
        kilni_rpc_pace_give(session);
    }
    return status;
}

/// Whether the client's connection has ended; what the client has finished sending is no end.
static bool is_client_gone(kilni_rpc_session *session, int64_t wait_ms)
{
    return session->link.stream == NULL || kilni_rpc_is_ended(session->link.stream, wait_ms);
}

/// The rest is done when the client is back, and dropped when it does not come.
static kiln_status await_client(kilni_rpc_session *session, kiln_error *err)
{
    const kilni_rpc_session_options *options = session->options;
    kiln_status status = check_stopping(session, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!is_client_gone(session, 0) || (session->link.resumable && options->pause != NULL &&
                                        options->pause(options->server, session))) {
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, CANCELLED, "the client is gone, and the rest of its work was dropped");
}

kiln_status kilni_rpc_pace_begin(kilni_rpc_session *session, uint64_t operations, kiln_error *err)
{
    const kilni_rpc_session_options *options = session->options;
    uint64_t wait_ns = kilni_rpc_party_operate(options->parties, session->party, operations);
    uint64_t until = kiln_time_ns() + wait_ns;
    session->operations += operations;
    atomic_fetch_add(options->operations, operations);
    while (wait_ns > 0 && !is_client_gone(session, 0)) {
        uint64_t now = kiln_time_ns();
        if (now >= until) {
            break;
        }
        uint64_t ms = (until - now) / 1000000 + 1;
        (void)is_client_gone(session, ms < PAUSE_STEP_MS ? (int64_t)ms : PAUSE_STEP_MS);
    }
    kiln_status status = wait_ns > 0 ? await_client(session, err) : KILN_STATUS_OK;
    return status == KILN_STATUS_OK ? kilni_rpc_pace_enter(session, err) : status;
}

kiln_status kilni_rpc_pace_launched(kilni_rpc_session *session, uint64_t work, kiln_error *err)
{
    kilni_rpc_pace *pace = &session->pace;
    kiln_event *launched = NULL;
    kiln_error ignored = KILN_ERROR_INIT; // whoever uses the result learns of it
    pace->work += work;
    if (pace->work < pace->budget) {
        return KILN_STATUS_OK;
    }
    if (kiln_event_record(session->device, &launched, &ignored) == KILN_STATUS_OK) {
        (void)!kiln_event_wait(launched, &ignored);
        kiln_event_destroy(launched);
    }
    kilni_rpc_turn_passed(session->lane, pace->work, kiln_time_ns() - pace->begun_ns);
    pace->work = 0;
    kilni_rpc_pace_give(session);
    kiln_status status = await_client(session, err);
    kilni_rpc_pace_take(session);
    return status;
}
