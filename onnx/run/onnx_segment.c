// SPDX-License-Identifier: MIT OR Apache-2.0
// Segments: the nodes between two reads of the device, or of a part on one, captured as a graph
// when a second run meets them with the same shapes, constants and numbers, and replayed from then
// on without the importer. Decides when that pays (never inside a caller's capture, nor where
// rounds of a loop run into each other; a model that reads nothing is its caller's to capture as a
// whole) and what two runs have to have in common. What cannot be captured is recorded as ever.
#include "onnx_run.h"

#include <string.h>

enum { MAX_VARIANTS = 4, MAX_MISSES = 16, MIN_STEPS = 2, MAX_LOOKED = 64 * 8, NO_INDEX = -1 };

/// A value from before the segment, as the captured run had it.
typedef struct live_in {
    uint32_t slot;
    kilni_onnx_ref constant; ///< held; NULL: a tensor that each run gives
    kiln_tensor_desc desc;
    kiln_dtype kept_in;
    int32_t narrow;
    void *looked; ///< contents that decided about something; NULL: none did
} live_in;

/// A value that is read behind the segment: a constant, one of the inputs, or a graph's output.
typedef struct live_out {
    uint32_t slot;
    kilni_onnx_ref constant; ///< held
    int32_t from_in;
    int32_t from_graph;
    kiln_dtype dtype; ///< as the model has it: the graph may give a narrower one
    kilni_onnx_answer large;
    bool statistic;
    int32_t narrow;
} live_out;

struct kilni_onnx_segment {
    uint32_t begin;
    uint32_t end;
    live_in *ins;
    live_out *outs;
    uint32_t n_ins;
    uint32_t n_outs;
    uint32_t n_given; ///< tensors among the ins: the graph's inputs, in order
    uint32_t n_made; ///< outputs of the graph
    kiln_graph *graph; ///< NULL: seen once
    bool hopeless; ///< could not be captured
    kilni_onnx_segment *next;
};

// ---- life ----

static void segment_destroy(const kiln_env *env, kilni_onnx_segment *segment)
{
    if (segment == NULL) {
        return;
    }
    kiln_graph_destroy(segment->graph);
    for (uint32_t i = 0; segment->ins != NULL && i < segment->n_ins; i++) {
        kilni_onnx_release(env, segment->ins[i].constant);
        kiln_free(env, segment->ins[i].looked);
    }
    for (uint32_t i = 0; segment->outs != NULL && i < segment->n_outs; i++) {
        kilni_onnx_release(env, segment->outs[i].constant);
    }
    kiln_free(env, segment->ins);
    kiln_free(env, segment->outs);
    kiln_free(env, segment);
}

void kilni_onnx_segments_free(kiln_onnx_session *session)
{
    for (kilni_onnx_plan *plan = session->plans; plan != NULL; plan = plan->next) {
        kilni_onnx_replay *replay = plan->replay;
        while (replay != NULL && replay->segments != NULL) {
            kilni_onnx_segment *next = replay->segments->next;
            segment_destroy(&session->env, replay->segments);
            replay->segments = next;
        }
    }
}

static void show(const kilni_onnx_plan *plan, const kilni_onnx_segment *segment,
                 kiln_onnx_graph_fn fn, void *user)
{
    const kiln_onnx_graph_info info = {.struct_size = (uint32_t)sizeof(info),
                                       .first_node = segment->begin,
                                       .n_nodes = segment->end - segment->begin,
                                       .n_others = plan->n_steps,
                                       .where = plan->graph != NULL ? plan->graph->name
                                                                    : plan->function->name,
                                       .op_type = plan->steps[segment->begin].node->op_type,
                                       .graph = segment->graph};
    fn(&info, user);
}

void kiln_onnx_session_graphs(const kiln_onnx_session *session, kiln_onnx_graph_fn fn, void *user)
{
    if (session == NULL) {
        return;
    }
    for (const kilni_onnx_plan *plan = session->plans; plan != NULL; plan = plan->next) {
        for (uint32_t begin = 0; plan->replay != NULL && begin < plan->n_steps; begin++) {
            const kilni_onnx_segment *segment = plan->replay->segments;
            for (; segment != NULL; segment = segment->next) {
                if (segment->begin == begin && segment->graph != NULL) {
                    show(plan, segment, fn, user);
                }
            }
        }
    }
}

