// SPDX-License-Identifier: MIT OR Apache-2.0
// Buffers whose bytes can be had again from memory of the host: constants of a mapped file. They
// are copied to the device when work first uses them, given back when the runtime says so, and
// copied again when they are used after all. Reads never need the copy. Where the host's memory is
// the device's too, the copy is a mapping of its own, so that the system has its pages back at
// once; and an origin that is aligned is used where it lies, without a copy.

#include "cl_origin.h"
#include "cl_error.h"
#include "cl_host.h"
#include "cl_pages.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_state.h"
#include "cl_transfer.h"

enum {
    COPY_STEP = 4 << 20, ///< the origin hears of so many bytes at once
    MOST_LEAVING = 32 << 20 ///< bytes given back that queued work may still be using
};

static bool shares_memory(const kilni_cl_backend *backend)
{
    return (backend->info.features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
}

static void note_copied(const kilni_cl_buffer *buffer, size_t offset, size_t bytes)
{
    if (buffer->origin.copied != NULL) {
        buffer->origin.copied(buffer->origin.user, offset, bytes);
    }
}

// ---- the copy ----

static void copy_steps(const kilni_cl_buffer *buffer, unsigned char *target)
{
    for (size_t at = 0; at < buffer->bytes; at += COPY_STEP) {
        size_t step = buffer->bytes - at < COPY_STEP ? buffer->bytes - at : COPY_STEP;
        if (buffer->origin.read != NULL) {
            buffer->origin.read(buffer->origin.user, at, step, target + at);
        } else {
            kiln_copy_wide(target + at, (const unsigned char *)buffer->origin.memory + at, step);
        }
        note_copied(buffer, at, step);
    }
}

/// A copy in memory that both share; nothing is queued.
static cl_int copy_to_mapping(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    kilni_cl_pages *pages = kilni_cl_pages_map(buffer->bytes);
    if (pages == NULL) {
        return code;
    }
    copy_steps(buffer, pages->memory);
    backend->counters.transfer_bytes += buffer->bytes;
    buffer->mem = kilni_cl_pages_wrap(backend->context, pages, &code);
    return code;
}

/// The bytes of a step, at the origin or in `room`.
static const void *step_of(const kilni_cl_buffer *buffer, size_t at, size_t step, void *room)
{
    if (buffer->origin.read == NULL) {
        return (const unsigned char *)buffer->origin.memory + at;
    }
    buffer->origin.read(buffer->origin.user, at, step, room);
    return room;
}

static cl_int upload_steps(kilni_cl_backend *backend, kilni_cl_buffer *buffer, void *room)
{
    for (size_t at = 0; at < buffer->bytes; at += COPY_STEP) {
        size_t step = buffer->bytes - at < COPY_STEP ? buffer->bytes - at : COPY_STEP;
        if (kilni_cl_upload(&backend->base, (kiln_buffer *)(void *)buffer, at,
                            step_of(buffer, at, step, room), step, NULL) != KILN_STATUS_OK) {
            return CL_MEM_OBJECT_ALLOCATION_FAILURE;
        }
        note_copied(buffer, at, step);
    }
    return CL_SUCCESS;
}

/// A copy in the device's own memory, on the main queue; other queues find it there as well.
static cl_int copy_to_device(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    cl_int code = CL_SUCCESS;
    buffer->mem = clCreateBuffer(backend->context, CL_MEM_READ_WRITE, buffer->bytes, NULL, &code);
    if (code != CL_SUCCESS) {
        buffer->mem = NULL;
        return code;
    }
    size_t most = buffer->bytes < COPY_STEP ? buffer->bytes : COPY_STEP;
    void *room = buffer->origin.read != NULL ? kiln_alloc(backend->env, most) : NULL;
    code = room == NULL && buffer->origin.read != NULL ? CL_OUT_OF_HOST_MEMORY
                                                       : upload_steps(backend, buffer, room);
    kiln_free(backend->env, room);
    if (code != CL_SUCCESS) {
        clReleaseMemObject(buffer->mem);
        buffer->mem = NULL;
        return code;
    }
    if (atomic_load(&backend->flight.user_events) == 0) {
        clFinish(backend->queue);
    }
    return CL_SUCCESS;
}

static cl_int fetch_once(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    return shares_memory(backend) ? copy_to_mapping(backend, buffer)
                                  : copy_to_device(backend, buffer);
}

cl_int kilni_cl_origin_fetch(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    cl_int code = CL_INVALID_MEM_OBJECT;
    if (buffer->origin.memory == NULL) {
        return code;
    }
    if (!kilni_cl_pool_hold(backend, buffer->bytes)) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    code = fetch_once(backend, buffer);
    if (kilni_cl_is_memory_code(code) && atomic_load(&backend->flight.user_events) == 0 &&
        clFinish(backend->queue) == CL_SUCCESS) {
        kilni_cl_pool_trim(backend);
        code = fetch_once(backend, buffer);
    }
    if (code != CL_SUCCESS) {
        kilni_cl_pool_leave(backend, buffer->bytes);
        return code;
    }
    buffer->capacity = buffer->bytes;
    return code;
}

/// The memory goes when queued work no longer uses it. A host that runs far ahead of the device
/// waits, for otherwise nothing would be saved.
static kiln_status give_back(kilni_cl_backend *backend, kilni_cl_buffer *buffer, kiln_error *err)
{
    kilni_cl_pool *pool = &backend->pool;
    if (buffer->mem == NULL || buffer->direct) {
        note_copied(buffer, 0, buffer->bytes);
        return KILN_STATUS_OK;
    }
    clReleaseMemObject(buffer->mem);
    buffer->mem = NULL;
    backend->base.gone += buffer->prepared;
    kilni_cl_pool_leave(backend, buffer->capacity);
    buffer->capacity = 0;
    pool->leaving_bytes += buffer->bytes;
    if (pool->leaving_bytes < MOST_LEAVING || atomic_load(&backend->flight.user_events) > 0) {
        return KILN_STATUS_OK;
    }
    pool->leaving_bytes = 0;
    backend->counters.host_waits++;
    cl_int code =
        clFinish(backend->queue); // a failure that was signalled is for who reads or syncs
    return code == CL_SUCCESS
               ? KILN_STATUS_OK
               : kilni_cl_fail_wait(backend, err, code, "waiting for %zu bytes", buffer->bytes);
}

kiln_status kilni_cl_reside(kiln_backend *base, kiln_buffer *given, bool there, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    cl_int code = CL_SUCCESS;
    if (buffer == NULL || buffer->origin.memory == NULL || kilni_cl_is_stuck(backend)) {
        return KILN_STATUS_OK;
    }
    if (!there) {
        return give_back(backend, buffer, err);
    }
    (void)kilni_cl_mem_of(backend, buffer, &code);
    return code == CL_SUCCESS
               ? KILN_STATUS_OK
               : kilni_cl_fail(backend, err, code, "%zu bytes of a constant", buffer->bytes);
}

bool kilni_cl_resides(kiln_backend *base, const kiln_buffer *buffer)
{
    (void)base;
    return ((const kilni_cl_buffer *)(const void *)buffer)->mem != NULL;
}

kiln_status kilni_cl_alloc_from(kiln_backend *base, const kiln_host_origin *origin, size_t bytes,
                                kiln_buffer **out_buffer, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_error unaligned = KILN_ERROR_INIT;
    *out_buffer = NULL;
    bool direct =
        origin->read == NULL &&
        kilni_cl_wrap_host(base, (void *)(uintptr_t)origin->memory, bytes, origin->release,
                           origin->user, out_buffer, &unaligned) == KILN_STATUS_OK;
    kiln_status status = KILN_STATUS_OK;
    if (!direct) {
        KILN_TRY(out, status, kilni_cl_check_size(backend, bytes, err));
        KILN_TRY(out, status, kilni_cl_buffer_adopt(backend, NULL, bytes, out_buffer, err));
    }
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(*out_buffer);
    buffer->origin = *origin;
    buffer->direct = direct;
out:
    return status;
}

// ---- what is made of a constant ----

kiln_buffer *kilni_cl_origin_made(const kiln_buffer *given, kiln_hash128 as)
{
    const kilni_cl_buffer *buffer = (const kilni_cl_buffer *)(const void *)given;
    return kiln_hash_same(buffer->made_as, as) ? buffer->made : NULL;
}

bool kilni_cl_origin_may_keep(const kiln_buffer *given)
{
    const kilni_cl_buffer *buffer = (const kilni_cl_buffer *)(const void *)given;
    return buffer->origin.memory != NULL && buffer->made == NULL;
}

kiln_status kilni_cl_origin_keep(kilni_cl_backend *backend, kiln_buffer *given, kiln_hash128 as,
                                 kiln_buffer *take_made, kiln_error *err)
{
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    buffer->made = take_made;
    buffer->made_as = as;
    return kilni_cl_reside(&backend->base, given, /*there=*/false, err);
}
