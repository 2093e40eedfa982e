// SPDX-License-Identifier: MIT OR Apache-2.0
// Liveness of a plan, walked step by step, and the peak of a measured run.
#include "memory_bound.h"
#include "rt_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "memory_internal.h"

enum { NOBODY = -1, MAX_OUTPUTS = 64 };

typedef struct walk {
    const kiln_graph *graph;
    const kiln_fuse_segment *segment;
    const kiln_plan *plan;
    kiln_view *views; ///< per tensor
    bool *there; ///< per tensor
    int *owner; ///< per tensor: the memory that it shows; NOBODY: an input's
    uint64_t *bytes; ///< per memory
    int *users; ///< per memory: tensors that are alive
    int n_memories;
    uint64_t live;
} walk;

static uint32_t slot_of(const walk *w, uint32_t op, size_t operand)
{
    return ((const kiln_tensor *)w->segment->operands[op][operand])->slot;
}

static bool dies_now(const walk *w, const kiln_plan_step *step, uint32_t slot)
{
    for (uint32_t i = 0; i < step->n_dies; i++) {
        if (step->dies[i] == slot) {
            return w->owner[slot] != NOBODY && w->users[w->owner[slot]] == 1;
        }
    }
    return false;
}

/// What a result needs beside the inputs that it may be written over.
static uint64_t needs(walk *w, const kiln_plan_step *step, const uint32_t *inputs, size_t n_inputs,
                      uint32_t output, bool *taken)
{
    const kiln_tensor_desc *desc = &w->segment->tensors[output];
    for (size_t i = 0; i < n_inputs; i++) {
        const kiln_tensor_desc *input = &w->segment->tensors[inputs[i]];
        if (!taken[i] && dies_now(w, step, inputs[i]) &&
            kiln_dtype_size(input->dtype) == kiln_dtype_size(desc->dtype) &&
            kiln_desc_same_shape(input, desc)) {
            taken[i] = true;
            return 0;
        }
    }
    return (uint64_t)kiln_desc_bytes(desc);
}

static void make(walk *w, uint32_t slot)
{
    int number = w->n_memories++;
    w->there[slot] = true;
    w->owner[slot] = number;
    w->bytes[number] = (uint64_t)kiln_desc_bytes(&w->segment->tensors[slot]);
    w->users[number] = 1;
    w->views[slot] = kiln_view_dense(&w->segment->tensors[slot], NULL);
}

/// Gives what the step adds at its height; its results exist afterwards.
static uint64_t walk_op(walk *w, const kiln_plan_step *step)
{
    const kiln_op_record *record = &w->segment->ops[step->index];
    kiln_op_class cls = kiln_op_info_of(record->op)->cls;
    uint32_t inputs[KILN_MAX_INPUTS] = {0};
    bool taken[KILN_MAX_INPUTS] = {false};
    uint64_t more = 0;
    if (cls == KILN_CLASS_CONTROL) {
        return 0;
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        inputs[i] = slot_of(w, step->index, i);
    }
    uint32_t first = slot_of(w, step->index, record->n_inputs);
    kiln_view view;
    bool copies =
        (kiln_device_info_of(kilni_graph_device(w->graph))->features & KILN_FEATURE_OWN_VIEWS) != 0;
    if (cls == KILN_CLASS_VIEW && !copies && kiln_view_apply(record, &w->views[inputs[0]], &view)) {
        w->views[first] = view;
        w->there[first] = true;
        w->owner[first] = w->owner[inputs[0]];
        if (w->owner[first] != NOBODY) {
            w->users[w->owner[first]]++;
        }
        return 0;
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        uint32_t slot = slot_of(w, step->index, record->n_inputs + i);
        more += needs(w, step, inputs, cls == KILN_CLASS_ELEMENTWISE ? record->n_inputs : 0, slot,
                      taken);
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        make(w, slot_of(w, step->index, record->n_inputs + i));
    }
    return more;
}

