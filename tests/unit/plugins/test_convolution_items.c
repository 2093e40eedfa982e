// SPDX-License-Identifier: MIT OR Apache-2.0
// Regions of convolutions of f16 and bf16 on devices of many small work-items, through the C ABI.
// Numbers are small and whole, so that sums are exact in any order and results are the same to the
// last bit; where they are not, as behind a mean, one rounding is allowed. The cases `_tensor` run
// on tensor cores, on a device that has them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ir.h"
#include "mini_host.h"

typedef struct variant {
    uint32_t dtype;
    bool on_tensor;
} variant;

/// A net in the making. What is computed here in double stands beside each tensor.
typedef struct net {
    mini_host *mini;
    uint32_t dtype;
    uint32_t noise;
    double *exact[MINI_MAX_TENSORS];
} net;

typedef struct window {
    int64_t lengths[2];
    int64_t strides[2];
    int64_t dilations[2];
    int64_t padding[4];
} window;

static const window point = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}};
static const window near = {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};

// ---- numbers ----

static double rounded(const net *n, double x)
{
    return n->dtype == KF_DTYPE_BF16 ? (double)kiln_bf16_to_f32(kiln_f32_to_bf16((float)x))
                                     : (double)kiln_f16_to_f32(kiln_f32_to_f16((float)x));
}

static uint16_t bits_of(const net *n, double x)
{
    return n->dtype == KF_DTYPE_BF16 ? kiln_f32_to_bf16((float)x) : kiln_f32_to_f16((float)x);
}

static double number_of(const net *n, uint16_t bits)
{
    return n->dtype == KF_DTYPE_BF16 ? (double)kiln_bf16_to_f32(bits)
                                     : (double)kiln_f16_to_f32(bits);
}

/// -1, 0 or 1; of `every` numbers about one is not 0.
static double next_number(net *n, uint32_t every)
{
    n->noise = n->noise * 1664525u + 1013904223u;
    uint32_t draw = n->noise >> 8;
    return draw % every != 0 ? 0 : draw / every % 2 == 0 ? 1 : -1;
}

// ---- nets ----

static uint32_t add_tensor(net *n, uint32_t rank, const int64_t *extents)
{
    uint32_t id = mini_tensor_add(n->mini, n->dtype, rank, extents);
    n->exact[id] = calloc((size_t)mini_count(n->mini, id) + 1, sizeof(double));
    return id;
}

static uint32_t add_filled(net *n, uint32_t rank, const int64_t *extents, uint32_t every)
{
    uint32_t id = add_tensor(n, rank, extents);
    for (int64_t i = 0; i < mini_count(n->mini, id); i++) {
        n->exact[id][i] = next_number(n, every);
        ((uint16_t *)n->mini->tensors[id].data)[i] = bits_of(n, n->exact[id][i]);
    }
    return id;
}

static uint32_t image(net *n, int64_t count, int64_t channels, int64_t height, int64_t width)
{
    const int64_t extents[] = {count, channels, height, width};
    return add_filled(n, 4, extents, 2);
}

static uint32_t constant(net *n, uint32_t rank, const int64_t *extents, uint32_t every)
{
    uint32_t id = add_filled(n, rank, extents, every);
    n->mini->tensors[id].view.flags |= KF_TENSOR_CONST | KF_TENSOR_EXTERNAL;
    return id;
}

static void add_attr(mini_op *op, kf_attr attr)
{
    op->attrs[op->view.n_attrs++] = attr;
    op->view.attrs = op->attrs;
}

static void add_list(mini_op *op, uint32_t key, const int64_t *list, uint32_t count)
{
    add_attr(op, (kf_attr){.key = key, .type = KF_TYPE_I64S, .count = count, .v.iv = list});
}

static int64_t length_of(int64_t in, const window *w, int axis)
{
    int64_t reach = (w->lengths[axis] - 1) * w->dilations[axis] + 1;
    return (in + w->padding[axis] + w->padding[axis + 2] - reach) / w->strides[axis] + 1;
}

static uint32_t windowed(net *n, uint32_t x, int64_t channels, const window *w)
{
    const int64_t *in = n->mini->tensors[x].extents;
    const int64_t extents[] = {in[0], channels, length_of(in[2], w, 0), length_of(in[3], w, 1)};
    return add_tensor(n, 4, extents);
}

/// The element of the window at a place of the result; -1: outside of the image.
static int64_t element(const int64_t *in, const window *w, int64_t y, int64_t x, int64_t ky,
                       int64_t kx)
{
    y = y * w->strides[0] - w->padding[0] + ky * w->dilations[0];
    x = x * w->strides[1] - w->padding[1] + kx * w->dilations[1];
    return y < 0 || x < 0 || y >= in[2] || x >= in[3] ? -1 : y * in[3] + x;
}

