// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SIGNATURE_H
#define KILN_RPC_SIGNATURE_H

/// A server's signature, by which another one knows who fetches: Ed25519, whose public half may be
/// told to anybody. Any thread.

#include "base.h"

enum { KILNI_RPC_PUBLIC_KEY = 32, KILNI_RPC_SIGNATURE = 64 };

typedef struct kilni_rpc_signer kilni_rpc_signer;

/// A new pair of keys, known to this process alone. `*out_signer` is the caller's
/// (kilni_rpc_signer_destroy); `env` outlives it. Errors: RESOURCE_EXHAUSTED, from libcrypto.
kiln_status kilni_rpc_signer_create(const kiln_env *env, kilni_rpc_signer **out_signer,
                                    kiln_error *err);
void kilni_rpc_signer_destroy(kilni_rpc_signer *signer); ///< takes NULL

const unsigned char *kilni_rpc_public_key(const kilni_rpc_signer *signer);

/// Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_sign(const kilni_rpc_signer *signer, const void *text, size_t length,
                           unsigned char out_signature[KILNI_RPC_SIGNATURE], kiln_error *err);

/// Whether the owner of the key has signed the text.
bool kilni_rpc_is_signed(const unsigned char key[KILNI_RPC_PUBLIC_KEY], const void *text,
                         size_t length, const unsigned char signature[KILNI_RPC_SIGNATURE]);

#endif
