// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening and closing of device sets, and the server behind "remote".
#include "device_set.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coll_memory.h"
#include "coll_snag.h"
#include "harness.h"
#include "ir_backend.h"

// ---- a device that fails ----

static atomic_int reads_left;
static atomic_int uploads_left;
static atomic_int executes_left;
static atomic_int calls_made;
static coll_snag snag = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static kiln_backend_transfer_ops failing_transfer;
static kiln_backend_memory_ops failing_memory;
static kiln_backend_device_ops failing_device;
static kiln_backend real;

static atomic_uint delay_us;
static atomic_uint_fast64_t spent_ns;

uint64_t device_set_delay(uint32_t delay)
{
    atomic_store(&delay_us, delay);
    return atomic_exchange(&spent_ns, 0);
}

/// Of a transfer that began then.
static kiln_status spend(uint64_t begin_ns, kiln_status status)
{
    uint32_t delay = atomic_load(&delay_us);
    const struct timespec pause = {.tv_nsec = (long)delay * 1000};
    if (delay > 0) {
        nanosleep(&pause, NULL);
    }
    atomic_fetch_add(&spent_ns, kiln_time_ns() - begin_ns);
    return status;
}

static void stay(void)
{
    snag_pass(&snag, (unsigned)atomic_fetch_add(&calls_made, 1) + 1);
}

static kiln_status failing_read(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                void *out_data, size_t bytes, kiln_error *err)
{
    uint64_t begin_ns = kiln_time_ns();
    stay();
    return atomic_fetch_sub(&reads_left, 1) == 1
               ? kiln_fail(err, DEVICE_LOST, "a read failed on purpose")
               : spend(begin_ns,
                       real.transfer->read(backend, buffer, offset, out_data, bytes, err));
}

/// How a server reads.
static kiln_status failing_map(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                               size_t bytes, const void **out_data, kiln_error *err)
{
    stay();
    return real.memory->map(backend, buffer, offset, bytes, out_data, err);
}

static kiln_status failing_upload(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                  const void *source, size_t bytes, kiln_error *err)
{
    uint64_t begin_ns = kiln_time_ns();
    stay();
    return atomic_fetch_sub(&uploads_left, 1) == 1
               ? kiln_fail(err, DEVICE_LOST, "an upload failed on purpose")
               : spend(begin_ns,
                       real.transfer->upload(backend, buffer, offset, source, bytes, err));
}

static kiln_status failing_execute(kiln_backend *backend, const kiln_op_record *record,
                                   const kiln_view *inputs, const kiln_view *outputs,
                                   kiln_error *err)
{
    stay();
    return atomic_fetch_sub(&executes_left, 1) == 1
               ? kiln_fail(err, DEVICE_LOST, "an operation failed on purpose")
               : real.device->execute(backend, record, inputs, outputs, err);
}

static kiln_status open_failing(const kiln_env *env, const char *address,
                                kiln_backend **out_backend, kiln_error *err, void *user)
{
    (void)user;
    (void)address;
    const kiln_backend_provider *reference = kiln_ir_reference_provider();
    kiln_status status = reference->open(env, "reference", out_backend, err, reference->user);
    if (status == KILN_STATUS_OK) {
        real = **out_backend;
        failing_transfer = *real.transfer;
        failing_transfer.read = failing_read;
        failing_transfer.upload = failing_upload;
        failing_memory = *real.memory;
        failing_memory.map = failing_map;
        failing_device = *real.device;
        failing_device.execute = failing_execute;
        (*out_backend)->transfer = &failing_transfer;
        (*out_backend)->memory = &failing_memory;
        (*out_backend)->device = &failing_device;
    }
    return status;
}

static const kiln_backend_provider failing_provider = {
    .struct_size = sizeof(kiln_backend_provider),
    .scheme = "failing",
    .open = open_failing,
    .interface = KILN_BACKEND_INTERFACE,
};

// ---- a server ----

#ifdef TEST_WITH_REMOTE
#include "remote_grpc.h"

typedef struct remote_host {
    kiln_context *context;
    kiln_device *device;
    kiln_rpc_server *server;
} remote_host;

static void host_stop(void *user)
{
    remote_host *host = user;
    if (host != NULL) {
        kiln_rpc_server_destroy(host->server);
        kiln_device_release(host->device);
        kiln_context_destroy(host->context);
        free(host);
    }
}

/// The address of a new server, or NULL.
static const char *host_start(device_set *set, const char *behind, kiln_error *err)
{
    remote_host *host = calloc(1, sizeof(*host));
    set->host = host;
    if (host == NULL || kiln_context_create(NULL, &host->context, err) != KILN_STATUS_OK ||
        kiln_context_add_provider(host->context, &failing_provider, err) != KILN_STATUS_OK ||
        kiln_device_open(host->context, behind, &host->device, err) != KILN_STATUS_OK ||
        kiln_rpc_server_create(&host->device, 1, NULL, &host->server, err) != KILN_STATUS_OK ||
        kiln_context_add_provider(set->context, kiln_rpc_provider(), err) != KILN_STATUS_OK) {
        return NULL;
    }
    return kiln_rpc_server_address(host->server, 0);
}
#else
static void host_stop(void *user)
{
    (void)user;
}

