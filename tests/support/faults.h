// SPDX-License-Identifier: MIT OR Apache-2.0
// Fault injection for allocations: an allocator that counts what is alive and fails the k-th
// request, or that and all after it.
//
//     for (size_t k = 1; kiln_faults_next(&faults, k); k++) { ... run with faults.allocator ... }
//
// The loop ends after the first run in which no request failed.
#ifndef KILN_TESTS_SUPPORT_FAULTS_H
#define KILN_TESTS_SUPPORT_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base.h"

typedef struct kiln_faults {
    kiln_allocator allocator; /* hand this to the code under test */
    atomic_size_t requests; /* since the last kiln_faults_next */
    atomic_size_t live; /* allocated and not yet freed */
    atomic_size_t fail_at; /* 1: the first request; 0: none */
    atomic_bool persistent; /* those behind it fail too */
    bool started;
} kiln_faults;

/// Starts without failures. The struct must stay in place while the allocator is in use.
void kiln_faults_init(kiln_faults *faults);

/// Arms the k-th request to fail. False when the run before had fewer than k requests: all are
/// done. Fails the running test when the run before left something allocated.
bool kiln_faults_next(kiln_faults *faults, size_t k);

#endif
