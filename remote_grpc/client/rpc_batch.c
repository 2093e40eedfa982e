// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations on their way to the server. Values are numbered by first sight, so that a program's
// next step gives the same graph; its hash is taken along the way. A graph that is seen a second
// time is sent with a number, from the third time on as that number alone. Decides how much goes in
// one Run.

#include "rpc_batch.h"

#include "rpc_protocol.h"

#include <string.h>

enum { SLOTS = 1024, GRAPHS = 256, GRAPH_SHARE = 512 };

/// What a tensor of the program is in this batch.
typedef struct slot {
    uint64_t tensor;
    uint64_t buffer; ///< that an input is bound to
    uint64_t serial; ///< of the batch; another one: free
    uint32_t number; ///< in the graph
    bool defined; ///< computed in this batch
} slot;

typedef struct known {
    kiln_hash128 key;
    uint64_t id; ///< 0: seen once
} known;

struct kilni_rpc_batch {
    const kiln_env *env;
    kiln_arena arena; ///< of the records
    kiln_op_record records[KILNI_RPC_BATCH];
    size_t n_records;
    kilni_rpc_frame frame; ///< bindings and frees
    kiln_blob graph; ///< encoded
    bool framed; ///< the frame is whole: no operation comes to it
    uint64_t forgotten; ///< a graph that the server is to forget before it; 0: none
    kiln_tensor_desc inputs[KILNI_RPC_BINDINGS];
    uint64_t defined[KILNI_RPC_BINDINGS];
    size_t n_defined;
    uint64_t bytes; ///< of the results: the server counts them together
    uint64_t max_bytes;
    uint32_t next_number;
    uint64_t serial;
    kiln_hash128 key;
    slot slots[SLOTS];
    uint64_t max_graphs;
    uint64_t next_graph;
    known graphs[GRAPHS];
};

kiln_status kilni_rpc_batch_create(const kiln_env *env, kilni_rpc_batch **out_batch,
                                   kiln_error *err)
{
    kilni_rpc_batch *batch = kiln_alloc(env, sizeof(*batch));
    if (batch == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a batch of operations");
    }
    batch->env = env;
    kiln_arena_init(&batch->arena, env);
    kilni_rpc_batch_begin(batch, 0, UINT64_MAX);
    *out_batch = batch;
    return KILN_STATUS_OK;
}

void kilni_rpc_batch_destroy(kilni_rpc_batch *batch)
{
    if (batch != NULL) {
        kiln_free(batch->env, batch->graph.data);
        kiln_arena_fini(&batch->arena);
        kiln_free(batch->env, batch);
    }
}

void kilni_rpc_batch_begin(kilni_rpc_batch *batch, uint64_t max_graphs, uint64_t max_bytes)
{
    memset(batch->graphs, 0, sizeof(batch->graphs));
    batch->max_graphs = max_graphs < GRAPHS ? max_graphs : GRAPHS;
    batch->max_bytes = max_bytes;
    kilni_rpc_batch_end(batch);
}

void kilni_rpc_batch_end(kilni_rpc_batch *batch)
{
    kiln_free(batch->env, batch->graph.data);
    batch->graph = (kiln_blob){0};
    kiln_arena_reset(&batch->arena);
    kiln_v1_Run *run = &batch->frame.body.body.run;
    run->inputs_count = 0;
    run->outputs_count = 0;
    run->frees_count = 0;
    batch->framed = false;
    batch->forgotten = 0;
    batch->n_records = 0;
    batch->n_defined = 0;
    batch->bytes = 0;
    batch->next_number = 0;
    batch->serial++;
    batch->key = (kiln_hash128){0};
}

bool kilni_rpc_batch_is_empty(const kilni_rpc_batch *batch)
{
    return batch->n_records == 0 && batch->frame.body.body.run.frees_count == 0;
}

uint64_t kilni_rpc_batch_serial(const kilni_rpc_batch *batch)
{
    return batch->serial;
}

// ---- values ----

static const slot *find_slot(const kilni_rpc_batch *batch, uint64_t tensor)
{
    uint64_t at = tensor % SLOTS;
    while (batch->slots[at].serial == batch->serial && batch->slots[at].tensor != tensor) {
        at = (at + 1) % SLOTS;
    }
    return &batch->slots[at];
}

