// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory freed as a whole: a list of blocks that doubles in size, filled front to back, kept by
// reset. Who resets when is the owner's business.
#include "base.h"

#include <stdalign.h>
#include <string.h>

enum { FIRST_BLOCK_BYTES = 4096 - 64, LARGEST_BYTES = 1 << 20, GRAIN = 16 };

typedef struct arena_block {
    alignas(GRAIN) struct arena_block *next;
    struct arena_block *current; ///< in the first block only: where allocation goes on
    size_t capacity;
    size_t used;
} arena_block;

void kiln_arena_init(kiln_arena *arena, const kiln_env *env)
{
    *arena = (kiln_arena){.env = env, .blocks = NULL, .used_bytes = 0};
}

/// A block of at least `bytes` behind `last`, twice as large as it up to a limit.
static arena_block *add_block(kiln_arena *arena, arena_block *last, size_t bytes)
{
    size_t capacity = last == NULL ? FIRST_BLOCK_BYTES : last->capacity * 2;
    capacity = capacity > LARGEST_BYTES ? LARGEST_BYTES : capacity;
    capacity = capacity < bytes ? bytes : capacity;
    const kiln_allocator *allocator = &arena->env->allocator;
    arena_block *block = allocator->alloc(allocator->user, sizeof(*block) + capacity, GRAIN);
    if (block == NULL) {
        return NULL;
    }
    *block = (arena_block){.next = NULL, .current = block, .capacity = capacity, .used = 0};
    if (last == NULL) {
        arena->blocks = block;
    } else {
        last->next = block;
    }
    return block;
}

void *kiln_arena_alloc(kiln_arena *arena, size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 2) {
        return NULL;
    }
    size_t need = bytes == 0 ? GRAIN : (bytes + GRAIN - 1) / GRAIN * GRAIN;
    arena_block *first = arena->blocks;
    arena_block *block = first == NULL ? NULL : first->current;
    while (block != NULL && block->capacity - block->used < need && block->next != NULL) {
        block = block->next;
    }
    if (block == NULL || block->capacity - block->used < need) {
        block = add_block(arena, block, need);
        if (block == NULL) {
            return NULL;
        }
    }
    first = arena->blocks;
    first->current = block;
    unsigned char *pointer = (unsigned char *)(block + 1) + block->used;
    block->used += need;
    arena->used_bytes += need;
    return memset(pointer, 0, need);
}

void *kiln_arena_copy(kiln_arena *arena, const void *source, size_t bytes)
{
    void *copy = kiln_arena_alloc(arena, bytes);
    if (copy != NULL && bytes > 0) {
        memcpy(copy, source, bytes);
    }
    return copy;
}

void kiln_arena_reset(kiln_arena *arena)
{
    arena_block *first = arena->blocks;
    for (arena_block *block = first; block != NULL; block = block->next) {
        block->used = 0;
    }
    if (first != NULL) {
        first->current = first;
    }
    arena->used_bytes = 0;
}

void kiln_arena_fini(kiln_arena *arena)
{
    arena_block *block = arena->blocks;
    while (block != NULL) {
        arena_block *next = block->next;
        kiln_free(arena->env, block);
        block = next;
    }
    arena->blocks = NULL;
    arena->used_bytes = 0;
}
