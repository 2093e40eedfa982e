// SPDX-License-Identifier: MIT OR Apache-2.0
// CLBlast as it ships, on a context of its own. Kiln gives CLBlast parameters for processors, which
// hold for the process from the first product on: time this before.

#define CL_TARGET_OPENCL_VERSION 120
#include "bench.h"

#include <CL/cl.h>
#include <clblast_c.h>

enum { OPERANDS = 3, ROUNDS = 3 };

typedef struct peer {
    cl_context context;
    cl_command_queue queue;
    cl_mem operands[OPERANDS];
} peer;

static cl_int open_peer(peer *p, cl_device_id device, const size_t *elements)
{
    const cl_float value = 0.5f;
    cl_int code = CL_SUCCESS;
    p->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == CL_SUCCESS) {
        p->queue = clCreateCommandQueue(p->context, device, 0, &code);
    }
    for (int i = 0; i < OPERANDS && code == CL_SUCCESS; i++) {
        size_t bytes = elements[i] * sizeof(value);
        p->operands[i] = clCreateBuffer(p->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
        if (code == CL_SUCCESS) {
            code = clEnqueueFillBuffer(p->queue, p->operands[i], &value, sizeof(value), 0, bytes, 0,
                                       NULL, NULL);
        }
    }
    return code == CL_SUCCESS ? clFinish(p->queue) : code;
}

static void close_peer(peer *p)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (p->operands[i] != NULL) {
            clReleaseMemObject(p->operands[i]);
        }
    }
    if (p->queue != NULL) {
        clReleaseCommandQueue(p->queue);
    }
    if (p->context != NULL) {
        clReleaseContext(p->context);
    }
}

static int multiply(peer *p, size_t m, size_t k, size_t n, double *out_seconds)
{
    uint64_t start = kiln_time_ns();
    CLBlastStatusCode code = CLBlastSgemm(
        CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, m, n, k, 1, p->operands[0],
        0, k, p->operands[1], 0, n, 0, p->operands[2], 0, n, &p->queue, NULL);
    int failed = code != CLBlastSuccess ? (int)code : (int)clFinish(p->queue);
    *out_seconds = (double)(kiln_time_ns() - start) / 1e9;
    return failed;
}

kiln_status bench_clblast_time(const char *device_name, size_t m, size_t k, size_t n,
                               double *out_seconds, kiln_error *err)
{
    const size_t elements[OPERANDS] = {m * k, k * n, m * n};
    double seconds[ROUNDS], ignored = 0;
    peer p = {.context = NULL};
    cl_device_id device = bench_cl_device(device_name);
    if (device == NULL) {
        return kiln_fail(err, NOT_FOUND, "no OpenCL device is called %s", device_name);
    }
    int code = (int)open_peer(&p, device, elements);
    if (code == 0) {
        code = multiply(&p, m, k, n, &ignored); // compiles
    }
    for (int i = 0; i < ROUNDS && code == 0; i++) {
        code = multiply(&p, m, k, n, &seconds[i]);
    }
    close_peer(&p);
    if (code != 0) {
        return kiln_fail(err, INTERNAL, "CLBlast gave %d", code);
    }
    *out_seconds = kiln_quantile(seconds, ROUNDS, 0.5);
    return KILN_STATUS_OK;
}
