// SPDX-License-Identifier: MIT OR Apache-2.0
// Allocation through an environment: zeroed, overflow refused, growth that keeps what was there.
#include <string.h>

#include "base.h"
#include "faults.h"
#include "harness.h"

static bool all_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void test_zeroed_and_counted(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    unsigned char *bytes = kiln_alloc(&env, 1000);
    KILN_CHECK(all_zero(bytes, 1000));
    KILN_CHECK_INT((uintptr_t)bytes % 16, 0);
    void *nothing = kiln_alloc(&env, 0);
    KILN_CHECK(nothing != NULL);
    char *text = kiln_strdup(&env, "text");
    KILN_CHECK_STR(text, "text");
    KILN_CHECK_INT(atomic_load(&faults.live), 3);
    kiln_free(&env, bytes);
    kiln_free(&env, nothing);
    kiln_free(&env, text);
    kiln_free(&env, NULL);
    KILN_CHECK_INT(atomic_load(&faults.live), 0);
}

static void test_overflow(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    KILN_CHECK(kiln_alloc(&env, SIZE_MAX) == NULL);
    KILN_CHECK(kiln_alloc_array(&env, SIZE_MAX / 4, 8) == NULL);
    KILN_CHECK(kiln_alloc_array(&env, (size_t)1 << 32, (size_t)1 << 32) == NULL);
    void *none = kiln_alloc_array(&env, 5, 0);
    KILN_CHECK(none != NULL);
    kiln_free(&env, none);
}

static void test_realloc(void)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    kiln_env env = {.allocator = faults.allocator};
    unsigned char *bytes = kiln_realloc(&env, NULL, 0, 4);
    memset(bytes, 7, 4);
    bytes = kiln_realloc(&env, bytes, 4, 64);
    KILN_CHECK_INT(bytes[3], 7);
    KILN_CHECK(all_zero(bytes + 4, 60));
    faults.fail_at = atomic_load(&faults.requests) + 1;
    KILN_CHECK(kiln_realloc(&env, bytes, 64, 128) == NULL);
    KILN_CHECK_INT(bytes[3], 7);
    bytes = kiln_realloc(&env, bytes, 64, 2);
    KILN_CHECK_INT(bytes[1], 7);
    kiln_free(&env, bytes);
    KILN_CHECK_INT(atomic_load(&faults.live), 0);
}

static void test_default_alignment(void)
{
    kiln_allocator allocator = kiln_allocator_default();
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *pointer = allocator.alloc(allocator.user, 3, alignment);
        KILN_CHECK_INT((uintptr_t)pointer % alignment, 0);
        allocator.free(allocator.user, pointer);
    }
}

KILN_TEST_MAIN("unit/base/env", KILN_TEST(test_zeroed_and_counted), KILN_TEST(test_overflow),
               KILN_TEST(test_realloc), KILN_TEST(test_default_alignment))
