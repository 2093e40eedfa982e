// SPDX-License-Identifier: MIT OR Apache-2.0
#include "expand_run.h"

#include <stdlib.h>

kiln_backend *expand_on;

/* Views by number; what was made here is dense memory of its own. */
typedef struct expansion {
    const kiln_env *env;
    kiln_backend *backend;
    kiln_view *views;
    size_t n_inputs;
    size_t n_views;
} expansion;

static kiln_status emit(const kiln_op_record *record, void *user, kiln_error *err)
{
    expansion *self = user;
    kiln_view inputs[KILN_MAX_INPUTS];
    if (record->op == KILN_OP_DROP) {
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        inputs[i] = self->views[record->inputs[i].id - 1];
    }
    kiln_view *grown =
        realloc(self->views, (self->n_views + record->n_outputs) * sizeof(*self->views));
    if (grown == NULL) {
        return KILN_STATUS_RESOURCE_EXHAUSTED;
    }
    self->views = grown;
    kiln_view *outputs = &self->views[self->n_views];
    for (size_t i = 0; i < record->n_outputs; i++) {
        kiln_buffer *buffer = NULL;
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        if (bytes > 0) {
            kiln_status status = self->backend->memory->alloc(self->backend, bytes, &buffer, err);
            if (status != KILN_STATUS_OK) {
                return status;
            }
        }
        outputs[i] = kiln_view_dense(&record->outputs[i], buffer);
        self->n_views++;
    }
    return execute_or_expand(self->env, self->backend, record, inputs, outputs, err);
}

static kiln_status copy_out(expansion *self, const uint64_t *ids, const kiln_op_record *record,
                            const kiln_view *outputs, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < record->n_outputs && status == KILN_STATUS_OK; i++) {
        const kiln_view *made = &self->views[ids[i] - 1];
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        if (bytes > 0) {
            status =
                self->backend->transfer->copy(self->backend, made->buffer, 0, outputs[i].buffer,
                                              (size_t)outputs[i].offset_bytes, bytes, err);
        }
    }
    return status;
}

kiln_status execute_or_expand(const kiln_env *env, kiln_backend *backend,
                              const kiln_op_record *record, const kiln_view *inputs,
                              const kiln_view *outputs, kiln_error *err)
{
    bool composite = kiln_op_info_of(record->op)->decompose != NULL;
    if (!kiln_ir_is_expanded(backend, record) && !(expand_on == backend && composite)) {
        return backend->device->execute(backend, record, inputs, outputs, err);
    }
    expansion self = {.env = env, .backend = backend, .n_inputs = record->n_inputs};
    self.views = calloc(record->n_inputs + 1u, sizeof(*self.views));
    if (self.views == NULL) {
        return KILN_STATUS_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        self.views[self.n_views++] = inputs[i];
    }
    uint64_t ids[KILN_MAX_OUTPUTS] = {0};
    const kiln_expansion_sink sink = {.emit = emit, .user = &self};
    kiln_status status = kiln_ir_expand(env, record, &sink, ids, err);
    if (status == KILN_STATUS_OK) {
        status = copy_out(&self, ids, record, outputs, err);
    }
    for (size_t i = self.n_inputs; i < self.n_views; i++) {
        backend->memory->free(backend, self.views[i].buffer);
    }
    free(self.views);
    return status;
}
