// SPDX-License-Identifier: MIT OR Apache-2.0
// Records of identities, what each of them uses now, and what it may begin. Decides nothing about
// who somebody is.

#include "rpc_parties.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PARTIES = 4096 };

void kilni_rpc_parties_init(kilni_rpc_parties *parties, const kiln_env *env)
{
    *parties = (kilni_rpc_parties){.env = env};
    pthread_mutex_init(&parties->lock, NULL);
}

void kilni_rpc_parties_fini(kilni_rpc_parties *parties)
{
    while (parties->first != NULL) {
        kilni_rpc_party *next = parties->first->next;
        kiln_free(parties->env, parties->first);
        parties->first = next;
    }
    kilni_rpc_rules_fini(parties->env, &parties->table);
    pthread_mutex_destroy(&parties->lock);
}

// ---- rules: under the lock ----

static void take_rules(const kilni_rpc_parties *parties, kilni_rpc_party *party)
{
    const kilni_rpc_rules *row = kilni_rpc_rules_find(&parties->table, party->name);
    party->is_known = row != NULL || !parties->has_table;
    party->rules = row != NULL ? *row : (kilni_rpc_rules){.weight = 1};
}

void kilni_rpc_parties_rule(kilni_rpc_parties *parties, kilni_rpc_rule_table *take_table)
{
    pthread_mutex_lock(&parties->lock);
    kilni_rpc_rule_table old = parties->table;
    parties->table = take_table != NULL ? *take_table : (kilni_rpc_rule_table){NULL, 0};
    parties->has_table = take_table != NULL;
    for (kilni_rpc_party *each = parties->first; each != NULL; each = each->next) {
        take_rules(parties, each);
    }
    pthread_mutex_unlock(&parties->lock);
    kilni_rpc_rules_fini(parties->env, &old);
}

// ---- records ----

/// Makes room: whoever uses nothing is forgotten. Under the lock.
static void forget_idle(kilni_rpc_parties *parties)
{
    kilni_rpc_party **link = &parties->first;
    while (*link != NULL) {
        kilni_rpc_party *each = *link;
        if (each->refs > 0) {
            link = &each->next;
            continue;
        }
        *link = each->next;
        parties->count--;
        kiln_free(parties->env, each);
    }
}

static kilni_rpc_party *find_party(kilni_rpc_parties *parties, const char *name)
{
    kilni_rpc_party *each = parties->first;
    while (each != NULL && strcmp(each->name, name) != 0) {
        each = each->next;
    }
    if (each != NULL) {
        return each;
    }
    if (parties->count >= MOST_PARTIES) {
        forget_idle(parties);
    }
    each = parties->count < MOST_PARTIES ? kiln_alloc(parties->env, sizeof(*each)) : NULL;
    if (each != NULL) {
        *each = (kilni_rpc_party){.next = parties->first};
        atomic_init(&each->bytes, 0);
        snprintf(each->name, sizeof(each->name), "%s", name);
        take_rules(parties, each);
        parties->first = each;
        parties->count++;
    }
    return each;
}

kiln_status kilni_rpc_party_get(kilni_rpc_parties *parties, const char *name,
                                kilni_rpc_party **out_party, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&parties->lock);
    kilni_rpc_party *found = find_party(parties, name);
    if (found == NULL) {
        status =
            kiln_fail(err, RESOURCE_EXHAUSTED, "the server knows as many identities as it can");
    } else if (!found->is_known) {
        status =
            kiln_fail(err, PERMISSION_DENIED, "the server's table has no row for %s", found->name);
        found = NULL;
    } else {
        found->refs++;
    }
    pthread_mutex_unlock(&parties->lock);
    *out_party = found;
    return status;
}

kilni_rpc_party *kilni_rpc_party_ref(kilni_rpc_parties *parties, kilni_rpc_party *party)
{
    pthread_mutex_lock(&parties->lock);
    party->refs++;
    pthread_mutex_unlock(&parties->lock);
    return party;
}

void kilni_rpc_party_put(kilni_rpc_parties *parties, kilni_rpc_party *party)
{
    if (party != NULL) {
        pthread_mutex_lock(&parties->lock);
        party->refs--;
        pthread_mutex_unlock(&parties->lock);
    }
}

