// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_MEMORY_H
#define KILN_RPC_MEMORY_H

/// Memory that a client and a server of one machine share: the client makes it, and hands it over
/// through a second socket file beside the server's, with the number and the token of its session.
/// gRPC has no way for a file descriptor.

#include "base.h"

enum {
    KILNI_RPC_SLOT = 1 << 20, ///< bytes of a slot
    KILNI_RPC_SLOTS = 16, ///< of memory number 0
    KILNI_RPC_TOLD = 32 << 20, ///< bytes that one frame tells of
    KILNI_RPC_MEMORIES = 16 ///< of a session: number 0, and what a program has asked for
};
#define KILNI_RPC_MEMORY_MOST (UINT64_C(4) << 30) ///< bytes of one

/// What is answered to a hello: one byte.
enum {
    KILNI_RPC_MEMORY_REFUSED = 0,
    KILNI_RPC_MEMORY_TAKEN = 1,
    KILNI_RPC_MEMORY_BUSY = 2 ///< bytes are being copied: come again
};

/// What goes with the descriptor over the second socket.
typedef struct kilni_rpc_memory_hello {
    char magic[8];
    uint64_t session;
    uint64_t bytes; ///< 0, without a descriptor: the session lets go of all memory
    uint64_t number; ///< of the memory in its session
    unsigned char token[32];
} kilni_rpc_memory_hello;

/// Zeroed: none.
typedef struct kilni_rpc_memory {
    char *bytes;
    size_t length;
} kilni_rpc_memory;

extern const char kilni_rpc_memory_magic[8];

/// The path of the second socket of a server at `path`. False: it is too long for one.
bool kilni_rpc_memory_path(const char *path, char *out_path, size_t capacity);

/// Makes memory of `hello->bytes` that nobody can shrink, and gives it to the server at `path`; the
/// magic is filled in. Errors: UNAVAILABLE: go on without.
kiln_status kilni_rpc_memory_offer(const char *path, kilni_rpc_memory_hello *hello,
                                   kilni_rpc_memory *out_memory, kiln_error *err);

/// Makes the server let go of all that a session shares: when this returns it writes to none of it
/// any more, or the server is gone.
void kilni_rpc_memory_revoke(const char *path, uint64_t session, const void *token);

/// Maps what a client has handed over: `bytes` of it, which the client cannot take away. The
/// descriptor stays the caller's. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_memory_map(int descriptor, uint64_t bytes, kilni_rpc_memory *out_memory,
                                 kiln_error *err);

void kilni_rpc_memory_unmap(kilni_rpc_memory *memory); ///< also of none

#endif
