// SPDX-License-Identifier: MIT OR Apache-2.0
// An OpenCL layer (OPENCL_LAYERS, ocl-icd 2.3.1 and later) that gives the platform another name,
// KILN_TEST_PLATFORM, and takes what that platform takes of memory banks: Xilinx' structure in
// place of the host's pointer, Intel's number among the flags. What is asked goes as a line of
// "bytes bank" into the file KILN_TEST_BANKS; PoCL hears of neither. Under any other name the flags
// stay, and PoCL refuses them.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

typedef struct mem_ext_ptr { // as CL/cl_ext_xilinx.h has it
    unsigned flags;
    void *obj;
    void *param;
} mem_ext_ptr;

static const char *platform_name(void)
{
    const char *name = getenv("KILN_TEST_PLATFORM");
    return name != NULL ? name : "";
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t room,
                                        void *out, size_t *out_size)
{
    const char *name = platform_name();
    size_t bytes = strlen(name) + 1;
    if (what != CL_PLATFORM_NAME || name[0] == '\0') {
        return below->clGetPlatformInfo(platform, what, room, out, out_size);
    }
    if (out != NULL && room < bytes) {
        return CL_INVALID_VALUE;
    }
    if (out != NULL) {
        memcpy(out, name, bytes);
    }
    if (out_size != NULL) {
        *out_size = bytes;
    }
    return CL_SUCCESS;
}

static void note_bank(size_t bytes, unsigned bank)
{
    const char *path = getenv("KILN_TEST_BANKS");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file != NULL) {
        (void)fprintf(file, "%zu %u\n", bytes, bank);
        (void)fclose(file);
    }
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                        void *host, cl_int *out_code)
{
    const cl_mem_flags extended = (cl_mem_flags)1 << 31;
    const cl_mem_flags channels = (cl_mem_flags)7 << 16;
    if (strcmp(platform_name(), "Xilinx") == 0 && (flags & extended) != 0) {
        const mem_ext_ptr *place = host;
        if (place == NULL || place->param != NULL || place->obj != NULL ||
            (place->flags & 1u << 31) == 0) {
            *out_code = CL_INVALID_HOST_PTR;
            return NULL;
        }
        note_bank(bytes, place->flags & ~(1u << 31));
        flags &= ~extended;
        host = NULL;
    } else if (strncmp(platform_name(), "Intel(R) FPGA", 13) == 0 && (flags & channels) != 0) {
        note_bank(bytes, (unsigned)((flags & channels) >> 16) - 1);
        flags &= ~channels;
    }
    return below->clCreateBuffer(context, flags, bytes, host, out_code);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out,
                                               size_t *out_size)
{
    return layer_info("kiln: memory banks", what, room, out, out_size);
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target,
                                            cl_uint *out_count, const cl_icd_dispatch **out_table)
{
    if (!layer_begin(count, target, out_count, out_table)) {
        return CL_INVALID_VALUE;
    }
    table.clGetPlatformInfo = platform_info;
    table.clCreateBuffer = create_buffer;
    return CL_SUCCESS;
}
