// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_AUTODIFF_SHARDED_INTERNAL_H
#define KILN_AUTODIFF_SHARDED_INTERNAL_H

/// How parameters lie in rows: one row for each dtype, parameters end to end, then zeros, so that
/// all parts are of one length.

#include "kiln_sharded.h"
#include "optimiser_internal.h"

typedef struct kilni_shard_row {
    kiln_dtype dtype;
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
    kilni_shard_row rows[KILNI_FLOATS];
} kilni_shard_layout;

/// Lays the parameters of a set out. `fini` also after a failure. Errors: INVALID_ARGUMENT for one
/// that is no float, RESOURCE_EXHAUSTED.
kiln_status kilni_shard_layout_init(const kiln_params *params, uint32_t parts,
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

#endif
