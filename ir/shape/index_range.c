// SPDX-License-Identifier: MIT OR Apache-2.0
// Which values of an index operand name an element, and what becomes of the others: what kernels
// do in silence, checked mode says aloud. Left out are the labels of ctc_loss (behind a target's
// length anything may stand) and one_hot, to whom an index outside means no place at all.
#include "ir_index_range.h"
#include "shape_internal.h"

static void from_the_end(const kiln_tensor_desc *x, uint32_t axis, kiln_index_range *out)
{
    out->first[out->n++] = -x->dims[axis];
    out->last[out->n - 1] = x->dims[axis] - 1;
}

static void from_zero(int64_t count, kiln_index_range *out)
{
    out->first[out->n++] = 0;
    out->last[out->n - 1] = count - 1;
}

static void along_axis(const kiln_op_record *call, kiln_index_range *out)
{
    uint32_t axis = 0;
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    if (kilni_ir_axis(call, wanted, call->inputs[0].rank, &axis, NULL) == KILN_STATUS_OK) {
        from_the_end(&call->inputs[0], axis, out);
    }
}

/// Each number of a tuple has a range of its own.
static void tuples(const kiln_op_record *call, size_t input, uint32_t batch, kiln_index_range *out)
{
    const kiln_tensor_desc *indices = &call->inputs[input];
    int64_t depth = indices->rank > 0 ? indices->dims[indices->rank - 1] : 0;
    for (uint32_t k = 0; (int64_t)k < depth && batch + k < call->inputs[0].rank; k++) {
        from_the_end(&call->inputs[0], batch + k, out);
    }
}

/// Places in the plane of the spatial axes; -1 is that of a window of padding alone.
static void plane(const kiln_op_record *call, kiln_index_range *out)
{
    int64_t count = 1;
    for (uint32_t i = 2; i < call->outputs[0].rank; i++) {
        count *= call->outputs[0].dims[i];
    }
    from_zero(count, out);
    out->first[0] = -1;
}

/// Of sequences, whose axis is the first; 0 of rank 0 stands for none.
static void steps(const kiln_op_record *call, size_t input, kiln_index_range *out)
{
    if (call->inputs[input].rank == 1) {
        from_zero(call->inputs[0].dims[0] + 1, out);
    }
}

static void lengths(const kiln_op_record *call, size_t input, kiln_index_range *out)
{
    size_t targets = call->op == KILN_OP_CTC_LOSS ? 1 : 2;
    if (input != targets) {
        from_zero((input == targets + 1 ? call->inputs[0].dims[0] : call->inputs[targets].dims[1]) +
                      1,
                  out);
    }
}

/// Roots are nodes, targets columns of the result.
static void trees(const kiln_op_record *call, size_t input, kiln_index_range *out)
{
    enum { THRESHOLDS = 1, ROOTS = 5, TARGETS = 6 };
    if (input == ROOTS) {
        from_zero(call->inputs[THRESHOLDS].dims[0], out);
    } else if (input == TARGETS) {
        from_zero(call->outputs[0].dims[1], out);
    }
}

bool kiln_op_index_range(const kiln_op_record *call, size_t input, kiln_index_range *out_range)
{
    const kiln_op_info *info = kiln_op_info_of(call->op);
    *out_range = (kiln_index_range){.otherwise = "dropped"};
    if (input >= call->n_inputs || input >= KILN_MAX_NAMED_INPUTS ||
        (info->signature->index_inputs >> input & 1u) == 0) {
        return false;
    }
    switch (call->op) {
    case KILN_OP_GATHER:
    case KILN_OP_SELECT:
    case KILN_OP_EMBEDDING: // its axis is the first
        out_range->otherwise = "clamped";
        if (call->op == KILN_OP_EMBEDDING) {
            from_the_end(&call->inputs[0], 0, out_range);
        } else {
            along_axis(call, out_range);
        }
        break;
    case KILN_OP_GATHER_ND:
        out_range->otherwise = "clamped";
        tuples(call, input, (uint32_t)kiln_op_attr_i64(call, KILN_KEY_BATCH_DIMS), out_range);
        break;
    case KILN_OP_SCATTER_ND:
        tuples(call, input, 0, out_range);
        break;
    case KILN_OP_SCATTER:
    case KILN_OP_SELECT_ASSIGN:
        along_axis(call, out_range);
        break;
    case KILN_OP_EMBEDDING_BACKWARD:
        from_the_end(&call->outputs[0], 0, out_range);
        break;
    case KILN_OP_MAX_UNPOOL:
    case KILN_OP_MAX_POOL_BACKWARD:
        plane(call, out_range);
        break;
    case KILN_OP_ROI_ALIGN:
        out_range->otherwise = "clamped";
        from_zero(call->inputs[0].dims[0], out_range);
        break;
    case KILN_OP_REVERSE_SEQUENCE: {
        uint32_t axis = 0;
        out_range->otherwise = "clamped";
        if (kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), call->inputs[0].rank, &axis,
                          NULL) == KILN_STATUS_OK) {
            from_zero(call->inputs[0].dims[axis] + 1, out_range);
        }
        break;
    }
    case KILN_OP_LSTM:
    case KILN_OP_GRU:
    case KILN_OP_RNN:
        out_range->otherwise = "clamped";
        steps(call, input, out_range);
        break;
    case KILN_OP_CTC_LOSS:
    case KILN_OP_CTC_LOSS_BACKWARD:
        out_range->otherwise = "clamped";
        lengths(call, input, out_range);
        break;
    case KILN_OP_TREE_ENSEMBLE:
        trees(call, input, out_range);
        break;
    default:
        break;
    }
    return out_range->n > 0;
}
