// SPDX-License-Identifier: MIT OR Apache-2.0
// What a test tells the OpenCL layer cl_faults_layer.c, in a file that both have mapped: its path
// is the environment's KILN_TEST_CL_FAULTS.
#ifndef KILN_TESTS_CL_FAULTS_H
#define KILN_TESTS_CL_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

typedef enum cl_faults_kind {
    CL_FAULTS_FAIL = 0, ///< calls are counted; the one gives a code, or takes long
    CL_FAULTS_FLIP, ///< reads are counted: the one delivers its bytes with a bit changed
    CL_FAULTS_STALE, ///< the one leaves what was there: of a map, zeros
} cl_faults_kind;

typedef struct cl_faults {
    _Atomic uint64_t seen; ///< calls so far, or reads
    _Atomic uint64_t fail_at; ///< counted from 1; 0: none fails
    _Atomic int32_t code; ///< that the call then gives
    _Atomic uint32_t persistent; ///< those behind it fail too
    _Atomic uint32_t delay_us; ///< of the call that would fail, which then succeeds; 0: it fails
    _Atomic uint32_t kind; ///< cl_faults_kind
    _Atomic uint64_t flip_at; ///< the byte with the bit, from the first one's on, around the end
    char name[48]; ///< of the call that failed
    char only[48]; ///< calls of this name alone are counted; "": all
} cl_faults;

/// Memory that the layer of every OpenCL call of this process will look at; NULL: there is none.
/// Before the first such call.
cl_faults *cl_faults_share(void);

#endif
