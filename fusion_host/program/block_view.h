// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_BLOCK_VIEW_H
#define KILN_FUSION_HOST_BLOCK_VIEW_H

/// Chosen operations as fusers see them: under numbers of the block.

#include "kiln_fuser.h"
#include "recorded.h"

enum { KILNI_FUSE_MAX_ASKS = 32 };

typedef struct kilni_fuse_ask { ///< a value that a fuser wanted to see
    bool is_scalar;
    uint32_t ref; ///< block-relative
    int64_t value;
} kilni_fuse_ask;

typedef struct kilni_fuse_asks {
    kilni_fuse_ask items[KILNI_FUSE_MAX_ASKS];
    uint32_t count;
} kilni_fuse_asks;

/// Notes that the plan holds only for this value. False when there are too many.
bool kilni_fuse_asks_add(kilni_fuse_asks *asks, kilni_fuse_ask ask);

typedef struct kilni_fuse_block_mark { ///< numbers given out up to and including an operation
    uint32_t n_tensors;
    uint32_t n_symbols;
    uint32_t n_scalars;
} kilni_fuse_block_mark;

/// Operations of a recorded segment under block-relative numbers, extended one operation at a time.
typedef struct kilni_fuse_block_view {
    const kilni_fuse_recorded *recorded;
    uint32_t *ops; ///< of the recorded segment, ascending
    uint32_t n_ops;
    uint32_t ops_capacity;
    kilni_fuse_map tensor_map;
    kilni_fuse_map symbol_map;
    uint32_t *tensors; ///< block -> recorded segment
    uint32_t n_tensors;
    uint32_t tensors_capacity;
    uint32_t *defined; ///< operation of the block that defines the tensor, or KILNI_FUSE_NONE
    uint32_t defined_capacity;
    uint32_t *dropped; ///< operation of the block that drops it, or KILNI_FUSE_NONE
    uint32_t dropped_capacity;
    uint32_t *symbols;
    uint32_t n_symbols;
    uint32_t symbols_capacity;
    uint32_t *scalars; ///< block -> recorded segment
    uint32_t n_scalars;
    uint32_t scalars_capacity;
    kilni_fuse_block_mark *marks;
    uint32_t marks_capacity;
} kilni_fuse_block_view;

void kilni_fuse_block_view_reset(kilni_fuse_block_view *view, const kilni_fuse_recorded *recorded);
void kilni_fuse_block_view_fini(kilni_fuse_block_view *view, const kiln_env *env);
/// Takes in one more operation of the recorded segment, behind those before. False when there is no
/// memory.
bool kilni_fuse_block_view_extend(kilni_fuse_block_view *view, uint32_t recorded_op);
/// Back to the first `n_ops` operations.
void kilni_fuse_block_view_cut(kilni_fuse_block_view *view, uint32_t n_ops);
uint32_t kilni_fuse_block_tensor(const kilni_fuse_block_view *view, uint32_t recorded_tensor);
uint32_t kilni_fuse_block_symbol(const kilni_fuse_block_view *view, uint32_t recorded_symbol);
int64_t kilni_fuse_block_symbol_value(const kilni_fuse_block_view *view, uint32_t symbol);

/// An operation as the ABI shows it, valid until the next call on the same storage.
typedef struct kilni_fuse_op_view kilni_fuse_op_view;
kilni_fuse_op_view *kilni_fuse_op_view_create(const kiln_env *env);
void kilni_fuse_op_view_destroy(const kiln_env *env, kilni_fuse_op_view *storage);
const kf_op *kilni_fuse_op_view_fill(kilni_fuse_op_view *storage, const kilni_fuse_block_view *view,
                                     uint32_t op, const kilni_fuse_asks *asks);

#endif
