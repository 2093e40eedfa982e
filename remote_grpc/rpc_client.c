// SPDX-License-Identifier: MIT OR Apache-2.0
// The client: a backend whose device is a server's. Operations are gathered into graphs and sent
// without waiting; only read and sync wait. Takes no programs: the server fuses. A buffer here is a
// number; the server has the memory.

#include "remote_internal.h"

#include <stdio.h>
#include <string.h>

enum { CONNECT_MS = 5000 };

struct kiln_buffer {
    uint64_t id;
    size_t bytes;
    bool sent; ///< the server knows it
};

typedef struct client {
    kiln_backend base;
    const kiln_env *env;
    kilni_rpc_stream *stream;
    uint64_t next_buffer;
    uint64_t next_request;
    kilni_rpc_frame batch; ///< bindings and frees of the operations gathered so far
    kiln_ir_graph *graph; ///< the operations; NULL when there are none
    kiln_tensor_desc inputs[KILNI_RPC_BINDINGS]; ///< of the graph, as in the batch's bindings
    uint64_t defined[KILNI_RPC_BINDINGS]; ///< values that the graph computes
    size_t n_defined;
    uint64_t batch_bytes; ///< of the results in the batch: the server counts them together
    kiln_error lost; ///< why a batch was not sent: what the server has since is of another time
    kiln_device_info info;
    kiln_v1_Welcome welcome;
    size_t chunk; ///< bytes of data that the server takes in one frame
    char name[160];
    kiln_backend_stats stats;
} client;

static client *of(kiln_backend *backend)
{
    return (client *)backend;
}

// ---- frames
// --------------------------------------------------------------------------------------

static kiln_status send_frame(client *self, kilni_rpc_frame *frame, kiln_error *err)
{
    kiln_blob message = {0};
    if (self->lost.code != 0) {
        return kiln_error_set(err, (kiln_status)self->lost.code, KILN_FILE_NAME, __LINE__, "%s",
                              self->lost.message);
    }
    kiln_status status = kilni_rpc_frame_encode(self->env, frame, &message, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send(self->stream, message.data, message.length, err);
    }
    kiln_free(self->env, message.data);
    return status;
}

static kiln_status receive_frame(client *self, kiln_blob *out_message, kilni_rpc_frame *out_frame,
                                 kiln_error *err)
{
    bool end = false;
    kiln_status status = kilni_rpc_receive(self->stream, out_message, &end, err);
    if (status == KILN_STATUS_OK && end) {
        status = kiln_fail(err, UNAVAILABLE, "the server ended the session");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_frame_decode(out_message->data, out_message->length, out_frame, err);
    }
    return status;
}

/// Takes the frames that answer `request`; their data goes to `out_data`, `length` bytes in all.
static kiln_status await(client *self, uint64_t request, char *out_data, size_t length,
                         kiln_error *err)
{
    kilni_rpc_frame *frame = kiln_alloc(self->env, sizeof(*frame));
    kiln_status status = frame != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a frame");
    size_t at = 0;
    bool answered = false;
    while (status == KILN_STATUS_OK && !answered) {
        kiln_blob message = {0};
        status = receive_frame(self, &message, frame, err);
        if (status == KILN_STATUS_OK && frame->body.request != request) {
            status = kiln_fail(err, DATA_LOSS, "the server answered something else");
        }
        if (status == KILN_STATUS_OK && frame->data_length > length - at) {
            status = kiln_fail(err, DATA_LOSS, "the server sent more than was asked for");
        }
        if (status == KILN_STATUS_OK && frame->data_length > 0) {
            memcpy(out_data + at, frame->data, frame->data_length);
            at += frame->data_length;
        }
        if (status == KILN_STATUS_OK && frame->body.which_body == kiln_v1_Frame_answer_tag) {
            const kiln_v1_Answer *answer = &frame->body.body.answer;
            answered = true;
            if (answer->code != 0) {
                status = kiln_error_set(err, (kiln_status)answer->code, KILN_FILE_NAME, __LINE__,
                                        "remote: %s", answer->message);
            } else if (at != length) {
                status = kiln_fail(err, DATA_LOSS, "the server sent %zu bytes of %zu", at, length);
            }
        }
        kiln_free(self->env, message.data);
    }
    kiln_free(self->env, frame);
    return status;
}

// ---- gathering operations
// ------------------------------------------------------------------------

