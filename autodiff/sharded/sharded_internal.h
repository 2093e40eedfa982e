// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_AUTODIFF_SHARDED_INTERNAL_H
#define KILN_AUTODIFF_SHARDED_INTERNAL_H

/// What the files of optimisers that share their state out share: how parameters lie in rows, and
/// what a member has of them. A row has parameters of one dtype end to end, the last of the set
/// first, as backward finds their gradients; then zeros, so that all parts are of one length.

#include "kiln_sharded.h"
#include "optimiser_internal.h"

typedef struct kilni_shard_row {
    kiln_dtype dtype;
    size_t n_params;
    int64_t elems; ///< of parameters
    int64_t part; ///< elements of one member's part
} kilni_shard_row;

typedef struct kilni_shard_place { ///< of a parameter
    size_t row;
    int64_t start;
    int64_t count;
} kilni_shard_place;

typedef struct kilni_shard_layout {
    const kiln_env *env;
    uint32_t parts;
    size_t count; ///< of parameters
    kilni_shard_place *places;
    size_t n_rows;
    kilni_shard_row *rows; ///< in the order in which their gradients come
} kilni_shard_layout;

/// Lays the parameters of a set out: a row gets further ones until it has `row_bytes`; 0: chosen by
/// what all of them take. `fini` also after a failure.
/// Errors: INVALID_ARGUMENT for one that is no float, RESOURCE_EXHAUSTED.
kiln_status kilni_shard_layout_init(const kiln_params *params, uint32_t parts, uint64_t row_bytes,
                                    kilni_shard_layout *out_layout, kiln_error *err);
void kilni_shard_layout_fini(kilni_shard_layout *layout);

/// Records elements [start, start + count) of a row, as a tensor of rank 1; `tensors[p]` is in the
/// place of parameter p. The caller holds the result.
kiln_status kilni_shard_cut(const kilni_shard_layout *layout, kiln_device *device,
                            kiln_tensor *const *tensors, size_t row, int64_t start, int64_t count,
                            kiln_tensor **out_tensor, kiln_error *err);

/// Records what a whole row has in the place of parameter `index`, shaped as `like`.
kiln_status kilni_shard_take(const kilni_shard_layout *layout, kiln_tensor *whole, size_t index,
                             const kiln_tensor *like, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kilni_shard_member {
    kiln_sharded *sharded;
    kiln_params *set; ///< the caller's
    kiln_params *own; ///< row r's part is parameter r
    kiln_optimiser *optimiser; ///< of `own`
    uint32_t rank;
    kiln_tensor **gradients; ///< by parameter: held until their row is on its way
    bool *came; ///< by parameter: submitted for the step that comes
    kiln_tensor **parts; ///< by row: its part of the mean, until the step is made
    kiln_tensor **whole; ///< by row: new values that the set has not taken yet
} kilni_shard_member;

struct kiln_sharded {
    const kiln_env *env;
    kiln_collective *group;
    kilni_shard_layout layout;
    bool late;
    double clip;
    size_t next_row; ///< of those whose gradients are not on their way the first
    size_t *missing; ///< by row: gradients of all members that have not come
    size_t count; ///< of members in this process
    kilni_shard_member members[];
};

// ---- gradients that come (sharded_submit.c) ----

/// Nothing was submitted for the step that comes.
void kilni_sharded_forget(kiln_sharded *sharded);
/// Whether a gradient may be the parameter's.
kiln_status kilni_sharded_check(const kilni_shard_member *self, size_t index,
                                const kiln_tensor *gradient, kiln_error *err);
/// Takes a reference to one that may; the rows that are complete now are averaged.
kiln_status kilni_sharded_take(kilni_shard_member *self, size_t index, kiln_tensor *gradient,
                               kiln_error *err);

// ---- what all members must know together (sharded_agree.c) ----

/// Whether the parts of all members in all processes are finite. Waits.
kiln_status kilni_sharded_agree_on_finite(const kiln_sharded *sharded, bool *out_finite,
                                          kiln_error *err);
/// Scales the parts down by the norm of all gradients; divides them by the scale of the loss.
kiln_status kilni_sharded_clip(const kiln_sharded *sharded, kiln_error *err);
kiln_status kilni_sharded_unscale(const kiln_sharded *sharded, kiln_error *err);

// ---- values (sharded_values.c) ----

/// Makes the step of each member's parts, and sends the new values to all.
kiln_status kilni_sharded_update(kiln_sharded *sharded, kiln_error *err);
/// The member's set takes the values that are on their way to it.
kiln_status kilni_sharded_bring_all(kilni_shard_member *self, kiln_error *err);
/// For kiln_params: the parameter's value is wanted. False: there is no memory for it.
bool kilni_sharded_bring(void *member, size_t index);

#endif
