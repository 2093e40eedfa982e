// SPDX-License-Identifier: MIT OR Apache-2.0
// An OpenCL layer (OPENCL_LAYERS, ocl-icd 2.3.1 and later) that turns any device into one to deploy
// to: programs come from binaries only. KILN_TEST_LAYER lists what else is so:
//   claims       the device says that it compiles, and refuses when it is asked to
//   compiles     it does compile
//   accelerator  it is an accelerator, as FPGA boards are
//   subgroups    it says that kernels may ask for subgroups of 8, 16 and 32 work-items
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

enum { SUB_GROUP_SIZES = 0x4108 }; // cl_intel_required_subgroup_size

static bool is_set(const char *word)
{
    const char *words = getenv("KILN_TEST_LAYER");
    return words != NULL && strstr(words, word) != NULL;
}

static bool has_source(cl_program program)
{
    size_t bytes = 0;
    cl_int code = below->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes);
    return code == CL_SUCCESS && bytes > 1;
}

static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count,
                                                 const char **texts, const size_t *lengths,
                                                 cl_int *out_code)
{
    if (is_set("claims")) { // the compiler is needed by clBuildProgram only
        return below->clCreateProgramWithSource(context, count, texts, lengths, out_code);
    }
    if (out_code != NULL) {
        *out_code = CL_COMPILER_NOT_AVAILABLE;
    }
    return NULL;
}

static cl_program CL_API_CALL create_with_il(cl_context context, const void *code, size_t length,
                                             cl_int *out_code)
{
    (void)context;
    (void)code;
    (void)length;
    if (out_code != NULL) {
        *out_code = CL_COMPILER_NOT_AVAILABLE;
    }
    return NULL;
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *devices,
                                const char *options,
                                void(CL_CALLBACK *notify)(cl_program program, void *user),
                                void *user)
{
    return has_source(program)
               ? CL_COMPILER_NOT_AVAILABLE
               : below->clBuildProgram(program, count, devices, options, notify, user);
}

static cl_int CL_API_CALL compile(cl_program program, cl_uint count, const cl_device_id *devices,
                                  const char *options, cl_uint n_headers, const cl_program *headers,
                                  const char **names,
                                  void(CL_CALLBACK *notify)(cl_program program, void *user),
                                  void *user)
{
    (void)program;
    (void)count;
    (void)devices;
    (void)options;
    (void)n_headers;
    (void)headers;
    (void)names;
    (void)notify;
    (void)user;
    return CL_COMPILER_NOT_AVAILABLE;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t room,
                                      void *out, size_t *out_size)
{
    if (is_set("subgroups") && what == SUB_GROUP_SIZES) {
        static const size_t sizes[] = {8, 16, 32};
        return layer_give(sizes, sizeof(sizes), room, out, out_size);
    }
    if (is_set("subgroups") && what == CL_DEVICE_EXTENSIONS) {
        static const char more[] = " cl_intel_subgroups cl_intel_required_subgroup_size";
        char all[8192];
        size_t bytes = 0;
        if (below->clGetDeviceInfo(device, what, sizeof(all) - sizeof(more), all, &bytes) !=
                CL_SUCCESS ||
            bytes == 0) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        memcpy(all + bytes - 1, more, sizeof(more));
        return layer_give(all, bytes - 1 + sizeof(more), room, out, out_size);
    }
    cl_int code = below->clGetDeviceInfo(device, what, room, out, out_size);
    if (code != CL_SUCCESS || out == NULL) {
        return code;
    }
    if (what == CL_DEVICE_COMPILER_AVAILABLE && !is_set("claims") && !is_set("compiles")) {
        const cl_bool no = CL_FALSE;
        memcpy(out, &no, sizeof(no));
    }
    if (what == CL_DEVICE_TYPE && is_set("accelerator")) {
        const cl_device_type type = CL_DEVICE_TYPE_ACCELERATOR;
        memcpy(out, &type, sizeof(type));
    }
    return code;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out,
                                               size_t *out_size)
{
    return layer_info("kiln: no compiler", what, room, out, out_size);
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target,
                                            cl_uint *out_count, const cl_icd_dispatch **out_table)
{
    if (!layer_begin(count, target, out_count, out_table)) {
        return CL_INVALID_VALUE;
    }
    table.clGetDeviceInfo = device_info;
    if (!is_set("compiles")) {
        table.clCreateProgramWithSource = create_with_source;
        table.clCreateProgramWithIL = create_with_il;
        table.clBuildProgram = build;
        table.clCompileProgram = compile;
    }
    return CL_SUCCESS;
}