// ---- what a segment reads and gives ----

typedef struct counting {
    uint32_t *uses; ///< by slot
} counting;

static void count_use(uint32_t slot, void *user)
{
    if (slot != KILNI_ONNX_NO_SLOT) {
        ((counting *)user)->uses[slot]++;
    }
}

/// A value can cross a segment's border when it is a tensor that is somewhere.
static bool crosses(const kilni_onnx_value *value)
{
    return value != NULL && value->form == KILNI_ONNX_TENSOR &&
           (value->constant ? value->host != NULL || kiln_desc_count(&value->desc) == 0
                            : value->tensor != NULL);
}

static bool list_ins(kilni_onnx_segment *segment, const kilni_onnx_frame *frame,
                     const uint32_t *uses)
{
    const kilni_onnx_plan *plan = frame->plan;
    for (uint32_t slot = 0; slot < plan->n_slots; slot++) {
        kilni_onnx_ref value = frame->values[slot];
        if (uses[slot] == 0 || value == NULL) {
            continue; /* not read, or made inside */
        }
        if (!crosses(value)) {
            return false;
        }
        live_in *in = &segment->ins[segment->n_ins++];
        *in = (live_in){.slot = slot, .desc = value->desc, .narrow = value->narrow};
        in->kept_in = kilni_onnx_kept_in(value);
        if (value->constant) {
            in->constant = kilni_onnx_retain(value);
        } else {
            segment->n_given++;
        }
    }
    return true;
}

static void list_outs(kilni_onnx_segment *segment, const kilni_onnx_frame *frame,
                      const uint32_t *uses)
{
    const kilni_onnx_plan *plan = frame->plan;
    for (uint32_t i = segment->begin; i < segment->end; i++) {
        const kilni_onnx_step *step = &plan->steps[i];
        for (uint32_t k = 0; k < step->node->n_outputs; k++) {
            uint32_t slot = step->outputs[k];
            if (slot != KILNI_ONNX_NO_SLOT && frame->left[slot] > uses[slot]) {
                segment->outs[segment->n_outs++] =
                    (live_out){.slot = slot, .from_in = NO_INDEX, .from_graph = NO_INDEX};
            }
        }
    }
}

static uint32_t count_outputs(const kilni_onnx_plan *plan, uint32_t begin, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; i++) {
        count += plan->steps[i].node->n_outputs;
    }
    return count;
}

/// The segment as this run meets it, without a graph. NULL: a value that cannot cross, or no
/// memory.
static kilni_onnx_segment *meet(const kilni_onnx_frame *frame, uint32_t begin, uint32_t end)
{
    const kiln_env *env = &frame->session->env;
    const kilni_onnx_plan *plan = frame->plan;
    kilni_onnx_segment *segment = kiln_alloc(env, sizeof(*segment));
    counting c = {.uses = kiln_alloc_array(env, plan->n_slots + 1u, sizeof(*c.uses))};
    bool ok = segment != NULL && c.uses != NULL;
    if (ok) {
        segment->begin = begin;
        segment->end = end;
        segment->ins = kiln_alloc_array(env, plan->n_slots + 1u, sizeof(*segment->ins));
        segment->outs =
            kiln_alloc_array(env, count_outputs(plan, begin, end) + 1u, sizeof(*segment->outs));
        ok = segment->ins != NULL && segment->outs != NULL;
    }
    if (ok) {
        kilni_onnx_each_use(plan, begin, end, count_use, &c);
        ok = list_ins(segment, frame, c.uses);
    }
    if (ok) {
        list_outs(segment, frame, c.uses);
    } else {
        segment_destroy(env, segment);
        segment = NULL;
    }
    kiln_free(env, c.uses);
    return segment;
}

// ---- the same again ----

static bool same_contents(const kilni_onnx_value *value, const void *contents)
{
    size_t bytes = (size_t)kiln_desc_bytes(&value->desc);
    return value->host != NULL && memcmp(value->host, contents, bytes) == 0;
}

static bool in_fits(const live_in *in, const kilni_onnx_value *value)
{
    if (!crosses(value) || !kiln_desc_same_shape(&in->desc, &value->desc) ||
        in->desc.dtype != value->desc.dtype ||
        (!value->constant && in->kept_in != kilni_onnx_kept_in(value)) ||
        in->narrow != value->narrow || value->constant != (in->constant != NULL)) {
        return false;
    }
    if (value->constant) {
        return value == in->constant || kiln_desc_count(&value->desc) == 0 ||
               same_contents(value, in->constant->host);
    }
    return in->looked == NULL || same_contents(value, in->looked);
}

