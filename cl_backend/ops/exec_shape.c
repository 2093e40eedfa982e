// SPDX-License-Identifier: MIT OR Apache-2.0
// Axes: merges those that all operands of a launch allow to, chooses the one that runs inside, and
// cuts the work into pieces that suit the device. What a piece computes is the kernel's.
#include <string.h>

#include "exec_internal.h"

void kilni_exec_loops_init(kilni_exec_loops *loops, const int64_t *dims, uint32_t rank)
{
    memset(loops, 0, sizeof(*loops));
    loops->rank = rank;
    memcpy(loops->dims, dims, rank * sizeof(dims[0]));
}

void kilni_exec_loops_add(kilni_exec_loops *loops, const kiln_view *view)
{
    int64_t *strides = loops->strides[loops->n_operands];
    loops->start[loops->n_operands++] = kilni_exec_start(view);
    for (uint32_t i = 0; i < view->rank; i++) {
        uint32_t axis = loops->rank - view->rank + i;
        strides[axis] = view->dims[i] != 1 ? view->strides[i] : 0;
    }
}

static bool may_merge(const kilni_exec_loops *loops, uint32_t outer, uint32_t inner)
{
    for (uint32_t i = 0; i < loops->n_operands; i++) {
        if (loops->strides[i][outer] != loops->strides[i][inner] * loops->dims[inner]) {
            return false;
        }
    }
    return true;
}

/// Moves axis `from` to place `to`.
static void move_axis(kilni_exec_loops *loops, uint32_t to, uint32_t from)
{
    loops->dims[to] = loops->dims[from];
    for (uint32_t i = 0; i < loops->n_operands; i++) {
        loops->strides[i][to] = loops->strides[i][from];
    }
}

void kilni_exec_loops_merge(kilni_exec_loops *loops, uint32_t apart, uint32_t *out_apart)
{
    uint32_t rank = 0;
    uint32_t kept_apart = 0;
    for (uint32_t axis = 0; axis < loops->rank; axis++) {
        uint32_t is_apart = apart >> axis & 1u;
        if (loops->dims[axis] == 1) {
            continue;
        }
        bool alike = rank > 0 && (kept_apart >> (rank - 1) & 1u) == is_apart;
        if (alike && may_merge(loops, rank - 1, axis)) {
            int64_t length = loops->dims[rank - 1] * loops->dims[axis];
            move_axis(loops, rank - 1, axis);
            loops->dims[rank - 1] = length;
        } else {
            move_axis(loops, rank, axis);
            kept_apart |= is_apart << rank;
            rank++;
        }
    }
    loops->rank = rank;
    if (out_apart != NULL) {
        *out_apart = kept_apart;
    }
}

// ---- pieces of work ----

enum { BLOCK = 8192, BLOCK_LEAST = 1024, TILE_SIDE = 32 };

/// The last axis when a vector fits, else the longest.
static uint32_t vector_axis(const kilni_exec_loops *loops, uint32_t vector)
{
    uint32_t best = loops->rank - 1;
    if (loops->dims[best] >= vector) {
        return best;
    }
    for (uint32_t i = 0; i < loops->rank; i++) {
        best = loops->dims[i] > loops->dims[best] ? i : best;
    }
    return best;
}

static int64_t inner_stride(const kilni_exec_shape *shape, int64_t operand)
{
    return shape->inner == 1 ? 1 : shape->stride[operand][KILNI_EXEC_INNER];
}

static bool any_strided(const kilni_exec_shape *shape)
{
    for (int64_t i = 0; i < shape->n_operands; i++) {
        if (inner_stride(shape, i) != 0 && inner_stride(shape, i) != 1) {
            return true;
        }
    }
    return false;
}

/// CPUs: pieces of some thousand elements, several for each core; with strides, tiles whose lines
/// of the cache the neighbouring rows use up. GPUs: one vector for each work-item.
static void cut_elements(const kilni_exec *exec, kilni_exec_shape *shape, uint32_t vector)
{
    int64_t block = vector;
    int64_t most = vector;
    if (kilni_exec_is_block(exec)) {
        int64_t pieces = 4 * (int64_t)exec->backend->info.compute_units;
        block = kilni_exec_ceil_div(shape->inner * shape->rows, pieces);
        block = block < BLOCK_LEAST ? BLOCK_LEAST : block > BLOCK ? BLOCK : block;
        most = any_strided(shape) && shape->rows > 1 ? TILE_SIDE : block;
    }
    int64_t taken = shape->inner < most ? shape->inner : most;
    shape->rows_each = block > taken && kilni_exec_is_block(exec) ? block / taken : 1;
    shape->chunk = kilni_exec_ceil_div(taken, vector) * vector;
    shape->chunks = kilni_exec_ceil_div(shape->inner, shape->chunk);
    shape->items = kilni_exec_ceil_div(shape->rows, shape->rows_each) * shape->chunks;
}

void kilni_exec_shape_init(const kilni_exec *exec, kilni_exec_shape *shape, kilni_exec_loops *loops,
                           uint32_t vector)
{
    kilni_exec_loops_merge(loops, 0, NULL);
    memset(shape, 0, sizeof(*shape));
    shape->inner = 1;
    shape->rows = 1;
    shape->n_operands = loops->n_operands;
    memcpy(shape->start, loops->start, sizeof(shape->start));
    uint32_t inner = loops->rank > 0 ? vector_axis(loops, vector) : 0;
    for (uint32_t axis = 0; axis < loops->rank; axis++) {
        uint32_t place = axis == inner ? KILNI_EXEC_INNER : (uint32_t)shape->rank;
        for (uint32_t i = 0; i < loops->n_operands; i++) {
            shape->stride[i][place] = loops->strides[i][axis];
        }
        if (axis == inner) {
            shape->inner = loops->dims[axis];
        } else {
            shape->dims[shape->rank++] = loops->dims[axis];
            shape->rows *= loops->dims[axis];
        }
    }
    cut_elements(exec, shape, vector);
}

/// Whether all operands run densely inside, and whether whole vectors then start at multiples of
/// their size.
static bool all_dense(const kilni_exec_shape *shape, int64_t vector, bool *out_aligned)
{
    *out_aligned = true;
    for (int64_t i = 0; i < shape->n_operands; i++) {
        if (inner_stride(shape, i) != 1) {
            return false;
        }
        *out_aligned = *out_aligned && shape->start[i] % vector == 0;
        for (int64_t axis = 0; axis < shape->rank; axis++) {
            *out_aligned = *out_aligned && shape->stride[i][axis] % vector == 0;
        }
    }
    return true;
}

void kilni_exec_define_shape(const kilni_exec *exec, kilni_exec_options *options,
                             const kilni_exec_shape *shape, uint32_t vector)
{
    bool aligned = false;
    bool dense = all_dense(shape, vector, &aligned);
    bool wide = shape->items > INT32_MAX || shape->rows > INT32_MAX;
    kilni_exec_define(options, "V", vector);
    kilni_exec_define_text(options, "IDX", wide ? "ulong" : "uint");
    if (kilni_exec_is_block(exec)) {
        kilni_exec_define(options, "MODE", 2);
        return;
    }
    kilni_exec_define(options, "MODE", dense ? 1 : 2);
    kilni_exec_define(options, "RANK", shape->rank);
    if (dense && aligned) {
        kilni_exec_define(options, "ALIGNED", 1);
    }
}
