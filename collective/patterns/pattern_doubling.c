// SPDX-License-Identifier: MIT OR Apache-2.0
// Recursive doubling for any number of ranks: pairs at distance 1, 2, 4, ... among the largest
// power of two, with a round before and one after for the ranks beyond it.
#include "coll_patterns.h"

static uint32_t power_below(uint32_t ranks)
{
    uint32_t power = 1;
    while (power <= ranks / 2) {
        power *= 2;
    }
    return power;
}

uint32_t kilni_coll_doubling_rounds(uint32_t ranks)
{
    uint32_t power = power_below(ranks);
    uint32_t rounds = power == ranks ? 0 : 2;
    for (; power > 1; power /= 2) {
        rounds++;
    }
    return rounds;
}

uint32_t kilni_coll_doubling_partner(uint32_t ranks, uint32_t rank, uint32_t round)
{
    uint32_t power = power_below(ranks);
    uint32_t beyond = ranks - power;
    uint32_t rounds = kilni_coll_doubling_rounds(ranks);
    if (beyond > 0 && (round == 0 || round + 1 == rounds)) {
        if (rank >= power) {
            return rank - power;
        }
        return rank < beyond ? rank + power : UINT32_MAX;
    }
    uint32_t distance = 1u << (round - (beyond > 0 ? 1 : 0));
    return rank < power ? rank ^ distance : UINT32_MAX;
}
