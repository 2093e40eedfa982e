// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_IDENTITY_H
#define KILN_RPC_IDENTITY_H

/// Secrets, and who a client or a server is.

#include "base.h"

/// Fills `bytes` from the system's source of randomness. Errors: UNAVAILABLE.
kiln_status kilni_rpc_random(void *bytes, size_t length, kiln_error *err);

/// A number for a transfer, never given twice in this process. Errors: as random.
kiln_status kilni_rpc_transfer_id(uint64_t *out_id, kiln_error *err);

/// Whether two secrets are equal, in a time that does not depend on where they differ.
bool kilni_rpc_same_secret(const void *a, const void *b, size_t length);

/// A whole file as a terminated text. It goes back through kiln_free. Errors: NOT_FOUND,
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_read_file(const kiln_env *env, const char *path, char **out_text,
                                kiln_error *err);

/// Who one is and whom one trusts: PEM texts and a token; NULL: none.
typedef struct kilni_rpc_identity {
    char *authorities;
    char *certificate;
    char *key;
    char *token;
} kilni_rpc_identity;

/// The identity that the options remote-ca, remote-cert, remote-key and remote-token-file name.
kiln_status kilni_rpc_identity_load(const kiln_env *env, kilni_rpc_identity *out_identity,
                                    kiln_error *err);
void kilni_rpc_identity_fini(const kiln_env *env, kilni_rpc_identity *identity);

#endif
