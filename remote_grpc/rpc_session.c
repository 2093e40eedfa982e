// SPDX-License-Identifier: MIT OR Apache-2.0
// A session: decode a frame, check it against the limits, call the runtime, answer when asked.
// Bytes that a client writes stay raw until an operation says what they are. Work is not answered;
// the first error is kept and told with the next answer.

#include "rpc_session.h"

#include <stdio.h>
#include <string.h>

enum { BUCKETS = 1024, VALUES = 3 * KILNI_RPC_BINDINGS };

/// A buffer of the client: raw bytes, then a tensor; or neither, and why.
typedef struct entry {
    uint64_t id;
    uint64_t bytes;
    char *raw; ///< NULL once it is a tensor
    uint64_t staged; ///< of `raw`: what has memory, the rest is zeros
    kiln_tensor *tensor; ///< NULL while it is raw
    kiln_error *failed; ///< the work that should have filled it failed
    bool unfenced; ///< an output since the last fence
    struct entry *next;
} entry;

typedef struct value {
    uint64_t id;
    uint64_t holds; ///< bytes of memory that it keeps: a view all of what it is a view of
    kiln_tensor *tensor; ///< held
} value;

struct kilni_rpc_session {
    const kiln_env *env;
    kilni_rpc_session_options options;
    kilni_rpc_stream *stream;
    bool greeted;
    kiln_error failed; ///< the first failure that was not told yet
    uint64_t held_bytes;
    uint64_t held_buffers;
    uint64_t run_bytes; ///< of the results of the graph being recorded
    value values[VALUES]; ///< of the graph being recorded
    size_t n_values;
    entry *buckets[BUCKETS];
};

// ---- buffers
// -------------------------------------------------------------------------------------

