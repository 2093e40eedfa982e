// SPDX-License-Identifier: MIT OR Apache-2.0
// Large pages for large buffers. A product of one row reads weights once, from end to end: with
// pages of 4 KiB each 64 lines of it wait for a walk through page tables, in a virtual machine
// through two of them. PoCL takes its memory from malloc, which asks for no large pages, so large
// buffers are made over memory that does. The memory begins where a large page may; what follows
// the last whole one has small pages, so no buffer takes more memory than it is long.

#define _GNU_SOURCE // madvise
#include <stdint.h>
#include <sys/mman.h>

#include "cl_pages.h"

enum { LARGE = 2 << 20, PAGE = 4096, ALIGN = 128 }; // the last one is what OpenCL types need

/// Maps `bytes` from a multiple of LARGE on. MAP_FAILED when there is no memory.
static void *map_large(size_t bytes)
{
    unsigned char *whole = mmap(NULL, bytes + LARGE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
    if (whole == MAP_FAILED) {
        return MAP_FAILED;
    }
    size_t before = (LARGE - (uintptr_t)whole % LARGE) % LARGE;
    if (before > 0) {
        (void)munmap(whole, before);
    }
    (void)munmap(whole + before + bytes, LARGE - before);
#ifdef MADV_HUGEPAGE
    (void)madvise(whole + before, bytes, MADV_HUGEPAGE);
#endif
    return whole + before;
}

/// A driver may keep a buffer, and somebody who was lent one, until after the context and its
/// environment have gone, so nothing here is of theirs.
static void *allocate(size_t bytes, size_t align)
{
    const kiln_allocator own = kiln_allocator_default();
    return own.alloc(own.user, bytes, align);
}

static void release(void *memory)
{
    const kiln_allocator own = kiln_allocator_default();
    own.free(own.user, memory);
}

kilni_cl_pages *kilni_cl_pages_map(size_t bytes)
{
    kilni_cl_pages *pages =
        bytes <= SIZE_MAX - LARGE - PAGE ? allocate(sizeof(*pages), ALIGN) : NULL;
    if (pages == NULL) {
        return NULL;
    }
    *pages = (kilni_cl_pages){.bytes = bytes};
    pages->memory = bytes >= KILNI_CL_PAGES_LEAST
                        ? map_large((bytes + PAGE - 1) / PAGE * PAGE)
                        : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                               /*fd=*/-1, 0);
    if (pages->memory == MAP_FAILED) {
        release(pages);
        return NULL;
    }
    return pages;
}

kilni_cl_pages *kilni_cl_pages_alloc(size_t bytes)
{
    kilni_cl_pages *pages = bytes <= PTRDIFF_MAX - ALIGN ? allocate(bytes + ALIGN, ALIGN) : NULL;
    if (pages != NULL) {
        *pages = (kilni_cl_pages){.bytes = bytes, .allocated = true};
        pages->memory = (unsigned char *)pages + ALIGN;
    }
    return pages;
}

void kilni_cl_pages_unmap(kilni_cl_pages *pages)
{
    if (pages != NULL && !pages->allocated) {
        (void)munmap(pages->memory, pages->bytes);
    }
    if (pages != NULL) {
        release(pages);
    }
}

static void CL_CALLBACK gone(cl_mem mem, void *user)
{
    (void)mem;
    kilni_cl_pages_unmap(user);
}

cl_mem kilni_cl_pages_wrap(cl_context context, kilni_cl_pages *take_pages, cl_int *out_code)
{
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, take_pages->bytes,
                                take_pages->memory, out_code);
    if (*out_code == CL_SUCCESS) {
        *out_code = clSetMemObjectDestructorCallback(mem, gone, take_pages);
        if (*out_code == CL_SUCCESS) {
            return mem;
        }
        clReleaseMemObject(mem);
    }
    kilni_cl_pages_unmap(take_pages);
    return NULL;
}
