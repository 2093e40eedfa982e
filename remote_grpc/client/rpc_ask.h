// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_ASK_H
#define KILN_RPC_ASK_H

/// Calls without a session. On any thread.

#include "rpc_address.h"
#include "rpc_identity.h"
#include "rpc_wire.h"

/// Calls a method with an empty message; waits for the server as long as a greeting may take, and
/// so for the answer. `*out_reply` goes back through kiln_free. Errors: those of the server, under
/// its codes; UNAVAILABLE, DEADLINE_EXCEEDED.
kiln_status kilni_rpc_ask(const kiln_env *env, const kilni_rpc_address *address,
                          const kilni_rpc_identity *identity, const char *method,
                          kilni_wire_piece *out_reply, kiln_error *err);

/// Which of several servers has least to do, sessions and calls to models, of the first three from
/// `from` on that say so. The first of equals; `from` where none says, and when there is one alone,
/// which is not asked.
uint32_t kilni_rpc_least_busy(const kiln_env *env, const kilni_rpc_addresses *servers,
                              const kilni_rpc_identity *identity, uint32_t from);

#endif