static entry **find(kilni_rpc_session *session, uint64_t id)
{
    entry **link = &session->buckets[id % BUCKETS];
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

static kiln_status need(kilni_rpc_session *session, uint64_t id, entry **out_entry, kiln_error *err)
{
    *out_entry = *find(session, id);
    if (*out_entry == NULL) {
        return kiln_fail(err, NOT_FOUND, "there is no buffer %llu", (unsigned long long)id);
    }
    if ((*out_entry)->failed != NULL) {
        *err = *(*out_entry)->failed;
        return (kiln_status)err->code;
    }
    return KILN_STATUS_OK;
}

static void clear_entry(kilni_rpc_session *session, entry *found)
{
    kiln_free(session->env, found->raw);
    kiln_free(session->env, found->failed);
    kiln_release(found->tensor);
    found->raw = NULL;
    found->staged = 0;
    found->failed = NULL;
    found->tensor = NULL;
    found->unfenced = false;
    session->held_bytes -= found->bytes;
    found->bytes = 0;
}

static void remove_entry(kilni_rpc_session *session, uint64_t id)
{
    entry **link = find(session, id);
    entry *found = *link;
    if (found != NULL) {
        *link = found->next;
        clear_entry(session, found);
        kiln_free(session->env, found);
        session->held_buffers--;
    }
}

/// The entry of `id`, made when there is none, now with `bytes` and nothing in it.
static kiln_status renew_entry(kilni_rpc_session *session, uint64_t id, uint64_t bytes,
                               entry **out_entry, kiln_error *err)
{
    entry **link = find(session, id);
    kiln_status status = KILN_STATUS_OK;
    if (*link == NULL) {
        status = kilni_rpc_check_buffers(&session->options.limits, session->held_buffers, err);
        entry *fresh = status == KILN_STATUS_OK ? kiln_alloc(session->env, sizeof(*fresh)) : NULL;
        if (status == KILN_STATUS_OK && fresh == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a buffer's record");
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        fresh->id = id;
        *link = fresh;
        session->held_buffers++;
    } else {
        clear_entry(session, *link);
    }
    status = kilni_rpc_check_bytes(&session->options.limits, session->held_bytes, bytes, err);
    if (status == KILN_STATUS_OK) {
        (*link)->bytes = bytes;
        session->held_bytes += bytes;
        *out_entry = *link;
    }
    return status;
}

/// Empties the buffer for good: whoever uses it is told `cause`, until it is filled anew. Without
/// memory for that there is no such buffer any more.
static void fail_entry(kilni_rpc_session *session, uint64_t id, const kiln_error *cause)
{
    kiln_error ignored = KILN_ERROR_INIT;
    entry *target = NULL;
    if (renew_entry(session, id, 0, &target, &ignored) == KILN_STATUS_OK) {
        target->failed = kiln_alloc(session->env, sizeof(*target->failed));
    }
    if (target == NULL || target->failed == NULL) {
        remove_entry(session, id);
    } else {
        *target->failed = *cause;
    }
}

// ---- write and read
// --------------------------------------------------------------------------------

/// Gives the first `needed` bytes of raw bytes memory, at most `target->bytes`.
static kiln_status stage(kilni_rpc_session *session, entry *target, uint64_t needed,
                         kiln_error *err)
{
    uint64_t length = target->staged < target->bytes / 2 ? 2 * target->staged : target->bytes;
    length = length < needed || target->staged == 0 ? needed : length;
    if (needed <= target->staged && target->raw != NULL) {
        return KILN_STATUS_OK;
    }
    char *raw = kiln_realloc(session->env, target->raw, (size_t)target->staged,
                             length > 0 ? (size_t)length : 1);
    if (raw == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %llu bytes",
                         (unsigned long long)length);
    }
    target->raw = raw;
    target->staged = length;
    return KILN_STATUS_OK;
}

/// A tensor that is written in part becomes raw bytes again.
static kiln_status unmake_tensor(kilni_rpc_session *session, entry *target, kiln_error *err)
{
    kiln_status status = stage(session, target, target->bytes, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_read(target->tensor, target->raw, (size_t)target->bytes, err);
    }
    if (status == KILN_STATUS_OK) {
        kiln_release(target->tensor);
        target->tensor = NULL;
        target->unfenced = false;
    }
    return status;
}

/// The buffer as raw bytes, `write->total` of them; what was in one of another size is gone.
static kiln_status open_raw(kilni_rpc_session *session, const kiln_v1_Write *write, uint64_t length,
                            entry **out_target, kiln_error *err)
{
    entry *target = *find(session, write->buffer);
    if (target != NULL && target->failed != NULL && write->offset > 0) {
        return need(session, write->buffer, &target, err);
    }
    bool whole = write->offset == 0 && length == write->total;
    bool fresh = target == NULL || target->failed != NULL || target->bytes != write->total ||
                 (target->tensor != NULL && whole);
    kiln_status status = KILN_STATUS_OK;
    if (fresh) {
        status = renew_entry(session, write->buffer, write->total, &target, err);
    } else if (target->tensor != NULL) {
        status = unmake_tensor(session, target, err);
    }
    *out_target = target;
    return status;
}

static kiln_status fill(kilni_rpc_session *session, const kiln_v1_Write *write, const void *data,
                        uint64_t length, kiln_error *err)
{
    entry *target = NULL;
    kiln_status status = kilni_rpc_check_range(write->offset, length, write->total, "a write", err);
    if (status == KILN_STATUS_OK && length > session->options.limits.max_data_bytes) {
        status = kiln_fail(err, OUT_OF_RANGE, "%llu bytes of data in one frame; %llu are allowed",
                           (unsigned long long)length,
                           (unsigned long long)session->options.limits.max_data_bytes);
    }
    if (status == KILN_STATUS_OK) {
        status = open_raw(session, write, length, &target, err);
    }
    if (status == KILN_STATUS_OK) {
        status = stage(session, target, write->offset + length, err);
    }
    if (status == KILN_STATUS_OK && length > 0) {
        memcpy(target->raw + write->offset, data, (size_t)length);
    }
    return status;
}

static kiln_status handle_write(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err)
{
    const kiln_v1_Write *write = &frame->body.body.write;
    kiln_status status = fill(session, write, frame->data, frame->data_length, err);
    if (status != KILN_STATUS_OK) {
        fail_entry(session, write->buffer, err);
    }
    return status;
}

static kiln_status send_frame(kilni_rpc_session *session, kilni_rpc_frame *frame, kiln_error *err)
{
    kiln_blob message = {0};
    kiln_status status = kilni_rpc_frame_encode(session->env, frame, &message, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send(session->stream, message.data, message.length, err);
    }
    kiln_free(session->env, message.data);
    return status;
}

/// Answers `request` with what is owed: the kept failure, or `cause`, or success.
static kiln_status answer(kilni_rpc_session *session, uint64_t request, const kiln_error *cause,
                          const void *data, size_t length, kiln_error *err)
{
    kilni_rpc_frame frame = {.data = data, .data_length = length};
    frame.body.request = request;
    frame.body.which_body = kiln_v1_Frame_answer_tag;
    if (cause != NULL && cause->code != 0) {
        frame.body.body.answer.code = (uint32_t)cause->code;
        snprintf(frame.body.body.answer.message, sizeof(frame.body.body.answer.message), "%s",
                 cause->message);
    }
    return send_frame(session, &frame, err);
}

static kiln_status send_bytes(kilni_rpc_session *session, uint64_t request, const char *bytes,
                              size_t length, kiln_error *err)
{
    size_t at = 0;
    while (length - at > KILNI_RPC_CHUNK) {
        kilni_rpc_frame frame = {.data = bytes + at, .data_length = KILNI_RPC_CHUNK};
        frame.body.request = request;
        kiln_status status = send_frame(session, &frame, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        at += KILNI_RPC_CHUNK;
    }
    return answer(session, request, NULL, bytes + at, length - at, err);
}

/// The bytes of a buffer on the host; `*out_owned` when they have to be freed.
static kiln_status fetch(kilni_rpc_session *session, entry *source, char **out_bytes,
                         bool *out_owned, kiln_error *err)
{
    *out_owned = source->tensor != NULL;
    if (source->tensor == NULL) {
        kiln_status status = stage(session, source, source->bytes, err);
        *out_bytes = source->raw;
        return status;
    }
    *out_bytes = kiln_alloc(session->env, source->bytes > 0 ? (size_t)source->bytes : 1);
    if (*out_bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %llu bytes",
                         (unsigned long long)source->bytes);
    }
    return kiln_read(source->tensor, *out_bytes, (size_t)source->bytes, err);
}

/// Gives only failures of the connection; those of the read are answered.
static kiln_status handle_read(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                               kiln_error *err)
{
    const kiln_v1_Read *read = &frame->body.body.read;
    kiln_error cause = session->failed;
    entry *source = NULL;
    char *bytes = NULL;
    bool owned = false;
    session->failed.code = 0;
    if (cause.code == 0 && need(session, read->buffer, &source, &cause) == KILN_STATUS_OK &&
        kilni_rpc_check_range(read->offset, read->length, source->bytes, "a read", &cause) ==
            KILN_STATUS_OK) {
        (void)!fetch(session, source, &bytes, &owned, &cause);
    }
    kiln_status status = cause.code != 0
                             ? answer(session, frame->body.request, &cause, NULL, 0, err)
                             : send_bytes(session, frame->body.request, bytes + read->offset,
                                          (size_t)read->length, err);
    if (owned) {
        kiln_free(session->env, bytes);
    }
    return status;
}

// ---- run
// -----------------------------------------------------------------------------------------

static value *find_value(kilni_rpc_session *session, uint64_t id)
{
    for (size_t i = 0; i < session->n_values; i++) {
        if (session->values[i].id == id) {
            return &session->values[i];
        }
    }
    return NULL;
}

/// Takes the hold of `tensor`.
static kiln_status add_value(kilni_rpc_session *session, uint64_t id, kiln_tensor *tensor,
                             uint64_t holds, kiln_error *err)
{
    if (session->n_values == VALUES) {
        kiln_release(tensor);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "a graph with more than %d values", VALUES);
    }
    session->values[session->n_values++] = (value){.id = id, .holds = holds, .tensor = tensor};
    return KILN_STATUS_OK;
}

