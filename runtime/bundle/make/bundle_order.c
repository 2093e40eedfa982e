// SPDX-License-Identifier: MIT OR Apache-2.0
// Orders the steps of a set of shapes so that a run changes the program seldom: each change costs
// an FPGA a bitstream. A step waits for those before it that touch the same buffer, unless both
// only read it, so memory is what it was: buffers are shared by the same values. Decides the order
// by a beam search: a program, once it is there, runs all that it can; of the sets of steps that so
// many changes reach, those with the most steps go on. The same steps always give the same order.

#include "bundle_maker.h"

#include <string.h>

enum {
    ORDER_WIDTH = 8, ///< states that go on
    ORDER_LONG = 4096 ///< with more steps than this, one state goes on
};

static const uint32_t no_step = UINT32_MAX; ///< nor link, program or buffer; in `waits`: has run

typedef struct order_link { ///< in a list of steps
    uint32_t step;
    uint32_t next;
} order_link;

typedef struct order_use { ///< of a buffer, by the steps so far
    uint32_t writer; ///< the last one
    uint32_t readers; ///< list of those since
} order_use;

typedef struct step_graph {
    const bundle_manifest *manifest;
    const bundle_shapes *shapes;
    order_use *uses; ///< of each buffer
    uint32_t *followers; ///< list of each step: those that wait for it
    uint32_t *waits; ///< how many entries of `followers` a step is in
    order_link *links;
    uint32_t n_links;
} step_graph;

typedef struct order_state { ///< what some changes of program reach
    uint32_t *waits; ///< of each step, for steps that have not run
    uint32_t *order;
    uint32_t done;
} order_state;

typedef struct order_search {
    const step_graph *graph;
    order_state states[2 * ORDER_WIDTH + 1];
    order_state *beam[ORDER_WIDTH]; ///< the best first
    order_state *next[ORDER_WIDTH];
    order_state *unused[2 * ORDER_WIDTH + 1];
    uint32_t width;
    uint32_t n_beam;
    uint32_t n_next;
    uint32_t n_unused;
    uint32_t *seen; ///< of each program: the number of the state that it was tried for
} order_search;

// ---- who waits for whom ----

static void push_link(step_graph *graph, uint32_t *list, uint32_t step)
{
    graph->links[graph->n_links] = (order_link){.step = step, .next = *list};
    *list = graph->n_links++;
}

static void add_wait(step_graph *graph, uint32_t before, uint32_t step)
{
    if (before != no_step && before != step) {
        push_link(graph, &graph->followers[before], step);
        graph->waits[step]++;
    }
}

static void note_use(step_graph *graph, uint32_t step, uint32_t buffer, bool writes)
{
    order_use *use = &graph->uses[buffer];
    add_wait(graph, use->writer, step);
    if (!writes) {
        push_link(graph, &use->readers, step);
        return;
    }
    for (uint32_t i = use->readers; i != no_step; i = graph->links[i].next) {
        add_wait(graph, graph->links[i].step, step);
    }
    *use = (order_use){.writer = step, .readers = no_step};
}

static bool may_write(const bundle_manifest *manifest, const bundle_step *step, uint32_t arg)
{
    const bundle_kernel *kernel = &manifest->programs[step->program].kernels[step->kernel];
    return kernel->parameters == NULL || !kernel->parameters[arg].read_only;
}

static void note_step(step_graph *graph, uint32_t number)
{
    const bundle_step *step = &graph->shapes->steps[number];
    if (step->is_copy) {
        note_use(graph, number, step->source, false);
        note_use(graph, number, step->target, true);
    }
    for (uint32_t i = 0; !step->is_copy && i < step->n_args; i++) {
        const bundle_arg *arg = &step->args[i];
        if (arg->kind == BUNDLE_ARG_BUFFER && arg->buffer != no_step) {
            note_use(graph, number, arg->buffer, may_write(graph->manifest, step, i));
        }
    }
}

