// SPDX-License-Identifier: MIT OR Apache-2.0
// Host memory for the two backends of ir. Everything is done when a call returns, so nothing waits.
// Every range is checked against its buffer: offsets come from views, and views can come from
// elsewhere.
#include <string.h>

#include "backend_host.h"

enum { BUFFER_ALIGN = 128 };

static kilni_host_backend *host_of(kiln_backend *backend)
{
    return (kilni_host_backend *)backend;
}

static void limit(kilni_host_backend *host, uint64_t bytes)
{
    host->budget = bytes > 0 ? bytes : host->info.memory_bytes;
}

kiln_status kilni_host_open(const kiln_env *env, const kiln_backend *tables,
                            const kiln_device_info *info, kiln_backend **out_backend,
                            kiln_error *err)
{
    *out_backend = NULL;
    kilni_host_backend *host = kiln_alloc(env, sizeof(*host));
    if (host == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for a backend", tables->scheme);
    }
    host->base = *tables;
    host->base.env = env;
    host->info = *info;
    host->info.fingerprint = kiln_hash_bytes(info->name, strlen(info->name));
    limit(host, (uint64_t)kiln_config_int(env->config, KILN_OPTION_MEMORY_BUDGET));
    *out_backend = &host->base;
    return KILN_STATUS_OK;
}

void kilni_host_close(kiln_backend *backend)
{
    if (backend != NULL) {
        kiln_free(backend->env, host_of(backend)->texts);
        kiln_free(backend->env, backend);
    }
}

const kiln_device_info *kilni_host_info(kiln_backend *backend)
{
    return &host_of(backend)->info;
}

uint32_t kilni_host_dtype_usage(kiln_backend *backend, kiln_dtype dtype)
{
    (void)backend;
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_QUANT) {
        return KILN_USAGE_STORAGE;
    }
    return kiln_dtype_size(dtype) > 0 ? KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC : 0;
}

void kilni_host_stats(kiln_backend *backend, kiln_backend_stats *out_stats)
{
    *out_stats = host_of(backend)->stats;
    out_stats->bytes_pooled_peak = out_stats->bytes_peak;
    out_stats->bytes_budget = host_of(backend)->budget;
}

void kilni_host_reset_peaks(kiln_backend *backend)
{
    host_of(backend)->stats.bytes_peak = host_of(backend)->stats.bytes_used;
}

kiln_status kilni_host_set_budget(kiln_backend *backend, uint64_t bytes, kiln_error *err)
{
    (void)err;
    limit(host_of(backend), bytes);
    return KILN_STATUS_OK;
}

static kiln_status check_range(const kiln_backend *backend, const kiln_buffer *buffer,
                               size_t offset, size_t bytes, kiln_error *err)
{
    size_t has = buffer != NULL ? buffer->bytes : 0;
    if (offset > has || bytes > has - offset) {
        return kiln_fail(err, OUT_OF_RANGE, "%s: bytes %zu+%zu are outside a buffer of %zu",
                         backend->scheme, offset, bytes, has);
    }
    return KILN_STATUS_OK;
}

static void count_alloc(kilni_host_backend *host, size_t bytes)
{
    host->stats.buffers_live++;
    host->stats.bytes_used += bytes;
    if (host->stats.bytes_used > host->stats.bytes_peak) {
        host->stats.bytes_peak = host->stats.bytes_used;
    }
    host->stats.bytes_pooled = host->stats.bytes_used;
}

kiln_status kilni_host_alloc(kiln_backend *backend, size_t bytes, kiln_buffer **out_buffer,
                             kiln_error *err)
{
    kilni_host_backend *host = host_of(backend);
    const kiln_allocator *allocator = &host->base.env->allocator;
    *out_buffer = NULL;
    if (host->budget > 0 &&
        (bytes > host->budget || host->stats.bytes_used > host->budget - bytes)) {
        return kiln_fail(
            err, RESOURCE_EXHAUSTED,
            "no device memory for %zu bytes: %llu bytes in %llu buffers are in use, the "
            "budget is %llu; release tensors or raise memory-budget",
            bytes, (unsigned long long)host->stats.bytes_used,
            (unsigned long long)host->stats.buffers_live, (unsigned long long)host->budget);
    }
    kiln_buffer *buffer = kiln_alloc(host->base.env, sizeof(*buffer));
    unsigned char *data = buffer != NULL ? allocator->alloc(allocator->user, bytes > 0 ? bytes : 1,
                                                            (size_t)BUFFER_ALIGN)
                                         : NULL;
    if (data == NULL) {
        kiln_free(host->base.env, buffer);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for a buffer of %zu bytes",
                         backend->scheme, bytes);
    }
    buffer->data = data;
    buffer->bytes = bytes;
    count_alloc(host, bytes);
    *out_buffer = buffer;
    return KILN_STATUS_OK;
}

