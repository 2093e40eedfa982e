// SPDX-License-Identifier: MIT OR Apache-2.0
// A Run on the server: inputs are bound to buffers, each operation is recorded through the runtime,
// outputs go to buffers. Graphs may be kept by number and run again. Knows no operator by name: the
// table, the verifier and the runtime decide what is right.

#include "rpc_pace.h"

#include <stdio.h>
#include <string.h>

enum { GRAPH_CHARGE = 8 }; ///< bytes of memory for a byte of the wire, at most about

// ---- known graphs ----

static kilni_rpc_known_graph **find_graph(kilni_rpc_session *session, uint64_t id)
{
    kilni_rpc_known_graph **link = &session->graphs[id % KILNI_RPC_BUCKETS];
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

void kilni_rpc_graph_forget(kilni_rpc_session *session, uint64_t id)
{
    kilni_rpc_known_graph **link = find_graph(session, id);
    kilni_rpc_known_graph *found = *link;
    if (found != NULL) {
        *link = found->next;
        kilni_rpc_session_let_go(session, found->charge);
        session->held_graphs--;
        kiln_ir_graph_destroy(found->graph);
        kiln_free(session->env, found);
    }
}

void kilni_rpc_graph_forget_all(kilni_rpc_session *session)
{
    for (size_t i = 0; i < KILNI_RPC_BUCKETS; i++) {
        while (session->graphs[i] != NULL) {
            kilni_rpc_graph_forget(session, session->graphs[i]->id);
        }
    }
}

/// Takes `graph`, also on failure.
static kiln_status learn_graph(kilni_rpc_session *session, uint64_t id, kiln_ir_graph *graph,
                               uint64_t wire_bytes, kiln_error *err)
{
    uint64_t charge = GRAPH_CHARGE * wire_bytes;
    kilni_rpc_graph_forget(session, id);
    kiln_status status = kilni_rpc_session_charge(session, charge, err);
    if (status == KILN_STATUS_OK && session->held_graphs >= session->options->limits.max_graphs) {
        status =
            kiln_fail(err, RESOURCE_EXHAUSTED, "the session knows %llu graphs, the most allowed",
                      (unsigned long long)session->held_graphs);
    }
    kilni_rpc_known_graph *fresh =
        status == KILN_STATUS_OK ? kiln_alloc(session->env, sizeof(*fresh)) : NULL;
    if (status == KILN_STATUS_OK && fresh == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to keep a graph");
    }
    if (status != KILN_STATUS_OK) {
        kiln_ir_graph_destroy(graph);
        return status;
    }
    *fresh = (kilni_rpc_known_graph){.id = id, .charge = charge, .graph = graph};
    *find_graph(session, id) = fresh;
    kilni_rpc_session_hold(session, charge);
    session->held_graphs++;
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_graph_learn(kilni_rpc_session *session, uint64_t id, const void *bytes,
                                  size_t length, kiln_error *err)
{
    kiln_ir_graph *graph = NULL;
    kiln_status status = kiln_ir_decode(session->env, bytes, length, &graph, err);
    return status == KILN_STATUS_OK ? learn_graph(session, id, graph, length, err) : status;
}

/// The graph that the frame carries or names; `*out_owned` when it has to be destroyed.
static kiln_status get_graph(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                             kiln_ir_graph **out_graph, bool *out_owned, kiln_error *err)
{
    uint64_t id = frame->body.body.run.graph;
    kiln_ir_graph *graph = NULL;
    *out_owned = false;
    if (frame->graph_length == 0 && id != 0) {
        kilni_rpc_known_graph *known = *find_graph(session, id);
        if (known == NULL) {
            return kiln_fail(err, NOT_FOUND, "there is no graph %llu", (unsigned long long)id);
        }
        *out_graph = known->graph;
        return KILN_STATUS_OK;
    }
    if (frame->graph_length == 0) {
        return KILN_STATUS_OK; // only frees
    }
    kiln_status status =
        kiln_ir_decode(session->env, frame->graph, frame->graph_length, &graph, err);
    if (status == KILN_STATUS_OK && id != 0) {
        status = learn_graph(session, id, graph, frame->graph_length, err);
        graph = status == KILN_STATUS_OK ? graph : NULL;
    }
    *out_owned = id == 0;
    *out_graph = graph;
    return status;
}

// ---- values ----

static void begin_values(kilni_rpc_session *session)
{
    session->n_values = 0;
    session->run_bytes = 0;
    memset(session->value_heads, 0, sizeof(session->value_heads));
}

static kilni_rpc_value *find_value(kilni_rpc_session *session, uint64_t id)
{
    uint32_t at = session->value_heads[id % KILNI_RPC_BUCKETS];
    while (at != 0 && session->values[at - 1].id != id) {
        at = session->values[at - 1].next;
    }
    return at != 0 ? &session->values[at - 1] : NULL;
}

static kiln_status expect_use(kilni_rpc_session *session, uint64_t id, kiln_error *err)
{
    kilni_rpc_value *found = find_value(session, id);
    if (found == NULL && session->n_values == KILNI_RPC_VALUES) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "a graph with more than %d values",
                         KILNI_RPC_VALUES);
    }
    if (found == NULL) {
        uint32_t *head = &session->value_heads[id % KILNI_RPC_BUCKETS];
        found = &session->values[session->n_values++];
        *found = (kilni_rpc_value){.id = id, .next = *head};
        *head = session->n_values;
    }
    found->uses++;
    return KILN_STATUS_OK;
}

