// SPDX-License-Identifier: MIT OR Apache-2.0
// What settles: steps of the model whose results follow from constants, or from those and the
// shapes of a run's inputs. They are computed once, on the host, also where they have many
// elements, and later runs of these shapes begin with what others read of them. Decides which steps
// are such, in three runs: what follows from what is learnt in the first; the second computes it on
// the host; the third keeps it. A model that is replayed in parts, or watched, runs every step.
#include "onnx_run.h"

#include <string.h>

/// Of steps, and of the slots that they give: what follows from constants and shapes, what of it is
/// on the host, what of that no shape decides about. LOOSE: the shape follows from contents.
enum { FOLLOWS = 1, OF_SHAPE = 2, ALWAYS = 4, LOOSE = 8 };

/// How far this is: after so many runs, of the same shapes where these decide.
enum { LEARNT = 1, ON_HOST = 2, KEPT = 3 };

static bool is_main(const kilni_onnx_frame *frame)
{
    return frame->plan == frame->session->main && frame->around == NULL && frame->caller == NULL;
}

// ---- life ----

kiln_status kilni_onnx_settled_init(kiln_onnx_session *session, kiln_error *err)
{
    const kilni_onnx_plan *plan = session->main;
    kilni_onnx_settled *s = &session->settled;
    kiln_arena *arena = &session->arena;
    size_t slots = plan->n_slots + 1u;
    s->steps = kiln_arena_alloc(arena, plan->n_steps + 1u);
    s->slots = kiln_arena_alloc(arena, slots);
    s->crosses = kiln_arena_alloc(arena, slots);
    s->values = kiln_arena_alloc(arena, slots * sizeof(kilni_onnx_ref));
    s->left = kiln_arena_alloc(arena, slots * sizeof(*s->left));
    s->shapes = kiln_arena_alloc(arena, (plan->n_inputs + 1u) * sizeof(*s->shapes));
    return s->steps != NULL && s->slots != NULL && s->crosses != NULL && s->values != NULL &&
                   s->left != NULL && s->shapes != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu values", slots);
}

static void drop_values(kiln_onnx_session *session, bool all)
{
    kilni_onnx_settled *s = &session->settled;
    for (uint32_t slot = 0; s->values != NULL && slot < session->main->n_slots; slot++) {
        if (s->values[slot] != NULL && (all || (s->crosses[slot] & ALWAYS) == 0)) {
            kilni_onnx_release(&session->env, s->values[slot]);
            s->values[slot] = NULL;
        }
    }
}

void kilni_onnx_settled_forget(kiln_onnx_session *session)
{
    kilni_onnx_settled *s = &session->settled;
    drop_values(session, true);
    s->always = s->shaped = s->counted = 0;
}

// ---- the beginning of a run ----

static bool same_shapes(const kilni_onnx_settled *s, kilni_onnx_ref *inputs, uint32_t n_inputs)
{
    for (uint32_t i = 0; i < n_inputs; i++) {
        if (!kiln_desc_same_shape(&s->shapes[i], &inputs[i]->desc) ||
            s->shapes[i].dtype != inputs[i]->desc.dtype) {
            return false;
        }
    }
    return true;
}

static bool are_tensors(kilni_onnx_ref *inputs, uint32_t n_inputs)
{
    bool are = true;
    for (uint32_t i = 0; i < n_inputs; i++) {
        are = are && inputs[i] != NULL && inputs[i]->form == KILNI_ONNX_TENSOR;
    }
    return are;
}

/// What constants and the kept results are, before any step.
static void mark_slots(const kilni_onnx_frame *frame)
{
    kilni_onnx_settled *s = &frame->session->settled;
    const kilni_onnx_plan *plan = frame->plan;
    memset(s->slots, 0, plan->n_slots);
    for (uint32_t i = 0; i < plan->graph->n_initializers; i++) {
        if (plan->initializers[i] != KILNI_ONNX_NO_SLOT) {
            s->slots[plan->initializers[i]] = FOLLOWS | OF_SHAPE | ALWAYS;
        }
    }
    for (uint32_t slot = 0; slot < plan->n_slots; slot++) {
        if (s->values[slot] != NULL) {
            s->slots[slot] = FOLLOWS | OF_SHAPE | (s->crosses[slot] & ALWAYS);
        }
    }
}

