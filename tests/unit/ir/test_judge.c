// SPDX-License-Identifier: MIT OR Apache-2.0
// What a judge says of results: bit for bit where everything is exact, as the table says after one
// operation, and as far as errors are magnified after several; NaN, infinities and the sign of
// zero.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir_support.h"

typedef struct court {
    kiln_env env;
    kiln_ir_graph *graph;
    kiln_judge *judge;
    const void *data[4];
} court;

static bool open(court *c, const char *text, const void *a, const void *b)
{
    kiln_error err = KILN_ERROR_INIT;
    *c = (court){.env = {.allocator = kiln_allocator_default()}, .data = {a, b}};
    if (!KILN_CHECK_INT(kiln_ir_parse(&c->env, text, &c->graph, &err), KILN_STATUS_OK) ||
        !KILN_CHECK_INT(kiln_judge_create(&c->env, c->graph, c->data, &c->judge, &err), 0)) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    return true;
}

static void finish(court *c)
{
    kiln_judge_destroy(c->judge);
    kiln_ir_graph_destroy(c->graph);
}

static bool accepts(court *c, const void *actual)
{
    char text[160] = "";
    bool same = kiln_judge_output(c->judge, 0, actual, NULL, text, sizeof(text));
    KILN_CHECK(same == (text[0] == '\0'));
    return same;
}

static const char chain[] = "input %1: f32[4]\n"
                            "%2: f32[4] = add_scalar(%1: f32[4], value=1.0)\n"
                            "%3: f32[4] = relu(%2: f32[4])\n"
                            "drop(%2: f32[4])\noutput %3\n";

static void test_exact_is_bit_for_bit(void)
{
    const float x[4] = {-3, -1, 0.5f, NAN};
    float y[4] = {0, 0, 1.5f, NAN};
    court c;
    if (open(&c, chain, x, NULL)) {
        KILN_CHECK(accepts(&c, y));
        y[0] = -0.0f; // relu has no sign of zero
        KILN_CHECK(accepts(&c, y));
        y[2] = nextafterf(1.5f, 2);
        KILN_CHECK(!accepts(&c, y));
        y[2] = 1.5f;
        y[3] = 0;
        KILN_CHECK(!accepts(&c, y));
        y[3] = INFINITY;
        KILN_CHECK(!accepts(&c, y));
    }
    finish(&c);
}

static void test_errors_are_magnified(void)
{
    static const char text[] = "input %1: f32[2]\n"
                               "%2: f32[2] = exp(%1: f32[2])\n"
                               "%3: f32[2] = mul_scalar(%2: f32[2], value=1000000.0)\n"
                               "%4: f32[2] = sin(%3: f32[2])\noutput %4\n";
    const float x[2] = {0, 3.0f};
    court c;
    if (open(&c, text, x, NULL)) {
        const float *expected = kiln_judge_value(c.judge, 4);
        float y[2] = {expected[0], expected[1]};
        KILN_CHECK(accepts(&c, y));
        // A unit in the last place of exp(3) is 2 of sin's argument: nothing is known about it.
        y[1] = sinf(expf(3.0f) * 1e6f + 1.5f);
        KILN_CHECK(fabsf(y[1] - expected[1]) > 1e-3f);
        KILN_CHECK(accepts(&c, y));
        y[1] = expected[1];
        y[0] = NAN;
        KILN_CHECK(!accepts(&c, y));
    }
    finish(&c);
}

static void test_errors_are_not_invented(void)
{
    static const char text[] = "input %1: f32[2]\n"
                               "%2: f32[2] = exp(%1: f32[2])\n"
                               "%3: f32[2] = mul_scalar(%2: f32[2], value=2.0)\noutput %3\n";
    const float x[2] = {1, 2};
    court c;
    if (open(&c, text, x, NULL)) {
        const float *expected = kiln_judge_value(c.judge, 3);
        float y[2] = {nextafterf(expected[0], 9), expected[1]};
        KILN_CHECK(accepts(&c, y));
        y[0] = expected[0] * 1.00001f;
        KILN_CHECK(!accepts(&c, y));
    }
    finish(&c);
}

static void test_which_of_two_equals_is_the_largest(void)
{
    static const char text[] = "input %1: f32[3]\n"
                               "%2: f32[3] = exp(%1: f32[3])\n"
                               "%3: i64[] = argmax(%2: f32[3], axis=0, keepdims=false)\n"
                               "output %3\n";
    const float close[3] = {1, nextafterf(1, 2), 0};
    const float far[3] = {1, 2, 0};
    int64_t y = 0;
    court c;
    if (open(&c, text, close, NULL)) {
        KILN_CHECK(accepts(&c, &y)); // 0 or 1: errors decide
        y = 1;
        KILN_CHECK(accepts(&c, &y));
    }
    finish(&c);
    if (open(&c, text, far, NULL)) {
        KILN_CHECK(accepts(&c, &y));
        y = 0;
        KILN_CHECK(!accepts(&c, &y));
    }
    finish(&c);
}

static const char folds[] = "input %1: f32[2,3]\n"
                            "%2: f32[2] = OP(%1: f32[2,3], axes=[1], keepdims=false)\n"
                            "output %2\n";

