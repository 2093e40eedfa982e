// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_PLAN_STORE_H
#define KILN_FUSION_HOST_PLAN_STORE_H

/// Plans, and the tree of words under which they are found again.

#include "form.h"

typedef struct kilni_fuse_node kilni_fuse_node;

typedef struct kilni_fuse_scalar_guard { ///< the plan serves only this value
    uint32_t scalar;
    kiln_attr value;
} kilni_fuse_scalar_guard;

typedef struct kilni_fuse_plan {
    kiln_plan plan; ///< first, so that a segment's plan leads back here
    kiln_arena arena;
    kilni_fuse_node *node; ///< NULL: in no store
    struct kilni_fuse_plan *next_variant;
    struct kilni_fuse_plan *newer;
    struct kilni_fuse_plan *older;
    const uint32_t *block_fusers; ///< engine's fuser of each block
    struct kilni_fuse_tournament *tournaments; ///< of each block
    const kilni_fuse_scalar_guard *guards;
    uint32_t n_guards;
    uint64_t size_class; ///< of the extents that it was chosen for
    bool guarded; ///< a block has a guard formula, or there are scalar guards
    bool full; ///< made for a drain: covers all that was there
    uint32_t users; ///< segments of it that are handed out: a graph keeps its own for long
    bool stale;
    kilni_fuse_form *form; ///< for segments of other lengths; NULL: it serves its own class alone
    struct kilni_fuse_plan *next_formed; ///< of those with a form
    bool outdone; ///< a tournament found something faster than what it runs
    const struct kilni_fuse_verdict *verdicts; ///< by position, then fuser
    uint32_t n_verdicts;
    uint32_t n_ops_fused;
} kilni_fuse_plan;

enum { KILNI_FUSE_WAIT_UNKNOWN = 0, KILNI_FUSE_WAIT_YES = 1 };

/// A prefix of relative forms: the parent's and one operation more.
struct kilni_fuse_node {
    kilni_fuse_node *parent;
    kilni_fuse_node *bucket_next;
    kilni_fuse_node *last_child; ///< the child found last: most programs repeat
    kilni_fuse_plan *now; ///< what to run when more may come
    kilni_fuse_plan *full; ///< what to run when this is all
    uint64_t hash;
    uint32_t uses; ///< children, plans, streams that stand here
    uint32_t wait_epoch; ///< the epoch in which `wait` was found
    uint8_t wait;
    uint32_t n_words;
    uint32_t words[];
};

typedef struct kilni_fuse_plan_store {
    const kiln_env *env;
    kilni_fuse_node *root;
    kilni_fuse_node **buckets;
    uint32_t n_buckets;
    uint32_t n_nodes;
    uint32_t n_plans;
    uint32_t max_plans;
    kilni_fuse_plan *newest;
    kilni_fuse_plan *oldest;
    kilni_fuse_plan *formed; ///< those that serve other lengths, too
    const int64_t *facts; ///< device facts for guards
    uint64_t hash_mask; ///< all ones; tests narrow it to force collisions
} kilni_fuse_plan_store;

kiln_status kilni_fuse_plan_store_init(kilni_fuse_plan_store *store, const kiln_env *env,
                                       const int64_t *facts, uint32_t max_plans, kiln_error *err);
void kilni_fuse_plan_store_fini(kilni_fuse_plan_store *store);

/// From `*node` to its child for one operation, made when it is new. The caller's use moves along.
kiln_status kilni_fuse_plan_store_step(kilni_fuse_plan_store *store, kilni_fuse_node **node,
                                       const uint32_t *words, uint32_t n_words, kiln_error *err);
void kilni_fuse_plan_store_leave(kilni_fuse_plan_store *store, kilni_fuse_node *node);

/// The class of sizes that a choice is made for: the extents' powers of two, so that two sizes of a
/// class differ by less than a factor of 2 along each axis. `exact`: the extents themselves.
uint64_t kilni_fuse_size_class(const int64_t *extents, uint32_t count, bool exact);

/// The plan at a node that was chosen for this class of sizes and whose guards hold for the
/// recorded segment, or NULL. `insert` owns the plan from then on and evicts; `discard` frees it
/// now or when it is no longer in use.
kilni_fuse_plan *kilni_fuse_plan_store_find(kilni_fuse_plan_store *store, kilni_fuse_node *node,
                                            bool full, const kilni_fuse_recorded *recorded,
                                            uint64_t size_class);
/// Lets a plan of the store that covers all `n_ops` operations serve segments of other lengths from
/// now on; without memory it does not.
void kilni_fuse_plan_store_share(kilni_fuse_plan_store *store, kilni_fuse_plan *plan,
                                 const kilni_fuse_recorded *recorded, uint32_t n_ops);
/// Such a plan whose segment differs from this one in lengths alone, or NULL. `out_values` has room
/// for KILNI_FUSE_FORM_SYMBOLS: the extents by the plan's own symbols.
kilni_fuse_plan *kilni_fuse_plan_store_shared(kilni_fuse_plan_store *store,
                                              const kilni_fuse_recorded *recorded, uint32_t n_ops,
                                              int64_t *out_values);
void kilni_fuse_plan_store_insert(kilni_fuse_plan_store *store, kilni_fuse_node *node,
                                  kilni_fuse_plan *plan);
void kilni_fuse_plan_store_discard(kilni_fuse_plan_store *store, kilni_fuse_plan *plan);
void kilni_fuse_plan_store_release(kilni_fuse_plan_store *store, kilni_fuse_plan *plan);
void kilni_fuse_plan_destroy(kilni_fuse_plan *plan);

#endif
