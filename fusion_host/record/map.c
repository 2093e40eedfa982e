// SPDX-License-Identifier: MIT OR Apache-2.0
// An open-addressed map from 64-bit keys to 32-bit numbers that empties in one step, and the growth
// of plain arrays. Nothing is ever removed alone: a recorded segment forgets all its tensors at
// once.
#include <string.h>

#include "fuse_map.h"

enum { SMALLEST = 32 };

static uint32_t slot_of(const kilni_fuse_map *map, uint64_t key)
{
    uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> 32) & (map->capacity - 1);
}

uint32_t kilni_fuse_map_find(const kilni_fuse_map *map, uint64_t key)
{
    if (map->capacity == 0) {
        return KILNI_FUSE_NONE;
    }
    uint32_t mask = map->capacity - 1;
    for (uint32_t i = slot_of(map, key);; i = (i + 1) & mask) {
        const kilni_fuse_map_slot *slot = &map->slots[i];
        if (slot->generation != map->generation) {
            return KILNI_FUSE_NONE;
        }
        if (slot->key == key) {
            return slot->value;
        }
    }
}

void kilni_fuse_map_put(kilni_fuse_map *map, uint64_t key, uint32_t value)
{
    uint32_t mask = map->capacity - 1;
    uint32_t i = slot_of(map, key);
    while (map->slots[i].generation == map->generation) {
        i = (i + 1) & mask;
    }
    map->slots[i] = (kilni_fuse_map_slot){key, map->generation, value};
    map->count++;
}

bool kilni_fuse_map_reserve(kilni_fuse_map *map, const kiln_env *env, uint32_t more)
{
    uint64_t need = ((uint64_t)map->count + more) * 2;
    if (kilni_fuse_map_has_room(map, more)) {
        return true;
    }
    uint64_t capacity = map->capacity == 0 ? SMALLEST : map->capacity;
    while (capacity < need) {
        capacity *= 2;
    }
    if (capacity > UINT32_MAX / 2) {
        return false;
    }
    kilni_fuse_map larger = {.capacity = (uint32_t)capacity, .generation = 1};
    larger.slots = kiln_alloc_array(env, capacity, sizeof(*larger.slots));
    if (larger.slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].generation == map->generation) {
            kilni_fuse_map_put(&larger, map->slots[i].key, map->slots[i].value);
        }
    }
    kiln_free(env, map->slots);
    *map = larger;
    return true;
}

void kilni_fuse_map_clear(kilni_fuse_map *map)
{
    map->count = 0;
    map->generation++;
    if (map->generation == 0) {
        for (uint32_t i = 0; i < map->capacity; i++) {
            map->slots[i].generation = 0;
        }
        map->generation = 1;
    }
}

void kilni_fuse_map_fini(kilni_fuse_map *map, const kiln_env *env)
{
    kiln_free(env, map->slots);
    *map = (kilni_fuse_map){0};
}

bool kilni_fuse_grow(const kiln_env *env, void *array_address, uint32_t *capacity, uint64_t need,
                     size_t bytes_each)
{
    if (need <= *capacity) {
        return true;
    }
    uint64_t larger = *capacity == 0 ? 16 : (uint64_t)*capacity * 2;
    larger = larger < need ? need : larger;
    if (larger > UINT32_MAX / 2) {
        return false;
    }
    void *array = NULL;
    memcpy(&array, array_address, sizeof(array));
    void *moved = kiln_realloc(env, array, *capacity * bytes_each, larger * bytes_each);
    if (moved == NULL) {
        return false;
    }
    memcpy(array_address, &moved, sizeof(moved));
    *capacity = (uint32_t)larger;
    return true;
}