static bool fits(const kilni_onnx_segment *segment, const kilni_onnx_frame *frame, uint32_t begin,
                 uint32_t end)
{
    bool fit = segment->begin == begin && segment->end == end;
    for (uint32_t i = 0; fit && i < segment->n_ins; i++) {
        fit = in_fits(&segment->ins[i], frame->values[segment->ins[i].slot]);
    }
    return fit;
}

/// The variant that fits moves to the front; beyond a few the one that was not used longest goes.
static kilni_onnx_segment *find(kilni_onnx_replay *replay, const kilni_onnx_frame *frame,
                                uint32_t begin, uint32_t end)
{
    for (kilni_onnx_segment **link = &replay->segments; *link != NULL; link = &(*link)->next) {
        kilni_onnx_segment *segment = *link;
        if (fits(segment, frame, begin, end)) {
            *link = segment->next;
            segment->next = replay->segments;
            replay->segments = segment;
            return segment;
        }
    }
    return NULL;
}

static void add(kilni_onnx_replay *replay, const kiln_env *env, kilni_onnx_segment *segment)
{
    uint32_t variants = 0;
    segment->next = replay->segments;
    replay->segments = segment;
    for (kilni_onnx_segment **link = &replay->segments; *link != NULL;) {
        kilni_onnx_segment *other = *link;
        variants += other->begin == segment->begin;
        if (variants > MAX_VARIANTS && other->begin == segment->begin) {
            *link = other->next;
            segment_destroy(env, other);
        } else {
            link = &other->next;
        }
    }
}

// ---- capture ----

static kiln_status copy_frame(const kilni_onnx_frame *frame, kilni_onnx_frame *out_copy,
                              kiln_error *err)
{
    const kilni_onnx_plan *plan = frame->plan;
    kiln_status status = kilni_onnx_frame_init(out_copy, frame->session, plan, err);
    if (status == KILN_STATUS_OK) {
        memcpy(out_copy->left, frame->left, plan->n_slots * sizeof(*frame->left));
        for (uint32_t i = 0; i < plan->n_slots; i++) {
            out_copy->values[i] = kilni_onnx_retain(frame->values[i]);
        }
        out_copy->around = frame->around;
        out_copy->depth = frame->depth;
    }
    return status;
}

/// The tensors that the run gives, in the order of the graph's inputs.
static void given_tensors(const kilni_onnx_segment *segment, const kilni_onnx_frame *frame,
                          kiln_tensor **out_tensors)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < segment->n_ins; i++) {
        if (segment->ins[i].constant == NULL) {
            out_tensors[count++] = frame->values[segment->ins[i].slot]->tensor;
        }
    }
}

/// Says where each output comes from, and lists the graph's.
static bool place_outs(kilni_onnx_segment *segment, const kilni_onnx_frame *frame,
                       const kilni_onnx_frame *copy, kiln_tensor **out_tensors)
{
    for (uint32_t i = 0; i < segment->n_outs; i++) {
        live_out *out = &segment->outs[i];
        kilni_onnx_ref value = copy->values[out->slot];
        if (!crosses(value)) {
            return false;
        }
        for (uint32_t k = 0; k < segment->n_ins && out->from_in == NO_INDEX; k++) {
            out->from_in = frame->values[segment->ins[k].slot] == value ? (int32_t)k : NO_INDEX;
        }
        out->narrow = value->narrow;
        out->dtype = value->desc.dtype;
        out->large = value->large;
        out->statistic = value->statistic;
        if (out->from_in == NO_INDEX && value->constant) {
            out->constant = kilni_onnx_retain(value);
        } else if (out->from_in == NO_INDEX) {
            out->from_graph = (int32_t)segment->n_made;
            out_tensors[segment->n_made++] = value->tensor;
        }
    }
    return true;
}

