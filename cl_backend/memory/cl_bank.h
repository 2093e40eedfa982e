// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BANK_H
#define KILNI_CL_BANK_H

/// Banks of a board's memory, by the flags of its vendor.

#include "cl_buffer.h"

/// A buffer of OpenCL's in a bank, counted from 0, where the platform has words for banks; else
/// one anywhere. CL_INVALID_VALUE: the platform has no words for so many.
cl_mem kilni_cl_bank_create(kilni_cl_backend *backend, size_t bytes, uint32_t bank, cl_int *code);

#endif
