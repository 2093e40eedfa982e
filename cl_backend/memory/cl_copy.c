// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies on the device, and buffers mapped for the host. Decides nothing: which bytes and when is
// the caller's.

#include "cl_copy.h"
#include "cl_backend.h"
#include "cl_error.h"
#include "cl_origin.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_record.h"
#include "cl_state.h"
#include "cl_trace.h"

kiln_status kilni_cl_copy(kiln_backend *base, kiln_buffer *source, size_t source_offset,
                          kiln_buffer *target, size_t target_offset, size_t bytes, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK || bytes == 0) {
        return status;
    }
    kilni_cl_buffer *from = kilni_cl_buffer_of(source);
    kilni_cl_buffer *to = kilni_cl_buffer_of(target);
    KILN_TRY(out, status, kilni_cl_check_range(from, source_offset, bytes, err));
    KILN_TRY(out, status, kilni_cl_check_range(to, target_offset, bytes, err));
    cl_event event = NULL;
    cl_int code = CL_SUCCESS;
    cl_mem mem = kilni_cl_mem_of(backend, from, &code);
    bool keeps = backend->flight.keeps_copies;
    if (code == CL_SUCCESS) {
        code = clEnqueueCopyBuffer(backend->queue, mem, to->mem, source_offset, target_offset,
                                   bytes, 0, NULL, keeps || backend->trace.on ? &event : NULL);
    }
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "a copy of %zu bytes", bytes);
    }
    kilni_cl_record_copy(
        backend, &(kiln_cl_recorded_buffer){.buffer = source, .bytes = from->bytes}, source_offset,
        &(kiln_cl_recorded_buffer){.buffer = target, .bytes = to->bytes}, target_offset, bytes);
    status = kilni_cl_queued(backend, err);
    kilni_cl_trace_and_keep(backend, "copy", keeps, event);
out:
    return status;
}

kiln_status kiln_cl_map(kiln_backend *base, kiln_buffer *given, size_t offset, size_t bytes,
                        uint32_t access, void **out_pointer, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    *out_pointer = NULL;
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    KILN_TRY(out, status, kilni_cl_check_range(buffer, offset, bytes, err));
    cl_map_flags flags = 0;
    flags |= (access & KILN_CL_MAP_READ) != 0 ? CL_MAP_READ : 0;
    flags |= (access & KILN_CL_MAP_WRITE) != 0 ? CL_MAP_WRITE : 0;
    if (bytes == 0 || flags == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "a map of %zu bytes with access %u", bytes, access);
    }
    cl_int code = CL_SUCCESS;
    cl_mem mem = kilni_cl_mem_of(backend, buffer, &code);
    backend->counters.host_waits++;
    kilni_cl_record_read(backend);
    void *pointer = code == CL_SUCCESS ? clEnqueueMapBuffer(backend->queue, mem, CL_TRUE, flags,
                                                            offset, bytes, 0, NULL, NULL, &code)
                                       : NULL;
    if (code != CL_SUCCESS) {
        return kilni_cl_fail_wait(backend, err, code, "a map of %zu bytes", bytes);
    }
    *out_pointer = pointer;
out:
    return status;
}

kiln_status kiln_cl_unmap(kiln_backend *base, kiln_buffer *given, void *pointer, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = clEnqueueUnmapMemObject(backend->queue, kilni_cl_buffer_of(given)->mem, pointer,
                                          0, NULL, NULL);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "an unmap");
    }
    return kilni_cl_queued(backend, err);
}