/// Contents of the run's tensors that decided about something are part of what has to be the same.
static bool keep_looked(kilni_onnx_segment *segment, const kilni_onnx_frame *frame)
{
    for (uint32_t i = 0; i < segment->n_ins; i++) {
        live_in *in = &segment->ins[i];
        const kilni_onnx_value *value = frame->values[in->slot];
        if (in->constant != NULL || !value->looked) {
            continue;
        }
        size_t bytes = (size_t)kiln_desc_bytes(&in->desc);
        in->looked = bytes <= MAX_LOOKED ? kiln_alloc(&frame->session->env, bytes + 1) : NULL;
        if (in->looked == NULL) {
            return false;
        }
        memcpy(in->looked, value->host, bytes);
    }
    return true;
}

/// What a capture makes of the run's values in another type is the graph's alone, and what runs
/// made is no input of it.
static void drop_others(const kilni_onnx_segment *segment, const kilni_onnx_frame *frame)
{
    for (uint32_t i = 0; i < segment->n_ins; i++) {
        kilni_onnx_ref value = frame->values[segment->ins[i].slot];
        if (segment->ins[i].constant == NULL) {
            kiln_release(value->other);
            value->other = NULL;
        }
    }
}

/// Runs the steps on a copy of the frame between begin and end of a capture.
static kiln_status record_steps(kilni_onnx_segment *segment, const kilni_onnx_frame *frame,
                                kilni_onnx_step_fn run_step, kilni_onnx_frame *copy,
                                kiln_tensor **tensors, kiln_error *err)
{
    kiln_device *device = frame->session->device;
    for (uint32_t i = 0; i < segment->n_ins; i++) {
        frame->values[segment->ins[i].slot]->looked = false;
    }
    given_tensors(segment, frame, tensors);
    kiln_status status = kiln_graph_begin(device, tensors, segment->n_given, err);
    if (status != KILN_STATUS_OK) {
        // inside a caller's capture: another time; one tensor in two places: never
        segment->hopeless = status == KILN_STATUS_INVALID_ARGUMENT;
        return status;
    }
    segment->hopeless = true;
    kiln_graph_fix_shapes(device);
    for (uint32_t i = segment->begin; status == KILN_STATUS_OK && i < segment->end; i++) {
        status = run_step(copy, &frame->plan->steps[i], err);
    }
    if (status == KILN_STATUS_OK &&
        !(place_outs(segment, frame, copy, tensors) && keep_looked(segment, frame))) {
        status = kiln_fail(err, FAILED_PRECONDITION, "a value that no graph gives");
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(device, tensors, segment->n_made, &segment->graph, err);
        segment->hopeless = status != KILN_STATUS_OK;
    }
    kiln_graph_cancel(device);
    return status;
}

static void capture(kilni_onnx_segment *segment, const kilni_onnx_frame *frame,
                    kilni_onnx_step_fn run_step)
{
    kiln_onnx_session *session = frame->session;
    kiln_error ignored = KILN_ERROR_INIT;
    kilni_onnx_frame copy = {0};
    uint32_t steps_run = session->steps_run;
    size_t most = segment->n_ins > segment->n_outs ? segment->n_ins : segment->n_outs;
    kiln_tensor **tensors = kiln_alloc_array(&session->env, most + 1, sizeof(kiln_tensor *));
    kiln_status status = copy_frame(frame, &copy, &ignored);
    session->capturing = true;
    drop_others(segment, frame);
    if (status == KILN_STATUS_OK && tensors != NULL) {
        (void)record_steps(segment, frame, run_step, &copy, tensors, &ignored);
    }
    drop_others(segment, frame);
    session->capturing = false;
    session->steps_run = steps_run;
    kilni_onnx_frame_fini(&copy);
    kiln_free(&session->env, tensors);
}

// ---- replay ----

static kilni_onnx_ref value_of(kiln_onnx_session *session, kiln_tensor *tensor, const live_out *out)
{
    kilni_onnx_ref value = kilni_onnx_value_new(&session->env);
    if (value != NULL) {
        value->tensor = kiln_retain(tensor);
        value->narrow = out->narrow;
        value->large = out->large;
        value->statistic = out->statistic;
        value->desc.dtype = out->dtype;
        value->desc.rank = (uint8_t)kiln_tensor_rank(tensor);
        memcpy(value->desc.dims, kiln_tensor_dims(tensor),
               value->desc.rank * sizeof(value->desc.dims[0]));
    }
    return value;
}

