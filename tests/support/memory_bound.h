// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_MEMORY_BOUND_H
#define KILN_TESTS_MEMORY_BOUND_H

/// What liveness alone says about a graph's memory, from the steps of its plan, and what a run
/// takes: neither asks how the runtime assigns memory.

#include "kiln.h"

/// The most that is alive at once during a run, inputs not counted: an operation's inputs are alive
/// while its results are written, unless a result may go on in the memory of an input. Of
/// temporaries, those of unfused operations are taken from what the last run asked for.
uint64_t memory_bound(const kiln_graph *graph);

/// The most that one run makes the device hold, pool and all, beside what it holds before it;
/// results are kept until it is over. `warm` runs come before, each of which gives its results
/// back; idle memory is given back before them. Fails the running case when a run fails.
uint64_t memory_of_run(kiln_device *device, kiln_graph *graph, kiln_tensor *const *inputs,
                       size_t n_inputs, size_t n_outputs, int warm);

/// Prints the graph's memory, value by value: for a case that fails.
void memory_print(const kiln_graph *graph);

#endif
