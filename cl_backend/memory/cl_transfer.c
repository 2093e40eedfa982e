// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes from the host to the device. Small ones go through staging memory, so an upload need not
// wait for the queue; large ones go through it in chunks where a discrete device profits from
// pinned memory, and straight where the device shares the host's memory or the memory is pinned
// already. Which bytes travel and when is the caller's; reads are cl_read.c's, copies cl_copy.c's.

#include <string.h>

#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_host.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_record.h"
#include "cl_state.h"
#include "cl_trace.h"
#include "cl_transfer.h"

enum {
    STAGE_SHARED = KILNI_CL_STAGE_SHARED,
    STAGE_PINNED = KILNI_CL_STAGE_PINNED,
    TRAVELS_FROM = 1 << 20, ///< bytes that begin to travel at once
};

// ---- staging memory ----

static kiln_status stage_make(kilni_cl_backend *backend, kilni_cl_stage *stage, kiln_error *err)
{
    kilni_cl_transfer *transfer = &backend->transfer;
    if (!transfer->pinned) {
        stage->host = kiln_alloc(backend->env, transfer->stage_bytes);
        return stage->host != NULL ? KILN_STATUS_OK
                                   : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for staging");
    }
    cl_int code = CL_SUCCESS;
    stage->mem = clCreateBuffer(backend->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                transfer->stage_bytes, NULL, &code);
    if (code == CL_SUCCESS) {
        stage->host =
            clEnqueueMapBuffer(backend->queue, stage->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                               transfer->stage_bytes, 0, NULL, NULL, &code);
    }
    if (code != CL_SUCCESS) {
        if (stage->mem != NULL) {
            clReleaseMemObject(stage->mem);
        }
        stage->mem = NULL;
        stage->host = NULL;
        return kilni_cl_fail(backend, err, code, "pinned staging of %zu bytes",
                             transfer->stage_bytes);
    }
    return KILN_STATUS_OK;
}

static kiln_status stage_wait(kilni_cl_backend *backend, kilni_cl_stage *stage, kiln_error *err)
{
    stage->used = 0;
    if (stage->busy == NULL) {
        return KILN_STATUS_OK;
    }
    cl_int code = kilni_cl_await(backend, stage->busy);
    clReleaseEvent(stage->busy);
    stage->busy = NULL;
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail_wait(backend, err, code, "waiting for a transfer");
}

static kilni_cl_stage *stage_current(kilni_cl_backend *backend)
{
    return &backend->transfer.stages[backend->transfer.current];
}

// Room for `bytes` (at most a stage), waiting for the oldest transfer when all stages are taken.
static kiln_status stage_reserve(kilni_cl_backend *backend, size_t bytes, unsigned char **out_host,
                                 kiln_error *err)
{
    kilni_cl_transfer *transfer = &backend->transfer;
    kiln_status status = KILN_STATUS_OK;
    if (transfer->stage_bytes == 0) {
        transfer->pinned = (backend->info.features & KILN_FEATURE_UNIFIED_MEMORY) == 0;
        transfer->stage_bytes = transfer->pinned ? STAGE_PINNED : STAGE_SHARED;
    }
    kilni_cl_stage *stage = stage_current(backend);
    if (stage->used + bytes > transfer->stage_bytes) {
        transfer->current = (transfer->current + 1) % KILNI_CL_STAGES;
        stage = stage_current(backend);
        KILN_TRY(out, status, stage_wait(backend, stage, err));
    }
    if (stage->host == NULL) {
        KILN_TRY(out, status, stage_make(backend, stage, err));
    }
    *out_host = stage->host + stage->used;
    stage->used += (bytes + 63) / 64 * 64;
out:
    return status;
}

static void stage_set_busy(kilni_cl_backend *backend, cl_event event)
{
    kilni_cl_stage *stage = stage_current(backend);
    if (stage->busy != NULL) {
        clReleaseEvent(stage->busy);
    }
    stage->busy = event;
}

void kilni_cl_transfer_close(kilni_cl_backend *backend)
{
    for (int i = 0; i < KILNI_CL_STAGES; i++) {
        kilni_cl_stage *stage = &backend->transfer.stages[i];
        if (stage->busy != NULL) {
            clReleaseEvent(stage->busy);
        }
        if (stage->mem != NULL) {
            clEnqueueUnmapMemObject(backend->queue, stage->mem, stage->host, 0, NULL, NULL);
            clFinish(backend->queue);
            clReleaseMemObject(stage->mem);
        } else {
            kiln_free(backend->env, stage->host);
        }
        *stage = (kilni_cl_stage){0};
    }
}

// ---- upload ----

static kiln_status upload_staged(kilni_cl_backend *backend, kilni_cl_buffer *buffer, size_t offset,
                                 const unsigned char *source, size_t bytes, kiln_error *err)
{
    unsigned char *host;
    kiln_status status = stage_reserve(backend, bytes, &host, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_copy_wide(host, source, bytes);
    cl_event event;
    cl_int code = clEnqueueWriteBuffer(backend->queue, buffer->mem, CL_FALSE, offset, bytes, host,
                                       0, NULL, &event);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "an upload of %zu bytes", bytes);
    }
    if (backend->trace.on && clRetainEvent(event) == CL_SUCCESS) {
        kilni_cl_trace_note(backend, "upload", event);
    }
    stage_set_busy(backend, event);
    if (bytes >= TRAVELS_FROM) { // it travels while the next chunk is copied
        clFlush(backend->queue);
    }
    return kilni_cl_queued(backend, err);
}