static bool is_known(const kilni_rpc_batch *batch, const slot *found)
{
    return found->serial == batch->serial;
}

/// There are at most three times KILNI_RPC_BINDINGS of them.
static slot *number_tensor(kilni_rpc_batch *batch, uint64_t tensor)
{
    slot *found = (slot *)(uintptr_t)find_slot(batch, tensor);
    if (!is_known(batch, found)) {
        *found = (slot){.tensor = tensor, .serial = batch->serial, .number = ++batch->next_number};
    }
    return found;
}

/// The binding of a result to this buffer, or NULL. Buffers are used again soon: the last are
/// first.
static kiln_v1_Binding *find_result(const kiln_v1_Run *run, uint64_t buffer)
{
    for (pb_size_t i = run->outputs_count; i > 0; i--) {
        if (run->outputs[i - 1].buffer == buffer) {
            return (kiln_v1_Binding *)(uintptr_t)&run->outputs[i - 1];
        }
    }
    return NULL;
}

bool kilni_rpc_batch_takes(const kilni_rpc_batch *batch, const kiln_op_record *record,
                           const uint64_t *inputs)
{
    const kiln_v1_Run *run = &batch->frame.body.body.run;
    if (batch->framed || batch->n_records == 0) {
        return !batch->framed;
    }
    if (run->inputs_count + record->n_inputs > KILNI_RPC_BINDINGS ||
        run->outputs_count + record->n_outputs > KILNI_RPC_BINDINGS ||
        batch->n_defined + record->n_outputs > KILNI_RPC_BINDINGS ||
        batch->n_records >= KILNI_RPC_BATCH || batch->bytes > batch->max_bytes) {
        return false;
    }
    for (size_t i = 0; i < record->n_outputs; i++) { // a value is defined once
        if (is_known(batch, find_slot(batch, record->outputs[i].id))) {
            return false;
        }
    }
    for (size_t i = 0; i < record->n_inputs; i++) {
        const slot *found = find_slot(batch, record->inputs[i].id);
        bool seen = is_known(batch, found);
        // The same tensor in another buffer, or another tensor in a result's: a graph is run again.
        if ((seen && !found->defined && found->buffer != inputs[i]) ||
            (!seen && find_result(run, inputs[i]) != NULL)) {
            return false;
        }
    }
    return true;
}

// ---- records ----

static void mix(kilni_rpc_batch *batch, const void *bytes, size_t length)
{
    const kiln_hash128 both[] = {batch->key, kiln_hash_bytes(bytes, length)};
    batch->key = kiln_hash_bytes(both, sizeof(both));
}

/// Relative form: the graph's number, and nothing that changes from run to run.
static kiln_tensor_desc relative(const kiln_tensor_desc *desc, uint32_t number)
{
    kiln_tensor_desc copy = *desc;
    copy.id = number;
    copy.flags &= KILN_TENSOR_CONST;
    copy.align_log2 = 0;
    return copy;
}

/// False: no memory.
static bool copy_attr(kilni_rpc_batch *batch, kiln_attr *attr)
{
    switch (attr->type) {
    case KILN_ATTR_I64_LIST:
    case KILN_ATTR_F64_LIST:
        attr->v.ints = kiln_arena_copy(&batch->arena, attr->v.ints, attr->count * sizeof(int64_t));
        return attr->v.ints != NULL;
    case KILN_ATTR_STRING:
        attr->v.text = kiln_arena_copy(&batch->arena, attr->v.text, (size_t)attr->count + 1);
        return attr->v.text != NULL;
    case KILN_ATTR_TENSOR: {
        kiln_tensor_const *tensor = kiln_arena_copy(&batch->arena, attr->v.tensor, sizeof(*tensor));
        if (tensor == NULL) {
            return false;
        }
        tensor->data =
            kiln_arena_copy(&batch->arena, tensor->data, (size_t)kiln_desc_bytes(&tensor->desc));
        attr->v.tensor = tensor;
        return tensor->data != NULL;
    }
    default:
        return true;
    }
}

