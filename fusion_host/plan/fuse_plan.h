// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_FUSE_PLAN_H
#define KILN_FUSION_HOST_FUSE_PLAN_H

/// Blocks to plans: their order, their steps, and plans on disk.

#include "blocks.h"

/// The order in which blocks and single operations run: what is needed comes first, otherwise as
/// recorded. Block numbers, or KILNI_FUSE_SINGLE | operation. A block that cannot be ordered is
/// dissolved. `out_order` has room for n_covered entries.
#define KILNI_FUSE_SINGLE (1u << 31)
kiln_status kilni_fuse_order(const kilni_fuse_recorded *recorded, kilni_fuse_blocks *blocks,
                             uint32_t *out_order, uint32_t *out_count, kiln_error *err);

/// Blocks to steps: launches, operations unfused, and after which step each dropped tensor dies.
/// Takes over the arena.
kiln_status kilni_fuse_plan_build(const kiln_fuse_engine *engine,
                                  const kilni_fuse_recorded *recorded, kilni_fuse_blocks *blocks,
                                  kiln_arena *arena, kilni_fuse_plan **out_plan, kiln_error *err);

/// Plans on disk, for a class of sizes. `init` makes the engine's part of the key; `get` fills
/// blocks as a search does, or gives false: a miss, whatever the reason. `encode` and `decode` are
/// these without the store.
bool kilni_fuse_disk_init(kiln_fuse_engine *engine);
void kilni_fuse_disk_put(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                         uint32_t n_ops, bool full, uint64_t size_class,
                         const kilni_fuse_blocks *blocks);
bool kilni_fuse_disk_get(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                         uint32_t n_ops, bool full, uint64_t size_class, kiln_arena *arena,
                         kilni_fuse_blocks *out_blocks);
bool kilni_fuse_disk_encode(const kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                            uint32_t n_ops, const kilni_fuse_blocks *blocks, kiln_string *out);
bool kilni_fuse_disk_decode(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                            uint32_t n_ops, const void *bytes, size_t length, kiln_arena *arena,
                            kilni_fuse_blocks *out_blocks);

#endif