static kiln_status send_batch(client *self, kiln_error *out_error)
{
    kiln_error own = KILN_ERROR_INIT;
    kiln_error *err = out_error != NULL ? out_error : &own;
    kiln_v1_Run *run = &self->batch.body.body.run;
    kiln_blob graph = {0};
    kiln_status status = KILN_STATUS_OK;
    if (self->graph == NULL && run->frees_count == 0) {
        return KILN_STATUS_OK;
    }
    if (self->graph != NULL) {
        status = kiln_ir_graph_set_io(self->graph, self->inputs, run->inputs_count, self->defined,
                                      self->n_defined, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_ir_encode(self->env, self->graph, &graph, err);
        }
    }
    if (status == KILN_STATUS_OK) {
        self->batch.body.which_body = kiln_v1_Frame_run_tag;
        self->batch.graph = graph.data;
        self->batch.graph_length = graph.length;
        status = send_frame(self, &self->batch, err);
    }
    kiln_free(self->env, graph.data);
    kiln_ir_graph_destroy(self->graph);
    self->graph = NULL;
    self->n_defined = 0;
    self->batch_bytes = 0;
    memset(run, 0, sizeof(*run));
    if (status != KILN_STATUS_OK && self->lost.code == 0) {
        self->lost = *err;
    }
    return status;
}

static bool is_defined(const client *self, uint64_t id)
{
    for (size_t i = 0; i < self->n_defined; i++) {
        if (self->defined[i] == id) {
            return true;
        }
    }
    return false;
}

static const kiln_v1_Binding *find_bound(const client *self, uint64_t id)
{
    const kiln_v1_Run *run = &self->batch.body.body.run;
    for (pb_size_t i = 0; i < run->inputs_count; i++) {
        if (run->inputs[i].value == id) {
            return &run->inputs[i];
        }
    }
    return NULL;
}

static uint64_t buffer_of(const kiln_view *view)
{
    return view->buffer != NULL ? view->buffer->id : 0;
}

/// Whether the operation has to begin a new batch: no room, or it defines a value that the batch
/// has already, or its input is another buffer there (a graph that is run again).
static bool begins_batch(const client *self, const kiln_op_record *record, const kiln_view *inputs)
{
    const kiln_v1_Run *run = &self->batch.body.body.run;
    if (self->graph == NULL) {
        return false;
    }
    bool full = run->inputs_count + record->n_inputs > KILNI_RPC_BINDINGS ||
                run->outputs_count + record->n_outputs > KILNI_RPC_BINDINGS ||
                self->n_defined + record->n_outputs > KILNI_RPC_BINDINGS ||
                kiln_ir_graph_op_count(self->graph) >= KILNI_RPC_BATCH ||
                self->batch_bytes > self->welcome.max_bytes / 8;
    for (size_t i = 0; i < record->n_outputs && !full; i++) {
        uint64_t id = record->outputs[i].id;
        full = is_defined(self, id) || find_bound(self, id) != NULL;
    }
    for (size_t i = 0; i < record->n_inputs && !full; i++) {
        const kiln_v1_Binding *bound = find_bound(self, record->inputs[i].id);
        full = bound != NULL && bound->buffer != buffer_of(&inputs[i]);
    }
    return full;
}

static void bind(client *self, const kiln_op_record *record, const kiln_view *inputs,
                 const kiln_view *outputs)
{
    kiln_v1_Run *run = &self->batch.body.body.run;
    for (size_t i = 0; i < record->n_inputs; i++) {
        uint64_t id = record->inputs[i].id;
        if (!is_defined(self, id) && find_bound(self, id) == NULL) {
            self->inputs[run->inputs_count] = record->inputs[i];
            run->inputs[run->inputs_count++] =
                (kiln_v1_Binding){.value = id, .buffer = buffer_of(&inputs[i])};
        }
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        self->defined[self->n_defined++] = record->outputs[i].id;
        self->batch_bytes += (uint64_t)kiln_desc_bytes(&record->outputs[i]);
        if (outputs[i].buffer != NULL) {
            outputs[i].buffer->sent = true;
            run->outputs[run->outputs_count++] =
                (kiln_v1_Binding){.value = record->outputs[i].id, .buffer = outputs[i].buffer->id};
        }
    }
}

