// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_RULES_H
#define KILN_RPC_RULES_H

/// What an identity may use, and how much of it: rows of a text, one a line.
///
///     alice  devices=0,1 models=digits,res* peers=- sessions=4 memory=2G requests=100 weight=2
///     *      sessions=1
///
/// A word that is left out limits nothing; `-` is an empty list. The row `*` holds for whoever has
/// no row. `#` begins a comment.

#include "base.h"

enum { KILNI_RPC_NAME = 64, KILNI_RPC_LIST = 400 };

typedef enum kilni_rpc_thing { ///< that a list names
    KILNI_RPC_THING_DEVICE,
    KILNI_RPC_THING_MODEL,
    KILNI_RPC_THING_PEER,
    KILNI_RPC_THINGS
} kilni_rpc_thing;

typedef struct kilni_rpc_rules { ///< zeroed: no limits
    char name[KILNI_RPC_NAME];
    char lists[KILNI_RPC_THINGS][KILNI_RPC_LIST]; ///< "": all
    uint64_t sessions; ///< at a time; 0: as the server says
    uint64_t memory; ///< bytes of all its sessions
    uint64_t requests; ///< to models, each second
    uint64_t operations; ///< of its sessions, each second
    uint64_t weight; ///< of its turns; 0: 1
} kilni_rpc_rules;

typedef struct kilni_rpc_rule_table {
    kilni_rpc_rules *rows;
    size_t count;
} kilni_rpc_rule_table;

/// Reads a whole file's text. `fini` also after a failure. Errors: INVALID_ARGUMENT with the line,
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_rules_parse(const kiln_env *env, const char *text,
                                  kilni_rpc_rule_table *out_table, kiln_error *err);
void kilni_rpc_rules_fini(const kiln_env *env, kilni_rpc_rule_table *table);

/// The row of a name, else that of `*`, else NULL.
const kilni_rpc_rules *kilni_rpc_rules_find(const kilni_rpc_rule_table *table, const char *name);

/// Whether a list names `text`; `*` at the end of a part stands for the rest of a name.
bool kilni_rpc_rules_allow(const kilni_rpc_rules *rules, kilni_rpc_thing thing, const char *text);

#endif
