// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_NPY_H
#define KILN_BASE_NPY_H

/// For Kiln's own modules: NumPy's files. A .npy has one dense array, in versions 1 to 3 of the
/// format; a .npz is a zip archive of such files, as numpy.savez and savez_compressed write it.
/// Files are hostile until checked.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
///
/// Any thread may call any function; arguments are borrowed for the call. Readers fail with
/// NOT_FOUND, DATA_LOSS (truncated or something else), UNIMPLEMENTED (another element type, byte
/// order or compression; archives of more than 4 GiB) and RESOURCE_EXHAUSTED; writers with
/// UNAVAILABLE and the reason, and UNIMPLEMENTED for bf16, which NumPy has not. No pointer is NULL
/// unless a function takes it.

#include "kiln_dtype.h"
#include "kiln_status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KILN_NPY_MAX_RANK = 8, KILN_NPZ_NAME_ROOM = 128 };

typedef struct kiln_npy {
    kiln_dtype dtype;
    size_t rank;
    int64_t dims[KILN_NPY_MAX_RANK];
    void *data; ///< row-major, malloc
    size_t bytes;
    size_t width; ///< of strings in a file: bytes of each
    const char **texts; ///< of strings, whose dtype is NONE: UTF-8, one block with `data` NULL
} kiln_npy;

/// Reads the whole of a .npy file; Fortran order is turned into row-major. `out_array->data` is the
/// caller's (kiln_npy_free).
KILN_NODISCARD KILN_API kiln_status kiln_npy_read(const char *path, kiln_npy *out_array,
                                                  kiln_error *err);

/// Reads the array number `index` of a .npz file, in the order in which it was written. `out_name`
/// is the caller's buffer for its name, without ".npy". Errors: also NOT_FOUND past the last array.
KILN_NODISCARD KILN_API kiln_status kiln_npz_read(const char *path, size_t index,
                                                  char out_name[KILN_NPZ_NAME_ROOM],
                                                  kiln_npy *out_array, kiln_error *err);

/// Frees the data of an array.
KILN_API void kiln_npy_free(kiln_npy *array);

/// Makes an array of strings, whose rank and dims are set, of copies. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_npy_set_texts(kiln_npy *array, const char *const *texts,
                                                       kiln_error *err);

/// Number of elements.
KILN_API size_t kiln_npy_count(const kiln_npy *array);

/// The element `index` as a number; NaN of strings.
KILN_API double kiln_npy_number(const kiln_npy *array, size_t index);

/// Writes a .npy file, version 1.
KILN_NODISCARD KILN_API kiln_status kiln_npy_write(const char *path, const kiln_npy *array,
                                                   kiln_error *err);

/// Writes a .npz file of arrays that are no strings, uncompressed. A file of that name is replaced
/// when the new one is whole.
KILN_NODISCARD KILN_API kiln_status kiln_npz_write(const char *path, const char *const *names,
                                                   const kiln_npy *arrays, size_t count,
                                                   kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
