// SPDX-License-Identifier: MIT OR Apache-2.0
// What a backend puts into a table where it has nothing better, and whether its tables are whole.
// Decides that callers never ask for a single entry: a default does the plain thing, does nothing,
// or says UNIMPLEMENTED where the header allows it.
#include <string.h>

#include "ir_backend.h"

// ---- the device ----

bool kiln_backend_runs_all(kiln_backend *backend, const kiln_op_record *record)
{
    (void)backend;
    (void)record;
    return true;
}

bool kiln_backend_joins_none(kiln_backend *backend, const kiln_joined_op *ops, uint32_t n_ops)
{
    (void)backend;
    (void)ops;
    (void)n_ops;
    return false;
}

bool kiln_device_has_groups(const kiln_device_info *info)
{
    enum { GROUP = 256, LOCAL = 32 << 10 }; // OpenCL's full profile promises the latter
    if (info == NULL) {
        return false;
    }
    bool small = (info->max_work_group != 0 && info->max_work_group < GROUP) ||
                 (info->local_bytes != 0 && info->local_bytes < LOCAL);
    return info->type == KILN_DEVICE_GPU && !small;
}

kiln_product kiln_ir_product_of(const kiln_op_record *record)
{
    const kiln_tensor_desc *left = &record->inputs[0], *right = &record->inputs[1];
    bool across = kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_A) != 0;
    bool turned = kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_B) != 0;
    kiln_product p = {.rows = 1, .columns = 1, .terms = 1};
    if (left->rank > 0) {
        p.terms = (double)left->dims[left->rank - (left->rank > 1 && across ? 2 : 1)];
    }
    if (left->rank > 1) {
        p.rows = (double)left->dims[left->rank - (across ? 1 : 2)];
    }
    if (right->rank > 1) {
        p.columns = (double)right->dims[right->rank - (turned ? 2 : 1)];
    }
    double each = p.rows * p.columns, matrix = p.terms * p.columns;
    p.batch = each > 0 ? (double)kiln_desc_count(&record->outputs[0]) / each : 0;
    p.rights = matrix > 0 ? (double)kiln_desc_count(right) / matrix : 0;
    return p;
}

bool kiln_ir_is_small_batch(const kiln_device_info *info, const kiln_op_record *record)
{
    enum { MOST = 128 * 128 * 128 }; // multiplications of each: more are a library's
    if (record->op != KILN_OP_MATMUL || info->type != KILN_DEVICE_CPU) {
        return false;
    }
    kiln_product p = kiln_ir_product_of(record);
    return p.rights > 1 && p.rows * p.columns * p.terms <= MOST;
}

void kiln_backend_no_doubt(kiln_backend *backend)
{
    (void)backend;
}

// ---- memory ----

void kiln_backend_no_trim(kiln_backend *backend)
{
    (void)backend;
}

kiln_status kiln_backend_no_budget(kiln_backend *backend, uint64_t bytes, kiln_error *err)
{
    (void)bytes;
    return kiln_fail(err, UNIMPLEMENTED, "the memory of %s has no budget of this process",
                     backend->scheme);
}

void kiln_backend_no_reset_peaks(kiln_backend *backend)
{
    (void)backend;
}

kiln_status kiln_backend_host_alloc(kiln_backend *backend, size_t bytes, void **out_memory,
                                    kiln_error *err)
{
    *out_memory = kiln_alloc(backend->env, bytes > 0 ? bytes : 1);
    return *out_memory != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
}

void kiln_backend_host_free(kiln_backend *backend, void *memory)
{
    kiln_free(backend->env, memory);
}

kiln_status kiln_backend_no_wrap(kiln_backend *backend, void *memory, size_t bytes,
                                 void (*release)(void *user), void *user, kiln_buffer **out_buffer,
                                 kiln_error *err)
{
    (void)memory;
    (void)bytes;
    (void)release;
    (void)user;
    *out_buffer = NULL;
    return kiln_fail(err, UNIMPLEMENTED, "%s has no buffers in memory of the host",
                     backend->scheme);
}

