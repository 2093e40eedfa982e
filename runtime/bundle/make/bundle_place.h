// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_PLACE_H
#define KILNI_BUNDLE_PLACE_H

/// Functions of a text that ask for the place in the grid and are no kernels: they are given it.

#include "base.h"

/// What a function declares and what its caller gives, before its own parameters.
#define BUNDLE_PLACE_PARAMS                                                                        \
    "const size_t kiln_x, const size_t kiln_y, const size_t kiln_z, const size_t kiln_nx, "        \
    "const size_t kiln_ny, const size_t kiln_nz"
#define BUNDLE_PLACE_VALUES "kiln_x, kiln_y, kiln_z, kiln_nx, kiln_ny, kiln_nz"

/// Whether a function of this name is a kernel.
typedef bool (*bundle_kernel_fn)(const char *name, size_t length, const void *user);

/// Appends the text with the place among the parameters of those functions, and among the arguments
/// of their calls. False: there are too many, or no memory.
bool kilni_bundle_give_place(const char *text, bundle_kernel_fn is_kernel, const void *user,
                             kiln_string *out);

#endif
