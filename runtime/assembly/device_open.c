// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices: opening by address, descriptions and statistics, flush and sync. Decides which provider
// an address means and when a device ends; its streams are thread_streams.c's.

#include "runtime_internal.h"

#include <time.h>

#include <stdio.h>

#ifndef KILN_RUNTIME_REMOTE
#define KILN_RUNTIME_REMOTE "libkiln_remote.so.0"
#endif

// ---- open and close ----

static const kiln_backend_provider *find_provider(kiln_context *context, const char *address)
{
    for (size_t i = 0; i < context->n_providers; i++) {
        const char *scheme = context->providers[i]->scheme;
        size_t length = strlen(scheme);
        if (strncmp(address, scheme, length) == 0 &&
            (address[length] == ':' || address[length] == '\0')) {
            return context->providers[i];
        }
    }
    return NULL;
}

/// Remote devices are in a library of their own, so that programs without them do not pay for
/// loading gRPC.
static kiln_status load_remote(kiln_context *context, kiln_error *err)
{
    static const char *const symbols[] = {"kiln_rpc_provider", "kiln_rpc_tls_provider",
                                          "kiln_rpc_unix_provider"};
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]) && status == KILN_STATUS_OK; i++) {
        union {
            void *address;
            const kiln_backend_provider *(*get)(void);
        } found;
        status =
            kilni_library_symbol(context, KILN_RUNTIME_REMOTE, symbols[i], &found.address, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_context_add_provider(context, found.get(), err);
        }
        // Another thread may have been faster.
        status = status == KILN_STATUS_ALREADY_EXISTS ? KILN_STATUS_OK : status;
    }
    return status;
}

