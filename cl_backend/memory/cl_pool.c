// SPDX-License-Identifier: MIT OR Apache-2.0
// Device memory: one buffer for each allocation, kept in size classes after free. A freed buffer
// may be given out at once because the queue is in order. Decides rounding, the budget, how much is
// kept idle, and what goes when memory is short.

#include "cl_pool.h"
#include "cl_bank.h"
#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_queue.h"
#include "cl_record.h"
#include "cl_state.h"
#include "cl_svm.h"

enum {
    SMALLEST_LOG2 = 8, ///< 256 bytes, a multiple of every base alignment seen
    STEPS = 16, ///< classes for each power of two
    EXACT_CLASS = KILNI_CL_CLASSES, ///< rounding would exceed the largest allocation: not kept
    SPAN = 1024, ///< buffers given out
    KEPT_TIMES = 2, ///< what was used at most in this span and the last one, the pool may hold
    KEPT_ALWAYS = 32 << 20 ///< bytes
};

/// Where a buffer is made: the number of a bank, or one of these.
static const uint32_t anywhere = UINT32_MAX;
static const uint32_t in_arena = UINT32_MAX - 1;

// Classes 16 * i + j hold 2^(8 + i) * (16 + j) / 16 bytes: at most a sixteenth is lost.
static size_t class_bytes(uint32_t size_class)
{
    size_t power = (size_t)1 << (SMALLEST_LOG2 + size_class / STEPS);
    return power + power / STEPS * (size_class % STEPS);
}

static uint32_t class_of(size_t bytes)
{
    uint32_t size_class = 0;
    for (size_t rest = bytes >> SMALLEST_LOG2; rest > 1; rest >>= 1) {
        size_class += STEPS;
    }
    while (size_class < KILNI_CL_CLASSES && class_bytes(size_class) < bytes) {
        size_class++;
    }
    return size_class;
}

void kilni_cl_pool_init(kilni_cl_backend *backend)
{
    int64_t wanted = kiln_config_int(backend->env->config, KILN_OPTION_MEMORY_BUDGET);
    kilni_cl_set_budget(&backend->base, wanted > 0 ? (uint64_t)wanted : 0);
}

void kilni_cl_set_budget(kiln_backend *base, uint64_t bytes)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    backend->pool.budget = bytes > 0 ? bytes : backend->info.memory_bytes;
    backend->stats.bytes_budget = backend->pool.budget;
}

void kilni_cl_reset_peaks(kiln_backend *base)
{
    kiln_backend_stats *stats = &kilni_cl_backend_of(base)->stats;
    stats->bytes_peak = stats->bytes_used;
    stats->bytes_pooled_peak = stats->bytes_pooled;
}

// What a kernel that does not end may use stays until it has: drivers may wait for it in a release,
// and memory of the caller's would be given back while it is written. In order, for a sub-buffer
// goes before what it is a part of.
static void release_buffer(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    kilni_cl_record_gone(backend, (kiln_buffer *)(void *)buffer);
    backend->base.gone += buffer->prepared;
    if (kilni_cl_is_stuck(backend)) {
        kilni_cl_buffer **end = &backend->pool.stranded;
        while (*end != NULL) {
            end = &(*end)->next;
        }
        buffer->next = NULL;
        *end = buffer;
        return;
    }
    if (buffer->mem != NULL) {
        clReleaseMemObject(buffer->mem);
    }
    if (buffer->origin.memory != NULL && !buffer->direct) {
        buffer->origin.release(buffer->origin.user);
    }
    if (buffer->svm != NULL) {
        kilni_cl_svm_free(backend, buffer->svm);
    }
    if (buffer->slab != NULL) {
        kilni_cl_slab_leave(backend, buffer->slab);
    }
    kiln_free(backend->env, buffer);
}

static void destroy(kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    kilni_cl_pool *pool = &backend->pool;
    pool->held_bytes -= buffer->capacity;
    backend->stats.bytes_pooled = pool->held_bytes;
    release_buffer(backend, buffer);
}

