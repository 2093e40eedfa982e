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

enum { LARGE = 2 << 20 };

typedef struct mapped {
    const kiln_env *env;
    void *memory;
    size_t bytes;
} mapped;

static void unmap(mapped *self)
{
    (void)munmap(self->memory, self->bytes);
    kiln_free(self->env, self);
}

/// Maps `bytes` from a multiple of LARGE on.
static mapped *map(const kiln_env *env, size_t bytes)
{
    mapped *self = kiln_alloc(env, sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    unsigned char *whole =
        mmap(NULL, bytes + LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) {
        kiln_free(env, self);
        return NULL;
    }
    size_t before = (LARGE - (uintptr_t)whole % LARGE) % LARGE;
    *self = (mapped){.env = env, .memory = whole + before, .bytes = bytes};
    if (before > 0) {
        (void)munmap(whole, before);
    }
    (void)munmap(whole + before + bytes, LARGE - before);
#ifdef MADV_HUGEPAGE
    (void)madvise(self->memory, bytes, MADV_HUGEPAGE);
#endif
    return self;
}

static void CL_CALLBACK gone(cl_mem mem, void *user)
{
    (void)mem;
    unmap(user);
}

cl_mem kilni_cl_pages_create(const kiln_env *env, cl_context context, size_t bytes)
{
    enum { PAGE = 4096 };
    cl_int code = CL_SUCCESS;
    if (bytes > SIZE_MAX - LARGE - PAGE) {
        return NULL;
    }
    mapped *self = map(env, (bytes + PAGE - 1) / PAGE * PAGE);
    if (self == NULL) {
        return NULL;
    }
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes,
                                self->memory, &code);
    if (code != CL_SUCCESS) {
        unmap(self);
        return NULL;
    }
    if (clSetMemObjectDestructorCallback(mem, gone, self) != CL_SUCCESS) {
        clReleaseMemObject(mem);
        unmap(self);
        return NULL;
    }
    return mem;
}
