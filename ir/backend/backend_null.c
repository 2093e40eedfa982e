// SPDX-License-Identifier: MIT OR Apache-2.0
// The backend "null": keeps memory, runs nothing. Operations and programs are accepted and counted,
// so what a program costs the host can be measured alone. Buffers hold what was uploaded; results
// are undefined.
#include <string.h>

#include "backend_host.h"

struct kiln_built {
    const kiln_program *program;
};

static kiln_status null_execute(kiln_backend *backend, const kiln_op_record *record,
                                const kiln_view *inputs, const kiln_view *outputs, kiln_error *err)
{
    (void)record;
    (void)inputs;
    (void)outputs;
    (void)err;
    ((kilni_host_backend *)backend)->stats.ops_executed++;
    return KILN_STATUS_OK;
}

static kiln_status program_build(kiln_backend *backend, const kiln_program *program,
                                 kiln_built **out_built, kiln_error *err)
{
    kilni_host_backend *host = (kilni_host_backend *)backend;
    *out_built = NULL;
    kiln_built *built = kiln_alloc(backend->env, sizeof(*built));
    if (built == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "null: no memory for a program");
    }
    built->program = program;
    host->stats.programs_built++;
    *out_built = built;
    return KILN_STATUS_OK;
}

static void program_free(kiln_backend *backend, kiln_built *built)
{
    kiln_free(backend->env, built);
}

static kiln_status program_launch(kiln_backend *backend, kiln_built *built,
                                  const kiln_launch *launch, kiln_error *err)
{
    if (launch->launch >= built->program->n_launches) {
        return kiln_fail(err, INVALID_ARGUMENT, "null: launch %u of a program with %u",
                         launch->launch, built->program->n_launches);
    }
    ((kilni_host_backend *)backend)->stats.kernels_launched++;
    return KILN_STATUS_OK;
}

static kiln_status program_time(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                                uint64_t *out_ns, kiln_error *err)
{
    *out_ns = 0;
    return program_launch(backend, built, launch, err);
}

// ---- prepared launches ----

struct kiln_prepared {
    uint32_t n_args; ///< of the launch
};

static kiln_status null_prepare(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                                kiln_prepared **out_prepared, kiln_error *err)
{
    *out_prepared = NULL;
    if (launch->launch >= built->program->n_launches) {
        return kiln_fail(err, INVALID_ARGUMENT, "null: launch %u of a program with %u",
                         launch->launch, built->program->n_launches);
    }
    *out_prepared = kiln_alloc(backend->env, sizeof(**out_prepared));
    if (*out_prepared == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "null: no memory for a launch");
    }
    (*out_prepared)->n_args = launch->n_args;
    return KILN_STATUS_OK;
}

static void null_replace(kiln_backend *backend, kiln_prepared *prepared, uint32_t arg,
                         kiln_buffer *buffer)
{
    (void)backend;
    (void)prepared;
    (void)arg;
    (void)buffer;
}

static kiln_status null_enqueue(kiln_backend *backend, kiln_prepared *const *prepared,
                                uint32_t count, uint32_t *out_done, kiln_error *err)
{
    (void)prepared;
    (void)err;
    ((kilni_host_backend *)backend)->stats.kernels_launched += count;
    *out_done = count;
    return KILN_STATUS_OK;
}

static void null_unprepare(kiln_backend *backend, kiln_prepared *prepared)
{
    kiln_free(backend->env, prepared);
}

static const kiln_backend_device_ops null_device_ops = {
    .struct_size = sizeof(kiln_backend_device_ops),
    .close = kilni_host_close,
    .info = kilni_host_info,
    .dtype_usage = kilni_host_dtype_usage,
    .stats = kilni_host_stats,
    .execute = null_execute,
    .execute_joined = kiln_backend_joins_none,
    .runs = kiln_backend_runs_all,
    .doubt_speeds = kiln_backend_no_doubt,
    .flush = kilni_host_flush,
    .sync = kilni_host_sync,
};

static const kiln_backend_memory_ops null_memory_ops = {
    .struct_size = sizeof(kiln_backend_memory_ops),
    .alloc = kilni_host_alloc,
    .alloc_persistent = kilni_host_alloc,
    .free = kilni_host_free,
    .trim = kiln_backend_no_trim,
    .set_budget = kilni_host_set_budget,
    .reset_peaks = kilni_host_reset_peaks,
    .host_alloc = kiln_backend_host_alloc,
    .host_free = kiln_backend_host_free,
    .wrap_host = kiln_backend_no_wrap,
    .alloc_from = kiln_backend_no_origin,
    .reside = kiln_backend_stays,
    .resides = kiln_backend_has_all,
    .map = kilni_host_map,
    .unmap = kiln_backend_no_unmap,
};

static const kiln_backend_program_ops program_ops = {
    .struct_size = sizeof(kiln_backend_program_ops),
    .build = program_build,
    .free = program_free,
    .launch = program_launch,
    .time = program_time,
    .ready = kiln_backend_is_ready,
    .parts = kiln_backend_no_parts,
    .compiles = kiln_backend_compiles_all,
};

