// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_GUESTS_H
#define KILN_RPC_GUESTS_H

/// Connections that gRPC was given: which of them it has not closed yet. gRPC does not tell, so
/// their descriptors are looked at. One thread at a time.

#include "rpc_socket.h"

typedef struct kilni_rpc_guest {
    int fd; ///< gRPC's
    ino_t id;
} kilni_rpc_guest;

typedef struct kilni_rpc_guests { ///< zeroed: none
    kilni_rpc_guest *list;
    size_t count;
    size_t room;
} kilni_rpc_guests;

/// Notes a connection before gRPC gets it. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_guests_add(const kiln_env *env, kilni_rpc_guests *guests, int fd,
                                 kiln_error *err);

/// Forgets those that are closed, and gives how many are left.
size_t kilni_rpc_guests_look(kilni_rpc_guests *guests);

void kilni_rpc_guests_fini(const kiln_env *env, kilni_rpc_guests *guests);

#endif