kiln_status kiln_backend_no_origin(kiln_backend *backend, const kiln_host_origin *origin,
                                   size_t bytes, kiln_buffer **out_buffer, kiln_error *err)
{
    (void)origin;
    (void)bytes;
    *out_buffer = NULL;
    return kiln_fail(err, UNIMPLEMENTED, "%s copies what it is given at once", backend->scheme);
}

kiln_status kiln_backend_stays(kiln_backend *backend, kiln_buffer *buffer, bool there,
                               kiln_error *err)
{
    (void)backend;
    (void)buffer;
    (void)there;
    (void)err;
    return KILN_STATUS_OK;
}

bool kiln_backend_has_all(kiln_backend *backend, const kiln_buffer *buffer)
{
    (void)backend;
    (void)buffer;
    return true;
}

kiln_status kiln_backend_no_map(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                size_t bytes, const void **out_data, kiln_error *err)
{
    (void)buffer;
    (void)offset;
    (void)bytes;
    *out_data = NULL;
    return kiln_fail(err, UNIMPLEMENTED, "%s has no bytes that the host can see", backend->scheme);
}

void kiln_backend_no_unmap(kiln_backend *backend, kiln_buffer *buffer, const void *data)
{
    (void)backend;
    (void)buffer;
    (void)data;
}

// ---- arenas ----

void kiln_backend_no_lend(kiln_backend *backend, kiln_buffer *const *buffers, uint32_t count)
{
    (void)backend;
    (void)buffers;
    (void)count;
}

uint32_t kiln_backend_asked_none(kiln_backend *backend, const uint64_t **out_bytes)
{
    (void)backend;
    *out_bytes = NULL;
    return 0;
}

// ---- transfers ----

kiln_status kiln_backend_copy_by_host(kiln_backend *backend, kiln_buffer *source,
                                      size_t source_offset, kiln_buffer *target,
                                      size_t target_offset, size_t bytes, kiln_error *err)
{
    void *staging = kiln_alloc(backend->env, bytes > 0 ? bytes : 1);
    if (staging == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
    }
    kiln_status status =
        backend->transfer->read(backend, source, source_offset, staging, bytes, err);
    if (status == KILN_STATUS_OK) {
        status = backend->transfer->upload(backend, target, target_offset, staging, bytes, err);
    }
    kiln_free(backend->env, staging);
    return status;
}

kiln_status kiln_backend_read_at_once(kiln_backend *backend, kiln_buffer *buffer, size_t offset,
                                      void *out_data, size_t bytes, kiln_pending **out_pending,
                                      kiln_error *err)
{
    *out_pending = NULL;
    return bytes > 0 ? backend->transfer->read(backend, buffer, offset, out_data, bytes, err)
                     : backend->device->sync(backend, err);
}

bool kiln_backend_read_is_done(kiln_pending *pending)
{
    (void)pending;
    return true;
}

void kiln_backend_no_read_wait(kiln_pending *pending, bool cancel)
{
    (void)pending;
    (void)cancel;
}

kiln_status kiln_backend_no_read_end(kiln_backend *backend, kiln_pending *pending, kiln_error *err)
{
    (void)backend;
    (void)pending;
    (void)err;
    return KILN_STATUS_OK;
}

// ---- programs ----

kiln_status kiln_backend_is_ready(kiln_backend *backend, const kiln_program *program,
                                  kiln_error *err)
{
    (void)backend;
    (void)program;
    (void)err;
    return KILN_STATUS_OK;
}

kiln_status kiln_backend_no_parts(kiln_backend *backend, const kiln_program *program,
                                  kiln_program_part_fn take, void *user, kiln_error *err)
{
    (void)program;
    (void)take;
    (void)user;
    return kiln_fail(err, UNIMPLEMENTED, "%s makes no binaries of programs", backend->scheme);
}

bool kiln_backend_compiles_all(kiln_backend *backend, bool ask)
{
    (void)backend;
    (void)ask;
    return true;
}

// ---- the trace ----

static kiln_status set_nothing(kiln_backend *backend, bool on, kiln_error *err)
{
    (void)backend;
    (void)on;
    (void)err;
    return KILN_STATUS_OK;
}

static void tag_nothing(kiln_backend *backend, uint64_t tag)
{
    (void)backend;
    (void)tag;
}

