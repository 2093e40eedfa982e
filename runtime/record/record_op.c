// SPDX-License-Identifier: MIT OR Apache-2.0
// One operation on a stream: its inputs are described as they are now, its results inferred, and it
// is queued with a handle for each of them; of a composite that is expanded (kiln_ir_is_expanded)
// the simpler operations are, which is what fusers and plans then see. On the hot path of the
// library: nothing here searches or waits.

#include "rt_context.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_random.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"

#include <string.h>

/// An operation as a fuser's stream takes it; the record points into the rest.
typedef struct prepared_op {
    kiln_op_record record;
    kiln_attr filled[KILN_MAX_ATTRS]; ///< the call's, with its draw of random numbers
    kiln_tensor_desc inputs[KILN_MAX_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS];
    void *tokens[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
} prepared_op;

/// A value that another stream has yet to compute is computed first.
static kiln_status make_usable(kilni_stream *stream, const kilni_op_call *call, size_t index,
                               kiln_error *err)
{
    kiln_tensor *tensor = call->inputs[index];
    if (tensor->binding.bound || (tensor->stream == stream->id && tensor->pins > 0)) {
        return KILN_STATUS_OK;
    }
    if (tensor->captured) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "input %zu of %s stands for a value of another captured graph; run that "
                         "graph and take its output",
                         index, kiln_op_info_of(call->op)->name);
    }
    kilni_stream *other = kilni_stream_find(stream->device, tensor->stream);
    if (other == NULL) {
        return kiln_fail(err, INTERNAL, "input %zu of %s has no value", index,
                         kiln_op_info_of(call->op)->name);
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

static kiln_status make_outputs(kilni_stream *stream, prepared_op *self, kiln_tensor **out_tensors,
                                kiln_error *err)
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

/// Describes the inputs and infers the results. Runs other streams that an input comes from.
static kiln_status prepare(kilni_stream *stream, const kilni_op_call *call, prepared_op *self,
                           kiln_error *err)
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
        status = make_usable(stream, call, i, err);
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

/// Queues what was prepared, and makes the handles of its results.
static kiln_status queue(kilni_stream *stream, prepared_op *self, kiln_tensor **out_tensors,
                         kiln_error *err)
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

// ---- composites ----

typedef struct expansion {
    kilni_stream *stream;
    kiln_tensor *const *inputs;
    size_t n_inputs;
    kiln_tensor **made; ///< made[i] has number n_inputs + i + 1; NULL when released
    size_t n_made;
    size_t capacity;
} expansion;

static kiln_tensor *tensor_of(const expansion *self, uint64_t id)
{
    return id <= self->n_inputs ? self->inputs[id - 1] : self->made[id - 1 - self->n_inputs];
}

static kiln_status reserve(expansion *self, size_t more, kiln_error *err)
{
    const kiln_env *env = &self->stream->device->context->env;
    if (self->n_made + more <= self->capacity) {
        return KILN_STATUS_OK;
    }
    size_t capacity = self->capacity < 32 ? 64 : self->capacity * 2;
    kiln_tensor **grown = kiln_alloc_array(env, capacity, sizeof(kiln_tensor *));
    if (grown == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an expansion");
    }
    if (self->n_made > 0) {
        memcpy(grown, self->made, self->n_made * sizeof(kiln_tensor *));
    }
    kiln_free(env, self->made);
    self->made = grown;
    self->capacity = capacity;
    return KILN_STATUS_OK;
}

static void release(expansion *self, size_t index)
{
    kiln_tensor *tensor = self->made[index];
    self->made[index] = NULL;
    if (tensor != NULL) {
        kilni_tensor_release(tensor);
    }
}

static kiln_status emit(const kiln_op_record *record, void *user, kiln_error *err)
{
    expansion *self = user;
    kiln_tensor *inputs[KILN_MAX_INPUTS];
    if (record->op == KILN_OP_DROP) {
        release(self, record->inputs[0].id - 1 - self->n_inputs);
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        inputs[i] = tensor_of(self, record->inputs[i].id);
    }
    kiln_status status = reserve(self, record->n_outputs, err);
    if (status == KILN_STATUS_OK) {
        const kilni_op_call call = {.op = record->op,
                                    .inputs = inputs,
                                    .n_inputs = record->n_inputs,
                                    .attrs = record->attrs,
                                    .n_attrs = record->n_attrs};
        status = kilni_stream_record(self->stream, &call, &self->made[self->n_made], err);
    }
    if (status == KILN_STATUS_OK) {
        self->n_made += record->n_outputs;
    }
    return status;
}

/// Records the simpler operations. `record` is inferred.
static kiln_status record_expanded(kilni_stream *stream, const kiln_op_record *record,
                                   const kilni_op_call *call, kiln_tensor **out_tensors,
                                   kiln_error *err)
{
    const kiln_env *env = &stream->device->context->env;
    expansion self = {.stream = stream, .inputs = call->inputs, .n_inputs = record->n_inputs};
    const kiln_expansion_sink sink = {.emit = emit, .user = &self, .unused = call->unused};
    uint64_t ids[KILN_MAX_OUTPUTS] = {0};
    kiln_status status = kiln_ir_expand(env, record, &sink, ids, err);
    for (size_t i = 0; i < record->n_outputs && status == KILN_STATUS_OK; i++) {
        if (ids[i] == 0) {
            continue; // unused
        }
        size_t index = ids[i] - 1 - self.n_inputs;
        out_tensors[i] = self.made[index];
        self.made[index] = NULL;
    }
    for (size_t i = 0; i < self.n_made; i++) {
        release(&self, i); // what a failure left
    }
    kiln_free(env, self.made);
    return status;
}

kiln_status kilni_stream_record(kilni_stream *stream, const kilni_op_call *call,
                                kiln_tensor **out_tensors, kiln_error *err)
{
    prepared_op prepared;
    kiln_status status = prepare(stream, call, &prepared, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    return kiln_ir_is_expanded(stream->device->backend, &prepared.record)
               ? record_expanded(stream, &prepared.record, call, out_tensors, err)
               : queue(stream, &prepared, out_tensors, err);
}
