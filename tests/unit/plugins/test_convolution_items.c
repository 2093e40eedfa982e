// SPDX-License-Identifier: MIT OR Apache-2.0
// Regions of convolutions of f16 and bf16 on devices of many small work-items, through the C ABI.
// Results are the same to the last bit; where they are no whole numbers, as behind a mean, one
// rounding is allowed. The cases `_tensor` run on tensor cores, on a device that has them.
#include "harness.h"
#include "image_net.h"

// ---- cases ----

static void test_products(void)
{
    static const struct {
        int64_t channels, height, width, filters;
        net_window window;
        bool bias;
    } cases[] = {
        {64, 4, 4, 64, {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}, true},
        {8, 5, 3, 72, {{1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}}, false},
        {24, 7, 5, 40, {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, true},
        {64, 6, 6, 136, {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}, true},
        {72, 5, 6, 8, {{3, 2}, {1, 2}, {2, 1}, {2, 0, 1, 1}}, false},
        {3, 14, 15, 64, {{7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}}, true},
        {1, 6, 6, 8, {{3, 3}, {1, 1}, {1, 1}, {0, 1, 2, 1}}, false},
        {16, 9, 8, 16, {{5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}}, true},
    };
    image_net n;
    if (!net_begin(&n)) {
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t x =
            net_image(&n, i % 2 == 0 ? 8 : 11, cases[i].channels, cases[i].height, cases[i].width);
        net_check(&n, net_conv(&n, x, cases[i].filters, &cases[i].window, cases[i].bias), 0);
    }
    net_end(&n);
}

/// As residual networks begin and go on: a loose image, a pool, a shortcut with a product in it,
/// one without, and a mean.
static void test_residual(void)
{
    static const net_window first = {{7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}};
    static const net_window pool = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}};
    static const net_window halved = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}};
    static const net_window shortcut = {{1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}};
    image_net n;
    if (!net_begin(&n)) {
        return;
    }
    uint32_t x = net_relu(&n, net_conv(&n, net_image(&n, 9, 3, 30, 30), 16, &first, true));
    x = net_max_pool(&n, x, &pool);
    uint32_t y = net_relu(&n, net_conv(&n, x, 8, &net_point, true));
    y = net_conv(&n, net_relu(&n, net_conv(&n, y, 8, &halved, true)), 72, &net_point, true);
    x = net_relu(&n, net_binary(&n, KF_OP_ADD, y, net_conv(&n, x, 72, &shortcut, true)));
    y = net_relu(&n, net_conv(&n, x, 16, &net_near, false));
    x = net_relu(&n, net_binary(&n, KF_OP_ADD, net_conv(&n, y, 72, &net_point, true), x));
    net_check(&n, net_mean(&n, x), 0);
    net_end(&n);
}

/// A vector of constants, a gate, and a result that a launch of its own has to compute.
static void test_operators(void)
{
    image_net n;
    if (!net_begin(&n)) {
        return;
    }
    const int64_t vector[] = {1, 24, 1, 1};
    uint32_t x = net_conv(&n, net_image(&n, 8, 16, 4, 4), 24, &net_near, true);
    x = net_binary(&n, KF_OP_MUL, x, net_constant(&n, 4, vector, 1));
    uint32_t gate = net_conv(&n, net_mean(&n, x), 24, &net_point, true);
    net_check(&n, net_relu(&n, net_binary(&n, KF_OP_MUL, x, gate)), 0.5);
    net_end(&n);
}

/// Two results, one of which the region goes on with.
static void test_results(void)
{
    image_net n;
    if (!net_begin(&n)) {
        return;
    }
    uint32_t first = net_conv(&n, net_image(&n, 8, 8, 5, 4), 24, &net_near, true);
    uint32_t x = net_relu(&n, first), second = net_conv(&n, x, 8, &net_point, true);
    uint32_t y = net_relu(&n, second);
    mini_drop(n.mini, first);
    mini_drop(n.mini, second);
    kf_opt *opt = mini_finish(n.mini);
    if (KILN_CHECK(opt != NULL)) {
        if (KILN_CHECK(mini_run(n.mini, opt))) {
            net_compare(&n, x, 0);
            net_compare(&n, y, 0);
        }
        n.mini->plugin->opt_destroy(opt);
    }
    net_end(&n);
}

static bool declines(image_net *n, uint32_t code)
{
    kf_opt *opt = mini_finish(n->mini);
    bool none = KILN_CHECK(opt == NULL) && KILN_CHECK_INT(n->mini->last_code, code);
    if (opt != NULL) {
        n->mini->plugin->opt_destroy(opt);
    }
    net_forget(n);
    return none;
}

static void test_declines(void)
{
    static const net_window wide = {{7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}};
    image_net n;
    if (!net_begin(&n)) {
        return;
    }
    net_conv(&n, net_image(&n, 7, 8, 4, 4), 8, &net_point, true); // few images
    declines(&n, KF_CODE_COST);
    net_conv(&n, net_image(&n, 8, 8, 4, 4), 12, &net_point, true); // half a piece
    declines(&n, KF_CODE_SHAPE);
    net_conv(&n, net_image(&n, 8, 65544, 1, 1), 8, &net_point, true); // a place ends before
    declines(&n, KF_CODE_SHAPE);
    net_conv(&n, net_image(&n, 8, 8, 8, 8), 8, &wide, true); // a large window of whole pieces
    declines(&n, KF_CODE_SHAPE);
    net_conv(&n, net_image(&n, 8, 8, 4, 4), 8, &net_point, false); // weights that are computed
    n.mini->tensors[1].view.flags &= ~KF_TENSOR_CONST;
    declines(&n, KF_CODE_SHAPE);
    n.dtype = KF_DTYPE_F32;
    mini_tensor_add(n.mini, KF_DTYPE_F32, 4, (const int64_t[]){8, 8, 4, 4});
    mini_tensor_add(n.mini, KF_DTYPE_F32, 4, (const int64_t[]){8, 8, 1, 1});
    n.mini->tensors[1].view.flags |= KF_TENSOR_CONST | KF_TENSOR_EXTERNAL;
    mini_tensor_add(n.mini, KF_DTYPE_F32, 4, (const int64_t[]){8, 8, 4, 4});
    mini_binary(n.mini, KF_OP_CONV, 0, 1, 2);
    declines(&n, KF_CODE_SHAPE);
    net_end(&n);
}

static const net_variant bf16 = {KF_DTYPE_BF16, false};
static const net_variant f16 = {KF_DTYPE_F16, false};
static const net_variant bf16_tensor = {KF_DTYPE_BF16, true};
static const net_variant f16_tensor = {KF_DTYPE_F16, true};

#define ALL(test, name)                                                                            \
    KILN_TEST_PARAM(test, name "_bf16", &bf16), KILN_TEST_PARAM(test, name "_f16", &f16),          \
        KILN_TEST_PARAM(test, name "_bf16_tensor", &bf16_tensor),                                  \
        KILN_TEST_PARAM(test, name "_f16_tensor", &f16_tensor)

KILN_TEST_MAIN("unit/plugins/convolution_items", ALL(test_products, "products"),
               ALL(test_residual, "residual"), ALL(test_operators, "operators"),
               ALL(test_results, "results"), KILN_TEST_PARAM(test_declines, "declines", &bf16))
