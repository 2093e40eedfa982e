// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_HASH_H
#define KILN_BASE_HASH_H

/// For Kiln's own modules: hashes.
///
/// Unless a function says otherwise: any thread may call it; it cannot fail. No pointer is NULL
/// unless a function takes it.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kiln_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/// 128 bits of XXH3 (xxhash.com), for keys on disk.
typedef struct kiln_hash128 {
    uint64_t low;
    uint64_t high;
} kiln_hash128;

/// 64 bits of XXH3 with a seed, for tables in memory.
KILN_API uint64_t kiln_hash64(const void *bytes, size_t length, uint64_t seed);

/// 128 bits of XXH3.
KILN_API kiln_hash128 kiln_hash_bytes(const void *bytes, size_t length);

/// Gives the next piece, which stays until the next call; its length is 0 at the end.
typedef size_t (*kiln_hash_next_fn)(void *user, const void **out_bytes);

/// The same hash of bytes that come in pieces.
KILN_API kiln_hash128 kiln_hash_pieces(kiln_hash_next_fn next, void *user);

/// Writes a hash as 32 digits and a terminator.
KILN_API void kiln_hash_hex(kiln_hash128 hash, char out_hex[33]);

static inline bool kiln_hash_same(kiln_hash128 a, kiln_hash128 b)
{
    return a.low == b.low && a.high == b.high;
}

#ifdef __cplusplus
}
#endif
#endif