/// Destroys idle buffers of a class, given back in span `last` or before, until the pool holds no
/// more than `held_bytes`. A piece of a slab that is in use stays, for the device gets nothing back
/// by it.
static void drop_idle(kilni_cl_backend *backend, uint32_t size_class, uint64_t last,
                      uint64_t held_bytes)
{
    kilni_cl_pool *pool = &backend->pool;
    kilni_cl_buffer **link = &pool->idle[size_class];
    while (*link != NULL && pool->held_bytes > held_bytes) {
        kilni_cl_buffer *buffer = *link;
        if (buffer->freed_in > last || (buffer->slab != NULL && buffer->slab->in_use > 0)) {
            link = &buffer->next;
            continue;
        }
        *link = buffer->next;
        pool->idle_bytes -= buffer->capacity;
        destroy(backend, buffer);
    }
}

void kilni_cl_pool_trim(kilni_cl_backend *backend)
{
    kilni_cl_pool *pool = &backend->pool;
    for (uint32_t i = 0; i < KILNI_CL_CLASSES; i++) {
        drop_idle(backend, i, UINT64_MAX, 0);
    }
    while (pool->stranded != NULL && !kilni_cl_is_stuck(backend)) {
        kilni_cl_buffer *buffer = pool->stranded;
        pool->stranded = buffer->next;
        release_buffer(backend, buffer);
    }
}

// Gives back idle buffers until the pool holds no more than `held_bytes`: first those that have
// been idle since before the last span, and of these and the others the largest first.
static void shrink(kilni_cl_backend *backend, uint64_t held_bytes)
{
    kilni_cl_pool *pool = &backend->pool;
    for (uint32_t i = KILNI_CL_CLASSES; i-- > 0 && pool->span >= 2;) {
        drop_idle(backend, i, pool->span - 2, held_bytes);
    }
    for (uint32_t i = KILNI_CL_CLASSES; i-- > 0;) {
        drop_idle(backend, i, UINT64_MAX, held_bytes);
    }
}

// ---- how much is kept ----

/// What the pool may hold while `used` bytes are in use.
static uint64_t kept_bytes(const kilni_cl_pool *pool, uint64_t used)
{
    for (uint32_t i = 0; i < 2; i++) {
        used = pool->peaks[i] > used ? pool->peaks[i] : used;
    }
    uint64_t kept = used > UINT64_MAX / KEPT_TIMES ? UINT64_MAX : used * KEPT_TIMES;
    kept = kept > KEPT_ALWAYS ? kept : KEPT_ALWAYS;
    return kept < pool->budget ? kept : pool->budget;
}

/// One more buffer is given out; a program that needs less than before gives the rest back.
static void count_span(kilni_cl_backend *backend)
{
    kilni_cl_pool *pool = &backend->pool;
    if (++pool->given < SPAN) {
        return;
    }
    pool->given = 0;
    pool->span++;
    pool->peaks[0] = pool->peaks[1];
    pool->peaks[1] = backend->stats.bytes_used;
    shrink(backend, kept_bytes(pool, 0));
}

static kiln_status out_of_memory(const kilni_cl_backend *backend, size_t bytes, kiln_error *err)
{
    const kilni_cl_pool *pool = &backend->pool;
    return kiln_fail(
        err, RESOURCE_EXHAUSTED,
        "no device memory for %zu bytes: %llu bytes in %llu buffers are in use, the budget "
        "is %llu; release tensors or raise memory-budget",
        bytes, (unsigned long long)(pool->held_bytes - pool->idle_bytes),
        (unsigned long long)backend->stats.buffers_live, (unsigned long long)pool->budget);
}

/// PoCL's processors work on the memory that a buffer was made over.
static void find_host(const kilni_cl_backend *backend, kilni_cl_buffer *buffer)
{
    if (backend->pocl && backend->info.type == KILN_DEVICE_CPU) {
        (void)clGetMemObjectInfo(buffer->mem, CL_MEM_HOST_PTR, sizeof(buffer->host), &buffer->host,
                                 NULL);
    }
}

