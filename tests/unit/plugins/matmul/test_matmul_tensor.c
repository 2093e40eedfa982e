// SPDX-License-Identifier: MIT OR Apache-2.0
// The matrix product's fusers on NVIDIA's tensor cores, through the C ABI and against the reference
// evaluator, on a device that has them; what they take is asked without one.
#include <math.h>
#include <string.h>

#include "harness.h"
#include "product_cases.h"
#include "product_program.h"

// ---- heads ----

/// A reshape of the last two axes to one.
static uint32_t merged(mini_host *mini, uint32_t x)
{
    int64_t lengths[KF_MAX_RANK];
    const mini_tensor *t = &mini->tensors[x];
    uint32_t rank = t->view.rank - 1;
    memcpy(lengths, t->extents, rank * sizeof(lengths[0]));
    lengths[rank - 1] *= t->extents[rank];
    uint32_t out = mini_tensor_add(mini, t->view.dtype, rank, lengths);
    mini_op *op = mini_unary(mini, KF_OP_RESHAPE, x, out);
    op->attrs[op->view.n_attrs++] = (kf_attr){.key = KF_ATTR_SHAPE,
                                              .type = KF_TYPE_I64S,
                                              .count = rank,
                                              .v = {.iv = mini->tensors[out].extents}};
    return out;
}

/// Heads of attention, which lie one behind the other, as the rows of a product.
static void test_merged(void)
{
    static const int64_t heads[][4] = {
        {2, 70, 3, 32}, {1, 64, 2, 64}, {2, 33, 5, 7}, {3, 20, 4, 1}};
    const product_variant *v = kiln_test_param();
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 8; i++) {
        const int64_t *h = heads[i / 2];
        const int64_t turned[] = {h[1] * h[2] * h[3], h[3], h[1] * h[3], 1};
        mini_clear(mini);
        uint32_t dtype = i % 2 == 0 ? KF_DTYPE_F32 : KF_DTYPE_BF16;
        uint32_t a = product_tensor(mini, dtype, 4, h),
                 b = product_matrix(mini, dtype, h[2] * h[3], 45);
        mini_tensor_place(mini, a, turned, 0, (size_t)(h[0] * turned[0]));
        product_fill(mini, a);
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        uint32_t x = merged(mini, a);
        product_of(mini, x, b, false, false);
        mini_drop(mini, x);
        kf_opt *opt = mini_finish(mini);
        KILN_CHECK_INT(opt != NULL, product_is_plain(v));
        mini->plugin->opt_destroy(opt);
        KILN_CHECK(opt == NULL || product_check(mini));
    }
    product_end(mini);
}

// ---- plans ----

/// Without a device: what the fusers that read the left operand as it lies take, and that nothing
/// but the product is a step where the right one is constant; large tiles of f32 share registers
/// out unevenly. The left operand is dense, turned,
/// constant, negated before, a batch; of 16 bits; made of heads.
static void test_plain_plan(void)
{
    static const char left_alone[] = "the left operand is not read as it lies";
    const product_variant *v = kiln_test_param();
    mini_host *mini = mini_open("nvidia_tensor.so", v->shape);
    if (mini == NULL) {
        return;
    }
    mini->device.features |= KF_FEATURE_WGMMA | v->features;
    for (int i = 0; i < 7 && (i > 0 || mini_fuser_at(mini, v->fuser)); i++) {
        uint32_t dtype = i == 5 ? KF_DTYPE_BF16 : KF_DTYPE_F32;
        bool turned = i == 1, taken = (i == 0 || i > 3) && product_is_plain(v);
        taken = taken && (i == 5 || v->features == 0);
        mini_clear(mini);
        mini->last_text[0] = '\0';
        uint32_t a = i == 4 ? mini_tensor_add(mini, dtype, 3, (const int64_t[]){2, 70, 48})
                            : product_matrix(mini, dtype, turned ? 48 : 70, turned ? 70 : 48);
        if (i == 6) {
            a = product_tensor(mini, dtype, 4, (const int64_t[]){2, 70, 4, 12});
            mini_tensor_place(mini, a, (const int64_t[]){3360, 12, 840, 1}, 0, 6720);
        }
        uint32_t b = product_matrix(mini, dtype, 48, 90), x = i == 6 ? merged(mini, a) : a;
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        mini->tensors[a].view.flags |= i == 2 ? KF_TENSOR_CONST : 0;
        if (i == 3) {
            x = product_like(mini, dtype, a);
            mini_unary(mini, KF_OP_NEG, a, x);
        }
        product_of(mini, x, b, turned, false);
        if (x != a) {
            mini_drop(mini, x);
        }
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        kf_opt *opt = mini_finish(mini);
        KILN_CHECK_INT(opt != NULL, taken);
        if (!taken && strcmp(mini->last_text, left_alone) != 0) {
            KILN_FAIL("%d: %s", i, mini->last_text);
        }
        if (opt != NULL && KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
            bool in_parts = v->fuser == 4; // its counts are cleared once
            bool uneven = v->fuser == 3 && dtype == KF_DTYPE_F32;
            const char *text = program.sources[0]->code.ptr;
            KILN_CHECK((strstr(text, "setmaxnreg") != NULL) == uneven);
            KILN_CHECK_INT(program.n_steps, 1);
            KILN_CHECK_INT(program.n_launches, 2 + in_parts);
            KILN_CHECK_INT(program.n_temps, in_parts ? 3 : 1);
        }
        mini->plugin->opt_destroy(opt);
    }
    mini_close(mini);
}

