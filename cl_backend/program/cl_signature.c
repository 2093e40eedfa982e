// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernels of a text take, as the compiler understood it. A text that does not compile is
// no failure of anybody's here, so nothing of it is logged.

#include <stdio.h>
#include <string.h>

#include "cl_backend.h"
#include "cl_error.h"
#include "cl_program.h"
#include "cl_state.h"

enum { TYPE_ROOM = 192, NAME_ROOM = 128 };

/// `type` becomes "__global const float *restrict": what stands before an argument's name. False:
/// the driver does not tell.
static bool ask_argument(cl_kernel kernel, cl_uint index, char out[TYPE_ROOM], char name[NAME_ROOM],
                         bool *out_read_only)
{
    char type[128] = "";
    cl_kernel_arg_address_qualifier space = CL_KERNEL_ARG_ADDRESS_PRIVATE;
    cl_kernel_arg_type_qualifier kind = CL_KERNEL_ARG_TYPE_NONE;
    if (clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, sizeof(type), type, NULL) !=
            CL_SUCCESS ||
        clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(space), &space,
                           NULL) != CL_SUCCESS ||
        clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof(kind), &kind,
                           NULL) != CL_SUCCESS ||
        clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_NAME, NAME_ROOM, name, NULL) !=
            CL_SUCCESS) {
        return false;
    }
    const char *in = space == CL_KERNEL_ARG_ADDRESS_GLOBAL     ? "__global "
                     : space == CL_KERNEL_ARG_ADDRESS_CONSTANT ? "__constant "
                     : space == CL_KERNEL_ARG_ADDRESS_LOCAL    ? "__local "
                                                               : "";
    bool constant = (kind & CL_KERNEL_ARG_TYPE_CONST) != 0 && *in != '\0';
    *out_read_only = constant || space == CL_KERNEL_ARG_ADDRESS_CONSTANT;
    int length = snprintf(out, TYPE_ROOM, "%s%s%s%s%s", in, constant ? "const " : "",
                          (kind & CL_KERNEL_ARG_TYPE_VOLATILE) != 0 ? "volatile " : "", type,
                          (kind & CL_KERNEL_ARG_TYPE_RESTRICT) != 0 ? "restrict" : "");
    return length > 0 && length < TYPE_ROOM && type[0] != '\0';
}

static kiln_status tell_kernel(cl_program program, const char *name, kiln_cl_argument_fn take,
                               void *user, kiln_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_uint count = 0;
    cl_kernel kernel = clCreateKernel(program, name, &code);
    if (code == CL_SUCCESS) {
        code = clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL);
    }
    kiln_status status = code == CL_SUCCESS ? KILN_STATUS_OK
                                            : kiln_fail(err, UNIMPLEMENTED, "kernel %.60s: %s",
                                                        name, kilni_cl_code_name(code));
    for (cl_uint i = 0; i < count && status == KILN_STATUS_OK; i++) {
        char type[TYPE_ROOM];
        char argument[NAME_ROOM] = "";
        kiln_cl_argument told = {
            .kernel = name, .index = i, .count = count, .type = type, .name = argument};
        if (!ask_argument(kernel, i, type, argument, &told.read_only)) {
            status = kiln_fail(err, UNIMPLEMENTED,
                               "the driver does not tell the arguments of kernel %.60s", name);
        } else {
            take(&told, user);
        }
    }
    if (kernel != NULL) {
        clReleaseKernel(kernel);
    }
    return status;
}

/// Their names, with semicolons between them; the caller frees `*out_names`.
static kiln_status kernel_names(kilni_cl_backend *backend, cl_program program, char **out_names,
                                kiln_error *err)
{
    size_t bytes = 0;
    *out_names = NULL;
    cl_int code = clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &bytes);
    char *names = code == CL_SUCCESS ? kiln_alloc(backend->env, bytes + 1) : NULL;
    if (names != NULL) {
        code = clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, bytes, names, NULL);
    } else if (code == CL_SUCCESS) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the names of kernels");
    }
    if (code != CL_SUCCESS) {
        kiln_free(backend->env, names);
        return kilni_cl_fail(backend, err, code, "the names of a program's kernels");
    }
    *out_names = names;
    return KILN_STATUS_OK;
}

static kiln_status tell_all(kilni_cl_backend *backend, cl_program program, kiln_cl_argument_fn take,
                            void *user, kiln_error *err)
{
    char *names = NULL;
    kiln_status status = kernel_names(backend, program, &names, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (char *name = names; *name != '\0' && status == KILN_STATUS_OK;) {
        size_t length = strcspn(name, ";");
        char *next = name + length + (name[length] == ';');
        name[length] = '\0';
        status = tell_kernel(program, name, take, user, err);
        name = next;
    }
    kiln_free(backend->env, names);
    return status;
}

kiln_status kiln_cl_arguments(kiln_backend *base, const char *text, const char *options, bool exact,
                              kiln_cl_argument_fn take, void *user, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    cl_int code = CL_SUCCESS;
    kiln_string all;
    kiln_string_init(&all, backend->env);
    kiln_string_printf(&all, "%s %s -w -cl-kernel-arg-info", options,
                       exact ? backend->compiler.exact_options : "");
    kilni_cl_build build = {.format = KILN_SOURCE_OPENCL_C,
                            .code = text,
                            .length = strlen(text),
                            .options = all.text,
                            .label = "a text"};
    cl_program program =
        all.failed ? NULL : kilni_cl_program_build(kilni_cl_backend_of(base), &build, &code);
    kiln_status status =
        all.failed           ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for compiler options")
        : code == CL_SUCCESS ? tell_all(backend, program, take, user, err)
                             : kiln_fail(err, BUILD_FAILED, "the text does not compile (%s)",
                                         kilni_cl_code_name(code));
    if (program != NULL) {
        clReleaseProgram(program);
    }
    kiln_string_fini(&all);
    return status;
}
