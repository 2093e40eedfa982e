// SPDX-License-Identifier: MIT OR Apache-2.0
// Windows: parts of one buffer as buffers of their own. They are sub-buffers, but on NVIDIA, whose
// driver (580.159 on an H200) may crash in clReleaseMemObject of a sub-buffer when its buffer has
// had others that were in use meanwhile. There the buffer is shared virtual memory, and a window is
// a buffer made over a part of it (CL_MEM_USE_HOST_PTR; OpenCL 3.0, 5.2.1 and 5.6). That
// overlapping ones see each other's writes is more than the standard promises: the first buffer is
// put to the proof, and where it fails the device has no windows.

#include "cl_internal.h"

// Since OpenCL 2.0; weak, for an older loader does not have them.
extern void *clSVMAlloc(cl_context context, cl_bitfield flags, size_t size, cl_uint alignment)
    __attribute__((weak));
extern void clSVMFree(cl_context context, void *pointer) __attribute__((weak));
extern cl_int clEnqueueSVMFree(cl_command_queue queue, cl_uint count, void *pointers[],
                               void(CL_CALLBACK *free)(cl_command_queue, cl_uint, void **, void *),
                               void *user, cl_uint n_waits, const cl_event *waits, cl_event *event)
    __attribute__((weak));

void kilni_cl_windows_init(kilni_cl_backend *backend)
{
    enum { NVIDIA = 0x10DE };
    backend->windows =
        backend->info.vendor_id == NVIDIA ? KILNI_CL_SVM_UNPROVEN : KILNI_CL_SUB_BUFFERS;
}

static cl_mem over(kilni_cl_backend *backend, void *memory, size_t bytes, cl_int *code)
{
    return clCreateBuffer(backend->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory,
                          code);
}

/// Whether what one window writes is read through another that begins in its middle, and back.
static bool overlap_works(kilni_cl_backend *backend, unsigned char *svm)
{
    enum { STEP = 4096 };
    const cl_uint marks[2] = {0x5eed1234u, 0x0badcafeu};
    cl_uint seen[2] = {0, 0};
    cl_int code[2] = {CL_SUCCESS, CL_SUCCESS};
    cl_mem whole = over(backend, svm, 2 * STEP, &code[0]);
    cl_mem half = over(backend, svm + STEP, STEP, &code[1]);
    bool made = code[0] == CL_SUCCESS && code[1] == CL_SUCCESS;
    bool works = made &&
                 clEnqueueFillBuffer(backend->queue, whole, &marks[0], sizeof(cl_uint), 0, 2 * STEP,
                                     0, NULL, NULL) == CL_SUCCESS &&
                 clEnqueueReadBuffer(backend->queue, half, CL_TRUE, 64, sizeof(cl_uint), &seen[0],
                                     0, NULL, NULL) == CL_SUCCESS &&
                 clEnqueueFillBuffer(backend->queue, half, &marks[1], sizeof(cl_uint), 0, STEP, 0,
                                     NULL, NULL) == CL_SUCCESS &&
                 clEnqueueReadBuffer(backend->queue, whole, CL_TRUE, STEP + 64, sizeof(cl_uint),
                                     &seen[1], 0, NULL, NULL) == CL_SUCCESS &&
                 seen[0] == marks[0] && seen[1] == marks[1];
    for (uint32_t i = 0; i < 2; i++) {
        cl_mem mem = i == 0 ? whole : half;
        if (code[i] == CL_SUCCESS) {
            clReleaseMemObject(mem);
        }
    }
    return works;
}

static bool probe(kilni_cl_backend *backend)
{
    enum { SVM_CAPABILITIES = 0x1053, COARSE_GRAIN = 1, BYTES = 8192 };
    cl_bitfield can = 0;
    if (clSVMAlloc == NULL || clSVMFree == NULL || clEnqueueSVMFree == NULL ||
        clGetDeviceInfo(backend->device, SVM_CAPABILITIES, sizeof(can), &can, NULL) != CL_SUCCESS ||
        (can & COARSE_GRAIN) == 0) {
        return false;
    }
    void *svm = clSVMAlloc(backend->context, CL_MEM_READ_WRITE, BYTES, 0);
    bool works = svm != NULL && overlap_works(backend, svm);
    clFinish(backend->queue);
    clSVMFree(backend->context, svm);
    return works;
}

cl_int kilni_cl_arena_create(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    cl_int code = CL_SUCCESS;
    if (backend->windows == KILNI_CL_SVM_UNPROVEN) {
        backend->windows = probe(backend) ? KILNI_CL_SVM : KILNI_CL_NO_WINDOWS;
    }
    if (backend->windows != KILNI_CL_SVM) {
        buffer->mem =
            clCreateBuffer(backend->context, CL_MEM_READ_WRITE, buffer->capacity, NULL, &code);
        return code;
    }
    buffer->svm = clSVMAlloc(backend->context, CL_MEM_READ_WRITE, buffer->capacity, 0);
    if (buffer->svm == NULL) {
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    buffer->mem = over(backend, buffer->svm, buffer->capacity, &code);
    if (code != CL_SUCCESS) {
        clSVMFree(backend->context, buffer->svm);
        buffer->svm = NULL;
    }
    return code;
}

void kilni_cl_svm_free(kilni_cl_backend *backend, void *svm)
{
    if (clEnqueueSVMFree(backend->queue, 1, &svm, NULL, NULL, 0, NULL, NULL) != CL_SUCCESS) {
        clFinish(backend->queue);
        clSVMFree(backend->context, svm);
    }
}

kiln_status kilni_cl_window(kiln_backend *base, kiln_buffer *given, size_t offset, size_t bytes,
                            kiln_buffer **out_buffer, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *parent = kilni_cl_buffer_of(given);
    *out_buffer = NULL;
    if (backend->windows != KILNI_CL_SUB_BUFFERS && parent->svm == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "this device has no windows of buffers");
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
    buffer->mem = parent->svm != NULL
                      ? over(backend, (unsigned char *)parent->svm + offset, bytes, &code)
                      : clCreateSubBuffer(parent->mem, CL_MEM_READ_WRITE,
                                          CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    if (code != CL_SUCCESS) {
        kiln_free(backend->env, buffer);
        return kilni_cl_fail(backend, err, code, "a window of %zu bytes at %zu", bytes, offset);
    }
    buffer->bytes = bytes;
    buffer->window = true;
    *out_buffer = (kiln_buffer *)(void *)buffer;
    return KILN_STATUS_OK;
}
