// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies by several threads, and past the caches: every byte arrives, and none beside them is
// written.
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "harness.h"

enum { MEBIBYTE = 1 << 20, MARGIN = 64 };

typedef void (*copy_fn)(void *target, const void *source, size_t bytes);

static void check_copy(copy_fn copy, size_t bytes, size_t skew)
{
    unsigned char *source = malloc(bytes + skew + 1);
    unsigned char *target = malloc(bytes + 2 * MARGIN);
    KILN_CHECK(source != NULL && target != NULL);
    for (size_t i = 0; i < bytes; i++) {
        source[skew + i] = (unsigned char)(i * 2654435761u >> 13);
    }
    memset(target, 0xA5, bytes + 2 * MARGIN);
    copy(target + MARGIN + skew / 2, source + skew, bytes);
    KILN_CHECK(memcmp(target + MARGIN + skew / 2, source + skew, bytes) == 0);
    for (size_t i = 0; i < MARGIN - skew / 2; i++) {
        KILN_CHECK(target[i] == 0xA5 && target[MARGIN + skew / 2 + bytes + i] == 0xA5);
    }
    free(source);
    free(target);
}

static void test_sizes(void)
{
    static const size_t sizes[] = {0,
                                   1,
                                   63,
                                   MEBIBYTE - 1,
                                   MEBIBYTE,
                                   MEBIBYTE + 1,
                                   3 * MEBIBYTE + 17,
                                   4 * MEBIBYTE - 1,
                                   4 * MEBIBYTE,
                                   4 * MEBIBYTE + 1,
                                   9 * MEBIBYTE + 65};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t skew = 0; skew <= 3; skew += 3) {
            check_copy(kiln_copy_wide, sizes[i], skew);
            check_copy(kiln_copy_past, sizes[i], skew);
        }
    }
}

KILN_TEST_MAIN("unit/base/copy", KILN_TEST(test_sizes))
