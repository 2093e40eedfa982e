// SPDX-License-Identifier: MIT OR Apache-2.0
// Who passes which part round the ring. After ranks - 1 steps every part that began at one rank has
// been at all of them.
#include "coll_patterns.h"

kilni_coll_ring_step kilni_coll_ring_at(uint32_t ranks, uint32_t rank, uint32_t step,
                                        uint32_t shift)
{
    uint32_t first = (rank + shift) % ranks;
    uint32_t back = step % ranks;
    return (kilni_coll_ring_step){
        .next = (rank + 1) % ranks,
        .previous = (rank + ranks - 1) % ranks,
        .send_part = (first + ranks - back) % ranks,
        .receive_part = (first + 2 * ranks - back - 1) % ranks,
    };
}
