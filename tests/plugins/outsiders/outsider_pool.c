// SPDX-License-Identifier: MIT OR Apache-2.0
// max_pool of [n,c,h,w], then relu, in one kernel: the template in C with its attributes. Built
// outside of the tree by outsiders.py.
#include "abi.h"

const uint32_t fuser_ops[] = {KF_OP_MAX_POOL, KF_OP_RELU};
const uint32_t fuser_n_ops = 2;
const uint32_t fuser_attrs[] = {KF_ATTR_KERNEL, KF_ATTR_STRIDES, KF_ATTR_PADDING, KF_ATTR_DILATIONS,
                                KF_ATTR_CEIL_MODE};
const uint32_t fuser_n_attrs = 5;

uint32_t fuser_fits(const kf_host *host, const block *b, uint32_t n, const kf_op *op)
{
    (void)b;
    (void)n;
    return op->inputs[0]->rank == 4 || kf_decline(host, KF_CODE_SHAPE, op->position, "only images");
}

/// A work-item has `each` rows of the result, and takes one element of the window after the other.
/// What is outside of the image never wins.
const char fuser_source[] =
    "void one_row(__global const float *image, __global float *restrict out, long h, long w, int "
    "i,\n"
    "             int width, long window, long step, long pads, long dilations) {\n"
    "    int kh = window >> 32, kw = (int)window, sh = step >> 32, sw = (int)step;\n"
    "    int ph = pads >> 32, pw = (int)pads, dh = dilations >> 32, dw = (int)dilations;\n"
    "    for (int j = 0; j < width; j++) {\n"
    "        out[j] = -INFINITY;\n"
    "    }\n"
    "    for (int a = 0; a < kh; a++) {\n"
    "        int p = i * sh - ph + a * dh;\n"
    "        for (int b = 0; b < kw && p >= 0 && p < h; b++) {\n"
    "            int shift = b * dw - pw;\n"
    "            int first = shift < 0 ? (-shift + sw - 1) / sw : 0;\n"
    "            int end = width;\n"
    "            if ((width - 1) * sw + shift >= w) {\n"
    "                end = shift < w ? (w - shift + sw - 1) / sw : 0;\n"
    "            }\n"
    "            __global const float *from = image + p * w + shift;\n"
    "            for (int j = first; j < end; j++) {\n"
    "                float v = from[j * sw];\n"
    "                out[j] = v > out[j] || isnan(v) ? v : out[j];\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    for (int j = 0; j < width; j++) {\n"
    "        out[j] = out[j] < 0.0f ? 0.0f : out[j];\n"
    "    }\n"
    "}\n"
    "__kernel void pool(__global const float *x, __global float *restrict y, long h, long w,\n"
    "                   long rows, long row, long all, long each, long window, long step,\n"
    "                   long pads, long dilations) {\n"
    "    long end = min((get_global_id(0) + 1) * each, (ulong)all);\n"
    "    long n = get_global_id(0) * each;\n"
    "    for (long plane = n / rows, i = n % rows; n < end; n++) {\n"
    "        one_row(x + plane * h * w, y + n * row, h, w, i, row, window, step, pads, "
    "dilations);\n"
    "        i++;\n"
    "        plane += i == rows;\n"
    "        i = i == rows ? 0 : i;\n"
    "    }\n"
    "}\n";
const char fuser_kernel[] = "pool";

/// Two numbers of a list as one, both of them `otherwise` where there is no list.
static int64_t pair(const block *b, uint32_t key, int64_t otherwise)
{
    const kept_attr *list = block_attr(b, 0, key);
    return list != NULL && list->count >= 2 ? list->values[0] << 32 | list->values[1]
                                            : otherwise << 32 | otherwise;
}

static int64_t area(const block *b)
{
    const kept_attr *window = block_attr(b, 0, KF_ATTR_KERNEL);
    return window != NULL && window->count == 2 ? window->values[0] * window->values[1] : 1;
}

static void number(sizes *s, int64_t value)
{
    kf_formula_imm(&s->numbers[s->n_numbers++], value);
}

static void extent(sizes *s, uint32_t symbol)
{
    kf_formula_product(&s->numbers[s->n_numbers++], &symbol, 1);
}

void fuser_sizes(const block *b, sizes *s)
{
    int64_t each = b->on_cpu ? 256 : 1;
    extent(s, b->inputs[0].symbols[2]);
    extent(s, b->inputs[0].symbols[3]);
    extent(s, b->result.symbols[2]);
    extent(s, b->result.symbols[3]);
    kf_formula_product(&s->numbers[s->n_numbers++], b->result.symbols, 3);
    number(s, each);
    number(s, pair(b, KF_ATTR_KERNEL, 1));
    number(s, pair(b, KF_ATTR_STRIDES, 1));
    number(s, pair(b, KF_ATTR_PADDING, 0));
    number(s, pair(b, KF_ATTR_DILATIONS, 1));
    kf_formula_product(&s->work_items, b->result.symbols, 3);
    kf_formula_imm_op(&s->work_items, each, KF_INS_CEIL_DIV);
    kf_formula_product(&s->flops, b->result.symbols, 4); // several for each element of a window
    kf_formula_imm_op(&s->flops, 16 * area(b), KF_INS_MUL);
}
