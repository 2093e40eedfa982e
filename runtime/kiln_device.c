// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices: opening by address, the streams of each thread, flush and sync, statistics. Decides
// which stream a thread records on and when a device ends; planning is fusion_host's, running a
// plan is plan_exec.c's.

#include "runtime_internal.h"

#include <time.h>

#include <stdio.h>

#ifndef KILN_RUNTIME_REMOTE
#define KILN_RUNTIME_REMOTE "libkiln_remote.so.0"
#endif

// Streams of threads that have nothing queued are kept up to this number, so that a thread that
// comes back finds its own; beyond it they are made again when needed.
enum { IDLE_STREAMS = 32 };

// ---- open and close
// ------------------------------------------------------------------------------

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

/// Asked under the device's lock, as the engine is.
static kiln_status admit(void *user, const kiln_program *program, kiln_error *err)
{
    kiln_backend *backend = user;
    return backend->ops->program_ready != NULL ? backend->ops->program_ready(backend, program, err)
                                               : KILN_STATUS_OK;
}

static kiln_status create_engines(kiln_device *device, kiln_error *err)
{
    kiln_fuse_registry *registry = NULL;
    kiln_context *context = device->context;
    const kiln_device_info *info = device->backend->ops->info(device->backend);
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.fusion_off = 1;
    options.admit = admit;
    options.admit_user = device->backend;
    kilni_tune tune = KILNI_TUNE_OFF;
    kiln_status status = kilni_tune_mode(context, &tune, err);
    device->tune = tune;
    kilni_check_mode check = KILNI_CHECK_OFF;
    if (status == KILN_STATUS_OK) {
        status = kilni_check_mode_of(context, &check, err);
    }
    device->check = check;
    device->records = kiln_config_string(context->env.config, KILN_KNOB_RECORD)[0] != '\0';
    if (status == KILN_STATUS_OK) {
        status = kilni_context_registry(context, &registry, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_fuse_engine_create(registry, info, &options, &device->plain, err);
    }
    device->fusion = (info->features & KILN_FEATURE_PROGRAMS) != 0 &&
                     device->backend->ops->program_launch != NULL;
    if (status == KILN_STATUS_OK && device->fusion) {
        options.fusion_off = 0;
        options.store = kiln_context_store(context);
        status = kiln_fuse_engine_create(registry, info, &options, &device->engine, err);
    }
    device->facts[KILN_FACT_COMPUTE_UNITS] = info->compute_units;
    device->facts[KILN_FACT_MAX_WORK_GROUP] = (int64_t)info->max_work_group;
    device->facts[KILN_FACT_LOCAL_MEMORY] = (int64_t)info->local_bytes;
    return status;
}

static void free_device(kiln_device *device)
{
    kiln_context *context = device->context;
    kilni_trace_leave(device);
    kiln_fuse_engine_destroy(device->engine);
    kiln_fuse_engine_destroy(device->plain);
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
    kilni_random_fini(device);
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
        status = create_engines(device, err);
        kilni_pressure_init(device);
    }
    if (status != KILN_STATUS_OK) {
        free_device(device);
        return status;
    }
    *out_device = device;
    return KILN_STATUS_OK;
}

