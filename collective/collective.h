// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_H
#define KILN_COLLECTIVE_H

/// collective: N ranks, each with memory of its own, that combine buffers: all-reduce, reduce,
/// broadcast, all-gather, reduce-scatter, barrier. A rank is a device of this process or of another
/// one; what its memory is, and how bytes travel, reaches this folder through two small tables of
/// functions. An algorithm is data: a pattern (who talks to whom) made into a schedule of sends,
/// receives, reductions and copies. The order in which values are combined depends on the
/// algorithm, the number of ranks and the length only, never on timing: results are the same bits
/// on every rank and in every run.
///
/// All ranks make the same calls in the same order. A rank that is late, leaves, fails or asks for
/// something else than the others poisons the group: every call that has not ended and every later
/// one, on every rank, ends with the same error, which names the rank, the code and the cause,
/// until the group is destroyed. A rank whose part was over before a failure elsewhere returns OK,
/// with a whole result. Nothing waits without a deadline: where a driver or a network does not come
/// back, the calls end all the same, and what they hold is let go when it does.
///
/// collective_algorithm.h: what can be asked; collective_group.h: groups, members and calls. Who
/// brings a memory or a transport of his own reads collective_memory.h and collective_transport.h.

#include "collective_algorithm.h"
#include "collective_group.h"
#include "collective_memory.h"
#include "collective_transport.h"

#endif
