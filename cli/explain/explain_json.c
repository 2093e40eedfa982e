// SPDX-License-Identifier: MIT OR Apache-2.0
// An explanation as JSON, in the form of docs/explain.md. Every number keeps its meaning from
// kiln_explanation; what is not known is null.

#include "cli_json.h"
#include "explain.h"
#include "model_work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- values ----

static json_t *place_or_null(uint32_t value)
{
    return value != UINT32_MAX ? json_integer(value) : json_null();
}

static json_t *list_of(const uint32_t *values, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, place_or_null(values[i]));
    }
    return list;
}

// ---- candidates ----

/// By how much a candidate is slower than the winner, measured where both were; null: nobody won,
/// or one of them does more than the other.
static json_t *margin_of(const kiln_explained_candidate *candidate,
                         const kiln_explained_candidate *winner)
{
    if (winner == NULL || !candidate->ready || winner == candidate ||
        candidate->n_ops != winner->n_ops) {
        return json_null();
    }
    bool measured = candidate->measured_ns > 0 && winner->measured_ns > 0;
    double own = measured ? candidate->measured_ns : candidate->predicted_ns;
    double best = measured ? winner->measured_ns : winner->predicted_ns;
    double percent = (own / best - 1) * 100;
    return best > 0 && isfinite(percent) ? json_real(percent) : json_null();
}

static json_t *candidates_of(const kiln_explained_candidate *all, uint32_t count)
{
    json_t *list = json_array();
    const kiln_explained_candidate *winner = NULL;
    for (uint32_t i = 0; i < count; i++) {
        winner = all[i].won ? &all[i] : winner;
    }
    for (uint32_t i = 0; i < count; i++) {
        const kiln_explained_candidate *c = &all[i];
        json_t *made = json_object();
        (void)json_object_set_new(made, "fuser", cli_json_text(c->fuser));
        (void)json_object_set_new(made, "status",
                                  json_string(c->won     ? "winner"
                                              : c->ready ? "candidate"
                                                         : "declined"));
        (void)json_object_set_new(made, "name", cli_json_text(c->name));
        (void)json_object_set_new(made, "reason", cli_json_text(c->reason));
        (void)json_object_set_new(made, "ops", json_integer(c->n_ops));
        (void)json_object_set_new(made, "launches", json_integer(c->n_launches));
        (void)json_object_set_new(made, "claimed_ns",
                                  c->ready ? json_real(c->claimed_ns) : json_null());
        (void)json_object_set_new(made, "trust", cli_json_figure(c->trust));
        (void)json_object_set_new(made, "floor_ns", cli_json_figure(c->floor_ns));
        (void)json_object_set_new(made, "predicted_ns", cli_json_figure(c->predicted_ns));
        (void)json_object_set_new(made, "saved_ns",
                                  c->ready && isfinite(c->saved_ns) ? json_real(c->saved_ns)
                                                                    : json_null());
        (void)json_object_set_new(made, "measured_ns", cli_json_figure(c->measured_ns));
        (void)json_object_set_new(made, "margin_percent", margin_of(c, winner));
        (void)json_array_append_new(list, made);
    }
    return list;
}

// ---- blocks, operations, tensors, steps ----

static json_t *source_of(const kiln_program_source *source)
{
    bool is_text = source->format == KILN_SOURCE_OPENCL_C;
    json_t *made = json_object();
    json_t *defines = json_array();
    for (uint32_t i = 0; i < source->n_defines; i++) {
        (void)json_array_append_new(defines, cli_json_text(source->defines[i]));
    }
    (void)json_object_set_new(made, "format",
                              json_string(is_text                               ? "OpenCL C"
                                          : source->format == KILN_SOURCE_SPIRV ? "SPIR-V"
                                                                                : "binary"));
    (void)json_object_set_new(made, "bytes", json_integer((json_int_t)source->length));
    (void)json_object_set_new(made, "defines", defines);
    if (source->vendor_options != NULL) {
        (void)json_object_set_new(made, "options", cli_json_text(source->vendor_options));
    }
    char *copy = is_text ? malloc(source->length + 1) : NULL;
    if (copy != NULL) {
        memcpy(copy, source->code, source->length);
        copy[source->length] = '\0';
    }
    (void)json_object_set_new(made, "text", cli_json_text(copy));
    free(copy);
    return made;
}