static cl_int create_once(kilni_cl_backend *backend, uint32_t where, kilni_cl_buffer *buffer)
{
    cl_int code = CL_SUCCESS;
    if (where != anywhere && where != in_arena) {
        buffer->mem = kilni_cl_bank_create(backend, buffer->capacity, where, &code);
        return code;
    }
    if (where == in_arena) {
        code = kilni_cl_arena_create(backend, buffer);
    } else if (buffer->size_class < KILNI_CL_CLASSES && kilni_cl_slab_cut(backend, buffer)) {
        return CL_SUCCESS;
    } else {
        buffer->mem = kilni_cl_mem_create(backend, buffer->capacity, &code);
    }
    if (code == CL_SUCCESS) {
        find_host(backend, buffer);
    }
    return code;
}

static kiln_status create_mem(kilni_cl_backend *backend, size_t bytes, uint32_t where,
                              kilni_cl_buffer *buffer, kiln_error *err)
{
    cl_int code = create_once(backend, where, buffer);
    if (kilni_cl_is_memory_code(code)) {
        kiln_status status = kilni_cl_drain(backend, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_cl_pool_trim(backend);
        code = create_once(backend, where, buffer);
    }
    if (kilni_cl_is_memory_code(code)) {
        return out_of_memory(backend, bytes, err);
    }
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "a buffer of %zu bytes", buffer->capacity);
    }
    return KILN_STATUS_OK;
}

static bool has_room(kilni_cl_backend *backend, size_t bytes)
{
    const kilni_cl_pool *pool = &backend->pool;
    uint64_t kept = kept_bytes(pool, backend->stats.bytes_used + bytes);
    if (pool->held_bytes + bytes > kept) {
        shrink(backend, kept > bytes ? kept - bytes : 0);
    }
    return pool->held_bytes + bytes <= pool->budget;
}

static void count_held(kilni_cl_backend *backend, size_t bytes)
{
    kilni_cl_pool *pool = &backend->pool;
    pool->held_bytes += bytes;
    backend->stats.bytes_pooled = pool->held_bytes;
    if (pool->held_bytes > backend->stats.bytes_pooled_peak) {
        backend->stats.bytes_pooled_peak = pool->held_bytes;
    }
}

static void count_used(kilni_cl_backend *backend, size_t bytes)
{
    backend->stats.bytes_used += bytes;
    if (backend->stats.bytes_used > backend->stats.bytes_peak) {
        backend->stats.bytes_peak = backend->stats.bytes_used;
    }
    if (backend->stats.bytes_used > backend->pool.peaks[1]) {
        backend->pool.peaks[1] = backend->stats.bytes_used;
    }
}

bool kilni_cl_pool_hold(kilni_cl_backend *backend, size_t bytes)
{
    if (!has_room(backend, bytes)) {
        return false;
    }
    count_held(backend, bytes);
    count_used(backend, bytes);
    return true;
}

void kilni_cl_pool_leave(kilni_cl_backend *backend, size_t bytes)
{
    backend->pool.held_bytes -= bytes;
    backend->stats.bytes_pooled = backend->pool.held_bytes;
    backend->stats.bytes_used -= bytes;
}

static kiln_status create(kilni_cl_backend *backend, size_t bytes, size_t capacity,
                          uint32_t size_class, uint32_t where, kilni_cl_buffer **out_buffer,
                          kiln_error *err)
{
    kilni_cl_pool *pool = &backend->pool;
    if (!has_room(backend, capacity)) {
        return out_of_memory(backend, bytes, err);
    }
    kilni_cl_buffer *buffer = kiln_alloc(backend->env, sizeof(*buffer));
    if (buffer == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a buffer's description");
    }
    buffer->capacity = capacity;
    buffer->size_class = size_class;
    kiln_status status = create_mem(backend, bytes, where, buffer, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(backend->env, buffer);
        return status;
    }
    pool->creates++;
    count_held(backend, capacity);
    *out_buffer = buffer;
    return KILN_STATUS_OK;
}

