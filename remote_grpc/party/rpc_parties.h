// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_PARTIES_H
#define KILN_RPC_PARTIES_H

/// Who calls: one record for each identity, with its rules and with what it uses now. An identity
/// is the name of a token, else that of a client's certificate, else "anonymous".
///
/// Any thread may call these, but for init and fini.

#include "remote_models.h"
#include "rpc_rules.h"

#include <pthread.h>
#include <stdatomic.h>

/// So many per second, and as many at once after a second of rest.
typedef struct kilni_rpc_rate {
    double left;
    uint64_t at_ns;
} kilni_rpc_rate;

/// What is counted, at a time.
typedef enum kilni_rpc_use {
    KILNI_RPC_USE_SESSIONS,
    KILNI_RPC_USE_STREAMS, ///< of sessions, those that have not said Hello too
    KILNI_RPC_USE_CALLS, ///< to models
    KILNI_RPC_USE_OTHERS,
    KILNI_RPC_USES
} kilni_rpc_use;

typedef struct kilni_rpc_party {
    char name[KILNI_RPC_NAME];
    struct kilni_rpc_party *next;
    atomic_ullong bytes; ///< that its sessions hold
    // Under the lock of all.
    kilni_rpc_rules rules;
    bool is_known; ///< the table has a row for it, or there is no table
    uint32_t refs;
    uint32_t uses[KILNI_RPC_USES];
    kilni_rpc_rate requests;
    kilni_rpc_rate operations;
} kilni_rpc_party;

typedef struct kilni_rpc_parties {
    const kiln_env *env;
    pthread_mutex_t lock;
    kilni_rpc_party *first;
    uint32_t count;
    kilni_rpc_rule_table table;
    bool has_table;
} kilni_rpc_parties;

void kilni_rpc_parties_init(kilni_rpc_parties *parties, const kiln_env *env);
void kilni_rpc_parties_fini(kilni_rpc_parties *parties);

/// Takes the table; NULL: none. Rules hold for what comes from now on.
void kilni_rpc_parties_rule(kilni_rpc_parties *parties, kilni_rpc_rule_table *take_table);

/// The record of a name. It goes back through `put`. Errors: PERMISSION_DENIED (the table does not
/// know it), RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_party_get(kilni_rpc_parties *parties, const char *name,
                                kilni_rpc_party **out_party, kiln_error *err);
kilni_rpc_party *kilni_rpc_party_ref(kilni_rpc_parties *parties, kilni_rpc_party *party);
void kilni_rpc_party_put(kilni_rpc_parties *parties, kilni_rpc_party *party);

/// Counts one more; at most as many as the rules say, or `most` where they are silent. Errors:
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_party_begin(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                  kilni_rpc_use use, uint32_t most, kiln_error *err);
void kilni_rpc_party_end(kilni_rpc_parties *parties, kilni_rpc_party *party, kilni_rpc_use use);

/// Whether the party may use a thing. Errors: PERMISSION_DENIED.
kiln_status kilni_rpc_party_may(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                kilni_rpc_thing thing, const char *name, kiln_error *err);

/// Whether its sessions may hold `more` bytes together. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_party_charge(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                   uint64_t more, kiln_error *err);

/// What the sessions of all hold.
uint64_t kilni_rpc_parties_bytes(kilni_rpc_parties *parties);

/// A request to a model. Errors: RESOURCE_EXHAUSTED when there were as many within a second.
kiln_status kilni_rpc_party_request(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                    kiln_error *err);

/// Notes operations and gives for how long the session has to wait before it goes on.
uint64_t kilni_rpc_party_operate(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                 uint64_t operations);
uint32_t kilni_rpc_party_weight(kilni_rpc_parties *parties, kilni_rpc_party *party);

// ---- models, as a party may use them ----

/// The functions of `models`, less what the rules forbid. Lives as long as the call.
typedef struct kilni_rpc_guard {
    kiln_models table;
    const kiln_models *models;
    kilni_rpc_parties *parties;
    kilni_rpc_party *party;
    char model[KILN_MODEL_NAME]; ///< that was asked for last
} kilni_rpc_guard;

void kilni_rpc_guard_init(kilni_rpc_guard *guard, const kiln_models *models,
                          kilni_rpc_parties *parties, kilni_rpc_party *party);

#endif
