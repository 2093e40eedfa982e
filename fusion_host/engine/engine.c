// SPDX-License-Identifier: MIT OR Apache-2.0
// Engines: the fusers of one device with their host services, the facts that they are told, strikes
// and programs that must not come back. Plans are the plan store's; choosing among fusers is the
// search's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fusion_host_internal.h"
#include "kiln_fuser_ops.h"

enum { DEFAULT_MAX_SEGMENT = 320, DEFAULT_MAX_PLANS = 4096 };

// ---- device facts ----

static kf_str text_of(const char *text)
{
    return (kf_str){text, text == NULL ? 0 : strlen(text)};
}

static uint64_t features_of(const kiln_device_info *device)
{
    uint64_t features = 0;
    features |= (device->features & KILN_FEATURE_FP16) != 0 ? KF_FEATURE_FP16 : 0;
    features |= (device->features & KILN_FEATURE_FP64) != 0 ? KF_FEATURE_FP64 : 0;
    features |= (device->features & KILN_FEATURE_IL_SPIRV) != 0 ? KF_FEATURE_SPIRV : 0;
    bool prepared = (device->features & KILN_FEATURE_PREPARED) != 0;
    bool compiler = (device->features & KILN_FEATURE_COMPILER) != 0;
    bool single = (device->features & KILN_FEATURE_SINGLE_WORK_ITEM) != 0;
    features |= compiler || prepared ? KF_FEATURE_COMPILER : 0;
    features |= prepared ? KF_FEATURE_PREPARED : 0;
    features |= single ? KF_FEATURE_SINGLE_WORK_ITEM : 0;
    features |=
        (device->features & KILN_FEATURE_UNIFIED_MEMORY) != 0 ? KF_FEATURE_UNIFIED_MEMORY : 0;
    features |= device->type == KILN_DEVICE_GPU ? KF_FEATURE_LOCAL_MEMORY : 0;
    return features;
}

static void set_dtypes(const kiln_device_info *device, kf_device *out)
{
    for (uint32_t i = 1; i < KILN_DTYPE_LIMIT; i++) {
        if (kiln_dtype_size((kiln_dtype)i) == 0) {
            continue;
        }
        bool missing = (i == KILN_DTYPE_F64 && (device->features & KILN_FEATURE_FP64) == 0) ||
                       (i == KILN_DTYPE_F16 && (device->features & KILN_FEATURE_FP16) == 0) ||
                       i == KILN_DTYPE_BF16;
        bool unstorable = i == KILN_DTYPE_F64 && missing;
        out->dtype_storage |= unstorable ? 0 : 1ull << i;
        out->dtype_arithmetic |= missing ? 0 : 1ull << i;
    }
}

static uint32_t device_type(kiln_device_type type)
{
    switch (type) {
    case KILN_DEVICE_CPU:
        return KF_DEVICE_CPU;
    case KILN_DEVICE_GPU:
        return KF_DEVICE_GPU;
    case KILN_DEVICE_ACCELERATOR:
        return KF_DEVICE_ACCELERATOR;
    default:
        return KF_DEVICE_OTHER;
    }
}

void kilni_fuse_device_facts(const kiln_device_info *device, kf_device *out_facts)
{
    *out_facts = (kf_device){
        .struct_size = (uint32_t)sizeof(*out_facts),
        .device_type = device_type(device->type),
        .code_shape = device->type == KILN_DEVICE_GPU ? KF_SHAPE_NDRANGE : KF_SHAPE_BLOCK,
        .vendor_id = device->vendor_id,
        .features = features_of(device),
        .global_bytes = device->memory_bytes,
        .max_alloc_bytes = device->max_alloc_bytes,
        .local_bytes = device->local_bytes,
        .max_group_size = device->max_work_group,
        .max_group_dim = {device->max_work_group, device->max_work_group, device->max_work_group},
        .max_param_bytes = kilni_fuse_param_bytes(device),
        .compute_units = device->compute_units,
        .vector_bytes = device->vector_bytes,
        .mem_align_bytes = device->memory_align,
        .cl_version = device->cl_version,
        .cl_c_version = device->cl_version,
        .opset = KF_OPSET_MAX,
        .cache_bytes = device->cache_bytes,
        .mem_bytes_per_s = device->bytes_per_s,
        .flops_f32 = device->flops_f32,
        .launch_ns = device->launch_ns,
        .name = text_of(device->name),
        .driver = text_of(device->driver),
        .extensions = text_of(device->extensions),
        .fingerprint = {&device->fingerprint, sizeof(device->fingerprint)},
    };
    set_dtypes(device, out_facts);
}

