// SPDX-License-Identifier: MIT OR Apache-2.0
// Arenas: zeroed and aligned pieces that do not overlap, reset without new memory, failure without
// harm.
#include <string.h>

#include "base.h"
#include "faults.h"
#include "harness.h"

enum { PIECES = 500 };

static size_t piece_bytes(size_t i)
{
    return i % 97 == 0 ? 100000 + i : (i * 37) % 700;
}

/// Fills an arena with marked pieces and checks the marks. False when there was no memory.
static bool fill(kiln_arena *arena)
{
    unsigned char *pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = kiln_arena_alloc(arena, piece_bytes(i));
        if (pieces[i] == NULL) {
            return false;
        }
        KILN_CHECK((uintptr_t)pieces[i] % 16 == 0);
        for (size_t j = 0; j < piece_bytes(i); j++) {
            if (pieces[i][j] != 0) {
                KILN_FAIL("piece %zu is not zero at %zu", i, j);
                return true;
            }
        }
        memset(pieces[i], (int)(i % 251) + 1, piece_bytes(i));
    }
    for (size_t i = 0; i < PIECES; i++) {
        size_t last = piece_bytes(i);
        if (last > 0 && (pieces[i][0] != i % 251 + 1 || pieces[i][last - 1] != i % 251 + 1)) {
            KILN_FAIL("piece %zu was written over", i);
            break;
        }
    }
    return true;
}

static void test_fill_and_reset(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    kiln_arena arena;
    kiln_arena_init(&arena, &env);
    KILN_CHECK(fill(&arena));
    size_t requests = atomic_load(&faults.requests);
    size_t used = arena.used_bytes;
    for (int i = 0; i < 3; i++) {
        kiln_arena_reset(&arena);
        KILN_CHECK_INT(arena.used_bytes, 0);
        KILN_CHECK(fill(&arena));
        KILN_CHECK_INT(arena.used_bytes, used);
    }
    KILN_CHECK_INT(atomic_load(&faults.requests), requests);
    kiln_arena_fini(&arena);
    kiln_arena_fini(&arena);
    KILN_CHECK_INT(atomic_load(&faults.live), 0);
}

static void test_copy_and_limits(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_arena arena;
    kiln_arena_init(&arena, &env);
    kiln_arena_reset(&arena);
    KILN_CHECK_STR(kiln_arena_copy(&arena, "copied", 7), "copied");
    KILN_CHECK(kiln_arena_copy(&arena, NULL, 0) != NULL);
    KILN_CHECK(kiln_arena_alloc(&arena, SIZE_MAX) == NULL);
    KILN_CHECK(kiln_arena_alloc(&arena, SIZE_MAX - 15) == NULL);
    KILN_CHECK(kiln_arena_alloc(&arena, 1) != NULL);
    kiln_arena_fini(&arena);
}

static void test_no_memory(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_arena arena;
        kiln_arena_init(&arena, &env);
        bool done = fill(&arena);
        KILN_CHECK_INT(done, atomic_load(&faults.requests) < k);
        if (!done) { // one failure only: it goes on afterwards
            KILN_CHECK(fill(&arena));
        }
        kiln_arena_fini(&arena);
    }
}

KILN_TEST_MAIN("unit/base/arena", KILN_TEST(test_fill_and_reset), KILN_TEST(test_copy_and_limits),
               KILN_TEST(test_no_memory))