static double measured_of(const kiln_explanation *e, uint32_t block)
{
    double ns = 0;
    for (uint32_t i = 0; i < e->n_steps; i++) {
        ns += e->steps[i].block == block ? e->steps[i].measured_ns : 0;
    }
    return ns;
}

static void add_work(json_t *made, model_work work)
{
    (void)json_object_set_new(made, "flops", cli_json_figure(work.flops));
    (void)json_object_set_new(made, "bytes", cli_json_figure(work.bytes));
}

static json_t *block_of(const kiln_explanation *e, uint32_t index)
{
    const kiln_explained_block *b = &e->blocks[index];
    json_t *made = json_object();
    json_t *launches = json_array();
    json_t *sources = json_array();
    for (uint32_t i = 0; i < b->program->n_launches; i++) {
        json_t *launch = json_object();
        (void)json_object_set_new(launch, "kernel", cli_json_text(b->program->launches[i].kernel));
        (void)json_object_set_new(launch, "source", json_integer(b->program->launches[i].source));
        (void)json_array_append_new(launches, launch);
    }
    for (uint32_t i = 0; i < b->program->n_sources; i++) {
        (void)json_array_append_new(sources, source_of(&b->program->sources[i]));
    }
    (void)json_object_set_new(made, "fuser", cli_json_text(b->fuser));
    (void)json_object_set_new(made, "ops", list_of(b->ops, b->n_ops));
    (void)json_object_set_new(made, "predicted_ns", cli_json_figure(b->predicted_ns));
    (void)json_object_set_new(made, "baseline_ns", cli_json_figure(b->baseline_ns));
    (void)json_object_set_new(made, "unfused_ns", cli_json_figure(b->unfused_ns));
    (void)json_object_set_new(made, "measured_ns", cli_json_figure(measured_of(e, index)));
    add_work(made, model_work_of_block(e, b));
    (void)json_object_set_new(made, "failure", cli_json_text(b->failure));
    (void)json_object_set_new(made, "candidates", candidates_of(b->candidates, b->n_candidates));
    (void)json_object_set_new(made, "launches", launches);
    (void)json_object_set_new(made, "sources", sources);
    return made;
}

static json_t *op_of(const kiln_explanation *e, const kiln_explained_op *op, uint32_t node)
{
    json_t *made = json_object();
    add_work(made, model_work_of_op(e, op));
    (void)json_object_set_new(made, "node", place_or_null(node));
    (void)json_object_set_new(made, "name", cli_json_text(op->name));
    (void)json_object_set_new(made, "class", cli_json_text(op->kind));
    (void)json_object_set_new(made, "text", cli_json_text(op->text));
    (void)json_object_set_new(made, "block", place_or_null(op->block));
    (void)json_object_set_new(made, "step", place_or_null(op->step));
    (void)json_object_set_new(made, "inputs", list_of(op->inputs, op->n_inputs));
    (void)json_object_set_new(made, "outputs", list_of(op->outputs, op->n_outputs));
    (void)json_object_set_new(made, "candidates", candidates_of(op->candidates, op->n_candidates));
    return made;
}

/// What the model calls its inputs and outputs; other tensors have no names.
static const char *name_of(const model_session *session, const kiln_explained_tensor *tensor)
{
    size_t count = 0;
    if (session->graph == NULL) { // inputs and outputs are those of a part of the model
        return NULL;
    }
    const kiln_onnx_value_info *outputs = kiln_onnx_model_outputs(session->model, &count);
    if (tensor->output < count) {
        return outputs[tensor->output].name;
    }
    return tensor->input < session->n_inputs ? session->inputs[tensor->input].name : NULL;
}

