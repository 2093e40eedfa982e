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

typedef struct pieces {
    const unsigned char *bytes;
    size_t left;
    size_t most; ///< of a piece
} pieces;

static size_t next_piece(void *user, const void **out_bytes)
{
    pieces *p = user;
    size_t length = p->left < p->most ? p->left : p->most;
    *out_bytes = p->bytes;
    p->bytes += length;
    p->left -= length;
    return length;
}

static void test_pieces(void)
{
    unsigned char bytes[3000];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)(i * 7);
    }
    static const size_t lengths[] = {0, 1, 16, 240, 241, 1024, sizeof(bytes)};
    static const size_t most[] = {1, 7, 256, sizeof(bytes)};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t k = 0; k < sizeof(most) / sizeof(most[0]); k++) {
            pieces p = {bytes, lengths[i], most[k]};
            KILN_CHECK(kiln_hash_same(kiln_hash_pieces(next_piece, &p),
                                      kiln_hash_bytes(bytes, lengths[i])));
        }
    }
}

KILN_TEST_MAIN("unit/base/hash", KILN_TEST(test_known_values), KILN_TEST(test_every_byte_counts),
               KILN_TEST(test_pieces))
