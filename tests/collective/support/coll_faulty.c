// SPDX-License-Identifier: MIT OR Apache-2.0
// The faulty memory: each function counts, waits, perhaps fails, and then asks the host's memory.
#include "coll_faulty.h"

#include <time.h>

#include "harness.h"

static faulty_memory *faulty_of(kiln_coll_memory *memory)
{
    return (faulty_memory *)memory;
}

static kiln_status step(kiln_coll_memory *memory, const char *what, kiln_error *err)
{
    faulty_memory *faulty = faulty_of(memory);
    unsigned number = atomic_fetch_add(&faulty->calls, 1) + 1;
    if (faulty->delay_us > 0) {
        uint64_t random = kiln_hash64(&number, sizeof(number), (uint64_t)(uintptr_t)memory);
        struct timespec pause = {.tv_nsec = (long)(random % faulty->delay_us) * 1000};
        nanosleep(&pause, NULL);
    }
    snag_pass(&faulty->snag, number);
    return number == faulty->fail_at ? kiln_fail(err, DEVICE_LOST, "%s failed on purpose", what)
                                     : KILN_STATUS_OK;
}

static kiln_status faulty_alloc(kiln_coll_memory *memory, size_t bytes,
                                kiln_coll_buffer **out_buffer, kiln_error *err)
{
    kiln_coll_memory *host = faulty_of(memory)->host;
    kiln_status status = step(memory, "alloc", err);
    if (status == KILN_STATUS_OK) {
        status = host->ops->alloc(host, bytes, out_buffer, err);
        atomic_fetch_add(&faulty_of(memory)->open_count, status == KILN_STATUS_OK);
    }
    return status;
}

static void faulty_free(kiln_coll_memory *memory, kiln_coll_buffer *buffer)
{
    kiln_coll_memory *host = faulty_of(memory)->host;
    host->ops->free(host, buffer);
    atomic_fetch_sub(&faulty_of(memory)->open_count, 1);
}

static kiln_status faulty_copy(kiln_coll_memory *memory, const kiln_coll_area *target,
                               const kiln_coll_area *source, kiln_error *err)
{
    kiln_coll_memory *host = faulty_of(memory)->host;
    kiln_status status = step(memory, "copy", err);
    return status == KILN_STATUS_OK ? host->ops->copy(host, target, source, err) : status;
}

static kiln_status faulty_convert(kiln_coll_memory *memory, const kiln_coll_area *target,
                                  const kiln_coll_area *source, uint32_t divisor, kiln_error *err)
{
    kiln_coll_memory *host = faulty_of(memory)->host;
    kiln_status status = step(memory, "convert", err);
    return status == KILN_STATUS_OK ? host->ops->convert(host, target, source, divisor, err)
                                    : status;
}

static kiln_status faulty_reduce(kiln_coll_memory *memory, const kiln_coll_area *target,
                                 const kiln_coll_area *left, const kiln_coll_area *right,
                                 kiln_coll_op op, kiln_error *err)
{
    kiln_coll_memory *host = faulty_of(memory)->host;
    kiln_status status = step(memory, "reduce", err);
    return status == KILN_STATUS_OK ? host->ops->reduce(host, target, left, right, op, err)
                                    : status;
}

static kiln_status faulty_map(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    kiln_coll_memory *host = faulty_of(memory)->host;
    kiln_status status = step(memory, "map", err);
    if (status == KILN_STATUS_OK) {
        status = host->ops->map(host, area, access, out_pointer, err);
        atomic_fetch_add(&faulty_of(memory)->open_count, status == KILN_STATUS_OK);
    }
    return status;
}

static kiln_status faulty_unmap(kiln_coll_memory *memory, const kiln_coll_area *area,
                                kiln_coll_access access, void *pointer, kiln_error *err)
{
    kiln_coll_memory *host = faulty_of(memory)->host;
    atomic_fetch_sub(&faulty_of(memory)->open_count, 1);
    kiln_status status = step(memory, "unmap", err);
    kiln_status unmapped = host->ops->unmap(host, area, access, pointer, NULL);
    return status != KILN_STATUS_OK ? status : unmapped;
}

static kiln_status faulty_after(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                kiln_error *err)
{
    faulty_memory *faulty = faulty_of(memory);
    kiln_status status = step(memory, "after", err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&faulty->mutex);
    bool held = faulty->holds_after && faulty->held_count < FAULTY_HELD;
    if (held) {
        faulty->held[faulty->held_count] = done;
        faulty->held_user[faulty->held_count++] = user;
    }
    pthread_mutex_unlock(&faulty->mutex);
    if (!held) {
        done(KILN_STATUS_OK, user);
    }
    return KILN_STATUS_OK;
}

static void faulty_signal(kiln_coll_memory *memory, void *event, const kiln_error *result)
{
    atomic_fetch_add(&faulty_of(memory)->signalled, 1);
    *(int *)event = result->code;
}

static void faulty_give_up(kiln_coll_memory *memory, void *event, const kiln_error *result)
{
    atomic_fetch_add(&faulty_of(memory)->given_up, 1);
    *(int *)event = result->code;
}

static void faulty_close(kiln_coll_memory *memory)
{
    atomic_store(&faulty_of(memory)->closed, true);
}

#define COMMON                                                                                     \
    .struct_size = (uint32_t)sizeof(kiln_coll_memory_ops), .name = "faulty",                       \
    .alloc = faulty_alloc, .free = faulty_free, .copy = faulty_copy, .convert = faulty_convert,    \
    .reduce = faulty_reduce, .map = faulty_map, .unmap = faulty_unmap,                             \
    .write = kiln_coll_no_write, .after = faulty_after, .finish = kiln_coll_finish_all,            \
    .signal = faulty_signal, .give_up = faulty_give_up

static const kiln_coll_memory_ops faulty_ops = {COMMON, .close = kiln_coll_no_close};
static const kiln_coll_memory_ops closing_ops = {COMMON, .is_left = true, .close = faulty_close};

void faulty_leave_behind(faulty_memory *memory)
{
    memory->base.ops = &closing_ops;
}

void faulty_init(faulty_memory *memory, const kiln_env *env)
{
    *memory = (faulty_memory){.base = {.ops = &faulty_ops}};
    pthread_mutex_init(&memory->mutex, NULL);
    snag_init(&memory->snag);
    KILN_CHECK_INT(kiln_coll_host_memory_create(env, &memory->host, NULL), KILN_STATUS_OK);
}

void faulty_fini(faulty_memory *memory)
{
    KILN_CHECK_INT(atomic_load(&memory->open_count), 0);
    faulty_release(memory);
    kiln_coll_host_memory_destroy(memory->host);
    pthread_mutex_destroy(&memory->mutex);
    snag_fini(&memory->snag);
}

void faulty_release(faulty_memory *memory)
{
    pthread_mutex_lock(&memory->mutex);
    for (int i = 0; i < memory->held_count; i++) {
        memory->held[i](KILN_STATUS_OK, memory->held_user[i]);
    }
    memory->held_count = 0;
    memory->holds_after = false;
    pthread_mutex_unlock(&memory->mutex);
}