static void add_use(uint32_t slot, void *user)
{
    if (slot != KILNI_ONNX_NO_SLOT) {
        ((uint32_t *)user)[slot]++;
    }
}

/// How often each slot is read by what this run does.
static void count_left(const kilni_onnx_frame *frame)
{
    const kilni_onnx_plan *plan = frame->plan;
    kilni_onnx_settled *s = &frame->session->settled;
    memset(s->left, 0, plan->n_slots * sizeof(*s->left));
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if ((s->steps[i] & s->skips) == 0) {
            kilni_onnx_each_use(plan, i, i + 1, add_use, s->left);
        }
    }
    for (uint32_t i = 0; i < plan->n_outputs; i++) {
        add_use(plan->outputs[i], s->left);
    }
    s->counted = s->skips;
}

void kilni_onnx_settled_begin(kilni_onnx_frame *frame, kilni_onnx_ref *inputs, uint32_t n_inputs)
{
    kiln_onnx_session *session = frame->session;
    kilni_onnx_settled *s = &session->settled;
    const kilni_onnx_plan *plan = frame->plan;
    if (!is_main(frame)) {
        return;
    }
    s->runs = session->trace == NULL && !session->spans && n_inputs == plan->n_inputs &&
              session->weights == NULL && are_tensors(inputs, n_inputs) &&
              !kilni_onnx_replays(frame);
    s->skips = 0;
    if (!s->runs) {
        return;
    }
    if (s->shaped > 0 && !same_shapes(s, inputs, n_inputs)) {
        s->shaped = 0;
        drop_values(session, false);
    }
    for (uint32_t i = 0; i < n_inputs && s->shaped == 0; i++) {
        s->shapes[i] = inputs[i]->desc;
    }
    s->skips = s->shaped == KEPT ? OF_SHAPE : s->always == KEPT ? ALWAYS : 0;
    s->learns = s->shaped != KEPT && (session->n_bindings == 0 || s->always != KEPT);
    s->captured = s->learns && kiln_graph_is_capturing(session->device);
    if (s->learns) {
        mark_slots(frame);
    }
    if (s->skips == 0) {
        return;
    }
    if (s->counted != s->skips) {
        count_left(frame);
    }
    memcpy(frame->left, s->left, plan->n_slots * sizeof(*s->left));
    for (uint32_t slot = 0; slot < plan->n_slots; slot++) {
        if (s->values[slot] != NULL) {
            kilni_onnx_put(frame, slot, s->values[slot]);
        }
    }
}

uint8_t kilni_onnx_settled_kind(const kilni_onnx_frame *frame)
{
    const kilni_onnx_settled *s = &frame->session->settled;
    return s->runs && is_main(frame) ? s->skips : 0;
}

// ---- steps ----

typedef struct read_slots {
    const kilni_onnx_settled *s;
    uint8_t all; ///< what all of them have
    uint8_t any;
} read_slots;

static void add_read(uint32_t slot, void *user)
{
    read_slots *reads = user;
    if (slot != KILNI_ONNX_NO_SLOT) {
        reads->all &= reads->s->slots[slot];
        reads->any |= reads->s->slots[slot];
    }
}

static read_slots reads_of(const kilni_onnx_frame *frame, const kilni_onnx_step *step)
{
    read_slots reads = {.s = &frame->session->settled, .all = FOLLOWS | OF_SHAPE | ALWAYS};
    uint32_t index = (uint32_t)(step - frame->plan->steps);
    kilni_onnx_each_use(frame->plan, index, index + 1, add_read, &reads);
    return reads;
}

static bool is_learning(const kilni_onnx_frame *frame)
{
    const kilni_onnx_settled *s = &frame->session->settled;
    return s->runs && s->learns && is_main(frame);
}

void kilni_onnx_settled_before(kilni_onnx_frame *frame, const kilni_onnx_step *step)
{
    kiln_onnx_session *session = frame->session;
    kilni_onnx_settled *s = &session->settled;
    if (is_learning(frame)) {
        uint8_t known = s->shaped > 0 ? s->steps[step - frame->plan->steps] : 0;
        session->folds_many =
            s->captured || (known & FOLLOWS) != 0 || (reads_of(frame, step).all & ALWAYS) != 0;
        s->looks = session->n_looks;
    }
}

