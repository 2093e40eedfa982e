// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of algorithms and the choice among them, with and without an override.
#include <string.h>

#include "coll_algorithms.h"
#include "harness.h"

static void test_table(void)
{
    bool has_kind[KILN_COLL_KIND_COUNT] = {false};
    KILN_CHECK(kiln_coll_algorithm_row(KILN_COLL_AUTO) == NULL);
    KILN_CHECK(kiln_coll_algorithm_row(KILN_COLL_ALGORITHM_COUNT) == NULL);
    KILN_CHECK(kilni_coll_init_of(KILN_COLL_ALGORITHM_COUNT) == NULL);
    for (int a = 1; a < KILN_COLL_ALGORITHM_COUNT; a++) {
        const kiln_coll_algorithm_info *row = kiln_coll_algorithm_row((kiln_coll_algorithm)a);
        has_kind[row->kind] = true;
        KILN_CHECK(row->doc[0] != 0 && row->reference[0] != 0 && row->min_ranks >= 1);
        KILN_CHECK(row->first_ranks <= row->last_ranks);
        KILN_CHECK(row->low_bytes < row->high_bytes);
        KILN_CHECK(kilni_coll_init_of((kiln_coll_algorithm)a) != NULL);
        for (int b = 1; b < a; b++) {
            const kiln_coll_algorithm_info *other = kiln_coll_algorithm_row((kiln_coll_algorithm)b);
            KILN_CHECK(other->kind != row->kind || strcmp(other->name, row->name) != 0);
        }
    }
    KILN_CHECK(memchr(has_kind, false, sizeof(has_kind)) == NULL);
    KILN_CHECK_STR(kiln_coll_kind_name(KILN_COLL_REDUCE_SCATTER), "reduce_scatter");
    KILN_CHECK(kiln_coll_kind_name(KILN_COLL_KIND_COUNT) == NULL);
    for (int op = 0; op < KILN_COLL_OP_COUNT; op++) {
        KILN_CHECK_INT(kiln_coll_op_from_name(kiln_coll_op_name((kiln_coll_op)op)), op);
    }
    KILN_CHECK_INT(kiln_coll_op_from_name("average"), KILN_COLL_OP_COUNT);
}

static void test_default_ranges(void)
{
    for (uint32_t ranks = 1; ranks < 20; ranks++) {
        for (int kind = 0; kind < KILN_COLL_KIND_COUNT; kind++) {
            for (int bit = 0; bit < 40; bit++) {
                kiln_coll_algorithm chosen = kilni_coll_choose(
                    NULL, (kiln_coll_kind)kind, UINT64_C(1) << bit, (kilni_coll_extent){ranks, 0});
                const kiln_coll_algorithm_info *row = kiln_coll_algorithm_row(chosen);
                KILN_CHECK(row != NULL && (int)row->kind == kind);
            }
        }
    }
    KILN_CHECK_INT(kilni_coll_choose(NULL, KILN_COLL_ALL_REDUCE, 65535, (kilni_coll_extent){4, 0}),
                   KILN_COLL_ALL_REDUCE_CENTRALISED);
    KILN_CHECK_INT(kilni_coll_choose("", KILN_COLL_ALL_REDUCE, 65536, (kilni_coll_extent){4, 0}),
                   KILN_COLL_ALL_REDUCE_RING);
}

static void test_override(void)
{
    const char *select = "all_reduce:0-1K:ring,all_reduce:1K-2M:centralised,broadcast:tree";
    KILN_CHECK_INT(kilni_coll_select_check(select, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_coll_choose(select, KILN_COLL_ALL_REDUCE, 0, (kilni_coll_extent){2, 0}),
                   KILN_COLL_ALL_REDUCE_RING);
    KILN_CHECK_INT(kilni_coll_choose(select, KILN_COLL_ALL_REDUCE, 1024, (kilni_coll_extent){2, 0}),
                   KILN_COLL_ALL_REDUCE_CENTRALISED);
    KILN_CHECK_INT(
        kilni_coll_choose(select, KILN_COLL_ALL_REDUCE, 2 << 20, (kilni_coll_extent){2, 0}),
        KILN_COLL_ALL_REDUCE_RING); // the table again
    KILN_CHECK_INT(kilni_coll_choose("all_reduce:centralised", KILN_COLL_ALL_REDUCE, 1 << 30,
                                     (kilni_coll_extent){2, 0}),
                   KILN_COLL_ALL_REDUCE_CENTRALISED);
    KILN_CHECK_INT(kilni_coll_choose("all_reduce:@3-8:tree", KILN_COLL_ALL_REDUCE, 9,
                                     (kilni_coll_extent){8, 0}),
                   KILN_COLL_ALL_REDUCE_TREE);
    KILN_CHECK_INT(kilni_coll_choose("all_reduce:@3-8:tree", KILN_COLL_ALL_REDUCE, 9,
                                     (kilni_coll_extent){9, 0}),
                   KILN_COLL_ALL_REDUCE_DOUBLING);
    KILN_CHECK_INT(kilni_coll_choose("all_reduce:1K-2K@3-:tree4", KILN_COLL_ALL_REDUCE, 1500,
                                     (kilni_coll_extent){99, 0}),
                   KILN_COLL_ALL_REDUCE_TREE4);
    KILN_CHECK_INT(kilni_coll_choose(NULL, KILN_COLL_ALL_REDUCE, 9, (kilni_coll_extent){8, 4}),
                   KILN_COLL_ALL_REDUCE_HIERARCHICAL);
    KILN_CHECK_INT(kilni_coll_choose(NULL, KILN_COLL_ALL_REDUCE, 9, (kilni_coll_extent){8, 3}),
                   KILN_COLL_ALL_REDUCE_DOUBLING); // nodes are not of one size
    KILN_CHECK_INT(kilni_coll_choose("all_gather:doubling", KILN_COLL_ALL_GATHER, 1500,
                                     (kilni_coll_extent){6, 0}),
                   KILN_COLL_ALL_GATHER_RING); // 6 is no power of two
    KILN_CHECK_INT(kilni_coll_choose("all_reduce:5-:centralised", KILN_COLL_ALL_REDUCE, 1 << 30,
                                     (kilni_coll_extent){2, 0}),
                   KILN_COLL_ALL_REDUCE_CENTRALISED);
}

static void test_bad_override(void)
{
    static const char *const wrong[] = {
        "all_reduce",          "all_reduce:",
        "all_reduce:rings",    "sum:ring",
        "all_reduce:1-2:",     ",",
        "all_reduce:ring,",    "all_reduce:2-1:ring",
        "all_reduce:x-1:ring", "all_reduce:1Q-:ring",
        "all_reduce:-5:ring",  "all_reduce:1:2:ring",
        "broadcast:ring",      "all_reduce:9999999999999999999999-:ring",
        "all_reduce:@:ring",   "all_reduce:1-2@4-3:ring",
        "all_reduce:@a-:ring", "all_reduce:1@2:3:ring",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        kiln_error err = KILN_ERROR_INIT;
        if (kilni_coll_select_check(wrong[i], &err) != KILN_STATUS_INVALID_ARGUMENT) {
            KILN_FAIL("'%s' passed", wrong[i]);
        }
        KILN_CHECK_CONTAINS(err.message, "choice of algorithms");
    }
}

KILN_TEST_MAIN("unit/collective/select", KILN_TEST(test_table), KILN_TEST(test_default_ranges),
               KILN_TEST(test_override), KILN_TEST(test_bad_override))