/* Row 0 is `a, b, c`, row 1 ones. Is any result of row 0 as good as the reference's? */
static bool is_open(const char *op, float a, float b, float c)
{
    const float x[6] = {a, b, c, 1, 1, 1};
    char text[256];
    court k;
    const char *at = strstr(folds, "OP");
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - folds), folds, op, at + 2);
    bool open_row = false;
    if (open(&k, text, x, NULL)) {
        const float *expected = kiln_judge_value(k.judge, 2);
        float y[2] = {isnan(expected[0]) ? 1 : NAN, expected[1]};
        open_row = accepts(&k, y);
        y[1] = NAN;
        KILN_CHECK(!accepts(&k, y)); // of another row all is known
    }
    finish(&k);
    return open_row;
}

static void test_order_decides_what_overflows(void)
{
    KILN_CHECK(is_open("prod", 3e38f, 2, 0)); // inf * 0, or 0
    KILN_CHECK(is_open("prod", 3e38f, 2, 0.25f));
    KILN_CHECK(is_open("prod", 1e-30f, 1e-30f, 1e30f));
    KILN_CHECK(is_open("prod", INFINITY, 1e-30f, 1e-30f));
    KILN_CHECK(!is_open("prod", 3e38f, 2, 2)); // infinite in any order
    KILN_CHECK(!is_open("prod", 1e-30f, 1e-30f, 1)); // 0 in any order
    KILN_CHECK(!is_open("prod", 1e-30f, 1e-30f, 0));
    KILN_CHECK(!is_open("prod", INFINITY, 2, 0));
    KILN_CHECK(!is_open("prod", 1e30f, 2, 0));
    KILN_CHECK(is_open("sum", 3e38f, 3e38f, -3e38f));
    KILN_CHECK(is_open("sum", -3e38f, -3e38f, INFINITY));
    KILN_CHECK(!is_open("sum", 3e38f, 3e38f, 1)); // infinite in any order
    KILN_CHECK(!is_open("sum", 3e38f, -3e38f, 1));
    KILN_CHECK(!is_open("sum", 3e38f, 3e38f, INFINITY));
    KILN_CHECK(!is_open("sum", NAN, 3e38f, 3e38f));
    KILN_CHECK(is_open("mean", 3e38f, 3e38f, 1));
    KILN_CHECK(!is_open("mean", 1e38f, 1e38f, 1));
}

/* A double has no room above the limit of f64. */
static void test_order_in_f64(void)
{
    static const char sum[] = "input %1: f64[1,3]\n"
                              "%2: f64[1] = sum(%1: f64[1,3], axes=[1], keepdims=false)\n"
                              "output %2\n";
    const double infinite[3] = {1.7e308, 1.7e308, 1}, depends[3] = {1.7e308, 1.7e308, -1.7e308};
    const double nothing[1] = {0};
    court k;
    if (open(&k, sum, infinite, NULL)) {
        KILN_CHECK(!accepts(&k, nothing));
    }
    finish(&k);
    if (open(&k, sum, depends, NULL)) {
        KILN_CHECK(accepts(&k, nothing));
    }
    finish(&k);
}

/* What follows from such a result is as unknown as it is, and nothing else is. */
static void test_what_overflows_carries(void)
{
    static const char text[] = "input %1: f32[2,3]\n"
                               "%2: f32[2] = prod(%1: f32[2,3], axes=[1], keepdims=false)\n"
                               "%3: f32[2] = add_scalar(%2: f32[2], value=1.0)\noutput %3\n";
    const float x[6] = {3e38f, 2, 0, 1, 2, 3};
    float y[2] = {NAN, 7};
    court c;
    if (open(&c, text, x, NULL)) {
        KILN_CHECK(accepts(&c, y));
        y[1] = NAN;
        KILN_CHECK(!accepts(&c, y));
        y[1] = 7.5f;
        KILN_CHECK(!accepts(&c, y));
    }
    finish(&c);
}

static void test_integers_beyond_a_double(void)
{
    static const char text[] = "input %1: i64[1]\n"
                               "%2: i64[1] = neg(%1: i64[1])\noutput %2\n";
    const int64_t x = INT64_MAX;
    int64_t y = -INT64_MAX;
    court c;
    if (open(&c, text, &x, NULL)) {
        KILN_CHECK(accepts(&c, &y));
        y++;
        KILN_CHECK(!accepts(&c, &y));
    }
    finish(&c);
}

static void test_another_may_be_wrong_as_well(void)
{
    static const char text[] = "input %1: f32[1]\n%2: f32[1] = sqrt(%1: f32[1])\noutput %2\n";
    const float x = 2;
    char why[160];
    court c;
    if (open(&c, text, &x, NULL)) {
        float low = sqrtf(2), high = sqrtf(2);
        for (int i = 0; i < 3; i++) {
            low = nextafterf(low, 0);
            high = nextafterf(high, 9);
        }
        KILN_CHECK(kiln_judge_output(c.judge, 0, &high, &low, why, sizeof(why)));
        high = sqrtf(2) + 12 * 1.2e-7f;
        KILN_CHECK(!kiln_judge_output(c.judge, 0, &high, &low, why, sizeof(why)));
        KILN_CHECK_CONTAINS(why, "element 0 of 1");
    }
    finish(&c);
}

KILN_TEST_MAIN("unit/ir/judge", KILN_TEST(test_exact_is_bit_for_bit),
               KILN_TEST(test_errors_are_magnified), KILN_TEST(test_errors_are_not_invented),
               KILN_TEST(test_which_of_two_equals_is_the_largest),
               KILN_TEST(test_order_decides_what_overflows), KILN_TEST(test_order_in_f64),
               KILN_TEST(test_what_overflows_carries), KILN_TEST(test_integers_beyond_a_double),
               KILN_TEST(test_another_may_be_wrong_as_well))