static bool on_host(const kilni_onnx_value *value)
{
    return value != NULL && value->form == KILNI_ONNX_TENSOR && value->constant &&
           (value->host != NULL || kiln_desc_count(&value->desc) == 0);
}

static void keep(kilni_onnx_frame *frame, uint32_t slot, kilni_onnx_ref value)
{
    kilni_onnx_settled *s = &frame->session->settled;
    bool now = (s->always == LEARNT && (s->crosses[slot] & ALWAYS) != 0) ||
               (s->shaped == ON_HOST && (s->crosses[slot] & OF_SHAPE) != 0);
    if (now && s->values[slot] == NULL) {
        s->values[slot] = kilni_onnx_retain(value);
    }
}

static uint8_t made_by(const kilni_onnx_frame *frame, const kilni_onnx_step *step,
                       const kilni_onnx_ref *outputs)
{
    const kilni_onnx_settled *s = &frame->session->settled;
    read_slots reads = reads_of(frame, step);
    bool constant = true;
    if (frame->session->n_looks != s->looks || (reads.any & LOOSE) != 0) {
        return LOOSE;
    }
    for (uint32_t i = 0; i < step->node->n_outputs; i++) {
        constant = constant && (step->outputs[i] == KILNI_ONNX_NO_SLOT || on_host(outputs[i]));
    }
    return constant ? FOLLOWS | OF_SHAPE | (reads.all & ALWAYS) : reads.all & FOLLOWS;
}

void kilni_onnx_settled_after(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                              const kilni_onnx_ref *outputs)
{
    kilni_onnx_settled *s = &frame->session->settled;
    if (!is_learning(frame)) {
        return;
    }
    frame->session->folds_many = false;
    uint8_t made = made_by(frame, step, outputs);
    s->steps[step - frame->plan->steps] = made;
    for (uint32_t i = 0; i < step->node->n_outputs; i++) {
        uint32_t slot = step->outputs[i];
        if (slot != KILNI_ONNX_NO_SLOT) {
            s->slots[slot] = made;
            if ((made & OF_SHAPE) != 0) {
                keep(frame, slot, outputs[i]);
            }
        }
    }
}

// ---- the end of a run ----

typedef struct reader {
    kilni_onnx_settled *s;
    uint8_t is; ///< the step
} reader;

/// What is made by a step of one kind and read by one of a lesser kind is kept.
static void note_reader(uint32_t slot, void *user)
{
    const reader *r = user;
    if (slot != KILNI_ONNX_NO_SLOT) {
        uint8_t made = r->s->slots[slot] & (OF_SHAPE | ALWAYS);
        r->s->crosses[slot] |= (uint8_t)(made & ~r->is);
    }
}

static void find_crossing(const kilni_onnx_frame *frame)
{
    const kilni_onnx_plan *plan = frame->plan;
    kilni_onnx_settled *s = &frame->session->settled;
    memset(s->crosses, 0, plan->n_slots);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        reader r = {s, s->steps[i]};
        kilni_onnx_each_use(plan, i, i + 1, note_reader, &r);
    }
    reader r = {s, 0};
    for (uint32_t i = 0; i < plan->n_outputs; i++) {
        note_reader(plan->outputs[i], &r);
    }
}

void kilni_onnx_settled_end(kilni_onnx_frame *frame, kiln_status status)
{
    kiln_onnx_session *session = frame->session;
    kilni_onnx_settled *s = &session->settled;
    if (!s->runs || !is_main(frame)) {
        return;
    }
    s->runs = false;
    session->folds_many = false;
    if (status != KILN_STATUS_OK) {
        kilni_onnx_settled_forget(session);
        return;
    }
    for (uint32_t slot = 0; slot < frame->plan->n_slots; slot++) {
        kilni_onnx_rest(s->values[slot]);
    }
    if (s->learns) {
        s->counted = 0;
        s->always = s->always == 0 ? LEARNT : KEPT;
        s->shaped = session->n_bindings > 0 ? 0 : (uint8_t)(s->shaped + 1);
        find_crossing(frame);
    }
}
