// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns graphs and functions into plans: names to slots, nodes to rows of the operators or to
// functions, and how often each value is read, so that a run can let go of it at its last use.
// Decides what is an unknown operator. A branch (If) gets a plan of its own whose free names are
// slots of the plan around it.
#include "onnx_run.h"

#include <string.h>

/// A plan that is being made.
typedef struct builder {
    kiln_onnx_session *session;
    struct builder *around;
    kilni_onnx_plan *plan;
    const kilni_onnx_opset *opsets;
    uint32_t n_opsets;
    uint32_t *table; ///< open addressing: slot + 1
    uint32_t table_size;
    const char **names;
    uint32_t *uses;
    uint32_t *outer;
    uint32_t *outer_from;
    uint32_t capacity; ///< of names, uses, outer
    kiln_error *err;
} builder;

static kiln_status plan_body(builder *around, kiln_onnx_session *session, const void *key,
                             const kilni_onnx_graph *graph, const kilni_onnx_function *function,
                             kilni_onnx_plan **out_plan, kiln_error *err);

const kilni_onnx_plan *kilni_onnx_plan_find(const kiln_onnx_session *session, const void *key)
{
    const kilni_onnx_plan *plan = session->plans;
    while (plan != NULL && plan->key != key) {
        plan = plan->next;
    }
    return plan;
}

static void *take(builder *b, size_t count, size_t bytes_each)
{
    if (count > SIZE_MAX / 16 / bytes_each) {
        return NULL;
    }
    return kiln_arena_alloc(&b->session->arena, count * bytes_each);
}

static kiln_status no_memory(builder *b)
{
    (void)kiln_fail(b->err, RESOURCE_EXHAUSTED, "no memory for the plan of a graph");
    return KILN_STATUS_RESOURCE_EXHAUSTED;
}

// ---- names ----

static uint32_t *table_place(const builder *b, const char *name)
{
    uint32_t mask = b->table_size - 1;
    uint32_t at = (uint32_t)kiln_hash64(name, strlen(name), 0) & mask;
    while (b->table[at] != 0 && strcmp(b->names[b->table[at] - 1], name) != 0) {
        at = (at + 1) & mask;
    }
    return &b->table[at];
}

static uint32_t find_slot(const builder *b, const char *name)
{
    return *table_place(b, name) - 1; /* an empty place gives KILNI_ONNX_NO_SLOT */
}

static kiln_status define(builder *b, const char *name, uint32_t *out_slot)
{
    *out_slot = KILNI_ONNX_NO_SLOT;
    if (name[0] == '\0') {
        return KILN_STATUS_OK;
    }
    uint32_t *place = table_place(b, name);
    if (*place != 0) {
        return kiln_fail(b->err, INVALID_ARGUMENT, "value '%s' is defined twice", name);
    }
    if (b->plan->n_slots == b->capacity) {
        return kiln_fail(b->err, INTERNAL, "more names than were counted");
    }
    b->names[b->plan->n_slots] = name;
    *place = ++b->plan->n_slots;
    *out_slot = *place - 1;
    return KILN_STATUS_OK;
}

