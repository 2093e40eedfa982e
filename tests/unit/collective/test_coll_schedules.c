// SPDX-License-Identifier: MIT OR Apache-2.0
// Every algorithm's schedules, as data, for 1 to 64 ranks: sends and receives pair up in order and
// length, steps stay inside their slots, nothing is written that is still on its way.
#include "coll_algorithms.h"
#include "harness.h"

enum { MOST = 64 };

/// Nodes for the algorithms that know of them: the smallest divisor.
static uint32_t node_of(uint32_t ranks)
{
    uint32_t node = 2;
    while (node < ranks && ranks % node != 0) {
        node++;
    }
    return node;
}

static void make(kiln_arena *arena, kiln_coll_algorithm algorithm, uint32_t ranks, uint32_t rank,
                 uint64_t count, bool is_wide, kilni_coll_schedule *out_schedule)
{
    kilni_coll_shape shape = {.rank = rank,
                              .ranks = ranks,
                              .root = ranks / 2,
                              .node = node_of(ranks),
                              .count = count,
                              .is_wide = is_wide,
                              .is_mean = true};
    *out_schedule = (kilni_coll_schedule){.arena = arena};
    kilni_coll_init_of(algorithm)(out_schedule, &shape);
}

/// The n-th step of a kind towards a peer; NULL past the last.
static const kilni_coll_step *nth(const kilni_coll_schedule *schedule, kilni_coll_step_kind kind,
                                  uint32_t peer, size_t n)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        const kilni_coll_step *step = &schedule->steps[i];
        if (step->kind == kind && step->peer == peer && n-- == 0) {
            return step;
        }
    }
    return NULL;
}

static bool pairs_up(const kilni_coll_schedule *schedules, uint32_t from, uint32_t to)
{
    for (size_t n = 0;; n++) {
        const kilni_coll_step *sent = nth(&schedules[from], STEP_SEND, to, n);
        const kilni_coll_step *received = nth(&schedules[to], STEP_RECEIVE, from, n);
        if (sent == NULL || received == NULL) {
            return sent == NULL && received == NULL;
        }
        if (sent->count != received->count || sent->count == 0 || from == to) {
            return false;
        }
    }
}

static uint64_t slot_limit(const kiln_coll_algorithm_info *row, kilni_coll_slot slot,
                           uint64_t count, uint32_t ranks)
{
    const kiln_coll_kind kind = row->kind;
    bool all_to_all = kind == KILN_COLL_ALL_TO_ALL;
    bool gathers = ((kind == KILN_COLL_ALL_GATHER || kind == KILN_COLL_GATHER || all_to_all) &&
                    slot == SLOT_OUTPUT) ||
                   ((kind == KILN_COLL_SCATTER || all_to_all) && slot == SLOT_INPUT);
    bool scatters = kind == KILN_COLL_REDUCE_SCATTER && slot == SLOT_OUTPUT;
    return gathers ? count * ranks : scatters ? (count + ranks - 1) / ranks : count;
}

static bool overlap(kilni_coll_operand a, uint64_t a_count, kilni_coll_operand b, uint64_t b_count)
{
    return a.slot == b.slot && a.start < b.start + b_count && b.start < a.start + a_count;
}

/// Between a send and the next fence nothing may write what is sent, and the memory itself writes
/// nowhere in the slot, which is mapped.
static bool keeps_sent(const kilni_coll_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        const kilni_coll_step *sent = &schedule->steps[i];
        bool fenced = sent->kind != STEP_SEND;
        for (size_t j = i + 1; j < schedule->step_count && !fenced; j++) {
            const kilni_coll_step *later = &schedule->steps[j];
            fenced = later->kind == STEP_FENCE;
            bool computes = later->kind == STEP_REDUCE || later->kind == STEP_COPY;
            if (!fenced && later->kind != STEP_SEND &&
                (overlap(sent->source, sent->count, later->target, later->count) ||
                 (computes && later->target.slot == sent->source.slot))) {
                return false;
            }
        }
        if (!fenced) {
            return false;
        }
    }
    return true;
}

static void check_algorithm(kiln_coll_algorithm algorithm, uint32_t ranks, uint64_t count,
                            bool is_wide)
{
    const kiln_coll_algorithm_info *row = kiln_coll_algorithm_row(algorithm);
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_arena arena;
    kiln_arena_init(&arena, &env);
    kilni_coll_schedule schedules[MOST];
    bool ok = true;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        make(&arena, algorithm, ranks, rank, count, is_wide, &schedules[rank]);
        ok = ok && !schedules[rank].failed && keeps_sent(&schedules[rank]);
        for (int slot = 0; slot < SLOT_COUNT; slot++) {
            ok = ok && schedules[rank].slot_elems[slot] <=
                           slot_limit(row, (kilni_coll_slot)slot, count, ranks);
        }
        ok = ok && (is_wide || schedules[rank].slot_elems[SLOT_RAW] == 0 ||
                    schedules[rank].slot_elems[SLOT_SCRATCH] == 0 ||
                    algorithm == KILN_COLL_ALL_REDUCE_HIERARCHICAL); // both, one after the other
    }
    for (uint32_t from = 0; ok && from < ranks; from++) {
        for (uint32_t to = 0; to < ranks; to++) {
            ok = ok && pairs_up(schedules, from, to);
        }
    }
    if (!ok) {
        KILN_FAIL("%s %s, %u ranks, %llu elements", kiln_coll_kind_name(row->kind), row->name,
                  ranks, (unsigned long long)count);
    }
    kiln_arena_fini(&arena);
}

/// One message from the sender's input to the receiver's output.
static void test_pairs(void)
{
    static const uint64_t counts[] = {0, 1, 1021};
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_arena arena;
    kiln_arena_init(&arena, &env);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        kilni_coll_schedule both[2] = {{.arena = &arena}, {.arena = &arena}};
        const kilni_coll_shape from = {.rank = 0, .ranks = 2, .root = 1, .count = counts[c]};
        const kilni_coll_shape to = {.rank = 1, .ranks = 2, .root = 0, .count = counts[c]};
        kilni_coll_init_of(KILN_COLL_SEND_DIRECT)(&both[0], &from);
        kilni_coll_init_of(KILN_COLL_RECEIVE_DIRECT)(&both[1], &to);
        KILN_CHECK(pairs_up(both, 0, 1) && pairs_up(both, 1, 0) && keeps_sent(&both[0]));
        KILN_CHECK(both[0].slot_elems[SLOT_INPUT] == counts[c]);
        KILN_CHECK(both[1].slot_elems[SLOT_OUTPUT] == counts[c]);
    }
    kiln_arena_fini(&arena);
}

static void test_all(void)
{
    for (int a = 1; a < KILN_COLL_SEND_DIRECT; a++) { // what all ranks do
        for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
            const uint64_t counts[] = {0, 1, ranks - 1, ranks, ranks + 1, 1021};
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                if (kilni_coll_fits((kiln_coll_algorithm)a,
                                    (kilni_coll_extent){ranks, node_of(ranks)})) {
                    check_algorithm((kiln_coll_algorithm)a, ranks, counts[c], c % 2 == 0);
                }
            }
        }
    }
}

KILN_TEST_MAIN("unit/collective/schedules", KILN_TEST(test_all), KILN_TEST(test_pairs))
