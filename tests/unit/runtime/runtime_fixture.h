// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_RUNTIME_FIXTURE_H
#define KILN_TESTS_RUNTIME_FIXTURE_H

/// A context and a device for a test, with a check at the end that everything was given back.

#include "harness.h"
#include "kiln.h"

typedef struct fixture {
    kiln_context *context;
    kiln_device *device;
    kiln_error err;
} fixture;

/// Opens `address`; with no OpenCL device the running case is skipped, visibly. False: return.
bool fixture_open(fixture *self, const char *address);
bool fixture_open_with(fixture *self, const char *address, const char *option, const char *value);

/// Checks that no tensor, buffer or byte is left, and closes.
void fixture_close(fixture *self);

/// A call that has to succeed: fails the case with the error's text.
#define FIXTURE_OK(self, call)                                                                     \
    kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, (self)->err.message)

kiln_tensor *fixture_f32(fixture *self, size_t rank, const int64_t *dims, const float *data);

#endif
