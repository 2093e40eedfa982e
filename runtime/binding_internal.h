// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_BINDING_INTERNAL_H
#define KILN_RUNTIME_BINDING_INTERNAL_H

/// What capturing a graph (kiln_graph.c) and binding it to shapes and running it (graph_binding.c)
/// share.

#include "memory_internal.h"

/// A captured segment for one set of input shapes.
typedef struct kilni_graph_binding {
    kilni_stream *stream;
    const kiln_fuse_segment *segment; ///< NULL when nothing was recorded
    uint32_t n_tensors;
    kiln_tensor **inputs; ///< the tensors of begin, or placeholders; held
    kiln_tensor **outputs; ///< captured tensors; held
    kilni_place *locals; ///< per segment tensor, for values inside a run
    kilni_place **places; ///< per segment tensor, as the executor sees it
    uint32_t *draws; ///< operations that draw random numbers at each run
    uint32_t n_draws;
    bool stays; ///< a better plan was found, but could not be taken
    struct kilni_graph_binding *next;
} kilni_graph_binding;

struct kiln_graph {
    kiln_device *device;
    size_t n_inputs;
    size_t n_outputs;
    bool fixed; ///< bound to no other shapes
    kilni_graph_binding *bindings; ///< the first is what was captured
    kiln_tensor **leftover_inputs; ///< of a binding that failed, released without the lock
    kiln_tensor **leftover_outputs;
};

static inline const kiln_env *kilni_graph_env(const kiln_device *device)
{
    return &device->context->env;
}

// ---- capture (kiln_graph.c) ----

/// Lets go of tensors, and of their array.
void kilni_graph_release_all(kiln_device *device, kiln_tensor **tensors, size_t count);
/// The stream on which this thread captures, or NULL.
kilni_stream *kilni_graph_find_capture(kiln_device *device, uint64_t thread);
/// Tensors of this device; `what` names them in errors.
kiln_status kilni_graph_check_tensors(const kiln_device *device, kiln_tensor *const *tensors,
                                      size_t count, const char *what, kiln_error *err);
/// Values that other streams have yet to compute are computed.
kiln_status kilni_graph_place_inputs(kiln_device *device, kiln_tensor *const *tensors, size_t count,
                                     kiln_error *err);

// ---- bindings (graph_binding.c) ----

void kilni_graph_binding_free(kiln_graph *graph, kilni_graph_binding *bound);
/// Ends recording on `stream` and makes what a run needs. The stream is the binding's from now on,
/// also on failure.
kiln_status kilni_graph_binding_create(kiln_device *device, kilni_stream *stream,
                                       kilni_graph_binding **out_bound, kiln_error *err);

#endif
