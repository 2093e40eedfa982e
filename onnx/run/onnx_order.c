// SPDX-License-Identifier: MIT OR Apache-2.0
// The order in which the nodes of a graph run: that of the file, where each value is made before it
// is read, as ONNX wants it. Some tools write other files, which ONNX Runtime takes: there a node
// goes right before the first that reads it. In a circle the file's order stays, and planning tells
// of the value that is missing.
#include "onnx_run.h"

#include <string.h>

typedef struct maker_entry {
    const char *name;
    uint32_t node;
} maker_entry;

typedef struct sorter {
    const kiln_env *env;
    const kilni_onnx_node *nodes;
    maker_entry *table; ///< open addressing by name
    uint32_t mask;
    uint32_t *begins; ///< by node, and one more: where its list of `makers` begins
    uint32_t *makers; ///< nodes that make what a node reads; NULL while they are counted
    uint32_t reader;
    uint32_t filled;
    bool sorted; ///< no node reads what a later one makes
} sorter;

enum { NEW = 0, BEGUN = 1, DONE = 2 };

static maker_entry *maker_place(const sorter *s, const char *name)
{
    uint32_t at = (uint32_t)kiln_hash64(name, strlen(name), 0) & s->mask;
    while (s->table[at].name != NULL && strcmp(s->table[at].name, name) != 0) {
        at = (at + 1) & s->mask;
    }
    return &s->table[at];
}

static bool list_made(sorter *s, uint32_t count)
{
    size_t names = 0;
    for (uint32_t i = 0; i < count; i++) {
        names += s->nodes[i].n_outputs;
    }
    size_t size = 16;
    while (size < 2 * names) {
        size *= 2;
    }
    s->mask = (uint32_t)size - 1;
    s->table = kiln_alloc_array(s->env, size, sizeof(*s->table));
    for (uint32_t i = 0; s->table != NULL && i < count; i++) {
        for (uint32_t k = 0; k < s->nodes[i].n_outputs; k++) {
            maker_entry *place = maker_place(s, s->nodes[i].outputs[k]);
            if (place->name == NULL && s->nodes[i].outputs[k][0] != '\0') {
                *place = (maker_entry){s->nodes[i].outputs[k], i};
            }
        }
    }
    return s->table != NULL;
}

static void note_read(sorter *s, const char *name)
{
    const maker_entry *maker = maker_place(s, name);
    if (maker->name == NULL || maker->node == s->reader) {
        return;
    }
    s->sorted = s->sorted && maker->node < s->reader;
    if (s->makers != NULL) {
        s->makers[s->filled] = maker->node;
    }
    s->filled++;
}

/// What a node reads, and what graphs in it do, of names of their own, too.
static void note_reads(sorter *s, const kilni_onnx_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        note_read(s, node->inputs[i]);
    }
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const kilni_onnx_graph *graph = node->attrs[i].graph;
        for (uint32_t k = 0; graph != NULL && k < graph->n_nodes; k++) {
            note_reads(s, &graph->nodes[k]);
        }
        for (uint32_t k = 0; graph != NULL && k < graph->n_outputs; k++) {
            note_read(s, graph->outputs[k].name);
        }
    }
}

static void note_all(sorter *s, uint32_t count)
{
    s->sorted = true;
    s->filled = 0;
    for (s->reader = 0; s->reader < count; s->reader++) {
        if (s->makers != NULL) {
            s->begins[s->reader] = s->filled;
        }
        note_reads(s, &s->nodes[s->reader]);
    }
    if (s->makers != NULL) {
        s->begins[count] = s->filled;
    }
}

/// From `first` down to what it lacks, without recursion. False: a circle.
static bool place_with_makers(const sorter *s, uint32_t first, uint8_t *state, uint32_t *stack,
                              uint32_t *cursors, uint32_t *order, uint32_t *n_placed)
{
    uint32_t depth = 0;
    stack[depth++] = first;
    state[first] = BEGUN;
    while (depth > 0) {
        uint32_t node = stack[depth - 1];
        if (cursors[node] == s->begins[node + 1]) {
            state[node] = DONE;
            order[(*n_placed)++] = node;
            depth--;
            continue;
        }
        uint32_t maker = s->makers[cursors[node]++];
        if (state[maker] == BEGUN) {
            return false;
        }
        if (state[maker] == NEW) {
            state[maker] = BEGUN;
            stack[depth++] = maker;
        }
    }
    return true;
}

/// False: no memory. A circle leaves `order` as it was.
static bool sort_nodes(sorter *s, uint32_t count, uint32_t *order)
{
    s->begins = kiln_alloc_array(s->env, count + 1u, sizeof(*s->begins));
    s->makers = kiln_alloc_array(s->env, s->filled + 1u, sizeof(*s->makers));
    uint8_t *state = kiln_alloc_array(s->env, count, sizeof(*state));
    uint32_t *stack = kiln_alloc_array(s->env, count, sizeof(*stack));
    uint32_t *cursors = kiln_alloc_array(s->env, count, sizeof(*cursors));
    uint32_t *placed = kiln_alloc_array(s->env, count, sizeof(*placed));
    bool ok = s->begins != NULL && s->makers != NULL && state != NULL && stack != NULL &&
              cursors != NULL && placed != NULL;
    if (ok) {
        uint32_t n_placed = 0;
        bool circle = false;
        note_all(s, count);
        memcpy(cursors, s->begins, count * sizeof(*cursors));
        for (uint32_t i = 0; !circle && i < count; i++) {
            circle = state[i] == NEW &&
                     !place_with_makers(s, i, state, stack, cursors, placed, &n_placed);
        }
        if (!circle) {
            memcpy(order, placed, count * sizeof(*order));
        }
    }
    kiln_free(s->env, placed);
    kiln_free(s->env, cursors);
    kiln_free(s->env, stack);
    kiln_free(s->env, state);
    return ok;
}

kiln_status kilni_onnx_order(const kiln_env *env, const kilni_onnx_node *nodes, uint32_t count,
                             uint32_t *order, kiln_error *err)
{
    sorter s = {.env = env, .nodes = nodes};
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    bool ok = list_made(&s, count);
    if (ok) {
        note_all(&s, count);
        ok = s.sorted || sort_nodes(&s, count, order);
    }
    kiln_free(env, s.makers);
    kiln_free(env, s.begins);
    kiln_free(env, s.table);
    return ok ? KILN_STATUS_OK
              : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to sort %u nodes", count);
}