static double product_at(const net *n, uint32_t x, uint32_t weights, const window *w,
                         const int64_t at[4])
{
    const int64_t *in = n->mini->tensors[x].extents;
    double sum = 0;
    for (int64_t c = 0; c < in[1]; c++) {
        for (int64_t ky = 0; ky < w->lengths[0]; ky++) {
            for (int64_t kx = 0; kx < w->lengths[1]; kx++) {
                int64_t place = element(in, w, at[2], at[3], ky, kx);
                int64_t weight = ((at[1] * in[1] + c) * w->lengths[0] + ky) * w->lengths[1] + kx;
                sum += place < 0 ? 0
                                 : n->exact[weights][weight] *
                                       n->exact[x][(at[0] * in[1] + c) * in[2] * in[3] + place];
            }
        }
    }
    return sum;
}

static double largest_at(const net *n, uint32_t x, const window *w, const int64_t at[4])
{
    const int64_t *in = n->mini->tensors[x].extents;
    double best = -INFINITY;
    for (int64_t ky = 0; ky < w->lengths[0]; ky++) {
        for (int64_t kx = 0; kx < w->lengths[1]; kx++) {
            int64_t place = element(in, w, at[2], at[3], ky, kx);
            best = place < 0
                       ? best
                       : fmax(best, n->exact[x][(at[0] * in[1] + at[1]) * in[2] * in[3] + place]);
        }
    }
    return best;
}

/// Goes through the places of a result.
#define FOR_PLACES(extents, at)                                                                    \
    for (int64_t at[5] = {0}; at[0] < (extents)[0]; at[4]++, at[3] = at[4] % (extents)[3],         \
                 at[2] = at[4] / (extents)[3] % (extents)[2],                                      \
                 at[1] = at[4] / (extents)[3] / (extents)[2] % (extents)[1],                       \
                 at[0] = at[4] / (extents)[3] / (extents)[2] / (extents)[1])

static uint32_t conv(net *n, uint32_t x, int64_t filters, const window *w, bool bias)
{
    int64_t channels = n->mini->tensors[x].extents[1];
    const int64_t extents[] = {filters, channels, w->lengths[0], w->lengths[1]};
    int64_t terms = channels * w->lengths[0] * w->lengths[1];
    uint32_t weights = constant(n, 4, extents, (uint32_t)(terms / 3 + 1));
    uint32_t inputs[] = {x, weights, bias ? constant(n, 1, &filters, 2) : 0};
    uint32_t out = windowed(n, x, filters, w);
    mini_op *op = mini_op_add(n->mini, KF_OP_CONV, inputs, bias ? 3 : 2, out);
    add_list(op, KF_ATTR_STRIDES, w->strides, 2);
    add_list(op, KF_ATTR_PADDING, w->padding, 4);
    add_list(op, KF_ATTR_DILATIONS, w->dilations, 2);
    FOR_PLACES(n->mini->tensors[out].extents, at)
    {
        double sum = product_at(n, x, weights, w, at) + (bias ? n->exact[inputs[2]][at[1]] : 0);
        n->exact[out][at[4]] = sum;
    }
    return out;
}

static uint32_t max_pool(net *n, uint32_t x, const window *w)
{
    uint32_t out = windowed(n, x, n->mini->tensors[x].extents[1], w);
    mini_op *op = mini_unary(n->mini, KF_OP_MAX_POOL, x, out);
    add_list(op, KF_ATTR_KERNEL, w->lengths, 2);
    add_list(op, KF_ATTR_STRIDES, w->strides, 2);
    add_list(op, KF_ATTR_PADDING, w->padding, 4);
    FOR_PLACES(n->mini->tensors[out].extents, at)
    {
        n->exact[out][at[4]] = largest_at(n, x, w, at);
    }
    return out;
}

static uint32_t relu(net *n, uint32_t x)
{
    uint32_t out = add_tensor(n, 4, n->mini->tensors[x].extents);
    mini_unary(n->mini, KF_OP_RELU, x, out);
    for (int64_t i = 0; i < mini_count(n->mini, out); i++) {
        n->exact[out][i] = fmax(n->exact[x][i], 0);
    }
    return out;
}

/// `b` is as `a`, a vector of channels, or has one place for all.
static uint32_t binary(net *n, uint32_t kind, uint32_t a, uint32_t b)
{
    const int64_t *all = n->mini->tensors[a].extents;
    uint32_t out = add_tensor(n, 4, all);
    int64_t count = mini_count(n->mini, b), size = all[2] * all[3];
    mini_binary(n->mini, kind, a, b, out);
    for (int64_t i = 0; i < mini_count(n->mini, out); i++) {
        double y = count == mini_count(n->mini, a) ? n->exact[b][i]
                   : count == all[1]               ? n->exact[b][i / size % all[1]]
                                                   : n->exact[b][i / size];
        n->exact[out][i] = kind == KF_OP_ADD ? n->exact[a][i] + y : n->exact[a][i] * y;
    }
    return out;
}