// ---- convolutions ----

typedef struct conv_case {
    int64_t n, c, h, w, filters, lengths[2];
    int64_t stride, pad, dilation;
    bool constant, biased, residual;
} conv_case;

static void add_list(mini_op *op, uint32_t key, const int64_t *list, uint32_t count)
{
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = key, .type = KF_TYPE_I64S, .count = count, .v = {.iv = list}};
}

static int64_t places(const conv_case *c, int64_t extent, int64_t length)
{
    return (extent + 2 * c->pad - c->dilation * (length - 1) - 1) / c->stride + 1;
}

/// A convolution, and behind it a residual and relu.
static void make_conv(mini_host *mini, const conv_case *c, uint32_t dtype)
{
    static int64_t strides[2], dilations[2], pads[4];
    const int64_t result[] = {c->n, c->filters, places(c, c->h, c->lengths[0]),
                              places(c, c->w, c->lengths[1])};
    uint32_t inputs[3] = {
        product_tensor(mini, dtype, 4, (const int64_t[]){c->n, c->c, c->h, c->w}),
        product_tensor(mini, dtype, 4,
                       (const int64_t[]){c->filters, c->c, c->lengths[0], c->lengths[1]})};
    strides[0] = strides[1] = c->stride;
    dilations[0] = dilations[1] = c->dilation;
    pads[0] = pads[1] = pads[2] = pads[3] = c->pad;
    mini->tensors[inputs[1]].view.flags |= c->constant ? KF_TENSOR_CONST : 0;
    if (c->biased) {
        inputs[2] = product_tensor(mini, dtype, 1, &c->filters);
    }
    uint32_t out = mini_tensor_add(mini, dtype, 4, result);
    mini_op *op = mini_op_add(mini, KF_OP_CONV, inputs, c->biased ? 3 : 2, out);
    add_list(op, KF_ATTR_STRIDES, strides, 2);
    add_list(op, KF_ATTR_PADDING, pads, 4);
    add_list(op, KF_ATTR_DILATIONS, dilations, 2);
    if (c->residual) {
        out = product_then(mini, KF_OP_ADD, out, product_tensor(mini, dtype, 4, result));
        product_then(mini, KF_OP_RELU, out, KF_NONE);
    }
}

static void test_convs(void)
{
    static const conv_case cases[] = {
        {2, 5, 14, 15, 70, {3, 3}, 1, 1, 1, true, true, true},
        {1, 3, 23, 29, 40, {7, 7}, 2, 3, 1, true, true, false},
        {3, 64, 7, 7, 100, {1, 1}, 1, 0, 1, true, false, true},
        {1, 17, 12, 9, 33, {3, 2}, 2, 1, 2, false, true, false},
        {2, 1, 1, 40, 130, {1, 5}, 1, 0, 1, false, false, false},
        {1, 40, 9, 9, 3, {3, 3}, 1, 2, 3, true, true, true},
    };
    static const uint32_t dtypes[] = {KF_DTYPE_F32, KF_DTYPE_F16, KF_DTYPE_BF16};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    product_most_asked = 2;
    for (size_t i = 0; i < 3 * sizeof(cases) / sizeof(cases[0]); i++) {
        mini_clear(mini);
        make_conv(mini, &cases[i / 3], dtypes[i % 3]);
        if (!KILN_CHECK(product_check(mini))) {
            KILN_FAIL("case %zu of dtype %u: %s", i / 3, dtypes[i % 3], mini->last_text);
        }
    }
    product_most_asked = 0;
    product_end(mini);
}

