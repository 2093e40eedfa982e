// SPDX-License-Identifier: MIT OR Apache-2.0
// The host's memory as a rank's memory: everything happens at once, on the calling thread; a
// mapping is the address itself. What is combined how is in coll_host_reduce.c.
#include "coll_host_reduce.h"

#include <string.h>

typedef struct host_memory {
    kiln_coll_memory base;
    const kiln_env *env;
} host_memory;

static unsigned char *at(const kiln_coll_area *area)
{
    return (unsigned char *)area->buffer + area->offset;
}

static kiln_status host_alloc(kiln_coll_memory *memory, size_t bytes, kiln_coll_buffer **out_buffer,
                              kiln_error *err)
{
    const kiln_allocator *allocator = &((host_memory *)memory)->env->allocator;
    *out_buffer = allocator->alloc(allocator->user, bytes, 64);
    return *out_buffer != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
}

static void host_free(kiln_coll_memory *memory, kiln_coll_buffer *buffer)
{
    kiln_free(((host_memory *)memory)->env, buffer);
}

static kiln_status host_copy(kiln_coll_memory *memory, const kiln_coll_area *target,
                             const kiln_coll_area *source, kiln_error *err)
{
    (void)memory;
    (void)err;
    memmove(at(target), at(source), kiln_coll_area_bytes(target));
    return KILN_STATUS_OK;
}

static kiln_status host_convert(kiln_coll_memory *memory, const kiln_coll_area *target,
                                const kiln_coll_area *source, uint32_t divisor, kiln_error *err)
{
    (void)memory;
    if (!kilni_coll_host_convert(at(target), target->dtype, at(source), source->dtype,
                                 target->count, divisor)) {
        return kiln_fail(err, UNIMPLEMENTED, "the host converts no %s to %s",
                         kiln_dtype_name(source->dtype), kiln_dtype_name(target->dtype));
    }
    return KILN_STATUS_OK;
}

static kiln_status host_reduce(kiln_coll_memory *memory, const kiln_coll_area *target,
                               const kiln_coll_area *left, const kiln_coll_area *right,
                               kiln_coll_op op, kiln_error *err)
{
    (void)memory;
    if (!kilni_coll_host_reduce(at(target), at(left), at(right), target->count, target->dtype,
                                op)) {
        return kiln_fail(err, UNIMPLEMENTED, "the host has no %s of %s", kiln_coll_op_name(op),
                         kiln_dtype_name(target->dtype));
    }
    return KILN_STATUS_OK;
}

static kiln_status host_map(kiln_coll_memory *memory, const kiln_coll_area *area,
                            kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    (void)memory;
    (void)access;
    (void)err;
    *out_pointer = at(area);
    return KILN_STATUS_OK;
}

static kiln_status host_unmap(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void *pointer, kiln_error *err)
{
    (void)memory;
    (void)area;
    (void)access;
    (void)pointer;
    (void)err;
    return KILN_STATUS_OK;
}

static kiln_status host_after(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                              kiln_error *err)
{
    (void)memory;
    (void)err;
    done(KILN_STATUS_OK, user);
    return KILN_STATUS_OK;
}

/// An event of host memory is an int that receives the status.
static void host_signal(kiln_coll_memory *memory, void *event, const kiln_error *result)
{
    (void)memory;
    *(int *)event = result->code;
}

static const kiln_coll_memory_ops host_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_memory_ops),
    .name = "host",
    .alloc = host_alloc,
    .free = host_free,
    .copy = host_copy,
    .convert = host_convert,
    .reduce = host_reduce,
    .map = host_map,
    .unmap = host_unmap,
    .write = kiln_coll_no_write,
    .after = host_after,
    .finish = kiln_coll_finish_all,
    .signal = host_signal,
    .give_up = kiln_coll_no_give_up,
    .close = kiln_coll_no_close,
};

kiln_status kiln_coll_host_memory_create(const kiln_env *env, kiln_coll_memory **out_memory,
                                         kiln_error *err)
{
    *out_memory = NULL;
    host_memory *memory = kiln_alloc(env, sizeof(*memory));
    if (memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a memory of the host");
    }
    memory->base.ops = &host_ops;
    memory->env = env;
    *out_memory = &memory->base;
    return KILN_STATUS_OK;
}

void kiln_coll_host_memory_destroy(kiln_coll_memory *memory)
{
    if (memory != NULL) {
        kiln_free(((host_memory *)memory)->env, memory);
    }
}
