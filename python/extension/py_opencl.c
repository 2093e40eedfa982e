// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory objects of OpenCL for DLPack's kDLOpenCL. Decides when a value is there and who holds it;
// capsules are py_dlpack.c's.

#include "py_kiln.h"

#include <stdlib.h>

#ifdef KILN_WITH_CL
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "kiln_opencl.h"

kiln_status kilni_py_lend(kiln_tensor *tensor, void **out_memory, uint64_t *out_offset,
                          kiln_error *err)
{
    cl_mem memory = NULL;
    cl_event ready = NULL;
    size_t offset = 0;
    kiln_status status = KILN_STATUS_OK;
    KILNI_PY_CALL_WITH(status, err, &tensor, 1,
                       kiln_opencl_lend(tensor, &memory, &offset, &ready, err));
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int failed = 0;
    KILNI_PY_DO(failed = clWaitForEvents(1, &ready));
    (void)clReleaseEvent(ready);
    if (failed != CL_SUCCESS) {
        (void)clReleaseMemObject(memory);
        return kiln_fail(err, UNKNOWN, "the value did not become ready: OpenCL error %d", failed);
    }
    *out_memory = memory;
    *out_offset = offset;
    return KILN_STATUS_OK;
}

void kilni_py_unlend(void *memory)
{
    (void)clReleaseMemObject(memory);
}

kiln_status kilni_py_read_opencl(kiln_device *device, void *memory, uint64_t offset,
                                 kiln_dtype dtype, size_t rank, const int64_t *dims,
                                 void **out_data, kiln_error *err)
{
    kiln_tensor *wrapped = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILNI_PY_CALL(status, err,
                  kiln_opencl_wrap(device, memory, offset, dtype, rank, dims, NULL, &wrapped, err));
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t bytes = kiln_tensor_bytes(wrapped);
    *out_data = malloc(bytes > 0 ? bytes : 1);
    if (*out_data == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    } else {
        KILNI_PY_CALL(status, err, kiln_read(wrapped, *out_data, bytes, err));
    }
    KILNI_PY_DO(kiln_release(wrapped));
    return status;
}
#else
static kiln_status no_opencl(kiln_error *err)
{
    return kiln_fail(err, UNIMPLEMENTED, "this Kiln was built without OpenCL");
}

kiln_status kilni_py_lend(kiln_tensor *tensor, void **out_memory, uint64_t *out_offset,
                          kiln_error *err)
{
    (void)tensor;
    (void)out_memory;
    (void)out_offset;
    return no_opencl(err);
}

void kilni_py_unlend(void *memory)
{
    (void)memory;
}

kiln_status kilni_py_read_opencl(kiln_device *device, void *memory, uint64_t offset,
                                 kiln_dtype dtype, size_t rank, const int64_t *dims,
                                 void **out_data, kiln_error *err)
{
    (void)device;
    (void)memory;
    (void)offset;
    (void)dtype;
    (void)rank;
    (void)dims;
    (void)out_data;
    return no_opencl(err);
}
#endif
