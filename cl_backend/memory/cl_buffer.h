// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BUFFER_H
#define KILNI_CL_BUFFER_H

/// What a kiln_buffer is here.

#include "base_hash.h"
#include "cl_opencl.h"
#include "ir_memory.h"

typedef struct kilni_cl_slab { ///< shared virtual memory that small buffers are pieces of
    void *svm;
    size_t bytes;
    size_t filled; ///< of them that were made pieces
    uint32_t pieces; ///< not destroyed
    uint32_t in_use; ///< pieces that are given out
} kilni_cl_slab;

typedef struct kilni_cl_buffer {
    cl_mem mem; ///< NULL: not on the device now, but at its origin
    size_t bytes; ///< asked for
    size_t capacity; ///< of `mem`
    uint32_t size_class;
    bool sub; ///< part of another buffer: in no account
    bool prepared; ///< an argument of a launch that was prepared, at some time
    bool lent; ///< a sub-buffer that an operation uses as its temporary
    unsigned char *host; ///< where the host finds what PoCL's kernels work on; NULL: not known
    void *svm; ///< what `mem` is made over, when sub-buffers need that
    kilni_cl_slab *slab; ///< what it is a piece of
    unsigned char *address; ///< on the device; NULL: not known
    void *shared; ///< the allocation that `address` lies in
    kiln_host_origin origin; ///< where its bytes can be had again; NULL memory: nowhere
    bool direct; ///< `mem` is the origin's memory
    kiln_buffer *made; ///< of one with an origin: what an operator made of it (cl_origin.h)
    kiln_hash128 made_as;
    uint64_t freed_in; ///< span of the pool in which it became idle
    struct kilni_cl_buffer *next; ///< in its free list
} kilni_cl_buffer;

static inline kilni_cl_buffer *kilni_cl_buffer_of(kiln_buffer *buffer)
{
    return (kilni_cl_buffer *)(void *)buffer;
}

#endif
