// SPDX-License-Identifier: MIT OR Apache-2.0
// Quantiles by nearest rank; ratios by the median of pairs and the exact interval around it.
#include <math.h>

#include "base.h"
#include "harness.h"

static void test_quantiles(void)
{
    double samples[] = {5, 1, 4, 2, 3};
    KILN_CHECK(kiln_quantile(samples, 5, 0.5) == 3);
    KILN_CHECK(samples[0] == 1 && samples[4] == 5); // sorted
    KILN_CHECK(kiln_quantile(samples, 5, 0) == 1);
    KILN_CHECK(kiln_quantile(samples, 5, 1) == 5);
    KILN_CHECK(kiln_quantile(samples, 5, 0.9) == 5);
    KILN_CHECK(kiln_quantile(samples, 1, 0.5) == 1);
    KILN_CHECK(kiln_quantile(NULL, 0, 0.5) == 0);
}

static kiln_ratio ratio_of_first(size_t count)
{
    double ratios[30];
    for (size_t i = 0; i < count; i++) {
        ratios[i] = (double)(i * 7 % count + 1); // 1 to count when 7 does not divide it
    }
    return kiln_ratio_of(ratios, count);
}

static void test_median(void)
{
    double two[] = {2, 0.5};
    KILN_CHECK(kiln_ratio_of(NULL, 0).median == 0 && kiln_ratio_of(NULL, 0).count == 0);
    KILN_CHECK(kiln_ratio_of(two, 2).median == 1); // a to b as b to a
    KILN_CHECK(ratio_of_first(9).median == 5);
    KILN_CHECK(fabs(ratio_of_first(10).median - sqrt(30)) < 1e-12);
}

/// Ranks of the ends at 95 %, as tables of the sign test have them.
static void test_interval(void)
{
    static const size_t rows[][2] = {{6, 1},  {8, 1},  {9, 2},  {11, 2}, {12, 3},
                                     {15, 4}, {20, 6}, {24, 7}, {30, 10}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kiln_ratio r = ratio_of_first(rows[i][0]);
        KILN_CHECK_INT(r.count, (int64_t)rows[i][0]);
        KILN_CHECK(r.low == (double)rows[i][1]);
        KILN_CHECK(r.high == (double)(rows[i][0] + 1 - rows[i][1]));
    }
    for (size_t few = 0; few < 6; few++) {
        kiln_ratio r = ratio_of_first(few);
        KILN_CHECK(r.low == 0 && isinf(r.high));
    }
}

KILN_TEST_MAIN("unit/base/statistics", KILN_TEST(test_quantiles), KILN_TEST(test_median),
               KILN_TEST(test_interval))
