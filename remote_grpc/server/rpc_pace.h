// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_PACE_H
#define KILN_RPC_PACE_H

/// When a session uses its device. On the session's own thread.

#include "rpc_session.h"

/// A turn on the device, which `give` ends. `enter` is for what has not begun: without a turn after
/// an error. Errors: UNAVAILABLE (the server stops).
void kilni_rpc_pace_take(kilni_rpc_session *session);
void kilni_rpc_pace_give(kilni_rpc_session *session);
kiln_status kilni_rpc_pace_enter(kilni_rpc_session *session, kiln_error *err);

/// Waits as long as the party's operations of each second say, and then enters. Errors: CANCELLED
/// (the client is gone), UNAVAILABLE.
kiln_status kilni_rpc_pace_begin(kilni_rpc_session *session, uint64_t operations, kiln_error *err);

/// Floating-point operations, about, of an operation; moving a byte counts for some.
uint64_t kilni_rpc_pace_work(const kiln_op_record *op);

/// So much work was recorded. When it is enough, waits for it and lets others have the device; the
/// turn is the session's again afterwards, also after an error. Errors: CANCELLED, UNAVAILABLE.
kiln_status kilni_rpc_pace_launched(kilni_rpc_session *session, uint64_t work, kiln_error *err);

#endif
