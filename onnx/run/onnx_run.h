// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_SESSION_H
#define KILN_ONNX_SESSION_H

// A session's inside: plans (a list of nodes with its names resolved to slots) and frames (the
// values of one run of a plan).

#include "ir_backend.h"
#include "onnx_import.h"

#define KILNI_ONNX_NO_SLOT UINT32_MAX

typedef struct kilni_onnx_plan kilni_onnx_plan;

/// A node whose names are slots of the plan.
typedef struct kilni_onnx_step {
    const kilni_onnx_node *node;
    const kilni_onnx_row *row; ///< NULL: a call of `function`
    const kilni_onnx_plan *function;
    int64_t version;
    const uint32_t *inputs; ///< KILNI_ONNX_NO_SLOT where left out
    const uint32_t *outputs;
    const uint32_t *captured; ///< slots that graphs inside the node use
    uint32_t n_captured;
} kilni_onnx_step;

typedef struct kilni_onnx_segment kilni_onnx_segment;

/// What the runs of a plan taught: where it reads the device, and its segments.
typedef struct kilni_onnx_replay {
    bool *reading; ///< by step: it once read from the device, so no graph holds it
    uint8_t *misses; ///< by step: how often a segment from it was not met again
    uint32_t n_reading;
    uint64_t reads_before; ///< the session's at the last run of a body
    kilni_onnx_segment *segments;
} kilni_onnx_replay;

struct kilni_onnx_plan {
    const void *key; ///< the graph or function that it is of
    const kilni_onnx_graph *graph; ///< NULL for a function
    const kilni_onnx_function *function; ///< NULL for a graph
    const kilni_onnx_step *steps;
    const char *const *names; ///< of slots
    const uint32_t *uses; ///< how often each slot is read
    const uint32_t *inputs;
    const uint32_t *outputs;
    const uint32_t *initializers;
    const uint32_t *outer; ///< slots that are values of the frame around it
    const uint32_t *outer_from; ///< and which of its slots they are
    uint32_t n_steps;
    uint32_t n_slots;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_outer;
    kilni_onnx_replay *replay;
    kilni_onnx_plan *next;
};

/// A constant of the file with its value, which keeps its tensor.
typedef struct kilni_onnx_kept {
    const kilni_onnx_tensor *tensor;
    kilni_onnx_ref value;
} kilni_onnx_kept;

/// An output that is the next run's input.
typedef struct kilni_onnx_binding {
    uint32_t input; ///< of the model
    uint32_t output;
    kiln_tensor *held; ///< the value as it is, or NULL
    kilni_onnx_growth growth; ///< has it where the run lengthened it
} kilni_onnx_binding;

struct kiln_onnx_session {
    kiln_env env;
    const kiln_onnx_model *model;
    kiln_device *device;
    const kilni_onnx_operators *operators;
    kiln_arena arena; ///< of the plans
    kilni_onnx_plan *plans;
    kilni_onnx_plan *main;
    uint32_t plan_depth;
    uint32_t steps_run; ///< of this run: functions that call functions multiply
    uint64_t n_reads; ///< from the device, of all runs
    bool capturing; ///< a segment
    kilni_onnx_kept *kept; ///< a hash table, its size a power of two
    uint32_t kept_size;
    uint32_t kept_count;
    kiln_backend *host; ///< the reference evaluator, for constants
    kiln_onnx_trace_fn trace;
    void *trace_user;
    kilni_onnx_binding *bindings; ///< room for one for each input of the model
    uint32_t n_bindings;
    bool varied; ///< while a run has bindings: what the caller's stream did before
};

typedef struct kilni_onnx_frame {
    kiln_onnx_session *session;
    const kilni_onnx_plan *plan;
    kilni_onnx_ref *values; ///< by slot
    uint32_t *left; ///< uses to come, by slot
    const kilni_onnx_call *caller; ///< of a function: gives the attributes
    struct kilni_onnx_frame *around; ///< of a branch: gives the values of its outer slots
    uint32_t depth;
} kilni_onnx_frame;

/// The values of a run of a plan, and their end. `frame` may be fini'd after a failed init.
KILN_NODISCARD kiln_status kilni_onnx_frame_init(kilni_onnx_frame *frame,
                                                 kiln_onnx_session *session,
                                                 const kilni_onnx_plan *plan, kiln_error *err);
void kilni_onnx_frame_fini(kilni_onnx_frame *frame);
/// Puts a value into a slot that is still to be read.
void kilni_onnx_put(kilni_onnx_frame *frame, uint32_t slot, kilni_onnx_ref value);
/// One use of a slot is over; after the last its value goes.
void kilni_onnx_used(kilni_onnx_frame *frame, uint32_t slot);

/// Runs one node in a frame.
typedef kiln_status (*kilni_onnx_step_fn)(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                                          kiln_error *err);
KILN_NODISCARD kiln_status kilni_onnx_run_step(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                                               kiln_error *err);