static json_t *tensor_of(const model_session *session, const kiln_explained_tensor *tensor)
{
    json_t *made = json_object();
    (void)json_object_set_new(made, "name", cli_json_text(name_of(session, tensor)));
    (void)json_object_set_new(made, "type", cli_json_text(tensor->text));
    (void)json_object_set_new(made, "bytes", json_integer((json_int_t)tensor->bytes));
    (void)json_object_set_new(made, "made_by", place_or_null(tensor->made_by));
    (void)json_object_set_new(made, "memory", place_or_null(tensor->memory));
    (void)json_object_set_new(made, "first_step", place_or_null(tensor->first_step));
    (void)json_object_set_new(made, "last_step", place_or_null(tensor->last_step));
    (void)json_object_set_new(made, "input", place_or_null(tensor->input));
    (void)json_object_set_new(made, "output", place_or_null(tensor->output));
    return made;
}

static json_t *step_of(const kiln_explained_step *step)
{
    bool ran = step->runs > 0;
    json_t *made = json_object();
    (void)json_object_set_new(made, "block", place_or_null(step->block));
    (void)json_object_set_new(made, "op", place_or_null(step->op));
    (void)json_object_set_new(made, "kernel", cli_json_text(step->kernel));
    (void)json_object_set_new(made, "live_bytes", json_integer((json_int_t)step->live_bytes));
    (void)json_object_set_new(made, "runs", json_integer(step->runs));
    (void)json_object_set_new(made, "measured_ns",
                              ran ? json_real(step->measured_ns) : json_null());
    (void)json_object_set_new(made, "start_ns", ran ? json_real(step->start_ns) : json_null());
    (void)json_object_set_new(made, "last_ns", ran ? json_real(step->last_ns) : json_null());
    return made;
}

// ---- all of it ----

static json_t *device_of(const model_session *session)
{
    const kiln_device_info *info = kiln_device_info_of(session->device);
    json_t *made = json_object();
    (void)json_object_set_new(made, "address", cli_json_text(kiln_device_address(session->device)));
    (void)json_object_set_new(made, "name", cli_json_text(info->name));
    (void)json_object_set_new(made, "driver", cli_json_text(info->driver));
    (void)json_object_set_new(made, "compute_units", json_integer(info->compute_units));
    (void)json_object_set_new(made, "bytes_per_s", json_integer((json_int_t)info->bytes_per_s));
    (void)json_object_set_new(made, "launch_ns", json_integer((json_int_t)info->launch_ns));
    (void)json_object_set_new(made, "flops_f32", cli_json_figure((double)info->flops_f32));
    return made;
}

static json_t *value_of(const kiln_graph_memory_value *value)
{
    static const char *const homes[] = {"", "arena", "result", "inside", "pool", "kept"};
    static const char *const kinds[] = {"", "tensor", "temporary", "scratch"};
    bool is_tensor = value->kind == KILN_MEMORY_TENSOR;
    json_t *made = json_object();
    (void)json_object_set_new(made, "kind", json_string(kinds[value->kind]));
    (void)json_object_set_new(made, "home", json_string(homes[value->home]));
    (void)json_object_set_new(made, "tensor",
                              is_tensor ? place_or_null(value->tensor) : json_null());
    (void)json_object_set_new(made, "first_step", json_integer(value->first_step));
    (void)json_object_set_new(made, "last_step", json_integer(value->last_step));
    (void)json_object_set_new(made, "in_place", json_boolean(value->in_place));
    (void)json_object_set_new(made, "bytes", json_integer((json_int_t)value->bytes));
    (void)json_object_set_new(made, "offset",
                              value->home == KILN_MEMORY_ARENA
                                  ? json_integer((json_int_t)value->offset_bytes)
                                  : json_null());
    return made;
}

