// SPDX-License-Identifier: MIT OR Apache-2.0
// Kiln on a program's own context and queue: memory in both directions, events, and what is
// refused.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "harness.h"
#include "kiln_opencl.h"

#include <string.h>

enum { N = 100 };

typedef struct own { ///< what the program has without Kiln
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    kiln_context *kiln;
    kiln_device *device;
    kiln_error err;
} own;

static bool ok(own *o, kiln_status status)
{
    return kiln_test_check(status == KILN_STATUS_OK, __FILE__, __LINE__, o->err.message);
}

static bool open_own(own *o)
{
    cl_platform_id platform = NULL;
    cl_int code = CL_SUCCESS;
    *o = (own){.err = KILN_ERROR_INIT};
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &o->id, NULL) != CL_SUCCESS) {
        kiln_test_skip("no OpenCL device");
        return false;
    }
    o->context = clCreateContext(NULL, 1, &o->id, NULL, NULL, &code);
    o->queue = clCreateCommandQueue(o->context, o->id, 0, &code);
    return KILN_CHECK(code == CL_SUCCESS) && ok(o, kiln_context_create(NULL, &o->kiln, &o->err)) &&
           ok(o, kiln_opencl_device_open(o->kiln, o->context, o->queue, &o->device, &o->err));
}

static void close_own(own *o)
{
    kiln_device_release(o->device);
    kiln_context_destroy(o->kiln);
    clReleaseCommandQueue(o->queue);
    clReleaseContext(o->context);
}

static void test_both_ways(void)
{
    own o;
    const int64_t dims[1] = {N - 10};
    float data[N];
    float back[N] = {0};
    cl_int code = CL_SUCCESS;
    cl_event written = NULL;
    cl_mem lent = NULL;
    cl_event ready = NULL;
    size_t offset = 99;
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    if (!open_own(&o)) {
        return;
    }
    for (int i = 0; i < N; i++) {
        data[i] = (float)i;
    }
    cl_mem mem = clCreateBuffer(o.context, CL_MEM_READ_WRITE, sizeof(data), NULL, &code);
    cl_command_queue other = clCreateCommandQueue(o.context, o.id, 0, &code);
    clEnqueueWriteBuffer(other, mem, CL_FALSE, 0, sizeof(data), data, 0, NULL, &written);
    clFlush(other);
    ok(&o, kiln_opencl_wrap(o.device, mem, 40, KILN_DTYPE_F32, 1, dims, written, &x, &o.err));
    clReleaseMemObject(mem); // Kiln has its own hold
    ok(&o, kiln_mul_scalar(x, kiln_f64(2), &y, &o.err));
    kiln_release(x);
    ok(&o, kiln_opencl_lend(y, &lent, &offset, &ready, &o.err));
    KILN_CHECK(clEnqueueReadBuffer(other, lent, CL_TRUE, offset, (N - 10) * sizeof(float), back, 1,
                                   &ready, NULL) == CL_SUCCESS);
    for (int i = 0; i < N - 10; i++) {
        KILN_CHECK(back[i] == 2 * (float)(i + 10));
    }
    ok(&o, kiln_opencl_wait(o.device, ready, &o.err));
    ok(&o, kiln_sync(o.device, &o.err));
    clReleaseEvent(ready);
    clReleaseEvent(written);
    clReleaseMemObject(lent);
    clReleaseCommandQueue(other);
    kiln_release(y);
    close_own(&o);
}

static int64_t live_blocks;

static void *counted_alloc(void *user, size_t bytes, size_t align)
{
    const kiln_allocator *libc = user;
    live_blocks++;
    return libc->alloc(libc->user, bytes, align);
}

static void counted_free(void *user, void *memory)
{
    const kiln_allocator *libc = user;
    live_blocks -= memory != NULL;
    libc->free(libc->user, memory);
}

