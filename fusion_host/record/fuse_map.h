// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_FUSE_MAP_H
#define KILN_FUSION_HOST_FUSE_MAP_H

/// A map from 64-bit keys to small numbers that is cleared in one step, and arrays that grow.

#include "fusion_host.h"

#define KILNI_FUSE_NONE UINT32_MAX
#define KILNI_FUSE_MODULE "fusion_host"

typedef struct kilni_fuse_map_slot {
    uint64_t key;
    uint32_t generation; ///< the slot is free unless equal to the map's
    uint32_t value;
} kilni_fuse_map_slot;

typedef struct kilni_fuse_map {
    kilni_fuse_map_slot *slots;
    uint32_t capacity; ///< 0 or a power of two
    uint32_t count;
    uint32_t generation;
} kilni_fuse_map;

static inline bool kilni_fuse_map_has_room(const kilni_fuse_map *map, uint32_t more)
{
    return ((uint64_t)map->count + more) * 2 <= map->capacity;
}
/// Room for `more` keys without failing. `put` needs room and a key that is not there.
bool kilni_fuse_map_reserve(kilni_fuse_map *map, const kiln_env *env, uint32_t more);
uint32_t kilni_fuse_map_find(const kilni_fuse_map *map, uint64_t key);
void kilni_fuse_map_put(kilni_fuse_map *map, uint64_t key, uint32_t value);
void kilni_fuse_map_clear(kilni_fuse_map *map);
void kilni_fuse_map_fini(kilni_fuse_map *map, const kiln_env *env);

/// Makes the array whose pointer is at `array_address` hold at least `need` elements; the contents
/// stay. False when there is no memory.
bool kilni_fuse_grow(const kiln_env *env, void *array_address, uint32_t *capacity, uint64_t need,
                     size_t bytes_each);

#endif
