// SPDX-License-Identifier: MIT OR Apache-2.0
// Hashes are XXH3's published values: keys on disk depend on them.
#include "base.h"
#include "harness.h"

static void test_known_values(void)
{
    char hex[33];
    KILN_CHECK_INT(kiln_hash64("", 0, 0), (int64_t)0x2d06800538d394c2);
    KILN_CHECK_INT(kiln_hash64("abc", 3, 0), (int64_t)0x78af5f94892f3950);
    kiln_hash_hex(kiln_hash_bytes("", 0), hex);
    KILN_CHECK_STR(hex, "99aa06d3014798d86001c324468d497f");
    kiln_hash_hex(kiln_hash_bytes("abc", 3), hex);
    KILN_CHECK_STR(hex, "06b05ab6733a618578af5f94892f3950");
}

static void test_every_byte_counts(void)
{
    unsigned char bytes[300] = {0};
    kiln_hash128 whole = kiln_hash_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 1;
        kiln_hash128 changed = kiln_hash_bytes(bytes, sizeof(bytes));
        KILN_CHECK(changed.low != whole.low && changed.high != whole.high);
        bytes[i] ^= 1;
    }
    KILN_CHECK(kiln_hash64("a", 1, 1) != kiln_hash64("a", 1, 2));
}

KILN_TEST_MAIN("unit/base/hash", KILN_TEST(test_known_values), KILN_TEST(test_every_byte_counts))
