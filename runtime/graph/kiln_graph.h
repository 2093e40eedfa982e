// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_GRAPH_H
#define KILN_KILN_GRAPH_H

/// Graphs: record once, run often. Between kiln_graph_begin and kiln_graph_end, what a thread
/// records on a device is kept and not run.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; one thread at a time uses a graph; a graph holds what it needs; it can fail with
/// INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a
/// function without a status then does nothing and gives 0.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_graph kiln_graph;

/// Begins a capture on this thread. `inputs` are the tensors that later runs replace, each given
/// once; other tensors from before become constants of the graph. Inside a capture it is an error
/// to read an input or a captured value, or to run a graph. Errors: FAILED_PRECONDITION when this
/// thread captures already.
KILN_NODISCARD KILN_API kiln_status kiln_graph_begin(kiln_device *device,
                                                     kiln_tensor *const *inputs, size_t n_inputs,
                                                     kiln_error *err);

/// Says within a capture what `input`, one of begin's, becomes with each kiln_graph_advance:
/// `next`, recorded in this capture, of the same shape and dtype. An optimiser carries parameters
/// and moments so. `next` need not be an output too. Call it on the thread of begin. Errors:
/// FAILED_PRECONDITION without begin; INVALID_ARGUMENT for a tensor that is no input, has a next
/// value already, or has another shape.
KILN_NODISCARD KILN_API kiln_status kiln_graph_carry(kiln_device *device, kiln_tensor *input,
                                                     kiln_tensor *next, kiln_error *err);

/// Ends the capture on the thread of begin. `outputs` are the tensors that each run produces; the
/// captured tensors themselves never get values. The caller owns `*out_graph` (kiln_graph_destroy).
/// Errors: FAILED_PRECONDITION without begin, INVALID_ARGUMENT for an output that was not captured.
KILN_NODISCARD KILN_API kiln_status kiln_graph_end(kiln_device *device, kiln_tensor *const *outputs,
                                                   size_t n_outputs, kiln_graph **out_graph,
                                                   kiln_error *err);

/// Says within a capture that what is recorded follows from the shapes of its inputs. The graph
/// then refuses other shapes instead of computing something else. Importers call it. Nothing
/// happens when this thread captures nothing.
KILN_API void kiln_graph_fix_shapes(kiln_device *device);

/// Whether this thread captures a graph on the device.
KILN_API bool kiln_graph_is_capturing(kiln_device *device);

/// Gives up the capture of this thread. Nothing happens when there is none.
KILN_API void kiln_graph_cancel(kiln_device *device);

/// Frees the graph. Takes NULL.
KILN_API void kiln_graph_destroy(kiln_graph *graph);

/// Runs the graph on other inputs of the same dtypes. For other shapes the graph is bound again
/// first: slower once for each set of shapes, and an error when an attribute does not fit them. The
/// caller holds each out_tensors[i]. A failure of queued work comes with the read.
KILN_NODISCARD KILN_API kiln_status kiln_graph_run(kiln_graph *graph, kiln_tensor *const *inputs,
                                                   size_t n_inputs, kiln_tensor **out_tensors,
                                                   size_t n_outputs, kiln_error *err);

/// Runs the graph, and puts the next value of each carried input in its place in `tensors`. A value
/// that nobody else holds, and that no queued operation mentions, is overwritten where it lies;
/// others keep their value. On success the caller's reference to a carried input is replaced by one
/// to its next value. The caller holds each out_tensors[i]. Errors: as kiln_graph_run.
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

/// Fills what the graph became. Set `struct_size` before.
KILN_API void kiln_graph_info_get(const kiln_graph *graph, kiln_graph_info *out_info);

enum {
    KILN_EXPLAIN_SOURCE = 1u, ///< with the kernels' source
    KILN_EXPLAIN_MEMORY = 2u ///< with the memory that the steps need
};

/// Writes what was decided for the graph and why: blocks, candidates, scores, winners, and why
/// operations were left unfused. `flags` are KILN_EXPLAIN_* bits. The caller frees `*out_text` with
/// kiln_text_free.
KILN_NODISCARD KILN_API kiln_status kiln_graph_explain(kiln_graph *graph, uint32_t flags,
                                                       char **out_text, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
