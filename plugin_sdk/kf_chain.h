// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_chain.h: a recorded run of elementwise operations, for any fuser that computes one inside its
// kernel: alone, before a reduction, behind a product. The fuser decides about shapes and about how
// memory is walked; this file knows operands, numbers, checks and the text of the computation.
//   kf_chain_admits      understood, on this device, within limits? else the reason is reported
//   kf_chain_record      takes the operation in; kf_chain_drop its drops
//   kf_chain_functions   the text of all functions that the computation calls
//   kf_chain_numbers     scalars and constants as vectors s0, s1 ... of kernel arguments a0, a1 ...
//   kf_chain_op_text     one operation: `const float8 v7 = v3 + v5;`
// Values are numbered in order of first sight; the text calls value n vN, read or computed.
#ifndef KILN_PLUGIN_SDK_KF_CHAIN_H
#define KILN_PLUGIN_SDK_KF_CHAIN_H

#include "kf_chain_text.h"
#include "kf_chain_values.h"
#include "kf_key.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- admission ----

static inline uint32_t kf_chain_dtype_usable(const kf_chain_device *device, uint32_t dtype)
{
    return kf_dtype_of(dtype).id != 0 && ((device->dtype_storage >> dtype) & 1u) != 0 &&
           (dtype != KF_DTYPE_F64 || device->has_f64);
}

static inline uint32_t kf_chain_dtypes_fit(const kf_ew_row *row, const kf_op *op)
{
    uint32_t first = op->inputs[0]->dtype, result = op->outputs[0]->dtype;
    uint32_t masks = row->op == KF_OP_WHERE || row->op == KF_OP_MASK_FILL;
    uint32_t i;
    for (i = 1; i < row->inputs; i++) {
        uint32_t is_mask = masks && i == row->inputs - 1;
        if (op->inputs[i]->dtype != (is_mask ? (uint32_t)KF_DTYPE_BOOL : first)) {
            return 0;
        }
    }
    if (row->result == KF_EW_CAST) {
        const kf_attr *dtype = kf_op_attr(op, KF_ATTR_DTYPE);
        return dtype != NULL && dtype->type == KF_TYPE_DTYPE && dtype->v.i == (int64_t)result;
    }
    return result == (row->result == KF_EW_MASK ? (uint32_t)KF_DTYPE_BOOL : first);
}

static inline uint32_t kf_chain_numbers_fit(const kf_ew_row *row, const kf_op *op)
{
    uint32_t want = row->scalars + (row->result == KF_EW_CAST ? 1u : 0u), i;
    for (i = 0; i < op->n_attrs; i++) {
        uint32_t type = op->attrs[i].type;
        if (op->attrs[i].flags & KF_ATTR_FLAG_HINT) {
            continue;
        }
        if (want-- == 0) {
            return 0;
        }
        if (type != KF_TYPE_SCALAR && type != KF_TYPE_F64 && type != KF_TYPE_I64 &&
            type != KF_TYPE_BOOL && type != KF_TYPE_DTYPE) {
            return 0;
        }
    }
    return want == 0 || row->op == KF_OP_LEAKY_RELU;
}

/// New tensors with small numbers: is there room for one operation with all its strides?
static inline uint32_t kf_chain_has_room(const kf_chain *chain, const kf_chain_device *device,
                                         const kf_op *op)
{
    uint32_t i;
    for (i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i]->id >= KF_CHAIN_IDS) {
            return 0;
        }
    }
    for (i = 0; i < op->n_outputs; i++) {
        if (op->outputs[i]->id >= KF_CHAIN_IDS ||
            kf_chain_known(chain, op->outputs[i]->id) != NULL) {
            return 0;
        }
    }
    // An operator taken apart (kf_row_parts.h), four more tensors with all their strides, two
    // numbers, and the sizes of the space.
    return chain->n_ops + 16 <= KF_CHAIN_OPS && chain->n_values + 24 <= KF_CHAIN_VALUES &&
           chain->n_numbers + 2 <= KF_CHAIN_NUMBERS &&
           chain->param_bytes + 4 * (16 + 8 * KF_MAX_RANK) + 8 * (KF_MAX_RANK + 4) <=
               device->max_param_bytes;
}