static kiln_status default_address(kiln_context *context, char out_address[KILNI_ADDRESS_BYTES],
                                   kiln_error *err)
{
    const char *configured = kiln_config_string(context->env.config, KILN_KNOB_DEVICE);
    char line[192];
    if (configured != NULL && configured[0] != '\0') {
        snprintf(out_address, KILNI_ADDRESS_BYTES, "%s", configured);
        return KILN_STATUS_OK;
    }
    return kiln_device_describe(context, 0, out_address, line, err);
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
        kiln_status status = default_address(context, chosen, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    } else if ((size_t)snprintf(chosen, sizeof(chosen), "%s", address) >= sizeof(chosen)) {
        return kiln_fail(err, INVALID_ARGUMENT, "device address \"%.40s...\" is too long", address);
    }
    pthread_mutex_lock(&context->lock);
    const kiln_backend_provider *provider = find_provider(context, chosen);
    kiln_device *device = find_open(context, chosen);
    pthread_mutex_unlock(&context->lock);
    if (device != NULL) {
        kiln_status status = check_defaults(device, &wanted, err);
        *out_device = status == KILN_STATUS_OK ? device : NULL;
        return status;
    }
    if (provider == NULL && is_remote(chosen)) {
        kiln_status loaded = load_remote(context, err);
        if (loaded != KILN_STATUS_OK) {
            return kiln_error_context(err, "opening %s", chosen);
        }
        pthread_mutex_lock(&context->lock);
        provider = find_provider(context, chosen);
        pthread_mutex_unlock(&context->lock);
    }
    if (provider == NULL) {
        return kiln_fail(err, NOT_FOUND,
                         "no kind of device answers to \"%s\"; try opencl:0, reference or null",
                         chosen);
    }
    kiln_status status = kilni_device_create(context, chosen, provider, &device, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = set_defaults(device, &wanted, err);
    if (status != KILN_STATUS_OK) {
        free_device(device);
        return status;
    }
    device = list_add(context, device);
    status = check_defaults(device, &wanted, err);
    *out_device = status == KILN_STATUS_OK ? device : NULL;
    return status;
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
    while (device->moves > 0) {
        pthread_cond_wait(&device->arrived, &device->lock);
    }
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

// ---- descriptions
// --------------------------------------------------------------------------------

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
    kiln_fuse_stats with = {0};
    kiln_fuse_stats without = {0};
    kiln_device_stats stats = {.struct_size = out_stats->struct_size};
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    if (device->engine != NULL) {
        kiln_fuse_engine_stats(device->engine, &with);
    }
    kiln_fuse_engine_stats(device->plain, &without);
    device->backend->ops->stats(device->backend, &stats.backend);
    stats.ops_recorded = with.ops_recorded + without.ops_recorded;
    stats.plans_searched = with.plans_searched + without.plans_searched;
    stats.plans_found = with.plans_found + without.plans_found;
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

// ---- streams
// -------------------------------------------------------------------------------------

kilni_stream *kilni_stream_find(const kiln_device *device, uint64_t id)
{
    if (device->current != NULL && device->current->id == id) {
        return device->current;
    }
    kilni_stream *stream = id != 0 ? device->streams : NULL;
    while (stream != NULL && stream->id != id) {
        stream = stream->next;
    }
    return stream;
}

kiln_status kilni_stream_create(kiln_device *device, bool whole, kilni_stream **out_stream,
                                kiln_error *err)
{
    kilni_stream *stream = kiln_alloc(&device->context->env, sizeof(*stream));
    if (stream == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    }
    stream->id = ++device->last_stream;
    stream->device = device;
    stream->thread = kiln_thread_id();
    stream->capturing = whole;
    stream->engine = kilni_device_engine(device);
    kiln_status status = kiln_fuse_stream_create(stream->engine, whole, &stream->queue, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(&device->context->env, stream);
        return status;
    }
    *out_stream = stream;
    return KILN_STATUS_OK;
}

void kilni_segment_unpin(const kiln_fuse_segment *segment)
{
    for (uint32_t i = 0; i < segment->plan->n_ops; i++) {
        const kiln_op_record *record = &segment->ops[i];
        size_t n = (size_t)record->n_inputs + record->n_outputs;
        for (size_t k = 0; k < n; k++) {
            kilni_tensor_unpin(segment->operands[i][k]);
        }
    }
}

static void unpin_token(void *token, void *user)
{
    (void)user;
    kilni_tensor_unpin(token);
}

/// What is still queued is let go without being planned or run.
void kilni_stream_destroy(kilni_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (!stream->replaying) {
        kiln_fuse_stream_discard(stream->queue, unpin_token, NULL);
    }
    if (stream->device->current == stream) {
        stream->device->current = NULL;
    }
    kiln_fuse_stream_destroy(stream->queue);
    kiln_free(&stream->device->context->env, stream);
}

static void prune_idle(kiln_device *device)
{
    kilni_stream **link = &device->streams;
    while (*link != NULL) {
        kilni_stream *stream = *link;
        if (!stream->capturing && !stream->named && stream->persistent == 0 &&
            kiln_fuse_stream_pending(stream->queue) == 0) {
            *link = stream->next;
            device->n_streams--;
            kilni_stream_destroy(stream);
        } else {
            link = &stream->next;
        }
    }
}

void kilni_stream_enlist(kilni_stream *stream)
{
    kiln_device *device = stream->device;
    stream->next = device->streams;
    device->streams = stream;
    device->n_streams++;
    device->current = NULL;
}

static bool chose(const kilni_stream *stream, uint64_t thread)
{
    const kilni_choice *choice = stream->named ? stream->device->choices : NULL;
    while (choice != NULL && (choice->thread != thread || choice->stream != stream)) {
        choice = choice->next;
    }
    return choice != NULL;
}

bool kilni_stream_is_mine(const kilni_stream *stream)
{
    uint64_t thread = kiln_thread_id();
    return stream->thread == thread || chose(stream, thread);
}

/// A capture comes before the stream that the thread chose, and that before its own.
static kilni_stream *find_for_thread(const kiln_device *device, uint64_t thread)
{
    kilni_stream *own = NULL;
    kilni_stream *chosen = NULL;
    for (kilni_stream *s = device->streams; s != NULL; s = s->next) {
        if (s->thread == thread && s->capturing) {
            return s;
        }
        own = s->thread == thread ? s : own;
        chosen = chose(s, thread) ? s : chosen;
    }
    return chosen != NULL ? chosen : own;
}

kiln_status kilni_stream_current(kiln_device *device, kilni_stream **out_stream, kiln_error *err)
{
    uint64_t thread = kiln_thread_id();
    kilni_stream *stream = device->current;
    if (stream != NULL && device->current_thread == thread) {
        *out_stream = stream;
        return KILN_STATUS_OK;
    }
    stream = find_for_thread(device, thread);
    if (stream == NULL) {
        if (device->n_streams >= IDLE_STREAMS) {
            prune_idle(device);
        }
        kiln_status status = kilni_stream_create(device, /*whole=*/false, &stream, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_stream_enlist(stream);
    }
    device->current = stream;
    device->current_thread = thread;
    *out_stream = stream;
    return KILN_STATUS_OK;
}

static kiln_status reserve_places(kiln_device *device, size_t count, kiln_error *err)
{
    if (count <= device->places_capacity) {
        return KILN_STATUS_OK;
    }
    size_t capacity = count * 2;
    kilni_place **places =
        kiln_realloc(&device->context->env, device->places,
                     device->places_capacity * sizeof(*places), capacity * sizeof(*places));
    if (places == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu tensors of a segment", count);
    }
    device->places = places;
    device->places_capacity = capacity;
    return KILN_STATUS_OK;
}

/// A segment that cannot even be started: its results are failed tensors.
static void lose_segment(kiln_device *device, const kiln_fuse_segment *segment)
{
    for (uint32_t i = 0; i < segment->plan->n_tensors; i++) {
        kiln_tensor *tensor = segment->tokens[i];
        if (!tensor->place.placed) {
            kilni_place_fail(device, &tensor->place, &device->no_memory);
        }
    }
}

kiln_status kilni_stream_next(kilni_stream *stream, bool drain,
                              const kiln_fuse_segment **out_segment, kiln_error *err)
{
    kiln_fuse_stats before = {0}, after = {0};
    uint64_t start_ns = kilni_trace_now(stream->device);
    if (start_ns != 0) {
        kiln_fuse_engine_stats(stream->engine, &before);
    }
    kiln_status status = kiln_fuse_stream_next(stream->queue, drain, out_segment, err);
    if (start_ns != 0) {
        kiln_fuse_engine_stats(stream->engine, &after);
        bool searched = after.plans_searched != before.plans_searched;
        kilni_trace_span(stream->device, searched ? KILNI_SPAN_SEARCH : KILNI_SPAN_PLAN, NULL,
                         start_ns);
    }
    return status;
}

kiln_status kilni_stream_run(kilni_stream *stream, bool drain, kiln_error *err)
{
    kiln_device *device = stream->device;
    for (;;) {
        const kiln_fuse_segment *segment = NULL;
        kiln_status status = kilni_stream_next(stream, drain, &segment, err);
        if (status != KILN_STATUS_OK || segment == NULL) {
            return status;
        }
        status = reserve_places(device, segment->plan->n_tensors, err);
        if (status != KILN_STATUS_OK) {
            lose_segment(device, segment);
            kilni_segment_unpin(segment);
            kiln_fuse_stream_done(stream->queue, segment);
            return status;
        }
        for (uint32_t i = 0; i < segment->plan->n_tensors; i++) {
            kiln_tensor *tensor = segment->tokens[i];
            tensor->slot = i;
            kilni_tensor_unpend(tensor);
            device->places[i] = &tensor->place;
        }
        kilni_run run = {.device = device,
                         .engine = stream->engine,
                         .segment = segment,
                         .places = device->places};
        device->persistent = stream->persistent > 0;
        uint64_t start_ns = kilni_trace_now(device);
        kilni_plan_run(&run);
        kilni_trace_span(device, KILNI_SPAN_RUN, "segment", start_ns);
        device->persistent = false;
        kilni_segment_unpin(segment);
        kiln_fuse_stream_done(stream->queue, segment);
    }
}

kiln_status kilni_device_drain(kiln_device *device, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (kilni_stream *s = device->streams; s != NULL && status == KILN_STATUS_OK; s = s->next) {
        if (!s->capturing) {
            status = kilni_stream_run(s, /*drain=*/true, err);
        }
    }
    return status;
}

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
        prune_idle(device);
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
    while (device->moves > 0) { // they are work too; a failure stays with the tensor
        pthread_cond_wait(&device->arrived, &device->lock);
    }
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
    if (device->backend->ops->trim != NULL) {
        device->backend->ops->trim(device->backend);
    }
    kilni_lanes_trim(device);
    pthread_mutex_unlock(&device->lock);
}
