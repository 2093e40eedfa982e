// SPDX-License-Identifier: MIT OR Apache-2.0
// Graphs: a list of records with everything they point to, in one arena. Decides what a copy of a
// record is and which counts are too large to keep; whether the operations make sense together is
// verify.c.
#include <string.h>

#include "graph_internal.h"

kiln_status kiln_ir_graph_create(const kiln_env *env, kiln_ir_graph **out_graph, kiln_error *err)
{
    if (out_graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_graph must not be NULL");
    }
    *out_graph = NULL;
    if (env == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env must not be NULL");
    }
    kiln_ir_graph *graph = kiln_alloc(env, sizeof(*graph));
    if (graph == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph");
    }
    graph->env = env;
    kiln_arena_init(&graph->arena, env);
    *out_graph = graph;
    return KILN_STATUS_OK;
}

void kiln_ir_graph_destroy(kiln_ir_graph *graph)
{
    if (graph == NULL) {
        return;
    }
    kiln_arena_fini(&graph->arena);
    kiln_free(graph->env, graph->ops);
    kiln_free(graph->env, graph);
}

static bool copy_tensor(kiln_arena *arena, const kiln_tensor_const *tensor,
                        const kiln_tensor_const **out_copy)
{
    int64_t bytes = kiln_desc_bytes(&tensor->desc);
    kiln_tensor_const *copy = kiln_arena_copy(arena, tensor, sizeof(*tensor));
    if (copy == NULL) {
        return false;
    }
    copy->data = kiln_arena_copy(arena, tensor->data, (size_t)bytes);
    *out_copy = copy;
    return copy->data != NULL;
}

/// Replaces what `attr` borrows by copies.
static bool copy_attr(kiln_arena *arena, kiln_attr *attr)
{
    switch (attr->type) {
    case KILN_ATTR_I64_LIST:
        attr->v.ints = kiln_arena_copy(arena, attr->v.ints, attr->count * sizeof(int64_t));
        return attr->v.ints != NULL;
    case KILN_ATTR_F64_LIST:
        attr->v.floats = kiln_arena_copy(arena, attr->v.floats, attr->count * sizeof(double));
        return attr->v.floats != NULL;
    case KILN_ATTR_STRING:
        attr->v.text = kiln_arena_copy(arena, attr->v.text, (size_t)attr->count + 1);
        return attr->v.text != NULL;
    case KILN_ATTR_TENSOR:
        return copy_tensor(arena, attr->v.tensor, &attr->v.tensor);
    default:
        return true;
    }
}

static bool attr_fits(const kiln_attr *attr)
{
    switch (attr->type) {
    case KILN_ATTR_I64_LIST:
    case KILN_ATTR_F64_LIST:
        return attr->count <= KILNI_IR_MAX_LIST && (attr->count == 0 || attr->v.ints != NULL);
    case KILN_ATTR_STRING:
        return attr->count <= KILNI_IR_MAX_LIST && attr->v.text != NULL;
    case KILN_ATTR_TENSOR:
        return attr->v.tensor != NULL && attr->v.tensor->desc.rank <= KILN_MAX_RANK &&
               kiln_desc_bytes(&attr->v.tensor->desc) >= 0 &&
               kiln_desc_bytes(&attr->v.tensor->desc) <= KILNI_IR_MAX_CONST;
    default:
        return attr->type <= KILN_ATTR_DTYPE;
    }
}

static kiln_status check_record(const kiln_op_record *record, kiln_error *err)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    if (info == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%d is no operator", (int)record->op);
    }
    if (record->n_inputs > KILN_MAX_INPUTS || record->n_outputs > KILN_MAX_OUTPUTS ||
        record->n_attrs != info->signature->n_attrs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %u inputs, %u outputs and %u attributes",
                         info->name, record->n_inputs, record->n_outputs, record->n_attrs);
    }
    for (unsigned i = 0; i < record->n_attrs; i++) {
        if (!attr_fits(&record->attrs[i])) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: attribute %s is malformed or too large",
                             info->name, kiln_attr_name(info->signature->attrs[i].key));
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_record_copy(kiln_arena *arena, const kiln_op_record *record,
                                 kiln_op_record *out_copy, kiln_error *err)
{
    kiln_op_record copy = *record;
    kiln_status status = check_record(record, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    copy.inputs = kiln_arena_copy(arena, record->inputs, record->n_inputs * sizeof(*copy.inputs));
    copy.outputs =
        kiln_arena_copy(arena, record->outputs, record->n_outputs * sizeof(*copy.outputs));
    kiln_attr *attrs = kiln_arena_copy(arena, record->attrs, record->n_attrs * sizeof(*attrs));
    bool ok = copy.inputs != NULL && copy.outputs != NULL && attrs != NULL;
    for (unsigned i = 0; ok && i < record->n_attrs; i++) {
        ok = copy_attr(arena, &attrs[i]);
    }
    if (!ok) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to keep an operation");
    }
    copy.attrs = attrs;
    *out_copy = copy;
    return KILN_STATUS_OK;
}