/// 1 when an elementwise operation may join, whatever its shape; otherwise the reason was reported.
static inline uint32_t kf_chain_admits(const kf_chain *chain, const kf_chain_device *device,
                                       const kf_host *host, const kf_ew_row *row, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE,
                                    KF_ATTR_DTYPE};
    uint32_t at = op->position, i;
    if (row == NULL) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, at, "this fuser does not take this operator");
    }
    if (!kf_op_understood(op, 1, keys, sizeof(keys) / sizeof(keys[0]))) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at,
                          "%s carries a version, flag or attribute that is newer than this fuser",
                          row->name);
    }
    if (op->n_inputs != row->inputs || op->n_outputs != 1 || !kf_chain_numbers_fit(row, op)) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "%s has unexpected operands",
                          row->name);
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!kf_chain_dtype_usable(device, op->inputs[i]->dtype)) {
            return kf_decline(host, KF_CODE_DTYPE, at, "the device does not take %s",
                              kf_dtype_of(op->inputs[i]->dtype).name);
        }
    }
    if (!kf_chain_dtype_usable(device, op->outputs[0]->dtype) || !kf_chain_dtypes_fit(row, op) ||
        kf_ew_text(row, op->inputs[0]->dtype) == NULL) {
        return kf_decline(host, KF_CODE_DTYPE, at, "%s is not done for %s", row->name,
                          kf_dtype_of(op->inputs[0]->dtype).name);
    }
    if (!kf_chain_has_room(chain, device, op)) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the block is as long as one kernel may be");
    }
    return 1;
}

// ---- recording ----

/// Appends an operation without operands; kf_chain_record fills in those of an elementwise one.
static inline kf_chain_op *kf_chain_push(kf_chain *chain, const kf_ew_row *row, uint32_t kind,
                                         uint32_t dtype)
{
    kf_chain_op *op = &chain->ops[chain->n_ops++];
    memset(op, 0, sizeof(*op));
    op->row = row;
    op->kind = kind;
    op->dtype = (uint16_t)dtype;
    chain->flops += row == NULL ? 1 : row->cost;
    return op;
}

static inline void kf_chain_take_input(kf_chain_op *op, uint32_t value)
{
    op->inputs[op->n_inputs++] = (uint16_t)value;
}

static inline kf_chain_op *kf_chain_record(kf_chain *chain, const kf_ew_row *row, const kf_op *op)
{
    static const uint32_t order[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE};
    uint32_t dtype = op->inputs[0]->dtype, i;
    kf_chain_op *own = kf_chain_push(chain, row, 0, dtype);
    for (i = 0; i < row->inputs; i++) {
        kf_chain_take_input(own, kf_chain_add_value(chain, op->inputs[i], 0));
    }
    for (i = 0; i < 4 && row->scalars > 0; i++) {
        const kf_attr *attr = kf_op_attr(op, order[i]);
        if (attr != NULL && own->n_numbers < 2) {
            own->numbers[own->n_numbers++] = (uint16_t)kf_chain_add_number(chain, attr, dtype);
        }
    }
    if (row->scalars > 0 && own->n_numbers == 0) {
        own->numbers[own->n_numbers++] = (uint16_t)kf_chain_add_number(chain, NULL, dtype);
    }
    own->result = (uint16_t)kf_chain_add_value(chain, op->outputs[0], 1);
    return own;
}

/// Takes a drop. 0: it is of a newer kind, and the reason was reported.
static inline uint32_t kf_chain_drop(kf_chain *chain, const kf_host *host, const kf_op *op)
{
    uint32_t i;
    if (op->version > 1 || op->flags != 0 ||
        !kf_tail_is_zero(op, op->struct_size, (uint32_t)sizeof(*op))) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position, "a newer kind of drop");
    }
    for (i = 0; i < op->n_inputs; i++) {
        kf_chain_value *value = kf_chain_value_of(chain, op->inputs[i]->id);
        if (value != NULL) {
            value->dropped = 1;
        }
    }
    return 1;
}

#ifdef __cplusplus
}
#endif
#endif
