// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_VAULT_H
#define KILN_RPC_VAULT_H

/// What clients have uploaded, on disk, named by who uploaded it and by its digest: found again by
/// later sessions of the same caller, and by nobody else. Bounded; what was used longest ago goes.
/// A file is believed only when its length and checksum are right. Any thread.

#include "rpc_digest.h"

typedef struct kilni_rpc_vault kilni_rpc_vault;

typedef struct kilni_rpc_vault_key {
    kilni_rpc_digest caller; ///< who has uploaded it
    kilni_rpc_digest content;
} kilni_rpc_vault_key;

/// A file's bytes in memory of their own: writing to them changes no file.
typedef struct kilni_rpc_mapped {
    char *bytes;
    size_t length; ///< of them; the mapping is longer
} kilni_rpc_mapped;

/// Opens the folder, making it, for this user alone. `*out_vault` is the caller's
/// (kilni_rpc_vault_close); `env` outlives it. Errors: UNAVAILABLE, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_vault_open(const kiln_env *env, const char *folder, uint64_t limit,
                                 kilni_rpc_vault **out_vault, kiln_error *err);
void kilni_rpc_vault_close(kilni_rpc_vault *vault); ///< takes NULL

/// Maps `length` bytes that were put under the key; they go back through `unmap`. A damaged file is
/// removed. Errors: NOT_FOUND, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_vault_get(kilni_rpc_vault *vault, const kilni_rpc_vault_key *key,
                                uint64_t length, kilni_rpc_mapped *out_mapped, kiln_error *err);
void kilni_rpc_vault_unmap(const kilni_rpc_mapped *mapped);

/// Keeps a copy of bytes whose digest the caller of this function has checked. What cannot be kept
/// is not, and the log says why.
void kilni_rpc_vault_put(kilni_rpc_vault *vault, const kilni_rpc_vault_key *key, const void *bytes,
                         size_t length);

/// Bytes of all files, as far as this process knows.
uint64_t kilni_rpc_vault_bytes(kilni_rpc_vault *vault);

#endif
