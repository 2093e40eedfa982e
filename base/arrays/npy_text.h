// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_NPY_TEXT_H
#define KILN_BASE_NPY_TEXT_H

/// Strings in .npy files: '<U3' is three letters of four bytes each, '|S3' three bytes.

#include "base_npy.h"

#include <stdbool.h>

/// Whether a type's name is that of strings, and the bytes of each.
bool kilni_npy_text_width(const char *descr, size_t *out_width);
/// Turns the elements that a file has into texts. Errors: DATA_LOSS for what is no letter.
kiln_status kilni_npy_text_decode(kiln_npy *array, bool bytes, kiln_error *err);
/// The elements of texts as a file has them; `out_array->data` is the caller's.
kiln_status kilni_npy_text_encode(const kiln_npy *array, kiln_npy *out_array, kiln_error *err);

#endif
