// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_SESSION_H
#define KILN_ONNX_SESSION_H

// A session's inside: plans (a list of nodes with its names resolved to slots) and frames (the
// values of one run of a plan).

#include "ir_backend.h"
#include "onnx_place.h"

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
    const bool *in_f32; ///< by step: it stays in f32 though the model is kept in a narrower type;
                        ///< NULL: none does
    kilni_onnx_plan *next;
};

/// A constant of the file, or what an operator made of its attributes, with its value on a device,
/// which keeps its tensor.
typedef struct kilni_onnx_kept {
    const void *key; ///< the address of what the file says
    const kiln_device *device;
    kilni_onnx_ref value;
} kilni_onnx_kept;

/// The strings that a session met. One is known by its place.
typedef struct kilni_onnx_text_list {
    char **texts;
    uint32_t *table; ///< by hash: place + 1; its size is a power of two
    uint32_t table_size;
    uint32_t count;
    uint32_t capacity;
    uint32_t n_kept; ///< the first ones are kept: the model's are among them
} kilni_onnx_text_list;

/// An output that is the next run's input.
typedef struct kilni_onnx_binding {
    uint32_t input; ///< of the model
    uint32_t output;
    kiln_tensor *held; ///< the value as it is, or NULL
    kilni_onnx_growth growth; ///< has it where the run lengthened it
} kilni_onnx_binding;

/// A value that comes to a part's device.
typedef struct kilni_onnx_coming {
    uint32_t slot;
    const kilni_onnx_tensor *tensor; ///< of a constant of the file that an earlier part reads, too
} kilni_onnx_coming;

/// A range of the model's steps, and the device that they run on.
typedef struct kilni_onnx_part {
    kiln_device *device; ///< held
    uint32_t begin;
    uint32_t end;
    uint64_t bytes; ///< of the constants that they read
    const kilni_onnx_coming *comes;
    uint32_t n_comes;
    uint32_t n_cut; ///< of them, results of the parts before
    bool varied; ///< while a run has bindings: what the caller's stream did before
} kilni_onnx_part;

/// What follows from constants and shapes alone, and is not computed again (onnx_settled.c). Arrays
/// are the arena's; by step and slot of the model's plan.
typedef struct kilni_onnx_settled {
    uint8_t *steps; ///< what is known of each
    uint8_t *slots; ///< what is known of the value that this run has there
    uint8_t *crosses; ///< kinds of steps that read it without being of its own kind
    kilni_onnx_ref *values; ///< kept ones, held
    uint32_t *left; ///< uses by the steps that are not left out
    kiln_tensor_desc *shapes; ///< of the inputs in the runs that it was learnt from
    uint8_t always; ///< how far what always is the same has come
    uint8_t shaped; ///< and what follows from these shapes
    uint8_t skips; ///< kind of steps that this run leaves out
    uint8_t counted; ///< and that `left` is for
    bool runs; ///< this run is of any interest
    bool learns;
    bool captured; ///< it is in its caller's capture
    uint64_t looks; ///< before the step
} kilni_onnx_settled;

struct kiln_onnx_session {
    kiln_env env;
    const kiln_onnx_model *model;
    kiln_device *device; ///< of the part that runs; else the first
    kilni_onnx_part *parts; ///< one at least
    uint32_t n_parts;
    kiln_dtype kept_in; ///< f16 or bf16, what floats of f32 are kept in; NONE: in f32
    bool spans; ///< made for several devices, though one part may do
    const kilni_onnx_operators *operators;
    kiln_arena arena; ///< of the plans
    kilni_onnx_plan *plans;
    kilni_onnx_plan *main;
    uint32_t plan_depth;
    uint32_t steps_run; ///< of this run: functions that call functions multiply
    uint64_t n_reads; ///< from the device, of all runs
    uint64_t n_looks; ///< at contents that are no constants, of all runs
    bool folds_many; ///< constants of many elements are computed on the host, too
    kilni_onnx_settled settled;
    kilni_onnx_ref *weights; ///< of a run that was given some, by initialiser; NULL: none
    bool capturing; ///< a segment
    kilni_onnx_kept *kept; ///< a hash table, its size a power of two
    uint32_t kept_size;
    uint32_t kept_count;
    kilni_onnx_text_list texts;
    kiln_backend *host; ///< the reference evaluator, for constants
    kiln_onnx_trace_fn trace;
    void *trace_user;
    kilni_onnx_binding *bindings; ///< room for one for each input of the model
    uint32_t n_bindings;
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

/// Cuts the model's plan into a part for each device, as far as that is needed: by the memory that
/// constants take, in the order of the steps, where few values cross. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_split(kiln_onnx_session *session, kiln_device *const *devices,
                                            uint32_t n_devices, kiln_error *err);
/// The part whose first step this is; NULL: none's, or the model runs on one device.
const kilni_onnx_part *kilni_onnx_part_at(const kilni_onnx_frame *frame, uint32_t step);
/// From here on the part's device has the work; what its steps read comes there.
KILN_NODISCARD kiln_status kilni_onnx_enter(kilni_onnx_frame *frame, const kilni_onnx_part *part,
                                            kiln_error *err);