// ---- fusers ----

bool kilni_fuse_fuser_enabled(const kilni_fuse_fuser *fuser)
{
    return atomic_load(&fuser->plugin->strikes[fuser->index]) < KILNI_FUSE_STRIKES_MAX;
}

/* So that the next process knows. */
static void remember_strike(const kilni_fuse_fuser *fuser, uint32_t strikes, const char *reason)
{
    const kilni_fuse_plugin *plugin = fuser->plugin;
    kilni_fuse_record record;
    if (plugin->state_folder == NULL || fuser->index >= KILNI_FUSE_MAX_FUSERS) {
        return;
    }
    int lock = kilni_fuse_record_begin(plugin->state_folder, plugin->info.hash, &record);
    snprintf(record.id, sizeof(record.id), "%s", plugin->info.id);
    kilni_fuse_strikes *s = &record.strikes[fuser->index];
    s->count = s->count > strikes ? s->count : strikes; // another device's may have come before
    snprintf(s->reason, sizeof(s->reason), "%s", reason);
    for (char *c = s->reason; *c != 0; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    (void)kilni_fuse_record_end(lock, plugin->state_folder, plugin->info.hash, &record);
}

void kilni_fuse_fuser_strike(kiln_fuse_engine *engine, uint32_t fuser, const char *reason)
{
    kilni_fuse_fuser *f = &engine->fusers[fuser];
    uint32_t strikes = atomic_fetch_add(&f->plugin->strikes[f->index], 1) + 1;
    engine->stats.strikes++;
    bool out = strikes == KILNI_FUSE_STRIKES_MAX;
    remember_strike(f, strikes, reason);
    atomic_fetch_add(&engine->registry->epoch, out);
    kiln_log_write(engine->env, KILN_LOG_WARN, KILNI_FUSE_MODULE, "fuser %s: %s (failure %u)%s",
                   f->name, reason, strikes, out ? ": disabled" : "");
}

static char *fuser_name(const kiln_env *env, const kilni_fuse_plugin *plugin, uint32_t index)
{
    const char *id = plugin->fuser_ids[index];
    if (strcmp(id, plugin->info.id) == 0) {
        return kiln_strdup(env, id);
    }
    size_t bytes = strlen(plugin->info.id) + strlen(id) + 2;
    char *name = kiln_alloc(env, bytes);
    if (name != NULL) {
        snprintf(name, bytes, "%s/%s", plugin->info.id, id);
    }
    return name;
}

/* A fuser that does not want this device is left out; that is no failure. */
static kiln_status add_fuser(kiln_fuse_engine *engine, kilni_fuse_plugin *plugin, uint32_t index,
                             kilni_fuse_host *host, const kf_device *facts, kiln_error *err)
{
    kilni_fuse_fuser *fuser = &engine->fusers[engine->n_fusers];
    kilni_fuse_diag diag = {0};
    *fuser = (kilni_fuse_fuser){
        .plugin = plugin, .index = index, .id = plugin->fuser_ids[index], .host = host};
    const char *off = engine->registry->developer
                          ? NULL
                          : kilni_fuse_switched_off(engine->list, plugin, fuser->id);
    if (off != NULL) {
        kiln_log_write(engine->env, KILN_LOG_INFO, KILNI_FUSE_MODULE, "fuser %s/%s: %s",
                       plugin->info.id, fuser->id, off);
        return KILN_STATUS_OK;
    }
    kilni_fuse_host_listen(host, &diag);
    kilni_fuse_crumb_set(plugin, engine->crumb_slot, KILNI_FUSE_CALL_CREATE);
    kf_status status = plugin->table.fuser_create(&host->abi, index, facts, &fuser->handle);
    kilni_fuse_crumb_set(plugin, engine->crumb_slot, KILNI_FUSE_CALL_NONE);
    kilni_fuse_host_listen(host, NULL);
    if (status != KF_OK || fuser->handle == NULL) {
        kiln_log_write(engine->env, status == KF_DECLINED ? KILN_LOG_DEBUG : KILN_LOG_WARN,
                       KILNI_FUSE_MODULE, "fuser %s/%s takes no part (%d): %s", plugin->info.id,
                       fuser->id, status, diag.text);
        return KILN_STATUS_OK;
    }
    engine->n_fusers++;
    fuser->name = fuser_name(engine->env, plugin, index);
    return fuser->name != NULL ? KILN_STATUS_OK
                               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a fuser");
}

/* Of a plugin that brings operators there are two: itself, and the fuser of their kernels. */
static kiln_status add_plugin(kiln_fuse_engine *engine, kilni_fuse_plugin *plugin,
                              const kf_device *facts, kiln_error *err)
{
    if (plugin == NULL || plugin->info.n_fusers == 0) {
        return KILN_STATUS_OK;
    }
    kilni_fuse_host *host = kiln_alloc(engine->env, sizeof(*host));
    if (host == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a plugin's host");
    }
    kilni_fuse_host_init(host, engine->env, plugin->info.id);
    host->plugin = plugin;
    engine->hosts[engine->n_hosts++] = host;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < plugin->info.n_fusers && status == KILN_STATUS_OK; i++) {
        status = add_fuser(engine, plugin, i, host, facts, err);
    }
    return status;
}

