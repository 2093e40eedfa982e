// SPDX-License-Identifier: MIT OR Apache-2.0
// The entry point that libFuzzer calls, and fuzz_replay.c where there is no libFuzzer.
#ifndef KILN_TESTS_FUZZ_TARGET_H
#define KILN_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/// Tries one input. Returns 0; aborts when a promise is broken.
// libFuzzer gives the name. NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
