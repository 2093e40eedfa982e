// SPDX-License-Identifier: MIT OR Apache-2.0
// A program with OpenCL of its own lets Kiln compute on its queue: its buffer becomes a tensor
// without a copy, and the result's memory goes to its own kernel. Prints one line.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <kiln/kiln_opencl.h>

#include <stdio.h>

enum { N = 1024 };

static const char *const source =
    "__kernel void halve(__global const float *in, __global float *out)"
    "{ out[get_global_id(0)] = in[get_global_id(0)] / 2; }";

typedef struct program {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    cl_program code;
    cl_kernel kernel;
} program;

static cl_int open_program(program *self)
{
    cl_platform_id platform = NULL;
    cl_int code = clGetPlatformIDs(1, &platform, NULL);
    if (code == CL_SUCCESS) {
        code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &self->id, NULL);
    }
    if (code != CL_SUCCESS) {
        return code;
    }
    self->context = clCreateContext(NULL, 1, &self->id, NULL, NULL, &code);
    self->queue = clCreateCommandQueue(self->context, self->id, 0, &code);
    self->buffer = clCreateBuffer(self->context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, &code);
    const char *text = source;
    self->code = clCreateProgramWithSource(self->context, 1, &text, NULL, &code);
    code = clBuildProgram(self->code, 1, &self->id, "", NULL, NULL);
    if (code == CL_SUCCESS) {
        self->kernel = clCreateKernel(self->code, "halve", &code);
    }
    return code;
}

static void close_program(program *self)
{
    clReleaseKernel(self->kernel);
    clReleaseProgram(self->code);
    clReleaseMemObject(self->buffer);
    clReleaseCommandQueue(self->queue);
    clReleaseContext(self->context);
}

/// 2 x + 1 by Kiln, the half of it by the program's kernel.
static kiln_status run(program *self, kiln_device *device, float *out, kiln_error *err)
{
    const int64_t dims[] = {N};
    const size_t global = N;
    cl_mem lent = NULL;
    cl_event ready = NULL;
    size_t offset = 0;
    kiln_tensor *x = NULL;
    kiln_tensor *doubled = NULL;
    kiln_tensor *y = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             kiln_opencl_wrap(device, self->buffer, 0, KILN_DTYPE_F32, 1, dims, NULL, &x, err));
    KILN_TRY(out, status, kiln_mul_scalar(x, kiln_f64(2), &doubled, err));
    KILN_TRY(out, status, kiln_add_scalar(doubled, kiln_f64(1), &y, err));
    KILN_TRY(out, status, kiln_opencl_lend(y, &lent, &offset, &ready, err));
    if (offset != 0) {
        status = kiln_fail(err, INTERNAL, "this kernel reads from the beginning");
        goto out;
    }
    // One queue in order: the event is for programs with several.
    clSetKernelArg(self->kernel, 0, sizeof(lent), &lent);
    clSetKernelArg(self->kernel, 1, sizeof(self->buffer), &self->buffer);
    clEnqueueNDRangeKernel(self->queue, self->kernel, 1, NULL, &global, NULL, 1, &ready, NULL);
    clEnqueueReadBuffer(self->queue, self->buffer, CL_TRUE, 0, N * sizeof(float), out, 0, NULL,
                        NULL);
    clReleaseEvent(ready);
    clReleaseMemObject(lent);
out:
    kiln_release(x);
    kiln_release(doubled);
    kiln_release(y);
    return status;
}

int main(void)
{
    static float numbers[N];
    program self = {0};
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_error err = KILN_ERROR_INIT;
    for (int i = 0; i < N; i++) {
        numbers[i] = (float)i;
    }
    if (open_program(&self) != CL_SUCCESS) {
        printf("SKIP there is no OpenCL device\nkiln-test: 0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    clEnqueueWriteBuffer(self.queue, self.buffer, CL_TRUE, 0, sizeof(numbers), numbers, 0, NULL,
                         NULL);
    kiln_status status = kiln_context_create(NULL, &context, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_opencl_device_open(context, self.context, self.queue, &device, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = run(&self, device, numbers, &err);
    }
    bool right = status == KILN_STATUS_OK;
    for (int i = 0; i < N && right; i++) {
        right = numbers[i] == ((float)i * 2 + 1) / 2;
    }
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "opencl_interop: %s\n", err.message);
    }
    printf("(2 x + 1) / 2 for %d numbers on one queue of two programs: %s\n", N,
           right ? "right" : "wrong");
    printf("kiln-test: %d passed, %d failed, 0 skipped\n", right, !right);
    kiln_device_release(device);
    if (context != NULL) {
        kiln_context_destroy(context);
    }
    close_program(&self);
    return right ? 0 : 1;
}