static uint32_t mean(net *n, uint32_t x)
{
    static const int64_t axes[] = {2, 3};
    const int64_t *in = n->mini->tensors[x].extents;
    const int64_t extents[] = {in[0], in[1], 1, 1};
    uint32_t out = add_tensor(n, 4, extents);
    mini_op *op = mini_unary(n->mini, KF_OP_MEAN, x, out);
    add_list(op, KF_ATTR_AXES, axes, 2);
    add_attr(op, (kf_attr){.key = KF_ATTR_KEEPDIMS, .type = KF_TYPE_BOOL, .count = 1, .v.i = 1});
    for (int64_t i = 0; i < mini_count(n->mini, x); i++) {
        n->exact[out][i / (in[2] * in[3])] += n->exact[x][i] / (double)(in[2] * in[3]);
    }
    return out;
}

// ---- runs ----

static bool begin(net *n)
{
    const variant *v = kiln_test_param();
    memset(n, 0, sizeof(*n));
    n->dtype = v->dtype;
    n->noise = 7;
    if (!mini_has_opencl()) {
        return false;
    }
    if (v->on_tensor && !mini_has_wgmma()) {
        kiln_test_skip("the device has no tensor cores of compute capability 9.0");
        mini_opencl_close();
        return false;
    }
    n->mini = mini_open("convolution.so", KF_SHAPE_NDRANGE);
    if (n->mini == NULL) {
        return false;
    }
    n->mini->device.features |= v->on_tensor ? KF_FEATURE_WGMMA : 0;
    n->mini->device.max_group_size = 1024;
    if (!mini_fuser(n->mini)) {
        mini_close(n->mini);
        return false;
    }
    return true;
}

static void forget(net *n)
{
    for (uint32_t i = 0; i < MINI_MAX_TENSORS; i++) {
        free(n->exact[i]);
        n->exact[i] = NULL;
    }
    mini_clear(n->mini);
}

static void end(net *n)
{
    forget(n);
    mini_close(n->mini);
    mini_opencl_close();
}

static void compare(const net *n, uint32_t id, double off)
{
    const mini_tensor *t = &n->mini->tensors[id];
    for (int64_t i = 0; i < mini_count(n->mini, id); i++) {
        double wanted = n->exact[id][i], found = number_of(n, ((const uint16_t *)t->data)[i]);
        if (off == 0 ? found != rounded(n, wanted) : !(fabs(found - wanted) <= off)) {
            KILN_FAIL("tensor %u, element %lld: %g, not %g", id, (long long)i, found, wanted);
            return;
        }
    }
}

/// Drops all that is computed but `result`, runs the net as one block, and compares.
static void check(net *n, uint32_t result, double off)
{
    uint32_t n_ops = n->mini->n_ops;
    for (uint32_t i = 0; i < n_ops; i++) {
        uint32_t made = n->mini->ops[i].outputs[0]->id;
        if (made != result) {
            mini_drop(n->mini, made);
        }
    }
    kf_opt *opt = mini_finish(n->mini);
    if (opt == NULL) {
        KILN_FAIL("declined: %s", n->mini->last_text);
    } else {
        kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
        n->mini->plugin->opt_info(opt, &info);
        KILN_CHECK_INT(info.len, n->mini->n_ops);
        if (KILN_CHECK(mini_run(n->mini, opt))) {
            compare(n, result, off);
        }
        n->mini->plugin->opt_destroy(opt);
    }
    forget(n);
}

// ---- cases ----

static void test_products(void)
{
    static const struct {
        int64_t channels, height, width, filters;
        window window;
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
    net n;
    if (!begin(&n)) {
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t x =
            image(&n, i % 2 == 0 ? 8 : 11, cases[i].channels, cases[i].height, cases[i].width);
        check(&n, conv(&n, x, cases[i].filters, &cases[i].window, cases[i].bias), 0);
    }
    end(&n);
}

/// As residual networks begin and go on: a loose image, a pool, a shortcut with a product in it,
/// one without, and a mean.
static void test_residual(void)
{
    static const window first = {{7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}};
    static const window pool = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}};
    static const window halved = {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}};
    static const window shortcut = {{1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}};
    net n;
    if (!begin(&n)) {
        return;
    }
    uint32_t x = relu(&n, conv(&n, image(&n, 9, 3, 30, 30), 16, &first, true));
    x = max_pool(&n, x, &pool);
    uint32_t y = relu(&n, conv(&n, x, 8, &point, true));
    y = conv(&n, relu(&n, conv(&n, y, 8, &halved, true)), 72, &point, true);
    x = relu(&n, binary(&n, KF_OP_ADD, y, conv(&n, x, 72, &shortcut, true)));
    y = relu(&n, conv(&n, x, 16, &near, false));
    x = relu(&n, binary(&n, KF_OP_ADD, conv(&n, y, 72, &point, true), x));
    check(&n, mean(&n, x), 0);
    end(&n);
}

