// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_TRANSFER_H
#define KILN_RPC_TRANSFER_H

/// Bytes on their way from one server to another: what this server has exposed, and how it obtains
/// what another has.

#include "rpc_frame.h"
#include "rpc_protocol.h"
#include "rpc_signature.h"

enum {
    KILNI_RPC_TRANSFER_MOST_MS = 300000, ///< that either side waits
    KILNI_RPC_CLAIM_BYTES = 16 + KILNI_RPC_TOKEN
};

typedef struct kilni_rpc_exposures kilni_rpc_exposures;

/// Bytes that may be fetched.
typedef struct kilni_rpc_exposure {
    struct kilni_rpc_exposure *next;
    uint64_t transfer;
    unsigned char secret[KILNI_RPC_TOKEN];
    bool bound; ///< only who signs with `fetcher` may
    unsigned char fetcher[KILNI_RPC_PUBLIC_KEY];
    const void *owner;
    atomic_ullong *charged; ///< the owner's count of bytes; NULL once it is gone
    kilni_rpc_hold hold; ///< gRPC's slices of `bytes`
    char *bytes;
    size_t length;
    kiln_hash128 check;
    uint32_t left; ///< times
    uint32_t serving; ///< now
    bool ended; ///< withdrawn or expired: to be freed by the last who serves it
    uint64_t expires_ns;
} kilni_rpc_exposure;

kiln_status kilni_rpc_exposures_create(const kiln_env *env, kilni_rpc_exposures **out_exposures,
                                       kiln_error *err);
void kilni_rpc_exposures_destroy(kilni_rpc_exposures *exposures);

/// Adds what `draft` says; its bytes belong to the table from now on, also on failure. `charged`
/// grows by its length until it ends. Errors: ALREADY_EXISTS, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_expose(kilni_rpc_exposures *exposures, const kilni_rpc_exposure *draft,
                             kiln_error *err);

/// Ends one transfer of `owner`, or all of them (0). Ends those whose time is over.
void kilni_rpc_withdraw(kilni_rpc_exposures *exposures, const void *owner, uint64_t transfer);
void kilni_rpc_expire(kilni_rpc_exposures *exposures);

/// Makes whoever waits give up; who waits elsewhere looks at `stopped`.
void kilni_rpc_exposures_stop(kilni_rpc_exposures *exposures);
bool kilni_rpc_exposures_stopped(kilni_rpc_exposures *exposures);

/// Who wants a transfer, and how he shows that he may.
typedef struct kilni_rpc_claim {
    uint64_t transfer;
    uint64_t total;
    const unsigned char *secret;
    const unsigned char *signature; ///< of the three; NULL: none
    const unsigned char *own_key; ///< not NULL: it is this server itself
    uint32_t wait_ms;
} kilni_rpc_claim;

/// Waits until the transfer is there and takes one of its times; `untake` gives it back when it was
/// not `served`. Errors: DEADLINE_EXCEEDED, PERMISSION_DENIED (another secret, another fetcher),
/// INVALID_ARGUMENT (another length), UNAVAILABLE.
kiln_status kilni_rpc_take(kilni_rpc_exposures *exposures, const kilni_rpc_claim *claim,
                           kilni_rpc_exposure **out_exposure, kiln_error *err);
void kilni_rpc_untake(kilni_rpc_exposures *exposures, kilni_rpc_exposure *exposure, bool served);

/// Answers a Fetch; closes the stream.
void kilni_rpc_serve_fetch(const kiln_env *env, kilni_rpc_exposures *exposures,
                           kilni_rpc_stream *stream);

/// What a fetcher signs: number, length and secret.
void kilni_rpc_write_claim(uint64_t transfer, uint64_t total, const unsigned char *secret,
                           unsigned char out_text[KILNI_RPC_CLAIM_BYTES]);

// ---- rpc_obtain.c ----

/// Whom this server dials, and as whom. Addresses are canonical, without the device's number.
typedef struct kilni_rpc_peers {
    const char *const *allowed;
    size_t n_allowed;
    const char *const *own; ///< addresses of this server: what they expose is taken without a call
    size_t n_own;
    const kilni_rpc_identity *identity;
    const kilni_rpc_signer *signer; ///< of its fetches
} kilni_rpc_peers;

/// Copies, going on where a broken connection left off, `obtain->total` bytes from where they are
/// exposed to `out_bytes`. Errors: PERMISSION_DENIED (not a peer, or another secret),
/// DEADLINE_EXCEEDED (it sent nothing for so long), DATA_LOSS, UNAVAILABLE.
kiln_status kilni_rpc_obtain(const kiln_env *env, const kilni_rpc_peers *peers,
                             kilni_rpc_exposures *exposures, const kiln_v1_Obtain *obtain,
                             char *out_bytes, kiln_error *err);

#endif