static const kiln_backend_prepared_ops null_prepared_ops = {
    .struct_size = sizeof(kiln_backend_prepared_ops),
    .prepare = null_prepare,
    .replace = null_replace,
    .enqueue = null_enqueue,
    .unprepare = null_unprepare,
};

static const kiln_backend null_tables = {
    .struct_size = sizeof(kiln_backend),
    .scheme = "null",
    .device = &null_device_ops,
    .memory = &null_memory_ops,
    .transfer = &kilni_host_transfer_ops,
    .program = &program_ops,
    .arena = &kilni_host_arena_ops,
    .trace = &kiln_backend_no_trace,
    .prepared = &null_prepared_ops,
};

/// Figures of an ordinary CPU, so that fusers find fusing worth it.
static const kiln_device_info null_info = {
    .name = "null",
    .vendor = "kiln",
    .platform = "host",
    .driver = KILN_VERSION_STRING,
    .extensions = "",
    .type = KILN_DEVICE_HOST,
    .features = KILN_FEATURE_FP16 | KILN_FEATURE_FP64 | KILN_FEATURE_COMPILER |
                KILN_FEATURE_UNIFIED_MEMORY | KILN_FEATURE_PROGRAMS,
    .compute_units = 8,
    .vector_bytes = 32,
    .memory_align = 128,
    .cl_version = 120,
    .memory_bytes = UINT64_C(1) << 36,
    .max_alloc_bytes = UINT64_C(1) << 34,
    .local_bytes = 65536,
    .max_work_group = 4096,
    .max_parameter_bytes = 1024,
    .bytes_per_s = UINT64_C(20000000000),
    .flops_f32 = UINT64_C(200000000000),
    .launch_ns = 5000,
};

/// What the host's code asks of this backend, whatever it plans for.
static const uint32_t own_features = KILN_FEATURE_COMPILER | KILN_FEATURE_PROGRAMS;

/// The three texts behind each other.
static kiln_status take_texts(kilni_host_backend *host, kiln_device_info *info, kiln_error *err)
{
    const char **const places[] = {&info->name, &info->driver, &info->extensions};
    size_t bytes = 0, at = 0;
    for (size_t i = 0; i < 3; i++) {
        bytes += strlen(*places[i]) + 1;
    }
    char *texts = kiln_alloc(host->base.env, bytes);
    if (texts == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a device's description");
    }
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(*places[i]) + 1;
        memcpy(texts + at, *places[i], length);
        *places[i] = texts + at;
        at += length;
    }
    kiln_free(host->base.env, host->texts);
    host->texts = texts;
    return KILN_STATUS_OK;
}

kiln_status kiln_ir_null_plan_for(kiln_backend *backend, const kiln_device_info *there,
                                  kiln_error *err)
{
    if (backend->device != &null_device_ops) {
        return kiln_fail(err, UNIMPLEMENTED, "%s is not the null device", backend->scheme);
    }
    if (there->name == NULL || there->driver == NULL || there->extensions == NULL ||
        there->compute_units == 0 || there->vector_bytes < 16) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a device to plan for has a name, a driver, extensions, compute units and "
                         "vectors of 16 or more bytes");
    }
    kilni_host_backend *host = (kilni_host_backend *)backend;
    kiln_device_info info = *there;
    kiln_status status = take_texts(host, &info, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    info.vendor = null_info.vendor;
    info.platform = null_info.platform;
    info.features |= own_features;
    const uint64_t numbers[] = {info.type,
                                info.features,
                                info.compute_units,
                                info.vector_bytes,
                                info.local_bytes,
                                info.max_work_group,
                                info.bytes_per_s,
                                info.flops_f32,
                                info.launch_ns,
                                info.subgroup_sizes,
                                info.subgroup_size,
                                info.cache_bytes,
                                info.max_alloc_bytes,
                                info.max_parameter_bytes,
                                info.memory_align,
                                info.memory_bytes,
                                info.flops_f16,
                                info.flops_f64,
                                info.accelerated_dtypes,
                                info.max_work_items[0],
                                info.max_work_items[1],
                                info.max_work_items[2]};
    const kiln_hash128 parts[] = {kiln_hash_bytes(info.name, strlen(info.name)),
                                  kiln_hash_bytes(info.driver, strlen(info.driver)),
                                  kiln_hash_bytes(info.extensions, strlen(info.extensions)),
                                  kiln_hash_bytes(numbers, sizeof(numbers))};
    info.fingerprint = kiln_hash_bytes(parts, sizeof(parts));
    host->info = info;
    return KILN_STATUS_OK;
}

static kiln_status open_null(const kiln_env *env, const char *address, kiln_backend **out_backend,
                             kiln_error *err, void *user)
{
    (void)address;
    (void)user;
    return kilni_host_open(env, &null_tables, &null_info, out_backend, err);
}

const kiln_backend_provider *kiln_ir_null_provider(void)
{
    static const kiln_backend_provider provider = {
        .struct_size = sizeof(kiln_backend_provider),
        .interface = KILN_BACKEND_INTERFACE,
        .scheme = "null",
        .open = open_null,
    };
    return &provider;
}
