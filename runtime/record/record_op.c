// SPDX-License-Identifier: MIT OR Apache-2.0
// One operation on a stream: its inputs are described as they are now, its results inferred, and it
// is queued with a handle for each of them. Composites are told apart above (record_composite.c).
// On the hot path of the library: nothing here searches or waits.

#include "record_internal.h"

/// A value that another stream has yet to compute is computed first.
static kiln_status make_usable(kilni_stream *stream, kiln_tensor *tensor, kiln_error *err)
{
    if (tensor->place.placed || (tensor->stream == stream->id && tensor->pins > 0)) {
        return KILN_STATUS_OK;
    }
    if (tensor->captured) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "an input stands for a value of another captured graph");
    }
    kilni_stream *other = kilni_stream_find(stream->device, tensor->stream);
    if (other == NULL) {
        return kiln_fail(err, INTERNAL, "an input has no value");
    }
    return kilni_stream_run(other, /*drain=*/true, err);
}

static void undo(kiln_tensor **tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        // Nothing mentions it yet: only the handle goes.
        kiln_tensor *tensor = tensors[i];
        tensors[i] = NULL;
        atomic_store(&tensor->refs, 0);
        kiln_device *device = tensor->device;
        kilni_tensor_disown(tensor);
        kilni_tensor_unhold(device); // the caller holds the device
    }
}

static kiln_status make_outputs(kilni_stream *stream, kilni_prepared_op *self,
                                kiln_tensor **out_tensors, kiln_error *err)
{
    size_t n_inputs = self->record.n_inputs;
    size_t count = self->record.n_outputs;
    for (size_t i = 0; i < count; i++) {
        kiln_tensor *tensor = kilni_tensor_new(stream->device, &self->outputs[i]);
        if (tensor == NULL) {
            undo(out_tensors, i);
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
        }
        tensor->stream = stream->id;
        tensor->captured = stream->capturing;
        self->outputs[i].id = tensor->desc.id;
        self->tokens[n_inputs + i] = tensor;
        out_tensors[i] = tensor;
    }
    return KILN_STATUS_OK;
}

/// Random operations get their place in the device's numbers, unless the caller gave one. In a
/// capture it stays open: each run of the graph draws anew.
static kiln_status fill_in_draw(const kilni_stream *stream, kiln_op op, const kiln_attr **attrs,
                                kiln_attr scratch[KILN_MAX_ATTRS], kiln_error *err)
{
    uint32_t first = 0;
    const kiln_op_info *info = kiln_op_info_of(op);
    if (!kilni_random_draws(info, &first) || stream->capturing ||
        (*attrs)[first].type != KILN_ATTR_NONE || (*attrs)[first + 2].type != KILN_ATTR_NONE) {
        return KILN_STATUS_OK;
    }
    memcpy(scratch, *attrs, info->signature->n_attrs * sizeof(*scratch));
    *attrs = scratch;
    return kilni_random_next(stream->device, &scratch[first], err);
}

kiln_status kilni_record_prepare(kilni_stream *stream, const kilni_op_call *call,
                                 kilni_prepared_op *self, kiln_error *err)
{
    const kiln_attr *attrs = call->attrs;
    kiln_status status = fill_in_draw(stream, call->op, &attrs, self->filled, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_custom_op *custom = NULL;
    size_t n_outputs = kiln_op_info_of(call->op)->n_outputs;
    if (call->op == KILN_OP_CUSTOM) {
        status = kilni_custom_find(stream->device, attrs, &custom, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        n_outputs = custom->n_outputs;
    }
    for (size_t i = 0; i < call->n_inputs; i++) {
        status = make_usable(stream, call->inputs[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_tensor_snapshot(call->inputs[i], &self->inputs[i]);
        self->tokens[i] = call->inputs[i];
    }
    memset(self->outputs, 0, n_outputs * sizeof(self->outputs[0]));
    self->record = (kiln_op_record){.op = call->op,
                                    .n_inputs = (uint16_t)call->n_inputs,
                                    .n_outputs = (uint8_t)n_outputs,
                                    .n_attrs = (uint8_t)call->n_attrs,
                                    .inputs = self->inputs,
                                    .outputs = self->outputs,
                                    .attrs = attrs,
                                    .custom = custom};
    return kiln_ir_infer(&self->record, self->outputs, err);
}

kiln_status kilni_record_queue(kilni_stream *stream, kilni_prepared_op *self,
                               kiln_tensor **out_tensors, kiln_error *err)
{
    size_t n_inputs = self->record.n_inputs;
    size_t n_outputs = self->record.n_outputs;
    kiln_status status = make_outputs(stream, self, out_tensors, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_fuse_stream_push(stream->queue, &self->record, self->tokens, err);
    if (status != KILN_STATUS_OK) {
        undo(out_tensors, n_outputs);
        return status;
    }
    stream->recorded++;
    for (size_t i = 0; i < n_inputs + n_outputs; i++) {
        kilni_tensor_pin(self->tokens[i], stream);
    }
    for (size_t i = 0; i < n_outputs && !stream->capturing; i++) {
        kilni_tensor_pend(out_tensors[i]);
    }
    if (self->record.op == KILN_OP_ALL_REDUCE) {
        out_tensors[0]->unresolved = kilni_collective_is(&self->record);
    }
    return KILN_STATUS_OK;
}
