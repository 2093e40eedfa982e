// SPDX-License-Identifier: MIT OR Apache-2.0
// A model on several devices: which of its nodes run on which. Decides that constants count, what
// fills at most half of the first device stays there, and that each of several gets as much of the
// constants as of the memory, give or take a quarter, so that few values cross.
#include "onnx_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/// A slot of the model's plan.
typedef struct fact {
    const kilni_onnx_tensor *tensor; ///< of a constant of the file; or NULL
    uint64_t bytes; ///< of it, on a device; 0: it has none, or uses it where it lies
    uint32_t maker; ///< step that gives it; NO_STEP: none, or a constant of few elements
    uint32_t last; ///< step that reads it last
    uint32_t seen; ///< number of the sum that it was added to last
} fact;

typedef struct splitter {
    kiln_onnx_session *session;
    const kilni_onnx_plan *plan;
    fact *facts; ///< by slot
    int32_t *crossing; ///< by step: values that cross when a part begins there
    uint32_t n_sums;
    uint64_t sum;
} splitter;

#define NO_STEP UINT32_MAX

// ---- memory ----

/// A device that shares the host's memory uses constants where they lie in the file, if they are
/// aligned.
static uint64_t bytes_on(const kiln_device *device, const kilni_onnx_tensor *tensor)
{
    enum { ALIGNED = 128 };
    bool shares = (kiln_device_info_of(device)->features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
    bool in_file = shares && tensor->indices == NULL && (uintptr_t)tensor->data % ALIGNED == 0;
    return in_file ? 0 : (uint64_t)tensor->count * kiln_dtype_size(tensor->dtype);
}

/// 0: no limit is known.
static uint64_t budget_of(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.backend.bytes_budget;
}

static uint64_t bytes_of_nodes(const kiln_device *device, const kilni_onnx_node *nodes,
                               uint32_t count);

static uint64_t bytes_of_graph(const kiln_device *device, const kilni_onnx_graph *graph)
{
    uint64_t bytes = bytes_of_nodes(device, graph->nodes, graph->n_nodes);
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        bytes += bytes_on(device, &graph->initializers[i]);
    }
    return bytes;
}

/// Constants in attributes, of graphs inside, too.
static uint64_t bytes_of_nodes(const kiln_device *device, const kilni_onnx_node *nodes,
                               uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < nodes[i].n_attrs; k++) {
            const kilni_onnx_attr *attr = &nodes[i].attrs[k];
            bytes += attr->tensor != NULL ? bytes_on(device, attr->tensor) : 0;
            bytes += attr->graph != NULL ? bytes_of_graph(device, attr->graph) : 0;
        }
    }
    return bytes;
}

static void add_slot(uint32_t slot, void *user)
{
    splitter *s = user;
    if (slot != KILNI_ONNX_NO_SLOT && s->facts[slot].seen != s->n_sums) {
        s->facts[slot].seen = s->n_sums;
        s->sum += s->facts[slot].bytes;
    }
}

static void begin_sum(splitter *s)
{
    s->n_sums++;
    s->sum = 0;
}

static void add_step(splitter *s, uint32_t step)
{
    kilni_onnx_each_use(s->plan, step, step + 1, add_slot, s);
    s->sum += bytes_of_nodes(s->session->device, s->plan->steps[step].node, 1);
}

static uint64_t sum_steps(splitter *s, uint32_t begin, uint32_t end)
{
    begin_sum(s);
    for (uint32_t i = begin; i < end; i++) {
        add_step(s, i);
    }
    for (uint32_t i = 0; i < s->plan->n_outputs && end == s->plan->n_steps; i++) {
        add_slot(s->plan->outputs[i], s); // a constant may be a result
    }
    return s->sum;
}

// ---- what crosses ----

typedef struct using
{
    splitter *s;
    uint32_t step;
}
using;

static void note_use(uint32_t slot, void *user)
{
    const using *u = user;
    if (slot != KILNI_ONNX_NO_SLOT) {
        u->s->facts[slot].last = u->step;
    }
}

