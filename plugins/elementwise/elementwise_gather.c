// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements taken by index as addressing: `select` and `gather` of tensors that are in memory. Both
// operands are values of the chain that nothing else knows; the layout walks them along the axes of
// the space, and here their vectors become one. An index below 0 counts from the end, what is still
// outside is clamped, as the operators themselves have it: no index leaves the tensor.
#include "elementwise_internal.h"

static const uint32_t gather_keys[] = {KF_ATTR_AXIS};

static uint32_t axis_of(const kf_op *op, uint32_t *out_axis)
{
    const kf_attr *attr = kf_op_attr(op, KF_ATTR_AXIS);
    int64_t rank = op->inputs[0]->rank, axis = attr == NULL ? 0 : attr->v.i;
    axis = axis < 0 ? axis + rank : axis;
    *out_axis = (uint32_t)axis;
    return axis >= 0 && axis < rank;
}

static uint32_t is_understood(const kf_op *op)
{
    uint32_t axis;
    return kf_op_understood(op, 1, gather_keys, 1) && op->n_inputs == 2 && op->n_outputs == 1 &&
           (op->inputs[1]->dtype == KF_DTYPE_I32 || op->inputs[1]->dtype == KF_DTYPE_I64) &&
           op->inputs[0]->rank == op->outputs[0]->rank && axis_of(op, &axis);
}

/// Do the operands lie along the result's axes: x along all but one, the indices along that one
/// (select), or along all of them (gather)?
static uint32_t lies_along(const kf_op *op)
{
    const kf_tensor *x = op->inputs[0], *indices = op->inputs[1], *out = op->outputs[0];
    uint32_t axis, is_select = op->kind == KF_OP_SELECT, walked = 0;
    if (!axis_of(op, &axis) || indices->rank != (is_select ? 1 : out->rank)) {
        return 0;
    }
    for (uint32_t i = 0; i < out->rank; i++) {
        uint32_t index = is_select ? 0 : i;
        walked = walked || out->dims[i].symbol != 0;
        if ((i != axis && x->dims[i].symbol != out->dims[i].symbol) ||
            ((i == axis || !is_select) && indices->dims[index].symbol != out->dims[i].symbol)) {
            return 0; // a gather may be shorter than x
        }
    }
    return walked;
}

uint32_t ew_gather_admits(const ew_block *block, const kf_chain_device *device, const kf_host *host,
                          const kf_op *op)
{
    uint32_t at = op->position;
    if (!is_understood(op)) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "a gather of a newer kind");
    }
    if (op->inputs[0]->dtype != op->outputs[0]->dtype ||
        !kf_chain_dtype_usable(device, op->inputs[0]->dtype)) {
        return kf_decline(host, KF_CODE_DTYPE, at, "the device does not take %s",
                          kf_dtype_of(op->inputs[0]->dtype).name);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const kf_chain_value *known = kf_chain_known(&block->chain, op->inputs[i]->id);
        if (known != NULL && known->computed) {
            return kf_decline(host, KF_CODE_LAYOUT, at, "a gather of what the block computes");
        }
    }
    if (!lies_along(op)) {
        return kf_decline(host, KF_CODE_SHAPE, at, "a gather of a part");
    }
    if (!kf_chain_has_room(&block->chain, device, op) || block->n_gathers == EW_MAX_GATHERS) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the block is as long as one kernel may be");
    }
    return 1;
}

/// A value that only the gather knows, also when the block reads the tensor otherwise.
static uint32_t add_operand(kf_chain *chain, const kf_tensor *tensor)
{
    uint16_t known = chain->by_id[tensor->id];
    chain->by_id[tensor->id] = 0;
    uint32_t value = kf_chain_add_value(chain, tensor, 0);
    chain->by_id[tensor->id] = known;
    return value;
}

uint32_t ew_gather_record(ew_block *block, const kf_op *op)
{
    kf_chain *chain = &block->chain;
    ew_gather *gather = &block->gathers[block->n_gathers];
    kf_chain_op *own =
        kf_chain_push(chain, NULL, EW_GATHER + block->n_gathers, op->outputs[0]->dtype);
    memset(gather, 0, sizeof(*gather));
    (void)axis_of(op, &gather->axis);
    gather->is_select = op->kind == KF_OP_SELECT;
    gather->x = (uint16_t)add_operand(chain, op->inputs[0]);
    gather->indices = (uint16_t)add_operand(chain, op->inputs[1]);
    chain->values[gather->x].contiguous = 0; // dense, but not along the axes that are walked
    chain->param_bytes += 8 * (op->inputs[0]->rank + 2u);
    own->result = (uint16_t)kf_chain_add_value(chain, op->outputs[0], 1);
    gather->result = own->result;
    block->n_gathers++;
    return own->result;
}

uint32_t ew_gather_of(const ew_block *block, uint32_t value)
{
    for (uint32_t i = 0; i < block->n_gathers; i++) {
        if (block->gathers[i].x == value || block->gathers[i].indices == value) {
            return i;
        }
    }
    return KF_NONE;
}

int ew_gather_axis(const ew_block *block, uint32_t value, uint32_t axis)
{
    const ew_gather *gather = &block->gathers[ew_gather_of(block, value)];
    if (value == gather->indices && gather->is_select) {
        return axis == gather->axis ? 0 : -1;
    }
    return (value == gather->x && axis == gather->axis) ||
                   block->chain.values[value].symbols[axis] == 0
               ? -1
               : (int)axis;
}

const char *ew_gather_name(const ew_block *block, const kf_chain_op *op)
{
    return block->gathers[op->kind - EW_GATHER].is_select ? "select" : "gather";
}

void ew_gather_functions(kf_text *text, const ew_block *block, uint32_t width)
{
    uint64_t written = 0;
    if (block->n_gathers > 0) {
        kf_text_add(text, "static inline idx place_of(long given, long length) {\n"
                          "    const long at = given < 0 ? given + length : given;\n"
                          "    return (idx)clamp(at, 0l, length - 1);\n"
                          "}\n");
    }
    for (uint32_t i = 0; i < block->n_gathers; i++) {
        uint32_t dtype = block->chain.values[block->gathers[i].x].dtype;
        if ((written >> dtype & 1u) == 0) {
            written |= 1ull << dtype;
            kf_ew_template(text,
                           "static inline $T take_$X(__global const $S *p, idx stride, int count) "
                           "{\n"
                           "    return stride == 1 && count == $V ? load_$X(p) : "
                           "part_$X(p, stride, count);\n"
                           "}\n",
                           dtype, width, NULL);
        }
    }
}