/// Where everything lies; null where nothing is assigned, or not yet.
static json_t *layout_of(const kiln_graph *graph)
{
    kiln_graph_memory m = KILN_GRAPH_MEMORY_INIT;
    json_t *steps = json_array(), *values = json_array(), *made = json_object();
    if (kiln_graph_memory_get(graph, &m, NULL) != KILN_STATUS_OK) {
        json_decref(steps);
        json_decref(values);
        json_decref(made);
        return json_null();
    }
    for (uint32_t i = 0; i < m.steps; i++) {
        kiln_graph_memory_step step = KILN_GRAPH_MEMORY_STEP_INIT;
        (void)!kiln_graph_memory_step_get(graph, i, &step, NULL);
        (void)json_array_append_new(steps, json_integer((json_int_t)step.live_bytes));
    }
    for (uint32_t i = 0; i < m.values; i++) {
        kiln_graph_memory_value value = KILN_GRAPH_MEMORY_VALUE_INIT;
        (void)!kiln_graph_memory_value_get(graph, i, &value, NULL);
        (void)json_array_append_new(values, value_of(&value));
    }
    (void)json_object_set_new(made, "peak_bytes", json_integer((json_int_t)m.peak_bytes));
    (void)json_object_set_new(made, "arena_bytes", json_integer((json_int_t)m.arena_bytes));
    (void)json_object_set_new(made, "result_bytes", json_integer((json_int_t)m.result_bytes));
    (void)json_object_set_new(made, "bound_bytes", json_integer((json_int_t)m.bound_bytes));
    (void)json_object_set_new(made, "all_bytes", json_integer((json_int_t)m.all_bytes));
    (void)json_object_set_new(made, "live_bytes", steps);
    (void)json_object_set_new(made, "values", values);
    return made;
}

static json_t *memory_of(const explain_graph *graph)
{
    const kiln_explanation *e = &graph->explanation;
    json_t *made = json_object();
    (void)json_object_set_new(made, "peak_bytes", json_integer((json_int_t)e->peak_bytes));
    (void)json_object_set_new(made, "resident_bytes", json_integer((json_int_t)e->resident_bytes));
    (void)json_object_set_new(made, "total_bytes", json_integer((json_int_t)e->total_bytes));
    (void)json_object_set_new(made, "layout", layout_of(graph->graph));
    return made;
}

// ---- nodes of the model ----

/// Through the operations in the order in which they were recorded, and the nodes beside them.
typedef struct node_walk {
    const model_nodes *nodes;
    bool known; ///< the counts agree; else nothing is said
    size_t at;
    uint64_t left; ///< operations of the node at hand
} node_walk;

static bool is_drop(const kiln_explained_op *op)
{
    return strcmp(op->name, "drop") == 0;
}

static node_walk begin_walk(const model_session *session, const kiln_explanation *e)
{
    node_walk walk = {.nodes = &session->nodes};
    uint64_t ops = 0, told = 0;
    for (uint32_t i = 0; i < e->n_ops; i++) {
        ops += !is_drop(&e->ops[i]);
    }
    for (size_t i = 0; i < session->nodes.count; i++) {
        told += session->nodes.items[i].n_ops;
    }
    walk.known = session->graph != NULL && ops == told && !session->nodes.failed;
    walk.left = walk.known && session->nodes.count > 0 ? session->nodes.items[0].n_ops : 0;
    return walk;
}

static uint32_t next_node(node_walk *walk, const kiln_explained_op *op)
{
    if (!walk->known || is_drop(op)) {
        return UINT32_MAX;
    }
    while (walk->left == 0 && walk->at + 1 < walk->nodes->count) {
        walk->left = walk->nodes->items[++walk->at].n_ops;
    }
    walk->left--;
    return (uint32_t)walk->at;
}