static void recall_bans(kiln_fuse_engine *engine, const kilni_fuse_plugin *plugin);

static kiln_status add_fusers(kiln_fuse_engine *engine, bool fusion, kiln_error *err)
{
    const kiln_fuse_registry *registry = engine->registry;
    uint32_t n_fusers = 0;
    for (uint32_t i = 0; i < registry->n_plugins; i++) {
        n_fusers += registry->plugins[i]->info.n_fusers + 1;
    }
    engine->fusers = kiln_alloc_array(engine->env, (size_t)n_fusers + 1, sizeof(*engine->fusers));
    engine->hosts = kiln_alloc_array(engine->env, 2 * (size_t)registry->n_plugins + 1,
                                     sizeof(kilni_fuse_host *));
    if (engine->fusers == NULL || engine->hosts == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the fusers");
    }
    kf_device facts;
    kilni_fuse_device_facts(&engine->device, &facts);
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < registry->n_plugins && status == KILN_STATUS_OK; i++) {
        kilni_fuse_plugin *plugin = registry->plugins[i];
        if (plugin->info.state == KILN_FUSE_TAKEN) {
            recall_bans(engine, plugin);
            status = fusion ? add_plugin(engine, plugin, &facts, err) : status;
            status = status == KILN_STATUS_OK ? add_plugin(engine, plugin->kernels, &facts, err)
                                              : status;
        }
    }
    return status;
}

// ---- engine ----

/* Measured figures differ from run to run; without them every score follows from shapes alone. */
static void forget_measurements(kiln_fuse_engine *engine)
{
    if (kiln_config_bool(engine->env->config, KILN_KNOB_DETERMINISTIC)) {
        engine->device.bytes_per_s = 0;
        engine->device.flops_f32 = 0;
        engine->device.launch_ns = 0;
        engine->deterministic = true;
    }
}

kiln_status kiln_fuse_engine_create(kiln_fuse_registry *registry, const kiln_device_info *device,
                                    const kiln_fuse_engine_options *options,
                                    kiln_fuse_engine **out_engine, kiln_error *err)
{
    const kiln_env *env = registry->env;
    *out_engine = NULL;
    kiln_fuse_registry_complete(registry);
    kiln_fuse_engine *engine = kiln_alloc(env, sizeof(*engine));
    if (engine == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an engine");
    }
    *engine = (kiln_fuse_engine){.registry = registry,
                                 .env = env,
                                 .list = kiln_config_string(env->config, KILN_KNOB_PLUGINS),
                                 .device = *device,
                                 .options = *options,
                                 .disk_opset = KF_OPSET_MAX};
    forget_measurements(engine);
    engine->fuse_slower = kiln_config_bool(env->config, KILN_KNOB_FUSE_SLOWER);
    engine->crumb_slot = kilni_fuse_crumbs_slot(registry->crumbs);
    engine->facts[KILN_FACT_COMPUTE_UNITS] = device->compute_units;
    engine->facts[KILN_FACT_MAX_WORK_GROUP] = (int64_t)device->max_work_group;
    engine->facts[KILN_FACT_LOCAL_MEMORY] = (int64_t)device->local_bytes;
    engine->max_segment = options->max_segment != 0 ? options->max_segment : DEFAULT_MAX_SEGMENT;
    uint32_t max_plans = options->max_plans != 0 ? options->max_plans : DEFAULT_MAX_PLANS;
    kilni_fuse_position_init(&engine->scratch);
    engine->op_view = kilni_fuse_op_view_create(env);
    kiln_status status =
        kilni_fuse_plan_store_init(&engine->plans, env, engine->facts, max_plans, err);
    if (status == KILN_STATUS_OK && engine->op_view == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an engine");
    }
    bool programs = (device->features & KILN_FEATURE_PROGRAMS) != 0;
    if (status == KILN_STATUS_OK && programs) {
        status = add_fusers(engine, options->fusion_off == 0, err);
        engine->store = engine->n_fusers > 0 ? options->store : NULL;
    }
    if (status == KILN_STATUS_OK && !kilni_fuse_disk_init(engine)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an engine");
    }
    if (status != KILN_STATUS_OK) {
        kiln_fuse_engine_destroy(engine);
        return status;
    }
    if (!engine->deterministic) {
        kilni_fuse_trust_load(engine);
    }
    *out_engine = engine;
    return KILN_STATUS_OK;
}

