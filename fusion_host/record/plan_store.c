// SPDX-License-Identifier: MIT OR Apache-2.0
// Plans by the relative form of their segment: a tree whose edges are the words of one operation. A
// node knows whether to wait there, what to run when more may come, and what to run when this is
// all, for each class of sizes that was seen: who is fastest with few elements need not be with
// many. Edges are compared word by word, so equal hashes never mix programs up. Plans over the
// limit go, the least recently used first, and the nodes that nothing needs with them. What a plan
// holds is plan_build.c's business.
#include <string.h>

#include "plan_store.h"

enum { FIRST_BUCKETS = 256 };

kiln_status kilni_fuse_plan_store_init(kilni_fuse_plan_store *store, const kiln_env *env,
                                       const int64_t *facts, uint32_t max_plans, kiln_error *err)
{
    *store = (kilni_fuse_plan_store){
        .env = env, .facts = facts, .max_plans = max_plans, .hash_mask = UINT64_MAX};
    store->n_buckets = FIRST_BUCKETS;
    store->buckets = kiln_alloc_array(env, FIRST_BUCKETS, sizeof(kilni_fuse_node *));
    store->root = kiln_alloc(env, sizeof(*store->root));
    if (store->buckets == NULL || store->root == NULL) {
        kilni_fuse_plan_store_fini(store);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the plan store");
    }
    store->root->uses = 1;
    return KILN_STATUS_OK;
}

void kilni_fuse_plan_destroy(kilni_fuse_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    if (plan->plan.memory_free != NULL) {
        plan->plan.memory_free(plan->plan.memory);
    }
    for (uint32_t i = 0; i < plan->plan.n_blocks; i++) {
        kiln_plan_block *block = &plan->plan.blocks[i];
        if (block->state_free != NULL) {
            block->state_free(block->state);
        }
    }
    kiln_arena arena = plan->arena; // the plan lies in it
    kiln_arena_fini(&arena);
}

void kilni_fuse_plan_store_fini(kilni_fuse_plan_store *store)
{
    while (store->oldest != NULL) {
        kilni_fuse_plan *plan = store->oldest;
        store->oldest = plan->newer;
        kilni_fuse_plan_destroy(plan);
    }
    for (uint32_t i = 0; store->buckets != NULL && i < store->n_buckets; i++) {
        while (store->buckets[i] != NULL) {
            kilni_fuse_node *node = store->buckets[i];
            store->buckets[i] = node->bucket_next;
            kiln_free(store->env, node);
        }
    }
    kiln_free(store->env, (void *)store->buckets);
    kiln_free(store->env, store->root);
    *store = (kilni_fuse_plan_store){.env = store->env};
}

static uint64_t edge_hash(const kilni_fuse_plan_store *store, const kilni_fuse_node *parent,
                          const uint32_t *words, uint32_t n_words)
{
    uint64_t seed = (uint64_t)(uintptr_t)parent;
    return kiln_hash64(words, n_words * sizeof(*words), seed) & store->hash_mask;
}

static bool same_edge(const kilni_fuse_node *node, const uint32_t *words, uint32_t n_words)
{
    return node->n_words == n_words && memcmp(node->words, words, n_words * sizeof(*words)) == 0;
}

static kilni_fuse_node *find_child(const kilni_fuse_plan_store *store,
                                   const kilni_fuse_node *parent, const uint32_t *words,
                                   uint32_t n_words, uint64_t hash)
{
    kilni_fuse_node *node = store->buckets[hash & (store->n_buckets - 1)];
    while (node != NULL &&
           !(node->hash == hash && node->parent == parent && same_edge(node, words, n_words))) {
        node = node->bucket_next;
    }
    return node;
}

/// Twice the buckets; without memory the chains just stay longer.
static void rehash(kilni_fuse_plan_store *store)
{
    uint32_t n_buckets = store->n_buckets * 2;
    kilni_fuse_node **buckets = kiln_alloc_array(store->env, n_buckets, sizeof(kilni_fuse_node *));
    if (buckets == NULL) {
        return;
    }
    for (uint32_t i = 0; i < store->n_buckets; i++) {
        while (store->buckets[i] != NULL) {
            kilni_fuse_node *node = store->buckets[i];
            store->buckets[i] = node->bucket_next;
            node->bucket_next = buckets[node->hash & (n_buckets - 1)];
            buckets[node->hash & (n_buckets - 1)] = node;
        }
    }
    kiln_free(store->env, (void *)store->buckets);
    store->buckets = buckets;
    store->n_buckets = n_buckets;
}

