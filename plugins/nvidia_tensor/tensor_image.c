// SPDX-License-Identifier: MIT OR Apache-2.0
// Convolutions of two axes as products: which are taken, what may follow them, and the text that
// reads an image as a matrix. The lengths of the window are asked for, all other sizes stay open.
#include "nvidia_tensor.h"

enum { MOST_TAPS = 64, MOST_NUMBER = 1024 };

// ---- which are taken ----

/// Element `i` of a list; what is absent is `otherwise`, one number stands for all. -1: too large.
static int32_t list_at(const kf_op *op, uint32_t key, uint32_t i, int32_t otherwise)
{
    const kf_attr *attr = kf_op_attr(op, key);
    if (attr == NULL || (attr->type == KF_TYPE_I64S && attr->count == 0)) {
        return otherwise;
    }
    int64_t value = attr->type == KF_TYPE_I64S ? attr->v.iv[i < attr->count ? i : 0] : attr->v.i;
    return value >= 0 && value <= MOST_NUMBER ? (int32_t)value : -1;
}

static int32_t extent_of(const kf_block *values, const kf_dim *dim)
{
    int64_t value = 0;
    if ((dim->flags & KF_DIM_VALUE) != 0) {
        value = dim->value;
    } else if (values->dim_value(values, dim->symbol, &value) != KF_OK) {
        return 0;
    }
    return value > 0 && value <= MOST_TAPS ? (int32_t)value : 0;
}

static uint32_t read_window(mm_window *window, const kf_block *values, const kf_op *op)
{
    window->is_there = 1;
    for (uint32_t i = 0; i < 2; i++) {
        window->lengths[i] = extent_of(values, &op->inputs[1]->dims[2 + i]);
        window->strides[i] = list_at(op, KF_ATTR_STRIDES, i, 1);
        window->dilations[i] = list_at(op, KF_ATTR_DILATIONS, i, 1);
        window->begin[i] = list_at(op, KF_ATTR_PADDING, i, 0);
        if (window->lengths[i] < 1 || window->strides[i] < 1 || window->dilations[i] < 1 ||
            window->begin[i] < 0) {
            return 0;
        }
    }
    return 1;
}

static uint32_t is_dense(const kf_tensor *t)
{
    return (t->facts & KF_FACT_CONTIGUOUS) != 0;
}

static uint32_t is_done_here(const kf_chain_device *device, const kf_op *op)
{
    const kf_attr *groups = kf_op_attr(op, KF_ATTR_GROUPS);
    uint32_t dtype = op->inputs[0]->dtype;
    return (groups == NULL || groups->v.i == 1) && op->inputs[0]->rank == 4 &&
           op->inputs[1]->rank == 4 && is_dense(op->inputs[0]) && is_dense(op->inputs[1]) &&
           (op->n_inputs < 3 || (is_dense(op->inputs[2]) && op->inputs[2]->rank == 1)) &&
           kf_dtype_of(dtype).kind == KF_KIND_FLOAT && tensor_takes(device, dtype) &&
           kf_chain_dtype_usable(device, dtype) && op->inputs[1]->dtype == dtype &&
           op->outputs[0]->dtype == dtype;
}

/// The bias as an addition behind the product, of a number for each channel.
static void add_bias(mm_block *block, const kf_op *op)
{
    kf_chain *chain = &block->chain;
    uint32_t bias = kf_chain_add_value(chain, op->inputs[2], 0);
    uint32_t sum = kf_chain_add_value(chain, op->outputs[0], 1);
    chain->values[bias].rank = 3;
    chain->values[bias].symbols[1] = chain->values[bias].symbols[2] = 0;
    kf_chain_op *own =
        kf_chain_push(chain, kf_ew_row_of(KF_OP_ADD), KF_OP_ADD, op->outputs[0]->dtype);
    kf_chain_take_input(own, block->result);
    kf_chain_take_input(own, (uint16_t)bias);
    own->result = (uint16_t)sum;
}

static void take_operands(mm_block *block, const kf_op *op)
{
    kf_chain *chain = &block->chain;
    mm_operand *const operands[] = {&block->right, &block->left};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t value = kf_chain_add_value(chain, op->inputs[i], 0);
        *operands[i] = (mm_operand){.source = (uint16_t)value,
                                    .value = (uint16_t)value,
                                    .outer = i == 0 ? 3 : 0, // the last one of places
                                    .inner = i == 0 ? 1 : 3,
                                    .batch = i == 0,
                                    .constant = (uint8_t)mm_is_constant(block, value),
                                    .zero = MM_NO_VALUE};
    }
}