static kilni_cl_buffer *take_idle(kilni_cl_pool *pool, uint32_t size_class)
{
    kilni_cl_buffer *buffer = pool->idle[size_class];
    if (buffer != NULL) {
        pool->idle[size_class] = buffer->next;
        pool->idle_bytes -= buffer->capacity;
        buffer->next = NULL;
        pool->hits++;
    }
    return buffer;
}

// Where one more would be too much, a buffer of up to twice the size will do: a step that uses many
// sizes one after another finds buffers for all of them, though the pool keeps fewer.
static kilni_cl_buffer *find_idle(kilni_cl_backend *backend, uint32_t size_class, size_t bytes)
{
    kilni_cl_pool *pool = &backend->pool;
    kilni_cl_buffer *buffer = take_idle(pool, size_class);
    if (pool->held_bytes + class_bytes(size_class) <=
        kept_bytes(pool, backend->stats.bytes_used + bytes)) {
        return buffer;
    }
    for (uint32_t i = 1; i <= STEPS && buffer == NULL && size_class + i < KILNI_CL_CLASSES; i++) {
        buffer = take_idle(pool, size_class + i);
    }
    return buffer;
}

kiln_status kilni_cl_check_size(const kilni_cl_backend *backend, size_t bytes, kiln_error *err)
{
    kiln_status status = kilni_cl_usable(backend, err);
    if (status == KILN_STATUS_OK && bytes > backend->info.max_alloc_bytes) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED,
                           "%zu bytes exceed the largest buffer of %.64s, %llu bytes", bytes,
                           backend->info.name, (unsigned long long)backend->info.max_alloc_bytes);
    }
    return status;
}

static void give_out(kilni_cl_backend *backend, kilni_cl_buffer *buffer, size_t bytes,
                     kiln_buffer **out_buffer)
{
    buffer->bytes = bytes;
    if (buffer->slab != NULL) {
        buffer->slab->in_use++;
    }
    backend->stats.buffers_live++;
    count_used(backend, bytes);
    count_span(backend);
    *out_buffer = (kiln_buffer *)(void *)buffer;
    kilni_cl_record_given(backend, *out_buffer);
}

// ---- what is lent to an operation ----

void kilni_cl_lend(kiln_backend *base, kiln_buffer *const *buffers, uint32_t count)
{
    kilni_cl_loan *loan = &kilni_cl_backend_of(base)->loan;
    loan->given = buffers;
    loan->n_given = count;
}

uint32_t kilni_cl_asked(kiln_backend *base, const uint64_t **out_bytes)
{
    const kilni_cl_loan *loan = &kilni_cl_backend_of(base)->loan;
    *out_bytes = loan->asked;
    return loan->n_asked;
}

// The n-th temporary of an operation takes the n-th loan.
static bool take_lent(kilni_cl_loan *loan, size_t bytes, kiln_buffer **out_buffer)
{
    if (!loan->executing || loan->n_asked == KILNI_CL_ASKED) {
        return false;
    }
    uint32_t number = loan->n_asked++;
    loan->asked[number] = bytes;
    kilni_cl_buffer *buffer =
        number < loan->n_given ? kilni_cl_buffer_of(loan->given[number]) : NULL;
    if (buffer == NULL || buffer->lent || buffer->bytes < bytes) {
        return false;
    }
    buffer->lent = true;
    *out_buffer = loan->given[number];
    return true;
}