static uint64_t walk_launch(walk *w, const kiln_plan_step *step)
{
    const kiln_plan_block *block = &w->plan->blocks[step->block];
    const kiln_program_launch *launch = &block->program->launches[step->index];
    bool in_place = (block->program->flags & KILN_PROGRAM_IN_PLACE_SAFE) != 0;
    uint32_t inputs[256];
    bool taken[256] = {false};
    size_t n_inputs = 0;
    uint64_t more = 0;
    for (uint32_t i = 0; i < launch->n_args && n_inputs < 256; i++) {
        if (launch->args[i].kind == KILN_ARG_TENSOR && launch->args[i].access == KILN_ACCESS_READ &&
            in_place) {
            inputs[n_inputs++] = block->tensors[launch->args[i].ref];
        }
    }
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (arg->kind == KILN_ARG_TENSOR && !w->there[block->tensors[arg->ref]]) {
            more += needs(w, step, inputs, n_inputs, block->tensors[arg->ref], taken);
            make(w, block->tensors[arg->ref]);
            w->users[w->owner[block->tensors[arg->ref]]] = 1;
        }
    }
    return more;
}

static void bury(walk *w, const kiln_plan_step *step)
{
    for (uint32_t i = 0; i < step->n_dies; i++) {
        int memory = w->owner[step->dies[i]];
        if (memory != NOBODY && w->there[step->dies[i]] && --w->users[memory] == 0) {
            w->live -= w->bytes[memory];
        }
    }
}

static bool uses_temp(const kiln_plan *plan, uint32_t index, uint32_t block, uint32_t temp)
{
    const kiln_plan_step *step = &plan->steps[index];
    if (step->kind != KILN_STEP_LAUNCH || step->block != block) {
        return false;
    }
    const kiln_program_launch *launch = &plan->blocks[block].program->launches[step->index];
    for (uint32_t i = 0; i < launch->n_args; i++) {
        if (launch->args[i].kind == KILN_ARG_TEMP && launch->args[i].ref == temp) {
            return true;
        }
    }
    return false;
}

/// Temporaries of programs that this step needs, or an earlier and a later one.
static uint64_t temps_at(const walk *w, uint32_t index)
{
    uint64_t sum = 0;
    for (uint32_t b = 0; b < w->plan->n_blocks; b++) {
        const kiln_plan_block *block = &w->plan->blocks[b];
        int64_t symbols[256] = {0};
        for (uint32_t i = 0; i < block->n_symbols && i < 256; i++) {
            symbols[i] = w->segment->symbols[block->symbols[i]];
        }
        for (uint32_t t = 0; t < block->program->n_temps; t++) {
            bool before = false, after = false;
            int64_t bytes = 0;
            for (uint32_t i = 0; i < w->plan->n_steps; i++) {
                bool uses = uses_temp(w->plan, i, b, t);
                before = before || (uses && i <= index);
                after = after || (uses && i >= index);
            }
            if (before && after &&
                KILN_CHECK(kiln_formula_eval(&block->program->temps[t].bytes, symbols,
                                             block->n_symbols, kilni_graph_device(w->graph)->facts,
                                             KILN_FACT_COUNT, &bytes, NULL) == KILN_STATUS_OK)) {
                sum += (uint64_t)bytes;
            }
        }
    }
    return sum;
}

static uint64_t scratch_at(const walk *w, uint32_t index)
{
    uint64_t sum = 0;
    kiln_graph_memory_value value = KILN_GRAPH_MEMORY_VALUE_INIT;
    for (uint32_t i = 0; kiln_graph_memory_value_get(w->graph, i, &value, NULL) == KILN_STATUS_OK;
         i++) {
        sum += value.kind == KILN_MEMORY_SCRATCH && value.first_step == index ? value.bytes : 0;
    }
    return sum;
}