static bool same_kind(const kiln_tensor *tensor, const kiln_tensor_desc *desc)
{
    return kiln_tensor_dtype(tensor) == desc->dtype && kiln_tensor_rank(tensor) == desc->rank &&
           memcmp(kiln_tensor_dims(tensor), desc->dims, desc->rank * sizeof(int64_t)) == 0;
}

/// A graph's input: raw bytes become a tensor as the graph describes it.
static kiln_status bind_input(kilni_rpc_session *session, const kiln_tensor_desc *desc,
                              uint64_t buffer, kiln_error *err)
{
    kiln_tensor *tensor = NULL;
    entry *source = NULL;
    if (buffer == 0 && kiln_desc_count(desc) == 0) {
        kiln_status status = kiln_tensor_create(session->options.device, desc->dtype, desc->rank,
                                                desc->dims, NULL, &tensor, err);
        return status == KILN_STATUS_OK ? add_value(session, desc->id, tensor, 0, err) : status;
    }
    kiln_status status = need(session, buffer, &source, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (source->tensor == NULL) {
        if ((uint64_t)kiln_desc_bytes(desc) != source->bytes) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "buffer %llu has %llu bytes, the graph says %lld",
                             (unsigned long long)buffer, (unsigned long long)source->bytes,
                             (long long)kiln_desc_bytes(desc));
        }
        status = stage(session, source, source->bytes, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_tensor_create(session->options.device, desc->dtype, desc->rank,
                                        desc->dims, source->raw, &source->tensor, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kiln_free(session->env, source->raw);
        source->raw = NULL;
        source->staged = 0;
    }
    if (!same_kind(source->tensor, desc)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "buffer %llu has another shape or dtype than the graph says",
                         (unsigned long long)buffer);
    }
    return add_value(session, desc->id, kiln_retain(source->tensor), source->bytes, err);
}

