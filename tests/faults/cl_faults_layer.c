// SPDX-License-Identifier: MIT OR Apache-2.0
// An OpenCL layer (OPENCL_LAYERS, ocl-icd 2.3.1 and later) that counts the calls which Kiln makes,
// and lets the k-th of them fail or take long; or the reads, of which the k-th delivers other bytes
// than the device has. cl_faults.h says which. structure/cl_calls knows whether a call is missing.
#define _DEFAULT_SOURCE // usleep
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cl_faults.h"
#include "layer.h"

static cl_faults *faults;

/// Counts a call: its place where it is one that fails, or 0.
static uint64_t place_of(const char *name)
{
    if (faults->only[0] != '\0' && strcmp(faults->only, name) != 0) {
        return 0;
    }
    uint64_t place = atomic_fetch_add(&faults->seen, 1) + 1;
    uint64_t at = atomic_load(&faults->fail_at);
    if (at == 0 || place < at || (place > at && !atomic_load(&faults->persistent))) {
        return 0;
    }
    if (place == at) {
        snprintf(faults->name, sizeof(faults->name), "%s", name);
    }
    return place;
}

/// The code that a call gives instead of being made; CL_SUCCESS: it is made. `own`: in place of a
/// code that only calls for memory of the device give.
static cl_int fault_of(const char *name, cl_int own)
{
    if (atomic_load(&faults->kind) != CL_FAULTS_FAIL || place_of(name) == 0) {
        return CL_SUCCESS;
    }
    uint32_t delay_us = atomic_load(&faults->delay_us);
    if (delay_us != 0) {
        usleep(delay_us);
        return CL_SUCCESS;
    }
    cl_int code = atomic_load(&faults->code);
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE ? own : code;
}

