// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_SVM_H
#define KILNI_CL_SVM_H

/// What parts of a buffer are made over: the driver's sub-buffers, or shared virtual memory.

#include "cl_buffer.h"

/// What sub-buffers are.
typedef enum kilni_cl_sub_buffers {
    KILNI_CL_SUB_DRIVERS, ///< those of OpenCL
    KILNI_CL_SUB_UNPROVEN, ///< shared virtual memory, of which nothing was tried yet
    KILNI_CL_SUB_SVM,
    KILNI_CL_SUB_NONE
} kilni_cl_sub_buffers;

/// Sets `sub_buffers` for the device that was opened.
void kilni_cl_sub_buffers_init(kilni_cl_backend *backend);
/// Whether memory may be shared virtual memory with sub-buffers; asks the device the first time.
bool kilni_cl_shares(kilni_cl_backend *backend);
/// A buffer of OpenCL's, in large pages where the device is a processor and the buffer long enough.
cl_mem kilni_cl_mem_create(kilni_cl_backend *backend, size_t bytes, cl_int *code);
/// A buffer of OpenCL's over `memory`, shared virtual memory.
cl_mem kilni_cl_mem_over(kilni_cl_backend *backend, void *memory, size_t bytes, cl_int *code);
/// `mem`, and `svm` where sub-buffers need it, of an arena of `capacity` bytes; a code of OpenCL's.
cl_int kilni_cl_arena_create(kilni_cl_backend *backend, kilni_cl_buffer *buffer);
/// Frees it when what is queued now has run.
void kilni_cl_svm_free(kilni_cl_backend *backend, void *svm);
/// Makes `mem` of a small buffer a piece of a slab; false: it is none, and has to be on its own.
bool kilni_cl_slab_cut(kilni_cl_backend *backend, kilni_cl_buffer *buffer);
/// After `mem` was released.
void kilni_cl_slab_leave(kilni_cl_backend *backend, kilni_cl_slab *slab);

#endif