void kilni_host_free(kiln_backend *backend, kiln_buffer *buffer)
{
    kilni_host_backend *host = host_of(backend);
    const kiln_allocator *allocator = &host->base.env->allocator;
    if (buffer == NULL) {
        return;
    }
    if (buffer->window) {
        kiln_free(host->base.env, buffer);
        return;
    }
    host->stats.buffers_live--;
    host->stats.bytes_used -= buffer->bytes;
    host->stats.bytes_pooled = host->stats.bytes_used;
    if (buffer->release != NULL) {
        buffer->release(buffer->user);
    } else {
        allocator->free(allocator->user, buffer->data);
    }
    kiln_free(host->base.env, buffer);
}

static kiln_status sub_buffer(kiln_backend *backend, kiln_buffer *parent, size_t offset,
                              size_t bytes, kiln_buffer **out_buffer, kiln_error *err)
{
    kilni_host_backend *host = host_of(backend);
    kiln_status status = check_range(backend, parent, offset, bytes, err);
    *out_buffer = NULL;
    if (status == KILN_STATUS_OK && offset % BUFFER_ALIGN != 0) {
        status =
            kiln_fail(err, INVALID_ARGUMENT, "%s: a window at byte %zu; multiples of %d are needed",
                      backend->scheme, offset, BUFFER_ALIGN);
    }
    kiln_buffer *buffer =
        status == KILN_STATUS_OK ? kiln_alloc(host->base.env, sizeof(*buffer)) : NULL;
    if (status == KILN_STATUS_OK && buffer == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for a window", backend->scheme);
    }
    if (status == KILN_STATUS_OK) {
        *buffer = (kiln_buffer){.data = parent->data + offset, .bytes = bytes, .window = true};
        *out_buffer = buffer;
    }
    return status;
}

kiln_status kilni_host_wrap(kiln_backend *backend, void *memory, size_t bytes,
                            void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                            kiln_error *err)
{
    kilni_host_backend *host = host_of(backend);
    if ((uintptr_t)memory % BUFFER_ALIGN != 0) {
        return kiln_fail(err, UNIMPLEMENTED, "%s: memory at %p is not aligned to %d bytes",
                         backend->scheme, memory, BUFFER_ALIGN);
    }
    kiln_buffer *buffer = kiln_alloc(host->base.env, sizeof(*buffer));
    if (buffer == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for a buffer", backend->scheme);
    }
    *buffer = (kiln_buffer){.data = memory, .bytes = bytes, .release = release, .user = user};
    count_alloc(host, bytes);
    *out_buffer = buffer;
    return KILN_STATUS_OK;
}

kiln_status kilni_host_map(kiln_backend *backend, kiln_buffer *buffer, size_t offset, size_t bytes,
                           const void **out_data, kiln_error *err)
{
    kiln_status status = check_range(backend, buffer, offset, bytes, err);
    *out_data = status == KILN_STATUS_OK ? buffer->data + offset : NULL;
    return status;
}

static kiln_status upload(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                          const void *source, size_t bytes, kiln_error *err)
{
    kiln_status status = check_range(backend, buffer, offset, bytes, err);
    if (status == KILN_STATUS_OK && bytes > 0) {
        memcpy(buffer->data + offset, source, bytes);
    }
    return status;
}

static kiln_status read(kiln_backend *backend, kiln_buffer *buffer, size_t offset, void *out_data,
                        size_t bytes, kiln_error *err)
{
    kiln_status status = check_range(backend, buffer, offset, bytes, err);
    if (status == KILN_STATUS_OK && bytes > 0) {
        memcpy(out_data, buffer->data + offset, bytes);
    }
    return status;
}

static kiln_status copy(kiln_backend *backend, kiln_buffer *source, size_t source_offset,
                        kiln_buffer *target, size_t target_offset, size_t bytes, kiln_error *err)
{
    kiln_status status = check_range(backend, source, source_offset, bytes, err);
    if (status == KILN_STATUS_OK) {
        status = check_range(backend, target, target_offset, bytes, err);
    }
    if (status == KILN_STATUS_OK && bytes > 0) {
        memmove(target->data + target_offset, source->data + source_offset, bytes);
    }
    return status;
}

kiln_status kilni_host_flush(kiln_backend *backend, kiln_error *err)
{
    (void)backend;
    (void)err;
    return KILN_STATUS_OK;
}

kiln_status kilni_host_sync(kiln_backend *backend, kiln_error *err)
{
    (void)backend;
    (void)err;
    return KILN_STATUS_OK;
}

const kiln_backend_transfer_ops kilni_host_transfer_ops = {
    .struct_size = sizeof(kiln_backend_transfer_ops),
    .upload = upload,
    .read = read,
    .copy = copy,
    .read_begin = kiln_backend_read_at_once,
    .read_poll = kiln_backend_read_is_done,
    .read_wait = kiln_backend_no_read_wait,
    .read_end = kiln_backend_no_read_end,
};

const kiln_backend_arena_ops kilni_host_arena_ops = {
    .struct_size = sizeof(kiln_backend_arena_ops),
    .alloc = kilni_host_alloc,
    .sub_buffer = sub_buffer,
    .lend = kiln_backend_no_lend,
    .asked = kiln_backend_asked_none,
};
