// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_GRAPH_H
#define KILN_KILN_GRAPH_H

/// Graphs: record once, run often.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_graph kiln_graph;

/// Between begin and end, what this thread records on the device is kept and not run. `inputs` are
/// the tensors that later runs replace; other tensors from before are constants of the graph.
/// Reading a captured value or running a graph inside is an error; an input is given once.
/// Ownership: the graph holds what it uses. Lifetime: n/a. Thread: begin and end on one thread.
/// Errors: FAILED_PRECONDITION when this thread captures already.
KILN_NODISCARD KILN_API kiln_status kiln_graph_begin(kiln_device *device,
                                                     kiln_tensor *const *inputs, size_t n_inputs,
                                                     kiln_error *err);

/// Says within a capture what `input`, one of begin's, becomes with each kiln_graph_advance:
/// `next`, recorded in this capture, of its shape and dtype (an optimiser's step: parameters and
/// moments). It need not be an output besides. Ownership: the graph holds `next`. Lifetime: the
/// capture. Thread: that of begin. Errors: FAILED_PRECONDITION without begin, INVALID_ARGUMENT for
/// a tensor that is no input, has a next value already, or another shape; RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_carry(kiln_device *device, kiln_tensor *input,
                                                     kiln_tensor *next, kiln_error *err);

/// Ends the capture; `outputs` are the tensors that each run produces. The captured tensors
/// themselves never get values. Ownership: `*out_graph` is the caller's (kiln_graph_destroy).
/// Lifetime: until destroyed. Thread: that of begin. Errors: FAILED_PRECONDITION without begin,
/// INVALID_ARGUMENT for an output that was not captured, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_end(kiln_device *device, kiln_tensor *const *outputs,
                                                   size_t n_outputs, kiln_graph **out_graph,
                                                   kiln_error *err);

/// Says within a capture that what is recorded follows from the shapes of its inputs: the graph
/// runs with these shapes only, and refuses others instead of computing something else. An importer
/// says it. Nothing happens when this thread captures nothing. Ownership: n/a. Lifetime: n/a.
/// Thread: that of begin. Errors: none.
KILN_API void kiln_graph_fix_shapes(kiln_device *device);

/// Gives up a capture that was begun; nothing happens when there is none.
/// Ownership: n/a. Lifetime: n/a. Thread: that of begin. Errors: none.
KILN_API void kiln_graph_cancel(kiln_device *device);
KILN_API void kiln_graph_destroy(kiln_graph *graph);

/// Runs the graph on other inputs of the same dtypes. With other shapes the graph is bound again
/// first: slower once for each set of shapes, and an error when an attribute does not fit them.
/// Ownership: inputs are borrowed; each out_tensors[i] is the caller's hold. Lifetime: until
/// released. Thread: one at a time for a graph. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. A
/// failure of queued work comes with the read.
KILN_NODISCARD KILN_API kiln_status kiln_graph_run(kiln_graph *graph, kiln_tensor *const *inputs,
                                                   size_t n_inputs, kiln_tensor **out_tensors,
                                                   size_t n_outputs, kiln_error *err);

/// kiln_graph_run, and puts the next value of each input that is carried in its place in `tensors`.
/// What nobody else holds, and no queued operation mentions, is written over where it lies; others
/// keep the value that they have. Ownership: a carried input's hold is taken and replaced by one on
/// its next value, on success only; other inputs are borrowed; each out_tensors[i] is the caller's
/// hold. Lifetime: until released. Thread: one at a time for a graph. Errors: as kiln_graph_run.
KILN_NODISCARD KILN_API kiln_status kiln_graph_advance(kiln_graph *graph, kiln_tensor **tensors,
                                                       size_t n_tensors, kiln_tensor **out_tensors,
                                                       size_t n_outputs, kiln_error *err);

typedef struct kiln_graph_info {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t ops; ///< operations, drops not counted
    uint64_t blocks; ///< fused blocks, without those that failed
    uint64_t ops_fused; ///< operations in them
    uint64_t steps; ///< what one run enqueues: launches and single operations
    uint64_t blocks_open; ///< fused blocks whose candidates were never measured for these shapes
    uint64_t blocks_failed; ///< run as single operations: a capture anew asks the next fuser
} kiln_graph_info;

#define KILN_GRAPH_INFO_INIT                                                                       \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_info)                                           \
    }

/// What the graph became. Ownership: the caller's struct. Lifetime: n/a. Thread: one at a time for
/// a graph. Errors: none.
KILN_API void kiln_graph_info_get(const kiln_graph *graph, kiln_graph_info *out_info);

enum {
    KILN_EXPLAIN_SOURCE = 1u, ///< with the kernels' source
    KILN_EXPLAIN_MEMORY = 2u ///< with the memory that the steps need
};

/// Writes what was decided for the graph and why: blocks, candidates, scores, winners, and the
/// reasons for operations left alone. `*out_text` is freed with kiln_text_free. Ownership: the
/// caller's text. Lifetime: until freed. Thread: one at a time for a graph. Errors:
/// RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_explain(kiln_graph *graph, uint32_t flags,
                                                       char **out_text, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
