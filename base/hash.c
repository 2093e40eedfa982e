// SPDX-License-Identifier: MIT OR Apache-2.0
// Hashes: XXH3 from the xxHash library, compiled in. Keys on disk depend on its output, which
// xxHash promises not to change; what goes into a key is decided by who stores.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base.h"

uint64_t kiln_hash64(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}

kiln_hash128 kiln_hash_bytes(const void *bytes, size_t length)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    return (kiln_hash128){.low = hash.low64, .high = hash.high64};
}

kiln_hash128 kiln_hash_pieces(kiln_hash_next_fn next, void *user)
{
    XXH3_state_t state;
    const void *bytes = NULL;
    XXH3_128bits_reset(&state);
    for (size_t length = next(user, &bytes); length > 0; length = next(user, &bytes)) {
        XXH3_128bits_update(&state, bytes, length);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return (kiln_hash128){.low = hash.low64, .high = hash.high64};
}

void kiln_hash_hex(kiln_hash128 hash, char out_hex[33])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 16; i++) {
        out_hex[i] = digits[(hash.high >> (60 - 4 * i)) & 15];
        out_hex[16 + i] = digits[(hash.low >> (60 - 4 * i)) & 15];
    }
    out_hex[32] = 0;
}