/// Each use is in a list of readers once, waits for a writer once, and is waited for once as one
/// of the readers.
static bool make_graph(step_graph *graph, kiln_arena *arena)
{
    const bundle_shapes *shapes = graph->shapes;
    size_t uses = 0;
    for (uint32_t i = 0; i < shapes->n_steps; i++) {
        uses += shapes->steps[i].is_copy ? 2 : shapes->steps[i].n_args;
    }
    graph->uses = kiln_arena_alloc(arena, (shapes->n_buffers + 1u) * sizeof(*graph->uses));
    graph->followers = kiln_arena_alloc(arena, (shapes->n_steps + 1u) * sizeof(uint32_t));
    graph->waits = kiln_arena_alloc(arena, (shapes->n_steps + 1u) * sizeof(uint32_t));
    graph->links = kiln_arena_alloc(arena, (3 * uses + 1) * sizeof(*graph->links));
    if (graph->uses == NULL || graph->followers == NULL || graph->waits == NULL ||
        graph->links == NULL || 3 * uses >= no_step) {
        return false;
    }
    memset(graph->uses, 0xff, shapes->n_buffers * sizeof(*graph->uses));
    memset(graph->followers, 0xff, shapes->n_steps * sizeof(uint32_t));
    for (uint32_t i = 0; i < shapes->n_steps; i++) {
        note_step(graph, i);
    }
    return true;
}

// ---- the search ----

static uint32_t program_of(const step_graph *graph, uint32_t step)
{
    const bundle_step *of = &graph->shapes->steps[step];
    return of->is_copy ? no_step : of->program;
}

static void run_step(const step_graph *graph, order_state *state, uint32_t step)
{
    state->waits[step] = no_step;
    state->order[state->done++] = step;
    for (uint32_t i = graph->followers[step]; i != no_step; i = graph->links[i].next) {
        state->waits[graph->links[i].step]--;
    }
}

/// All that a program can do now, and copies. Who waits stands behind, so one walk finds them.
static void run_program(const step_graph *graph, order_state *state, uint32_t program)
{
    for (uint32_t i = 0; i < graph->shapes->n_steps; i++) {
        uint32_t of = program_of(graph, i);
        if (state->waits[i] == 0 && (of == program || of == no_step)) {
            run_step(graph, state, i);
        }
    }
}

static void copy_state(const step_graph *graph, const order_state *from, order_state *to)
{
    memcpy(to->waits, from->waits, graph->shapes->n_steps * sizeof(*to->waits));
    memcpy(to->order, from->order, from->done * sizeof(*to->order));
    to->done = from->done;
}

/// Where a state belongs among the best; the width: nowhere, or its steps were reached already.
static uint32_t place_among(const order_search *search, const order_state *made)
{
    const size_t bytes = search->graph->shapes->n_steps * sizeof(*made->waits);
    uint32_t place = 0;
    while (place < search->n_next && search->next[place]->done >= made->done) {
        if (search->next[place]->done == made->done &&
            memcmp(search->next[place]->waits, made->waits, bytes) == 0) {
            return search->width;
        }
        place++;
    }
    return place;
}

static void keep_best(order_search *search, order_state *made)
{
    uint32_t place = place_among(search, made);
    if (place == search->width) {
        search->unused[search->n_unused++] = made;
        return;
    }
    if (search->n_next == search->width) {
        search->unused[search->n_unused++] = search->next[--search->n_next];
    }
    memmove(&search->next[place + 1], &search->next[place],
            (search->n_next - place) * sizeof(search->next[0]));
    search->next[place] = made;
    search->n_next++;
}

/// What one more program makes of a state, for each that has a step to run.
static void go_on(order_search *search, const order_state *from, uint32_t number)
{
    const step_graph *graph = search->graph;
    for (uint32_t i = 0; i < graph->shapes->n_steps; i++) {
        uint32_t program = program_of(graph, i);
        if (from->waits[i] != 0 || search->seen[program] == number) {
            continue;
        }
        search->seen[program] = number;
        order_state *made = search->unused[--search->n_unused];
        copy_state(graph, from, made);
        run_program(graph, made, program);
        keep_best(search, made);
    }
}

/// The beam after one more program; the best of it is complete at the end.
static void take_program(order_search *search, uint32_t *number)
{
    search->n_next = 0;
    for (uint32_t i = 0; i < search->n_beam; i++) {
        go_on(search, search->beam[i], ++*number);
    }
    for (uint32_t i = 0; i < search->n_beam; i++) {
        search->unused[search->n_unused++] = search->beam[i];
    }
    memcpy(search->beam, search->next, sizeof(search->beam));
    search->n_beam = search->n_next;
}

