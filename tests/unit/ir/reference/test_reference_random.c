// SPDX-License-Identifier: MIT OR Apache-2.0
// The generator against the vectors of its authors, what its numbers look like, and calls that make
// no sense.
#include <math.h>
#include <stdlib.h>

#include "ir_support.h"
#include "reference_internal.h"

static void test_known_answers(void)
{
    // kat_vectors of Random123 1.14, philox4x32 with 10 rounds.
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t words[4];
    } rows[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t words[4];
        kilni_ref_philox(rows[i].key, rows[i].counter, words);
        KILN_CHECK_MEM(words, rows[i].words, sizeof(words));
    }
}

enum { N = 100000 };

/* Runs a random operator of shape [N] with the given parameters. */
static bool draw(kiln_op op, kiln_dtype dtype, kiln_attr a, kiln_attr b, void *out)
{
    const int64_t dims[1] = {N};
    bool bernoulli = op == KILN_OP_RANDOM_BERNOULLI;
    const kiln_attr shape = {KILN_ATTR_I64_LIST, 1, {.ints = dims}};
    const kiln_attr type = {KILN_ATTR_DTYPE, 1, {.i = dtype}};
    const kiln_attr three[7] = {shape, type, a, b, test_i64(7), test_none(), test_none()};
    const kiln_attr two[6] = {shape, type, a, test_i64(7), test_none(), test_none()};
    kiln_tensor_desc desc = {0};
    const kiln_op_record record = {.op = op,
                                   .n_outputs = 1,
                                   .n_attrs = bernoulli ? 6 : 7,
                                   .outputs = &desc,
                                   .attrs = bernoulli ? two : three};
    struct kiln_buffer buffer = {.data = out, .bytes = N * kiln_dtype_size(dtype)};
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_ir_infer(&record, &desc, &err) != KILN_STATUS_OK) {
        return false;
    }
    kiln_view view = kiln_view_dense(&desc, &buffer);
    return kiln_op_info_of(op)->reference(&record, NULL, &view, &err) == KILN_STATUS_OK;
}

/* Mean and variance within four standard errors of what they should be. */
static void check_moments(const double *x, double mean, double variance, double kurtosis)
{
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < N; i++) {
        sum += x[i];
        squares += (x[i] - mean) * (x[i] - mean);
    }
    KILN_CHECK(fabs(sum / N - mean) < 4 * sqrt(variance / N));
    KILN_CHECK(fabs(squares / N - variance) < 4 * variance * sqrt((kurtosis - 1) / N));
}

static double numbers[N];
static int32_t integers[N];

static void test_moments(void)
{
    KILN_CHECK(draw(KILN_OP_RANDOM_UNIFORM, KILN_DTYPE_F64, test_f64(-1), test_f64(3), numbers));
    check_moments(numbers, 1, 16.0 / 12, 1.8);
    KILN_CHECK(draw(KILN_OP_RANDOM_NORMAL, KILN_DTYPE_F64, test_f64(5), test_f64(2), numbers));
    check_moments(numbers, 5, 4, 3);
    int beyond = 0;
    for (int i = 0; i < N; i++) {
        beyond += fabs(numbers[i] - 5) > 4 ? 1 : 0;
    }
    KILN_CHECK(abs(beyond - 4550) < 4 * 67); // 4.55 % beyond two deviations
    KILN_CHECK(draw(KILN_OP_RANDOM_BERNOULLI, KILN_DTYPE_F64, test_f64(0.3), test_none(), numbers));
    check_moments(numbers, 0.3, 0.21, (1 - 3 * 0.21) / 0.21);
}

static void test_integers_are_uniform(void)
{
    int counts[7] = {0};
    double chi = 0;
    KILN_CHECK(draw(KILN_OP_RANDOM_INT, KILN_DTYPE_I32, test_i64(-3), test_i64(3), integers));
    for (int i = 0; i < N; i++) {
        if (integers[i] < -3 || integers[i] > 3) {
            KILN_FAIL("%d is outside", integers[i]);
            return;
        }
        counts[integers[i] + 3]++;
    }
    for (int i = 0; i < 7; i++) {
        double d = counts[i] - N / 7.0;
        chi += d * d / (N / 7.0);
    }
    KILN_CHECK(chi < 22.5); // 0.1 % of six degrees of freedom
}

static void test_refusals(void)
{
    double nan = (double)NAN;
    double inf = (double)INFINITY;
    kiln_dtype f16 = KILN_DTYPE_F16;
    kiln_dtype f32 = KILN_DTYPE_F32;
    KILN_CHECK(!draw(KILN_OP_RANDOM_UNIFORM, f32, test_f64(1), test_f64(0), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_UNIFORM, f32, test_f64(nan), test_f64(0), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_UNIFORM, f32, test_f64(0), test_f64(inf), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_UNIFORM, f32, test_f64(-3e38), test_f64(3e38), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_UNIFORM, f16, test_f64(0), test_f64(1e5), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_INT, KILN_DTYPE_I32, test_i64(2), test_i64(1), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_INT, KILN_DTYPE_I32, test_i64(0), test_f64(1e10), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_INT, KILN_DTYPE_U8, test_i64(-1), test_i64(1), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_NORMAL, f32, test_f64(0), test_f64(-1), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_BERNOULLI, f32, test_f64(1.5), test_none(), numbers));
    KILN_CHECK(!draw(KILN_OP_RANDOM_BERNOULLI, f32, test_f64(nan), test_none(), numbers));
}

KILN_TEST_MAIN("unit/ir/reference_random", KILN_TEST(test_known_answers), KILN_TEST(test_moments),
               KILN_TEST(test_integers_are_uniform), KILN_TEST(test_refusals))
