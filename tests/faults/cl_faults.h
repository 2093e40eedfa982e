// SPDX-License-Identifier: MIT OR Apache-2.0
// What a test tells the OpenCL layer cl_faults_layer.c, in a file that both have mapped: its path
// is the environment's KILN_TEST_CL_FAULTS.
#ifndef KILN_TESTS_CL_FAULTS_H
#define KILN_TESTS_CL_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct cl_faults {
    _Atomic uint64_t seen; ///< calls so far
    _Atomic uint64_t fail_at; ///< counted from 1; 0: none fails
    _Atomic int32_t code; ///< that the call then gives
    _Atomic uint32_t persistent; ///< those behind it fail too
    _Atomic uint32_t delay_us; ///< of the call that would fail, which then succeeds; 0: it fails
    char name[48]; ///< of the call that failed
} cl_faults;

#endif
