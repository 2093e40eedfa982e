// SPDX-License-Identifier: MIT OR Apache-2.0
// The matrix product's fusers for few rows, through the C ABI and against the reference evaluator.
#include <string.h>

#include "harness.h"
#include "product_cases.h"
#include "product_program.h"

/// Few rows by a matrix in whole vectors and in parts of them, along its columns and along the sum.
static void test_few_rows(void)
{
    static const int64_t sizes[][3] = {{1, 2064, 264}, {3, 1040, 64}, {9, 2064, 264}, {2, 1030, 70},
                                       {1, 5000, 24},  {1, 70, 1030}, {8, 16, 2200}};
    static const uint32_t dtypes[] = {KF_DTYPE_F32, KF_DTYPE_F16, KF_DTYPE_BF16, KF_DTYPE_F64};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 8 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int64_t *s = sizes[i / 8];
        uint32_t dtype = dtypes[i % 4];
        bool turned = i % 8 >= 4;
        if (!product_takes(i, 5)) {
            continue;
        }
        mini_clear(mini);
        uint32_t a = product_matrix(mini, dtype, s[0], s[1]);
        uint32_t b = turned ? product_matrix(mini, dtype, s[2], s[1])
                            : product_matrix(mini, dtype, s[1], s[2]);
        product_of(mini, a, b, false, turned);
        if (!KILN_CHECK(product_check(mini))) {
            KILN_FAIL("case %zu was not taken", i);
        }
    }
    product_end(mini);
}

/// The same bits wherever the matrix begins.
static void test_few_places(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        int64_t m = i < 2 ? 1 : 4, k = 2064, n = 40;
        float first[4 * 40];
        for (int64_t offset = 0; offset < 2; offset++) {
            const int64_t strides[] = {i % 2 == 0 ? n : k, 1};
            mini_clear(mini);
            uint32_t a = product_matrix(mini, KF_DTYPE_F32, m, k);
            uint32_t b = product_matrix(mini, KF_DTYPE_F32, i % 2 == 0 ? k : n, i % 2 == 0 ? n : k);
            mini_tensor_place(mini, b, strides, offset, (size_t)(k * n + 1));
            mini->tensors[b].view.facts |= KF_FACT_CONTIGUOUS;
            for (int64_t e = 0; e < k * n; e++) {
                ((float *)mini->tensors[b].data)[e + offset] = (float)(e % 1013) / 1000.0f;
            }
            uint32_t c = product_of(mini, a, b, false, i % 2 != 0);
            kf_opt *opt = mini_finish(mini);
            if (KILN_CHECK(opt != NULL) && KILN_CHECK(mini_run(mini, opt))) {
                size_t bytes = mini->tensors[c].bytes;
                if (offset == 0) {
                    memcpy(first, mini->tensors[c].data, bytes);
                }
                KILN_CHECK_MEM(mini->tensors[c].data, first, bytes);
            }
            mini->plugin->opt_destroy(opt);
        }
    }
    product_end(mini);
}

static const product_variant few = {3, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant few_parts = {4, KF_SHAPE_NDRANGE, 0, false, 0, 100};

#define FEW(test, name)                                                                            \
    KILN_TEST_PARAM(test, name "_few", &few), KILN_TEST_PARAM(test, name "_few_parts", &few_parts)

KILN_TEST_MAIN("unit/plugins/matmul_few", FEW(product_test_sizes, "sizes"),
               FEW(product_test_dtypes, "dtypes"), FEW(product_test_turned, "turned"),
               FEW(product_test_batches, "batches"), FEW(product_test_strides, "strides"),
               FEW(product_test_epilogue, "epilogue"), FEW(product_test_prologue, "prologue"),
               FEW(product_test_special_values, "special"), FEW(product_test_repeats, "repeats"),
               FEW(test_few_rows, "rows"), FEW(test_few_places, "places"),
               FEW(product_test_declines, "declines"))