static kiln_status upload_direct(kilni_cl_backend *backend, kilni_cl_buffer *buffer, size_t offset,
                                 const void *source, size_t bytes, kiln_error *err)
{
    cl_event event;
    cl_int code = clEnqueueWriteBuffer(backend->queue, buffer->mem, CL_TRUE, offset, bytes, source,
                                       0, NULL, kilni_cl_trace_event(&backend->trace, &event));
    kilni_cl_trace_end(backend, "upload", event);
    backend->counters.host_waits++;
    return code == CL_SUCCESS
               ? KILN_STATUS_OK
               : kilni_cl_fail_wait(backend, err, code, "an upload of %zu bytes", bytes);
}

/// Where kernels work on the host's memory and nothing is queued, the host writes there itself: a
/// command would wake the device's workers, who would sleep again before the first launch.
static bool upload_at_once(const kilni_cl_backend *backend, const kilni_cl_buffer *buffer,
                           size_t offset, const void *source, size_t bytes)
{
    bool unified = (backend->info.features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
    if (buffer->host == NULL || !unified || backend->trace.on || !kilni_cl_is_idle(backend)) {
        return false;
    }
    kiln_copy_wide(buffer->host + offset, source, bytes);
    return true;
}

/// Bytes that wait behind a user event.
typedef struct held_copy {
    kilni_cl_backend *backend;
    unsigned char bytes[];
} held_copy;

static void CL_CALLBACK copy_written(cl_event event, cl_int code, void *user)
{
    (void)event, (void)code; // whoever waits for the queue hears of a failure
    kilni_cl_backend *backend = ((held_copy *)user)->backend;
    kiln_free(backend->env, user);
    atomic_fetch_sub(&backend->flight.callbacks, 1); // the backend may be gone from here on
}

/// Queues a copy of the bytes: all staging may be in use behind the event, and waiting for the
/// queue would be waiting for what the caller does next.
static kiln_status upload_copied(kilni_cl_backend *backend, const kilni_cl_buffer *buffer,
                                 size_t offset, const void *source, size_t bytes, kiln_error *err)
{
    held_copy *copy = kiln_alloc(backend->env, sizeof(*copy) + bytes);
    if (copy == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
    }
    copy->backend = backend;
    kiln_copy_wide(copy->bytes, source, bytes);
    cl_event event = NULL;
    cl_int code = clEnqueueWriteBuffer(backend->queue, buffer->mem, CL_FALSE, offset, bytes,
                                       copy->bytes, 0, NULL, &event);
    if (code != CL_SUCCESS) {
        kiln_free(backend->env, copy);
        return kilni_cl_fail(backend, err, code, "an upload of %zu bytes", bytes);
    }
    atomic_fetch_add(&backend->flight.callbacks, 1);
    code = clSetEventCallback(event, CL_COMPLETE, copy_written, copy);
    if (code != CL_SUCCESS) { // then it is waited for after all
        (void)clWaitForEvents(1, &event);
        copy_written(event, CL_COMPLETE, copy);
    }
    clReleaseEvent(event);
    return kilni_cl_queued(backend, err);
}

kiln_status kilni_cl_upload(kiln_backend *base, kiln_buffer *given, size_t offset,
                            const void *source, size_t bytes, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK || bytes == 0) {
        return status;
    }
    KILN_TRY(out, status, kilni_cl_check_range(buffer, offset, bytes, err));
    backend->counters.transfer_bytes += bytes;
    kilni_cl_record_write(backend,
                          &(kiln_cl_recorded_buffer){.buffer = given, .bytes = buffer->bytes},
                          offset, source, bytes);
    if (atomic_load(&backend->flight.user_events) > 0) {
        return upload_copied(backend, buffer, offset, source, bytes, err);
    }
    if (upload_at_once(backend, buffer, offset, source, bytes)) {
        return KILN_STATUS_OK;
    }
    bool unified = (backend->info.features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
    if ((unified && bytes > STAGE_SHARED / 2) || kilni_cl_is_pinned(backend, source, bytes)) {
        return upload_direct(backend, buffer, offset, source, bytes, err);
    }
    size_t chunk = unified ? STAGE_SHARED : STAGE_PINNED;
    for (size_t done = 0; done < bytes && status == KILN_STATUS_OK; done += chunk) {
        size_t part = bytes - done < chunk ? bytes - done : chunk;
        status = upload_staged(backend, buffer, offset + done, (const unsigned char *)source + done,
                               part, err);
    }
out:
    return status;
}

kiln_status kiln_cl_write(kiln_backend *base, kiln_buffer *given, size_t offset, const void *source,
                          size_t bytes, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    kiln_status status = kilni_cl_usable(backend, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_check_range(buffer, offset, bytes, err);
    }
    if (status != KILN_STATUS_OK || bytes == 0) {
        return status;
    }
    cl_event event = NULL;
    cl_int code = clEnqueueWriteBuffer(backend->queue, buffer->mem, CL_FALSE, offset, bytes, source,
                                       0, NULL, backend->flight.keeps_copies ? &event : NULL);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "an upload of %zu bytes", bytes);
    }
    backend->counters.transfer_bytes += bytes;
    kilni_cl_record_write(backend,
                          &(kiln_cl_recorded_buffer){.buffer = given, .bytes = buffer->bytes},
                          offset, source, bytes);
    status = kilni_cl_queued(backend, err);
    if (event != NULL) {
        kilni_cl_set_last(backend, event);
    }
    return status;
}