/// Calls `fn` for each slot that steps read.
typedef void (*kilni_onnx_slot_fn)(uint32_t slot, void *user);
void kilni_onnx_each_use(const kilni_onnx_plan *plan, uint32_t begin, uint32_t end,
                         kilni_onnx_slot_fn fn, void *user);

/// Runs one node in a frame.
typedef kiln_status (*kilni_onnx_step_fn)(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                                          kiln_error *err);
KILN_NODISCARD kiln_status kilni_onnx_run_step(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                                               kiln_error *err);

/// What settles of the model's plan; every other frame is passed over. `begin` goes before anything
/// is put into the frame, `before` and `after` around each step that is not left out, `end` last.
KILN_NODISCARD kiln_status kilni_onnx_settled_init(kiln_onnx_session *session, kiln_error *err);
void kilni_onnx_settled_forget(kiln_onnx_session *session);
void kilni_onnx_settled_begin(kilni_onnx_frame *frame, kilni_onnx_ref *inputs, uint32_t n_inputs);
/// The kind of steps that this run leaves out, for what others read of them is there; 0: none.
uint8_t kilni_onnx_settled_kind(const kilni_onnx_frame *frame);
void kilni_onnx_settled_before(kilni_onnx_frame *frame, const kilni_onnx_step *step);
void kilni_onnx_settled_after(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                              const kilni_onnx_ref *outputs);
void kilni_onnx_settled_end(kilni_onnx_frame *frame, kiln_status status);

/// Whether this run of a plan may replay segments.
bool kilni_onnx_replays(const kilni_onnx_frame *frame);
/// Replays the segment that begins at a step. One that was met once before is captured first, by
/// running its steps with `run_step`.
/// `*out_end` is the step behind it, or `begin` where there is nothing to replay.
KILN_NODISCARD kiln_status kilni_onnx_replay_from(kilni_onnx_frame *frame, uint32_t begin,
                                                  kilni_onnx_step_fn run_step, uint32_t *out_end,
                                                  kiln_error *err);
void kilni_onnx_segments_free(kiln_onnx_session *session);

/// The order in which nodes run, each behind those that make what it reads; in a circle the
/// file's. `order` has room for `count`. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_order(const kiln_env *env, const kilni_onnx_node *nodes,
                                            uint32_t count, uint32_t *order, kiln_error *err);

/// Plans the model's graph with all branches and functions in it, into session->plans and
/// session->main. One thread at a time. Errors: UNIMPLEMENTED naming operator, domain, version and
/// node; INVALID_ARGUMENT; RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_plan_model(kiln_onnx_session *session, kiln_error *err);

/// Chooses what the planned model is kept in. Errors: those of kiln_onnx_session_create_with.
KILN_NODISCARD kiln_status kilni_onnx_choose_dtype(kiln_onnx_session *session,
                                                   kiln_device *const *devices, size_t n_devices,
                                                   const kiln_onnx_session_options *options,
                                                   kiln_error *err);

/// Plans the nodes of the model's graph one by one, and tells of each what it fails with.
KILN_NODISCARD kiln_status kilni_onnx_survey(kiln_onnx_session *session, kiln_onnx_survey_fn fn,
                                             void *user, kiln_error *err);

/// The plan whose key is a graph or function; NULL when there is none. Borrowed.
const kilni_onnx_plan *kilni_onnx_plan_find(const kiln_onnx_session *session, const void *key);

/// The value of a constant of the file on the device that has the work; the session keeps it.
/// Borrowed.
KILN_NODISCARD kiln_status kilni_onnx_keep(kiln_onnx_session *session,
                                           const kilni_onnx_tensor *tensor,
                                           kilni_onnx_ref *out_value, kiln_error *err);

/// The number of a text that ends after `length` bytes or at a zero. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD kiln_status kilni_onnx_text_add(kiln_onnx_session *session, const char *text,
                                               size_t length, bool kept, int32_t *out_number,
                                               kiln_error *err);
/// The text of a number, empty where there is none. It lives until the next run.
const char *kilni_onnx_text_at(const kiln_onnx_session *session, int32_t number);
/// Makes a value, whose lengths are set, one of these strings. Errors: also INVALID_ARGUMENT for a
/// NULL among them.
KILN_NODISCARD kiln_status kilni_onnx_texts_fill(kiln_onnx_session *session, kilni_onnx_ref value,
                                                 const char *const *texts, bool kept,
                                                 kiln_error *err);
/// Whether runs brought more texts than are kept between two; forgetting them lets numbers come to
/// mean other texts.
bool kilni_onnx_texts_are_many(const kiln_onnx_session *session);
void kilni_onnx_texts_forget(kiln_onnx_session *session);
void kilni_onnx_texts_free(kiln_onnx_session *session);

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