static kilni_fuse_node *add_child(kilni_fuse_plan_store *store, kilni_fuse_node *parent,
                                  const uint32_t *words, uint32_t n_words, uint64_t hash)
{
    kilni_fuse_node *node = kiln_alloc(store->env, sizeof(*node) + n_words * sizeof(*words));
    if (node == NULL) {
        return NULL;
    }
    if (store->n_nodes >= store->n_buckets) {
        rehash(store);
    }
    node->parent = parent;
    node->hash = hash;
    node->n_words = n_words;
    memcpy(node->words, words, n_words * sizeof(*words));
    node->bucket_next = store->buckets[hash & (store->n_buckets - 1)];
    store->buckets[hash & (store->n_buckets - 1)] = node;
    parent->uses++;
    store->n_nodes++;
    return node;
}

static void remove_node(kilni_fuse_plan_store *store, kilni_fuse_node *node)
{
    kilni_fuse_node **link = &store->buckets[node->hash & (store->n_buckets - 1)];
    while (*link != node) {
        link = &(*link)->bucket_next;
    }
    *link = node->bucket_next;
    if (node->parent->last_child == node) {
        node->parent->last_child = NULL;
    }
    kiln_free(store->env, node);
    store->n_nodes--;
}

void kilni_fuse_plan_store_leave(kilni_fuse_plan_store *store, kilni_fuse_node *node)
{
    while (node != NULL && --node->uses == 0) {
        kilni_fuse_node *parent = node->parent;
        remove_node(store, node);
        node = parent;
    }
}

kiln_status kilni_fuse_plan_store_step(kilni_fuse_plan_store *store, kilni_fuse_node **node,
                                       const uint32_t *words, uint32_t n_words, kiln_error *err)
{
    kilni_fuse_node *parent = *node;
    kilni_fuse_node *child = parent->last_child;
    if (child == NULL || !same_edge(child, words, n_words)) {
        uint64_t hash = edge_hash(store, parent, words, n_words);
        child = find_child(store, parent, words, n_words, hash);
        if (child == NULL) {
            child = add_child(store, parent, words, n_words, hash);
        }
        if (child == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the plan store");
        }
        parent->last_child = child;
    }
    child->uses++;
    parent->uses--; // the child holds it
    *node = child;
    return KILN_STATUS_OK;
}

// ---- plans ----

static bool same_scalar(const kiln_attr *a, const kiln_attr *b)
{
    return a->type == b->type && a->v.i == b->v.i; // of an F64 its bits
}

static bool block_serves(const kilni_fuse_plan_store *store, const kiln_plan_block *block,
                         const int64_t *symbols)
{
    enum { FEW = 64 };
    int64_t few[FEW];
    int64_t *values = few;
    if (block->program->guard.count == 0) {
        return true;
    }
    if (block->n_symbols > FEW) {
        values = kiln_alloc_array(store->env, block->n_symbols, sizeof(*values));
    }
    for (uint32_t i = 0; values != NULL && i < block->n_symbols; i++) {
        values[i] = symbols[block->symbols[i]];
    }
    int64_t holds = 0;
    bool known = values != NULL &&
                 kiln_formula_eval(&block->program->guard, values, block->n_symbols, store->facts,
                                   KILN_FACT_COUNT, &holds, NULL) == KILN_STATUS_OK;
    if (values != few) {
        kiln_free(store->env, values);
    }
    return known && holds != 0;
}

static bool serves(const kilni_fuse_plan_store *store, const kilni_fuse_plan *plan,
                   const kilni_fuse_recorded *recorded, const int64_t *symbols)
{
    if (!plan->guarded) {
        return true;
    }
    for (uint32_t i = 0; i < plan->n_guards; i++) {
        if (!same_scalar(&recorded->scalars[plan->guards[i].scalar], &plan->guards[i].value)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < plan->plan.n_blocks; i++) {
        if (!block_serves(store, &plan->plan.blocks[i], symbols)) {
            return false;
        }
    }
    return true;
}

uint64_t kilni_fuse_size_class(const int64_t *extents, uint32_t count, bool exact)
{
    uint64_t sum = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t extent = (uint64_t)extents[i];
        uint64_t bits = extent == 0 ? 0 : 64 - (uint64_t)__builtin_clzll(extent);
        sum = (sum ^ (exact ? extent : bits)) * 0x9E3779B97F4A7C15u;
        sum ^= sum >> 32;
    }
    return sum;
}

