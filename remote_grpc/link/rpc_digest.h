// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_DIGEST_H
#define KILN_RPC_DIGEST_H

/// What names bytes to somebody who may have them: their SHA-256, which nobody can forge.

#include "base.h"

enum { KILNI_RPC_DIGEST = 32 };

typedef struct kilni_rpc_digest {
    unsigned char bytes[KILNI_RPC_DIGEST];
} kilni_rpc_digest;

/// Any thread. Errors: RESOURCE_EXHAUSTED, from libcrypto.
kiln_status kilni_rpc_digest_of(const void *bytes, size_t length, kilni_rpc_digest *out_digest,
                                kiln_error *err);

#endif
