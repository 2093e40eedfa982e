// SPDX-License-Identifier: MIT OR Apache-2.0
// The client: a backend whose device is a server's. Operations are gathered into graphs and sent
// without waiting; only read, sync and large uploads wait. Takes no programs: the server fuses. A
// buffer here is a number; the server has the memory. How the session is kept is rpc_dial.c's.

#include "rpc_client.h"

#include <stdio.h>
#include <string.h>

enum { TRANSFER_EXPIRY_MS = 120000, TRANSFER_WAIT_MS = 30000 };

/// A buffer of an earlier session holds nothing any more, but a constant comes again.
static kiln_status check_buffer(const kilni_rpc_client *self, const kiln_buffer *buffer,
                                kiln_error *err)
{
    if (buffer == NULL || buffer->epoch == 0 || buffer->epoch == self->epoch ||
        kilni_rpc_is_owed(self, buffer)) {
        return KILN_STATUS_OK;
    }
    return kiln_error_set(err, (kiln_status)self->lost.code, KILN_FILE_NAME, __LINE__, "%s",
                          self->lost.message);
}

/// Sends a frame that wants an answer, and waits for it.
static kiln_status ask(kilni_rpc_client *self, kilni_rpc_frame *frame, kiln_error *err)
{
    kiln_pending *pending = NULL;
    kiln_status status = kilni_rpc_pending_begin(self, frame, NULL, 0, &pending, err);
    return status == KILN_STATUS_OK ? kilni_rpc_pending_settle(self, pending, err) : status;
}

// ---- operations ----

static uint64_t number_of(const kiln_view *view)
{
    return view->buffer != NULL ? view->buffer->id : 0;
}

/// The outputs are this session's from now on; what this batch makes, the server does not know yet,
/// and a constant that is written to is none any more.
static void own_outputs(kilni_rpc_client *self, const kiln_op_record *record,
                        const kiln_view *outputs)
{
    for (size_t i = 0; i < record->n_outputs; i++) {
        kiln_buffer *buffer = outputs[i].buffer;
        if (buffer != NULL) {
            buffer->written = true;
        }
        if (buffer != NULL && buffer->epoch != self->epoch) {
            buffer->epoch = self->epoch;
            buffer->born = kilni_rpc_batch_serial(self->batch);
        }
    }
}