kiln_status kilni_cl_alloc(kilni_cl_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                           kiln_error *err)
{
    *out_buffer = NULL;
    kiln_status status = kilni_cl_check_size(backend, bytes, err);
    if (status != KILN_STATUS_OK || take_lent(&backend->loan, bytes, out_buffer)) {
        return status;
    }
    uint32_t size_class = class_of(bytes);
    size_t capacity = class_bytes(size_class);
    if (backend->pool.exact || capacity > backend->info.max_alloc_bytes ||
        capacity > backend->pool.budget) {
        size_class = EXACT_CLASS;
        capacity = bytes > 0 ? bytes : 1;
    }
    kilni_cl_buffer *buffer =
        size_class < KILNI_CL_CLASSES ? find_idle(backend, size_class, bytes) : NULL;
    if (buffer == NULL) {
        status = create(backend, bytes, capacity, size_class, anywhere, &buffer, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    give_out(backend, buffer, bytes, out_buffer);
    return KILN_STATUS_OK;
}

static kiln_status alloc_exact(kilni_cl_backend *backend, size_t bytes, uint32_t where,
                               kiln_buffer **out_buffer, kiln_error *err)
{
    kilni_cl_buffer *buffer = NULL;
    *out_buffer = NULL;
    kiln_status status = kilni_cl_check_size(backend, bytes, err);
    if (status == KILN_STATUS_OK) {
        status = create(backend, bytes, bytes > 0 ? bytes : 1, EXACT_CLASS, where, &buffer, err);
    }
    if (status == KILN_STATUS_OK) {
        give_out(backend, buffer, bytes, out_buffer);
    }
    return status;
}

kiln_status kilni_cl_alloc_persistent(kilni_cl_backend *backend, size_t bytes,
                                      kiln_buffer **out_buffer, kiln_error *err)
{
    return alloc_exact(backend, bytes, anywhere, out_buffer, err);
}

kiln_status kilni_cl_alloc_bank(kilni_cl_backend *backend, size_t bytes, uint32_t bank,
                                kiln_buffer **out_buffer, kiln_error *err)
{
    return alloc_exact(backend, bytes, bank, out_buffer, err);
}

kiln_status kilni_cl_alloc_arena(kiln_backend *base, size_t bytes, kiln_buffer **out_buffer,
                                 kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    return alloc_exact(backend, bytes, in_arena, out_buffer, err);
}

kiln_status kilni_cl_buffer_adopt(kilni_cl_backend *backend, cl_mem mem, size_t bytes,
                                  kiln_buffer **out_buffer, kiln_error *err)
{
    *out_buffer = NULL;
    kilni_cl_buffer *buffer = kiln_alloc(backend->env, sizeof(*buffer));
    if (buffer == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a buffer's description");
    }
    buffer->mem = mem;
    buffer->size_class = EXACT_CLASS; // with a capacity of 0: none of the pool's bytes
    give_out(backend, buffer, mem != NULL ? bytes : 0, out_buffer);
    buffer->bytes = bytes;
    return KILN_STATUS_OK;
}

void kilni_cl_free(kilni_cl_backend *backend, kiln_buffer *given)
{
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(given);
    if (buffer == NULL) {
        return;
    }
    if (buffer->lent) {
        buffer->lent = false;
        return;
    }
    if (buffer->made != NULL) {
        kilni_cl_free(backend, buffer->made);
        buffer->made = NULL;
    }
    if (buffer->sub) {
        release_buffer(backend, buffer);
        return;
    }
    kilni_cl_pool *pool = &backend->pool;
    backend->stats.buffers_live--;
    bool counts = buffer->origin.memory == NULL || buffer->mem != NULL;
    backend->stats.bytes_used -= counts ? buffer->bytes : 0;
    if (buffer->size_class >= KILNI_CL_CLASSES) {
        destroy(backend, buffer);
        return;
    }
    if (buffer->slab != NULL) {
        buffer->slab->in_use--;
    }
    buffer->freed_in = pool->span;
    buffer->next = pool->idle[buffer->size_class];
    pool->idle[buffer->size_class] = buffer;
    pool->idle_bytes += buffer->capacity;
}

kiln_status kilni_cl_check_range(const kilni_cl_buffer *buffer, size_t offset, size_t bytes,
                                 kiln_error *err)
{
    if (buffer == NULL || offset > buffer->bytes || bytes > buffer->bytes - offset) {
        return kiln_fail(err, OUT_OF_RANGE, "%zu bytes at offset %zu of a buffer of %zu bytes",
                         bytes, offset, buffer != NULL ? buffer->bytes : (size_t)0);
    }
    return KILN_STATUS_OK;
}
