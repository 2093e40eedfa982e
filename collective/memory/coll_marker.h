// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_MARKER_H
#define KILN_COLLECTIVE_COLL_MARKER_H

/// A wait, with a deadline, for the work of a memory.

#include "collective.h"

/// Waits until all work that `after` stands for has ended. Errors: the work's, DEADLINE_EXCEEDED.
typedef struct kilni_coll_marker kilni_coll_marker;
typedef kiln_status (*kilni_coll_after_fn)(kiln_coll_memory *memory, kiln_coll_done_fn done,
                                           void *user, kiln_error *err);
kiln_status kilni_coll_marker_set(const kiln_env *env, kiln_coll_memory *memory,
                                  kilni_coll_after_fn after, kilni_coll_marker **out_marker,
                                  kiln_error *err);
kiln_status kilni_coll_marker_wait(kilni_coll_marker *marker, uint64_t deadline_ns,
                                   kiln_error *err);

#endif
