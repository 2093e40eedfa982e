// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_NPY_H
#define KILN_NPY_H

/// .npy files (NumPy's format, versions 1 to 3): one dense array. Files are hostile until checked.
/// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#include "base.h"

#include <stdio.h>

#define NPY_MAX_RANK 8

typedef struct npy_array {
    kiln_dtype dtype;
    size_t rank;
    int64_t dims[NPY_MAX_RANK];
    void *data; ///< row-major, malloc
    size_t bytes;
} npy_array;

/// Reads the whole of a file; Fortran order is turned into row-major. `out_array->data` is the
/// caller's (npy_free). Errors: NOT_FOUND, DATA_LOSS (truncated or not .npy), UNIMPLEMENTED
/// (another element type or byte order).
kiln_status npy_read(const char *path, npy_array *out_array, kiln_error *err);
/// The same of an open file of `length` bytes, from where it stands.
kiln_status npy_read_stream(FILE *file, size_t length, npy_array *out_array, kiln_error *err);
void npy_free(npy_array *array);

size_t npy_count(const npy_array *array); ///< of its elements
double npy_number(const npy_array *array, size_t index); ///< the element as a number

/// An array of a .npz file: a zip archive of .npy files, as numpy.savez and savez_compressed write
/// it. `out_name` is the caller's buffer for its name, without ".npy". Errors: NOT_FOUND past the
/// last array; as npy_read, UNIMPLEMENTED for archives of more than 4 GiB.
enum { NPZ_NAME_ROOM = 128 };
kiln_status npz_read(const char *path, size_t index, char out_name[NPZ_NAME_ROOM],
                     npy_array *out_array, kiln_error *err);

/// Writes version 1. Errors: UNAVAILABLE with the reason, UNIMPLEMENTED for bf16, which NumPy has
/// not.
kiln_status npy_write(const char *path, const npy_array *array, kiln_error *err);

#endif
