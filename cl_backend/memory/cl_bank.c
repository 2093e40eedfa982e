// SPDX-License-Identifier: MIT OR Apache-2.0
// Banks of a board's memory. Two platforms have words for them, each its own: Xilinx' runtime takes
// a structure in place of the host's pointer (CL/cl_ext_xilinx.h), Intel's SDK for FPGAs a number
// among the flags (CL/cl_ext_intelfpga.h). Neither header is Debian's, so their numbers stand here.
// Any other driver would refuse them and hears nothing of banks.

#include "cl_bank.h"

#include <string.h>

#include "cl_state.h"
#include "cl_svm.h"

enum { INTEL_BANKS = 7, INTEL_SHIFT = 16 }; ///< CL_CHANNEL_1_INTELFPGA is 1 << 16, and so on

static const cl_mem_flags xilinx_extended = (cl_mem_flags)1 << 31; ///< CL_MEM_EXT_PTR_XILINX
static const unsigned xilinx_topology = 1u << 31; ///< XCL_MEM_TOPOLOGY: a bank's number follows

typedef struct xilinx_place { ///< cl_mem_ext_ptr_t
    unsigned flags;
    void *host;
    void *kernel; ///< NULL: the flags name a bank
} xilinx_place;

cl_mem kilni_cl_bank_create(kilni_cl_backend *backend, size_t bytes, uint32_t bank, cl_int *code)
{
    const char *platform = backend->info.platform;
    if (strcmp(platform, "Xilinx") == 0) {
        xilinx_place place = {.flags = xilinx_topology | bank};
        return clCreateBuffer(backend->context, CL_MEM_READ_WRITE | xilinx_extended, bytes, &place,
                              code);
    }
    if (strncmp(platform, "Intel(R) FPGA SDK", strlen("Intel(R) FPGA SDK")) == 0) {
        if (bank >= INTEL_BANKS) {
            *code = CL_INVALID_VALUE;
            return NULL;
        }
        return clCreateBuffer(backend->context,
                              CL_MEM_READ_WRITE | (cl_mem_flags)(bank + 1) << INTEL_SHIFT, bytes,
                              NULL, code);
    }
    return kilni_cl_mem_create(backend, bytes, code);
}
