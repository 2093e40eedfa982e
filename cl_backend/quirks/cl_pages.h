// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_PAGES_H
#define KILNI_CL_PAGES_H

/// Memory of the host for buffers of devices that share it, in pages as large as the system gives.
/// Any thread.

#include <stdbool.h>
#include <stddef.h>

#include "cl_opencl.h"
#include "kiln_env.h"

enum { KILNI_CL_PAGES_LEAST = 2 << 20 }; ///< bytes from which on large pages are asked for

typedef struct kilni_cl_pages {
    void *memory; ///< zeros, at first
    size_t bytes;
    bool allocated; ///< behind this description
} kilni_cl_pages;

/// NULL: there is no such memory.
kilni_cl_pages *kilni_cl_pages_map(size_t bytes);
/// For less than KILNI_CL_PAGES_LEAST: it may share pages with others, and its content is not
/// defined.
kilni_cl_pages *kilni_cl_pages_alloc(size_t bytes);
void kilni_cl_pages_unmap(kilni_cl_pages *pages);
/// A buffer over the memory, which goes when the driver has let the buffer go, or here when the
/// driver does not take it.
cl_mem kilni_cl_pages_wrap(cl_context context, kilni_cl_pages *take_pages, cl_int *out_code);

#endif