static void note_steps(splitter *s)
{
    const kilni_onnx_plan *plan = s->plan;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const kilni_onnx_step *step = &plan->steps[i];
        bool small = strcmp(step->node->op_type, "Constant") == 0;
        using u = {s, i};
        kilni_onnx_each_use(plan, i, i + 1, note_use, &u);
        for (uint32_t k = 0; k < step->node->n_outputs; k++) {
            if (step->outputs[k] != KILNI_ONNX_NO_SLOT) {
                s->facts[step->outputs[k]].maker = small ? NO_STEP : i;
            }
        }
    }
    for (uint32_t slot = 0; slot < plan->n_slots; slot++) {
        const fact *f = &s->facts[slot];
        if (f->maker != NO_STEP && f->last != NO_STEP && f->last > f->maker) {
            s->crossing[f->maker + 1]++;
            s->crossing[f->last + 1]--;
        }
    }
    for (uint32_t i = 1; i <= plan->n_steps; i++) {
        s->crossing[i] += s->crossing[i - 1];
    }
}

static kiln_status learn(splitter *s, kiln_error *err)
{
    const kilni_onnx_plan *plan = s->plan;
    s->facts = kiln_alloc_array(&s->session->env, plan->n_slots + 1u, sizeof(*s->facts));
    s->crossing = kiln_alloc_array(&s->session->env, plan->n_steps + 2u, sizeof(*s->crossing));
    if (s->facts == NULL || s->crossing == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %u values", plan->n_slots);
    }
    for (uint32_t slot = 0; slot < plan->n_slots; slot++) {
        s->facts[slot] = (fact){.maker = NO_STEP, .last = NO_STEP};
    }
    for (uint32_t i = 0; i < plan->graph->n_initializers; i++) {
        const kilni_onnx_tensor *tensor = &plan->graph->initializers[i];
        if (plan->initializers[i] != KILNI_ONNX_NO_SLOT) {
            s->facts[plan->initializers[i]].tensor = tensor;
            s->facts[plan->initializers[i]].bytes = bytes_on(s->session->device, tensor);
        }
    }
    note_steps(s);
    return KILN_STATUS_OK;
}

// ---- parts ----

static kiln_status too_small(kiln_device *const *devices, uint32_t n_devices, uint64_t bytes,
                             kiln_error *err)
{
    char text[160] = "";
    size_t used = 0;
    uint64_t all = 0;
    for (uint32_t i = 0; i < n_devices; i++) {
        uint64_t budget = budget_of(devices[i]);
        int wrote = snprintf(text + used, sizeof(text) - used, "%s%s may hold %llu (%llu MiB)",
                             i > 0 ? ", " : "", kiln_device_address(devices[i]),
                             (unsigned long long)budget, (unsigned long long)(budget >> 20));
        used += wrote > 0 && (size_t)wrote < sizeof(text) - used ? (size_t)wrote : 0;
        all += budget;
    }
    const char *fits = n_devices > 1 && all >= bytes ? ", and no cut between nodes fits" : "";
    return kiln_fail(err, RESOURCE_EXHAUSTED,
                     "the model's constants have %llu bytes (%llu MiB), %s%s: take %s, or weights "
                     "of fewer bits",
                     (unsigned long long)bytes, (unsigned long long)(bytes >> 20), text, fits,
                     n_devices > 1 ? "devices with more memory"
                                   : "a device with more memory, or several (--device twice)");
}

/// A place where a part may end.
typedef struct place {
    uint32_t end;
    int32_t crossing;
    bool near; ///< to the part's share
    double off;
} place;

static bool is_better(const place *a, const place *b)
{
    if (a->near != b->near) {
        return a->near;
    }
    if (a->near && a->crossing != b->crossing) {
        return a->crossing < b->crossing;
    }
    return a->off < b->off;
}

