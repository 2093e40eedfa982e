// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations join a block. One block is one kernel over one iteration space: every result has
// the shape of the first one, and every tensor that is read broadcasts to it. Whatever is not
// understood closes the block, with the reason; a drop joins always. How the kernel looks is
// decided later (elementwise_layout.c).
#include "elementwise_internal.h"

void ew_block_init(ew_block *block)
{
    memset(block, 0, offsetof(ew_block, ops));
}

void ew_block_copy(ew_block *to, const ew_block *from)
{
    memcpy(to, from, offsetof(ew_block, ops));
    memcpy(to->ops, from->ops, from->n_ops * sizeof(from->ops[0]));
    memcpy(to->values, from->values, from->n_values * sizeof(from->values[0]));
    memcpy(to->numbers, from->numbers, from->n_numbers * sizeof(from->numbers[0]));
}

static const uint32_t number_keys[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE,
                                       KF_ATTR_DTYPE};
enum { NUMBER_KEYS = sizeof(number_keys) / sizeof(number_keys[0]) };

// ---- checks ------------------------------------------------------------------------------------

static uint32_t dtype_is_usable(const ew_device *device, uint32_t dtype)
{
    return kf_dtype_of(dtype).id != 0 && ((device->dtype_storage >> dtype) & 1u) != 0 &&
           (dtype != KF_DTYPE_F64 || device->has_f64);
}

static uint32_t dtypes_fit(const ew_row *row, const kf_op *op)
{
    uint32_t first = op->inputs[0]->dtype, result = op->outputs[0]->dtype;
    uint32_t masks = row->op == KF_OP_WHERE || row->op == KF_OP_MASK_FILL;
    for (uint32_t i = 1; i < row->inputs; i++) {
        uint32_t is_mask = masks && i == (uint32_t)row->inputs - 1;
        if (op->inputs[i]->dtype != (is_mask ? (uint32_t)KF_DTYPE_BOOL : first)) {
            return 0;
        }
    }
    if (row->result == EW_CAST) {
        const kf_attr *dtype = kf_op_attr(op, KF_ATTR_DTYPE);
        return dtype != NULL && dtype->type == KF_TYPE_DTYPE && dtype->v.i == (int64_t)result;
    }
    return result == (row->result == EW_MASK ? (uint32_t)KF_DTYPE_BOOL : first);
}

/// Does `tensor` broadcast to `space` (right-aligned; symbol 0 is the extent 1)?
static uint32_t broadcasts(const kf_tensor *tensor, const uint32_t *space, uint32_t space_rank)
{
    if (tensor->rank > space_rank) {
        return 0;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint32_t symbol = tensor->dims[i].symbol;
        if (symbol != 0 && symbol != space[space_rank - tensor->rank + i]) {
            return 0;
        }
    }
    return 1;
}

static uint32_t shapes_fit(const ew_block *block, const kf_op *op)
{
    const kf_tensor *out = op->outputs[0];
    uint32_t space[KF_MAX_RANK];
    for (uint32_t i = 0; i < out->rank; i++) {
        space[i] = out->dims[i].symbol;
    }
    if (block->n_ops > 0) {
        const ew_value *value = &block->values[block->space];
        if (value->rank != out->rank ||
            memcmp(value->symbols, space, out->rank * sizeof(space[0])) != 0) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!broadcasts(op->inputs[i], space, out->rank)) {
            return 0;
        }
    }
    return 1;
}

static uint32_t numbers_fit(const ew_row *row, const kf_op *op)
{
    uint32_t want = row->scalars + (row->result == EW_CAST ? 1u : 0u);
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        const kf_attr *attr = &op->attrs[i];
        if (attr->flags & KF_ATTR_FLAG_HINT) {
            continue;
        }
        if (want-- == 0) {
            return 0;
        }
        if (attr->type != KF_TYPE_SCALAR && attr->type != KF_TYPE_F64 &&
            attr->type != KF_TYPE_I64 && attr->type != KF_TYPE_BOOL &&
            attr->type != KF_TYPE_DTYPE) {
            return 0;
        }
    }
    return want == 0 || row->op == KF_OP_LEAKY_RELU;
}

