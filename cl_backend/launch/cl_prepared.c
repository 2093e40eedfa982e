// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches that are queued many times: each has kernel objects of its own, in which its arguments
// stay. They are set again only after one of them was replaced.

#include "cl_prepared.h"
#include "cl_buffer.h"
#include "cl_built.h"
#include "cl_error.h"
#include "cl_keep.h"
#include "cl_launch.h"
#include "cl_queue.h"
#include "cl_state.h"

#include <string.h>

typedef struct prepared { ///< what a kiln_prepared is here
    kilni_cl_kernel plain; ///< the program's, with an object of its own
    kilni_cl_kernel packed; ///< without an object: there is none
    kilni_cl_launch_kernels kernels;
    kilni_cl_args args; ///< which of the two is enqueued
    bool stale; ///< the arguments are to be set
    uint64_t gone; ///< of the backend, when they were set
    kiln_launch launch;
    kiln_launch_arg values[]; ///< its arguments
} prepared;

static prepared *prepared_of(kiln_prepared *given)
{
    return (prepared *)(void *)given;
}

/// Its memory may not go unnoticed from now on.
static void mark(kiln_buffer *buffer)
{
    if (buffer != NULL) {
        kilni_cl_buffer_of(buffer)->prepared = true;
    }
}

static kiln_status own_kernel(kilni_cl_backend *backend, const kilni_cl_kernel *shared,
                              kilni_cl_kernel *own, kiln_error *err)
{
    cl_int code = CL_SUCCESS;
    *own = *shared;
    own->kernel = clCreateKernel(shared->program->program, shared->name, &code);
    if (code != CL_SUCCESS) {
        own->kernel = NULL;
        return kilni_cl_fail(backend, err, code, "another kernel %s", shared->name);
    }
    return KILN_STATUS_OK;
}

static kiln_status make_kernels(kilni_cl_backend *backend, const kilni_cl_launch_kernels *shared,
                                prepared *made, kiln_error *err)
{
    kiln_status status = own_kernel(backend, shared->plain, &made->plain, err);
    made->kernels.plain = &made->plain;
    if (status == KILN_STATUS_OK && shared->packed != NULL) {
        status = own_kernel(backend, shared->packed, &made->packed, err);
        made->kernels.packed = &made->packed;
    }
    return status;
}

kiln_status kilni_cl_prepare(kiln_backend *base, kiln_built *built, const kiln_launch *launch,
                             kiln_prepared **out_prepared, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_launch_kernels shared;
    *out_prepared = NULL;
    if (backend->recorder != NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "what is prepared is not recorded");
    }
    kiln_status status = kilni_cl_built_kernels(built, launch, &shared, err);
    for (uint32_t i = 0; i < launch->n_args && status == KILN_STATUS_OK; i++) {
        if (launch->args[i].kind == KILN_VALUE_MEMORY) {
            status = kiln_fail(err, UNIMPLEMENTED, "argument %u is the caller's memory", i);
        }
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t bytes = launch->n_args * sizeof(launch->args[0]);
    prepared *made = kiln_alloc(backend->env, sizeof(*made) + bytes);
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to prepare a launch");
    }
    memcpy(made->values, launch->args, bytes);
    made->launch = *launch;
    made->launch.args = made->values;
    made->stale = true;
    status = make_kernels(backend, &shared, made, err);
    if (status == KILN_STATUS_OK) {
        kilni_cl_keep_use(backend, shared.plain->program, /*is_new=*/false);
        for (uint32_t i = 0; i < launch->n_args; i++) {
            mark(launch->args[i].kind == KILN_VALUE_BUFFER ? launch->args[i].buffer : NULL);
        }
        *out_prepared = (kiln_prepared *)(void *)made;
        return KILN_STATUS_OK;
    }
    if (made->plain.kernel != NULL) {
        clReleaseKernel(made->plain.kernel);
    }
    kiln_free(backend->env, made);
    return status;
}

void kilni_cl_replace(kiln_backend *base, kiln_prepared *given, uint32_t arg, kiln_buffer *buffer)
{
    prepared *launch = prepared_of(given);
    (void)base;
    mark(buffer);
    launch->values[arg].buffer = buffer;
    launch->stale = true;
}

kiln_status kilni_cl_enqueue_prepared(kiln_backend *base, kiln_prepared *const *given,
                                      uint32_t count, uint32_t *out_done, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = KILN_STATUS_OK;
    *out_done = 0;
    for (uint32_t i = 0; i < count; i++) {
        prepared *each = prepared_of(given[i]);
        if (each->stale || each->gone != backend->base.gone) { // memory may go during a run, too
            each->args = kilni_cl_built_args(backend, &each->kernels, &each->launch);
            each->stale = each->args.code != CL_SUCCESS;
            each->gone = backend->base.gone;
        }
        status = kilni_cl_enqueue(&each->args, each->launch.n_dims, each->launch.global,
                                  kilni_cl_built_local(&each->kernels, &each->launch), err);
        if (status != KILN_STATUS_OK) {
            break;
        }
        ++*out_done;
    }
    return status;
}

void kilni_cl_unprepare(kiln_backend *base, kiln_prepared *given)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    prepared *made = prepared_of(given);
    if (made == NULL) {
        return;
    }
    if (!kilni_cl_is_stuck(backend)) { // a driver may wait for a kernel that does not end
        clReleaseKernel(made->plain.kernel);
        if (made->packed.kernel != NULL) {
            clReleaseKernel(made->packed.kernel);
        }
    }
    kilni_cl_keep_leave(backend, made->plain.program);
    kiln_free(backend->env, made);
}
