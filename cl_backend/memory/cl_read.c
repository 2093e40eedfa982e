// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes from the device to the host, in parts: begin puts the read into the queue, wait needs no
// lock, end says what became of it. Where the host shares the device's memory, for little, and into
// pinned memory, the read itself is queued; otherwise a marker is, and whoever waits then fetches
// the bytes in chunks through pinned memory on a queue of its own.

#include <string.h>

#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_host.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_read.h"
#include "cl_record.h"
#include "cl_state.h"
#include "cl_trace.h"
#include "cl_transfer.h"

struct kiln_pending {
    kilni_cl_backend *backend;
    cl_mem mem;
    size_t offset;
    unsigned char *target;
    size_t bytes;
    cl_event event;
    bool fetches; ///< after the event
    bool waited;
    bool blocked; ///< the event was not there yet when waited for
    cl_int code;
};

static bool is_unified(const kilni_cl_backend *backend)
{
    return (backend->info.features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
}

static cl_int enqueue(kilni_cl_backend *backend, kiln_pending *pending)
{
    cl_int code = CL_SUCCESS;
    if (pending->bytes == 0 || pending->fetches) {
        code = kilni_cl_all_done(backend, &pending->event);
    } else {
        kilni_cl_set_last(backend, NULL);
        code = clEnqueueReadBuffer(backend->queue, pending->mem, CL_FALSE, pending->offset,
                                   pending->bytes, pending->target, 0, NULL, &pending->event);
        if (code == CL_SUCCESS && backend->flight.keeps_last &&
            clRetainEvent(pending->event) == CL_SUCCESS) {
            kilni_cl_set_last(backend, pending->event);
        }
    }
    if (code == CL_SUCCESS && backend->trace.on && pending->bytes > 0 && !pending->fetches &&
        clRetainEvent(pending->event) == CL_SUCCESS) {
        kilni_cl_trace_note(backend, "read", pending->event);
    }
    return code == CL_SUCCESS ? clFlush(backend->queue) : code;
}

kiln_status kilni_cl_read_begin(kiln_backend *base, kiln_buffer *given, size_t offset,
                                void *out_data, size_t bytes, kiln_pending **out_pending,
                                kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    *out_pending = NULL;
    kiln_status status = kilni_cl_usable(backend, err);
    if (status == KILN_STATUS_OK && bytes > 0) {
        status = kilni_cl_check_range(buffer, offset, bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (bytes > 0) { // of none it is a wait
        kilni_cl_record_read(backend);
    }
    kiln_pending *pending = kiln_alloc(backend->env, sizeof(*pending));
    if (pending == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a read");
    }
    if (bytes > 0 && buffer->origin.memory != NULL) { // nothing that is queued writes them
        if (buffer->origin.read != NULL) {
            buffer->origin.read(buffer->origin.user, offset, bytes, out_data);
        } else {
            memcpy(out_data, (const unsigned char *)buffer->origin.memory + offset, bytes);
        }
        bytes = 0;
    }
    *pending = (kiln_pending){.backend = backend,
                              .mem = bytes > 0 ? buffer->mem : NULL,
                              .offset = offset,
                              .target = out_data,
                              .bytes = bytes};
    pending->fetches = bytes > KILNI_CL_STAGE_SHARED && !is_unified(backend) &&
                       !kilni_cl_is_pinned(backend, out_data, bytes);
    cl_int code = enqueue(backend, pending);
    if (code != CL_SUCCESS) {
        if (pending->event != NULL) {
            clReleaseEvent(pending->event);
        }
        kiln_free(backend->env, pending);
        return kilni_cl_fail(backend, err, code, "a read of %zu bytes", bytes);
    }
    backend->counters.transfer_bytes += bytes;
    *out_pending = pending;
    return KILN_STATUS_OK;
}

bool kilni_cl_read_poll(kiln_pending *pending)
{
    cl_int state = CL_QUEUED;
    cl_int code = clGetEventInfo(pending->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state),
                                 &state, NULL);
    return code != CL_SUCCESS || state <= CL_COMPLETE;
}

// ---- fetching in chunks ----

static cl_int reader_open(kilni_cl_backend *backend)
{
    kilni_cl_reader *reader = &backend->reader;
    cl_int code = CL_SUCCESS;
    if (reader->queue == NULL) {
        reader->queue = clCreateCommandQueue(backend->context, backend->device, 0, &code);
    }
    for (int i = 0; i < 2 && code == CL_SUCCESS; i++) {
        if (reader->mem[i] == NULL) {
            reader->mem[i] =
                clCreateBuffer(backend->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                               KILNI_CL_STAGE_PINNED, NULL, &code);
        }
        if (code == CL_SUCCESS && reader->host[i] == NULL) {
            reader->host[i] = clEnqueueMapBuffer(reader->queue, reader->mem[i], CL_TRUE,
                                                 CL_MAP_READ | CL_MAP_WRITE, 0,
                                                 KILNI_CL_STAGE_PINNED, 0, NULL, NULL, &code);
        }
    }
    return code;
}

static size_t chunk_bytes(const kiln_pending *pending, size_t at)
{
    size_t rest = pending->bytes - at;
    return rest < KILNI_CL_STAGE_PINNED ? rest : KILNI_CL_STAGE_PINNED;
}

static cl_int chunk_end(kiln_pending *pending, size_t at, cl_event *event)
{
    const kilni_cl_reader *reader = &pending->backend->reader;
    if (*event == NULL) {
        return CL_SUCCESS;
    }
    cl_int code = clWaitForEvents(1, event);
    clReleaseEvent(*event);
    *event = NULL;
    if (code == CL_SUCCESS) {
        kiln_copy_wide(pending->target + at, reader->host[at / KILNI_CL_STAGE_PINNED % 2],
                       chunk_bytes(pending, at));
    }
    return code;
}

// One chunk travels while the one before is copied out of its pinned memory.
static cl_int fetch(kiln_pending *pending)
{
    kilni_cl_reader *reader = &pending->backend->reader;
    cl_event events[2] = {NULL, NULL};
    cl_int code = reader_open(pending->backend);
    for (size_t at = 0; at < pending->bytes && code == CL_SUCCESS; at += KILNI_CL_STAGE_PINNED) {
        size_t slot = at / KILNI_CL_STAGE_PINNED % 2;
        code = clEnqueueReadBuffer(reader->queue, pending->mem, CL_FALSE, pending->offset + at,
                                   chunk_bytes(pending, at), reader->host[slot], 0, NULL,
                                   &events[slot]);
        if (code == CL_SUCCESS) {
            code = clFlush(reader->queue);
        }
        if (code == CL_SUCCESS && at > 0) {
            code = chunk_end(pending, at - KILNI_CL_STAGE_PINNED, &events[1 - slot]);
        }
    }
    size_t last = (pending->bytes - 1) / KILNI_CL_STAGE_PINNED;
    if (code == CL_SUCCESS) {
        code = chunk_end(pending, last * KILNI_CL_STAGE_PINNED, &events[last % 2]);
    }
    for (int i = 0; i < 2; i++) { // only after a failure is there one left
        if (events[i] != NULL) {
            clReleaseEvent(events[i]);
        }
    }
    return code;
}

void kilni_cl_read_wait(kiln_pending *pending, bool cancel)
{
    if (pending->waited) {
        return;
    }
    pending->waited = true;
    if (cancel && (pending->fetches || pending->bytes == 0)) {
        return;
    }
    pending->blocked = !kilni_cl_read_poll(pending);
    pending->code = pending->blocked ? kilni_cl_await(pending->backend, pending->event)
                                     : clWaitForEvents(1, &pending->event);
    if (pending->code == CL_SUCCESS && pending->fetches) {
        pthread_mutex_lock(&pending->backend->reader.lock);
        pending->code = fetch(pending);
        pthread_mutex_unlock(&pending->backend->reader.lock);
    }
}

kiln_status kilni_cl_read_end(kiln_backend *base, kiln_pending *pending, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    cl_int code = pending->code;
    size_t bytes = pending->bytes;
    backend->counters.host_waits += pending->blocked ? 1 : 0;
    clReleaseEvent(pending->event);
    kiln_free(backend->env, pending);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail_wait(backend, err, code, "a read of %zu bytes", bytes);
    }
    return kilni_cl_take_failure(backend, err);
}

// ---- looking at the bytes where they lie ----

kiln_status kilni_cl_map_shared(kiln_backend *base, kiln_buffer *given, size_t offset, size_t bytes,
                                const void **out_data, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    *out_data = NULL;
    if (!is_unified(backend)) {
        return kiln_fail(err, UNIMPLEMENTED, "%s has memory of its own", backend->info.name);
    }
    if (buffer->origin.read != NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "a constant that is made when it is read");
    }
    kiln_status status = kilni_cl_usable(backend, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_check_range(buffer, offset, bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_record_read(backend);
    if (buffer->origin.memory != NULL) {
        *out_data = (const unsigned char *)buffer->origin.memory + offset;
        return KILN_STATUS_OK;
    }
    cl_int code = CL_SUCCESS;
    pthread_mutex_lock(&backend->reader.lock);
    if (backend->reader.queue == NULL) {
        backend->reader.queue = clCreateCommandQueue(backend->context, backend->device, 0, &code);
    }
    if (code == CL_SUCCESS) {
        *out_data = clEnqueueMapBuffer(backend->reader.queue, buffer->mem, CL_TRUE, CL_MAP_READ,
                                       offset, bytes, 0, NULL, NULL, &code);
    }
    pthread_mutex_unlock(&backend->reader.lock);
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail_wait(backend, err, code, "a map of %zu bytes", bytes);
}

void kilni_cl_unmap_shared(kiln_backend *base, kiln_buffer *given, const void *data)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    if (kilni_cl_buffer_of(given)->origin.memory != NULL) {
        return;
    }
    pthread_mutex_lock(&backend->reader.lock);
    clEnqueueUnmapMemObject(backend->reader.queue, kilni_cl_buffer_of(given)->mem,
                            (void *)(uintptr_t)data, 0, NULL, NULL);
    clFinish(backend->reader.queue);
    pthread_mutex_unlock(&backend->reader.lock);
}

void kilni_cl_reader_close(kilni_cl_backend *backend)
{
    kilni_cl_reader *reader = &backend->reader;
    for (int i = 0; i < 2; i++) {
        if (reader->host[i] != NULL) {
            clEnqueueUnmapMemObject(reader->queue, reader->mem[i], reader->host[i], 0, NULL, NULL);
            clFinish(reader->queue);
        }
        if (reader->mem[i] != NULL) {
            clReleaseMemObject(reader->mem[i]);
        }
    }
    if (reader->queue != NULL) {
        clReleaseCommandQueue(reader->queue);
    }
    pthread_mutex_destroy(&reader->lock);
}
