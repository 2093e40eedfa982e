// SPDX-License-Identifier: MIT OR Apache-2.0
// Nets of images through the C ABI, each tensor computed in double as it is added.
#include "image_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ir.h"

const net_window net_point = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}};
const net_window net_near = {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};

// ---- numbers ----

static double rounded(const image_net *n, double x)
{
    return n->dtype == KF_DTYPE_BF16 ? (double)kiln_bf16_to_f32(kiln_f32_to_bf16((float)x))
                                     : (double)kiln_f16_to_f32(kiln_f32_to_f16((float)x));
}

static uint16_t bits_of(const image_net *n, double x)
{
    return n->dtype == KF_DTYPE_BF16 ? kiln_f32_to_bf16((float)x) : kiln_f32_to_f16((float)x);
}

static double number_of(const image_net *n, uint16_t bits)
{
    return n->dtype == KF_DTYPE_BF16 ? (double)kiln_bf16_to_f32(bits)
                                     : (double)kiln_f16_to_f32(bits);
}

/// -1, 0 or 1; of `every` numbers about one is not 0.
static double next_number(image_net *n, uint32_t every)
{
    n->noise = n->noise * 1664525u + 1013904223u;
    uint32_t draw = n->noise >> 8;
    return draw % every != 0 ? 0 : draw / every % 2 == 0 ? 1 : -1;
}

// ---- nets ----

static uint32_t add_tensor(image_net *n, uint32_t rank, const int64_t *extents)
{
    uint32_t id = mini_tensor_add(n->mini, n->dtype, rank, extents);
    n->exact[id] = calloc((size_t)mini_count(n->mini, id) + 1, sizeof(double));
    return id;
}

static uint32_t add_filled(image_net *n, uint32_t rank, const int64_t *extents, uint32_t every)
{
    uint32_t id = add_tensor(n, rank, extents);
    for (int64_t i = 0; i < mini_count(n->mini, id); i++) {
        n->exact[id][i] = next_number(n, every);
        ((uint16_t *)n->mini->tensors[id].data)[i] = bits_of(n, n->exact[id][i]);
    }
    return id;
}

uint32_t net_image(image_net *n, int64_t count, int64_t channels, int64_t height, int64_t width)
{
    const int64_t extents[] = {count, channels, height, width};
    return add_filled(n, 4, extents, 2);
}

uint32_t net_constant(image_net *n, uint32_t rank, const int64_t *extents, uint32_t every)
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

static int64_t length_of(int64_t in, const net_window *w, int axis)
{
    int64_t reach = (w->lengths[axis] - 1) * w->dilations[axis] + 1;
    return (in + w->padding[axis] + w->padding[axis + 2] - reach) / w->strides[axis] + 1;
}

static uint32_t windowed(image_net *n, uint32_t x, int64_t channels, const net_window *w)
{
    const int64_t *in = n->mini->tensors[x].extents;
    const int64_t extents[] = {in[0], channels, length_of(in[2], w, 0), length_of(in[3], w, 1)};
    return add_tensor(n, 4, extents);
}

/// The element of the window at a place of the result; -1: outside of the image.
static int64_t element(const int64_t *in, const net_window *w, int64_t y, int64_t x, int64_t ky,
                       int64_t kx)
{
    y = y * w->strides[0] - w->padding[0] + ky * w->dilations[0];
    x = x * w->strides[1] - w->padding[1] + kx * w->dilations[1];
    return y < 0 || x < 0 || y >= in[2] || x >= in[3] ? -1 : y * in[3] + x;
}

static double product_at(const image_net *n, uint32_t x, uint32_t weights, const net_window *w,
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

static double largest_at(const image_net *n, uint32_t x, const net_window *w, const int64_t at[4])
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

uint32_t net_conv(image_net *n, uint32_t x, int64_t filters, const net_window *w, bool bias)
{
    int64_t channels = n->mini->tensors[x].extents[1];
    const int64_t extents[] = {filters, channels, w->lengths[0], w->lengths[1]};
    int64_t terms = channels * w->lengths[0] * w->lengths[1];
    uint32_t weights = net_constant(n, 4, extents, (uint32_t)(terms / 3 + 1));
    uint32_t inputs[] = {x, weights, bias ? net_constant(n, 1, &filters, 2) : 0};
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

uint32_t net_max_pool(image_net *n, uint32_t x, const net_window *w)
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

uint32_t net_relu(image_net *n, uint32_t x)
{
    uint32_t out = add_tensor(n, 4, n->mini->tensors[x].extents);
    mini_unary(n->mini, KF_OP_RELU, x, out);
    for (int64_t i = 0; i < mini_count(n->mini, out); i++) {
        n->exact[out][i] = fmax(n->exact[x][i], 0);
    }
    return out;
}

uint32_t net_binary(image_net *n, uint32_t kind, uint32_t a, uint32_t b)
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

uint32_t net_mean(image_net *n, uint32_t x)
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

bool net_begin(image_net *n)
{
    const net_variant *v = kiln_test_param();
    memset(n, 0, sizeof(*n));
    n->dtype = v->dtype;
    n->noise = 7;
    if (!mini_has_opencl()) {
        return false;
    }
    if (v->on_tensor && !mini_has_wgmma()) {
        kiln_test_skip("the device has no tensor cores of compute capability 9.0");
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

void net_forget(image_net *n)
{
    for (uint32_t i = 0; i < MINI_MAX_TENSORS; i++) {
        free(n->exact[i]);
        n->exact[i] = NULL;
    }
    mini_clear(n->mini);
}

void net_end(image_net *n)
{
    net_forget(n);
    mini_close(n->mini);
}

void net_compare(const image_net *n, uint32_t id, double off)
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

void net_check(image_net *n, uint32_t result, double off)
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
            net_compare(n, result, off);
        }
        n->mini->plugin->opt_destroy(opt);
    }
    net_forget(n);
}