static kiln_status put_outs(const kilni_onnx_segment *segment, kilni_onnx_frame *frame,
                            kiln_tensor *const *made, kiln_error *err)
{
    const kiln_env *env = &frame->session->env;
    for (uint32_t i = 0; i < segment->n_outs; i++) {
        const live_out *out = &segment->outs[i];
        kilni_onnx_ref value =
            out->from_in != NO_INDEX
                ? kilni_onnx_retain(frame->values[segment->ins[out->from_in].slot])
            : out->constant != NULL ? kilni_onnx_retain(out->constant)
                                    : value_of(frame->session, made[out->from_graph], out);
        if (value == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a value");
        }
        kilni_onnx_release(env, frame->values[out->slot]);
        frame->values[out->slot] = value;
    }
    return KILN_STATUS_OK;
}

static void end_use(uint32_t slot, void *user)
{
    kilni_onnx_used(user, slot);
}

static kiln_status replay(const kilni_onnx_segment *segment, kilni_onnx_frame *frame,
                          kiln_error *err)
{
    const kiln_env *env = &frame->session->env;
    kiln_tensor **given = kiln_alloc_array(env, segment->n_given + 1u, sizeof(kiln_tensor *));
    kiln_tensor **made = kiln_alloc_array(env, segment->n_made + 1u, sizeof(kiln_tensor *));
    kiln_status status = given != NULL && made != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a segment");
    if (status == KILN_STATUS_OK) {
        given_tensors(segment, frame, given);
        status =
            kiln_graph_run(segment->graph, given, segment->n_given, made, segment->n_made, err);
    }
    if (status == KILN_STATUS_OK) {
        status = put_outs(segment, frame, made, err);
    }
    for (uint32_t i = 0; made != NULL && i < segment->n_made; i++) {
        kiln_release(made[i]);
    }
    kiln_free(env, given);
    kiln_free(env, made);
    if (status == KILN_STATUS_OK) {
        kilni_onnx_each_use(frame->plan, segment->begin, segment->end, end_use, frame);
        frame->session->steps_run += segment->end - segment->begin;
    }
    return status;
}

// ---- when ----

/// A frame of a function reads its caller's attributes, which are not compared.
static bool in_function(const kilni_onnx_frame *frame)
{
    while (frame != NULL && frame->plan->function == NULL) {
        frame = frame->around;
    }
    return frame != NULL;
}

bool kilni_onnx_replays(const kilni_onnx_frame *frame)
{
    kiln_onnx_session *session = frame->session;
    kilni_onnx_replay *all = frame->plan->replay;
    bool apart = all->n_reading > 0 || (session->spans && frame->plan == session->main);
    if (frame->around != NULL) {
        // Rounds without a read between them become one stream: better than a graph for each.
        apart = apart || session->n_reads != all->reads_before;
        all->reads_before = session->n_reads;
    }
    return apart && session->n_bindings == 0 && session->weights == NULL && !session->capturing &&
           session->trace == NULL && !in_function(frame);
}

/// The range of steps up to the next that reads or the next part, when it is met as it was met
/// before.
static kilni_onnx_segment *segment_from(const kilni_onnx_frame *frame, uint32_t begin)
{
    kilni_onnx_replay *all = frame->plan->replay;
    uint32_t end = begin;
    while (end < frame->plan->n_steps && !all->reading[end] &&
           (end == begin || kilni_onnx_part_at(frame, end) == NULL)) {
        end++;
    }
    if (end < begin + MIN_STEPS || all->misses[begin] >= MAX_MISSES) {
        return NULL;
    }
    kilni_onnx_segment *segment = find(all, frame, begin, end);
    if (segment != NULL) {
        all->misses[begin] = 0;
        return segment;
    }
    all->misses[begin]++;
    segment = meet(frame, begin, end);
    if (segment != NULL) {
        add(all, &frame->session->env, segment);
    }
    return NULL;
}

kiln_status kilni_onnx_replay_from(kilni_onnx_frame *frame, uint32_t begin,
                                   kilni_onnx_step_fn run_step, uint32_t *out_end, kiln_error *err)
{
    *out_end = begin;
    kilni_onnx_segment *segment = segment_from(frame, begin);
    if (segment != NULL && segment->graph == NULL && !segment->hopeless) {
        capture(segment, frame, run_step);
    }
    if (segment == NULL || segment->graph == NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status = replay(segment, frame, err);
    if (status == KILN_STATUS_FAILED_PRECONDITION) {
        return KILN_STATUS_OK; /* inside a caller's capture: recorded into it */
    }
    *out_end = segment->end;
    return status;
}
