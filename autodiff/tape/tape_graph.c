// SPDX-License-Identifier: MIT OR Apache-2.0
// The gradient of a captured graph as a graph: its operations recorded again under a tape, then
// backward, in a capture of their own.
#include "rt_graph_again.h"
#include "tape_internal.h"

typedef struct graph_pass {
    kiln_device *device;
    kiln_tape *tape;
    size_t n_inputs;
    size_t n_outputs;
    kiln_tensor **results; ///< outputs, then gradients
    size_t n_results;
} graph_pass;

static kiln_status check_graph(const kiln_graph *graph, size_t n_inputs, const size_t *wanted,
                               size_t n_wanted, graph_pass *out_pass, kiln_error *err)
{
    out_pass->device = kilni_graph_on(graph, &out_pass->n_inputs, &out_pass->n_outputs);
    if (n_inputs != out_pass->n_inputs || out_pass->n_outputs == 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the graph has %zu inputs and %zu outputs; %zu inputs are given, and one "
                         "output is needed",
                         out_pass->n_inputs, out_pass->n_outputs, n_inputs);
    }
    for (size_t i = 0; i < n_wanted; i++) {
        if (wanted[i] >= n_inputs) {
            return kiln_fail(err, INVALID_ARGUMENT, "there is no input %zu among %zu", wanted[i],
                             n_inputs);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status record_pass(graph_pass *self, const kiln_graph *graph,
                               kiln_tensor *const *inputs, const size_t *wanted, size_t n_wanted,
                               kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_wanted; i++) {
        KILN_TRY(out, status, kiln_tape_track(self->tape, inputs[wanted[i]], err));
    }
    KILN_TRY(out, status, kilni_graph_again(graph, inputs, self->results, err));
    KILN_TRY(out, status, kiln_backward(self->tape, self->results[0], NULL, err));
    for (size_t i = 0; i < n_wanted; i++) {
        KILN_TRY(
            out, status,
            kiln_gradient(self->tape, inputs[wanted[i]], &self->results[self->n_outputs + i], err));
    }
out:
    return status;
}

kiln_status kiln_graph_gradient(kiln_graph *graph, kiln_tensor *const *inputs, size_t n_inputs,
                                const size_t *wanted, size_t n_wanted, kiln_graph **out_graph,
                                kiln_error *err)
{
    if (out_graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_graph must not be NULL");
    }
    *out_graph = NULL;
    if (graph == NULL || (wanted == NULL && n_wanted > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph and wanted must not be NULL");
    }
    graph_pass self = {.tape = NULL};
    kiln_status status = check_graph(graph, n_inputs, wanted, n_wanted, &self, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_tape_create(self.device, &self.tape, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_env *env = self.tape->env;
    self.n_results = self.n_outputs + n_wanted;
    self.results = kiln_alloc_array(env, self.n_results, sizeof(*self.results));
    if (self.results == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's gradient");
        goto out;
    }
    KILN_TRY(out, status, kiln_graph_begin(self.device, inputs, n_inputs, err));
    status = record_pass(&self, graph, inputs, wanted, n_wanted, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(self.device, self.results, self.n_results, out_graph, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_graph_cancel(self.device);
    }
out:
    for (size_t i = 0; self.results != NULL && i < self.n_results; i++) {
        kiln_release(self.results[i]);
    }
    kiln_free(env, self.results);
    kiln_tape_destroy(self.tape);
    return status;
}