kiln_status kiln_fuse_engine_again(const kiln_fuse_engine *engine, const kiln_device_info *device,
                                   kiln_fuse_engine **out_engine, kiln_error *err)
{
    return kiln_fuse_engine_create(engine->registry, device, &engine->options, out_engine, err);
}

void kiln_fuse_engine_destroy(kiln_fuse_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    const kiln_env *env = engine->env;
    kilni_fuse_position_fini(&engine->scratch, engine);
    kilni_fuse_plan_store_fini(&engine->plans);
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        engine->fusers[i].plugin->table.fuser_destroy(engine->fusers[i].handle);
        kiln_free(env, engine->fusers[i].name);
    }
    for (uint32_t i = 0; i < engine->n_hosts; i++) {
        kilni_fuse_host_fini(engine->hosts[i]);
        kiln_free(env, engine->hosts[i]);
    }
    kiln_free(env, engine->fusers);
    kiln_free(env, (void *)engine->hosts);
    kiln_free(env, engine->banned);
    kiln_free(env, engine->winners);
    kilni_fuse_op_view_destroy(env, engine->op_view);
    kiln_free(env, engine);
}

void kiln_fuse_engine_stats(const kiln_fuse_engine *engine, kiln_fuse_stats *out_stats)
{
    *out_stats = engine->stats;
    out_stats->plans_kept = engine->plans.n_plans;
}

// ---- failures ----

bool kilni_fuse_admits(const kiln_fuse_engine *engine, const kiln_program *program,
                       kiln_error *out_why)
{
    const kiln_fuse_engine_options *options = &engine->options;
    return options->admit == NULL ||
           options->admit(options->admit_user, program, out_why) == KILN_STATUS_OK;
}

const char *kilni_fuse_program_failure(const kiln_fuse_engine *engine, kiln_hash128 key)
{
    for (uint32_t i = 0; i < engine->n_banned; i++) {
        if (kiln_hash_same(engine->banned[i].key, key)) {
            return engine->banned[i].text;
        }
    }
    return kilni_fuse_program_off(engine->list, key) ? "denied by the list of plugins" : NULL;
}

static void ban(kiln_fuse_engine *engine, kiln_hash128 key, const char *reason)
{
    if (kilni_fuse_program_failure(engine, key) == NULL &&
        kilni_fuse_grow(engine->env, &engine->banned, &engine->banned_capacity,
                        (uint64_t)engine->n_banned + 1, sizeof(*engine->banned))) {
        kilni_fuse_failure *failure = &engine->banned[engine->n_banned++];
        failure->key = key;
        snprintf(failure->text, sizeof(failure->text), "%s", reason);
    }
}

/* So that a plan on disk does not bring it back in the next process. */
static void remember_ban(const kiln_fuse_engine *engine, uint32_t fuser, kiln_hash128 key,
                         const char *reason)
{
    const kilni_fuse_plugin *plugin = engine->fusers[fuser].plugin;
    kilni_fuse_record record;
    char hex[33];
    if (plugin->state_folder != NULL) {
        int lock = kilni_fuse_record_begin(plugin->state_folder, plugin->info.hash, &record);
        snprintf(record.id, sizeof(record.id), "%s", plugin->info.id);
        kiln_hash_hex(key, hex);
        kilni_fuse_record_ban(&record, hex, reason);
        (void)kilni_fuse_record_end(lock, plugin->state_folder, plugin->info.hash, &record);
    }
}

/* Keys are as kiln_hash_hex writes them. */
static void recall_bans(kiln_fuse_engine *engine, const kilni_fuse_plugin *plugin)
{
    kilni_fuse_record record;
    if (!kilni_fuse_record_read(plugin->state_folder, plugin->info.hash, &record)) {
        return;
    }
    for (uint32_t i = 0; i < record.n_bans; i++) {
        char high[17] = "";
        memcpy(high, record.bans[i].key, 16);
        const kiln_hash128 key = {.low = strtoull(record.bans[i].key + 16, NULL, 16),
                                  .high = strtoull(high, NULL, 16)};
        ban(engine, key, record.bans[i].reason);
    }
}

