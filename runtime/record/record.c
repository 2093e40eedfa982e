// SPDX-License-Identifier: MIT OR Apache-2.0
// Recording: from a call to a queued operation. Checks the call against the table at once, makes
// the handles of its results, and hands what is ready to the executor. The hot path of the library:
// nothing here searches or waits.

#include "runtime_internal.h"

typedef struct call {
    kiln_tensor_desc inputs[KILN_MAX_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS];
    void *tokens[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
} call;

static void describe(kilni_place *place)
{
    place->described = true;
    place->flags = KILN_TENSOR_PLACED;
    place->align_log2 = 0;
    if (place->fault != NULL) {
        return;
    }
    if (kiln_view_is_contiguous(&place->view)) {
        place->flags |= KILN_TENSOR_CONTIGUOUS;
        place->flags |= place->view.offset_bytes == 0 ? KILN_TENSOR_ZERO_OFFSET : 0;
    }
    uint64_t offset = (uint64_t)place->view.offset_bytes;
    place->align_log2 = 7; // what every backend gives the start of a buffer: 128 bytes
    while (place->align_log2 > 0 && (offset & ((1u << place->align_log2) - 1)) != 0) {
        place->align_log2--;
    }
}

/// Brings the facts about a tensor's memory into its description.
static void snapshot(kiln_tensor *tensor, kiln_tensor_desc *out_desc)
{
    *out_desc = tensor->desc;
    if (!tensor->place.placed) {
        return;
    }
    if (!tensor->place.described) {
        describe(&tensor->place);
    }
    out_desc->flags |= tensor->place.flags;
    out_desc->align_log2 = tensor->place.align_log2;
}

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

static kiln_status make_outputs(kilni_stream *stream, call *self, size_t n_inputs, size_t count,
                                kiln_tensor **out_tensors, kiln_error *err)
{
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

kiln_status kilni_stream_record(kilni_stream *stream, kiln_op op, kiln_tensor *const *inputs,
                                size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                                uint32_t unwanted, kiln_tensor **out_tensors, kiln_error *err)
{
    call self;
    kiln_attr filled[KILN_MAX_ATTRS];
    kiln_status drawn = fill_in_draw(stream, op, &attrs, filled, err);
    if (drawn != KILN_STATUS_OK) {
        return drawn;
    }
    const kiln_custom_op *custom = NULL;
    size_t n_outputs = kiln_op_info_of(op)->n_outputs;
    if (op == KILN_OP_CUSTOM) {
        kiln_status found = kilni_custom_find(stream->device, attrs, &custom, err);
        if (found != KILN_STATUS_OK) {
            return found;
        }
        n_outputs = custom->n_outputs;
    }
    for (size_t i = 0; i < n_inputs; i++) {
        kiln_status status = make_usable(stream, inputs[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        snapshot(inputs[i], &self.inputs[i]);
        self.tokens[i] = inputs[i];
    }
    memset(self.outputs, 0, n_outputs * sizeof(self.outputs[0]));
    const kiln_op_record record = {.op = op,
                                   .n_inputs = (uint16_t)n_inputs,
                                   .n_outputs = (uint8_t)n_outputs,
                                   .n_attrs = (uint8_t)n_attrs,
                                   .inputs = self.inputs,
                                   .outputs = self.outputs,
                                   .attrs = attrs,
                                   .custom = custom};
    kiln_status status = kiln_ir_infer(&record, self.outputs, err);
    if (status == KILN_STATUS_OK && kiln_ir_is_expanded(stream->device->backend, &record)) {
        return kilni_record_expanded(stream, &record, inputs, unwanted, out_tensors, err);
    }
    if (status == KILN_STATUS_OK) {
        status = make_outputs(stream, &self, n_inputs, n_outputs, out_tensors, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_fuse_stream_push(stream->queue, &record, self.tokens, err);
    if (status != KILN_STATUS_OK) {
        undo(out_tensors, n_outputs);
        return status;
    }
    stream->recorded++;
    for (size_t i = 0; i < n_inputs + n_outputs; i++) {
        kilni_tensor_pin(self.tokens[i], stream);
    }
    for (size_t i = 0; i < n_outputs && !stream->capturing; i++) {
        kilni_tensor_pend(out_tensors[i]);
    }
    if (op == KILN_OP_ALL_REDUCE) {
        out_tensors[0]->unresolved = kilni_collective_is(&record);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_stream_drop(kilni_stream *stream, kiln_tensor *tensor, kiln_error *err)
{
    kiln_tensor_desc desc;
    void *token = tensor;
    snapshot(tensor, &desc);
    const kiln_op_record record = {.op = KILN_OP_DROP, .n_inputs = 1, .inputs = &desc};
    kiln_status status = kiln_fuse_stream_push(stream->queue, &record, &token, err);
    if (status == KILN_STATUS_OK) {
        stream->recorded++;
        kilni_tensor_pin(tensor, stream);
        kilni_tensor_unpend(tensor);
        if (!stream->capturing) {
            kilni_tensor_doom(tensor);
        }
    }
    return status;
}

// ---- the public call ----

static kiln_status find_device(kiln_device **handle, kiln_op op, kiln_tensor *const *inputs,
                               size_t n_inputs, size_t n_attrs, kiln_error *err)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    if (info == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "there is no operator with the number %d", (int)op);
    }
    if (info->cls == KILN_CLASS_CONTROL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s is recorded by the runtime alone", info->name);
    }
    if (n_inputs > info->signature->max_inputs || n_inputs < info->signature->min_inputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s takes %u to %u inputs, not %zu", info->name,
                         info->signature->min_inputs, info->signature->max_inputs, n_inputs);
    }
    if (n_attrs != info->signature->n_attrs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s has %u attributes, not %zu", info->name,
                         info->signature->n_attrs, n_attrs);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        if (inputs[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: input %zu is NULL", info->name, i);
        }
        *handle = *handle == NULL ? inputs[i]->handle : *handle;
        if (inputs[i]->device != kilni_core(*handle)) {
            return kiln_fail(
                err, FAILED_PRECONDITION,
                "%s: input %zu is on %s, the others on %s; move it with kiln_to_device", info->name,
                i, inputs[i]->device->address, kilni_core(*handle)->address);
        }
    }
    if (*handle == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s needs a device", info->name);
    }
    return KILN_STATUS_OK;
}

static kiln_status record_call(kiln_device *handle, kiln_op op, kiln_tensor *const *inputs,
                               size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                               uint32_t unwanted, kiln_tensor **out_tensors, kiln_error *err)
{
    if (out_tensors == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensors must not be NULL");
    }
    kiln_attr named[KILN_MAX_ATTRS];
    const kiln_op_info *info = kiln_op_info_of(op);
    size_t n_outputs = op == KILN_OP_CUSTOM ? KILN_MAX_OUTPUTS : info != NULL ? info->n_outputs : 1;
    for (size_t i = 0; i < n_outputs; i++) {
        out_tensors[i] = NULL;
    }
    kiln_status status = find_device(&handle, op, inputs, n_inputs, n_attrs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_name_dtype(handle, op, &attrs, named);
    kiln_device *device = kilni_core(handle);
    if (kilni_moves_quantised(op, inputs, n_inputs)) {
        return kilni_record_moved(handle, op, inputs, n_inputs, attrs, n_attrs, out_tensors, err);
    }
    kilni_stream *stream = NULL;
    pthread_mutex_lock(&device->lock);
    uint64_t start_ns = kilni_trace_now(device);
    status = op == KILN_OP_COLLECTIVE_SYNC ? kilni_collective_ready(device, inputs[0], err)
                                           : kilni_await_arrivals(device, inputs, n_inputs, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_current(device, &stream, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_record(stream, op, inputs, n_inputs, attrs, n_attrs, unwanted,
                                     out_tensors, err);
    }
    for (size_t i = 0; i < n_outputs && status == KILN_STATUS_OK; i++) {
        if (out_tensors[i] != NULL) {
            out_tensors[i]->handle = handle;
        }
    }
    kilni_trace_span(device, KILNI_SPAN_RECORD, info->name, start_ns);
    if (status == KILN_STATUS_OK && !stream->capturing) {
        // The operation is recorded whatever becomes of the planning of those before it. On the hot
        // path the record is not zeroed; a failure fills it.
        kiln_error later;
        later.struct_size = (uint32_t)sizeof(later);
        if (kilni_stream_run(stream, /*drain=*/false, &later) != KILN_STATUS_OK) {
            kiln_log_write(&device->context->env, KILN_LOG_WARN, "runtime", "planning: %s",
                           later.message);
        }
        if (kilni_under_pressure(device)) {
            kilni_relieve(device);
        }
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kiln_record(kiln_device *handle, kiln_op op, kiln_tensor *const *inputs,
                        size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                        kiln_tensor **out_tensors, kiln_error *err)
{
    return record_call(handle, op, inputs, n_inputs, attrs, n_attrs, /*unwanted=*/0, out_tensors,
                       err);
}

kiln_status kilni_record_several(kiln_device *device, kiln_op op, kiln_tensor *const *inputs,
                                 size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                                 kiln_tensor **const *outputs, kiln_error *err)
{
    size_t n_outputs = kiln_op_info_of(op)->n_outputs;
    kiln_tensor *made[KILN_MAX_OUTPUTS];
    uint32_t unwanted = 0;
    for (size_t i = 0; i < n_outputs; i++) {
        unwanted |= outputs[i] == NULL ? 1u << i : 0;
    }
    kiln_status status =
        record_call(device, op, inputs, n_inputs, attrs, n_attrs, unwanted, made, err);
    for (size_t i = 0; i < n_outputs; i++) {
        if (outputs[i] != NULL) {
            *outputs[i] = made[i];
        } else {
            kiln_release(made[i]);
        }
    }
    return status;
}
