// SPDX-License-Identifier: MIT OR Apache-2.0
// Sub-buffers: parts of one buffer as buffers of their own. What they are made over where the
// driver cannot be trusted with them is cl_svm.c's.

#include "cl_sub_buffer.h"
#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_pool.h"
#include "cl_state.h"
#include "cl_svm.h"

kiln_status kilni_cl_sub_buffer(kiln_backend *base, kiln_buffer *given, size_t offset, size_t bytes,
                                kiln_buffer **out_buffer, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *parent = kilni_cl_buffer_of(given);
    *out_buffer = NULL;
    if (backend->sub_buffers != KILNI_CL_SUB_DRIVERS && parent->svm == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "this device has no sub-buffers");
    }
    kiln_status status = kilni_cl_check_range(parent, offset, bytes, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_buffer *buffer = kiln_alloc(backend->env, sizeof(*buffer));
    if (buffer == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a buffer's description");
    }
    cl_int code = CL_SUCCESS;
    const cl_buffer_region region = {offset, bytes};
    buffer->mem =
        parent->svm != NULL
            ? kilni_cl_mem_over(backend, (unsigned char *)parent->svm + offset, bytes, &code)
            : clCreateSubBuffer(parent->mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                &region, &code);
    if (code != CL_SUCCESS) {
        kiln_free(backend->env, buffer);
        return kilni_cl_fail(backend, err, code, "a sub-buffer of %zu bytes at %zu", bytes, offset);
    }
    buffer->bytes = bytes;
    buffer->sub = true;
    buffer->host = parent->host != NULL ? parent->host + offset : NULL;
    buffer->address = parent->svm != NULL ? (unsigned char *)parent->svm + offset : NULL;
    buffer->shared = parent->svm;
    *out_buffer = (kiln_buffer *)(void *)buffer;
    return KILN_STATUS_OK;
}
