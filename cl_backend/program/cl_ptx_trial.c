// SPDX-License-Identifier: MIT OR Apache-2.0
// A trial of what programs for sm_90a are made of: a bulk copy that a barrier counts, and products
// of bf16 by wgmma, of small whole numbers, so that every sum is exact. A driver that assembles
// them and computes something else is known before a program of a fuser runs.

#include <string.h>

#include "cl_ptx.h"
#include "cl_state.h"

enum { ROWS = 64, COLUMNS = 8, TERMS = 64, ITEMS = 128, TILES = (ROWS + COLUMNS) * TERMS };

// Lines of 128 bytes, in eights; a line's 16-byte pieces are exchanged by the line's number.
static const char trial_text[] =
    "#define TILE_AT(at) ((ulong)(((at) & 0x3ffffu) >> 4) | 1ul << 16 | 64ul << 32 | 1ul << 62)\n"
    "#define PRODUCT(i) asm volatile(\"//@ { .reg .pred p; setp.ne.b32 p, %6, 0; "
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; "
    "}\" : \"+f\"(a), \"+f\"(b), \"+f\"(c), \"+f\"(d) : \"l\"(x + 2 * i), \"l\"(y + 2 * i), "
    "\"r\"(i) : \"memory\")\n"
    "__attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "__kernel void kiln_trial(__global const ushort *tiles, __global float *sums) {\n"
    "    __local ushort near[4608] __attribute__((aligned(1024)));\n"
    "    __local ulong bars[1];\n"
    "    const uint item = get_local_id(0), at = (uint)(ulong)near, bar = (uint)(ulong)bars;\n"
    "    uint over = 0;\n"
    "    if (item == 0) {\n"
    "        asm volatile(\"mbarrier.init.shared.b64 [%0], 1;\" :: \"r\"(bar) : \"memory\");\n"
    "        asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
    "        asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (item == 0) {\n"
    "        asm volatile(\"mbarrier.arrive.expect_tx.shared.b64 _, [%0], 9216;\" :: \"r\"(bar) : "
    "\"memory\");\n"
    "        asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%0], [%1], 9216, [%2];\" :: \"r\"(at), \"l\"(tiles), \"r\"(bar) : \"memory\");\n"
    "    }\n"
    "    while (!over) {\n"
    "        asm volatile(\"{ .reg .pred P; mbarrier.try_wait.parity.shared.b64 P, [%1], 0; "
    "selp.u32 %0, 1, 0, P; }\" : \"=r\"(over) : \"r\"(bar) : \"memory\");\n"
    "    }\n"
    "    float a = 0, b = 0, c = 0, d = 0;\n"
    "    const ulong x = TILE_AT(at), y = TILE_AT(at + 8192);\n"
    "    asm volatile(\"//@ wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
    "    PRODUCT(0);\n"
    "    PRODUCT(1);\n"
    "    PRODUCT(2);\n"
    "    PRODUCT(3);\n"
    "    asm volatile(\"//@ wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n"
    "    asm volatile(\"//@ wgmma.wait_group.sync.aligned 0;\" : \"+f\"(a), \"+f\"(b), \"+f\"(c), "
    "\"+f\"(d) :: \"memory\");\n"
    "    __global float *to = sums + (item / 32 * 16 + item % 32 / 4) * 8 + item % 4 * 2;\n"
    "    to[0] = a;\n"
    "    to[1] = b;\n"
    "    to[64] = c;\n"
    "    to[65] = d;\n"
    "}\n";

static int left_at(int row, int term)
{
    return (row * 7 + term * 3) % 11 - 5;
}

static int right_at(int column, int term)
{
    return (column * 5 + term) % 7 - 3;
}

/// A small whole number as bf16.
static uint16_t bf16_of(int value)
{
    float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static void fill_tiles(uint16_t *tiles)
{
    for (int line = 0; line < ROWS + COLUMNS; line++) {
        for (int term = 0; term < TERMS; term++) {
            int value = line < ROWS ? left_at(line, term) : right_at(line - ROWS, term);
            int piece = (term / 8) ^ (line % 8);
            tiles[line * TERMS + piece * 8 + term % 8] = bf16_of(value);
        }
    }
}

static bool right_sums(const float *sums)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int sum = 0;
        for (int term = 0; term < TERMS; term++) {
            sum += left_at(i / COLUMNS, term) * right_at(i % COLUMNS, term);
        }
        if (sums[i] != (float)sum) {
            return false;
        }
    }
    return true;
}

static cl_int run_trial(kilni_cl_backend *backend, cl_program program, float *sums)
{
    uint16_t tiles[TILES];
    const size_t items = ITEMS, bytes = ROWS * COLUMNS * sizeof(float);
    cl_int codes[4] = {0};
    fill_tiles(tiles);
    cl_command_queue queue = clCreateCommandQueue(backend->context, backend->device, 0, &codes[0]);
    cl_kernel kernel = clCreateKernel(program, "kiln_trial", &codes[1]);
    cl_mem from = clCreateBuffer(backend->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                 sizeof(tiles), tiles, &codes[2]);
    cl_mem to = clCreateBuffer(backend->context, CL_MEM_READ_WRITE, bytes, NULL, &codes[3]);
    cl_int code = codes[0] | codes[1] | codes[2] | codes[3];
    if (code == CL_SUCCESS) {
        code = clSetKernelArg(kernel, 0, sizeof(from), &from) |
               clSetKernelArg(kernel, 1, sizeof(to), &to) |
               clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL) |
               clEnqueueReadBuffer(queue, to, CL_TRUE, 0, bytes, sums, 0, NULL, NULL);
    }
    if (to != NULL) {
        clReleaseMemObject(to);
    }
    if (from != NULL) {
        clReleaseMemObject(from);
    }
    if (kernel != NULL) {
        clReleaseKernel(kernel);
    }
    if (queue != NULL) {
        clReleaseCommandQueue(queue);
    }
    return code;
}

bool kilni_cl_ptx_trial(kilni_cl_backend *backend)
{
    static const char options[] = "-cl-std=CL1.2 -DKILN_PTX_TARGET=sm_90a";
    const char *source = trial_text;
    float sums[ROWS * COLUMNS] = {0};
    cl_int code = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(backend->context, 1, &source, NULL, &code);
    if (code == CL_SUCCESS) {
        code = clBuildProgram(program, 1, &backend->device, options, NULL, NULL);
    }
    if (code == CL_SUCCESS) {
        code = kilni_cl_ptx_assemble(backend, options, &program);
    }
    if (code == CL_SUCCESS) {
        code = run_trial(backend, program, sums);
    }
    if (program != NULL) {
        clReleaseProgram(program);
    }
    return code == CL_SUCCESS && right_sums(sums);
}
