// SPDX-License-Identifier: MIT OR Apache-2.0
// What sub-buffers are made over. They are the driver's own, but on NVIDIA, whose driver (580.159
// on an H200) may crash in clReleaseMemObject of a sub-buffer when its buffer has had others that
// were in use meanwhile. There the buffer is shared virtual memory, and a sub-buffer is a buffer
// made over a part of it (CL_MEM_USE_HOST_PTR; OpenCL 3.0, 5.2.1 and 5.6). That overlapping ones
// see each other's writes is more than the standard promises: the first buffer is put to the proof,
// and where it fails the device has no sub-buffers. Small buffers of the pool are pieces of slabs
// of such memory, so that launches with many of them are quick (cl_packed.c).

#include "cl_svm.h"
#include "cl_buffer.h"
#include "cl_pages.h"
#include "cl_pool.h"
#include "cl_state.h"

// Since OpenCL 2.0; weak, for an older loader does not have them.
extern void *clSVMAlloc(cl_context context, cl_bitfield flags, size_t size, cl_uint alignment)
    __attribute__((weak));
extern void clSVMFree(cl_context context, void *pointer) __attribute__((weak));
extern cl_int clEnqueueSVMFree(cl_command_queue queue, cl_uint count, void *pointers[],
                               void(CL_CALLBACK *free)(cl_command_queue, cl_uint, void **, void *),
                               void *user, cl_uint n_waits, const cl_event *waits, cl_event *event)
    __attribute__((weak));

void kilni_cl_sub_buffers_init(kilni_cl_backend *backend)
{
    enum { NVIDIA = 0x10DE };
    backend->sub_buffers = backend->recorder != NULL           ? KILNI_CL_SUB_NONE
                           : backend->info.vendor_id == NVIDIA ? KILNI_CL_SUB_UNPROVEN
                                                               : KILNI_CL_SUB_DRIVERS;
}

cl_mem kilni_cl_mem_over(kilni_cl_backend *backend, void *memory, size_t bytes, cl_int *code)
{
    return clCreateBuffer(backend->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory,
                          code);
}

cl_mem kilni_cl_mem_create(kilni_cl_backend *backend, size_t bytes, cl_int *code)
{
    kilni_cl_pages *pages = NULL;
    bool own = backend->info.type == KILN_DEVICE_CPU && !backend->pool.exact;
    if (own && bytes >= KILNI_CL_PAGES_LEAST) {
        pages = kilni_cl_pages_map(bytes);
    } else if (own && backend->pocl) { // where it lies is then known: cl_transfer.c
        pages = kilni_cl_pages_alloc(bytes);
    }
    cl_mem mem = pages != NULL ? kilni_cl_pages_wrap(backend->context, pages, code) : NULL;
    return mem != NULL ? mem
                       : clCreateBuffer(backend->context, CL_MEM_READ_WRITE, bytes, NULL, code);
}

/// Whether what one sub-buffer writes is read through another that begins in its middle, and back.
static bool overlap_works(kilni_cl_backend *backend, cl_command_queue queue, unsigned char *svm)
{
    enum { STEP = 4096 };
    const cl_uint written[2] = {0x5eed1234u, 0x0badcafeu};
    cl_uint seen[2] = {0, 0};
    cl_int code[2] = {CL_SUCCESS, CL_SUCCESS};
    cl_mem whole = kilni_cl_mem_over(backend, svm, 2 * STEP, &code[0]);
    cl_mem half = kilni_cl_mem_over(backend, svm + STEP, STEP, &code[1]);
    bool made = code[0] == CL_SUCCESS && code[1] == CL_SUCCESS;
    bool works = made &&
                 clEnqueueFillBuffer(queue, whole, &written[0], sizeof(cl_uint), 0, 2 * STEP, 0,
                                     NULL, NULL) == CL_SUCCESS &&
                 clEnqueueReadBuffer(queue, half, CL_TRUE, 64, sizeof(cl_uint), &seen[0], 0, NULL,
                                     NULL) == CL_SUCCESS &&
                 clEnqueueFillBuffer(queue, half, &written[1], sizeof(cl_uint), 0, STEP, 0, NULL,
                                     NULL) == CL_SUCCESS &&
                 clEnqueueReadBuffer(queue, whole, CL_TRUE, STEP + 64, sizeof(cl_uint), &seen[1], 0,
                                     NULL, NULL) == CL_SUCCESS &&
                 seen[0] == written[0] && seen[1] == written[1];
    for (uint32_t i = 0; i < 2; i++) {
        cl_mem mem = i == 0 ? whole : half;
        if (code[i] == CL_SUCCESS) {
            clReleaseMemObject(mem);
        }
    }
    return works;
}

