// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_MEMORY_H
#define KILN_BASE_MEMORY_H

/// For Kiln's own modules: memory of the host, from the environment's allocator.
///
/// Unless a function says otherwise: any thread may call it; what it gives is the caller's and goes
/// back through kiln_free with the same environment; it fails with NULL. No pointer is NULL unless
/// a function takes it.

#include <stdbool.h>
#include <stddef.h>

#include "kiln_env.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Gives zeroed memory, aligned for any type.
KILN_API void *kiln_alloc(const kiln_env *env, size_t bytes);

/// Gives zeroed memory of `count` elements; NULL also when their bytes exceed size_t.
KILN_API void *kiln_alloc_array(const kiln_env *env, size_t count, size_t bytes_each);

/// Keeps the first min(old, new) bytes and zeroes the rest. `pointer` stays valid on failure.
KILN_API void *kiln_realloc(const kiln_env *env, void *pointer, size_t old_bytes, size_t new_bytes);

/// Copies a text.
KILN_API char *kiln_strdup(const kiln_env *env, const char *text);

/// Frees what a function above gave, with the same environment. Takes NULL.
KILN_API void kiln_free(const kiln_env *env, void *pointer);

// ---- arena ----

/// Memory that is freed as a whole, aligned to 16. A plain struct: zero it with init. One thread at
/// a time.
typedef struct kiln_arena {
    const kiln_env *env;
    void *blocks;
    size_t used_bytes;
} kiln_arena;

/// Makes an empty arena.
KILN_API void kiln_arena_init(kiln_arena *arena, const kiln_env *env);

/// Gives zeroed bytes that live until reset or fini.
KILN_API void *kiln_arena_alloc(kiln_arena *arena, size_t bytes);

/// Gives a copy that lives until reset or fini.
KILN_API void *kiln_arena_copy(kiln_arena *arena, const void *source, size_t bytes);

/// Takes back all that the arena gave and keeps its memory for what comes.
KILN_API void kiln_arena_reset(kiln_arena *arena);

/// Frees all memory of the arena.
KILN_API void kiln_arena_fini(kiln_arena *arena);

// ---- growing text ----

/// A growing text, always terminated after the first append. Without memory `failed` is set and
/// stays set. One thread at a time.
typedef struct kiln_string {
    const kiln_env *env;
    char *text;
    size_t length;
    size_t capacity;
    bool failed;
} kiln_string;

/// Makes an empty text.
KILN_API void kiln_string_init(kiln_string *string, const kiln_env *env);

/// Appends `length` bytes.
KILN_API void kiln_string_append(kiln_string *string, const char *text, size_t length);

/// Appends as printf prints.
KILN_API void kiln_string_printf(kiln_string *string, const char *format, ...) KILN_PRINTF(2, 3);

/// Frees the text.
KILN_API void kiln_string_fini(kiln_string *string);

/// The word that goes with a count in a message: kiln_plural(n, "launch", "launches").
static inline const char *kiln_plural(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

#ifdef __cplusplus
}
#endif
#endif