// A call that gives a code, one that gives an object with the code in its last parameter, and one
// that gives a pointer and no code.
#define GIVES_CODE(function, own, parameters, arguments)                                           \
    static cl_int CL_API_CALL my_##function parameters                                             \
    {                                                                                              \
        cl_int code = fault_of(#function, own);                                                    \
        return code != CL_SUCCESS ? code : below->function arguments;                              \
    }
#define GIVES_OBJECT(type, function, own, parameters, arguments)                                   \
    static type CL_API_CALL my_##function parameters                                               \
    {                                                                                              \
        cl_int code = fault_of(#function, own);                                                    \
        if (code == CL_SUCCESS) {                                                                  \
            return below->function arguments;                                                      \
        }                                                                                          \
        if (out_code != NULL) {                                                                    \
            *out_code = code;                                                                      \
        }                                                                                          \
        return NULL;                                                                               \
    }
#define GIVES_POINTER(function, parameters, arguments)                                             \
    static void *CL_API_CALL my_##function parameters                                              \
    {                                                                                              \
        return fault_of(#function, CL_OUT_OF_HOST_MEMORY) != CL_SUCCESS                            \
                   ? NULL                                                                          \
                   : below->function arguments;                                                    \
    }
// A query: of an object, and of an object for a device.
#define ASKS(function, object, name)                                                               \
    GIVES_CODE(function, CL_OUT_OF_HOST_MEMORY,                                                    \
               (object of, name what, size_t room, void *out, size_t *out_size),                   \
               (of, what, room, out, out_size))
#define ASKS_DEVICE(function, object, name)                                                        \
    GIVES_CODE(                                                                                    \
        function, CL_OUT_OF_HOST_MEMORY,                                                           \
        (object of, cl_device_id device, name what, size_t room, void *out, size_t *out_size),     \
        (of, device, what, room, out, out_size))

enum { MEM = CL_MEM_OBJECT_ALLOCATION_FAILURE, HOST = CL_OUT_OF_HOST_MEMORY };

// Platforms, devices, contexts.
GIVES_CODE(clGetPlatformIDs, HOST, (cl_uint room, cl_platform_id *out, cl_uint *out_count),
           (room, out, out_count))
ASKS(clGetPlatformInfo, cl_platform_id, cl_platform_info)
GIVES_POINTER(clGetExtensionFunctionAddressForPlatform, (cl_platform_id platform, const char *name),
              (platform, name))
GIVES_CODE(clGetDeviceIDs, CL_DEVICE_NOT_FOUND,
           (cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *out,
            cl_uint *out_count),
           (platform, type, room, out, out_count))
ASKS(clGetDeviceInfo, cl_device_id, cl_device_info)
GIVES_CODE(clCreateSubDevices, CL_DEVICE_PARTITION_FAILED,
           (cl_device_id device, const cl_device_partition_property *how, cl_uint room,
            cl_device_id *out, cl_uint *out_count),
           (device, how, room, out, out_count))
GIVES_CODE(clRetainDevice, HOST, (cl_device_id device), (device))
GIVES_OBJECT(cl_context, clCreateContext, HOST,
             (const cl_context_properties *how, cl_uint count, const cl_device_id *devices,
              void(CL_CALLBACK *notify)(const char *text, const void *more, size_t bytes,
                                        void *user),
              void *user, cl_int *out_code),
             (how, count, devices, notify, user, out_code))
GIVES_CODE(clRetainContext, HOST, (cl_context context), (context))
// Memory.
GIVES_OBJECT(cl_mem, clCreateBuffer, MEM,
             (cl_context context, cl_mem_flags flags, size_t bytes, void *memory, cl_int *out_code),
             (context, flags, bytes, memory, out_code))
GIVES_OBJECT(cl_mem, clCreateSubBuffer, MEM,
             (cl_mem mem, cl_mem_flags flags, cl_buffer_create_type type, const void *what,
              cl_int *out_code),
             (mem, flags, type, what, out_code))
ASKS(clGetMemObjectInfo, cl_mem, cl_mem_info)
GIVES_CODE(clRetainMemObject, HOST, (cl_mem mem), (mem))
GIVES_CODE(clSetMemObjectDestructorCallback, HOST,
           (cl_mem mem, void(CL_CALLBACK *notify)(cl_mem gone, void *user), void *user),
           (mem, notify, user))
GIVES_POINTER(clSVMAlloc,
              (cl_context context, cl_svm_mem_flags flags, size_t bytes, cl_uint alignment),
              (context, flags, bytes, alignment))
// Programs and kernels.
GIVES_OBJECT(cl_program, clCreateProgramWithSource, MEM,
             (cl_context context, cl_uint count, const char **texts, const size_t *lengths,
              cl_int *out_code),
             (context, count, texts, lengths, out_code))
GIVES_OBJECT(cl_program, clCreateProgramWithBinary, CL_INVALID_BINARY,
             (cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
              const unsigned char **binaries, cl_int *states, cl_int *out_code),
             (context, count, devices, lengths, binaries, states, out_code))
GIVES_CODE(clBuildProgram, MEM,
           (cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
            void(CL_CALLBACK *notify)(cl_program program, void *user), void *user),
           (program, count, devices, options, notify, user))
ASKS_DEVICE(clGetProgramBuildInfo, cl_program, cl_program_build_info)
GIVES_OBJECT(cl_kernel, clCreateKernel, MEM,
             (cl_program program, const char *name, cl_int *out_code), (program, name, out_code))
ASKS(clGetKernelInfo, cl_kernel, cl_kernel_info)
ASKS_DEVICE(clGetKernelWorkGroupInfo, cl_kernel, cl_kernel_work_group_info)
GIVES_CODE(clGetKernelArgInfo, CL_KERNEL_ARG_INFO_NOT_AVAILABLE,
           (cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, size_t room, void *out,
            size_t *out_size),
           (kernel, index, what, room, out, out_size))
GIVES_CODE(clSetKernelArg, MEM, (cl_kernel kernel, cl_uint index, size_t bytes, const void *value),
           (kernel, index, bytes, value))
GIVES_CODE(clSetKernelExecInfo, CL_INVALID_OPERATION,
           (cl_kernel kernel, cl_kernel_exec_info what, size_t bytes, const void *value),
           (kernel, what, bytes, value))
// Queues and events.
GIVES_OBJECT(cl_command_queue, clCreateCommandQueue, HOST,
             (cl_context context, cl_device_id device, cl_command_queue_properties how,
              cl_int *out_code),
             (context, device, how, out_code))
GIVES_CODE(clRetainCommandQueue, HOST, (cl_command_queue queue), (queue))
ASKS(clGetCommandQueueInfo, cl_command_queue, cl_command_queue_info)
GIVES_OBJECT(cl_event, clCreateUserEvent, HOST, (cl_context context, cl_int *out_code),
             (context, out_code))
GIVES_CODE(clSetEventCallback, HOST,
           (cl_event event, cl_int state,
            void(CL_CALLBACK *notify)(cl_event event, cl_int state, void *user), void *user),
           (event, state, notify, user))
GIVES_CODE(clRetainEvent, HOST, (cl_event event), (event))
ASKS(clGetEventInfo, cl_event, cl_event_info)
GIVES_CODE(clGetEventProfilingInfo, CL_PROFILING_INFO_NOT_AVAILABLE,
           (cl_event event, cl_profiling_info what, size_t room, void *out, size_t *out_size),
           (event, what, room, out, out_size))
GIVES_CODE(clWaitForEvents, MEM, (cl_uint count, const cl_event *events), (count, events))
GIVES_CODE(clFlush, MEM, (cl_command_queue queue), (queue))
GIVES_CODE(clFinish, MEM, (cl_command_queue queue), (queue))
/// Fails once: a queue whose event nobody can ever complete stands for ever.
static cl_int CL_API_CALL set_user_status(cl_event event, cl_int state)
{
    static atomic_bool failed;
    if (fault_of("clSetUserEventStatus", HOST) != CL_SUCCESS && !atomic_exchange(&failed, true)) {
        return CL_OUT_OF_RESOURCES;
    }
    atomic_store(&failed, false);
    return below->clSetUserEventStatus(event, state);
}

// What is enqueued.
GIVES_CODE(clEnqueueNDRangeKernel, MEM,
           (cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
            const size_t *global, const size_t *local, cl_uint count, const cl_event *waits,
            cl_event *event),
           (queue, kernel, dims, offset, global, local, count, waits, event))
GIVES_CODE(clEnqueueWriteBuffer, MEM,
           (cl_command_queue queue, cl_mem mem, cl_bool blocks, size_t offset, size_t bytes,
            const void *memory, cl_uint count, const cl_event *waits, cl_event *event),
           (queue, mem, blocks, offset, bytes, memory, count, waits, event))
GIVES_CODE(clEnqueueCopyBuffer, MEM,
           (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
            size_t bytes, cl_uint count, const cl_event *waits, cl_event *event),
           (queue, from, to, from_offset, to_offset, bytes, count, waits, event))
GIVES_CODE(clEnqueueFillBuffer, MEM,
           (cl_command_queue queue, cl_mem mem, const void *pattern, size_t length, size_t offset,
            size_t bytes, cl_uint count, const cl_event *waits, cl_event *event),
           (queue, mem, pattern, length, offset, bytes, count, waits, event))
GIVES_CODE(clEnqueueMarkerWithWaitList, MEM,
           (cl_command_queue queue, cl_uint count, const cl_event *waits, cl_event *event),
           (queue, count, waits, event))
GIVES_CODE(clEnqueueBarrierWithWaitList, MEM,
           (cl_command_queue queue, cl_uint count, const cl_event *waits, cl_event *event),
           (queue, count, waits, event))
GIVES_CODE(clEnqueueSVMFree, HOST,
           (cl_command_queue queue, cl_uint count, void *pointers[],
            void(CL_CALLBACK *frees)(cl_command_queue queue, cl_uint count, void *pointers[],
                                     void *user),
            void *user, cl_uint n_waits, const cl_event *waits, cl_event *event),
           (queue, count, pointers, frees, user, n_waits, waits, event))

#undef GIVES_CODE
#undef GIVES_OBJECT
#undef GIVES_POINTER
#undef ASKS
#undef ASKS_DEVICE

// ---- reads ----

/// Counts a read: how its bytes are to be wrong, and CL_FAULTS_FAIL where they are right. Others
/// that follow have the bit in other places.
static cl_faults_kind wrong_of(const char *name, uint64_t *out_place)
{
    cl_faults_kind kind = (cl_faults_kind)atomic_load(&faults->kind);
    *out_place = kind != CL_FAULTS_FAIL ? place_of(name) : 0;
    return *out_place != 0 ? kind : CL_FAULTS_FAIL;
}

static void flip(void *memory, size_t bytes, uint64_t place)
{
    uint64_t at = atomic_load(&faults->flip_at) + place - atomic_load(&faults->fail_at);
    ((unsigned char *)memory)[at % bytes] ^= 0x40;
}

/// A wrong one is waited for at once, so it may not be behind an event that its caller completes.
static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocks,
                                      size_t offset, size_t bytes, void *memory, cl_uint count,
                                      const cl_event *waits, cl_event *event)
{
    uint64_t place = 0;
    cl_int code = fault_of("clEnqueueReadBuffer", MEM);
    cl_faults_kind kind =
        code == CL_SUCCESS ? wrong_of("clEnqueueReadBuffer", &place) : CL_FAULTS_FAIL;
    if (code != CL_SUCCESS || kind == CL_FAULTS_FAIL) {
        return code != CL_SUCCESS ? code
                                  : below->clEnqueueReadBuffer(queue, mem, blocks, offset, bytes,
                                                               memory, count, waits, event);
    }
    void *target = kind == CL_FAULTS_FLIP ? memory : malloc(bytes);
    if (target == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    code =
        below->clEnqueueReadBuffer(queue, mem, CL_TRUE, offset, bytes, target, count, waits, event);
    if (kind == CL_FAULTS_FLIP && code == CL_SUCCESS) {
        flip(memory, bytes, place);
    }
    if (target != memory) {
        free(target);
    }
    return code;
}

static struct {
    void *given; ///< NULL: unused
    void *mapped;
} maps[16]; ///< that are wrong: memory of the layer's instead of the buffer's

static void *map_wrong(void *mapped, size_t bytes, cl_faults_kind kind, uint64_t place)
{
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        void *given = maps[i].given == NULL ? calloc(1, bytes) : NULL;
        if (given == NULL) {
            continue;
        }
        if (kind == CL_FAULTS_FLIP) {
            memcpy(given, mapped, bytes);
            flip(given, bytes, place);
        }
        maps[i].given = given;
        maps[i].mapped = mapped;
        return given;
    }
    return mapped;
}

/// Of maps, those that only read.
// NOLINTNEXTLINE(readability-function-size): the parameters are the standard's
static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocks,
                                    cl_map_flags flags, size_t offset, size_t bytes, cl_uint count,
                                    const cl_event *waits, cl_event *event, cl_int *out_code)
{
    uint64_t place = 0;
    cl_int code = fault_of("clEnqueueMapBuffer", MEM);
    if (code != CL_SUCCESS) {
        if (out_code != NULL) {
            *out_code = code;
        }
        return NULL;
    }
    cl_faults_kind kind =
        flags == CL_MAP_READ ? wrong_of("clEnqueueMapBuffer", &place) : CL_FAULTS_FAIL;
    void *mapped = below->clEnqueueMapBuffer(queue, mem, kind != CL_FAULTS_FAIL ? CL_TRUE : blocks,
                                             flags, offset, bytes, count, waits, event, out_code);
    return kind != CL_FAULTS_FAIL && mapped != NULL ? map_wrong(mapped, bytes, kind, place)
                                                    : mapped;
}

static cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem mem, void *pointer, cl_uint count,
                                const cl_event *waits, cl_event *event)
{
    cl_int code = fault_of("clEnqueueUnmapMemObject", MEM);
    if (code != CL_SUCCESS) {
        return code;
    }
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        if (pointer != NULL && maps[i].given == pointer) {
            free(pointer);
            pointer = maps[i].mapped;
            maps[i].given = NULL;
        }
    }
    return below->clEnqueueUnmapMemObject(queue, mem, pointer, count, waits, event);
}

