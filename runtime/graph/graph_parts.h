// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_GRAPH_PARTS_H
#define KILN_RUNTIME_GRAPH_PARTS_H

/// What capturing a graph (kiln_graph.c), specialisation it to shapes and running it
/// (graph_specialisation.c), its results (graph_results.c), repeating a run (graph_repeat.c) and
/// carrying results over to the next run (graph_carry.c) share.

#include "memory_internal.h"
#include "rt_device.h"
#include "rt_run.h"
#include "rt_tensor.h"

/// What a specialisation's last run enqueued (graph_repeat.c).
typedef struct kilni_graph_repeat kilni_graph_repeat;

/// A captured segment for one set of input shapes.
typedef struct kilni_graph_specialisation {
    kilni_stream *stream;
    const kiln_fuse_segment *segment; ///< NULL when nothing was recorded
    uint32_t n_tensors;
    kiln_tensor **inputs; ///< placeholders, without memory; held
    kiln_tensor **outputs; ///< captured tensors, then the next values of what is carried; held
    kilni_binding *locals; ///< per segment tensor, for values inside a run
    kilni_binding **bindings; ///< per segment tensor, as the executor sees it
    uint32_t *draws; ///< operations that draw random numbers at each run
    uint32_t n_draws;
    bool stays; ///< a better plan was found, but could not be taken
    kilni_graph_repeat *repeat; ///< NULL: it has not run
    struct kilni_graph_specialisation *next;
} kilni_graph_specialisation;

/// An input whose next value a run makes.
typedef struct kilni_carry {
    uint32_t input;
    bool passed_on; ///< the input is an output, too: its value stays
    bool in_place; ///< of this run: nobody but the caller has the input's value
    kiln_tensor *other; ///< while a run advances, not in place: the next value's, then the input
} kilni_carry;

struct kiln_graph {
    kiln_device *device;
    size_t n_inputs;
    size_t n_outputs;
    size_t *input_of; ///< per output: the input that it is; n_inputs: none
    uint32_t *carry_of; ///< per input: its carry; UINT32_MAX: none
    kilni_carry *carries;
    uint32_t n_carries;
    bool fixed; ///< bound to no other shapes
    kilni_graph_specialisation *specialisations; ///< the first is what was captured
    kiln_tensor **leftover_inputs; ///< of a specialisation that failed, released without the lock
    kiln_tensor **leftover_outputs;
};

/// What each run makes: outputs and next values.
static inline size_t kilni_graph_results(const kiln_graph *graph)
{
    return graph->n_outputs + graph->n_carries;
}

static inline const kiln_env *kilni_graph_env(const kiln_device *device)
{
    return &device->context->env;
}

// ---- capture (graph_capture.c) ----

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

// ---- specialisations (graph_specialisation.c) ----

void kilni_graph_specialisation_free(kiln_graph *graph, kilni_graph_specialisation *spec);
/// Ends recording on `stream` and makes what a run needs. The stream is the specialisation's from
/// now on, also on failure.
kiln_status kilni_graph_specialisation_create(kiln_device *device, kilni_stream *stream,
                                              kilni_graph_specialisation **out_spec,
                                              kiln_error *err);
/// Puts placeholders where the captured specialisation mentions `inputs`, the tensors of begin, so
/// that the graph holds no memory of theirs.
kiln_status kilni_graph_stand_in(kiln_graph *graph, kiln_tensor *const *inputs, kiln_error *err);

// ---- results (graph_results.c) ----

/// Which input a result is; n_inputs when it is none.
size_t kilni_graph_input_of(const kiln_graph *graph, size_t result);
/// The tensors of a run's outputs, before there are values: an input that is passed on is as long
/// as that run's.
kiln_status kilni_graph_make_outputs(const kiln_graph *graph,
                                     const kilni_graph_specialisation *spec,
                                     kiln_tensor *const *inputs, kiln_tensor **out_tensors,
                                     kiln_error *err);
/// Where a result of a run is.
const kilni_binding *kilni_graph_result(const kiln_graph *graph,
                                        const kilni_graph_specialisation *spec,
                                        kiln_tensor *const *inputs, size_t result);

// ---- runs that repeat (graph_repeat.c; all under the lock) ----

/// Runs the graph as it ran before, where that is possible. False: nothing was done.
bool kilni_graph_run_again(const kiln_graph *graph, kiln_tensor *const *inputs, bool advancing,
                           kiln_tensor **out_tensors);
/// For a run of the executor that is about to begin, its inputs placed, the carried ones not yet
/// taken; NULL: it is not noted.
kilni_repeat *kilni_graph_repeat_begin(const kiln_graph *graph, kilni_graph_specialisation *spec,
                                       kiln_tensor *const *inputs, bool advancing);
/// That run is over, its results given, its bindings still there.
void kilni_graph_repeat_end(const kiln_graph *graph, kilni_graph_specialisation *spec,
                            kiln_tensor *const *inputs);
void kilni_graph_repeat_free(const kiln_graph *graph, kilni_graph_specialisation *spec);

// ---- what is carried (graph_carry.c; all but release under the lock) ----

/// At the end of a capture: what is carried dies with its last use.
kiln_status kilni_carry_record(kilni_stream *stream, kiln_error *err);
/// Fills in `carry_of` and `carries` for the inputs that have a next value in `next`, or NULL.
kiln_status kilni_carry_adopt(kiln_graph *graph, kiln_tensor *const *next, kiln_error *err);
/// Decides what this run may write over, and makes tensors for the next values of the others.
kiln_status kilni_carry_prepare(kiln_graph *graph, const kilni_graph_specialisation *spec,
                                kiln_tensor *const *tensors, kiln_error *err);
/// From here the run has the only share in what it may write over: it cannot fail any more.
void kilni_carry_take(kiln_graph *graph, kiln_tensor *const *tensors);
/// Puts the next value of carry `k` in its input's place.
void kilni_carry_give(kiln_graph *graph, uint32_t k, const kilni_binding *binding,
                      kiln_tensor **tensors);
/// Without the lock: lets go of what was replaced, or made in vain.
void kilni_carry_release(kiln_graph *graph);

#endif
