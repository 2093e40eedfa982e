// SPDX-License-Identifier: MIT OR Apache-2.0
// Host memory: the C library's allocator as the default, and zeroed allocation through whatever
// allocator an environment carries. The only place of Kiln where malloc and free are named.
#include "base.h"

#include <stdlib.h>
#include <string.h>

enum { ANY_TYPE = 16 };

static void *libc_alloc(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    size_t asked = bytes == 0 ? 1 : bytes;
    if (alignment <= ANY_TYPE) {
        return malloc(asked);
    }
    void *pointer = NULL;
    return posix_memalign(&pointer, alignment, asked) == 0 ? pointer : NULL;
}

static void libc_free(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

kiln_allocator kiln_allocator_default(void)
{
    return (kiln_allocator){.alloc = libc_alloc, .free = libc_free, .user = NULL};
}

void *kiln_alloc(const kiln_env *env, size_t bytes)
{
    size_t asked = bytes == 0 ? 1 : bytes;
    if (asked > PTRDIFF_MAX) {
        return NULL;
    }
    void *pointer = env->allocator.alloc(env->allocator.user, asked, ANY_TYPE);
    if (pointer != NULL) {
        memset(pointer, 0, asked);
    }
    return pointer;
}

void *kiln_alloc_array(const kiln_env *env, size_t count, size_t bytes_each)
{
    if (bytes_each != 0 && count > PTRDIFF_MAX / bytes_each) {
        return NULL;
    }
    return kiln_alloc(env, count * bytes_each);
}

void *kiln_realloc(const kiln_env *env, void *pointer, size_t old_bytes, size_t new_bytes)
{
    void *moved = kiln_alloc(env, new_bytes);
    if (moved != NULL && pointer != NULL) {
        memcpy(moved, pointer, old_bytes < new_bytes ? old_bytes : new_bytes);
        kiln_free(env, pointer);
    }
    return moved;
}

char *kiln_strdup(const kiln_env *env, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = kiln_alloc(env, bytes);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

void kiln_free(const kiln_env *env, void *pointer)
{
    if (pointer != NULL) {
        env->allocator.free(env->allocator.user, pointer);
    }
}