// ---- recording ---------------------------------------------------------------------------------

static const ew_value *value_of(const ew_block *block, uint32_t id)
{
    return id < EW_MAX_IDS && block->by_id[id] != 0 ? &block->values[block->by_id[id] - 1] : NULL;
}

static uint32_t add_value(ew_block *block, const kf_tensor *tensor, uint32_t computed)
{
    const ew_value *known = value_of(block, tensor->id);
    ew_value *value = &block->values[block->n_values];
    if (known != NULL) {
        return (uint32_t)(known - block->values);
    }
    memset(value, 0, sizeof(*value));
    value->id = tensor->id;
    value->dtype = (uint16_t)tensor->dtype;
    value->rank = (uint8_t)tensor->rank;
    value->computed = (uint8_t)computed;
    value->contiguous = computed || (tensor->facts & KF_FACT_CONTIGUOUS) != 0;
    value->zero_offset = computed || (tensor->facts & KF_FACT_ZERO_OFFSET) != 0;
    value->fits_i32 = (tensor->facts & KF_FACT_FITS_I32) != 0;
    value->div_by = (uint16_t)(tensor->div_by == 0 ? 1 : tensor->div_by);
    value->align_log2 = (uint16_t)tensor->align_log2;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        value->symbols[i] = tensor->dims[i].symbol;
    }
    block->param_bytes += 8;
    if (!computed) {
        block->param_bytes += value->zero_offset ? 0 : 8;
        block->param_bytes += value->contiguous ? 0 : 8 * tensor->rank;
    }
    block->by_id[tensor->id] = (uint16_t)(block->n_values + 1);
    return block->n_values++;
}

/// Same number for the same dtype; constants by their bits, so that NaN and -0 are themselves.
static uint32_t same_number(const ew_number *a, const ew_number *b)
{
    return a->is_scalar == b->is_scalar && a->index == b->index && a->dtype == b->dtype &&
           a->value.type == b->value.type && a->value.v.i == b->value.v.i;
}

static uint32_t add_number(ew_block *block, const kf_attr *attr, uint32_t dtype)
{
    ew_number number;
    memset(&number, 0, sizeof(number));
    number.dtype = dtype;
    if (attr != NULL && attr->type == KF_TYPE_SCALAR) {
        number.is_scalar = 1;
        number.index = (uint32_t)attr->v.i;
    } else {
        number.value.type = attr == NULL || attr->type == KF_TYPE_F64 ? KF_TYPE_F64 : KF_TYPE_I64;
        number.value.v.f = 0.01; // leaky_relu's slope, the only one that may be absent
        if (attr != NULL && attr->type == KF_TYPE_F64) {
            number.value.v.f = attr->v.f;
        } else if (attr != NULL) {
            number.value.v.i = attr->v.i;
        }
    }
    for (uint32_t i = 0; i < block->n_numbers; i++) {
        if (same_number(&block->numbers[i], &number)) {
            return i;
        }
    }
    block->numbers[block->n_numbers] = number;
    block->param_bytes += 8;
    return block->n_numbers++;
}

