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

/// A work-item has `each` rows of the result. What is outside of the image never wins, so each axis
/// of a window is cut where it begins: `part_of`. Between the columns whose windows are cut on the
/// left or on the right, eight at a time where they are next to each other or every second one.
const char fuser_source[] =
    "typedef struct axis { int taps, step, pad, apart, size; } axis;\n"
    "typedef struct part { int from, to; } part;\n"
    "part part_of(axis x, int i) {\n"
    "    int first = i * x.step - x.pad, a = 0, end = x.taps;\n"
    "    while (a < end && first + a * x.apart < 0) {\n"
    "        a++;\n"
    "    }\n"
    "    while (end > a && first + (end - 1) * x.apart >= x.size) {\n"
    "        end--;\n"
    "    }\n"
    "    part p = {a, end};\n"
    "    return p;\n"
    "}\n"
    "float one(__global const float *image, axis down, axis along, part a, part b, int p, int q) "
    "{\n"
    "    float best = -INFINITY;\n"
    "    for (int i = a.from; i < a.to; i++) {\n"
    "        __global const float *line = image + (long)(p + i * down.apart) * along.size + q;\n"
    "        for (int k = b.from; k < b.to; k++) {\n"
    "            float v = line[k * along.apart];\n"
    "            best = v > best || isnan(v) ? v : best;\n"
    "        }\n"
    "    }\n"
    "    return best < 0.0f ? 0.0f : best;\n"
    "}\n"
    "float8 eight(__global const float *image, axis down, axis along, part a, int p, int q) {\n"
    "    float8 best = -INFINITY;\n"
    "    for (int i = a.from; i < a.to; i++) {\n"
    "        __global const float *line = image + (long)(p + i * down.apart) * along.size + q;\n"
    "        for (int k = 0; k < along.taps; k++, line += along.apart) {\n"
    "            float8 v = along.step == 1 ? vload8(0, line) : vload16(0, line).even;\n"
    "            best = select(best, v, v > best | isnan(v));\n"
    "        }\n"
    "    }\n"
    "    return select(best, (float8)(0.0f), best < 0.0f);\n"
    "}\n"
    "__kernel void pool(__global const float *x, __global float *restrict y, long h, long w,\n"
    "                   long rows, long row, long all, long each, long taps, long steps,\n"
    "                   long pads, long dilations) {\n"
    "    axis down = {taps >> 32, steps >> 32, pads >> 32, dilations >> 32, h};\n"
    "    axis along = {(int)taps, (int)steps, (int)pads, (int)dilations, w};\n"
    "    int begin = 0, end = 0; // of the columns that are done by eights\n"
    "    if (row >= 16 && along.step <= 2) {\n"
    "        int reach = (along.taps - 1) * along.apart - along.pad + 8 * along.step;\n"
    "        begin = min((along.pad + along.step - 1) / along.step, (int)row);\n"
    "        end = max(begin, min((int)row, (int)(w - reach) / along.step + 8));\n"
    "        end = w < reach ? begin : begin + (end - begin) / 8 * 8;\n"
    "    }\n"
    "    long last = min((get_global_id(0) + 1) * each, (ulong)all);\n"
    "    long n = get_global_id(0) * each;\n"
    "    part only = part_of(along, 0); // the column of a picture that has one\n"
    "    for (long plane = n / rows, i = n % rows; n < last; n++) {\n"
    "        __global const float *image = x + plane * h * w;\n"
    "        __global float *out = y + n * row;\n"
    "        part a = part_of(down, i);\n"
    "        int p = i * down.step - down.pad;\n"
    "        if (row == 1) {\n"
    "            out[0] = one(image, down, along, a, only, p, -along.pad);\n"
    "        }\n"
    "        for (int j = begin; j < end; j += 8) {\n"
    "            vstore8(eight(image, down, along, a, p, j * along.step - along.pad), 0, out + "
    "j);\n"
    "        }\n"
    "        for (int j = begin > 0 || end == 0 ? 0 : end; j < row && row > 1; j++) {\n"
    "            int q = j * along.step - along.pad;\n"
    "            out[j] = one(image, down, along, a, part_of(along, j), p, q);\n"
    "            j = j + 1 == begin ? end - 1 : j;\n"
    "        }\n"
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
    // For each element of a window some comparisons, and for each row of the result the beginnings
    // and ends of its loops, which are all that an image of one column has.
    kf_formula_product(&s->flops, b->result.symbols, 4);
    kf_formula_imm_op(&s->flops, 16, KF_INS_MUL);
    kf_formula_product(&s->flops, b->result.symbols, 3);
    kf_formula_imm_op(&s->flops, 200, KF_INS_MUL);
    kf_formula_op(&s->flops, KF_INS_ADD);
    kf_formula_imm_op(&s->flops, area(b), KF_INS_MUL);
}