static kiln_status client_execute(kiln_backend *backend, const kiln_op_record *record,
                                  const kiln_view *inputs, const kiln_view *outputs,
                                  kiln_error *err)
{
    client *self = of(backend);
    kiln_status status = KILN_STATUS_OK;
    if (begins_batch(self, record, inputs)) {
        status = send_batch(self, err);
    }
    if (status == KILN_STATUS_OK && self->graph == NULL) {
        status = kiln_ir_graph_create(self->env, &self->graph, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_graph_append(self->graph, record, err);
    }
    if (status == KILN_STATUS_OK) {
        bind(self, record, inputs, outputs);
        self->stats.ops_executed++;
    }
    return status;
}

// ---- memory
// --------------------------------------------------------------------------------------

static kiln_status client_alloc(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                                kiln_error *err)
{
    client *self = of(backend);
    kiln_buffer *buffer = kiln_alloc(self->env, sizeof(*buffer));
    if (buffer == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a buffer's record");
    }
    buffer->id = ++self->next_buffer;
    buffer->bytes = bytes;
    self->stats.buffers_live++;
    self->stats.bytes_used += bytes;
    if (self->stats.bytes_used > self->stats.bytes_peak) {
        self->stats.bytes_peak = self->stats.bytes_used;
    }
    *out_buffer = buffer;
    return KILN_STATUS_OK;
}

static void client_free(kiln_backend *backend, kiln_buffer *buffer)
{
    client *self = of(backend);
    kiln_v1_Run *run = &self->batch.body.body.run;
    if (buffer == NULL) {
        return;
    }
    if (buffer->sent) {
        kiln_error ignored = KILN_ERROR_INIT;
        if (run->frees_count == KILNI_RPC_BINDINGS) {
            (void)!send_batch(self, &ignored); // a broken connection shows at the next read
        }
        run->frees[run->frees_count++] = buffer->id;
    }
    self->stats.buffers_live--;
    self->stats.bytes_used -= buffer->bytes;
    kiln_free(self->env, buffer);
}

static kiln_status client_upload(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                 const void *source, size_t bytes, kiln_error *err)
{
    client *self = of(backend);
    kiln_status status = send_batch(self, err);
    for (size_t at = 0; at < bytes && status == KILN_STATUS_OK; at += self->chunk) {
        size_t length = bytes - at < self->chunk ? bytes - at : self->chunk;
        kilni_rpc_frame frame = {.data = (const char *)source + at, .data_length = length};
        frame.body.which_body = kiln_v1_Frame_write_tag;
        frame.body.body.write =
            (kiln_v1_Write){.buffer = buffer->id, .offset = offset + at, .total = buffer->bytes};
        buffer->sent = true;
        status = send_frame(self, &frame, err);
    }
    return status;
}

static kiln_status client_read(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                               void *out_data, size_t bytes, kiln_error *err)
{
    client *self = of(backend);
    kilni_rpc_frame frame = {0};
    frame.body.request = ++self->next_request;
    frame.body.which_body = kiln_v1_Frame_read_tag;
    frame.body.body.read = (kiln_v1_Read){.buffer = buffer->id, .offset = offset, .length = bytes};
    kiln_status status = send_batch(self, err);
    if (status == KILN_STATUS_OK) {
        status = send_frame(self, &frame, err);
    }
    return status == KILN_STATUS_OK ? await(self, frame.body.request, out_data, bytes, err)
                                    : status;
}

static kiln_status client_copy(kiln_backend *backend, kiln_buffer *source, size_t source_offset,
                               kiln_buffer *target, size_t target_offset, size_t bytes,
                               kiln_error *err)
{
    client *self = of(backend);
    void *staging = kiln_alloc(self->env, bytes > 0 ? bytes : 1);
    if (staging == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
    }
    kiln_status status = client_read(backend, source, source_offset, staging, bytes, err);
    if (status == KILN_STATUS_OK) {
        status = client_upload(backend, target, target_offset, staging, bytes, err);
    }
    kiln_free(self->env, staging);
    return status;
}

// ---- the rest of the interface
// ---------------------------------------------------------------------

static kiln_status client_flush(kiln_backend *backend, kiln_error *err)
{
    return send_batch(of(backend), err);
}

static kiln_status client_sync(kiln_backend *backend, kiln_error *err)
{
    client *self = of(backend);
    kilni_rpc_frame frame = {0};
    frame.body.request = ++self->next_request;
    frame.body.which_body = kiln_v1_Frame_fence_tag;
    kiln_status status = send_batch(self, err);
    if (status == KILN_STATUS_OK) {
        status = send_frame(self, &frame, err);
    }
    return status == KILN_STATUS_OK ? await(self, frame.body.request, NULL, 0, err) : status;
}

static const kiln_device_info *client_info(kiln_backend *backend)
{
    return &of(backend)->info;
}

static uint32_t client_dtype_usage(kiln_backend *backend, kiln_dtype dtype)
{
    bool stored = (of(backend)->welcome.storage_dtypes >> dtype & 1) != 0;
    return stored ? KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC : 0;
}

static void client_stats(kiln_backend *backend, kiln_backend_stats *out_stats)
{
    *out_stats = of(backend)->stats;
}

static void client_trim(kiln_backend *backend)
{
    (void)backend; // the server's pool is the server's
}

static void client_close(kiln_backend *backend)
{
    client *self = of(backend);
    kiln_error ignored = KILN_ERROR_INIT;
    if (self->stream != NULL) {
        (void)!send_batch(self, &ignored);
    }
    kiln_ir_graph_destroy(self->graph);
    kilni_rpc_stream_close(self->stream, NULL);
    kiln_free(self->env, self);
}

static const kiln_backend_ops client_ops = {
    .struct_size = sizeof(kiln_backend_ops),
    .scheme = "grpc",
    .close = client_close,
    .info = client_info,
    .dtype_usage = client_dtype_usage,
    .stats = client_stats,
    .alloc = client_alloc,
    .free = client_free,
    .trim = client_trim,
    .upload = client_upload,
    .read = client_read,
    .copy = client_copy,
    .execute = client_execute,
    .flush = client_flush,
    .sync = client_sync,
};

// ---- opening
// -------------------------------------------------------------------------------------

static kiln_status greet(client *self, kiln_error *err)
{
    kilni_rpc_frame *frame = kiln_alloc(self->env, sizeof(*frame));
    kiln_blob message = {0};
    if (frame == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a frame");
    }
    frame->body.request = ++self->next_request;
    frame->body.which_body = kiln_v1_Frame_hello_tag;
    frame->body.body.hello.version = KILNI_RPC_VERSION;
    snprintf(frame->body.body.hello.client, sizeof(frame->body.body.hello.client), "kiln %s",
             kiln_version());
    kilni_rpc_set_deadline(self->stream, CONNECT_MS);
    kiln_status status = send_frame(self, frame, err);
    if (status == KILN_STATUS_OK) {
        status = receive_frame(self, &message, frame, err);
    }
    kilni_rpc_set_deadline(self->stream, -1);
    if (status == KILN_STATUS_OK && (frame->body.which_body != kiln_v1_Frame_welcome_tag ||
                                     frame->body.body.welcome.version != KILNI_RPC_VERSION)) {
        status = kiln_fail(err, FAILED_PRECONDITION, "the server speaks another protocol");
    }
    if (status == KILN_STATUS_OK) {
        self->welcome = frame->body.body.welcome;
        uint64_t chunk = self->welcome.max_data_bytes;
        self->chunk = chunk < KILNI_RPC_CHUNK ? (size_t)chunk : KILNI_RPC_CHUNK;
    }
    if (status == KILN_STATUS_OK && self->chunk == 0) {
        status = kiln_fail(err, FAILED_PRECONDITION, "the server takes no data");
    }
    kiln_free(self->env, message.data);
    kiln_free(self->env, frame);
    return status;
}

static void describe_device(client *self, const char *target)
{
    snprintf(self->name, sizeof(self->name), "%s at %.20s", self->welcome.device_name, target);
    self->info = (kiln_device_info){
        .name = self->name,
        .vendor = "remote",
        .platform = self->welcome.server,
        .driver = self->welcome.driver,
        .extensions = "",
        .type = KILN_DEVICE_REMOTE,
        .features = KILN_FEATURE_OWN_VIEWS,
        .compute_units = 1,
        .memory_align = 128,
        .memory_bytes = self->welcome.max_bytes,
        .max_alloc_bytes = self->welcome.max_bytes,
    };
    self->info.fingerprint = kiln_hash_bytes(self->name, strlen(self->name));
}

static kiln_status open_client(const kiln_env *env, const char *address, kiln_backend **out_backend,
                               kiln_error *err, void *user)
{
    const char *target = address;
    (void)user;
    if (strncmp(address, "grpc://", 7) == 0) {
        target = address + 7;
    } else if (strncmp(address, "unix:", 5) != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%s\" is no grpc://HOST:PORT", address);
    }
    client *self = kiln_alloc(env, sizeof(*self));
    if (self == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a remote device");
    }
    self->base.ops = &client_ops;
    self->env = env;
    kiln_status status = kilni_rpc_connect(env, target, CONNECT_MS, &self->stream, err);
    if (status == KILN_STATUS_OK) {
        status = greet(self, err);
    }
    if (status != KILN_STATUS_OK) {
        client_close(&self->base);
        return status;
    }
    describe_device(self, target);
    *out_backend = &self->base;
    return KILN_STATUS_OK;
}

const kiln_backend_provider *kiln_rpc_provider(void)
{
    static const kiln_backend_provider provider = {
        .struct_size = sizeof(provider), .scheme = "grpc", .open = open_client};
    return &provider;
}

const kiln_backend_provider *kiln_rpc_unix_provider(void)
{
    static const kiln_backend_provider provider = {
        .struct_size = sizeof(provider), .scheme = "unix", .open = open_client};
    return &provider;
}