/// Of the binaries of a program, which has one device.
static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t room,
                                       void *out, size_t *out_size)
{
    uint64_t place = 0;
    size_t bytes = 0;
    cl_int code = fault_of("clGetProgramInfo", HOST);
    if (code != CL_SUCCESS) {
        return code;
    }
    cl_faults_kind kind = what == CL_PROGRAM_BINARIES && out != NULL
                              ? wrong_of("clGetProgramInfo", &place)
                              : CL_FAULTS_FAIL;
    if (kind == CL_FAULTS_STALE) {
        return CL_SUCCESS;
    }
    code = below->clGetProgramInfo(program, what, room, out, out_size);
    if (kind == CL_FAULTS_FLIP && code == CL_SUCCESS &&
        below->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, NULL) ==
            CL_SUCCESS &&
        bytes > 0) {
        flip(*(unsigned char **)out, bytes, place);
    }
    return code;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out,
                                               size_t *out_size)
{
    return layer_info("kiln: faults", what, room, out, out_size);
}

static bool map_faults(void)
{
    const char *path = getenv("KILN_TEST_CL_FAULTS");
    int file = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory = file < 0
                       ? MAP_FAILED
                       : mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) {
        close(file);
    }
    faults = memory != MAP_FAILED ? memory : NULL;
    return faults != NULL;
}