/// Counts what uses each value, so that nothing is held longer than that.
static kiln_status expect_uses(kilni_rpc_session *session, const kiln_ir_graph *graph,
                               const kiln_v1_Run *run, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < kiln_ir_graph_op_count(graph); i++) {
        const kiln_op_record *op = kiln_ir_graph_op(graph, i);
        for (size_t k = 0; k < op->n_inputs && status == KILN_STATUS_OK; k++) {
            status = expect_use(session, op->inputs[k].id, err);
        }
    }
    for (pb_size_t i = 0; i < run->outputs_count && status == KILN_STATUS_OK; i++) {
        status = expect_use(session, run->outputs[i].value, err);
    }
    return status;
}

/// Takes the hold of `tensor`, and lets it go when nothing uses the value. The verifier has seen to
/// it that a value is defined once.
static void define_value(kilni_rpc_session *session, uint64_t id, kiln_tensor *tensor,
                         uint64_t holds)
{
    kilni_rpc_value *found = find_value(session, id);
    if (found == NULL || found->tensor != NULL) {
        kiln_release(tensor);
        return;
    }
    found->tensor = tensor;
    found->holds = holds;
}

/// Lets go of the operation's inputs that nothing after it uses.
static void end_uses(kilni_rpc_session *session, const kiln_op_record *op)
{
    for (size_t i = 0; i < op->n_inputs; i++) {
        kilni_rpc_value *input = find_value(session, op->inputs[i].id);
        if (--input->uses == 0) {
            kiln_release(input->tensor);
            input->tensor = NULL;
        }
    }
}

// ---- inputs ----

static bool same_kind(const kiln_tensor *tensor, const kiln_tensor_desc *desc)
{
    return kiln_tensor_dtype(tensor) == desc->dtype && kiln_tensor_rank(tensor) == desc->rank &&
           memcmp(kiln_tensor_dims(tensor), desc->dims, desc->rank * sizeof(int64_t)) == 0 &&
           kiln_tensor_scheme(tensor) == desc->scheme;
}

/// "[2,3]".
static void write_shape(const int64_t *dims, size_t rank, char *out_text, size_t size)
{
    size_t length = (size_t)snprintf(out_text, size, "[");
    for (size_t i = 0; i < rank && length < size; i++) {
        length += (size_t)snprintf(out_text + length, size - length, "%s%lld", i > 0 ? "," : "",
                                   (long long)dims[i]);
    }
    if (length < size) {
        snprintf(out_text + length, size - length, "]");
    }
}

static kiln_status tell_kinds(const kiln_tensor *tensor, const kiln_tensor_desc *desc,
                              uint64_t buffer, kiln_error *err)
{
    const kiln_dtype has = kiln_tensor_dtype(tensor);
    const char *is = kiln_dtype_name(has);
    const char *should = kiln_dtype_name(desc->dtype);
    if (has != desc->dtype || kiln_tensor_scheme(tensor) != desc->scheme) {
        return kiln_fail(err, INVALID_ARGUMENT, "buffer %llu holds %s%s; the graph says %s",
                         (unsigned long long)buffer, is,
                         has == desc->dtype ? " of another scheme" : "", should);
    }
    char has_dims[192]; // 8 extents of 20 characters
    char says_dims[192];
    write_shape(kiln_tensor_dims(tensor), kiln_tensor_rank(tensor), has_dims, sizeof(has_dims));
    write_shape(desc->dims, desc->rank, says_dims, sizeof(says_dims));
    return kiln_fail(err, INVALID_ARGUMENT, "buffer %llu has shape %s; the graph says %s",
                     (unsigned long long)buffer, has_dims, says_dims);
}

