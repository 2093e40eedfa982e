// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks a graph as a whole: every operation infers to its stored outputs, ids are defined once and
// before use with the same dtype and shape, nothing is used after its drop, outputs exist. One
// check for all origins.
#include <inttypes.h>
#include <string.h>

#include "graph_internal.h"

kiln_status kilni_ir_record_verify(const kiln_op_record *record, kiln_error *err)
{
    kiln_tensor_desc inferred[KILN_MAX_OUTPUTS];
    memset(inferred, 0, sizeof(inferred));
    kiln_status status = kiln_ir_infer(record, inferred, err);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        const kiln_tensor_desc *stored = &record->outputs[i];
        char text[2][KILNI_IR_SHAPE_TEXT];
        if (stored->dtype != inferred[i].dtype || stored->scheme != inferred[i].scheme ||
            !kiln_desc_same_shape(stored, &inferred[i])) {
            const char *dtype = kiln_dtype_name(stored->dtype);
            status =
                kiln_fail(err, INVALID_ARGUMENT, "%s: output %u is stored as %s%s but is %s%s",
                          kilni_ir_op_name(record), i, dtype != NULL ? dtype : "?",
                          kilni_ir_desc_text(stored, text[0]), kiln_dtype_name(inferred[i].dtype),
                          kilni_ir_desc_text(&inferred[i], text[1]));
        }
    }
    return status;
}

/// Ids of a graph and what they stand for: open addressing, at most half full.
typedef struct id_entry {
    const kiln_tensor_desc *desc; ///< NULL: free
    bool dropped;
} id_entry;

typedef struct id_table {
    id_entry *entries;
    size_t mask;
} id_table;

static id_entry *find_id(const id_table *table, uint64_t id)
{
    size_t at = (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 20) & table->mask;
    while (table->entries[at].desc != NULL && table->entries[at].desc->id != id) {
        at = (at + 1) & table->mask;
    }
    return &table->entries[at];
}

static kiln_status define(id_table *table, const kiln_tensor_desc *desc, kiln_error *err)
{
    if (desc->id == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "0 is no id of a tensor");
    }
    id_entry *entry = find_id(table, desc->id);
    if (entry->desc != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%%%" PRIu64 " is defined twice", desc->id);
    }
    entry->desc = desc;
    return KILN_STATUS_OK;
}

static kiln_status use(const id_table *table, const kiln_tensor_desc *desc, bool drop,
                       kiln_error *err)
{
    id_entry *entry = find_id(table, desc->id);
    if (entry->desc == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%%%" PRIu64 " is used before it is defined",
                         desc->id);
    }
    if (entry->dropped) {
        return kiln_fail(err, INVALID_ARGUMENT, "%%%" PRIu64 " is used after its drop", desc->id);
    }
    if (entry->desc->dtype != desc->dtype || entry->desc->scheme != desc->scheme ||
        !kiln_desc_same_shape(entry->desc, desc)) {
        return kiln_fail(err, INVALID_ARGUMENT, "%%%" PRIu64 " changes its dtype or shape",
                         desc->id);
    }
    entry->dropped = drop;
    return KILN_STATUS_OK;
}

static kiln_status verify_op(id_table *table, const kiln_op_record *record, kiln_error *err)
{
    kiln_status status = kilni_ir_record_verify(record, err);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_inputs; i++) {
        status = use(table, &record->inputs[i], record->op == KILN_OP_DROP, err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        status = define(table, &record->outputs[i], err);
    }
    return status;
}

static kiln_status verify_input(id_table *table, const kiln_tensor_desc *desc, kiln_error *err)
{
    bool ok = kiln_dtype_kind_of(desc->dtype) != KILN_KIND_NONE && desc->rank <= KILN_MAX_RANK;
    if (!ok || kiln_desc_bytes(desc) < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%%%" PRIu64 " has no valid dtype and shape",
                         desc->id);
    }
    return define(table, desc, err);
}

static kiln_status verify_all(const kiln_ir_graph *graph, id_table *table, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < graph->n_inputs; i++) {
        status = verify_input(table, &graph->inputs[i], err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "input %zu", i);
        }
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < graph->n_ops; i++) {
        status = verify_op(table, &graph->ops[i], err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "operation %zu", i);
        }
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < graph->n_outputs; i++) {
        const id_entry *entry = find_id(table, graph->outputs[i]);
        if (entry->desc == NULL || entry->dropped) {
            status = kiln_fail(err, INVALID_ARGUMENT,
                               "output %zu: %%%" PRIu64 " does not exist at the end", i,
                               graph->outputs[i]);
        }
    }
    return status;
}

kiln_status kiln_ir_graph_verify(const kiln_ir_graph *graph, kiln_error *err)
{
    if (graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph must not be NULL");
    }
    size_t ids = graph->n_inputs;
    size_t size = 16;
    for (size_t i = 0; i < graph->n_ops; i++) {
        ids += graph->ops[i].n_outputs;
    }
    while (size < ids * 2) {
        size *= 2;
    }
    id_table table = {kiln_alloc_array(graph->env, size, sizeof(id_entry)), size - 1};
    if (table.entries == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to verify a graph");
    }
    kiln_status status = verify_all(graph, &table, err);
    kiln_free(graph->env, table.entries);
    return status;
}
