// SPDX-License-Identifier: MIT OR Apache-2.0
// Results of a graph's runs: makes their tensors, and finds where each of them is, in the run's own
// memory, with an input that is passed on, or outside.

#include "graph_parts.h"
#include "rt_tensor.h"

size_t kilni_graph_input_of(const kiln_graph *graph, size_t result)
{
    return result < graph->n_outputs ? graph->input_of[result] : graph->n_inputs;
}

const kilni_binding *kilni_graph_result(const kiln_graph *graph,
                                        const kilni_graph_specialisation *spec,
                                        kiln_tensor *const *inputs, size_t result)
{
    const kiln_tensor *tensor = spec->outputs[result];
    size_t input = kilni_graph_input_of(graph, result);
    if (input < graph->n_inputs) {
        return &inputs[input]->binding;
    }
    return tensor->captured ? spec->bindings[tensor->slot] : &tensor->binding;
}

kiln_status kilni_graph_make_outputs(const kiln_graph *graph,
                                     const kilni_graph_specialisation *spec,
                                     kiln_tensor *const *inputs, kiln_tensor **out_tensors,
                                     kiln_error *err)
{
    for (size_t i = 0; i < graph->n_outputs; i++) {
        size_t input = kilni_graph_input_of(graph, i);
        out_tensors[i] = kilni_tensor_new(spec->outputs[i]->handle, input < graph->n_inputs
                                                                        ? &inputs[input]->desc
                                                                        : &spec->outputs[i]->desc);
        if (out_tensors[i] == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
        }
        out_tensors[i]->desc.small = graph->specialisations->outputs[i]->desc.small;
    }
    return KILN_STATUS_OK;
}