static void mix_attr(kilni_rpc_batch *batch, const kiln_attr *attr)
{
    mix(batch, &attr->type, sizeof(attr->type));
    mix(batch, &attr->count, sizeof(attr->count));
    switch (attr->type) {
    case KILN_ATTR_I64_LIST:
    case KILN_ATTR_F64_LIST:
        mix(batch, attr->v.ints, attr->count * sizeof(int64_t));
        break;
    case KILN_ATTR_STRING:
        mix(batch, attr->v.text, (size_t)attr->count + 1);
        break;
    case KILN_ATTR_TENSOR:
        mix(batch, &attr->v.tensor->desc, sizeof(attr->v.tensor->desc));
        mix(batch, attr->v.tensor->data, (size_t)kiln_desc_bytes(&attr->v.tensor->desc));
        break;
    case KILN_ATTR_NONE:
        break;
    default:
        mix(batch, &attr->v, sizeof(attr->v));
        break;
    }
}

/// An operation without its attributes, for the graph and, with what was before it, for its hash.
typedef struct told_op {
    kiln_hash128 before;
    uint32_t op;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_attrs;
    kiln_tensor_desc descs[]; ///< inputs, then outputs
} told_op;

/// The record, whose tensors have no numbers yet: `*out_told`, which it points into. False: no
/// memory, and nothing but the arena knows of it.
static bool copy_record(kilni_rpc_batch *batch, const kiln_op_record *record, kiln_op_record *copy,
                        told_op **out_told)
{
    size_t n_descs = (size_t)record->n_inputs + record->n_outputs;
    told_op *told =
        kiln_arena_alloc(&batch->arena, sizeof(*told) + sizeof(told->descs[0]) * n_descs);
    kiln_attr *attrs =
        kiln_arena_copy(&batch->arena, record->attrs, record->n_attrs * sizeof(*attrs));
    if (told == NULL || attrs == NULL) {
        return false;
    }
    for (size_t i = 0; i < record->n_attrs; i++) {
        if (!copy_attr(batch, &attrs[i])) {
            return false;
        }
    }
    told->op = (uint32_t)record->op;
    told->n_inputs = record->n_inputs;
    told->n_outputs = record->n_outputs;
    told->n_attrs = record->n_attrs;
    *copy = *record;
    copy->inputs = told->descs;
    copy->outputs = told->descs + record->n_inputs;
    copy->attrs = attrs;
    *out_told = told;
    return true;
}

/// Takes the record's numbers and its part of the hash, once its tensors are numbered.
static void tell(kilni_rpc_batch *batch, const kiln_op_record *record, told_op *told,
                 const kiln_attr *attrs)
{
    kiln_tensor_desc *descs = told->descs;
    size_t n_descs = (size_t)record->n_inputs + record->n_outputs;
    for (size_t i = 0; i < record->n_inputs; i++) {
        descs[i] = relative(&record->inputs[i], find_slot(batch, record->inputs[i].id)->number);
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        descs[record->n_inputs + i] =
            relative(&record->outputs[i], find_slot(batch, record->outputs[i].id)->number);
    }
    told->before = batch->key;
    batch->key = kiln_hash_bytes(told, sizeof(*told) + sizeof(*descs) * n_descs);
    for (size_t i = 0; i < record->n_attrs; i++) {
        mix_attr(batch, &attrs[i]);
    }
}

/// A buffer keeps the last value that goes to it: an earlier one is not even mentioned.
static void bind_result(kiln_v1_Run *run, uint64_t value, uint64_t buffer)
{
    kiln_v1_Binding *binding = find_result(run, buffer);
    if (binding == NULL) {
        binding = &run->outputs[run->outputs_count++];
    }
    *binding = (kiln_v1_Binding){.value = value, .buffer = buffer};
}

static void bind_inputs(kilni_rpc_batch *batch, const kiln_op_record *record,
                        const uint64_t *inputs)
{
    kiln_v1_Run *run = &batch->frame.body.body.run;
    for (size_t i = 0; i < record->n_inputs; i++) {
        uint32_t before = batch->next_number;
        slot *found = number_tensor(batch, record->inputs[i].id);
        if (found->number > before) {
            found->buffer = inputs[i];
            batch->inputs[run->inputs_count] = relative(&record->inputs[i], found->number);
            run->inputs[run->inputs_count++] =
                (kiln_v1_Binding){.value = found->number, .buffer = inputs[i]};
        }
    }
}