/// A vector of constants, a gate, and a result that a launch of its own has to compute.
static void test_operators(void)
{
    net n;
    if (!begin(&n)) {
        return;
    }
    const int64_t vector[] = {1, 24, 1, 1};
    uint32_t x = conv(&n, image(&n, 8, 16, 4, 4), 24, &near, true);
    x = binary(&n, KF_OP_MUL, x, constant(&n, 4, vector, 1));
    uint32_t gate = conv(&n, mean(&n, x), 24, &point, true);
    check(&n, relu(&n, binary(&n, KF_OP_MUL, x, gate)), 0.5);
    end(&n);
}

/// Two results, one of which the region goes on with.
static void test_results(void)
{
    net n;
    if (!begin(&n)) {
        return;
    }
    uint32_t first = conv(&n, image(&n, 8, 8, 5, 4), 24, &near, true);
    uint32_t x = relu(&n, first), second = conv(&n, x, 8, &point, true);
    uint32_t y = relu(&n, second);
    mini_drop(n.mini, first);
    mini_drop(n.mini, second);
    kf_opt *opt = mini_finish(n.mini);
    if (KILN_CHECK(opt != NULL)) {
        if (KILN_CHECK(mini_run(n.mini, opt))) {
            compare(&n, x, 0);
            compare(&n, y, 0);
        }
        n.mini->plugin->opt_destroy(opt);
    }
    end(&n);
}

static bool declines(net *n, uint32_t code)
{
    kf_opt *opt = mini_finish(n->mini);
    bool none = KILN_CHECK(opt == NULL) && KILN_CHECK_INT(n->mini->last_code, code);
    if (opt != NULL) {
        n->mini->plugin->opt_destroy(opt);
    }
    forget(n);
    return none;
}

static void test_declines(void)
{
    static const window wide = {{7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}};
    net n;
    if (!begin(&n)) {
        return;
    }
    conv(&n, image(&n, 7, 8, 4, 4), 8, &point, true); // few images
    declines(&n, KF_CODE_COST);
    conv(&n, image(&n, 8, 8, 4, 4), 12, &point, true); // half a piece
    declines(&n, KF_CODE_SHAPE);
    conv(&n, image(&n, 8, 65544, 1, 1), 8, &point, true); // more channels than a place can say
    declines(&n, KF_CODE_SHAPE);
    conv(&n, image(&n, 8, 8, 8, 8), 8, &wide, true); // a large window of whole pieces
    declines(&n, KF_CODE_SHAPE);
    conv(&n, image(&n, 8, 8, 4, 4), 8, &point, false); // weights that are computed
    n.mini->tensors[1].view.flags &= ~KF_TENSOR_CONST;
    declines(&n, KF_CODE_SHAPE);
    n.dtype = KF_DTYPE_F32;
    mini_tensor_add(n.mini, KF_DTYPE_F32, 4, (const int64_t[]){8, 8, 4, 4});
    mini_tensor_add(n.mini, KF_DTYPE_F32, 4, (const int64_t[]){8, 8, 1, 1});
    n.mini->tensors[1].view.flags |= KF_TENSOR_CONST | KF_TENSOR_EXTERNAL;
    mini_tensor_add(n.mini, KF_DTYPE_F32, 4, (const int64_t[]){8, 8, 4, 4});
    mini_binary(n.mini, KF_OP_CONV, 0, 1, 2);
    declines(&n, KF_CODE_SHAPE);
    end(&n);
}

static const variant bf16 = {KF_DTYPE_BF16, false};
static const variant f16 = {KF_DTYPE_F16, false};
static const variant bf16_tensor = {KF_DTYPE_BF16, true};
static const variant f16_tensor = {KF_DTYPE_F16, true};

#define ALL(test, name)                                                                            \
    KILN_TEST_PARAM(test, name "_bf16", &bf16), KILN_TEST_PARAM(test, name "_f16", &f16),          \
        KILN_TEST_PARAM(test, name "_bf16_tensor", &bf16_tensor),                                  \
        KILN_TEST_PARAM(test, name "_f16_tensor", &f16_tensor)

KILN_TEST_MAIN("unit/plugins/convolution_items", ALL(test_products, "products"),
               ALL(test_residual, "residual"), ALL(test_operators, "operators"),
               ALL(test_results, "results"), KILN_TEST_PARAM(test_declines, "declines", &bf16))
