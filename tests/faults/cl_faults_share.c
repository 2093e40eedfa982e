// SPDX-License-Identifier: MIT OR Apache-2.0
// The test's side of the OpenCL layer: memory that both see, and the environment that names it.
#define _GNU_SOURCE // memfd_create
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cl_faults.h"

cl_faults *cl_faults_share(void)
{
    static char path[64];
    int file = memfd_create("cl-faults", 0);
    if (file < 0 || ftruncate(file, sizeof(cl_faults)) != 0) {
        return NULL;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    void *memory = mmap(NULL, sizeof(cl_faults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED || setenv("KILN_TEST_CL_FAULTS", path, 1) != 0 ||
        setenv("OPENCL_LAYERS", KILN_TEST_BUILD_DIR "/tests/bin/cl_faults_layer.so", 1) != 0) {
        return NULL;
    }
    return memory;
}