static kiln_status create_tensor(kilni_rpc_session *session, const kiln_tensor_desc *desc,
                                 const void *data, kiln_tensor **out_tensor, kiln_error *err)
{
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) {
        return kiln_tensor_create_quantised(session->device, desc->dtype, desc->scheme, desc->rank,
                                            desc->dims, data, out_tensor, err);
    }
    return kiln_tensor_create(session->device, desc->dtype, desc->rank, desc->dims, data,
                              out_tensor, err);
}

/// What a tensor holds that lies in a file.
typedef struct lying {
    const kiln_env *env;
    kilni_rpc_mapped file;
} lying;

static void release_lying(void *user)
{
    lying *self = user;
    kilni_rpc_vault_unmap(&self->file);
    kiln_free(self->env, self);
}

/// A constant whose bytes are a file's stays there: no copy is made where the device shares the
/// host's memory.
static kiln_status wrap_file(kilni_rpc_session *session, kilni_rpc_staging *raw,
                             const kiln_tensor_desc *desc, kiln_tensor **out_tensor,
                             kiln_error *err)
{
    kiln_constant_memory memory = KILN_CONSTANT_MEMORY_INIT;
    lying *self = kiln_alloc(session->env, sizeof(*self));
    if (self == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant");
    }
    *self = (lying){.env = session->env, .file = raw->file};
    memory.bytes = raw->bytes;
    memory.release = release_lying;
    memory.user = self;
    kiln_status status = kiln_tensor_wrap_constant(session->device, desc->dtype, desc->rank,
                                                   desc->dims, &memory, out_tensor, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(session->env, self);
        return status;
    }
    raw->file.bytes = raw->bytes = NULL; // the tensor's now
    return KILN_STATUS_OK;
}

static bool stays_in_file(const kilni_rpc_staging *raw, const kiln_tensor_desc *desc)
{
    return raw->file.bytes != NULL && !kilni_rpc_staging_is_lent(raw) &&
           (desc->flags & KILN_TENSOR_CONST) != 0 &&
           kiln_dtype_kind_of(desc->dtype) != KILN_KIND_QUANT;
}

/// Raw bytes become a tensor as the graph describes it.
static kiln_status make_tensor(kilni_rpc_session *session, kilni_rpc_entry *source,
                               const kiln_tensor_desc *desc, kiln_error *err)
{
    if ((uint64_t)kiln_desc_bytes(desc) != source->bytes) {
        return kiln_fail(err, INVALID_ARGUMENT, "buffer %llu has %llu bytes, the graph says %lld",
                         (unsigned long long)source->id, (unsigned long long)source->bytes,
                         (long long)kiln_desc_bytes(desc));
    }
    kiln_status status = kilni_rpc_entry_stage(session, source, err);
    if (status == KILN_STATUS_OK) {
        status = stays_in_file(source->raw, desc)
                     ? wrap_file(session, source->raw, desc, &source->tensor, err)
                     : create_tensor(session, desc, source->raw->bytes, &source->tensor, err);
    }
    if (status == KILN_STATUS_OK) {
        kilni_rpc_staging_release(session, source->raw);
        source->raw = NULL;
        source->staged = 0;
        if ((desc->flags & KILN_TENSOR_CONST) != 0) {
            kiln_tensor_mark_constant(source->tensor);
        }
    }
    return status;
}

