// SPDX-License-Identifier: MIT OR Apache-2.0
// An operation on a stream, or, of a composite, the simpler operations that it stands for, which is
// what fusers and plans then see. Whether it is expanded is kiln_ir_is_expanded's to say.

#include "record_internal.h"

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
    const kiln_expansion_sink sink = {.emit = emit, .user = &self, .unwanted = call->unwanted};
    uint64_t ids[KILN_MAX_OUTPUTS] = {0};
    kiln_status status = kiln_ir_expand(env, record, &sink, ids, err);
    for (size_t i = 0; i < record->n_outputs && status == KILN_STATUS_OK; i++) {
        if (ids[i] == 0) {
            continue; // unwanted
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
    kilni_prepared_op prepared;
    kiln_status status = kilni_record_prepare(stream, call, &prepared, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    return kiln_ir_is_expanded(stream->device->backend, &prepared.record)
               ? record_expanded(stream, &prepared.record, call, out_tensors, err)
               : kilni_record_queue(stream, &prepared, out_tensors, err);
}