static json_t *nodes_of(const model_session *session, bool known)
{
    json_t *list = json_array();
    for (size_t i = 0; known && i < session->nodes.count; i++) {
        const model_node *node = &session->nodes.items[i];
        json_t *made = json_object();
        (void)json_object_set_new(made, "name", cli_json_text(node->name));
        (void)json_object_set_new(made, "operator", cli_json_text(node->op_type));
        (void)json_object_set_new(made, "attributes", cli_json_text(node->attributes));
        (void)json_array_append_new(list, made);
    }
    return list;
}

static void fill_lists(json_t *root, const model_session *session, const kiln_explanation *e)
{
    json_t *fusers = json_array(), *ops = json_array(), *blocks = json_array();
    json_t *tensors = json_array(), *steps = json_array();
    for (uint32_t i = 0; i < e->n_fusers; i++) {
        (void)json_array_append_new(fusers, cli_json_text(e->fusers[i]));
    }
    node_walk walk = begin_walk(session, e);
    for (uint32_t i = 0; i < e->n_ops; i++) {
        (void)json_array_append_new(ops, op_of(e, &e->ops[i], next_node(&walk, &e->ops[i])));
    }
    (void)json_object_set_new(root, "nodes", nodes_of(session, walk.known));
    for (uint32_t i = 0; i < e->n_blocks; i++) {
        (void)json_array_append_new(blocks, block_of(e, i));
    }
    for (uint32_t i = 0; i < e->n_tensors; i++) {
        (void)json_array_append_new(tensors, tensor_of(session, &e->tensors[i]));
    }
    for (uint32_t i = 0; i < e->n_steps; i++) {
        (void)json_array_append_new(steps, step_of(&e->steps[i]));
    }
    (void)json_object_set_new(root, "fusers", fusers);
    (void)json_object_set_new(root, "ops", ops);
    (void)json_object_set_new(root, "blocks", blocks);
    (void)json_object_set_new(root, "tensors", tensors);
    (void)json_object_set_new(root, "steps", steps);
}

static void fill_graph(json_t *root, const model_session *session, const explain_graph *graph)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_graph_info_get(graph->graph, &info);
    (void)json_object_set_new(root, "operations", json_integer((json_int_t)info.ops));
    (void)json_object_set_new(root, "operations_fused", json_integer((json_int_t)info.ops_fused));
    (void)json_object_set_new(root, "memory", memory_of(graph));
    fill_lists(root, session, &graph->explanation);
}

kiln_status explain_json(const model_session *session, const char *model,
                         const explain_graph *graphs, size_t count, char **out_text,
                         kiln_error *err)
{
    json_t *root = json_object();
    (void)json_object_set_new(root, "version", json_integer(EXPLAIN_JSON_VERSION));
    (void)json_object_set_new(root, "kiln", cli_json_text(kiln_version()));
    (void)json_object_set_new(root, "model", cli_json_text(model));
    (void)json_object_set_new(root, "device", device_of(session));
    if (session->graph != NULL) {
        fill_graph(root, session, &graphs[0]);
    } else {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *part = json_object();
            (void)json_object_set_new(part, "name", cli_json_text(graphs[i].name));
            fill_graph(part, session, &graphs[i]);
            (void)json_array_append_new(list, part);
        }
        (void)json_object_set_new(root, "graphs", list);
    }
    // ASCII alone, so that no reader stumbles over what its script takes for the end of a line.
    *out_text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    json_decref(root);
    return *out_text != NULL ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an explanation");
}

kiln_status explain_read(const char *path, char **out_text, kiln_error *err)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL && error.line < 0) {
        return kiln_fail(err, NOT_FOUND, "%s", error.text);
    }
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    if (version == EXPLAIN_JSON_VERSION && json_is_object(json_object_get(root, "device"))) {
        *out_text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    }
    json_decref(root);
    return *out_text != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT,
                           "%.200s is not what `kiln explain --json` of this version writes", path);
}