/// Lent memory is the program's: it may keep it for longer than the context, whose allocator has
/// everything back by then.
static void test_lent_for_longer(void)
{
    own o;
    const int64_t dims[1] = {N};
    float back = 0;
    cl_mem lent = NULL;
    cl_event ready = NULL;
    size_t offset = 0;
    kiln_tensor *x = NULL;
    kiln_allocator libc = kiln_allocator_default();
    const kiln_allocator counted = {counted_alloc, counted_free, &libc};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.allocator = &counted;
    if (!open_own(&o)) {
        return;
    }
    kiln_device_release(o.device);
    kiln_context_destroy(o.kiln);
    live_blocks = 0;
    ok(&o, kiln_context_create(&options, &o.kiln, &o.err));
    ok(&o, kiln_opencl_device_open(o.kiln, o.context, o.queue, &o.device, &o.err));
    ok(&o, kiln_full(o.device, dims, 1, KILN_DTYPE_F32, kiln_f64(2.5), &x, &o.err));
    ok(&o, kiln_opencl_lend(x, &lent, &offset, &ready, &o.err));
    KILN_CHECK_INT(clWaitForEvents(1, &ready), CL_SUCCESS);
    clReleaseEvent(ready);
    kiln_release(x);
    kiln_device_release(o.device);
    kiln_context_destroy(o.kiln);
    KILN_CHECK_INT(live_blocks, 0);
    KILN_CHECK_INT(
        clEnqueueReadBuffer(o.queue, lent, CL_TRUE, offset, sizeof(back), &back, 0, NULL, NULL),
        CL_SUCCESS);
    KILN_CHECK(back == 2.5f);
    clReleaseMemObject(lent);
    KILN_CHECK_INT(live_blocks, 0);
    clReleaseCommandQueue(o.queue);
    clReleaseContext(o.context);
}

static void test_refusals(void)
{
    own o;
    own other;
    const int64_t dims[1] = {N};
    kiln_tensor *x = NULL;
    kiln_device *device = NULL;
    cl_int code = CL_SUCCESS;
    if (!open_own(&o)) {
        return;
    }
    if (!open_own(&other)) {
        close_own(&o);
        return;
    }
    cl_mem foreign = clCreateBuffer(other.context, CL_MEM_READ_WRITE, 4 * N, NULL, &code);
    cl_mem small = clCreateBuffer(o.context, CL_MEM_READ_WRITE, 4 * N - 4, NULL, &code);
    kiln_status bad = KILN_STATUS_INVALID_ARGUMENT;
    KILN_CHECK(kiln_opencl_wrap(o.device, foreign, 0, KILN_DTYPE_F32, 1, dims, NULL, &x, &o.err) ==
               bad);
    KILN_CHECK(kiln_opencl_wrap(o.device, small, 0, KILN_DTYPE_F32, 1, dims, NULL, &x, &o.err) ==
               bad);
    KILN_CHECK(kiln_opencl_wrap(o.device, small, 2, KILN_DTYPE_F32, 0, NULL, NULL, &x, &o.err) ==
               bad);
    KILN_CHECK(kiln_opencl_device_open(o.kiln, o.context, other.queue, &device, &o.err) == bad);
    cl_command_queue loose =
        clCreateCommandQueue(o.context, o.id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code == CL_SUCCESS) {
        KILN_CHECK(kiln_opencl_device_open(o.kiln, o.context, loose, &device, &o.err) == bad);
        clReleaseCommandQueue(loose);
    }
    ok(&o, kiln_device_open(o.kiln, "reference", &device, &o.err));
    KILN_CHECK(kiln_opencl_wrap(device, small, 0, KILN_DTYPE_F32, 0, NULL, NULL, &x, &o.err) ==
               bad);
    kiln_device_release(device);
    clReleaseMemObject(foreign);
    clReleaseMemObject(small);
    close_own(&other);
    close_own(&o);
}

KILN_TEST_MAIN("unit/runtime/kiln_opencl", KILN_TEST(test_both_ways),
               KILN_TEST(test_lent_for_longer), KILN_TEST(test_refusals))
