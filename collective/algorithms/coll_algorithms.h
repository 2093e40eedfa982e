// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_ALGORITHMS_H
#define KILN_COLLECTIVE_COLL_ALGORITHMS_H

/// The functions that build schedules, one for each row of algorithms.def, and the choice of a row
/// for a message.

#include "coll_schedule.h"
#include "collective.h"

typedef void (*kilni_coll_init_fn)(kilni_coll_schedule *schedule, const kilni_coll_shape *shape);

#define KILN_COLL_ALGORITHM(kind, id, name, init, min_ranks, constraint, low, high, first, last,   \
                            doc, reference)                                                        \
    void init(kilni_coll_schedule *schedule, const kilni_coll_shape *shape);
#include "algorithms.def"
#undef KILN_COLL_ALGORITHM

kilni_coll_init_fn kilni_coll_init_of(kiln_coll_algorithm algorithm);

/// How many ranks, and how many of them share a node, numbered together; 0: that is not known.
typedef struct kilni_coll_extent {
    uint32_t ranks;
    uint32_t node;
} kilni_coll_extent;

/// True when the algorithm may run on these ranks.
bool kilni_coll_fits(kiln_coll_algorithm algorithm, kilni_coll_extent extent);

/// The algorithm for a message: the first item of `select` that matches, else the first row in
/// range. Errors: KILN_COLL_AUTO when there is none.
kiln_coll_algorithm kilni_coll_choose(const char *select, kiln_coll_kind kind, uint64_t bytes,
                                      kilni_coll_extent extent);

/// Checks the grammar and the names of an override. Errors: INVALID_ARGUMENT with the item.
kiln_status kilni_coll_select_check(const char *select, kiln_error *err);

#endif
