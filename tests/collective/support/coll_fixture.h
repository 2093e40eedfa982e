// SPDX-License-Identifier: MIT OR Apache-2.0
// N ranks in one process: a group, its members over one memory each, and calls on all of them.
#ifndef KILN_TESTS_COLLECTIVE_COLL_FIXTURE_H
#define KILN_TESTS_COLLECTIVE_COLL_FIXTURE_H

#include "coll_algorithms.h"
#include "coll_delayed.h"

enum { FIXTURE_RANKS = 17 };

typedef struct fixture {
    kiln_env env;
    uint32_t ranks;
    kiln_coll_group *group;
    kiln_coll_memory *memory[FIXTURE_RANKS];
    kiln_coll_member *members[FIXTURE_RANKS];
    kiln_coll_hub *hub; ///< with delays: under the transports
    delayed_transport transports[FIXTURE_RANKS];
} fixture;

/// Groups have nodes where the ranks allow: of two where they are even, else of three.
kilni_coll_extent fixture_extent(uint32_t ranks);

/// Makes group and members on memories of the host; fails the test when it cannot. With `memories`
/// not NULL these are used instead and stay the caller's.
bool fixture_init(fixture *fix, uint32_t ranks, uint64_t deadline_ms,
                  kiln_coll_memory *const *memories);
/// The same over a transport with delays of up to `delay_us` and no shared memory.
bool fixture_init_delayed(fixture *fix, uint32_t ranks, uint64_t deadline_ms, uint32_t delay_us,
                          kiln_coll_memory *const *memories);
/// The same with messages in pieces of `chunk_bytes`; 0: the default.
bool fixture_init_cut(fixture *fix, uint32_t ranks, uint64_t deadline_ms, uint32_t delay_us,
                      kiln_coll_memory *const *memories, uint64_t chunk_bytes);
void fixture_fini(fixture *fix);

/// Starts `calls[rank]` on every rank from this thread, then waits for all. `out_status` and
/// `out_errors` have an entry per rank; `out_errors` may be NULL.
void fixture_run(fixture *fix, const kiln_coll_call *calls, kiln_status *out_status,
                 kiln_error *out_errors);

#endif
