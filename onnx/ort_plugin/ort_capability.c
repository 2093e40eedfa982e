// SPDX-License-Identifier: MIT OR Apache-2.0
// Which nodes Kiln takes of a graph, and which of them become one. Decides that the importer's
// survey and the dtypes of values say what is served, that nodes with graphs inside stay where they
// are, and that shape arithmetic on its own does too.
#include "ort_room.h"

typedef struct survey {
    const ort_calls *calls;
    const kiln_env *env;
    kiln_device *device;
    ort_nodes nodes;
    bool *served; ///< by node
    uint32_t *levels; ///< by node
    ort_names value_levels; ///< of values that nodes make: twice the level, and 1 if not served
    kiln_error *err;
} survey;

// ---- what is served ----

static void hear(size_t node, const kiln_error *why, void *user)
{
    survey *s = user;
    s->served[node] = why == NULL;
    if (why != NULL) {
        kiln_log_write(s->env, KILN_LOG_DEBUG, "ort_plugin", "left to ONNX Runtime: %s",
                       why->message);
    }
}

static kiln_status ask_importer(survey *s, const ort_graph *graph)
{
    ort_part part = {.graph = graph, .nodes = s->nodes};
    kiln_onnx_model *model = NULL;
    const ort_node *last = s->nodes.items[s->nodes.count - 1];
    kiln_status status =
        kilni_ort_infos(s->calls, s->env, KILNI_ORT_OUTPUTS, last, &part.outputs, s->err);
    if (status == KILN_STATUS_OK) {
        status = kilni_ort_model(s->calls, s->env, &part, &model, s->err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_model_survey(model, s->device, hear, s, s->err);
    }
    kiln_onnx_model_close(model);
    kiln_free(s->env, part.outputs.items);
    return status;
}

/// Whether the device can hold all values of a node; `*out_floats` when one of them is a float.
static bool holds(const survey *s, const ort_node *node, ort_which which, bool *out_floats)
{
    ort_infos infos;
    if (kilni_ort_infos(s->calls, s->env, which, node, &infos, NULL) != KILN_STATUS_OK) {
        return false;
    }
    bool held = true;
    for (size_t i = 0; held && i < infos.count; i++) {
        const char *name = "";
        if (kilni_ort_name(s->calls, infos.items[i], &name, NULL) != KILN_STATUS_OK) {
            held = false;
        } else if (name[0] != '\0') {
            kiln_dtype dtype = kilni_ort_dtype(kilni_ort_element(s->calls, infos.items[i]));
            held = dtype != KILN_DTYPE_NONE &&
                   (kiln_device_dtype_usage(s->device, dtype) & KILN_USAGE_STORAGE) != 0;
            *out_floats = *out_floats || kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
        }
    }
    kiln_free(s->env, infos.items);
    return held;
}

static bool has_graphs(const survey *s, const ort_node *node)
{
    size_t count = 0;
    return kilni_ort_take(s->calls, s->calls->node_n_graphs(node, &count), NULL) !=
               KILN_STATUS_OK ||
           count > 0;
}

// ---- levels ----

/// Raises `level` to what the values ask for that a node reads. Nodes of one level can be one: no
/// way between two of them leads through a node that is not served, for such a way goes up.
static kiln_status raise_level(survey *s, const ort_node *node, ort_which which, bool served,
                               uint32_t *level)
{
    ort_infos infos;
    kiln_status status = kilni_ort_infos(s->calls, s->env, which, node, &infos, s->err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < infos.count; i++) {
        const char *name = NULL;
        status = kilni_ort_name(s->calls, infos.items[i], &name, s->err);
        if (status == KILN_STATUS_OK && name[0] != '\0') {
            uint32_t made = kilni_ort_names_get(&s->value_levels, name, 0);
            uint32_t least = made / 2 + (served && made % 2 == 1 ? 1 : 0);
            *level = least > *level ? least : *level;
        }
    }
    kiln_free(s->env, infos.items);
    return status;
}

static kiln_status set_level(survey *s, size_t index)
{
    const ort_node *node = s->nodes.items[index];
    bool served = s->served[index];
    uint32_t *level = &s->levels[index];
    ort_infos outputs;
    kiln_status status = raise_level(s, node, KILNI_ORT_INPUTS, served, level);
    if (status == KILN_STATUS_OK) {
        status = raise_level(s, node, KILNI_ORT_IMPLICIT, served, level);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_ort_infos(s->calls, s->env, KILNI_ORT_OUTPUTS, node, &outputs, s->err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < outputs.count; i++) {
        const char *name = NULL;
        status = kilni_ort_name(s->calls, outputs.items[i], &name, s->err);
        if (status == KILN_STATUS_OK) {
            status =
                kilni_ort_names_set(&s->value_levels, name, *level * 2 + (served ? 0 : 1), s->err);
        }
    }
    kiln_free(s->env, outputs.items);
    return status;
}

// ---- sets of nodes ----

static kiln_status give_level(const survey *s, uint32_t level, ort_support *support,
                              const ort_node **set)
{
    const ort_fusion_options options = {.version = KILNI_ORT_VERSION, .drop_constants = true};
    size_t count = 0;
    bool floats = false;
    for (size_t i = 0; i < s->nodes.count; i++) {
        if (s->served[i] && s->levels[i] == level) {
            set[count++] = s->nodes.items[i];
            (void)holds(s, s->nodes.items[i], KILNI_ORT_OUTPUTS, &floats);
        }
    }
    return floats ? kilni_ort_take(s->calls, s->calls->take_nodes(support, set, count, &options),
                                   s->err)
                  : KILN_STATUS_OK;
}

static kiln_status give_all(survey *s, const ort_graph *graph, ort_support *support)
{
    uint32_t levels = 0;
    const ort_node **set = kiln_alloc_array(s->env, s->nodes.count, sizeof(*set));
    kiln_status status = set == NULL
                             ? kiln_fail(s->err, RESOURCE_EXHAUSTED, "no memory for a set of nodes")
                             : ask_importer(s, graph);
    for (size_t i = 0; status == KILN_STATUS_OK && i < s->nodes.count; i++) {
        const ort_node *node = s->nodes.items[i];
        bool floats = false;
        s->served[i] = s->served[i] && !has_graphs(s, node) &&
                       holds(s, node, KILNI_ORT_INPUTS, &floats) &&
                       holds(s, node, KILNI_ORT_OUTPUTS, &floats);
        status = set_level(s, i);
        levels = s->levels[i] >= levels ? s->levels[i] + 1 : levels;
    }
    for (uint32_t level = 0; status == KILN_STATUS_OK && level < levels; level++) {
        status = give_level(s, level, support, set);
    }
    kiln_free(s->env, set);
    return status;
}

kiln_status kilni_ort_capability(const ort_calls *calls, kiln_device *device,
                                 const ort_graph *graph, ort_support *support, kiln_error *err)
{
    survey s = {.calls = calls, .device = device, .err = err};
    const ort_node *parent = NULL;
    s.env = kiln_context_env(kiln_device_context(device));
    s.value_levels.env = s.env;
    kiln_status status = kilni_ort_take(calls, calls->graph_parent(graph, &parent), err);
    if (status != KILN_STATUS_OK || parent != NULL) {
        return status; // a branch or a body stays with the node that holds it
    }
    status = kilni_ort_nodes(calls, s.env, graph, &s.nodes, err);
    if (status != KILN_STATUS_OK || s.nodes.count == 0) {
        kiln_free(s.env, s.nodes.items);
        return status;
    }
    s.served = kiln_alloc_array(s.env, s.nodes.count, sizeof(*s.served));
    s.levels = kiln_alloc_array(s.env, s.nodes.count, sizeof(*s.levels));
    status = s.served == NULL || s.levels == NULL
                 ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu nodes", s.nodes.count)
                 : give_all(&s, graph, support);
    kiln_free(s.env, s.served);
    kiln_free(s.env, s.levels);
    kilni_ort_names_fini(&s.value_levels);
    kiln_free(s.env, s.nodes.items);
    return status;
}
