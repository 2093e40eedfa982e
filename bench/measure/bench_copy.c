// SPDX-License-Identifier: MIT OR Apache-2.0
// The copy kernel that bandwidth is held against: written straight on OpenCL, so that nothing of
// Kiln helps or hinders it. Several shapes are tried at creation and the fastest stays, so the
// ceiling is not a strawman.

#define CL_TARGET_OPENCL_VERSION 120
#include "bench.h"

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

static const char *const source =
    "kernel void copy_scalar(global const float *x, global float *y) {\n"
    "    size_t i = get_global_id(0);\n"
    "    y[i] = x[i];\n"
    "}\n"
    "kernel void copy_vector(global const float4 *x, global float4 *y) {\n"
    "    size_t i = get_global_id(0);\n"
    "    y[i] = x[i];\n"
    "}\n"
    "kernel void copy_wide(global const float16 *x, global float16 *y) {\n"
    "    size_t i = get_global_id(0);\n"
    "    y[i] = x[i];\n"
    "}\n";

static const struct {
    const char *kernel;
    size_t width;
    size_t local;
} shapes[] = {{"copy_scalar", 1, 64},  {"copy_scalar", 1, 256},  {"copy_vector", 4, 64},
              {"copy_vector", 4, 256}, {"copy_vector", 4, 1024}, {"copy_wide", 16, 64},
              {"copy_wide", 16, 256}};

enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

struct bench_copy {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernels[SHAPES];
    cl_mem buffers[2];
    size_t elems;
    size_t best;
};

cl_device_id bench_cl_device(const char *name)
{
    cl_platform_id platforms[16];
    cl_uint n_platforms = 0;
    if (clGetPlatformIDs(16, platforms, &n_platforms) != CL_SUCCESS) {
        return NULL;
    }
    for (cl_uint p = 0; p < n_platforms && p < 16; p++) {
        cl_device_id devices[16];
        cl_uint n_devices = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &n_devices) !=
            CL_SUCCESS) {
            continue;
        }
        for (cl_uint d = 0; d < n_devices && d < 16; d++) {
            char found[256] = "";
            (void)clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof(found) - 1, found, NULL);
            if (strcmp(found, name) == 0) {
                return devices[d];
            }
        }
    }
    return NULL;
}

static bool make_buffers(bench_copy *copy, size_t bytes)
{
    cl_float zero = 1.0f;
    for (size_t i = 0; i < 2; i++) {
        cl_int code = CL_SUCCESS;
        copy->buffers[i] = clCreateBuffer(copy->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
        if (code != CL_SUCCESS ||
            clEnqueueFillBuffer(copy->queue, copy->buffers[i], &zero, sizeof(zero), 0, bytes, 0,
                                NULL, NULL) != CL_SUCCESS) {
            return false;
        }
    }
    return clFinish(copy->queue) == CL_SUCCESS;
}

static bool make_kernels(bench_copy *copy, cl_device_id device)
{
    cl_int code = CL_SUCCESS;
    const char *text = source;
    copy->program = clCreateProgramWithSource(copy->context, 1, &text, NULL, &code);
    if (code != CL_SUCCESS ||
        clBuildProgram(copy->program, 1, &device, "-cl-std=CL1.2", NULL, NULL) != CL_SUCCESS) {
        return false;
    }
    for (size_t i = 0; i < SHAPES; i++) {
        copy->kernels[i] = clCreateKernel(copy->program, shapes[i].kernel, &code);
        if (code != CL_SUCCESS) {
            return false;
        }
        (void)clSetKernelArg(copy->kernels[i], 0, sizeof(cl_mem), &copy->buffers[0]);
        (void)clSetKernelArg(copy->kernels[i], 1, sizeof(cl_mem), &copy->buffers[1]);
    }
    return true;
}

kiln_status bench_copy_time(bench_copy *copy, uint32_t repeats, double *out_seconds,
                            kiln_error *err)
{
    size_t global = copy->elems / shapes[copy->best].width;
    size_t local = shapes[copy->best].local;
    cl_int code = clFinish(copy->queue);
    uint64_t start = kiln_time_ns();
    for (uint32_t i = 0; i < repeats && code == CL_SUCCESS; i++) {
        code = clEnqueueNDRangeKernel(copy->queue, copy->kernels[copy->best], 1, NULL, &global,
                                      &local, 0, NULL, NULL);
    }
    if (code == CL_SUCCESS) {
        code = clFinish(copy->queue);
    }
    *out_seconds = (double)(kiln_time_ns() - start) / 1e9 / repeats;
    return code == CL_SUCCESS
               ? KILN_STATUS_OK
               : kiln_fail(err, INTERNAL, "the copy kernel gave OpenCL error %d", code);
}

static void choose_shape(bench_copy *copy)
{
    double best = 1e30;
    size_t chosen = 0;
    for (size_t i = 0; i < SHAPES; i++) {
        double seconds = 0;
        copy->best = i;
        for (int round = 0; round < 4; round++) { // the first one compiles
            kiln_error ignored = KILN_ERROR_INIT;
            if (bench_copy_time(copy, 4, &seconds, &ignored) == KILN_STATUS_OK && round > 0 &&
                seconds < best) {
                best = seconds;
                chosen = i;
            }
        }
    }
    copy->best = chosen;
}

kiln_status bench_copy_create(const char *device_name, size_t bytes, bench_copy **out_copy,
                              kiln_error *err)
{
    cl_device_id device = bench_cl_device(device_name);
    if (device == NULL) {
        return kiln_fail(err, NOT_FOUND, "no OpenCL device is called \"%s\"", device_name);
    }
    bench_copy *copy = calloc(1, sizeof(*copy));
    if (copy == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    cl_int code = CL_SUCCESS;
    copy->elems = bytes / sizeof(float);
    copy->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == CL_SUCCESS) {
        copy->queue = clCreateCommandQueue(copy->context, device, 0, &code);
    }
    if (code != CL_SUCCESS || !make_buffers(copy, bytes) || !make_kernels(copy, device)) {
        bench_copy_destroy(copy);
        return kiln_fail(err, INTERNAL, "the copy kernel cannot be set up on %s", device_name);
    }
    choose_shape(copy);
    *out_copy = copy;
    return KILN_STATUS_OK;
}

const char *bench_copy_shape(const bench_copy *copy)
{
    return shapes[copy->best].kernel;
}

void bench_copy_destroy(bench_copy *copy)
{
    if (copy == NULL) {
        return;
    }
    for (size_t i = 0; i < SHAPES; i++) {
        if (copy->kernels[i] != NULL) {
            (void)clReleaseKernel(copy->kernels[i]);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        if (copy->buffers[i] != NULL) {
            (void)clReleaseMemObject(copy->buffers[i]);
        }
    }
    if (copy->program != NULL) {
        (void)clReleaseProgram(copy->program);
    }
    if (copy->queue != NULL) {
        (void)clReleaseCommandQueue(copy->queue);
    }
    if (copy->context != NULL) {
        (void)clReleaseContext(copy->context);
    }
    free(copy);
}
