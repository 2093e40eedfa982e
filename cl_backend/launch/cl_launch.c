// SPDX-License-Identifier: MIT OR Apache-2.0
// Arguments of a kernel, and its launch. What is launched, over how many work-items, is for others
// to decide; how much may be in flight is cl_queue.c's. Decides what happens when a driver finds no
// memory only now.

#include "cl_launch.h"
#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_origin.h"
#include "cl_pool.h"
#include "cl_program.h"
#include "cl_program_cache.h"
#include "cl_queue.h"
#include "cl_record.h"
#include "cl_state.h"
#include "cl_trace.h"

// ---- arguments ----

kilni_cl_args kilni_cl_args_begin(kilni_cl_backend *backend, kilni_cl_kernel *kernel)
{
    if (backend->recorder != NULL) {
        kilni_cl_record_args(backend);
    }
    return (kilni_cl_args){.backend = backend, .kernel = kernel};
}

static void push(kilni_cl_args *args, size_t bytes, const void *value)
{
    if (args->code == CL_SUCCESS) {
        args->code = clSetKernelArg(args->kernel->kernel, args->index, bytes, value);
        args->index += args->code == CL_SUCCESS;
    }
}

void kilni_cl_push_buffer(kilni_cl_args *args, kiln_buffer *buffer)
{
    cl_int code = CL_SUCCESS;
    cl_mem mem = NULL;
    if (buffer != NULL && args->code == CL_SUCCESS) {
        mem = kilni_cl_mem_of(args->backend, kilni_cl_buffer_of(buffer), &code);
        args->code = code;
    }
    push(args, sizeof(mem), buffer != NULL ? &mem : NULL);
    if (args->backend->recorder != NULL) {
        kilni_cl_record_buffer(args->backend, buffer,
                               buffer != NULL ? kilni_cl_buffer_of(buffer)->bytes : 0);
    }
}

static void push_plain(kilni_cl_args *args, size_t bytes, const void *value)
{
    push(args, bytes, value);
    if (args->backend->recorder != NULL) {
        kilni_cl_record_bytes(args->backend, value, bytes);
    }
}

void kilni_cl_push_bytes(kilni_cl_args *args, const void *value, size_t bytes)
{
    push_plain(args, bytes, value);
}

void kilni_cl_push_i32(kilni_cl_args *args, int32_t value)
{
    push_plain(args, sizeof(value), &value);
}

void kilni_cl_push_u32(kilni_cl_args *args, uint32_t value)
{
    push_plain(args, sizeof(value), &value);
}

void kilni_cl_push_i64(kilni_cl_args *args, int64_t value)
{
    push_plain(args, sizeof(value), &value);
}

void kilni_cl_push_f32(kilni_cl_args *args, float value)
{
    push_plain(args, sizeof(value), &value);
}

void kilni_cl_push_local(kilni_cl_args *args, size_t bytes)
{
    push_plain(args, bytes, NULL);
}

// ---- launches ----

// Some drivers give memory to a buffer only now: when there is none, idle buffers go and it is
// tried once more.
static cl_int enqueue_kernel(kilni_cl_backend *backend, cl_command_queue queue, cl_kernel kernel,
                             cl_uint dims, const size_t *global, const size_t *local,
                             cl_event *out_event)
{
    cl_int code =
        clEnqueueNDRangeKernel(queue, kernel, dims, NULL, global, local, 0, NULL, out_event);
    if (kilni_cl_is_memory_code(code) && backend->pool.idle_bytes > 0 &&
        clFinish(queue) == CL_SUCCESS) {
        kilni_cl_pool_trim(backend);
        code = clEnqueueNDRangeKernel(queue, kernel, dims, NULL, global, local, 0, NULL, out_event);
    }
    return code;
}

kiln_status kilni_cl_enqueue_on(kilni_cl_args *args, cl_command_queue queue, cl_uint dims,
                                const size_t *global, const size_t *local, cl_event *out_event,
                                kiln_error *err)
{
    kilni_cl_backend *backend = args->backend;
    kilni_cl_kernel *kernel = args->kernel;
    if (args->code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, args->code, "argument %u of kernel %s", args->index,
                             kernel->name);
    }
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = enqueue_kernel(backend, queue, kernel->kernel, dims, global, local, out_event);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "kernel %s over %zu x %zu x %zu", kernel->name,
                             global[0], dims > 1 ? global[1] : 1, dims > 2 ? global[2] : 1);
    }
    backend->stats.kernels_launched++;
    kilni_cl_record_launch(backend, kernel, dims, global, local);
    kilni_cl_program_ran(backend, kernel, dims, global, local);
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_enqueue(kilni_cl_args *args, cl_uint dims, const size_t *global,
                             const size_t *local, kiln_error *err)
{
    for (cl_uint i = 0; i < dims; i++) {
        if (global[i] == 0) {
            return KILN_STATUS_OK;
        }
    }
    kilni_cl_backend *backend = args->backend;
    bool wanted = backend->trace.on || backend->flight.keeps_last;
    cl_event event = NULL;
    kiln_status status =
        kilni_cl_enqueue_on(args, backend->queue, dims, global, local, wanted ? &event : NULL, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_cl_queued(backend, err);
        kilni_cl_trace_and_keep(backend, args->kernel->name, backend->flight.keeps_last, event);
    }
    return status;
}
