// SPDX-License-Identifier: MIT OR Apache-2.0
// Engines: the fusers of one device with their host services, the store of their plans, and what
// plans on disk are kept under. What fusers are told of the device is fuser_facts.c's, what becomes
// of those that fail failures.c's; choosing among them is the search's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse_plan.h"
#include "kiln_fuser_ops.h"
#include "tournament.h"

enum { DEFAULT_MAX_SEGMENT = 320, DEFAULT_SEARCH_MS = 10000 };

// ---- fusers ----

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

/// A fuser that does not want this device is left out; that is no failure.
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
    kilni_fuse_crash_record_mark(plugin, engine->crash_slot, KILNI_FUSE_CALL_CREATE);
    kf_status status = plugin->table.fuser_create(&host->abi, index, facts, &fuser->handle);
    kilni_fuse_crash_record_mark(plugin, engine->crash_slot, KILNI_FUSE_CALL_NONE);
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

/// Of a plugin that brings operators there are two: itself, and the fuser of their kernels.
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
    host->late_ns = &engine->late_ns;
    host->store = engine->deterministic ? NULL : engine->options.store;
    const kiln_hash128 owner[2] = {engine->device.fingerprint,
                                   kiln_hash_bytes(plugin->info.hash, strlen(plugin->info.hash))};
    host->store_key = kiln_hash_bytes(owner, sizeof(owner));
    engine->hosts[engine->n_hosts++] = host;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < plugin->info.n_fusers && status == KILN_STATUS_OK; i++) {
        status = add_fuser(engine, plugin, i, host, facts, err);
    }
    return status;
}

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
            kilni_fuse_recall_bans(engine, plugin);
            status = fusion ? add_plugin(engine, plugin, &facts, err) : status;
            status = status == KILN_STATUS_OK ? add_plugin(engine, plugin->kernels, &facts, err)
                                              : status;
        }
    }
    return status;
}

// ---- engine ----

/// Measured figures differ from run to run; without them every score follows from shapes alone.
static void forget_measurements(kiln_fuse_engine *engine)
{
    if (kiln_config_bool(engine->env->config, KILN_OPTION_DETERMINISTIC)) {
        engine->device.bytes_per_s = 0;
        engine->device.flops_f32 = 0;
        engine->device.launch_ns = 0;
        engine->deterministic = true;
    }
}

static uint32_t plans_at_most(const kiln_env *env, const kiln_fuse_engine_options *options)
{
    int64_t limit = kiln_config_int(env->config, KILN_OPTION_PLAN_LIMIT);
    limit = options->max_plans != 0 ? options->max_plans : limit;
    return limit < 1 ? 1 : limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
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
                                 .list = kiln_config_string(env->config, KILN_OPTION_PLUGINS),
                                 .device = *device,
                                 .options = *options,
                                 .disk_opset = KF_OPSET_MAX};
    forget_measurements(engine);
    engine->fuse_slower = kiln_config_bool(env->config, KILN_OPTION_FUSE_SLOWER);
    engine->crash_slot = kilni_fuse_crash_record_slot(registry->crash_record);
    engine->facts[KILN_FACT_COMPUTE_UNITS] = device->compute_units;
    engine->facts[KILN_FACT_MAX_WORK_GROUP] = (int64_t)device->max_work_group;
    engine->facts[KILN_FACT_LOCAL_MEMORY] = (int64_t)device->local_bytes;
    engine->max_segment = options->max_segment != 0 ? options->max_segment : DEFAULT_MAX_SEGMENT;
    uint32_t search_ms = options->search_ms != 0 ? options->search_ms : DEFAULT_SEARCH_MS;
    engine->search_ns = engine->deterministic ? 0 : (uint64_t)search_ms * 1000000;
    uint32_t max_plans = plans_at_most(env, options);
    engine->scratch = kiln_alloc(env, sizeof(*engine->scratch));
    engine->op_view = kilni_fuse_op_view_create(env);
    kiln_status status =
        kilni_fuse_plan_store_init(&engine->plans, env, engine->facts, max_plans, err);
    if (status == KILN_STATUS_OK && (engine->op_view == NULL || engine->scratch == NULL)) {
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
    if (engine->scratch != NULL) {
        kilni_fuse_position_fini(engine->scratch, engine);
        kiln_free(env, engine->scratch);
    }
    kilni_fuse_plan_store_fini(&engine->plans);
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        kilni_fuse_crash_record_mark(engine->fusers[i].plugin, engine->crash_slot,
                                     KILNI_FUSE_CALL_DESTROY);
        engine->fusers[i].plugin->table.fuser_destroy(engine->fusers[i].handle);
        kilni_fuse_crash_record_mark(engine->fusers[i].plugin, engine->crash_slot,
                                     KILNI_FUSE_CALL_NONE);
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
