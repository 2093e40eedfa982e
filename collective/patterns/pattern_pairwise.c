// SPDX-License-Identifier: MIT OR Apache-2.0
// Pairs at every distance. In steps 1 to ranks - 1 each rank sends to every other one once, and
// receives from every other one once.
#include "coll_patterns.h"

kilni_coll_pairwise_step kilni_coll_pairwise_at(uint32_t ranks, uint32_t rank, uint32_t step)
{
    return (kilni_coll_pairwise_step){.to = (rank + step) % ranks,
                                      .from = (rank + ranks - step) % ranks};
}