static kiln_status take_nothing(kiln_backend *backend,
                                void (*take)(const kiln_device_span *span, void *user), void *user,
                                uint64_t *out_lost, kiln_error *err)
{
    (void)backend;
    (void)take;
    (void)user;
    (void)err;
    *out_lost = 0;
    return KILN_STATUS_OK;
}

const kiln_backend_trace_ops kiln_backend_no_trace = {
    .struct_size = sizeof(kiln_backend_trace_ops),
    .set = set_nothing,
    .tag = tag_nothing,
    .take = take_nothing,
};

// ---- whether the tables are whole ----

typedef struct table_rule {
    const char *name;
    size_t offset; ///< of the pointer to it
    size_t size;
    bool may_be_absent;
} table_rule;

/// Behind its size a table is pointers to functions and nothing else.
static kiln_status check_table(const kiln_backend *backend, const table_rule *rule, kiln_error *err)
{
    const unsigned char *table = NULL;
    uint32_t size = 0;
    memcpy(&table, (const unsigned char *)backend + rule->offset, sizeof(table));
    if (table == NULL) {
        return rule->may_be_absent ? KILN_STATUS_OK
                                   : kiln_fail(err, INVALID_ARGUMENT, "backend %s has no %s table",
                                               backend->scheme, rule->name);
    }
    memcpy(&size, table, sizeof(size));
    if (size < rule->size) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the %s table of backend %s has %u bytes, and %zu are needed", rule->name,
                         backend->scheme, size, rule->size);
    }
    void (*function)(void) = NULL;
    for (size_t entry = 1; entry < rule->size / sizeof(function); entry++) {
        memcpy(&function, table + entry * sizeof(function), sizeof(function));
        if (function == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "function %zu of the %s table of backend %s is NULL; if it has none, "
                             "name the default of that function",
                             entry, rule->name, backend->scheme);
        }
    }
    return KILN_STATUS_OK;
}

// Which tables there are, which of them may be absent, and their sizes.
#define RULE(member, absent)                                                                       \
    {                                                                                              \
        .name = #member, .offset = offsetof(kiln_backend, member),                                 \
        .size = sizeof(kiln_backend_##member##_ops), .may_be_absent = absent                       \
    }
static const table_rule rules[] = {
    RULE(device, false), RULE(memory, false), RULE(transfer, false),
    RULE(trace, false),  RULE(program, true), RULE(arena, true),
    RULE(queue, true),   RULE(peer, true),    RULE(prepared, true),
};
#undef RULE

static kiln_status check_base(const kiln_backend *backend, kiln_error *err)
{
    if (backend->struct_size < sizeof(*backend) || backend->scheme == NULL ||
        backend->env == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a backend without its struct_size, its scheme or its environment");
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_backend_check(const kiln_backend *backend, kiln_error *err)
{
    kiln_status status = check_base(backend, err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < sizeof(rules) / sizeof(rules[0]); i++) {
        status = check_table(backend, &rules[i], err);
    }
    return status;
}

kiln_status kiln_backend_provider_check(const kiln_backend_provider *provider, kiln_error *err)
{
    bool says = provider->struct_size >= sizeof(*provider);
    if (says && provider->interface >= KILN_BACKEND_INTERFACE) {
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, FAILED_PRECONDITION,
                     "provider \"%s\" has backends of interface %u, and %d is needed: build it "
                     "again with the headers of this Kiln",
                     provider->scheme, says ? provider->interface : 1, KILN_BACKEND_INTERFACE);
}

/// What is not whole is not used, but where it can be it is closed.
static void close_refused(kiln_backend *backend)
{
    if (check_base(backend, NULL) == KILN_STATUS_OK &&
        check_table(backend, &rules[0], NULL) == KILN_STATUS_OK) {
        backend->device->close(backend);
    }
}

kiln_status kiln_backend_open(const kiln_backend_provider *provider, const kiln_env *env,
                              const char *address, kiln_backend **out_backend, kiln_error *err)
{
    kiln_backend *backend = NULL;
    *out_backend = NULL;
    kiln_status status = provider->open(env, address, &backend, err, provider->user);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_backend_check(backend, err);
    if (status != KILN_STATUS_OK) {
        close_refused(backend);
        return status;
    }
    *out_backend = backend;
    return KILN_STATUS_OK;
}