static void record(ew_block *block, const ew_row *row, const kf_op *op)
{
    static const uint32_t order[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE};
    ew_op *fused = &block->ops[block->n_ops];
    memset(fused, 0, sizeof(*fused));
    fused->row = row;
    fused->dtype = (uint16_t)op->inputs[0]->dtype;
    for (uint32_t i = 0; i < row->inputs; i++) {
        fused->inputs[i] = (uint16_t)add_value(block, op->inputs[i], 0);
    }
    for (uint32_t i = 0; i < 4 && row->scalars > 0; i++) {
        const kf_attr *attr = kf_op_attr(op, order[i]);
        if (attr != NULL) {
            fused->numbers[fused->n_numbers++] = (uint16_t)add_number(block, attr, fused->dtype);
        }
    }
    if (row->scalars > 0 && fused->n_numbers == 0) {
        fused->numbers[fused->n_numbers++] = (uint16_t)add_number(block, NULL, fused->dtype);
    }
    fused->result = (uint16_t)add_value(block, op->outputs[0], 1);
    if (block->n_ops == 0) {
        block->space = fused->result;
    }
    block->flops += row->cost;
    block->n_ops++;
}

static void drop(ew_block *block, const kf_op *op)
{
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t id = op->inputs[i]->id;
        if (id < EW_MAX_IDS && block->by_id[id] != 0) {
            block->values[block->by_id[id] - 1].dropped = 1;
        }
    }
}

// ---- the decision ------------------------------------------------------------------------------

static uint32_t ids_fit(const ew_block *block, const kf_op *op)
{
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i]->id >= EW_MAX_IDS) {
            return 0;
        }
    }
    return op->outputs[0]->id < EW_MAX_IDS && value_of(block, op->outputs[0]->id) == NULL;
}

/// 1 when the operation may join; otherwise the reason has been reported.
static uint32_t admits(const ew_block *block, const ew_device *device, const kf_host *host,
                       const ew_row *row, const kf_op *op)
{
    uint32_t at = op->position;
    if (row == NULL) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, at, "not an elementwise operator");
    }
    if (!kf_op_understood(op, 1, number_keys, NUMBER_KEYS)) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at,
                          "%s carries a version, flag or attribute that is newer than this fuser",
                          row->name);
    }
    if (op->n_inputs != row->inputs || op->n_outputs != 1 || !numbers_fit(row, op)) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "%s has unexpected operands",
                          row->name);
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!dtype_is_usable(device, op->inputs[i]->dtype)) {
            return kf_decline(host, KF_CODE_DTYPE, at, "the device does not take %s",
                              kf_dtype_of(op->inputs[i]->dtype).name);
        }
    }
    if (!dtype_is_usable(device, op->outputs[0]->dtype) || !dtypes_fit(row, op) ||
        ew_row_text(row, op->inputs[0]->dtype) == NULL) {
        return kf_decline(host, KF_CODE_DTYPE, at, "%s is not done for %s", row->name,
                          kf_dtype_of(op->inputs[0]->dtype).name);
    }
    if (!shapes_fit(block, op)) {
        return kf_decline(host, KF_CODE_SHAPE, at, "%s has another shape than the block",
                          row->name);
    }
    if (block->n_ops == EW_MAX_OPS || block->n_values + 4 > EW_MAX_VALUES ||
        block->n_numbers + 2 > EW_MAX_SCALARS || !ids_fit(block, op)) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the block is as long as one kernel may be");
    }
    // Four more tensors with all their strides, two numbers, and the sizes of the space.
    if (block->param_bytes + 4 * (16 + 8 * KF_MAX_RANK) + 8 * (KF_MAX_RANK + 4) >
        device->max_param_bytes) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the kernel would need too many arguments");
    }
    return 1;
}

void ew_block_push(ew_block *block, const ew_device *device, const kf_host *host, const kf_op *op)
{
    const ew_row *row;
    if (block->closed) {
        return;
    }
    if (op->kind == KF_OP_DROP) {
        if (op->version > 1 || op->flags != 0 ||
            !kf_tail_is_zero(op, op->struct_size, (uint32_t)sizeof(*op))) {
            kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position, "a newer kind of drop");
            block->closed = 1;
            return;
        }
        drop(block, op);
        block->len++;
        return;
    }
    row = ew_row_of(op->kind);
    if (!admits(block, device, host, row, op)) {
        block->closed = 1;
        return;
    }
    record(block, row, op);
    block->len++;
}
