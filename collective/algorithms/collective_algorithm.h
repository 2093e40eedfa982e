// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_ALGORITHM_H
#define KILN_COLLECTIVE_ALGORITHM_H

/// What ranks can ask for, and the algorithms that do it: the rows of algorithms.def.
///
/// Any thread may call these functions; what they return is in static storage; they cannot fail. No
/// pointer is NULL unless a function takes it.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_coll_kind {
    KILN_COLL_ALL_REDUCE = 0,
    KILN_COLL_REDUCE = 1,
    KILN_COLL_BROADCAST = 2,
    KILN_COLL_ALL_GATHER = 3,
    KILN_COLL_REDUCE_SCATTER = 4,
    KILN_COLL_BARRIER = 5,
    KILN_COLL_GATHER = 6,
    KILN_COLL_SCATTER = 7,
    KILN_COLL_ALL_TO_ALL = 8,
    KILN_COLL_SEND = 9, ///< between two ranks, of which the others know nothing
    KILN_COLL_RECEIVE = 10,
    KILN_COLL_KIND_COUNT
} kiln_coll_kind;

/// f16 and bf16 are combined in f32 and rounded once. Integers wrap; their mean is the wrapped sum
/// divided towards zero. NaN goes through min and max.
typedef enum kiln_coll_op {
    KILN_COLL_SUM = 0,
    KILN_COLL_MEAN = 1, ///< the sum divided by the number of ranks, or by the call's divisor
    KILN_COLL_MIN = 2,
    KILN_COLL_MAX = 3,
    KILN_COLL_PROD = 4,
    KILN_COLL_OP_COUNT
} kiln_coll_op;

typedef enum kiln_coll_algorithm {
    KILN_COLL_AUTO = 0, ///< chosen by size and ranks
#define KILN_COLL_ALGORITHM(kind, id, name, init, min_ranks, constraint, low, high, first, last,   \
                            doc, reference)                                                        \
    KILN_COLL_##kind##_##id,
#include "algorithms.def"
#undef KILN_COLL_ALGORITHM
    KILN_COLL_ALGORITHM_COUNT
} kiln_coll_algorithm;

/// A row of algorithms.def. `name` is unique within its kind.
typedef struct kiln_coll_algorithm_info {
    kiln_coll_kind kind;
    const char *name;
    uint32_t min_ranks;
    const char *constraint; ///< "" or what the ranks must satisfy
    uint64_t low_bytes; ///< default range of message sizes, [low, high)
    uint64_t high_bytes;
    uint32_t first_ranks; ///< default range of group sizes, [first, last]
    uint32_t last_ranks;
    const char *doc;
    const char *reference;
} kiln_coll_algorithm_info;

/// Name of a kind of call; NULL for a number that is none.
KILN_API const char *kiln_coll_kind_name(kiln_coll_kind kind);

/// Name of a reduction; NULL for a number that is none.
KILN_API const char *kiln_coll_op_name(kiln_coll_op op);

/// The reduction of a name; KILN_COLL_OP_COUNT for a name that is none.
KILN_API kiln_coll_op kiln_coll_op_from_name(const char *name);

/// The row of an algorithm; NULL past the end.
KILN_API const kiln_coll_algorithm_info *kiln_coll_algorithm_row(kiln_coll_algorithm algorithm);

/// Whether an algorithm can run on so many ranks; one that cannot is never chosen.
KILN_API bool kiln_coll_algorithm_fits(kiln_coll_algorithm algorithm, uint32_t ranks,
                                       uint32_t ranks_per_node);

#ifdef __cplusplus
}
#endif
#endif