static const char *host_start(device_set *set, const char *behind, kiln_error *err)
{
    (void)set, (void)behind;
    (void)kiln_fail(err, UNIMPLEMENTED, "this build has no remote devices");
    return NULL;
}
#endif

void device_set_fail_at(int reads, int uploads, int executes)
{
    atomic_store(&reads_left, reads);
    atomic_store(&uploads_left, uploads);
    atomic_store(&executes_left, executes);
}

void device_set_stay_at(int number)
{
    pthread_mutex_lock(&snag.mutex);
    snag.at = number > 0 ? (unsigned)(atomic_load(&calls_made) + number) : 0;
    snag.released = false;
    pthread_mutex_unlock(&snag.mutex);
}

void device_set_let_go(void)
{
    snag_release(&snag);
}

bool device_set_open(device_set *set, const char *const *addresses, uint32_t count)
{
    return device_set_open_with(set, /*allocator=*/NULL, addresses, count);
}

/// Skips the case where a part of a GPU is among them.
static bool skips_parts(const char *const *addresses, uint32_t count)
{
    kiln_context *context = NULL;
    bool skips = false;
    for (uint32_t i = 0; i < count && !skips; i++) {
        char whole[32];
        kiln_device *device = NULL;
        size_t length = strcspn(addresses[i], "#");
        if (addresses[i][length] == '\0') {
            continue;
        }
        snprintf(whole, sizeof(whole), "%.*s", (int)length, addresses[i]);
        skips = (context != NULL || kiln_context_create(NULL, &context, NULL) == 0) &&
                kiln_device_open(context, whole, &device, NULL) == 0 &&
                kiln_device_info_of(device)->type == KILN_DEVICE_GPU;
        kiln_device_release(device);
    }
    kiln_context_destroy(context);
    if (skips) {
        kiln_test_skip("a GPU need not be divisible");
    }
    return skips;
}

bool device_set_open_with(device_set *set, const kiln_allocator *allocator,
                          const char *const *addresses, uint32_t count)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.allocator = allocator;
    *set = (device_set){.count = count};
    if (skips_parts(addresses, count)) {
        return false;
    }
    bool ok = kiln_context_create(&options, &set->context, &err) == KILN_STATUS_OK &&
              kiln_context_add_provider(set->context, &failing_provider, &err) == KILN_STATUS_OK;
    for (uint32_t i = 0; i < count && ok; i++) {
        bool remote = strncmp(addresses[i], "remote", 6) == 0;
        const char *behind = strcmp(addresses[i], "remote failing") == 0 ? "failing" : "reference";
        const char *address = remote ? host_start(set, behind, &err) : addresses[i];
        ok = address != NULL &&
             kiln_device_open(set->context, address, &set->devices[i], &err) == KILN_STATUS_OK;
    }
    if (!ok) {
        KILN_FAIL("%s", err.message);
    }
    return ok;
}

void device_set_use_commands(const kiln_collective *group)
{
    for (size_t i = 0; i < group->count; i++) {
        kilni_device_memory *memory = group->ranks[i].memory;
        memory->base.ops = memory->commands != NULL ? memory->commands : memory->base.ops;
    }
}

/// What a device holds; a worker that did not come back may be on its way.
static kiln_device_stats stats_at_rest(kiln_device *device)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    bool failed = false;
    for (int i = 0; i < 2000; i++) {
        kiln_status synced = kiln_sync(device, NULL); // a failure may be the test's
        failed = failed || (synced != KILN_STATUS_OK && synced != KILN_STATUS_DEVICE_LOST &&
                            synced != KILN_STATUS_DEADLINE_EXCEEDED);
        if (kiln_device_info_of(device)->type == KILN_DEVICE_GPU) {
            kiln_device_trim(device); // plans of GPUs keep counters
        }
        kiln_device_stats_get(device, &stats);
        if (stats.backend.bytes_used == 0) {
            break;
        }
        nanosleep(&pause, NULL);
    }
    KILN_CHECK(!failed);
    return stats;
}

void device_set_close(device_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->devices[i] != NULL) {
            const kiln_device_stats stats = stats_at_rest(set->devices[i]);
            KILN_CHECK_INT(stats.tensors_live, 0);
            KILN_CHECK_INT(stats.backend.bytes_used, 0);
            kiln_device_release(set->devices[i]);
        }
    }
    kiln_context_destroy(set->context);
    host_stop(set->host);
}
