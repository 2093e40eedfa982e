// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_DESK_H
#define KILN_RPC_DESK_H

/// Where clients of this machine hand over shared memory: a socket file beside each that gRPC
/// listens at, and a thread that waits there.

#include "rpc_memory.h"

typedef struct kilni_rpc_desk kilni_rpc_desk;

/// Gives memory to the session with this number and token, or with none makes it let go of all.
/// Takes it when the answer, KILNI_RPC_MEMORY_.., is TAKEN. On the desk's thread; does not wait for
/// a session.
typedef char (*kilni_rpc_desk_fn)(void *user, const kilni_rpc_memory_hello *hello,
                                  const kilni_rpc_memory *memory);

/// Opens the desk of a server at the socket file `path`, for this user alone. `*out_desk` is the
/// caller's (kilni_rpc_desk_close). Errors: UNAVAILABLE, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_desk_open(const kiln_env *env, const char *path, kilni_rpc_desk_fn give,
                                void *user, kilni_rpc_desk **out_desk, kiln_error *err);
void kilni_rpc_desk_close(kilni_rpc_desk *desk); ///< takes NULL; removes the socket file

#endif