uint32_t tensor_take_conv(mm_block *block, const kf_chain_device *device, const kf_host *host,
                          const kf_block *values, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_STRIDES, KF_ATTR_PADDING, KF_ATTR_DILATIONS,
                                    KF_ATTR_GROUPS};
    kf_chain *chain = &block->chain;
    if (!kf_op_understood(op, 1, keys, 4) || op->n_inputs < 2 || op->n_inputs > 3 ||
        op->n_outputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position, "a newer kind of conv");
    }
    if (!is_done_here(device, op) || op->inputs[0]->id == op->inputs[1]->id) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "not two axes in one group of f16, bf16 or f32, all of them dense");
    }
    if (!kf_chain_has_room(chain, device, op) || !read_window(&block->window, values, op)) {
        return kf_decline(host, KF_CODE_LIMIT, op->position, "a window of more than %d by %d",
                          MOST_TAPS, MOST_TAPS);
    }
    mm_note_constants(block, op);
    take_operands(block, op);
    block->batch = 1;
    block->product = chain->n_ops;
    kf_chain_op *own = kf_chain_push(chain, NULL, KF_OP_MATMUL, op->outputs[0]->dtype);
    kf_chain_take_input(own, block->left.value);
    kf_chain_take_input(own, block->right.value);
    uint32_t output = kf_chain_add_value(chain, op->outputs[0], 1);
    block->result = (uint16_t)output;
    block->has_product = 1;
    if (op->n_inputs == 3) { // the output is what the addition makes
        block->result = (uint16_t)kf_chain_add_inner(chain, output, op->outputs[0]->dtype);
    }
    own->result = block->result;
    if (op->n_inputs == 3) {
        add_bias(block, op);
    }
    return 1;
}

// ---- what may follow ----

uint32_t tensor_may_follow(const mm_block *block, const kf_host *host, const kf_op *op)
{
    const kf_chain_value *result = &block->chain.values[block->result];
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const kf_tensor *t = op->inputs[i];
        uint32_t same = t->rank == result->rank && is_dense(t);
        for (uint32_t k = 0; k < t->rank && same; k++) {
            same = t->dims[k].symbol == result->symbols[k];
        }
        uint32_t flat = t->rank == 0 || t->dims[t->rank - 1].symbol == 0;
        flat = flat && (t->rank < 2 || t->dims[t->rank - 2].symbol == 0);
        const kf_chain_value *known = kf_chain_known(&block->chain, t->id);
        if (!same && !flat && (known == NULL || !known->computed)) {
            return kf_decline(host, KF_CODE_SHAPE, op->position,
                              "an operand differs along the image and is not as the result");
        }
    }
    return 1;
}

// ---- text ----

void tensor_emit_image(kf_text *text, const mm_plan *plan)
{
    const mm_window *w = &plan->block->window;
    uint32_t x = plan->block->right.source;
    uint32_t per_step = MM_PACK_ITEMS / MM_PACK_LINES;
    uint32_t two = kf_dtype_of(plan->block->chain.values[x].dtype).bytes == 2;
    const char *type = two ? "ushort" : "float"; // as it lies there
    const char *pack = !two && tensor_element_bytes(plan) == 2 ? "packed_one" : "";
    kf_text_addf(
        text,
        "    const int place = item %% %u;\n"
        "    const long column = line0 + place;\n"
        "    const int down = (int)(column / e%u_3), right_of = (int)(column - (long)down * "
        "e%u_3);\n"
        "    const int y0 = down * %d - %d, x0 = right_of * %d - %d;\n",
        MM_PACK_LINES, plan->block->result, plan->block->result, w->strides[0], w->begin[0],
        w->strides[1], w->begin[1]);
    kf_text_addf(
        text,
        "    #pragma unroll\n"
        "    for (int q = item / %u; q < %u; q += %u) {\n"
        "        const int term = term0 + q, tap = term %% %d;\n"
        "        const int y = y0 + tap / %d * %d, x = x0 + tap %% %d * %d;\n"
        "        const int there = term < k && column < limit && y >= 0 && y < e%u_2 && x >= "
        "0 && x < e%u_3;\n",
        MM_PACK_LINES, plan->step, per_step, w->lengths[0] * w->lengths[1], w->lengths[1],
        w->dilations[0], w->lengths[1], w->dilations[1], x, x);
    kf_text_addf(
        text,
        "        __global const %s *p = (__global const %s *)from + (there ? ((long)(term / "
        "%d) * e%u_2 + y) * e%u_3 + x : 0);\n"
        "        tile[q * %u + place] = %s(there ? *p : 0);\n"
        "    }\n",
        type, type, w->lengths[0] * w->lengths[1], x, x, MM_PACK_LINES + TENSOR_LINE_PAD, pack);
}