static void unlink_plan(kilni_fuse_plan_store *store, kilni_fuse_plan *plan)
{
    *(plan->newer != NULL ? &plan->newer->older : &store->newest) = plan->older;
    *(plan->older != NULL ? &plan->older->newer : &store->oldest) = plan->newer;
    plan->newer = NULL;
    plan->older = NULL;
}

static void link_newest(kilni_fuse_plan_store *store, kilni_fuse_plan *plan)
{
    plan->older = store->newest;
    *(store->newest != NULL ? &store->newest->newer : &store->oldest) = plan;
    store->newest = plan;
}

static void note_use(kilni_fuse_plan_store *store, kilni_fuse_plan *plan)
{
    if (plan != NULL && plan != store->newest) {
        unlink_plan(store, plan);
        link_newest(store, plan);
    }
}

kilni_fuse_plan *kilni_fuse_plan_store_find(kilni_fuse_plan_store *store, kilni_fuse_node *node,
                                            bool full, const kilni_fuse_recorded *recorded,
                                            uint64_t size_class)
{
    kilni_fuse_plan *plan = full ? node->full : node->now;
    while (plan != NULL &&
           (plan->size_class != size_class || !serves(store, plan, recorded, recorded->symbols))) {
        plan = plan->next_variant;
    }
    note_use(store, plan);
    return plan;
}

// ---- plans for other lengths ----

void kilni_fuse_plan_store_share(kilni_fuse_plan_store *store, kilni_fuse_plan *plan,
                                 const kilni_fuse_recorded *recorded, uint32_t n_ops)
{
    if (plan->form != NULL || !plan->full || plan->node == NULL || plan->plan.n_ops != n_ops) {
        return;
    }
    plan->form = kilni_fuse_form_create(&plan->arena, recorded, n_ops);
    if (plan->form != NULL) {
        plan->next_formed = store->formed;
        store->formed = plan;
    }
}

kilni_fuse_plan *kilni_fuse_plan_store_shared(kilni_fuse_plan_store *store,
                                              const kilni_fuse_recorded *recorded, uint32_t n_ops,
                                              int64_t *out_values)
{
    uint64_t hash = kilni_fuse_form_hash(recorded, n_ops);
    kilni_fuse_plan *plan = store->formed;
    while (plan != NULL &&
           !(kilni_fuse_form_serves(plan->form, hash, recorded, n_ops, out_values) &&
             serves(store, plan, recorded, out_values))) {
        plan = plan->next_formed;
    }
    note_use(store, plan);
    return plan;
}

static void unshare(kilni_fuse_plan_store *store, kilni_fuse_plan *plan)
{
    kilni_fuse_plan **link = &store->formed;
    while (plan->form != NULL && *link != plan) {
        link = &(*link)->next_formed;
    }
    if (plan->form != NULL) {
        *link = plan->next_formed;
        plan->form = NULL;
    }
}

// ---- the end of plans ----

/// Takes the plan out of tree and list; it is nobody's afterwards.
static void detach(kilni_fuse_plan_store *store, kilni_fuse_plan *plan)
{
    kilni_fuse_node *node = plan->node;
    if (node == NULL) {
        return;
    }
    kilni_fuse_plan **link = plan->full ? &node->full : &node->now;
    while (*link != plan) {
        link = &(*link)->next_variant;
    }
    *link = plan->next_variant;
    unlink_plan(store, plan);
    unshare(store, plan);
    plan->node = NULL;
    store->n_plans--;
    kilni_fuse_plan_store_leave(store, node);
}

void kilni_fuse_plan_store_discard(kilni_fuse_plan_store *store, kilni_fuse_plan *plan)
{
    detach(store, plan);
    plan->stale = true;
    if (plan->users == 0) {
        kilni_fuse_plan_destroy(plan);
    }
}

void kilni_fuse_plan_store_release(kilni_fuse_plan_store *store, kilni_fuse_plan *plan)
{
    plan->users--;
    if (plan->stale && plan->users == 0) {
        kilni_fuse_plan_store_discard(store, plan);
    }
}

void kilni_fuse_plan_store_insert(kilni_fuse_plan_store *store, kilni_fuse_node *node,
                                  kilni_fuse_plan *plan)
{
    kilni_fuse_plan **link = plan->full ? &node->full : &node->now;
    plan->next_variant = *link;
    *link = plan;
    plan->node = node;
    node->uses++;
    link_newest(store, plan);
    store->n_plans++;
    while (store->n_plans > store->max_plans && store->oldest != plan) {
        kilni_fuse_plan_store_discard(store, store->oldest);
    }
}