static kiln_status bind_input(kilni_rpc_session *session, const kiln_tensor_desc *desc,
                              uint64_t buffer, kiln_error *err)
{
    kiln_tensor *tensor = NULL;
    kilni_rpc_entry *source = NULL;
    if (buffer == 0 && kiln_desc_count(desc) == 0) {
        kiln_status status = create_tensor(session, desc, NULL, &tensor, err);
        if (status == KILN_STATUS_OK) {
            define_value(session, desc->id, tensor, 0);
        }
        return status;
    }
    kiln_status status = kilni_rpc_entry_need(session, buffer, &source, err);
    if (status == KILN_STATUS_OK && source->tensor == NULL) {
        status = make_tensor(session, source, desc, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!same_kind(source->tensor, desc)) {
        return tell_kinds(source->tensor, desc, buffer, err);
    }
    define_value(session, desc->id, kiln_retain(source->tensor), source->bytes);
    return KILN_STATUS_OK;
}

/// Where the graph's input number `place` is bound; as a rule at the same place.
static const kiln_v1_Binding *find_binding(const kiln_v1_Run *run, size_t place, uint64_t id)
{
    if (place < run->inputs_count && run->inputs[place].value == id) {
        return &run->inputs[place];
    }
    for (pb_size_t i = 0; i < run->inputs_count; i++) {
        if (run->inputs[i].value == id) {
            return &run->inputs[i];
        }
    }
    return NULL;
}

static kiln_status bind_inputs(kilni_rpc_session *session, const kiln_ir_graph *graph,
                               const kiln_v1_Run *run, kiln_error *err)
{
    size_t count = 0;
    const kiln_tensor_desc *inputs = kiln_ir_graph_inputs(graph, &count);
    for (size_t i = 0; i < count; i++) {
        const kiln_v1_Binding *binding = find_binding(run, i, inputs[i].id);
        if (binding == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %llu of the graph has no buffer",
                             (unsigned long long)inputs[i].id);
        }
        kiln_status status = bind_input(session, &inputs[i], binding->buffer, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

// ---- operations ----

/// The inputs of an operation; `*out_holds` is the most memory that one of them keeps.
static kiln_status find_inputs(kilni_rpc_session *session, const kiln_op_record *op,
                               kiln_tensor **out_inputs, uint64_t *out_holds, kiln_error *err)
{
    for (size_t i = 0; i < op->n_inputs; i++) {
        const kilni_rpc_value *input = find_value(session, op->inputs[i].id);
        if (input == NULL || input->tensor == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "input %zu of %s is value %llu, which nothing before it defines", i,
                             kiln_op_info_of(op->op) == NULL ? "an operation"
                                                             : kiln_op_info_of(op->op)->name,
                             (unsigned long long)op->inputs[i].id);
        }
        out_inputs[i] = input->tensor;
        *out_holds = input->holds > *out_holds ? input->holds : *out_holds;
    }
    return KILN_STATUS_OK;
}

/// Whether the results of an operation fit beside what the session and this graph hold.
static kiln_status charge(kilni_rpc_session *session, const kiln_op_record *op, kiln_error *err)
{
    const kilni_rpc_limits *limits = &session->options->limits;
    for (size_t i = 0; i < op->n_outputs; i++) {
        uint64_t bytes = (uint64_t)kiln_desc_bytes(&op->outputs[i]);
        // Both terms are at most `max_bytes`, so that a sum beyond 64 bits cannot be.
        kiln_status status = kilni_rpc_check_bytes(limits, session->run_bytes, bytes, err);
        if (status == KILN_STATUS_OK) {
            status = kilni_rpc_session_charge(session, session->run_bytes + bytes, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        session->run_bytes += bytes;
    }
    return KILN_STATUS_OK;
}

/// Others have their part in it, perhaps behind this session at another device.
static bool is_together(const kiln_op_record *op)
{
    return kiln_op_info_of(op->op)->cls == KILN_CLASS_COLLECTIVE;
}

static kiln_status record(kilni_rpc_session *session, const kiln_op_record *op, kiln_error *err)
{
    kiln_tensor *inputs[KILN_MAX_INPUTS];
    kiln_tensor *outputs[KILN_MAX_OUTPUTS] = {NULL};
    uint64_t holds = 0;
    bool view = kiln_op_info_of(op->op)->cls == KILN_CLASS_VIEW;
    if (op->op == KILN_OP_DROP) {
        end_uses(session, op);
        return KILN_STATUS_OK;
    }
    kiln_status status = find_inputs(session, op, inputs, &holds, err);
    if (status == KILN_STATUS_OK && op->op == KILN_OP_CUSTOM) {
        // Only its own rule knows what it gives, and that is charged below.
        status = kiln_custom_check(session->device, op, err);
    }
    if (status == KILN_STATUS_OK && !view) {
        status = charge(session, op, err);
    }
    if (status == KILN_STATUS_OK && is_together(op)) {
        kilni_rpc_pace_give(session);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_record(session->device, op->op, inputs, op->n_inputs, op->attrs, op->n_attrs,
                             outputs, err);
        if (status == KILN_STATUS_OK && op->op == KILN_OP_ALL_REDUCE) { // in order anyway
            status = kiln_collective_resolve(outputs[0], err);
            if (status != KILN_STATUS_OK) {
                kiln_release(outputs[0]);
            }
        }
        if (is_together(op)) {
            kilni_rpc_pace_take(session);
        }
    }
    for (size_t i = 0; i < op->n_outputs && status == KILN_STATUS_OK; i++) {
        define_value(session, op->outputs[i].id, outputs[i],
                     view ? holds : kiln_tensor_bytes(outputs[i]));
    }
    end_uses(session, op);
    return status == KILN_STATUS_OK ? kilni_rpc_pace_launched(session, op, err) : status;
}

// ---- outputs ----

/// The value as it is kept in a buffer: a view of more memory than is charged for it becomes a
/// copy. `*out_tensor` is the caller's hold.
static kiln_status keep_value(const kilni_rpc_value *source, kiln_tensor **out_tensor,
                              kiln_error *err)
{
    if (source->holds > kiln_tensor_bytes(source->tensor)) {
        return kiln_contiguous(source->tensor, out_tensor, err);
    }
    *out_tensor = kiln_retain(source->tensor);
    return KILN_STATUS_OK;
}

static bool is_freed(const kiln_v1_Run *run, uint64_t buffer)
{
    for (pb_size_t i = 0; i < run->frees_count; i++) {
        if (run->frees[i] == buffer) {
            return true;
        }
    }
    return false;
}

static kiln_status bind_output(kilni_rpc_session *session, const kiln_v1_Binding *binding,
                               kiln_error *err)
{
    const kilni_rpc_value *source = find_value(session, binding->value);
    kiln_tensor *tensor = NULL;
    kilni_rpc_entry *target = NULL;
    if (source == NULL || source->tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "an output of Run is value %llu, which its graph does not define",
                         (unsigned long long)binding->value);
    }
    kiln_status status = keep_value(source, &tensor, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_entry_renew(session, binding->buffer, kiln_tensor_bytes(tensor), &target,
                                       err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_release(tensor);
        return status;
    }
    target->tensor = tensor;
    target->unfenced = true;
    return KILN_STATUS_OK;
}

/// Binds what there is. After a failure, `*first`, the other buffers must not keep what was in
/// them: they have failed.
static void bind_outputs(kilni_rpc_session *session, const kiln_v1_Run *run, kiln_error *first)
{
    for (pb_size_t i = 0; i < run->outputs_count; i++) {
        const kiln_v1_Binding *binding = &run->outputs[i];
        kiln_error own = KILN_ERROR_INIT;
        if (is_freed(run, binding->buffer)) {
            continue;
        }
        if (bind_output(session, binding, &own) != KILN_STATUS_OK) {
            *first = first->code != 0 ? *first : own;
            kilni_rpc_entry_fail(session, binding->buffer, first);
        }
    }
}

kiln_status kilni_rpc_run(kilni_rpc_session *session, const kilni_rpc_frame *frame, kiln_error *err)
{
    const kiln_v1_Run *run = &frame->body.body.run;
    kiln_ir_graph *graph = NULL;
    bool owned = false;
    bool paced = false;
    begin_values(session);
    kiln_status status = get_graph(session, frame, &graph, &owned, err);
    if (status == KILN_STATUS_OK && graph != NULL) {
        status = kilni_rpc_pace_begin(session, kiln_ir_graph_op_count(graph), err);
        paced = status == KILN_STATUS_OK;
    }
    if (status == KILN_STATUS_OK && graph != NULL) {
        status = expect_uses(session, graph, run, err);
    }
    if (status == KILN_STATUS_OK && graph != NULL) {
        status = bind_inputs(session, graph, run, err);
    }
    for (size_t i = 0;
         graph != NULL && status == KILN_STATUS_OK && i < kiln_ir_graph_op_count(graph); i++) {
        status = record(session, kiln_ir_graph_op(graph, i), err);
    }
    bind_outputs(session, run, err);
    for (size_t i = 0; i < session->n_values; i++) {
        kiln_release(session->values[i].tensor);
    }
    for (pb_size_t i = 0; i < run->frees_count; i++) {
        kilni_rpc_entry_remove(session, run->frees[i]);
    }
    if (paced) {
        kilni_rpc_pace_give(session);
    }
    if (owned) {
        kiln_ir_graph_destroy(graph);
    }
    return (kiln_status)err->code;
}
