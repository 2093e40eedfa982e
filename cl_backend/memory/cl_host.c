// SPDX-License-Identifier: MIT OR Apache-2.0
// Host memory that the device reaches without a copy: pinned memory given to the caller, from which
// uploads go straight, and memory of the caller in which a buffer lies where the device shares the
// host's memory.

#include <stdint.h>

#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_host.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_state.h"

bool kilni_cl_is_pinned(const kilni_cl_backend *backend, const void *memory, size_t bytes)
{
    const unsigned char *at = memory;
    for (const kilni_cl_pinned *pinned = backend->pinned; pinned != NULL; pinned = pinned->next) {
        const unsigned char *begin = pinned->host;
        if (at >= begin && at < begin + pinned->bytes) {
            return bytes <= pinned->bytes - (size_t)(at - begin);
        }
    }
    return false;
}

kiln_status kilni_cl_host_alloc(kiln_backend *base, size_t bytes, void **out_memory,
                                kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    *out_memory = NULL;
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_pinned *pinned = kiln_alloc(backend->env, sizeof(*pinned));
    if (pinned == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a record of staging memory");
    }
    cl_int code = CL_SUCCESS;
    pinned->bytes = bytes > 0 ? bytes : 1;
    pinned->mem = clCreateBuffer(backend->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                 pinned->bytes, NULL, &code);
    if (code == CL_SUCCESS) {
        pinned->host =
            clEnqueueMapBuffer(backend->queue, pinned->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                               pinned->bytes, 0, NULL, NULL, &code);
    }
    if (code != CL_SUCCESS) {
        if (pinned->mem != NULL) {
            clReleaseMemObject(pinned->mem);
        }
        kiln_free(backend->env, pinned);
        return kilni_cl_fail(backend, err, code, "staging memory of %zu bytes", bytes);
    }
    pinned->next = backend->pinned;
    backend->pinned = pinned;
    *out_memory = pinned->host;
    return KILN_STATUS_OK;
}

void kilni_cl_host_free(kiln_backend *base, void *memory)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_pinned **link = &backend->pinned;
    while (*link != NULL && (*link)->host != memory) {
        link = &(*link)->next;
    }
    kilni_cl_pinned *pinned = *link;
    if (pinned == NULL) {
        return;
    }
    *link = pinned->next;
    clEnqueueUnmapMemObject(backend->queue, pinned->mem, pinned->host, 0, NULL, NULL);
    clReleaseMemObject(pinned->mem); // lives until the queue is past the unmap
    kiln_free(backend->env, pinned);
}

typedef struct wrapped {
    const kiln_env *env;
    void (*release)(void *user);
    void *user;
} wrapped;

static void CL_CALLBACK wrapped_gone(cl_mem mem, void *user)
{
    wrapped *self = user;
    (void)mem;
    self->release(self->user);
    kiln_free(self->env, self);
}

kiln_status kilni_cl_wrap_host(kiln_backend *base, void *memory, size_t bytes,
                               void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                               kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    *out_buffer = NULL;
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if ((backend->info.features & KILN_FEATURE_UNIFIED_MEMORY) == 0 ||
        (uintptr_t)memory % backend->info.memory_align != 0) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "memory at %p: %s takes memory of the host only where it is shared and "
                         "aligned to %u bytes",
                         memory, backend->info.name, backend->info.memory_align);
    }
    if (bytes > backend->info.max_alloc_bytes) {
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "%zu bytes exceed the largest buffer of %.64s, %llu bytes", bytes,
                         backend->info.name, (unsigned long long)backend->info.max_alloc_bytes);
    }
    wrapped *self = kiln_alloc(backend->env, sizeof(*self));
    if (self == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a buffer's description");
    }
    *self = (wrapped){.env = backend->env, .release = release, .user = user};
    cl_int code = CL_SUCCESS;
    cl_mem mem = clCreateBuffer(backend->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes,
                                memory, &code);
    if (code != CL_SUCCESS) {
        kiln_free(backend->env, self);
        return kilni_cl_fail(backend, err, code, "a buffer in the caller's %zu bytes", bytes);
    }
    status = kilni_cl_buffer_adopt(backend, mem, bytes, out_buffer, err);
    if (status == KILN_STATUS_OK) {
        code = clSetMemObjectDestructorCallback(mem, wrapped_gone, self);
    }
    if (status != KILN_STATUS_OK || code != CL_SUCCESS) {
        if (*out_buffer != NULL) {
            kilni_cl_free(backend, *out_buffer);
            *out_buffer = NULL;
        } else {
            clReleaseMemObject(mem);
        }
        kiln_free(backend->env, self);
        return status != KILN_STATUS_OK
                   ? status
                   : kilni_cl_fail(backend, err, code, "watching over the caller's memory");
    }
    return KILN_STATUS_OK;
}

void *kilni_cl_host_address(kiln_backend *base, kiln_buffer *given)
{
    const kilni_cl_backend *backend = kilni_cl_backend_of(base);
    const kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    bool shares = (backend->info.features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
    bool lies = buffer->mem != NULL && buffer->origin.memory == NULL;
    bool usable = !backend->flight.lost && backend->recorder == NULL;
    return shares && lies && usable ? buffer->host : NULL;
}

void kilni_cl_host_close(kilni_cl_backend *backend)
{
    while (backend->pinned != NULL) {
        kilni_cl_host_free(&backend->base, backend->pinned->host);
    }
}
