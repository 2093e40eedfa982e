// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_NPY_INTERNAL_H
#define KILN_BASE_NPY_INTERNAL_H

/// What npz.c needs of npy.c: a .npy file inside another.

#include "base_npy.h"

#include <stdio.h>

enum { KILNI_NPY_HEADER_ROOM = 1024 };

/// As kiln_npy_read, of an open file of `length` bytes, from where it stands.
kiln_status kilni_npy_read_stream(FILE *file, size_t length, kiln_npy *out_array, kiln_error *err);

/// What stands before the data: magic, version and header. Errors: UNIMPLEMENTED.
kiln_status kilni_npy_header(const kiln_npy *array, char out_header[KILNI_NPY_HEADER_ROOM],
                             size_t *out_length, kiln_error *err);

#endif
