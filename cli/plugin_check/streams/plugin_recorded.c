// SPDX-License-Identifier: MIT OR Apache-2.0
// A recorded stream (docs/replay.md) as one that the checks try, for `kiln plugin check --stream`:
// tensors are numbered by first use, as those of drawn streams are, so that it can be put on other
// extents, cut and grown like them. Decides what of a recording the checks cannot hold.

#include "plugin_stream.h"

#include "ir_index_range.h"
#include "ir_replay.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_ELEMENTS = 1 << 22 };

typedef struct recorded {
    const kiln_replay *replay;
    stream *s;
    uint64_t ids[STREAM_TENSORS]; ///< of the graph
    kiln_error *err;
} recorded;

static uint32_t recorded_number(const recorded *r, uint64_t id)
{
    uint32_t i = 0;
    while (i < r->s->n_tensors && r->ids[i] != id) {
        i++;
    }
    return i;
}

static stream_layout recorded_layout(const recorded *r, uint64_t id)
{
    size_t count = 0;
    const kiln_tensor_desc *inputs = kiln_ir_graph_inputs(r->replay->graph, &count);
    for (size_t i = 0; i < count; i++) {
        const kiln_replay_input *input = &r->replay->inputs[i];
        if (inputs[i].id != id || !input->strided || inputs[i].rank == 0) {
            continue;
        }
        uint32_t last = inputs[i].rank - 1;
        bool swapped = last > 0 && input->strides[last] > input->strides[last - 1];
        return input->strides[last] < 0 ? STREAM_FLIPPED
               : swapped                ? STREAM_SWAPPED
               : input->offset != 0     ? STREAM_SHIFTED
                                        : STREAM_PADDED;
    }
    return STREAM_DENSE;
}

static kiln_status take_recorded_tensor(recorded *r, const kiln_tensor_desc *desc, bool external)
{
    if (r->s->n_tensors == STREAM_TENSORS) {
        return kiln_fail(r->err, UNIMPLEMENTED, "has more than %d tensors", STREAM_TENSORS);
    }
    if (kiln_desc_count(desc) > MOST_ELEMENTS || desc->scheme != 0) {
        return kiln_fail(r->err, UNIMPLEMENTED,
                         "tensor %%%" PRIu64 " is quantised or has more than %d elements", desc->id,
                         MOST_ELEMENTS);
    }
    stream_tensor *t = &r->s->tensors[r->s->n_tensors];
    *t = (stream_tensor){.dtype = desc->dtype,
                         .rank = desc->rank,
                         .external = external,
                         .constant = external && (desc->flags & KILN_TENSOR_CONST) != 0};
    memcpy(t->dims, desc->dims, sizeof(t->dims));
    t->layout = external ? recorded_layout(r, desc->id) : STREAM_DENSE;
    r->ids[r->s->n_tensors++] = desc->id;
    return KILN_STATUS_OK;
}

static kiln_status take_recorded_input(recorded *r, const kiln_op_record *record, uint32_t index,
                                       stream_op *op)
{
    kiln_index_range range;
    uint32_t at = recorded_number(r, record->inputs[index].id);
    if (at == r->s->n_tensors) {
        kiln_status status = take_recorded_tensor(r, &record->inputs[index], true);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    if (kiln_op_index_range(record, index, &range)) {
        r->s->tensors[at].top = range.last[0] + 1;
    }
    op->inputs[index] = at;
    return KILN_STATUS_OK;
}

static kiln_status take_recorded_attrs(recorded *r, const kiln_op_record *record, stream_op *op)
{
    for (uint32_t i = 0; i < record->n_attrs; i++) {
        const kiln_attr *attr = &record->attrs[i];
        op->attrs[i] = *attr;
        if (attr->type == KILN_ATTR_I64_LIST && attr->count <= STREAM_LIST) {
            memcpy(op->lists[i], attr->v.ints, attr->count * sizeof(int64_t));
        } else if (attr->type == KILN_ATTR_I64_LIST || attr->type == KILN_ATTR_F64_LIST ||
                   attr->type == KILN_ATTR_STRING || attr->type == KILN_ATTR_TENSOR) {
            return kiln_fail(r->err, UNIMPLEMENTED, "an attribute of %s is a text or a long list",
                             kiln_op_info_of(record->op)->name);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status take_recorded_op(recorded *r, const kiln_op_record *record)
{
    stream *s = r->s;
    if (s->n_ops == STREAM_OPS || record->n_inputs > KILN_MAX_NAMED_INPUTS) {
        return kiln_fail(r->err, UNIMPLEMENTED,
                         "has more than %d operations, or one of more than %d inputs", STREAM_OPS,
                         KILN_MAX_NAMED_INPUTS);
    }
    if (record->op == KILN_OP_DROP) {
        uint32_t at = recorded_number(r, record->inputs[0].id);
        return at == s->n_tensors || stream_drop(s, at)
                   ? KILN_STATUS_OK
                   : kiln_fail(r->err, INVALID_ARGUMENT, "drops a tensor twice");
    }
    if (!stream_usable(record->op)) {
        return kiln_fail(r->err, UNIMPLEMENTED, "%s is no operator that the checks try",
                         kiln_op_info_of(record->op)->name);
    }
    stream_op *op = &s->ops[s->n_ops];
    kiln_status status = KILN_STATUS_OK;
    *op =
        (stream_op){.op = record->op, .n_inputs = record->n_inputs, .n_outputs = record->n_outputs};
    for (uint32_t i = 0; i < record->n_inputs && status == KILN_STATUS_OK; i++) {
        status = take_recorded_input(r, record, i, op);
    }
    for (uint32_t i = 0; i < record->n_outputs && status == KILN_STATUS_OK; i++) {
        op->outputs[i] = s->n_tensors;
        status = take_recorded_tensor(r, &record->outputs[i], false);
    }
    s->n_ops++;
    return status == KILN_STATUS_OK ? take_recorded_attrs(r, record, op) : status;
}

kiln_status stream_of_replay(const struct kiln_replay *replay, size_t first, stream *out,
                             kiln_error *err)
{
    recorded r = {.replay = replay, .s = out, .err = err};
    kiln_status status = KILN_STATUS_OK;
    memset(out, 0, sizeof(*out));
    stream_init(out, 1);
    for (size_t i = first; i < kiln_ir_graph_op_count(replay->graph) && status == KILN_STATUS_OK;
         i++) {
        uint32_t n_ops = out->n_ops;
        uint32_t n_tensors = out->n_tensors;
        status = take_recorded_op(&r, kiln_ir_graph_op(replay->graph, i));
        if (status != KILN_STATUS_OK) {
            stream_cut(out, n_ops, n_tensors);
        }
    }
    return status;
}