/// The slot of a name that is read, reaching into the plans around.
static kiln_status use(builder *b, const char *name, uint32_t *out_slot)
{
    *out_slot = KILNI_ONNX_NO_SLOT;
    if (name[0] == '\0') {
        return KILN_STATUS_OK;
    }
    uint32_t slot = find_slot(b, name);
    if (slot == KILNI_ONNX_NO_SLOT) {
        uint32_t from = KILNI_ONNX_NO_SLOT;
        if (b->around == NULL) {
            return kiln_fail(b->err, INVALID_ARGUMENT, "value '%s' is used before it is defined",
                             name);
        }
        kiln_status status = use(b->around, name, &from);
        if (status == KILN_STATUS_OK) {
            status = define(b, name, &slot);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        b->outer[b->plan->n_outer] = slot;
        b->outer_from[b->plan->n_outer++] = from;
    }
    b->uses[slot]++;
    *out_slot = slot;
    return KILN_STATUS_OK;
}

static kiln_status define_all(builder *b, const char *const *names, uint32_t count,
                              const uint32_t **out_slots)
{
    uint32_t *slots = take(b, count, sizeof(*slots));
    if (slots == NULL) {
        return no_memory(b);
    }
    *out_slots = slots;
    for (uint32_t i = 0; i < count; i++) {
        kiln_status status = define(b, names[i], &slots[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status use_all(builder *b, const char *const *names, uint32_t count,
                           const uint32_t **out_slots)
{
    uint32_t *slots = take(b, count, sizeof(*slots));
    if (slots == NULL) {
        return no_memory(b);
    }
    *out_slots = slots;
    for (uint32_t i = 0; i < count; i++) {
        kiln_status status = use(b, names[i], &slots[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

// ---- nodes ----

static int64_t opset_of(const builder *b, const char *domain)
{
    for (uint32_t i = 0; i < b->n_opsets; i++) {
        if (strcmp(b->opsets[i].domain, domain) == 0) {
            return b->opsets[i].version;
        }
    }
    return 0;
}

static const kilni_onnx_function *find_function(const builder *b, const kilni_onnx_node *node)
{
    const kiln_onnx_model *model = b->session->model;
    for (uint32_t i = 0; i < model->n_functions; i++) {
        const kilni_onnx_function *function = &model->functions[i];
        if (strcmp(function->name, node->op_type) == 0 &&
            strcmp(function->domain, node->domain) == 0 &&
            strcmp(function->overload, node->overload) == 0) {
            return function;
        }
    }
    return NULL;
}

static kiln_status unknown_operator(const builder *b, const kilni_onnx_node *node, int64_t version,
                                    bool known)
{
    const char *domain = node->domain[0] == '\0' ? "ai.onnx" : node->domain;
    const char *type = node->op_type;
    const char *why = node->domain[0] == '\0' ? b->session->operators->refusal(type) : NULL;
    if (why != NULL) {
        return kiln_fail(b->err, UNIMPLEMENTED, "operator %s is not supported: %s", type, why);
    }
    if (node->domain[0] == '\0' && version > KILNI_ONNX_NEWEST_OPSET) {
        return kiln_fail(b->err, UNIMPLEMENTED,
                         "operator %s of operator set %lld, Kiln knows those up to %d: export the "
                         "model with an older one",
                         type, (long long)version, KILNI_ONNX_NEWEST_OPSET);
    }
    const char *hint = node->domain[0] == '\0' ? "" : ", and no plugin brings it (--plugin FILE)";
    return kiln_fail(b->err, UNIMPLEMENTED, "operator %s of domain %s, version %lld, is not %s%s",
                     type, domain, (long long)version,
                     known ? "supported at this version" : "supported", hint);
}

/// A newer set may have changed an operator: an attribute that it had not says so. Of operators in
/// no standard the attributes are held at every version.
static kiln_status check_attrs(const builder *b, const kilni_onnx_node *node,
                               const kilni_onnx_row *row, int64_t version)
{
    bool listed = row->attrs != NULL;
    bool newer = node->domain[0] == '\0' && version > KILNI_ONNX_NEWEST_OPSET;
    const char *name = listed || newer ? b->session->operators->unknown_attr(node, row) : NULL;
    if (name == NULL) {
        return KILN_STATUS_OK;
    }
    if (listed) {
        return kiln_fail(b->err, UNIMPLEMENTED,
                         "attribute '%.64s' is not known, this operator has:%s", name, row->attrs);
    }
    return kiln_fail(b->err, UNIMPLEMENTED,
                     "attribute '%.64s' of operator set %lld is newer than set %d, which Kiln "
                     "knows: export the model with that",
                     name, (long long)version, KILNI_ONNX_NEWEST_OPSET);
}

/// An input without a name is left out; at the end of the list it does not count.
static kiln_status check_inputs(const builder *b, const kilni_onnx_node *node,
                                const kilni_onnx_row *row)
{
    uint32_t named = node->n_inputs;
    while (named > 0 && node->inputs[named - 1][0] == '\0') {
        named--;
    }
    if (named > row->most) {
        return kiln_fail(b->err, INVALID_ARGUMENT, "inputs: %u given, the operator takes %s%u",
                         named, row->most > row->least ? "at most " : "", row->most);
    }
    if (node->n_inputs < row->least) {
        return kiln_fail(b->err, INVALID_ARGUMENT, "inputs: %u given, the operator takes %s%u",
                         node->n_inputs, row->most > row->least ? "at least " : "", row->least);
    }
    return KILN_STATUS_OK;
}

static kiln_status resolve_operator(builder *b, kilni_onnx_step *step)
{
    const kilni_onnx_node *node = step->node;
    const kilni_onnx_function *function = find_function(b, node);
    if (function != NULL) {
        const kilni_onnx_plan *plan = kilni_onnx_plan_find(b->session, function);
        if (plan == NULL) {
            kilni_onnx_plan *fresh = NULL;
            kiln_status status =
                plan_body(NULL, b->session, function, NULL, function, &fresh, b->err);
            if (status != KILN_STATUS_OK) {
                return kiln_error_context(b->err, "function %s", function->name);
            }
            plan = fresh;
        }
        step->function = plan;
        return KILN_STATUS_OK;
    }
    bool known = false;
    step->version = opset_of(b, node->domain);
    step->row = b->session->operators->find(b->session->device, node, step->version, &known);
    if (step->row == NULL) {
        return unknown_operator(b, node, step->version, known);
    }
    kiln_status status = check_attrs(b, node, step->row, step->version);
    return status == KILN_STATUS_OK ? check_inputs(b, node, step->row) : status;
}

/// Graphs in attributes: their free names are read by this node.
static kiln_status plan_branches(builder *b, const kilni_onnx_node *node)
{
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const kilni_onnx_attr *attr = &node->attrs[i];
        if (attr->type == KILNI_ONNX_ATTR_GRAPH && attr->graph != NULL) {
            kilni_onnx_plan *plan = NULL;
            kiln_status status =
                plan_body(b, b->session, attr->graph, attr->graph, NULL, &plan, b->err);
            if (status != KILN_STATUS_OK) {
                return status;
            }
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status collect_captured(builder *b, kilni_onnx_step *step)
{
    uint32_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t *slots = pass == 0 ? NULL : take(b, count, sizeof(*slots));
        if (pass == 1 && slots == NULL) {
            return no_memory(b);
        }
        count = 0;
        for (uint32_t i = 0; i < step->node->n_attrs; i++) {
            const kilni_onnx_attr *attr = &step->node->attrs[i];
            const kilni_onnx_plan *plan = attr->type == KILNI_ONNX_ATTR_GRAPH
                                              ? kilni_onnx_plan_find(b->session, attr->graph)
                                              : NULL;
            for (uint32_t k = 0; plan != NULL && k < plan->n_outer; k++, count++) {
                if (slots != NULL) {
                    slots[count] = plan->outer_from[k];
                }
            }
        }
        step->captured = slots;
    }
    step->n_captured = count;
    return KILN_STATUS_OK;
}

static kiln_status plan_step(builder *b, const kilni_onnx_node *node, kilni_onnx_step *step)
{
    step->node = node;
    kiln_status status = resolve_operator(b, step);
    if (status == KILN_STATUS_OK) {
        status = use_all(b, node->inputs, node->n_inputs, &step->inputs);
    }
    if (status == KILN_STATUS_OK) {
        status = plan_branches(b, node);
    }
    if (status == KILN_STATUS_OK) {
        status = collect_captured(b, step);
    }
    if (status == KILN_STATUS_OK) {
        status = define_all(b, node->outputs, node->n_outputs, &step->outputs);
    }
    if (status != KILN_STATUS_OK) {
        return kilni_onnx_at_node(b->err, node);
    }
    return status;
}

/// Room for what runs teach.
static kiln_status plan_replay(builder *b)
{
    kilni_onnx_replay *replay = take(b, 1, sizeof(*replay));
    if (replay != NULL) {
        replay->reading = take(b, b->plan->n_steps, sizeof(*replay->reading));
        replay->misses = take(b, b->plan->n_steps, sizeof(*replay->misses));
    }
    b->plan->replay = replay;
    return replay != NULL && replay->reading != NULL && replay->misses != NULL ? KILN_STATUS_OK
                                                                               : no_memory(b);
}

static kiln_status order_nodes(builder *b, const kilni_onnx_node *nodes, uint32_t count,
                               uint32_t **out_order)
{
    *out_order = take(b, count, sizeof(**out_order));
    return *out_order == NULL
               ? no_memory(b)
               : kilni_onnx_order(&b->session->env, nodes, count, *out_order, b->err);
}

static kiln_status plan_steps(builder *b, const kilni_onnx_node *nodes, uint32_t count)
{
    uint32_t *order = NULL;
    kilni_onnx_step *steps = take(b, count, sizeof(*steps));
    kiln_status status = steps == NULL ? no_memory(b) : order_nodes(b, nodes, count, &order);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        status = plan_step(b, &nodes[order[i]], &steps[i]);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    b->plan->steps = steps;
    b->plan->n_steps = count;
    return plan_replay(b);
}

// ---- graphs and functions ----

/// An upper bound of the names that occur.
static size_t count_names(const kilni_onnx_node *nodes, uint32_t n_nodes)
{
    size_t count = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        count += (size_t)nodes[i].n_inputs + nodes[i].n_outputs;
        for (uint32_t k = 0; k < nodes[i].n_attrs; k++) {
            const kilni_onnx_graph *graph = nodes[i].attrs[k].graph;
            if (graph != NULL) {
                count += count_names(graph->nodes, graph->n_nodes) + graph->n_outputs;
            }
        }
    }
    return count;
}

static kiln_status make_tables(builder *b, size_t names)
{
    if (names > KILNI_ONNX_MAX_LIST) {
        (void)kiln_fail(b->err, RESOURCE_EXHAUSTED, "graph with %zu names", names);
        return KILN_STATUS_RESOURCE_EXHAUSTED;
    }
    b->capacity = (uint32_t)names;
    b->table_size = 16;
    while (b->table_size < names * 2) {
        b->table_size *= 2;
    }
    b->table = take(b, b->table_size, sizeof(*b->table));
    b->names = take(b, names, sizeof(*b->names));
    b->uses = take(b, names, sizeof(*b->uses));
    b->outer = take(b, names, sizeof(*b->outer));
    b->outer_from = take(b, names, sizeof(*b->outer_from));
    return b->table != NULL && b->names != NULL && b->uses != NULL && b->outer != NULL &&
                   b->outer_from != NULL
               ? KILN_STATUS_OK
               : no_memory(b);
}

static kiln_status define_graph_inputs(builder *b, const kilni_onnx_graph *graph)
{
    uint32_t *initializers = take(b, graph->n_initializers, sizeof(*initializers));
    uint32_t *inputs = take(b, graph->n_inputs, sizeof(*inputs));
    kiln_status status = initializers != NULL && inputs != NULL ? KILN_STATUS_OK : no_memory(b);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < graph->n_initializers; i++) {
        status = define(b, graph->initializers[i].name, &initializers[i]);
    }
    uint32_t n_constant = b->plan->n_slots;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < graph->n_inputs; i++) {
        uint32_t slot = find_slot(b, graph->inputs[i].name);
        if (slot == KILNI_ONNX_NO_SLOT || slot >= n_constant) {
            status = define(b, graph->inputs[i].name, &inputs[b->plan->n_inputs++]);
        }
    }
    b->plan->initializers = initializers;
    b->plan->inputs = inputs;
    return status;
}

static kiln_status begin_graph(builder *b, const kilni_onnx_graph *graph)
{
    kiln_status status =
        make_tables(b, count_names(graph->nodes, graph->n_nodes) + graph->n_inputs +
                           graph->n_outputs + graph->n_initializers);
    return status == KILN_STATUS_OK ? define_graph_inputs(b, graph) : status;
}

static kiln_status plan_graph_body(builder *b, const kilni_onnx_graph *graph)
{
    kiln_status status = begin_graph(b, graph);
    if (status == KILN_STATUS_OK) {
        status = plan_steps(b, graph->nodes, graph->n_nodes);
    }
    uint32_t *outputs = take(b, graph->n_outputs, sizeof(*outputs));
    if (status == KILN_STATUS_OK && outputs == NULL) {
        status = no_memory(b);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < graph->n_outputs; i++) {
        status = use(b, graph->outputs[i].name, &outputs[i]);
        if (status != KILN_STATUS_OK) {
            kiln_error_context(b->err, "output %u of the graph", i);
        }
    }
    b->plan->outputs = outputs;
    b->plan->n_outputs = graph->n_outputs;
    return status;
}

static kiln_status plan_function_body(builder *b, const kilni_onnx_function *function)
{
    kiln_status status = make_tables(b, count_names(function->nodes, function->n_nodes) +
                                            function->n_inputs + function->n_outputs);
    if (status == KILN_STATUS_OK) {
        status = define_all(b, function->inputs, function->n_inputs, &b->plan->inputs);
        b->plan->n_inputs = function->n_inputs;
    }
    if (status == KILN_STATUS_OK) {
        status = plan_steps(b, function->nodes, function->n_nodes);
    }
    if (status == KILN_STATUS_OK) {
        status = use_all(b, function->outputs, function->n_outputs, &b->plan->outputs);
        b->plan->n_outputs = function->n_outputs;
    }
    return status;
}

static kiln_status plan_body(builder *around, kiln_onnx_session *session, const void *key,
                             const kilni_onnx_graph *graph, const kilni_onnx_function *function,
                             kilni_onnx_plan **out_plan, kiln_error *err)
{
    builder b = {.session = session, .around = around, .err = err};
    if (session->plan_depth == KILNI_ONNX_MAX_CALLS) {
        return kiln_fail(err, INVALID_ARGUMENT, "graphs and functions nested deeper than %d",
                         KILNI_ONNX_MAX_CALLS);
    }
    b.opsets = around != NULL                               ? around->opsets
               : function != NULL && function->n_opsets > 0 ? function->opsets
                                                            : session->model->opsets;
    b.n_opsets = around != NULL                               ? around->n_opsets
                 : function != NULL && function->n_opsets > 0 ? function->n_opsets
                                                              : session->model->n_opsets;
    b.plan = kiln_arena_alloc(&session->arena, sizeof(*b.plan));
    if (b.plan == NULL) {
        return no_memory(&b);
    }
    b.plan->key = key;
    b.plan->graph = graph;
    b.plan->function = function;
    // In the list from the start, so that a function that calls itself finds its plan.
    b.plan->next = session->plans;
    session->plans = b.plan;
    session->plan_depth++;
    kiln_status status =
        graph != NULL ? plan_graph_body(&b, graph) : plan_function_body(&b, function);
    session->plan_depth--;
    b.plan->names = b.names;
    b.plan->uses = b.uses;
    b.plan->outer = b.outer;
    b.plan->outer_from = b.outer_from;
    *out_plan = b.plan;
    return status;
}

kiln_status kilni_onnx_plan_model(kiln_onnx_session *session, kiln_error *err)
{
    const kilni_onnx_graph *graph = &session->model->graph;
    int64_t set = kiln_onnx_model_opset(session->model, "");
    if (set > KILNI_ONNX_NEWEST_OPSET) {
        kiln_log_write(&session->env, KILN_LOG_WARN, "onnx",
                       "operator set %lld is newer than %d: its operators are taken for those of "
                       "that set",
                       (long long)set, KILNI_ONNX_NEWEST_OPSET);
    }
    return plan_body(NULL, session, graph, graph, NULL, &session->main, err);
}

kiln_status kilni_onnx_survey(kiln_onnx_session *session, kiln_onnx_survey_fn fn, void *user,
                              kiln_error *err)
{
    const kiln_onnx_model *model = session->model;
    const kilni_onnx_graph *graph = &model->graph;
    builder b = {.session = session, .opsets = model->opsets, .n_opsets = model->n_opsets};
    b.err = err;
    b.plan = kiln_arena_alloc(&session->arena, sizeof(*b.plan));
    if (b.plan == NULL) {
        return no_memory(&b);
    }
    uint32_t *order = NULL;
    kiln_status status = begin_graph(&b, graph);
    if (status == KILN_STATUS_OK) {
        status = order_nodes(&b, graph->nodes, graph->n_nodes, &order);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < graph->n_nodes; i++) {
        const kilni_onnx_node *node = &graph->nodes[order[i]];
        kilni_onnx_step step = {0};
        kiln_error why = KILN_ERROR_INIT;
        b.err = &why;
        bool serves = plan_step(&b, node, &step) == KILN_STATUS_OK;
        b.err = err;
        if (!serves) { // others may read what it makes
            status = define_all(&b, node->outputs, node->n_outputs, &step.outputs);
        }
        fn(order[i], serves ? NULL : &why, user);
    }
    return status;
}