static void bind_outputs(kilni_rpc_batch *batch, const kiln_op_record *record,
                         const uint64_t *outputs)
{
    for (size_t i = 0; i < record->n_outputs; i++) {
        slot *found = number_tensor(batch, record->outputs[i].id);
        found->defined = true;
        batch->defined[batch->n_defined++] = found->number;
        batch->bytes += (uint64_t)kiln_desc_bytes(&record->outputs[i]);
        if (outputs[i] != 0) {
            bind_result(&batch->frame.body.body.run, found->number, outputs[i]);
        }
    }
}

kiln_status kilni_rpc_batch_add(kilni_rpc_batch *batch, const kiln_op_record *record,
                                const uint64_t *inputs, const uint64_t *outputs, kiln_error *err)
{
    kiln_op_record *copy = &batch->records[batch->n_records];
    told_op *told = NULL;
    if (!copy_record(batch, record, copy, &told)) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to keep an operation");
    }
    bind_inputs(batch, record, inputs);
    bind_outputs(batch, record, outputs);
    tell(batch, record, told, copy->attrs);
    batch->n_records++;
    return KILN_STATUS_OK;
}

/// What only this batch knew is not even mentioned.
static void unbind(kiln_v1_Run *run, uint64_t buffer)
{
    kiln_v1_Binding *binding = find_result(run, buffer);
    if (binding != NULL) {
        const kiln_v1_Binding *next = binding + 1;
        memmove(binding, next, (size_t)(run->outputs + run->outputs_count - next) * sizeof(*next));
        run->outputs_count--;
    }
}

bool kilni_rpc_batch_free(kilni_rpc_batch *batch, uint64_t buffer, bool fresh)
{
    kiln_v1_Run *run = &batch->frame.body.body.run;
    if (fresh) {
        unbind(run, buffer);
        return true;
    }
    if (run->frees_count == KILNI_RPC_BINDINGS) {
        return false;
    }
    run->frees[run->frees_count++] = buffer;
    return true;
}

// ---- the frame ----

static kiln_status encode(kilni_rpc_batch *batch, kiln_error *err)
{
    kiln_ir_graph *graph = NULL;
    kiln_status status = kiln_ir_graph_create(batch->env, &graph, err);
    for (size_t i = 0; i < batch->n_records && status == KILN_STATUS_OK; i++) {
        status = kiln_ir_graph_append(graph, &batch->records[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_graph_set_io(graph, batch->inputs, batch->frame.body.body.run.inputs_count,
                                      batch->defined, batch->n_defined, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_encode(batch->env, graph, &batch->graph, err);
    }
    kiln_ir_graph_destroy(graph);
    return status;
}

/// The place for this graph among those that the server knows; another one may be there.
static known *find_known(kilni_rpc_batch *batch)
{
    return batch->max_graphs > 0 ? &batch->graphs[batch->key.low % batch->max_graphs] : NULL;
}

kiln_status kilni_rpc_batch_frame(kilni_rpc_batch *batch, bool lasting, kilni_rpc_frame **out_frame,
                                  uint64_t *out_forget, kiln_error *err)
{
    kiln_v1_Run *run = &batch->frame.body.body.run;
    known *place = batch->n_records > 0 ? find_known(batch) : NULL;
    bool same =
        place != NULL && place->key.low == batch->key.low && place->key.high == batch->key.high;
    kiln_status status = KILN_STATUS_OK;
    *out_forget = batch->forgotten;
    *out_frame = &batch->frame;
    if (batch->framed) {
        return KILN_STATUS_OK;
    }
    run->graph = 0;
    if (batch->n_records > 0 && !(same && place->id != 0)) {
        status = encode(batch, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (place != NULL && !same) {
        *out_forget = batch->forgotten = place->id;
        *place = (known){.key = batch->key};
    }
    if (same && place->id != 0) {
        run->graph = place->id;
    } else if (place != NULL && (same || lasting) &&
               batch->graph.length < batch->max_bytes / GRAPH_SHARE) {
        run->graph = place->id = ++batch->next_graph;
    }
    batch->frame.body.request = 0;
    batch->frame.body.which_body = kiln_v1_Frame_run_tag;
    batch->frame.graph = batch->graph.data;
    batch->frame.graph_length = batch->graph.length;
    batch->framed = true;
    return KILN_STATUS_OK;
}

void kilni_rpc_batch_forgot(kilni_rpc_batch *batch)
{
    batch->forgotten = 0;
}
