// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_GRAPH_AGAIN_H
#define KILN_RUNTIME_GRAPH_AGAIN_H

/// A captured graph's operations recorded once more, for modules on top of the runtime. One thread
/// at a time uses a graph.

#include "kiln_graph.h"

/// The graph's device, and how many inputs and outputs it has.
kiln_device *kilni_graph_on(const kiln_graph *graph, size_t *out_inputs, size_t *out_outputs);

/// Records the operations of a graph on other inputs by the public calls, so that observers learn
/// of them. Composites are recorded as what they became in the capture. The caller holds each
/// out_outputs[i].
kiln_status kilni_graph_again(const kiln_graph *graph, kiln_tensor *const *inputs,
                              kiln_tensor **out_outputs, kiln_error *err);

#endif