/// Whether this run of a plan may replay segments.
bool kilni_onnx_replays(const kilni_onnx_frame *frame);
/// Replays the segment that begins at a step. One that was met once before is captured first, by
/// running its steps with `run_step`.
/// `*out_end` is the step behind it, or `begin` where there is nothing to replay.
KILN_NODISCARD kiln_status kilni_onnx_replay_from(kilni_onnx_frame *frame, uint32_t begin,
                                                  kilni_onnx_step_fn run_step, uint32_t *out_end,
                                                  kiln_error *err);
void kilni_onnx_segments_free(kiln_onnx_session *session);

/// Plans the model's graph with all branches and functions in it, into session->plans and
/// session->main. One thread at a time. Errors: UNIMPLEMENTED naming operator, domain, version and
/// node; INVALID_ARGUMENT; RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_plan_model(kiln_onnx_session *session, kiln_error *err);

/// The plan whose key is a graph or function; NULL when there is none. Borrowed.
const kilni_onnx_plan *kilni_onnx_plan_find(const kiln_onnx_session *session, const void *key);

/// The value of a constant of the file; the session keeps it. Borrowed.
KILN_NODISCARD kiln_status kilni_onnx_keep(kiln_onnx_session *session,
                                           const kilni_onnx_tensor *tensor,
                                           kilni_onnx_ref *out_value, kiln_error *err);

/// The graph that an attribute of the node holds, as a plan with `n_inputs` inputs; NULL after
/// failing. Borrowed.
const kilni_onnx_plan *kilni_onnx_body(kilni_onnx_call *call, const char *name, uint32_t n_inputs);

/// Runs such a graph once: it sees the values around the node. `inputs` by position; each
/// out_values[i] is the caller's hold, NULL after a failure.
void kilni_onnx_run_body(kilni_onnx_call *call, const kilni_onnx_plan *plan, kilni_onnx_ref *inputs,
                         kilni_onnx_ref *out_values);

/// Room for values, NULL at first, and its end with a release of each.
kilni_onnx_ref *kilni_onnx_refs(kilni_onnx_call *call, uint32_t count);
void kilni_onnx_refs_free(kilni_onnx_call *call, kilni_onnx_ref *refs, uint32_t count);

/// Tensors collected over rounds, with a hold on each.
typedef struct kilni_onnx_pile {
    kilni_onnx_ref *items;
    uint32_t count;
    uint32_t capacity;
} kilni_onnx_pile;
kilni_onnx_pile *kilni_onnx_piles(kilni_onnx_call *call, uint32_t count);
void kilni_onnx_piles_free(kilni_onnx_call *call, kilni_onnx_pile *piles, uint32_t count);
void kilni_onnx_pile_add(kilni_onnx_call *call, kilni_onnx_pile *pile, kilni_onnx_ref value);
/// One tensor of them along a new axis; of none, no elements in the type that `info` says.
kilni_onnx_ref kilni_onnx_pile_stack(kilni_onnx_call *call, const kilni_onnx_pile *pile,
                                     const kiln_onnx_value_info *info, int64_t axis);

/// Makes one tensor of values of one shape, along a new axis.
kilni_onnx_ref kilni_onnx_stack(kilni_onnx_call *call, const kilni_onnx_ref *items, uint32_t count,
                                int64_t axis);

/// The binding of an input of the model; NULL: it has none. Borrowed.
kilni_onnx_binding *kilni_onnx_binding_of(const kiln_onnx_session *session, uint32_t input);
kilni_onnx_binding *kilni_onnx_binding_to(const kiln_onnx_session *session, uint32_t output);
/// Lets go of the value that is kept.
void kilni_onnx_binding_drop(kilni_onnx_binding *binding);
/// What a run begins with: `value`, which the run was given, or what is kept (`value` NULL).
/// `*out_value` is the caller's hold. Errors: INVALID_ARGUMENT when there is neither.
KILN_NODISCARD kiln_status kilni_onnx_binding_begin(kiln_onnx_session *session,
                                                    kilni_onnx_binding *binding,
                                                    kilni_onnx_ref value, kilni_onnx_ref *out_value,
                                                    kiln_error *err);
/// What the output became is kept.
KILN_NODISCARD kiln_status kilni_onnx_binding_end(kiln_onnx_session *session,
                                                  kilni_onnx_binding *binding, kilni_onnx_ref value,
                                                  kiln_error *err);

/// Runs a plan in a frame of its own. `inputs` by position; each out_values[i] is the caller's
/// hold.
KILN_NODISCARD kiln_status kilni_onnx_run_plan(kiln_onnx_session *session,
                                               const kilni_onnx_plan *plan,
                                               const kilni_onnx_call *caller,
                                               kilni_onnx_frame *around, kilni_onnx_ref *inputs,
                                               uint32_t n_inputs, kilni_onnx_ref *out_values,
                                               kiln_error *err);

#endif