static kiln_status bind_inputs(kilni_rpc_session *session, const kiln_ir_graph *graph,
                               const kiln_v1_Run *run, kiln_error *err)
{
    size_t count = 0;
    const kiln_tensor_desc *inputs = kiln_ir_graph_inputs(graph, &count);
    for (size_t i = 0; i < count; i++) {
        uint64_t buffer = 0;
        bool bound = false;
        for (pb_size_t k = 0; k < run->inputs_count && !bound; k++) {
            bound = run->inputs[k].value == inputs[i].id;
            buffer = run->inputs[k].buffer;
        }
        if (!bound) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %llu of the graph has no buffer",
                             (unsigned long long)inputs[i].id);
        }
        kiln_status status = bind_input(session, &inputs[i], buffer, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

/// The inputs of an operation; `*out_holds` is the most memory that one of them keeps.
static kiln_status find_inputs(kilni_rpc_session *session, const kiln_op_record *op,
                               kiln_tensor **out_inputs, uint64_t *out_holds, kiln_error *err)
{
    for (size_t i = 0; i < op->n_inputs; i++) {
        const value *input = find_value(session, op->inputs[i].id);
        if (input == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "value %llu is not known",
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
    const kilni_rpc_limits *limits = &session->options.limits;
    for (size_t i = 0; i < op->n_outputs; i++) {
        uint64_t bytes = (uint64_t)kiln_desc_bytes(&op->outputs[i]);
        // Both terms are at most `max_bytes`, so that a sum beyond 64 bits cannot be.
        kiln_status status = kilni_rpc_check_bytes(limits, session->run_bytes, bytes, err);
        if (status == KILN_STATUS_OK) {
            status =
                kilni_rpc_check_bytes(limits, session->held_bytes, session->run_bytes + bytes, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        session->run_bytes += bytes;
    }
    return KILN_STATUS_OK;
}

static kiln_status record(kilni_rpc_session *session, const kiln_op_record *op, kiln_error *err)
{
    kiln_tensor *inputs[KILN_MAX_INPUTS];
    kiln_tensor *outputs[KILN_MAX_OUTPUTS] = {NULL};
    uint64_t holds = 0;
    bool view = kiln_op_info_of(op->op)->cls == KILN_CLASS_VIEW;
    if (op->op == KILN_OP_DROP) {
        return KILN_STATUS_OK; // holds end with the frame
    }
    kiln_status status = find_inputs(session, op, inputs, &holds, err);
    if (status == KILN_STATUS_OK && !view) {
        status = charge(session, op, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_record(session->options.device, op->op, inputs, op->n_inputs, op->attrs,
                             op->n_attrs, outputs, err);
    }
    for (size_t i = 0; i < op->n_outputs && status == KILN_STATUS_OK; i++) {
        status = add_value(session, op->outputs[i].id, outputs[i],
                           view ? holds : kiln_tensor_bytes(outputs[i]), err);
    }
    return status;
}

/// The value as it is kept in a buffer: a view of more memory than is charged for it becomes a
/// copy. Ownership: `*out_tensor` is the caller's hold.
static kiln_status keep_value(const value *source, kiln_tensor **out_tensor, kiln_error *err)
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
    const value *source = find_value(session, binding->value);
    kiln_tensor *tensor = NULL;
    entry *target = NULL;
    if (source == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "value %llu is not known",
                         (unsigned long long)binding->value);
    }
    kiln_status status = keep_value(source, &tensor, err);
    if (status == KILN_STATUS_OK) {
        status = renew_entry(session, binding->buffer, kiln_tensor_bytes(tensor), &target, err);
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
            fail_entry(session, binding->buffer, first);
        }
    }
}

static kiln_status handle_run(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                              kiln_error *err)
{
    const kiln_v1_Run *run = &frame->body.body.run;
    kiln_ir_graph *graph = NULL;
    kiln_status status = KILN_STATUS_OK;
    session->n_values = 0;
    session->run_bytes = 0;
    if (frame->graph_length > 0) {
        status = kiln_ir_decode(session->env, frame->graph, frame->graph_length, &graph, err);
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
        remove_entry(session, run->frees[i]);
    }
    kiln_ir_graph_destroy(graph);
    return (kiln_status)err->code;
}

// ---- the rest
// ------------------------------------------------------------------------------------

static kiln_status handle_hello(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err)
{
    if (frame->body.body.hello.version != KILNI_RPC_VERSION) {
        return kiln_fail(err, FAILED_PRECONDITION, "the client speaks version %u, the server %d",
                         frame->body.body.hello.version, KILNI_RPC_VERSION);
    }
    const kiln_device_info *info = kiln_device_info_of(session->options.device);
    kilni_rpc_frame reply = {0};
    reply.body.request = frame->body.request;
    reply.body.which_body = kiln_v1_Frame_welcome_tag;
    kiln_v1_Welcome *welcome = &reply.body.body.welcome;
    welcome->version = KILNI_RPC_VERSION;
    welcome->instance = session->options.instance;
    welcome->max_data_bytes = session->options.limits.max_data_bytes;
    welcome->max_buffers = session->options.limits.max_buffers;
    welcome->max_bytes = session->options.limits.max_bytes;
    welcome->device_type = (uint32_t)info->type;
    welcome->memory_bytes = info->memory_bytes;
    snprintf(welcome->device_name, sizeof(welcome->device_name), "%s", info->name);
    snprintf(welcome->driver, sizeof(welcome->driver), "%s", info->driver);
    snprintf(welcome->server, sizeof(welcome->server), "kiln %s", kiln_version());
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        uint32_t usage = kiln_device_dtype_usage(session->options.device, (kiln_dtype)dtype);
        if ((usage & KILN_USAGE_STORAGE) != 0) {
            welcome->storage_dtypes |= UINT64_C(1) << dtype;
        }
    }
    session->greeted = true;
    return send_frame(session, &reply, err);
}

/// Waits for one element of the tensor, which tells whether its work failed.
static kiln_status probe(kiln_tensor *tensor, kiln_error *err)
{
    static const int64_t ones[KILN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const int64_t zeros[KILN_MAX_RANK] = {0};
    size_t rank = kiln_tensor_rank(tensor);
    uint64_t element[2];
    kiln_tensor *first = NULL;
    if (kiln_tensor_bytes(tensor) == 0) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_slice(tensor, zeros, rank, ones, rank, NULL, 0, &first, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_read(first, element, kiln_tensor_bytes(first), err);
    }
    kiln_release(first);
    return status;
}

/// Waits for the session's own results. The device's own record of failures is not touched: it
/// tells of other sessions' too.
static void await_results(kilni_rpc_session *session, kiln_error *cause)
{
    (void)!kiln_flush(session->options.device, cause);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (entry *each = session->buckets[i]; each != NULL; each = each->next) {
            kiln_error own = KILN_ERROR_INIT;
            if (each->unfenced && probe(each->tensor, &own) != KILN_STATUS_OK && cause->code == 0) {
                *cause = own;
            }
            each->unfenced = false;
        }
    }
}

static kiln_status handle_fence(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err)
{
    kiln_error cause = session->failed;
    session->failed.code = 0;
    if (cause.code == 0) {
        await_results(session, &cause);
    }
    return answer(session, frame->body.request, &cause, NULL, 0, err);
}

/// A failure of work is kept for the next answer; only one of the connection or of the protocol
/// ends the session.
static void keep(kilni_rpc_session *session, kiln_status status, const kiln_error *cause)
{
    if (status != KILN_STATUS_OK && session->failed.code == 0) {
        session->failed = *cause;
    }
}

static kiln_status handle(kilni_rpc_session *session, const kilni_rpc_frame *frame, kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    pb_size_t kind = frame->body.which_body;
    if (!session->greeted && kind != kiln_v1_Frame_hello_tag) {
        return kiln_fail(err, FAILED_PRECONDITION, "a session begins with Hello");
    }
    switch (kind) {
    case kiln_v1_Frame_hello_tag:
        return handle_hello(session, frame, err);
    case kiln_v1_Frame_write_tag:
        keep(session, handle_write(session, frame, &cause), &cause);
        return KILN_STATUS_OK;
    case kiln_v1_Frame_run_tag:
        keep(session, handle_run(session, frame, &cause), &cause);
        return KILN_STATUS_OK;
    case kiln_v1_Frame_free_tag:
        for (pb_size_t i = 0; i < frame->body.body.free.buffers_count; i++) {
            remove_entry(session, frame->body.body.free.buffers[i]);
        }
        return KILN_STATUS_OK;
    case kiln_v1_Frame_read_tag:
        return handle_read(session, frame, err);
    case kiln_v1_Frame_fence_tag:
        return handle_fence(session, frame, err);
    default:
        return kiln_fail(err, INVALID_ARGUMENT, "a frame of a kind that a client does not send");
    }
}

void kilni_rpc_session_serve(const kiln_env *env, const kilni_rpc_session_options *options,
                             kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_frame *frame = kiln_alloc(env, sizeof(*frame));
    kilni_rpc_session *session = kiln_alloc(env, sizeof(*session));
    kiln_status status = KILN_STATUS_OK;
    bool end = false;
    if (session == NULL || frame == NULL) {
        status = kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for a session");
    } else {
        session->env = env;
        session->options = *options;
        session->stream = stream;
    }
    while (status == KILN_STATUS_OK && !end) {
        kiln_blob message = {0};
        status = kilni_rpc_receive(stream, &message, &end, &err);
        if (status == KILN_STATUS_OK && !end) {
            status = kilni_rpc_frame_decode(message.data, message.length, frame, &err);
        }
        if (status == KILN_STATUS_OK && !end) {
            status = handle(session, frame, &err);
        }
        kiln_free(env, message.data);
    }
    for (size_t i = 0; session != NULL && i < BUCKETS; i++) {
        while (session->buckets[i] != NULL) {
            remove_entry(session, session->buckets[i]->id);
        }
    }
    if (session != NULL) {
        // What this thread has recorded and nobody read lets go of its tensors.
        kiln_error ignored = KILN_ERROR_INIT;
        (void)!kiln_flush(options->device, &ignored);
    }
    kiln_free(env, session);
    kiln_free(env, frame);
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
}
