// SPDX-License-Identifier: MIT OR Apache-2.0
// Who talks to whom, for every number of ranks from 1 to 64: every send has its receive, every rank
// is reached, parts cover a length exactly.
#include <string.h>

#include "coll_patterns.h"
#include "harness.h"

enum { MOST = 64 };

static void test_parts(void)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 5, 63, 64, 65, 1000, 4099, UINT64_C(1) << 40};
    for (uint32_t parts = 1; parts <= MOST; parts++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            uint64_t next = 0;
            for (uint32_t i = 0; i < parts; i++) {
                kilni_coll_range range = kilni_coll_part(counts[c], parts, i);
                uint64_t least = counts[c] / parts;
                if (range.start != next || range.count < least || range.count > least + 1) {
                    KILN_FAIL("part %u of %u over %llu", i, parts, (unsigned long long)counts[c]);
                    return;
                }
                next = range.start + range.count;
            }
            KILN_CHECK_INT(next, counts[c]);
        }
    }
}

/// Every part travels from where it began through all ranks, one step at a time.
static void test_ring(void)
{
    for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
        for (uint32_t shift = 0; shift < ranks; shift++) {
            for (uint32_t rank = 0; rank < ranks; rank++) {
                bool seen[MOST] = {false};
                seen[(rank + shift) % ranks] = true;
                for (uint32_t step = 0; step + 1 < ranks; step++) {
                    kilni_coll_ring_step at = kilni_coll_ring_at(ranks, rank, step, shift);
                    kilni_coll_ring_step to = kilni_coll_ring_at(ranks, at.next, step, shift);
                    bool matches = at.next == (rank + 1) % ranks && to.previous == rank &&
                                   to.receive_part == at.send_part && at.receive_part < ranks;
                    if (!matches || !seen[at.send_part] || seen[at.receive_part]) {
                        KILN_FAIL("%u ranks, shift %u, rank %u, step %u", ranks, shift, rank, step);
                        return;
                    }
                    seen[at.receive_part] = true;
                }
                KILN_CHECK(memchr(seen, false, ranks) == NULL);
            }
        }
    }
}

static bool is_child(uint32_t ranks, uint32_t arity, uint32_t root, uint32_t parent, uint32_t rank)
{
    for (uint32_t i = 0; i < arity; i++) {
        if (kilni_coll_tree_child(ranks, arity, root, parent, i) == rank) {
            return true;
        }
    }
    return false;
}

static void test_tree(void)
{
    for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
        for (uint32_t arity = 1; arity <= 5; arity++) {
            for (uint32_t root = 0; root < ranks; root++) {
                uint32_t children = 0;
                for (uint32_t rank = 0; rank < ranks; rank++) {
                    uint32_t parent = kilni_coll_tree_parent(ranks, arity, root, rank);
                    uint32_t steps = 0;
                    KILN_CHECK((parent == UINT32_MAX) == (rank == root));
                    KILN_CHECK(rank == root || is_child(ranks, arity, root, parent, rank));
                    for (uint32_t at = rank; at != root && steps <= ranks; steps++) {
                        at = kilni_coll_tree_parent(ranks, arity, root, at);
                    }
                    KILN_CHECK(steps < ranks || ranks == 1);
                    for (uint32_t i = 0; i <= arity; i++) {
                        uint32_t child = kilni_coll_tree_child(ranks, arity, root, rank, i);
                        children += child != UINT32_MAX;
                        KILN_CHECK(child == UINT32_MAX || child < ranks);
                    }
                }
                KILN_CHECK_INT(children, ranks - 1);
            }
        }
    }
}

/// Follows which ranks' values a rank has combined: in the end each has each once.
static void test_doubling(void)
{
    for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
        uint64_t has[MOST];
        uint64_t all = ranks == 64 ? UINT64_MAX : (UINT64_C(1) << ranks) - 1;
        uint32_t rounds = kilni_coll_doubling_rounds(ranks);
        uint32_t power = 1;
        while (power * 2 <= ranks) {
            power *= 2;
        }
        for (uint32_t rank = 0; rank < ranks; rank++) {
            has[rank] = UINT64_C(1) << rank;
        }
        for (uint32_t round = 0; round < rounds; round++) {
            uint64_t before[MOST];
            bool is_unfold = power < ranks && round + 1 == rounds;
            memcpy(before, has, sizeof(before));
            for (uint32_t rank = 0; rank < ranks; rank++) {
                uint32_t partner = kilni_coll_doubling_partner(ranks, rank, round);
                if (partner == UINT32_MAX) {
                    continue;
                }
                KILN_CHECK(partner < ranks && partner != rank);
                KILN_CHECK_INT(kilni_coll_doubling_partner(ranks, partner, round), rank);
                if (is_unfold) {
                    has[rank] = rank >= power ? before[partner] : before[rank];
                } else {
                    KILN_CHECK_INT(before[rank] & before[partner], 0);
                    has[rank] = before[rank] | before[partner];
                }
            }
        }
        for (uint32_t rank = 0; rank < ranks; rank++) {
            KILN_CHECK(has[rank] == all);
        }
    }
}

/// In each step every rank is the goal of one other and hears from who sends to it; after all steps
/// each has had every other one.
static void test_pairwise(void)
{
    for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            bool seen[MOST] = {false};
            seen[rank] = true;
            for (uint32_t step = 1; step < ranks; step++) {
                kilni_coll_pairwise_step at = kilni_coll_pairwise_at(ranks, rank, step);
                if (at.to >= ranks || seen[at.to] ||
                    kilni_coll_pairwise_at(ranks, at.to, step).from != rank) {
                    KILN_FAIL("%u ranks, rank %u, step %u", ranks, rank, step);
                    return;
                }
                seen[at.to] = true;
            }
            KILN_CHECK(memchr(seen, false, ranks) == NULL);
        }
    }
}

KILN_TEST_MAIN("unit/collective/patterns", KILN_TEST(test_parts), KILN_TEST(test_ring),
               KILN_TEST(test_tree), KILN_TEST(test_doubling), KILN_TEST(test_pairwise))