static bool make_room(kiln_ir_graph *graph)
{
    size_t size = sizeof(graph->ops[0]);
    size_t capacity = graph->capacity > 0 ? graph->capacity * 2 : 16;
    if (graph->n_ops < graph->capacity) {
        return true;
    }
    void *ops = kiln_realloc(graph->env, graph->ops, graph->capacity * size, capacity * size);
    if (ops == NULL) {
        return false;
    }
    graph->ops = ops;
    graph->capacity = capacity;
    return true;
}

kiln_status kiln_ir_graph_look_up(kiln_ir_graph *graph, kiln_custom_lookup_fn find, void *user,
                                  kiln_error *err)
{
    if (graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph must not be NULL");
    }
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < graph->n_ops; i++) {
        kiln_op_record *record = &graph->ops[i];
        if (record->op != KILN_OP_CUSTOM) {
            continue;
        }
        record->custom = NULL;
        status = kilni_ir_record_verify(record, err); // so that name and version are ones
        if (status == KILN_STATUS_OK) {
            status = find(kiln_op_attr(record, KILN_KEY_NAME)->v.text,
                          (uint32_t)kiln_op_attr_i64(record, KILN_KEY_VERSION), &record->custom,
                          user, err);
        }
        if (status == KILN_STATUS_OK) {
            status = kilni_ir_record_verify(record, err);
        }
        if (status != KILN_STATUS_OK) {
            record->custom = NULL;
            (void)kiln_error_context(err, "operation %zu", i);
        }
    }
    return status;
}

kiln_status kiln_ir_graph_append(kiln_ir_graph *graph, const kiln_op_record *record,
                                 kiln_error *err)
{
    if (graph == NULL || record == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph and record must not be NULL");
    }
    if (graph->n_ops == KILNI_IR_MAX_OPS) {
        return kiln_fail(err, INVALID_ARGUMENT, "a graph has at most %d operations",
                         KILNI_IR_MAX_OPS);
    }
    if (!make_room(graph)) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for operation %zu", graph->n_ops);
    }
    kiln_status status =
        kilni_ir_record_copy(&graph->arena, record, &graph->ops[graph->n_ops], err);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "operation %zu", graph->n_ops);
        return status;
    }
    graph->n_ops++;
    return KILN_STATUS_OK;
}

kiln_status kiln_ir_graph_set_io(kiln_ir_graph *graph, const kiln_tensor_desc *inputs,
                                 size_t n_inputs, const uint64_t *output_ids, size_t n_outputs,
                                 kiln_error *err)
{
    if (graph == NULL || (inputs == NULL && n_inputs > 0) ||
        (output_ids == NULL && n_outputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph, inputs and output_ids must not be NULL");
    }
    if (n_inputs > KILNI_IR_MAX_IO || n_outputs > KILNI_IR_MAX_IO) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a graph has at most %d inputs and outputs, not %zu, %zu", KILNI_IR_MAX_IO,
                         n_inputs, n_outputs);
    }
    void *kept_inputs = kiln_arena_copy(&graph->arena, inputs, n_inputs * sizeof(inputs[0]));
    void *kept_outputs =
        kiln_arena_copy(&graph->arena, output_ids, n_outputs * sizeof(output_ids[0]));
    if (kept_inputs == NULL || kept_outputs == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's inputs");
    }
    graph->inputs = kept_inputs;
    graph->n_inputs = n_inputs;
    graph->outputs = kept_outputs;
    graph->n_outputs = n_outputs;
    return KILN_STATUS_OK;
}

size_t kiln_ir_graph_op_count(const kiln_ir_graph *graph)
{
    if (graph == NULL) {
        return 0;
    }
    return graph->n_ops;
}

const kiln_op_record *kiln_ir_graph_op(const kiln_ir_graph *graph, size_t index)
{
    if (graph == NULL) {
        return NULL;
    }
    return index < graph->n_ops ? &graph->ops[index] : NULL;
}

const kiln_tensor_desc *kiln_ir_graph_inputs(const kiln_ir_graph *graph, size_t *out_count)
{
    if (out_count != NULL) {
        *out_count = graph != NULL ? graph->n_inputs : 0;
    }
    return graph != NULL ? graph->inputs : NULL;
}

const uint64_t *kiln_ir_graph_outputs(const kiln_ir_graph *graph, size_t *out_count)
{
    if (out_count != NULL) {
        *out_count = graph != NULL ? graph->n_outputs : 0;
    }
    return graph != NULL ? graph->outputs : NULL;
}