/// On a queue of its own: what is queued on the device's may wait for what the caller does next.
static bool probe(kilni_cl_backend *backend)
{
    enum { SVM_CAPABILITIES = 0x1053, COARSE_GRAIN = 1, BYTES = 8192 };
    cl_bitfield can = 0;
    if (clSVMAlloc == NULL || clSVMFree == NULL || clEnqueueSVMFree == NULL ||
        clGetDeviceInfo(backend->device, SVM_CAPABILITIES, sizeof(can), &can, NULL) != CL_SUCCESS ||
        (can & COARSE_GRAIN) == 0) {
        return false;
    }
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(backend->context, backend->device, 0, &code);
    if (code != CL_SUCCESS) {
        return false;
    }
    void *svm = clSVMAlloc(backend->context, CL_MEM_READ_WRITE, BYTES, 0);
    bool works = svm != NULL && overlap_works(backend, queue, svm);
    clFinish(queue);
    clReleaseCommandQueue(queue);
    clSVMFree(backend->context, svm);
    return works;
}

bool kilni_cl_shares(kilni_cl_backend *backend)
{
    if (backend->sub_buffers == KILNI_CL_SUB_UNPROVEN) {
        backend->sub_buffers = probe(backend) ? KILNI_CL_SUB_SVM : KILNI_CL_SUB_NONE;
    }
    return backend->sub_buffers == KILNI_CL_SUB_SVM;
}

cl_int kilni_cl_arena_create(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    cl_int code = CL_SUCCESS;
    if (!kilni_cl_shares(backend)) {
        buffer->mem = kilni_cl_mem_create(backend, buffer->capacity, &code);
        return code;
    }
    buffer->svm = clSVMAlloc(backend->context, CL_MEM_READ_WRITE, buffer->capacity, 0);
    if (buffer->svm == NULL) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    buffer->mem = kilni_cl_mem_over(backend, buffer->svm, buffer->capacity, &code);
    if (code != CL_SUCCESS) {
        clSVMFree(backend->context, buffer->svm);
        buffer->svm = NULL;
    }
    buffer->address = buffer->svm;
    buffer->shared = buffer->svm;
    return code;
}

void kilni_cl_svm_free(kilni_cl_backend *backend, void *svm)
{
    if (clEnqueueSVMFree(backend->queue, 1, &svm, NULL, NULL, 0, NULL, NULL) != CL_SUCCESS) {
        clFinish(backend->queue);
        clSVMFree(backend->context, svm);
    }
}

// ---- slabs ----

static kilni_cl_slab *slab_create(kilni_cl_backend *backend, size_t bytes)
{
    kilni_cl_slab *slab = kiln_alloc(backend->env, sizeof(*slab));
    void *svm = slab != NULL ? clSVMAlloc(backend->context, CL_MEM_READ_WRITE, bytes, 0) : NULL;
    if (svm == NULL) {
        kiln_free(backend->env, slab);
        return NULL;
    }
    slab->svm = svm;
    slab->bytes = bytes;
    return slab;
}

static void slab_free_unused(kilni_cl_backend *backend, kilni_cl_slab *slab)
{
    if (slab != NULL && slab->pieces == 0) {
        kilni_cl_svm_free(backend, slab->svm);
        kiln_free(backend->env, slab);
    }
}

/// A launch pays for each slab that its buffers lie in (cl_packed.c), so the next is twice as
/// large, until it is a part of the budget that would be missed.
static kilni_cl_slab *slab_for(kilni_cl_backend *backend, size_t bytes)
{
    enum { FIRST = 16 << 20, MOST = 64 << 20, PART = 64 };
    kilni_cl_pool *pool = &backend->pool;
    if (pool->budget / PART < FIRST) {
        return NULL;
    }
    if (pool->slab == NULL || pool->slab->bytes - pool->slab->filled < bytes) {
        kilni_cl_slab *full = pool->slab;
        size_t next = pool->next_slab != 0 ? pool->next_slab : FIRST;
        bool grows = next < MOST && pool->budget / PART >= 2 * next;
        pool->slab = slab_create(backend, next);
        pool->next_slab = pool->slab == NULL ? 0 : grows ? 2 * next : next;
        slab_free_unused(backend, full);
    }
    return pool->slab;
}

bool kilni_cl_slab_cut(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    enum { PIECE = 256 << 10, ALIGN = 512 };
    size_t bytes = (buffer->capacity + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > PIECE || backend->pool.exact || !kilni_cl_shares(backend)) {
        return false;
    }
    kilni_cl_slab *slab = slab_for(backend, bytes);
    cl_int code = CL_SUCCESS;
    if (slab == NULL) {
        return false;
    }
    unsigned char *address = (unsigned char *)slab->svm + slab->filled;
    buffer->mem = kilni_cl_mem_over(backend, address, buffer->capacity, &code);
    if (code != CL_SUCCESS) {
        return false;
    }
    slab->filled += bytes;
    slab->pieces++;
    buffer->slab = slab;
    buffer->address = address;
    buffer->shared = slab->svm;
    return true;
}

void kilni_cl_slab_leave(kilni_cl_backend *backend, kilni_cl_slab *slab)
{
    slab->pieces--;
    if (slab == backend->pool.slab && slab->pieces == 0) {
        backend->pool.slab = NULL;
        backend->pool.next_slab = 0;
    }
    slab_free_unused(backend, slab);
}
