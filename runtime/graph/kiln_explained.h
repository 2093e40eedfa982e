// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_EXPLAINED_H
#define KILN_KILN_EXPLAINED_H

/// What was decided for a graph and why, as data, for tools. kiln.h does not include it.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "ir_explain.h"
#include "kiln_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Fills an explanation (ir_explain.h). After runs under a trace (kiln_trace_start) its steps have
/// their times. The programs in it are the graph's, so it must end before the graph
/// (kiln_graph_explained_fini). One thread at a time for a graph.
KILN_NODISCARD KILN_API kiln_status kiln_graph_explained(kiln_graph *graph,
                                                         kiln_explanation *out_explanation,
                                                         kiln_error *err);

/// Frees what an explanation holds.
KILN_API void kiln_graph_explained_fini(kiln_explanation *explanation);

/// Builds a program of an explanation, or takes it from the cache, and calls `take` for each of its
/// sources with the compiler's options and the device's binary, which are borrowed for that call.
/// `take` must not call the device. Errors: UNIMPLEMENTED by a device that takes no programs; those
/// of the build.
KILN_NODISCARD KILN_API kiln_status kiln_program_parts(kiln_device *device,
                                                       const kiln_program *program,
                                                       kiln_program_part_fn take, void *user,
                                                       kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