static bool holds_program(const kilni_fuse_plan *plan, kiln_hash128 key)
{
    for (uint32_t i = 0; i < plan->plan.n_blocks; i++) {
        kiln_hash128 k = plan->plan.blocks[i].program->key;
        if (kiln_hash_same(k, key)) {
            return true;
        }
    }
    return false;
}

/* Who made the block; NONE when its plan is gone. */
static uint32_t fuser_of(const kiln_fuse_engine *engine, const kiln_plan_block *block)
{
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        if (strcmp(engine->fusers[i].name, block->fuser) == 0) {
            return i;
        }
    }
    return KILNI_FUSE_NONE;
}

/* Being out of memory, losing the device or its compiler is not the fuser's fault. */
static bool is_fusers_fault(const kiln_error *cause)
{
    return cause == NULL ||
           (cause->code != KILN_STATUS_RESOURCE_EXHAUSTED &&
            cause->code != KILN_STATUS_OUT_OF_RANGE && // sizes of this run
            cause->code != KILN_STATUS_UNIMPLEMENTED && cause->code != KILN_STATUS_DEVICE_LOST &&
            cause->code != KILN_STATUS_CANCELLED);
}

/* The next run may find the memory. */
static bool passes(const kiln_error *cause)
{
    return cause != NULL &&
           (cause->code == KILN_STATUS_RESOURCE_EXHAUSTED || cause->code == KILN_STATUS_CANCELLED);
}

void kiln_fuse_block_doing(kiln_fuse_engine *engine, const kiln_plan_block *block,
                           kiln_fuse_doing doing)
{
    static const kilni_fuse_call calls[] = {KILNI_FUSE_CALL_NONE, KILNI_FUSE_CALL_BUILD,
                                            KILNI_FUSE_CALL_RUN};
    uint32_t fuser = fuser_of(engine, block);
    if (fuser != KILNI_FUSE_NONE) {
        kilni_fuse_crumb_set(engine->fusers[fuser].plugin, engine->crumb_slot, calls[doing]);
    }
}

bool kiln_fuse_block_ships(const kiln_fuse_engine *engine, const kiln_plan_block *block)
{
    uint32_t fuser = fuser_of(engine, block);
    return fuser != KILNI_FUSE_NONE &&
           engine->fusers[fuser].plugin->trust == KILNI_FUSE_TRUST_SHIPPED;
}

const char *kiln_fuse_block_named_file(const kiln_fuse_engine *engine, const kiln_plan_block *block)
{
    uint32_t fuser = fuser_of(engine, block);
    const kilni_fuse_plugin *plugin =
        fuser != KILNI_FUSE_NONE ? engine->fusers[fuser].plugin : NULL;
    return plugin != NULL && plugin->trust == KILNI_FUSE_TRUST_ADDED ? plugin->info.path : NULL;
}

void kiln_fuse_block_hung(kiln_fuse_engine *engine, const kiln_plan_block *block,
                          const kiln_error *cause)
{
    uint32_t fuser = fuser_of(engine, block);
    if (fuser != KILNI_FUSE_NONE) { // another hang would cost another device
        const kilni_fuse_fuser *f = &engine->fusers[fuser];
        atomic_uint *strikes = &f->plugin->strikes[f->index];
        if (atomic_load(strikes) < KILNI_FUSE_STRIKES_MAX) {
            atomic_store(strikes, KILNI_FUSE_STRIKES_MAX - 1);
        }
    }
    (void)kiln_fuse_block_failed(engine, block, cause);
}

bool kiln_fuse_block_failed(kiln_fuse_engine *engine, const kiln_plan_block *block,
                            const kiln_error *cause)
{
    kiln_hash128 key = block->program->key;
    uint32_t fuser = fuser_of(engine, block);
    if (passes(cause)) {
        return false;
    }
    ban(engine, key, cause != NULL ? cause->message : "a block failed");
    if (fuser != KILNI_FUSE_NONE && is_fusers_fault(cause)) {
        kilni_fuse_fuser_strike(engine, fuser, cause != NULL ? cause->message : "a block failed");
        remember_ban(engine, fuser, key, cause != NULL ? cause->message : "a block failed");
    }
    kilni_fuse_plan *plan = engine->plans.oldest;
    while (plan != NULL) {
        kilni_fuse_plan *newer = plan->newer;
        if (holds_program(plan, key)) {
            kilni_fuse_plan_store_discard(&engine->plans, plan);
        }
        plan = newer;
    }
    return true;
}
