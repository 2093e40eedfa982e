// SPDX-License-Identifier: MIT OR Apache-2.0
// A Run on the server: inputs are bound to buffers, each operation is recorded through the runtime,
// outputs go to buffers. A known graph that is run again and again is captured, and then run as a
// whole. Knows no operator by name: the table, the verifier and the runtime decide what is right.

#include "rpc_pace.h"

#include <stdio.h>
#include <string.h>

// ---- values ----

static void begin_values(kilni_rpc_session *session)
{
    session->n_values = 0;
    session->run_bytes = 0;
    memset(session->value_heads, 0, sizeof(session->value_heads));
}

static void end_values(kilni_rpc_session *session)
{
    for (size_t i = 0; i < session->n_values; i++) {
        kiln_release(session->values[i].tensor);
    }
    session->n_values = 0;
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

/// The tensor in `buffer`, as the graph describes it; the caller's to release.
static kiln_status take_input(kilni_rpc_session *session, const kiln_tensor_desc *desc,
                              uint64_t buffer, kiln_tensor **out_tensor, kiln_error *err)
{
    kilni_rpc_entry *source = NULL;
    if (buffer == 0 && kiln_desc_count(desc) == 0) {
        return create_tensor(session, desc, NULL, out_tensor, err);
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
    *out_tensor = kiln_retain(source->tensor);
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

/// The inputs of the graph, up to `*out_count` of them also after an error: the caller's to
/// release.
static kiln_status take_inputs(kilni_rpc_session *session, const kiln_ir_graph *graph,
                               const kiln_v1_Run *run, kiln_tensor **out_tensors, size_t *out_count,
                               kiln_error *err)
{
    size_t count = 0;
    const kiln_tensor_desc *inputs = kiln_ir_graph_inputs(graph, &count);
    *out_count = 0;
    for (size_t i = 0; i < count; i++) {
        const kiln_v1_Binding *binding =
            i < KILNI_RPC_BINDINGS ? find_binding(run, i, inputs[i].id) : NULL;
        if (binding == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %llu of the graph has no buffer",
                             (unsigned long long)inputs[i].id);
        }
        kiln_status status = take_input(session, &inputs[i], binding->buffer, &out_tensors[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        *out_count = i + 1;
    }
    return KILN_STATUS_OK;
}

/// Takes the tensors.
static void define_inputs(kilni_rpc_session *session, const kiln_ir_graph *graph,
                          kiln_tensor *const *tensors, size_t count)
{
    size_t all = 0;
    const kiln_tensor_desc *inputs = kiln_ir_graph_inputs(graph, &all);
    for (size_t i = 0; i < count; i++) {
        define_value(session, inputs[i].id, tensors[i], kiln_tensor_bytes(tensors[i]));
    }
}

static void release_all(kiln_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_release(tensors[i]);
    }
}

static kiln_status bind_inputs(kilni_rpc_session *session, const kiln_ir_graph *graph,
                               const kiln_v1_Run *run, kiln_error *err)
{
    kiln_tensor *tensors[KILNI_RPC_BINDINGS];
    size_t count = 0;
    kiln_status status = take_inputs(session, graph, run, tensors, &count, err);
    define_inputs(session, graph, tensors, count);
    return status;
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

/// Records the operation as it is, and ends the values that it is the last to use.
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
    if (status == KILN_STATUS_OK) {
        status = kiln_record(session->device, op->op, inputs, op->n_inputs, op->attrs, op->n_attrs,
                             outputs, err);
    }
    if (status == KILN_STATUS_OK && op->op == KILN_OP_ALL_REDUCE) { // in order anyway
        status = kiln_collective_resolve(outputs[0], err);
        if (status != KILN_STATUS_OK) {
            kiln_release(outputs[0]);
        }
    }
    for (size_t i = 0; i < op->n_outputs && status == KILN_STATUS_OK; i++) {
        define_value(session, op->outputs[i].id, outputs[i],
                     view ? holds : kiln_tensor_bytes(outputs[i]));
    }
    end_uses(session, op);
    return status;
}

/// Records the operation if its results may be held, in the session's turn.
static kiln_status record_in_turn(kilni_rpc_session *session, const kiln_op_record *op,
                                  kiln_error *err)
{
    // Only a custom operation's own rule knows what it gives, and that is charged.
    kiln_status status =
        op->op == KILN_OP_CUSTOM ? kiln_custom_check(session->device, op, err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK && kiln_op_info_of(op->op)->cls != KILN_CLASS_VIEW) {
        status = charge(session, op, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (is_together(op)) {
        kilni_rpc_pace_give(session);
    }
    status = record(session, op, err);
    if (is_together(op)) {
        kilni_rpc_pace_take(session);
    }
    return status == KILN_STATUS_OK && op->op != KILN_OP_DROP
               ? kilni_rpc_pace_launched(session, kilni_rpc_pace_work(op), err)
               : status;
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

/// Puts the tensor, which it takes, in the buffer.
static kiln_status fill_buffer(kilni_rpc_session *session, uint64_t buffer, kiln_tensor *tensor,
                               kiln_error *err)
{
    kilni_rpc_entry *target = NULL;
    kiln_status status =
        kilni_rpc_entry_renew(session, buffer, kiln_tensor_bytes(tensor), &target, err);
    if (status != KILN_STATUS_OK) {
        kiln_release(tensor);
        return status;
    }
    target->tensor = tensor;
    target->unfenced = true;
    return KILN_STATUS_OK;
}

static kiln_status bind_output(kilni_rpc_session *session, const kiln_v1_Binding *binding,
                               kiln_error *err)
{
    const kilni_rpc_value *source = find_value(session, binding->value);
    kiln_tensor *tensor = NULL;
    if (source == NULL || source->tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "an output of Run is value %llu, which its graph does not define",
                         (unsigned long long)binding->value);
    }
    kiln_status status = keep_value(source, &tensor, err);
    return status == KILN_STATUS_OK ? fill_buffer(session, binding->buffer, tensor, err) : status;
}

/// Binds what there is. After a failure, `*first`, the other buffers must not keep what was in
/// them: they have failed.
static void bind_outputs(kilni_rpc_session *session, const kiln_v1_Run *run, kiln_error *first)
{
    for (pb_size_t i = 0; i < run->outputs_count; i++) {
        const kiln_v1_Binding *binding = &run->outputs[i];
        kiln_error own = KILN_ERROR_INIT;
        if (kilni_rpc_is_freed(run, binding->buffer)) {
            continue;
        }
        if (bind_output(session, binding, &own) != KILN_STATUS_OK) {
            *first = first->code != 0 ? *first : own;
            kilni_rpc_entry_fail(session, binding->buffer, first);
        }
    }
}

// ---- operation by operation ----

static void run_recorded(kilni_rpc_session *session, const kiln_ir_graph *graph,
                         const kiln_v1_Run *run, kiln_error *err)
{
    begin_values(session);
    kiln_status status = expect_uses(session, graph, run, err);
    if (status == KILN_STATUS_OK) {
        status = bind_inputs(session, graph, run, err);
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < kiln_ir_graph_op_count(graph); i++) {
        status = record_in_turn(session, kiln_ir_graph_op(graph, i), err);
    }
    bind_outputs(session, run, err);
    end_values(session);
}

// ---- as a whole ----

static bool has_twice(kiln_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (tensors[i] == tensors[k]) {
                return true;
            }
        }
    }
    return false;
}

/// The tensors of what the Runs keep. A view that would have to be copied to be kept is none.
static kiln_status find_kept(kilni_rpc_session *session, const kilni_rpc_replay *replay,
                             kiln_tensor **out_tensors, kiln_error *err)
{
    for (uint32_t i = 0; i < replay->n_kept; i++) {
        const kilni_rpc_value *value = find_value(session, replay->kept[i]);
        if (value == NULL || value->tensor == NULL ||
            value->holds > kiln_tensor_bytes(value->tensor)) {
            return kiln_fail(err, FAILED_PRECONDITION, "value %llu cannot be kept as it is",
                             (unsigned long long)replay->kept[i]);
        }
        out_tensors[i] = value->tensor;
    }
    return KILN_STATUS_OK;
}

/// Records the operations of the graph once more, to be run as a whole from now on.
static kiln_status capture(kilni_rpc_session *session, kilni_rpc_known_graph *known,
                           const kiln_v1_Run *run, kiln_tensor *const *inputs, size_t n_inputs,
                           kiln_error *err)
{
    kilni_rpc_replay *replay = &known->replay;
    const kiln_ir_graph *graph = known->graph;
    kiln_tensor *kept[KILNI_RPC_BINDINGS];
    kiln_status status = has_twice(inputs, n_inputs)
                             ? kiln_fail(err, FAILED_PRECONDITION, "an input is there twice")
                             : kilni_rpc_graph_charge_replay(session, known, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_begin(session->device, inputs, n_inputs, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    begin_values(session);
    status = expect_uses(session, graph, run, err);
    for (size_t i = 0; i < n_inputs; i++) {
        (void)kiln_retain(inputs[i]);
    }
    define_inputs(session, graph, inputs, n_inputs);
    for (size_t i = 0; status == KILN_STATUS_OK && i < kiln_ir_graph_op_count(graph); i++) {
        status = record(session, kiln_ir_graph_op(graph, i), err);
    }
    if (status == KILN_STATUS_OK) {
        status = find_kept(session, replay, kept, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(session->device, kept, replay->n_kept, &replay->graph, err);
    } else {
        kiln_graph_cancel(session->device);
    }
    end_values(session);
    return status;
}

/// Whether its results may be held.
static kiln_status charge_all(const kilni_rpc_replay *replay, kilni_rpc_session *session,
                              kiln_error *err)
{
    kiln_status status = kilni_rpc_check_bytes(&session->options->limits, 0, replay->bytes, err);
    return status == KILN_STATUS_OK ? kilni_rpc_session_charge(session, replay->bytes, err)
                                    : status;
}

static void fill_kept(kilni_rpc_session *session, const kiln_v1_Run *run,
                      kiln_tensor *const *outputs, kiln_error *err)
{
    uint32_t at = 0;
    for (pb_size_t i = 0; i < run->outputs_count; i++) {
        uint64_t buffer = run->outputs[i].buffer;
        kiln_error own = KILN_ERROR_INIT;
        if (!kilni_rpc_is_freed(run, buffer) &&
            fill_buffer(session, buffer, outputs[at++], &own) != KILN_STATUS_OK) {
            *err = err->code != 0 ? *err : own;
            kilni_rpc_entry_fail(session, buffer, err);
        }
    }
}

/// Runs the graph as a whole, and gives whether it has. When it cannot, nothing is done, and why
/// does not matter: recorded one by one, the operations either can, or the right one tells why.
static bool run_replayed(kilni_rpc_session *session, kilni_rpc_known_graph *known,
                         const kiln_v1_Run *run, kiln_error *err)
{
    kilni_rpc_replay *replay = &known->replay;
    kiln_tensor *inputs[KILNI_RPC_BINDINGS];
    kiln_tensor *outputs[KILNI_RPC_BINDINGS];
    kiln_error why = KILN_ERROR_INIT;
    size_t count = 0;
    if (!kilni_rpc_graph_is_replayed(replay, run) || replay->work > session->pace.budget / 2) {
        return false;
    }
    kiln_status status = take_inputs(session, known->graph, run, inputs, &count, &why);
    if (status == KILN_STATUS_OK && replay->graph == NULL) {
        status = capture(session, known, run, inputs, count, &why);
        replay->never = status != KILN_STATUS_OK;
    }
    if (status == KILN_STATUS_OK) {
        status = charge_all(replay, session, &why);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_run(replay->graph, inputs, count, outputs, replay->n_kept, &why);
    }
    release_all(inputs, count);
    if (status != KILN_STATUS_OK) {
        return false;
    }
    fill_kept(session, run, outputs, err);
    if (kilni_rpc_pace_launched(session, replay->work, &why) != KILN_STATUS_OK && err->code == 0) {
        *err = why;
    }
    return true;
}

kiln_status kilni_rpc_run(kilni_rpc_session *session, const kilni_rpc_frame *frame, kiln_error *err)
{
    const kiln_v1_Run *run = &frame->body.body.run;
    kiln_ir_graph *graph = NULL;
    kilni_rpc_known_graph *known = NULL;
    bool paced = false;
    kiln_status status = kilni_rpc_graph_get(session, frame, &graph, &known, err);
    if (status == KILN_STATUS_OK && graph != NULL) {
        status = kilni_rpc_pace_begin(session, kiln_ir_graph_op_count(graph), err);
        paced = status == KILN_STATUS_OK;
    }
    if (!paced) {
        begin_values(session);
        bind_outputs(session, run, err);
    } else if (known == NULL || !run_replayed(session, known, run, err)) {
        run_recorded(session, graph, run, err);
    }
    for (pb_size_t i = 0; i < run->frees_count; i++) {
        kilni_rpc_entry_remove(session, run->frees[i]);
    }
    if (paced) {
        kilni_rpc_pace_give(session);
    }
    if (known == NULL) {
        kiln_ir_graph_destroy(graph);
    }
    return (kiln_status)err->code;
}
