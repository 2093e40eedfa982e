// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_OVERLAP_H
#define KILN_BENCH_OVERLAP_H

/// What a data-parallel step can hide by its dependencies alone.

#include <stddef.h>

typedef enum bench_overlap_form {
    BENCH_AVERAGED, ///< each gradient is averaged as it comes; the next step waits for all means
    BENCH_SHARDED ///< gradients go to who keeps their state, and values come when they are used
} bench_overlap_form;

/// The longer of computing and sending, to a step that waits for nothing but what it needs, where
/// sending takes `sends` times as long as computing.
double bench_overlap_limit(bench_overlap_form form, size_t layers, double sends);

#endif