/// Where the part that begins at `begin` ends: near its share of what is left, at the fewest values
/// that cross. `begin`: nowhere.
static uint32_t find_end(splitter *s, uint32_t begin, uint64_t budget, double rest_budget)
{
    double left = (double)sum_steps(s, begin, s->plan->n_steps);
    double share = left * (double)budget / ((double)budget + rest_budget);
    place best = {.end = begin, .off = INFINITY};
    begin_sum(s);
    for (uint32_t end = begin + 1; end < s->plan->n_steps; end++) {
        add_step(s, end - 1);
        if (s->sum > budget) {
            break;
        }
        double off = fabs((double)s->sum - share);
        const place here = {end, s->crossing[end], off <= share / 4, off};
        if (left - (double)s->sum <= rest_budget && is_better(&here, &best)) {
            best = here;
        }
    }
    return best.end;
}

static kiln_status list_coming(splitter *s, kilni_onnx_part *part, kiln_error *err)
{
    const kilni_onnx_plan *plan = s->plan;
    kilni_onnx_coming *comes =
        kiln_arena_alloc(&s->session->arena, (plan->n_slots + 1u) * sizeof(*comes));
    if (comes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %u values", plan->n_slots);
    }
    (void)sum_steps(s, part->begin, part->end);
    for (uint32_t slot = 0; slot < plan->n_slots; slot++) {
        const fact *f = &s->facts[slot];
        bool made_here = f->tensor == NULL && f->maker != NO_STEP && f->maker >= part->begin;
        if (f->seen == s->n_sums && !made_here) {
            comes[part->n_comes++] = (kilni_onnx_coming){.slot = slot, .tensor = f->tensor};
            part->n_cut += f->tensor == NULL && f->maker != NO_STEP;
        }
    }
    part->comes = comes;
    return KILN_STATUS_OK;
}

static kiln_status add_part(splitter *s, kiln_device *device, uint32_t begin, uint32_t end,
                            kiln_error *err)
{
    kilni_onnx_part *part = &s->session->parts[s->session->n_parts++];
    *part = (kilni_onnx_part){.device = kiln_device_retain(device), .begin = begin, .end = end};
    part->bytes = sum_steps(s, begin, end);
    return s->session->spans ? list_coming(s, part, err) : KILN_STATUS_OK;
}

static kiln_status cut(splitter *s, kiln_device *const *devices, uint32_t n_devices,
                       kiln_error *err)
{
    const double unlimited = 0x1p60;
    uint32_t begin = 0;
    uint32_t n_steps = s->plan->n_steps;
    uint64_t bytes = sum_steps(s, 0, n_steps);
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < n_devices && (begin < n_steps || i == 0);
         i++) {
        uint64_t budget = budget_of(devices[i]);
        double rest = 0;
        for (uint32_t k = i + 1; k < n_devices; k++) {
            uint64_t other = budget_of(devices[k]);
            rest += other == 0 ? unlimited : (double)other;
        }
        uint32_t end = n_steps;
        bool stays =
            budget == 0 || sum_steps(s, begin, n_steps) <= (rest > 0 ? budget / 2 : budget);
        if (!stays) {
            end = rest > 0 ? find_end(s, begin, budget, rest) : begin;
        }
        if (end == begin && n_steps > 0) {
            return too_small(devices, n_devices, bytes, err);
        }
        status = add_part(s, devices[i], begin, end, err);
        begin = end;
    }
    return status;
}

kiln_status kilni_onnx_split(kiln_onnx_session *session, kiln_device *const *devices,
                             uint32_t n_devices, kiln_error *err)
{
    splitter s = {.session = session, .plan = session->main};
    session->parts = kiln_arena_alloc(&session->arena, n_devices * sizeof(*session->parts));
    if (session->parts == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the parts of a session");
    }
    kiln_status status = learn(&s, err);
    if (status == KILN_STATUS_OK) {
        status = cut(&s, devices, n_devices, err);
    }
    kiln_free(&session->env, s.facts);
    kiln_free(&session->env, s.crossing);
    return status;
}