static kiln_status execute(kilni_rpc_client *self, const kiln_op_record *record,
                           const kiln_view *inputs, const kiln_view *outputs, kiln_error *err)
{
    uint64_t in[KILN_MAX_INPUTS];
    uint64_t out[KILN_MAX_OUTPUTS];
    kiln_status status = kilni_rpc_client_open(self, err);
    for (size_t i = 0; i < record->n_inputs && status == KILN_STATUS_OK; i++) {
        status = check_buffer(self, inputs[i].buffer, err);
        if (status == KILN_STATUS_OK && kilni_rpc_is_owed(self, inputs[i].buffer)) {
            status = kilni_rpc_offer_constant(self, inputs[i].buffer, err);
        }
        in[i] = number_of(&inputs[i]);
    }
    for (size_t i = 0; i < record->n_outputs; i++) {
        out[i] = number_of(&outputs[i]);
    }
    if (status == KILN_STATUS_OK && !kilni_rpc_batch_takes(self->batch, record, in)) {
        status = kilni_rpc_gather_send(self, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kilni_rpc_batch_add(self->batch, record, in, out, err);
    if (status == KILN_STATUS_OK) {
        own_outputs(self, record, outputs);
        self->stats.ops_executed++;
    }
    return status;
}

static kiln_status client_execute(kiln_backend *backend, const kiln_op_record *record,
                                  const kiln_view *inputs, const kiln_view *outputs,
                                  kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = execute(self, record, inputs, outputs, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

// ---- memory ----

static kiln_status client_alloc(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                                kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
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

/// Nothing is sent before work uses it. What is made as it is read is sent at once, by an upload.
static kiln_status client_alloc_from(kiln_backend *backend, const kiln_host_origin *origin,
                                     size_t bytes, kiln_buffer **out_buffer, kiln_error *err)
{
    if (origin->read != NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "a constant that is made when it is read");
    }
    kiln_status status = client_alloc(backend, bytes, out_buffer, err);
    if (status == KILN_STATUS_OK) {
        (*out_buffer)->origin = *origin;
    }
    return status;
}

/// What is gathered uses it, so the server has to have it before its origin goes.
static void settle_freed(kilni_rpc_client *self, const kiln_buffer *buffer)
{
    kiln_error ignored = KILN_ERROR_INIT;
    if (buffer->listed) {
        (void)!kilni_rpc_settle_constants(self, &ignored);
    }
    if (buffer->listed) {
        (void)kilni_rpc_client_lose(self, KILN_STATUS_RESOURCE_EXHAUSTED,
                                    "session lost: no memory for a constant", NULL);
    }
}

static void client_free(kiln_backend *backend, kiln_buffer *buffer)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    if (buffer == NULL) {
        return;
    }
    pthread_mutex_lock(&self->lock);
    settle_freed(self, buffer);
    if (buffer->origin.memory != NULL) {
        buffer->origin.release(buffer->origin.user);
    }
    self->stats.buffers_live--;
    self->stats.bytes_used -= buffer->bytes;
    kilni_rpc_gather_free(self, buffer);
    pthread_mutex_unlock(&self->lock);
}

static kiln_status upload(kilni_rpc_client *self, kiln_buffer *buffer, size_t offset,
                          const void *source, size_t bytes, kiln_error *err)
{
    kiln_status status = kilni_rpc_client_open(self, err);
    if (status == KILN_STATUS_OK && (offset != 0 || bytes != buffer->bytes)) {
        status = check_buffer(self, buffer, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_gather_send(self, err);
    }
    if (status == KILN_STATUS_OK) {
        buffer->epoch = self->epoch;
        buffer->born = 0;
        buffer->written = true;
        status = kilni_rpc_upload(self, buffer, offset, source, bytes, err);
    }
    return status;
}

/// For a frame that uses the buffer (NULL: none): what is gathered has been sent, and the server
/// has the constant.
static kiln_status make_ready(kilni_rpc_client *self, kiln_buffer *buffer, kiln_error *err)
{
    kiln_status status = check_buffer(self, buffer, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_client_open(self, err);
    }
    if (status == KILN_STATUS_OK && kilni_rpc_is_owed(self, buffer)) {
        status = kilni_rpc_offer_constant(self, buffer, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_gather_send(self, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_settle_constants(self, err);
    }
    return status;
}

/// What is gathered goes first, so that the read has its place behind it. Without a buffer: a
/// fence.
static kiln_status begin_read(kilni_rpc_client *self, kiln_buffer *buffer, size_t offset,
                              void *out_data, size_t bytes, kiln_pending **out_pending,
                              kiln_error *err)
{
    kilni_rpc_frame frame = {0};
    kiln_status status = make_ready(self, buffer, err);
    frame.body.which_body = buffer != NULL ? kiln_v1_Frame_read_tag : kiln_v1_Frame_fence_tag;
    if (buffer != NULL) {
        frame.body.body.read =
            (kiln_v1_Read){.buffer = buffer->id, .offset = offset, .length = bytes};
    }
    bool shared = status == KILN_STATUS_OK && buffer != NULL &&
                  kilni_rpc_shared_target(self, out_data, bytes, &frame.body.body.read);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_pending_begin(self, &frame, shared ? NULL : out_data, shared ? 0 : bytes,
                                         out_pending, err);
    }
    if (status == KILN_STATUS_OK) {
        (*out_pending)->shared = shared;
    }
    return status;
}

static kiln_status client_upload(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                 const void *source, size_t bytes, kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = upload(self, buffer, offset, source, bytes, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static kiln_status client_read_begin(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                     void *out_data, size_t bytes, kiln_pending **out_pending,
                                     kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = begin_read(self, buffer, offset, out_data, bytes, out_pending, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static kiln_status client_read(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                               void *out_data, size_t bytes, kiln_error *err)
{
    kiln_pending *pending = NULL;
    kiln_status status = client_read_begin(backend, buffer, offset, out_data, bytes, &pending, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_rpc_pending_wait(pending, /*cancel=*/false);
    return kilni_rpc_pending_end(backend, pending, err);
}

// ---- between servers ----

/// Zeros when the server does not say: an older one.
static kiln_status client_identify(kiln_backend *backend, kiln_transfer *out_transfer,
                                   kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = kilni_rpc_client_open(self, err);
    if (status == KILN_STATUS_OK && self->welcome.fetch_key.size == sizeof(out_transfer->fetcher)) {
        memcpy(out_transfer->fetcher, self->welcome.fetch_key.bytes, sizeof(out_transfer->fetcher));
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
    uint8_t any = 0;
    for (size_t i = 0; i < length; i++) {
        any |= bytes[i];
    }
    return any == 0;
}

static kiln_status expose_locked(kilni_rpc_client *self, kiln_buffer *buffer,
                                 kiln_transfer *inout_transfer, kiln_error *err)
{
    kilni_rpc_frame frame = {0};
    kiln_v1_Expose *expose = &frame.body.body.expose;
    kiln_status status = make_ready(self, buffer, err);
    if (status == KILN_STATUS_OK && !self->transfers) {
        status = kiln_fail(err, UNIMPLEMENTED, "the server does not expose tensors");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_transfer_id(&inout_transfer->id, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_random(inout_transfer->secret, sizeof(inout_transfer->secret), err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    snprintf(inout_transfer->address, sizeof(inout_transfer->address), "%s",
             self->welcome.address[0] != '\0' ? self->welcome.address : self->address.text);
    inout_transfer->bytes = buffer->bytes;
    *expose = (kiln_v1_Expose){.transfer = inout_transfer->id,
                               .buffer = buffer->id,
                               .count = 1,
                               .expiry_ms = TRANSFER_EXPIRY_MS};
    expose->secret.size = KILNI_RPC_TOKEN;
    memcpy(expose->secret.bytes, inout_transfer->secret, KILNI_RPC_TOKEN);
    if (!is_zero(inout_transfer->fetcher, sizeof(inout_transfer->fetcher))) {
        expose->fetcher.size = sizeof(inout_transfer->fetcher);
        memcpy(expose->fetcher.bytes, inout_transfer->fetcher, sizeof(inout_transfer->fetcher));
    }
    frame.body.which_body = kiln_v1_Frame_expose_tag;
    return kilni_rpc_client_send(self, &frame, err);
}

static kiln_status client_expose(kiln_backend *backend, kiln_buffer *buffer,
                                 kiln_transfer *inout_transfer, kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = expose_locked(self, buffer, inout_transfer, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static void client_withdraw(kiln_backend *backend, const kiln_transfer *transfer)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    kilni_rpc_frame frame = {0};
    kiln_error ignored = KILN_ERROR_INIT;
    pthread_mutex_lock(&self->lock);
    if (self->is_open) {
        frame.body.which_body = kiln_v1_Frame_withdraw_tag;
        frame.body.body.withdraw.transfer = transfer->id;
        (void)!kilni_rpc_client_send(self, &frame, &ignored);
    }
    pthread_mutex_unlock(&self->lock);
}

static kiln_status obtain_locked(kilni_rpc_client *self, kiln_buffer *buffer,
                                 const kiln_transfer *transfer, kiln_error *err)
{
    kilni_rpc_frame frame = {0};
    kiln_v1_Obtain *obtain = &frame.body.body.obtain;
    kiln_status status = kilni_rpc_client_open(self, err);
    if (status == KILN_STATUS_OK && !self->transfers) {
        status = kiln_fail(err, PERMISSION_DENIED, "the server does not fetch tensors");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_gather_send(self, err);
    }
    if (status == KILN_STATUS_OK) {
        frame.body.which_body = kiln_v1_Frame_obtain_tag;
        *obtain = (kiln_v1_Obtain){.transfer = transfer->id,
                                   .buffer = buffer->id,
                                   .total = transfer->bytes,
                                   .wait_ms = TRANSFER_WAIT_MS};
        snprintf(obtain->address, sizeof(obtain->address), "%s", transfer->address);
        obtain->secret.size = KILNI_RPC_TOKEN;
        memcpy(obtain->secret.bytes, transfer->secret, KILNI_RPC_TOKEN);
        buffer->epoch = self->epoch;
        status = ask(self, &frame, err);
    }
    return status;
}

static kiln_status client_obtain(kiln_backend *backend, kiln_buffer *buffer,
                                 const kiln_transfer *transfer, kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = obtain_locked(self, buffer, transfer, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

// ---- the rest of the interface ----

static kiln_status client_flush(kiln_backend *backend, kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = kilni_rpc_gather_send(self, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static kiln_status client_sync(kiln_backend *backend, kiln_error *err)
{
    return client_read(backend, /*buffer=*/NULL, 0, NULL, 0, err);
}

static const kiln_device_info *client_info(kiln_backend *backend)
{
    return &kilni_rpc_client_of(backend)->info;
}

static uint32_t client_dtype_usage(kiln_backend *backend, kiln_dtype dtype)
{
    const kiln_v1_Welcome *welcome = &kilni_rpc_client_of(backend)->welcome;
    if (kiln_dtype_name(dtype) == NULL) {
        return 0; // no such bit
    }
    uint32_t usage = (welcome->storage_dtypes >> dtype & 1) != 0 ? KILN_USAGE_STORAGE : 0;
    usage |= (welcome->arithmetic_dtypes >> dtype & 1) != 0 ? KILN_USAGE_ARITHMETIC : 0;
    usage |= (welcome->accelerated_dtypes >> dtype & 1) != 0 ? KILN_USAGE_ACCELERATED : 0;
    return usage;
}

static void client_stats(kiln_backend *backend, kiln_backend_stats *out_stats)
{
    *out_stats = kilni_rpc_client_of(backend)->stats;
}

static void client_close(kiln_backend *backend)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    kiln_error ignored = KILN_ERROR_INIT;
    if (self == NULL) {
        return;
    }
    if (self->is_open && !self->link.cut) {
        (void)!kilni_rpc_gather_send(self, &ignored);
    }
    kilni_rpc_client_end(self);
}

static const kiln_backend_device_ops device_ops = {
    .struct_size = sizeof(kiln_backend_device_ops),
    .close = client_close,
    .info = client_info,
    .dtype_usage = client_dtype_usage,
    .stats = client_stats,
    .execute = client_execute,
    .execute_joined = kiln_backend_joins_none,
    .runs = kiln_backend_runs_all,
    .doubt_speeds = kiln_backend_no_doubt,
    .flush = client_flush,
    .sync = client_sync,
};

static const kiln_backend_memory_ops memory_ops = {
    .struct_size = sizeof(kiln_backend_memory_ops),
    .alloc = client_alloc,
    .alloc_persistent = client_alloc,
    .free = client_free,
    .trim = kiln_backend_no_trim, // the server's pool is the server's
    .set_budget = kiln_backend_no_budget,
    .reset_peaks = kiln_backend_no_reset_peaks,
    .host_alloc = kilni_rpc_host_alloc,
    .host_free = kilni_rpc_host_free,
    .wrap_host = kiln_backend_no_wrap,
    .alloc_from = client_alloc_from,
    .reside = kiln_backend_stays,
    .resides = kiln_backend_has_all,
    .map = kiln_backend_no_map,
    .unmap = kiln_backend_no_unmap,
};

static const kiln_backend_transfer_ops transfer_ops = {
    .struct_size = sizeof(kiln_backend_transfer_ops),
    .upload = client_upload,
    .read = client_read,
    .copy = kiln_backend_copy_by_host,
    .read_begin = client_read_begin,
    .read_poll = kilni_rpc_pending_poll,
    .read_wait = kilni_rpc_pending_wait,
    .read_end = kilni_rpc_pending_end,
};

static const kiln_backend_peer_ops peer_ops = {
    .struct_size = sizeof(kiln_backend_peer_ops),
    .identify = client_identify,
    .expose = client_expose,
    .withdraw = client_withdraw,
    .obtain = client_obtain,
};

const kiln_backend kilni_rpc_client_backend = {
    .struct_size = sizeof(kiln_backend),
    .scheme = "grpc",
    .device = &device_ops,
    .memory = &memory_ops,
    .transfer = &transfer_ops,
    .peer = &peer_ops,
    .trace = &kiln_backend_no_trace,
};
