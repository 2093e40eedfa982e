// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernels of a bundle take, asked of the device's compiler: names, and whether a kernel
// may write through an argument. Decides nothing; what the compiler does not tell stays unknown.

#include "bundle_maker.h"

#include "rt_device.h"
#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"

#include <string.h>

typedef struct parameter_taking {
    kiln_arena *arena;
    bundle_program *program;
    bool no_memory;
} parameter_taking;

static bundle_kernel *kernel_of(const bundle_program *program, const kiln_cl_argument *argument)
{
    for (uint32_t i = 0; i < program->n_kernels; i++) {
        bundle_kernel *kernel = &program->kernels[i];
        if (strcmp(kernel->name, argument->kernel) == 0 && kernel->n_args == argument->count) {
            return kernel;
        }
    }
    return NULL;
}

static void take_parameter(const kiln_cl_argument *argument, void *user)
{
    parameter_taking *taking = user;
    bundle_kernel *kernel = kernel_of(taking->program, argument);
    if (kernel == NULL) {
        return;
    }
    if (kernel->parameters == NULL) {
        kernel->parameters =
            kiln_arena_alloc(taking->arena, kernel->n_args * sizeof(*kernel->parameters));
    }
    char *name = kiln_arena_copy(taking->arena, argument->name, strlen(argument->name) + 1);
    if (kernel->parameters == NULL || name == NULL) {
        taking->no_memory = true;
        return;
    }
    kernel->parameters[argument->index] =
        (bundle_parameter){.name = name, .read_only = argument->read_only};
}

/// The compiler has told of all kernels before.
static bool is_told(const bundle_program *program)
{
    uint32_t told = 0;
    while (told < program->n_kernels && program->kernels[told].parameters != NULL) {
        told++;
    }
    return told == program->n_kernels;
}

kiln_status kilni_bundle_parameters_ask(kiln_bundle_maker *maker, kiln_device *device,
                                        kiln_error *err)
{
    device = kilni_core(device);
    if (!kiln_cl_is(device->backend)) {
        return kiln_fail(err, UNIMPLEMENTED, "device %s is none of OpenCL", device->address);
    }
    parameter_taking taking = {.arena = &maker->arena};
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < maker->manifest.n_programs && !taking.no_memory; i++) {
        taking.program = &maker->manifest.programs[i];
        if (is_told(taking.program)) {
            continue;
        }
        kiln_status told =
            kiln_cl_arguments(device->backend, taking.program->text, taking.program->options,
                              taking.program->exact, take_parameter, &taking, NULL);
        taking.no_memory = taking.no_memory || told == KILN_STATUS_RESOURCE_EXHAUSTED;
    }
    pthread_mutex_unlock(&device->lock);
    return taking.no_memory ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle")
                            : KILN_STATUS_OK;
}

#else

kiln_status kilni_bundle_parameters_ask(kiln_bundle_maker *maker, kiln_device *device,
                                        kiln_error *err)
{
    (void)maker;
    (void)device;
    return kiln_fail(err, UNIMPLEMENTED, "this build has no OpenCL backend");
}

#endif
