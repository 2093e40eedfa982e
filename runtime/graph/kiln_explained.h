// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_EXPLAINED_H
#define KILN_KILN_EXPLAINED_H

/// What was decided for a graph and why, as data, for tools. kiln.h does not include it.

#include "ir_explain.h"
#include "kiln_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The same as data, for tools: ir.h describes it. After runs under a trace (kiln_trace_start) its
/// steps have their times. Programs in it are the graph's. Ownership: the caller's
/// (kiln_graph_explained_fini). Lifetime: within the graph's. Thread: one at a time for a graph.
/// Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_graph_explained(kiln_graph *graph,
                                                         kiln_explanation *out_explanation,
                                                         kiln_error *err);
KILN_API void kiln_graph_explained_fini(kiln_explanation *explanation);

/// Builds a program of an explanation, or takes it from the cache, and gives `take` for each of its
/// sources the compiler's options and the device's binary. Ownership: what `take` gets is borrowed.
/// Lifetime: of that, the call of `take`. Thread: any; `take` may not call the device. Errors:
/// UNIMPLEMENTED by a device that takes no programs; of the build.
KILN_NODISCARD KILN_API kiln_status kiln_program_parts(kiln_device *device,
                                                       const kiln_program *program,
                                                       kiln_program_part_fn take, void *user,
                                                       kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
