// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_CL_FIXTURE_H
#define KILN_TESTS_CL_FIXTURE_H

/// A device for a test, with a cache folder and settings of its own, and an allocator that counts.

#include "cl_state.h"
#include "faults.h"
#include "harness.h"

typedef struct cl_fixture {
    kiln_env env;
    kiln_faults faults;
    char log[4096]; ///< what was logged, cut
    kiln_backend *base;
    kilni_cl_backend *backend;
} cl_fixture;

typedef struct cl_settings {
    const char *cache; ///< folder; NULL: off
    const char *budget; ///< NULL: the device's
    const char *kernel_dir;
    const char *address; ///< NULL: the first
    const char *tune; ///< NULL: off
    const char *deterministic; ///< NULL: not
    const char *program_limit; ///< bytes; NULL: the option's default
} cl_settings;

/// Opens the device; skips the case when there is none, and gives false.
bool cl_fixture_open(cl_fixture *f, const cl_settings *settings);

/// Closes it and checks that nothing is left: no host memory, no buffer.
void cl_fixture_close(cl_fixture *f);

/// Environment without a device, for addresses that do not open.
bool cl_fixture_env(cl_fixture *f, const cl_settings *settings);
void cl_fixture_env_fini(cl_fixture *f);

/// References to a context besides the caller's own, once the driver's threads have let go; gives
/// up after 5 s.
cl_uint cl_fixture_references(cl_context context);

kiln_buffer *cl_fixture_buffer(cl_fixture *f, size_t bytes, const void *data);

/// A program of one OpenCL C source and one launch for each kernel name.
typedef struct cl_program_text {
    kiln_program_source source;
    kiln_program_launch launches[4];
    kiln_program program;
} cl_program_text;
void cl_program_text_init(cl_program_text *text, const char *source, const char *const *kernels,
                          uint32_t n_kernels);

#endif