static bool begin_search(order_search *search, const step_graph *graph, kiln_arena *arena)
{
    const uint32_t n_steps = graph->shapes->n_steps;
    search->graph = graph;
    search->width = n_steps > ORDER_LONG ? 1 : ORDER_WIDTH;
    search->seen = kiln_arena_alloc(arena, graph->manifest->n_programs * sizeof(uint32_t));
    for (size_t i = 0; i < sizeof(search->states) / sizeof(search->states[0]); i++) {
        order_state *state = &search->states[i];
        state->waits = kiln_arena_alloc(arena, n_steps * sizeof(*state->waits));
        state->order = kiln_arena_alloc(arena, n_steps * sizeof(*state->order));
        if (state->waits == NULL || state->order == NULL) {
            return false;
        }
        search->unused[search->n_unused++] = state;
    }
    search->beam[0] = search->unused[--search->n_unused];
    memcpy(search->beam[0]->waits, graph->waits, n_steps * sizeof(uint32_t));
    run_program(graph, search->beam[0], no_step); // copies that wait for nothing
    search->n_beam = 1;
    return search->seen != NULL;
}

// ---- in place of the steps ----

static void renew_lives(bundle_shapes *shapes)
{
    for (uint32_t i = 0; i < shapes->n_buffers; i++) {
        shapes->buffers[i].first = no_step;
    }
    for (uint32_t i = 0; i < shapes->n_steps; i++) {
        const bundle_step *step = &shapes->steps[i];
        if (step->is_copy) {
            kilni_bundle_use(shapes, step->source, i);
            kilni_bundle_use(shapes, step->target, i);
        }
        for (uint32_t k = 0; k < step->n_args; k++) {
            if (step->args[k].kind == BUNDLE_ARG_BUFFER) {
                kilni_bundle_use(shapes, step->args[k].buffer, i);
            }
        }
    }
}

static bool take_order(kiln_bundle_maker *maker, bundle_shapes *shapes, const uint32_t *order)
{
    bundle_step *steps =
        kiln_arena_alloc(&maker->arena, (shapes->n_steps + 1u) * sizeof(*shapes->steps));
    for (uint32_t i = 0; steps != NULL && i < shapes->n_steps; i++) {
        steps[i] = shapes->steps[order[i]];
    }
    if (steps != NULL) {
        shapes->steps = steps;
        renew_lives(shapes);
    }
    return steps != NULL;
}

/// False: no memory.
static bool order_in(kiln_bundle_maker *maker, bundle_shapes *shapes, kiln_arena *arena)
{
    const uint32_t before = kilni_bundle_reprograms(shapes);
    step_graph graph = {.manifest = &maker->manifest, .shapes = shapes};
    order_search search = {.n_beam = 0};
    uint32_t number = 0;
    if (!make_graph(&graph, arena) || !begin_search(&search, &graph, arena)) {
        return false;
    }
    for (uint32_t changes = 0; changes < before; changes++) { // the first program is no change
        take_program(&search, &number);
        if (search.beam[0]->done == shapes->n_steps) {
            return take_order(maker, shapes, search.beam[0]->order);
        }
    }
    return true;
}

kiln_status kilni_bundle_order(kiln_bundle_maker *maker, bundle_shapes *shapes, kiln_error *err)
{
    kiln_arena arena;
    kiln_arena_init(&arena, maker->env);
    bool done = kilni_bundle_reprograms(shapes) == 0 || order_in(maker, shapes, &arena);
    kiln_arena_fini(&arena);
    return done ? KILN_STATUS_OK
                : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an order of the steps");
}

kiln_status kiln_bundle_maker_order(kiln_bundle_maker *maker, kiln_device *device,
                                    uint32_t *out_saved, kiln_error *err)
{
    if (maker == NULL || device == NULL || out_saved == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "maker, device and out_saved must not be NULL");
    }
    bundle_manifest *manifest = &maker->manifest;
    kiln_status status = kilni_bundle_stage(maker, BUNDLE_STAGE_ORDER, err);
    *out_saved = 0;
    if (status == KILN_STATUS_OK && manifest->n_programs > 1) {
        status = kilni_bundle_parameters_ask(maker, device, err);
    }
    for (uint32_t s = 0; s < manifest->n_shapes && status == KILN_STATUS_OK; s++) {
        const uint32_t before = kilni_bundle_reprograms(&manifest->shapes[s]);
        status = kilni_bundle_order(maker, &manifest->shapes[s], err);
        *out_saved += s == 0 ? before - kilni_bundle_reprograms(&manifest->shapes[s]) : 0;
    }
    return status;
}