// ---- quotas ----

kiln_status kilni_rpc_party_begin(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                  kilni_rpc_use use, uint32_t most, kiln_error *err)
{
    static const char *const words[] = {"sessions", "streams of sessions", "calls to models",
                                        "other calls"};
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&parties->lock);
    uint64_t limit =
        use == KILNI_RPC_USE_SESSIONS && party->rules.sessions > 0 ? party->rules.sessions : most;
    if (party->uses[use] >= limit) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "%s has %u %s, the most allowed", party->name,
                           party->uses[use], words[use]);
    } else {
        party->uses[use]++;
    }
    pthread_mutex_unlock(&parties->lock);
    return status;
}

void kilni_rpc_party_end(kilni_rpc_parties *parties, kilni_rpc_party *party, kilni_rpc_use use)
{
    pthread_mutex_lock(&parties->lock);
    party->uses[use]--;
    pthread_mutex_unlock(&parties->lock);
}

kiln_status kilni_rpc_party_may(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                kilni_rpc_thing thing, const char *name, kiln_error *err)
{
    static const char *const words[] = {"device", "model", "peer"};
    pthread_mutex_lock(&parties->lock);
    bool may = kilni_rpc_rules_allow(&party->rules, thing, name);
    pthread_mutex_unlock(&parties->lock);
    return may ? KILN_STATUS_OK
               : kiln_fail(err, PERMISSION_DENIED, "%s may not use %s %.100s", party->name,
                           words[thing], name);
}

kiln_status kilni_rpc_party_charge(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                   uint64_t more, kiln_error *err)
{
    pthread_mutex_lock(&parties->lock);
    uint64_t most = party->rules.memory;
    pthread_mutex_unlock(&parties->lock);
    uint64_t held = atomic_load(&party->bytes);
    return most == 0 || (held <= most && more <= most - held)
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED,
                           "the sessions of %s hold %llu bytes and ask for %llu more; %llu are "
                           "allowed",
                           party->name, (unsigned long long)held, (unsigned long long)more,
                           (unsigned long long)most);
}

uint64_t kilni_rpc_parties_bytes(kilni_rpc_parties *parties)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&parties->lock);
    for (kilni_rpc_party *each = parties->first; each != NULL; each = each->next) {
        bytes += atomic_load(&each->bytes);
    }
    pthread_mutex_unlock(&parties->lock);
    return bytes;
}

/// Takes `count` of a rate and gives for how long it is exhausted then.
static uint64_t take_rate(kilni_rpc_rate *rate, uint64_t per_second, uint64_t count)
{
    uint64_t now = kiln_time_ns();
    double most = (double)per_second;
    if (rate->at_ns == 0) {
        rate->left = most;
    } else {
        rate->left += (double)(now - rate->at_ns) * 1e-9 * most;
    }
    rate->left = rate->left < most ? rate->left : most;
    rate->at_ns = now;
    rate->left -= (double)count;
    return rate->left >= 0 ? 0 : (uint64_t)(-rate->left / most * 1e9);
}

kiln_status kilni_rpc_party_request(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                    kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&parties->lock);
    uint64_t most = party->rules.requests;
    if (most > 0 && take_rate(&party->requests, most, 1) > 0) {
        party->requests.left += 1; // it did not come in
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "%s asks more than %llu times a second",
                           party->name, (unsigned long long)most);
    }
    pthread_mutex_unlock(&parties->lock);
    return status;
}

uint64_t kilni_rpc_party_operate(kilni_rpc_parties *parties, kilni_rpc_party *party,
                                 uint64_t operations)
{
    pthread_mutex_lock(&parties->lock);
    uint64_t most = party->rules.operations;
    uint64_t wait_ns = most > 0 ? take_rate(&party->operations, most, operations) : 0;
    pthread_mutex_unlock(&parties->lock);
    return wait_ns;
}

uint32_t kilni_rpc_party_weight(kilni_rpc_parties *parties, kilni_rpc_party *party)
{
    pthread_mutex_lock(&parties->lock);
    uint64_t weight = party->rules.weight;
    pthread_mutex_unlock(&parties->lock);
    return weight > 0 && weight < 1000 ? (uint32_t)weight : 1;
}