/// Fusers that read a matrix as it lies take no convolutions.
static void test_convs_left(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    make_conv(mini, &(conv_case){2, 5, 14, 15, 70, {3, 3}, 1, 1, 1, true, true, true},
              KF_DTYPE_BF16);
    KILN_CHECK(mini_finish(mini) == NULL);
    KILN_CHECK_INT(mini->last_code, KF_CODE_UNKNOWN_OP);
    product_end(mini);
}

// ---- precision ----

/// A product of small whole numbers, which every precision holds, and of thirds, which tf32 and
/// bf16 round: f32 is left where it is to be strict.
static void test_precision(void)
{
    const product_variant *v = kiln_test_param();
    const double rounded = v->features == KF_FEATURE_ROUND_BF16 ? 1e-2 : 1e-3;
    enum { M = 70, K = 100, N = 90 };
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int thirds = 0; thirds < 2; thirds++) {
        mini_clear(mini);
        uint32_t a = product_matrix(mini, KF_DTYPE_F32, M, K),
                 b = product_matrix(mini, KF_DTYPE_F32, K, N);
        for (int i = 0; i < M * K; i++) {
            ((float *)mini->tensors[a].data)[i] = thirds ? 1.0f / 3 : (float)(i % 7 - 3);
        }
        for (int i = 0; i < K * N; i++) {
            ((float *)mini->tensors[b].data)[i] = thirds ? 1.0f / 3 : (float)(i % 5);
        }
        uint32_t out = product_of(mini, a, b, false, false);
        kf_opt *opt = mini_finish(mini);
        if (v->features == KF_FEATURE_STRICT) {
            KILN_CHECK(opt == NULL && product_is_left(mini));
            continue;
        }
        if (KILN_CHECK(opt != NULL) && KILN_CHECK(mini_run(mini, opt))) {
            const float *got = mini->tensors[out].data;
            double error = fabs((double)got[0] / (K / 9.0) - 1);
            if (thirds) {
                KILN_CHECK(error > rounded / 100 && error < rounded);
            } else if (KILN_CHECK(product_check(mini))) {
                KILN_CHECK(got[0] == (float)(int)got[0]);
            }
            mini->plugin->opt_destroy(opt);
        }
    }
    product_end(mini);
}

static const product_variant tensor_large = {0, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant tensor_parts = {1, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant tensor_small = {2, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant plain_large = {3, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant plain_parts = {4, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant plain_small = {5, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant as_tf32 = {0, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_ROUND_TF32, 0};
static const product_variant plain_tf32 = {5, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_ROUND_TF32, 0};
static const product_variant as_bf16 = {0, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_ROUND_BF16, 0};
static const product_variant strict = {0, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_STRICT, 0};

#define PLAIN(test, name)                                                                          \
    KILN_TEST_PARAM(test, name "_plain", &plain_large),                                            \
        KILN_TEST_PARAM(test, name "_plain_parts", &plain_parts),                                  \
        KILN_TEST_PARAM(test, name "_plain_small", &plain_small)
#define TENSOR(test, name)                                                                         \
    KILN_TEST_PARAM(test, name "_tensor", &tensor_large),                                          \
        KILN_TEST_PARAM(test, name "_tensor_parts", &tensor_parts),                                \
        KILN_TEST_PARAM(test, name "_tensor_small", &tensor_small), PLAIN(test, name)

KILN_TEST_MAIN("unit/plugins/matmul_tensor", TENSOR(product_test_sizes, "sizes"),
               TENSOR(product_test_dtypes, "dtypes"), TENSOR(product_test_turned, "turned"),
               TENSOR(product_test_batches, "batches"), TENSOR(product_test_strides, "strides"),
               TENSOR(product_test_epilogue, "epilogue"), TENSOR(product_test_prologue, "prologue"),
               TENSOR(product_test_constants, "constants"),
               TENSOR(product_test_special_values, "special"),
               TENSOR(product_test_repeats, "repeats"),
               KILN_TEST_PARAM(test_convs, "convs_tensor", &tensor_large),
               KILN_TEST_PARAM(test_convs, "convs_tensor_parts", &tensor_parts),
               KILN_TEST_PARAM(test_convs, "convs_tensor_small", &tensor_small),
               PLAIN(test_convs_left, "convs_left"), TENSOR(product_test_several, "several"),
               TENSOR(test_merged, "merged"), TENSOR(product_test_several_plan, "plan_several"),
               PLAIN(test_plain_plan, "plan"),
               KILN_TEST_PARAM(test_plain_plan, "plan_tf32", &plain_tf32),
               KILN_TEST_PARAM(test_precision, "tensor_tf32", &as_tf32),
               KILN_TEST_PARAM(test_precision, "tensor_bf16", &as_bf16),
               KILN_TEST_PARAM(test_precision, "tensor_strict", &strict))