#define TAKES(function) table.function = my_##function
static void take_calls(void)
{
    TAKES(clGetPlatformIDs);
    TAKES(clGetPlatformInfo);
    TAKES(clGetExtensionFunctionAddressForPlatform);
    TAKES(clGetDeviceIDs);
    TAKES(clGetDeviceInfo);
    TAKES(clCreateSubDevices);
    TAKES(clRetainDevice);
    TAKES(clCreateContext);
    TAKES(clRetainContext);
    TAKES(clCreateBuffer);
    TAKES(clCreateSubBuffer);
    TAKES(clGetMemObjectInfo);
    TAKES(clRetainMemObject);
    TAKES(clSetMemObjectDestructorCallback);
    TAKES(clSVMAlloc);
    TAKES(clCreateProgramWithSource);
    TAKES(clCreateProgramWithBinary);
    TAKES(clBuildProgram);
    TAKES(clGetProgramBuildInfo);
    TAKES(clCreateKernel);
    TAKES(clGetKernelInfo);
    TAKES(clGetKernelWorkGroupInfo);
    TAKES(clGetKernelArgInfo);
    TAKES(clSetKernelArg);
    TAKES(clSetKernelExecInfo);
    TAKES(clCreateCommandQueue);
    TAKES(clRetainCommandQueue);
    TAKES(clGetCommandQueueInfo);
    TAKES(clCreateUserEvent);
    TAKES(clSetEventCallback);
    TAKES(clRetainEvent);
    TAKES(clGetEventInfo);
    TAKES(clGetEventProfilingInfo);
    TAKES(clWaitForEvents);
    TAKES(clFlush);
    TAKES(clFinish);
    TAKES(clEnqueueNDRangeKernel);
    TAKES(clEnqueueWriteBuffer);
    TAKES(clEnqueueCopyBuffer);
    TAKES(clEnqueueFillBuffer);
    TAKES(clEnqueueMarkerWithWaitList);
    TAKES(clEnqueueBarrierWithWaitList);
    TAKES(clEnqueueSVMFree);
    table.clEnqueueReadBuffer = read_buffer;
    table.clEnqueueMapBuffer = map_buffer;
    table.clSetUserEventStatus = set_user_status;
    table.clEnqueueUnmapMemObject = unmap;
    table.clGetProgramInfo = program_info;
}
#undef TAKES

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target,
                                            cl_uint *out_count, const cl_icd_dispatch **out_table)
{
    if (!layer_begin(count, target, out_count, out_table) || !map_faults()) {
        return CL_INVALID_VALUE;
    }
    take_calls();
    return CL_SUCCESS;
}