static bool is_remote(const char *address)
{
    static const char *const schemes[] = {"grpc", "grpcs", "unix"};
    size_t length = strcspn(address, ":");
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strlen(schemes[i]) == length && strncmp(address, schemes[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static kiln_device *find_open(kiln_context *context, const char *address)
{
    for (kiln_device *device = context->devices; device != NULL; device = device->next) {
        unsigned refs = atomic_load(&device->refs);
        while (strcmp(device->address, address) == 0 && refs > 0) {
            if (atomic_compare_exchange_weak(&device->refs, &refs, refs + 1)) {
                return device;
            }
        }
    }
    return NULL;
}

static void free_device(kiln_device *device)
{
    kiln_context *context = device->context;
    kilni_trace_leave(device);
    kilni_engines_destroy(device);
    (void)kilni_arena_drop(device);
    while (device->free_tensors != NULL) {
        kiln_tensor *tensor = device->free_tensors;
        device->free_tensors = tensor->next_free;
        kiln_free(&context->env, tensor);
    }
    kiln_free(&context->env, device->places);
    kiln_free(&context->env, device->recorded);
    kiln_free(&context->env, device->index_places);
    kiln_free(&context->env, device->full);
    kiln_free(&context->env, device->threads.places);
    if (device->fault != NULL) {
        kilni_fault_release(device, device->fault);
    }
    kilni_waits_release(device->gates);
    kilni_lanes_close(device);
    if (device->backend != NULL) {
        device->backend->ops->close(device->backend);
    }
    pthread_cond_destroy(&device->arrived);
    pthread_mutex_destroy(&device->ended_lock);
    pthread_mutex_destroy(&device->lock);
    kiln_free(&context->env, device);
    kilni_context_release(context);
}

kiln_status kilni_device_create(kiln_context *context, const char *address,
                                const kiln_backend_provider *provider, kiln_device **out_device,
                                kiln_error *err)
{
    kiln_device *device = kiln_alloc(&context->env, sizeof(*device));
    if (device == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a device");
    }
    kilni_context_retain(context);
    atomic_init(&device->refs, 1);
    device->core = device;
    device->float_dtype = KILN_DTYPE_F32;
    device->int_dtype = KILN_DTYPE_I64;
    device->context = context;
    snprintf(device->address, sizeof(device->address), "%s", address);
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->ended_lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&device->arrived, &attributes);
    pthread_condattr_destroy(&attributes);
    device->no_memory.refs = 1;
    (void)kiln_fail(&device->no_memory.error, RESOURCE_EXHAUSTED, "no host memory");
    kiln_status status =
        provider->open(&context->env, address, &device->backend, err, provider->user);
    if (status == KILN_STATUS_OK) {
        kilni_device_set_names(device);
        kilni_trace_join(device, kilni_context_trace(context));
        status = kilni_engines_create(device, err);
        kilni_pressure_init(device);
    }
    if (status != KILN_STATUS_OK) {
        free_device(device);
        return status;
    }
    *out_device = device;
    return KILN_STATUS_OK;
}

/// The address that number 0 of the first kind that lists its devices has. To ask it would load its
/// driver before the opening does, which has better things to do meanwhile.
static bool guess_first(kiln_context *context, char out_address[KILNI_ADDRESS_BYTES])
{
    const kiln_backend_provider *providers[KILNI_PROVIDERS];
    size_t n_providers = kilni_context_providers(context, providers);
    for (size_t i = 0; i < n_providers; i++) {
        if (providers[i]->describe != NULL) {
            snprintf(out_address, KILNI_ADDRESS_BYTES, "%s:0", providers[i]->scheme);
            return true;
        }
    }
    return false;
}

/// Lists a device that was just made. Gives the one that another thread has opened in the meantime,
/// or itself.
static kiln_device *list_add(kiln_context *context, kiln_device *device)
{
    pthread_mutex_lock(&context->lock);
    kiln_device *earlier = find_open(context, device->address);
    if (earlier == NULL) {
        device->next = context->devices;
        context->devices = device;
    }
    pthread_mutex_unlock(&context->lock);
    if (earlier != NULL) {
        kiln_device_release(device);
        return earlier;
    }
    return device;
}

static kiln_status set_defaults(kiln_device *device, const kiln_device_options *options,
                                kiln_error *err)
{
    const kiln_dtype given[] = {options->float_dtype, options->int_dtype};
    const unsigned kinds[] = {KILN_KIND_FLOAT, KILN_KIND_INT | KILN_KIND_UINT};
    for (size_t i = 0; i < 2; i++) {
        if (given[i] == KILN_DTYPE_NONE) {
            continue;
        }
        const char *name = kiln_dtype_name(given[i]);
        if ((kiln_dtype_kind_of(given[i]) & kinds[i]) == 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s cannot be the default of %s",
                             name != NULL ? name : "an unknown dtype",
                             i == 0 ? "floats" : "integers");
        }
        if ((device->backend->ops->dtype_usage(device->backend, given[i]) & KILN_USAGE_STORAGE) ==
            0) {
            return kiln_fail(err, UNIMPLEMENTED, "%s does not store %s", device->address, name);
        }
        *(i == 0 ? &device->float_dtype : &device->int_dtype) = given[i];
    }
    return KILN_STATUS_OK;
}

/// An open device is nobody's to change: it has the defaults that the options name, or is refused.
static kiln_status check_defaults(kiln_device *device, const kiln_device_options *options,
                                  kiln_error *err)
{
    bool same =
        (options->float_dtype == KILN_DTYPE_NONE || options->float_dtype == device->float_dtype) &&
        (options->int_dtype == KILN_DTYPE_NONE || options->int_dtype == device->int_dtype);
    if (same) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_fail(
        err, ALREADY_EXISTS, "%s is open already, with %s and %s where no dtype is named",
        device->address, kiln_dtype_name(device->float_dtype), kiln_dtype_name(device->int_dtype));
    kiln_device_release(device);
    return status;
}

kiln_status kiln_device_open(kiln_context *context, const char *address, kiln_device **out_device,
                             kiln_error *err)
{
    return kiln_device_open_with(context, address, NULL, out_device, err);
}

static kiln_status open_at(kiln_context *context, const char *address,
                           const kiln_device_options *wanted, kiln_device **out_device,
                           kiln_error *err)
{
    pthread_mutex_lock(&context->lock);
    const kiln_backend_provider *provider = find_provider(context, address);
    kiln_device *device = find_open(context, address);
    pthread_mutex_unlock(&context->lock);
    if (device != NULL) {
        kiln_status status = check_defaults(device, wanted, err);
        *out_device = status == KILN_STATUS_OK ? device : NULL;
        return status;
    }
    if (provider == NULL && is_remote(address)) {
        kiln_status loaded = load_remote(context, err);
        if (loaded != KILN_STATUS_OK) {
            return kiln_error_context(err, "opening %s", address);
        }
        pthread_mutex_lock(&context->lock);
        provider = find_provider(context, address);
        pthread_mutex_unlock(&context->lock);
    }
    if (provider == NULL) {
        return kiln_fail(err, NOT_FOUND,
                         "no kind of device answers to \"%s\"; try opencl:0, grpc://HOST:PORT, "
                         "reference or null",
                         address);
    }
    kiln_status status = kilni_device_create(context, address, provider, &device, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = set_defaults(device, wanted, err);
    if (status != KILN_STATUS_OK) {
        free_device(device);
        return status;
    }
    device = list_add(context, device);
    status = check_defaults(device, wanted, err);
    *out_device = status == KILN_STATUS_OK ? device : NULL;
    return status;
}

static kiln_status open_default(kiln_context *context, const kiln_device_options *wanted,
                                kiln_device **out_device, kiln_error *err)
{
    const char *configured = kiln_config_string(context->env.config, KILN_KNOB_DEVICE);
    char address[KILNI_ADDRESS_BYTES];
    char line[192];
    if (configured != NULL && configured[0] != '\0') {
        snprintf(address, sizeof(address), "%s", configured);
        return open_at(context, address, wanted, out_device, err);
    }
    if (guess_first(context, address)) {
        kiln_status status = open_at(context, address, wanted, out_device, err);
        if (status != KILN_STATUS_NOT_FOUND) {
            return status;
        }
    }
    kiln_status status = kiln_device_describe(context, 0, address, line, err);
    return status == KILN_STATUS_OK ? open_at(context, address, wanted, out_device, err) : status;
}

kiln_status kiln_device_open_with(kiln_context *context, const char *address,
                                  const kiln_device_options *options, kiln_device **out_device,
                                  kiln_error *err)
{
    kiln_device_options wanted = KILN_DEVICE_OPTIONS_INIT;
    char chosen[KILNI_ADDRESS_BYTES];
    *out_device = NULL;
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    if (options != NULL) {
        memcpy(&wanted, options,
               options->struct_size < sizeof(wanted) ? options->struct_size : sizeof(wanted));
    }
    if (address == NULL) {
        return open_default(context, &wanted, out_device, err);
    }
    if ((size_t)snprintf(chosen, sizeof(chosen), "%s", address) >= sizeof(chosen)) {
        return kiln_fail(err, INVALID_ARGUMENT, "device address \"%.40s...\" is too long", address);
    }
    return open_at(context, chosen, &wanted, out_device, err);
}

kiln_device *kiln_device_retain(kiln_device *device)
{
    if (device != NULL) {
        atomic_fetch_add(&device->core->refs, 1);
    }
    return device;
}

static void close_device(kiln_device *device)
{
    kiln_context *context = device->context;
    pthread_mutex_lock(&context->lock);
    kiln_device **link = &context->devices;
    while (*link != NULL && *link != device) {
        link = &(*link)->next;
    }
    if (*link == device) {
        *link = device->next;
    }
    pthread_mutex_unlock(&context->lock);
    pthread_mutex_lock(&device->lock);
    kilni_await_moves(device);
    while (device->streams != NULL) {
        kilni_stream *stream = device->streams;
        device->streams = stream->next;
        kilni_stream_destroy(stream);
    }
    kilni_device_sweep(device);
    pthread_mutex_unlock(&device->lock);
    free_device(device);
}

void kiln_device_release(kiln_device *device)
{
    device = kilni_core(device);
    if (device != NULL && atomic_fetch_sub(&device->refs, 1) == 1) {
        close_device(device);
    }
}

// ---- descriptions ----

kiln_status kiln_device_describe(kiln_context *context, size_t index, char out_address[64],
                                 char out_line[192], kiln_error *err)
{
    size_t seen = 0;
    const kiln_backend_provider *providers[KILNI_PROVIDERS];
    size_t n_providers = kilni_context_providers(context, providers);
    for (size_t i = 0; i < n_providers; i++) {
        const kiln_backend_provider *provider = providers[i];
        for (size_t k = 0; provider->describe != NULL; k++) {
            kiln_error local = KILN_ERROR_INIT;
            kiln_status status =
                provider->describe(&context->env, k, out_address, out_line, &local, provider->user);
            if (status != KILN_STATUS_OK) {
                break;
            }
            if (seen++ == index) {
                return KILN_STATUS_OK;
            }
        }
    }
    return kiln_fail(err, NOT_FOUND, "there are %zu devices; number %zu does not exist", seen,
                     index);
}

const kiln_device_info *kiln_device_info_of(const kiln_device *device)
{
    device = kilni_core(device);
    return device->backend->ops->info(device->backend);
}

const char *kiln_device_address(const kiln_device *device)
{
    return kilni_core(device)->address;
}

kiln_context *kiln_device_context(const kiln_device *device)
{
    return kilni_core(device)->context;
}

void kiln_device_stats_get(kiln_device *device, kiln_device_stats *out_stats)
{
    kiln_device_stats stats = {.struct_size = out_stats->struct_size};
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_engines_count(device, &stats);
    device->backend->ops->stats(device->backend, &stats.backend);
    stats.blocks_fused = device->blocks_fused;
    stats.ops_fused = device->ops_fused;
    stats.tensors_live = device->tensors_live;
    if (device->arena.buffer != NULL && !device->arena.busy) { // no tensor is in it
        stats.backend.bytes_used -= device->arena.bytes;
        stats.backend.buffers_live--;
    }
    stats.bytes_live = device->bytes_live;
    stats.bytes_arena = device->arena.bytes;
    stats.bytes_pending = device->bytes_pending;
    stats.values_planned = device->values_planned;
    stats.early_runs = device->early_runs;
    stats.indices_outside = device->indices_outside;
    pthread_mutex_unlock(&device->lock);
    size_t size = stats.struct_size < sizeof(stats) ? stats.struct_size : sizeof(stats);
    memcpy(out_stats, &stats, size);
}

static kiln_status report_fault(kiln_device *device, kiln_error *err)
{
    if (device->fault == NULL) {
        return KILN_STATUS_OK;
    }
    if (err != NULL) {
        *err = device->fault->error;
    }
    return (kiln_status)device->fault->error.code;
}

kiln_status kiln_device_status(kiln_device *device, kiln_error *err)
{
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kiln_status status = report_fault(device, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}
// ---- flush and sync ----

/// Streams that are left have run all they had, and go on with another engine.
static kiln_status renew_named(kiln_device *device, kiln_fuse_engine *engine, kiln_error *err)
{
    for (kilni_stream *s = device->streams; s != NULL; s = s->next) {
        kiln_fuse_stream *queue = NULL;
        if (s->engine == engine) {
            continue;
        }
        kiln_status status = kiln_fuse_stream_create(engine, /*whole=*/false, &queue, err);
        if (status != KILN_STATUS_OK) {
            return status; // those before keep the new engine: results are the same
        }
        kiln_fuse_stream_destroy(s->queue);
        s->queue = queue;
        s->engine = engine;
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_device_set_fusion(kiln_device *device, bool on, kiln_error *err)
{
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_device_drain(device, err);
    for (kilni_stream *s = device->streams; s != NULL && status == KILN_STATUS_OK; s = s->next) {
        if (s->capturing) {
            status = kiln_fail(err, FAILED_PRECONDITION, "a graph is being captured");
        }
    }
    if (status == KILN_STATUS_OK && on && device->engine == NULL) {
        status = kiln_fail(err, FAILED_PRECONDITION,
                           "%s takes no programs, so nothing can be fused", device->address);
    }
    if (status == KILN_STATUS_OK && device->fusion != on) {
        kilni_streams_prune(device);
        status = renew_named(device, on ? device->engine : device->plain, err);
    }
    if (status == KILN_STATUS_OK) {
        device->fusion = on;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kiln_flush(kiln_device *device, kiln_error *err)
{
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_stream *stream = NULL;
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK && stream->capturing) {
        status = kiln_fail(err, FAILED_PRECONDITION, "flush inside a capture");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_run(stream, /*drain=*/true, err);
    }
    if (status == KILN_STATUS_OK) {
        status = device->backend->ops->flush(device->backend, err);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/// The first failure of calls that the queue waited for and that have all ended. After a failure of
/// something else they are the next sync's.
static kiln_status report_gates(kiln_device *device, kilni_waits *gates, kiln_status status,
                                kiln_error *err)
{
    if (status == KILN_STATUS_OK) {
        status = kilni_waits_status(gates, NULL, err);
    } else {
        (void)kilni_waits_add(&device->gates, &device->context->env, gates);
    }
    kilni_waits_release(gates);
    return status;
}

kiln_status kiln_sync(kiln_device *device, kiln_error *err)
{
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_await_moves(device); // they are work too; a failure stays with the tensor
    kiln_status status = kilni_device_drain(device, err);
    kilni_waits *gates = NULL;
    if (status == KILN_STATUS_OK) {
        kiln_error local = KILN_ERROR_INIT;
        gates = device->gates; // those that come while others have the lock are not over then
        device->gates = NULL;
        status = kilni_device_wait(device, &local);
        if (status != KILN_STATUS_OK && device->fault == NULL) {
            device->fault = kilni_fault_create(device, &local);
        }
        if (status != KILN_STATUS_OK && err != NULL) {
            *err = local;
        }
    }
    if (status == KILN_STATUS_OK) {
        status = report_fault(device, err);
        // Reported once; only a lost device stays so.
        if (device->fault != NULL && status != KILN_STATUS_DEVICE_LOST) {
            kilni_fault_release(device, device->fault);
            device->fault = NULL;
        }
    }
    status = report_gates(device, gates, status, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

void kiln_device_trim(kiln_device *device)
{
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_device_sweep(device);
    (void)kilni_arena_drop(device);
    (void)kilni_kept_drop(device);
    if (device->backend->ops->trim != NULL) {
        device->backend->ops->trim(device->backend);
    }
    kilni_lanes_trim(device);
    pthread_mutex_unlock(&device->lock);
}
