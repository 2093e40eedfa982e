// SPDX-License-Identifier: MIT OR Apache-2.0
// The entry point that libFuzzer calls, and fuzz_replay.c where there is no libFuzzer; a file for
// what reads its input from one.
#ifndef KILN_TESTS_FUZZ_TARGET_H
#define KILN_TESTS_FUZZ_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline void must(bool promise)
{
    if (!promise) {
        abort();
    }
}

/// Tries one input. Returns 0; aborts when a promise is broken.
// libFuzzer gives the name. NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/// Puts the bytes into a file without a name and gives a path that opens it, good until the next
/// call. For targets that read a file; fuzz_file.c.
const char *fuzz_file(const uint8_t *data, size_t size);

#endif