static void start(walk *w)
{
    uint32_t n = w->plan->n_tensors;
    w->views = calloc(n + 1, sizeof(*w->views));
    w->there = calloc(n + 1, sizeof(*w->there));
    w->owner = calloc(n + 1, sizeof(*w->owner));
    w->bytes = calloc(n + 1, sizeof(*w->bytes));
    w->users = calloc(n + 1, sizeof(*w->users));
    for (uint32_t i = 0; i < n; i++) {
        const kiln_tensor *tensor = w->segment->tokens[i];
        w->owner[i] = NOBODY;
        w->there[i] = !tensor->captured;
        w->views[i] = tensor->binding.bound ? tensor->binding.view
                                            : kiln_view_dense(&w->segment->tensors[i], NULL);
    }
}

uint64_t memory_bound(const kiln_graph *graph)
{
    walk w = {.graph = graph, .segment = kilni_graph_segment(graph)};
    uint64_t most = 0;
    if (w.segment == NULL) {
        return 0;
    }
    w.plan = w.segment->plan;
    start(&w);
    for (uint32_t i = 0; i < w.plan->n_steps; i++) {
        const kiln_plan_step *step = &w.plan->steps[i];
        int made = w.n_memories;
        uint64_t height = w.live;
        height += step->kind == KILN_STEP_LAUNCH ? walk_launch(&w, step) : walk_op(&w, step);
        height += temps_at(&w, i) + scratch_at(&w, i);
        most = height > most ? height : most;
        for (; made < w.n_memories; made++) {
            w.live += w.bytes[made];
        }
        bury(&w, step);
    }
    free(w.views);
    free(w.there);
    free(w.owner);
    free(w.bytes);
    free(w.users);
    return most;
}

static void run_once(kiln_graph *graph, kiln_tensor *const *inputs, size_t n_inputs,
                     kiln_tensor **outputs, size_t n_outputs)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = kiln_graph_run(graph, inputs, n_inputs, outputs, n_outputs, &err);
    kiln_test_check(status == KILN_STATUS_OK, __FILE__, __LINE__, err.message);
}

uint64_t memory_of_run(kiln_device *device, kiln_graph *graph, kiln_tensor *const *inputs,
                       size_t n_inputs, size_t n_outputs, int warm)
{
    kiln_tensor *outputs[MAX_OUTPUTS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    if (!KILN_CHECK(n_outputs <= MAX_OUTPUTS)) {
        return 0;
    }
    kiln_device_trim(device);
    kiln_device_stats_get(device, &stats);
    uint64_t before = stats.backend.bytes_pooled;
    for (int i = 0; i <= warm; i++) {
        if (i == warm) {
            kiln_device_reset_peaks(device);
        }
        run_once(graph, inputs, n_inputs, outputs, n_outputs);
        kiln_test_check(kiln_sync(device, &err) == KILN_STATUS_OK, __FILE__, __LINE__, err.message);
        for (size_t k = 0; k < n_outputs; k++) {
            kiln_release(outputs[k]);
            outputs[k] = NULL;
        }
    }
    kiln_device_stats_get(device, &stats);
    return stats.backend.bytes_pooled_peak - before;
}

void memory_print(const kiln_graph *graph)
{
    kiln_graph_memory memory = KILN_GRAPH_MEMORY_INIT;
    kiln_graph_memory_value v = KILN_GRAPH_MEMORY_VALUE_INIT;
    if (kiln_graph_memory_get(graph, &memory, NULL) != KILN_STATUS_OK) {
        return;
    }
    printf("bound %llu, arena %llu, results %llu, all %llu\n",
           (unsigned long long)memory.bound_bytes, (unsigned long long)memory.arena_bytes,
           (unsigned long long)memory.result_bytes, (unsigned long long)memory.all_bytes);
    for (uint32_t i = 0; kiln_graph_memory_value_get(graph, i, &v, NULL) == KILN_STATUS_OK; i++) {
        static const char *const kinds[] = {"", "tensor", "temporary", "scratch"};
        static const char *const homes[] = {"", "arena", "result", "inside", "pool", "kept"};
        printf("%3u %-9s %-6s steps %u-%u, %llu bytes at %llu%s\n", i, kinds[v.kind], homes[v.home],
               v.first_step, v.last_step, (unsigned long long)v.bytes,
               (unsigned long long)v.offset_bytes, v.in_place != 0 ? ", in place" : "");
    }
}
