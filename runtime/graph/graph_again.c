// SPDX-License-Identifier: MIT OR Apache-2.0
// A graph's operations recorded once more. Decides which tensor stands for each of the capture's:
// the caller's inputs, constants as they are, and results that are made on the way.

#include "rt_graph_again.h"

#include "graph_parts.h"
#include "kiln_record.h"

typedef struct again {
    const kiln_graph *graph;
    const kilni_graph_specialisation *base;
    kiln_tensor **map; ///< by number in the segment
    bool *made; ///< held by this
} again;

kiln_device *kilni_graph_on(const kiln_graph *graph, size_t *out_inputs, size_t *out_outputs)
{
    *out_inputs = graph->n_inputs;
    *out_outputs = graph->n_outputs;
    return graph->device;
}

static uint32_t number_of(const again *self, const void *token)
{
    uint32_t i = 0;
    while (i < self->base->n_tensors && self->base->segment->tokens[i] != token) {
        i++;
    }
    return i;
}

static void let_go_of(again *self, uint32_t number)
{
    if (self->made[number]) {
        kiln_release(self->map[number]);
        self->map[number] = NULL;
        self->made[number] = false;
    }
}

static kiln_status record_one(again *self, uint32_t op, kiln_error *err)
{
    const kiln_fuse_segment *segment = self->base->segment;
    const kiln_op_record *record = &segment->ops[op];
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *outputs[KILN_MAX_OUTPUTS] = {NULL};
    if (record->op == KILN_OP_DROP) {
        let_go_of(self, number_of(self, segment->operands[op][0]));
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        inputs[i] = self->map[number_of(self, segment->operands[op][i])];
    }
    kiln_status status = kiln_record(self->graph->device, record->op, inputs, record->n_inputs,
                                     record->attrs, record->n_attrs, outputs, err);
    for (size_t i = 0; i < record->n_outputs && status == KILN_STATUS_OK; i++) {
        uint32_t number = number_of(self, segment->operands[op][record->n_inputs + i]);
        self->map[number] = outputs[i];
        self->made[number] = true;
    }
    return status;
}

static void map_inputs(again *self, kiln_tensor *const *inputs)
{
    for (uint32_t i = 0; i < self->base->n_tensors; i++) {
        kiln_tensor *tensor = self->base->segment->tokens[i];
        self->map[i] = tensor->captured ? NULL : tensor;
        for (size_t k = 0; k < self->graph->n_inputs; k++) {
            self->map[i] = tensor == self->base->inputs[k] ? inputs[k] : self->map[i];
        }
    }
}

static void give_outputs(const again *self, kiln_tensor *const *inputs, kiln_tensor **out_outputs)
{
    for (size_t i = 0; i < self->graph->n_outputs; i++) {
        kiln_tensor *output = self->base->outputs[i];
        size_t input = self->graph->input_of[i];
        if (input < self->graph->n_inputs) {
            output = inputs[input];
        } else if (output->captured) {
            output = self->map[number_of(self, output)];
        }
        out_outputs[i] = kiln_retain(output);
    }
}

kiln_status kilni_graph_again(const kiln_graph *graph, kiln_tensor *const *inputs,
                              kiln_tensor **out_outputs, kiln_error *err)
{
    const kiln_env *env = kilni_graph_env(graph->device);
    again self = {.graph = graph, .base = graph->specialisations};
    uint32_t count = self.base->segment != NULL ? self.base->n_tensors : 0;
    kiln_status status = KILN_STATUS_OK;
    self.map = kiln_alloc_array(env, count + 1u, sizeof(*self.map));
    self.made = kiln_alloc_array(env, count + 1u, sizeof(*self.made));
    if (self.map == NULL || self.made == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to record a graph again");
        goto out;
    }
    if (self.base->segment != NULL) {
        map_inputs(&self, inputs);
        for (uint32_t op = 0; op < self.base->segment->plan->n_ops; op++) {
            KILN_TRY(out, status, record_one(&self, op, err));
        }
    }
    give_outputs(&self, inputs, out_outputs);
out:
    for (uint32_t i = 0; self.made != NULL && i < count; i++) {
        let_go_of(&self, i);
    }
    kiln_free(env, self.map);
    kiln_free(env, self.made);
    return status;
}
