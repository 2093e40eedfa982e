// SPDX-License-Identifier: MIT OR Apache-2.0
// Models of a folder as the functions that a server answers with. Decides nothing about them: each
// function holds a version and asks it.

#include "serving.h"

#include "base_wait.h"
#include "serving_repository.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { USUAL_BATCH = 4, USUAL_QUEUE = 1024 };

// ---- the functions ----

static bool is_ready(void *user)
{
    kiln_serving *serving = user;
    pthread_mutex_lock(&serving->lock);
    bool ready = serving->loaded && !serving->draining;
    pthread_mutex_unlock(&serving->lock);
    return ready;
}

static kiln_status infer(void *user, const kiln_model_request *request,
                         kiln_model_answer *out_answer, kiln_error *err)
{
    kiln_serving *serving = user;
    kilni_serving_version *version = NULL;
    kiln_status status =
        kilni_serving_hold(serving, request->model, request->version, &version, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_serving_loaded_infer(version->loaded, &serving->regions, request, out_answer,
                                            err);
    }
    kilni_serving_drop(serving, version);
    return status;
}

static void answer_free(void *user, kiln_model_answer *answer)
{
    kiln_serving *serving = user;
    kiln_free(serving->env, answer->memory);
    answer->memory = NULL;
}

static kiln_status describe(void *user, const char *name, const char *version,
                            kiln_model_info *out_info, kiln_error *err)
{
    kiln_serving *serving = user;
    kilni_serving_version *found = NULL;
    kiln_status status = kilni_serving_hold(serving, name, version, &found, err);
    if (status == KILN_STATUS_OK) {
        *out_info = *kilni_serving_loaded_info(found->loaded);
        kilni_serving_ready_versions(serving, name, out_info);
    }
    kilni_serving_drop(serving, found);
    return status;
}

static void list_index(void *user, bool ready_only, kiln_model_row_fn fn, void *to)
{
    kilni_serving_index(user, ready_only, fn, to);
}

static kiln_status load(void *user, const char *name, kiln_error *err)
{
    return kilni_serving_load(user, name, err);
}

static kiln_status unload(void *user, const char *name, kiln_error *err)
{
    return kilni_serving_unload(user, name, err);
}

static kiln_status tell_stats(kiln_serving *serving, const kilni_serving_version *version,
                              kiln_model_stats_fn fn, void *to, kiln_error *err)
{
    const kiln_model_info *info = kilni_serving_loaded_info(version->loaded);
    kilni_serving_stats *copy = kiln_alloc(serving->env, sizeof(*copy));
    if (copy == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for statistics");
    }
    kilni_serving_stats_copy(kilni_serving_loaded_stats(version->loaded), copy);
    memcpy(copy->sums.name, info->name, sizeof(info->name));
    memcpy(copy->sums.version, info->version, sizeof(info->version));
    fn(&copy->sums, to);
    kiln_free(serving->env, copy);
    return KILN_STATUS_OK;
}

static kiln_status statistics(void *user, const char *name, const char *version,
                              kiln_model_stats_fn fn, void *to, kiln_error *err)
{
    kiln_serving *serving = user;
    kilni_serving_version *each = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (name[0] != '\0') { // a name that is none is an error
        status = kilni_serving_hold(serving, name, version, &each, err);
        kilni_serving_drop(serving, each);
        each = NULL;
    }
    while (status == KILN_STATUS_OK && (each = kilni_serving_next(serving, each)) != NULL) {
        const kiln_model_info *info = kilni_serving_loaded_info(each->loaded);
        if ((name[0] == '\0' || strcmp(name, info->name) == 0) &&
            (version[0] == '\0' || strcmp(version, info->version) == 0)) {
            status = tell_stats(serving, each, fn, to, err);
        }
    }
    kilni_serving_drop(serving, each);
    return status;
}

static kiln_status region_add(void *user, const kiln_model_region *region, kiln_error *err)
{
    return kilni_serving_regions_add(&((kiln_serving *)user)->regions, region, err);
}

static kiln_status region_remove(void *user, const char *name, kiln_error *err)
{
    return kilni_serving_regions_remove(&((kiln_serving *)user)->regions, name, err);
}

static kiln_status region_list(void *user, const char *name, kiln_model_region_fn fn, void *to,
                               kiln_error *err)
{
    return kilni_serving_regions_list(&((kiln_serving *)user)->regions, name, fn, to, err);
}

// ---- life ----

static kiln_status copy_options(kiln_serving *serving, const kiln_serving_options *options,
                                kiln_error *err)
{
    struct stat folder;
    if (stat(options->folder, &folder) != 0 || !S_ISDIR(folder.st_mode)) {
        return kiln_fail(err, NOT_FOUND, "%.160s is no folder", options->folder);
    }
    if (options->n_load > sizeof(serving->load) / sizeof(serving->load[0])) {
        return kiln_fail(err, INVALID_ARGUMENT, "more than 64 models to be loaded at the start");
    }
    serving->folder = kiln_strdup(serving->env, options->folder);
    bool good = serving->folder != NULL;
    for (uint32_t i = 0; i < options->n_load; i++) {
        serving->load[serving->n_load] = kiln_strdup(serving->env, options->load[i]);
        good = good && serving->load[serving->n_load++] != NULL;
    }
    serving->load_nothing = options->load_nothing;
    serving->poll_seconds = options->poll_seconds;
    serving->defaults.max_batch = options->max_batch > 0 ? options->max_batch : USUAL_BATCH;
    serving->defaults.max_queue = options->max_queue > 0 ? options->max_queue : USUAL_QUEUE;
    return good ? KILN_STATUS_OK : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for options");
}

kiln_status kiln_serving_create(kiln_device *const *devices, uint32_t n_devices,
                                const kiln_serving_options *options, kiln_serving **out_serving,
                                kiln_error *err)
{
    *out_serving = NULL;
    if (n_devices == 0 || n_devices > 64) {
        return kiln_fail(err, INVALID_ARGUMENT, "models run on 1 to 64 devices");
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(devices[0]));
    kiln_serving *made = kiln_alloc(env, sizeof(*made));
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for models");
    }
    made->env = env;
    made->table = (kiln_models){.struct_size = (uint32_t)sizeof(kiln_models),
                                .user = made,
                                .ready = is_ready,
                                .infer = infer,
                                .answer_free = answer_free,
                                .describe = describe,
                                .index = list_index,
                                .load = load,
                                .unload = unload,
                                .statistics = statistics,
                                .region_add = region_add,
                                .region_remove = region_remove,
                                .region_list = region_list};
    kilni_serving_regions_init(&made->regions, env, options->shared_memory);
    pthread_mutex_init(&made->loading, NULL);
    pthread_mutex_init(&made->lock, NULL);
    kiln_cond_init(&made->changed);
    for (uint32_t i = 0; i < n_devices; i++) {
        made->devices[made->n_devices++] = kiln_device_retain(devices[i]);
    }
    kiln_status status = copy_options(made, options, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_serving_keep(made, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_serving_destroy(made);
        return status;
    }
    *out_serving = made;
    return KILN_STATUS_OK;
}

const kiln_models *kiln_serving_models(const kiln_serving *serving)
{
    return &serving->table;
}

void kiln_serving_drain(kiln_serving *serving)
{
    pthread_mutex_lock(&serving->lock);
    serving->draining = true;
    for (kilni_serving_model *model = serving->models; model != NULL; model = model->next) {
        for (kilni_serving_version *each = model->versions; each != NULL; each = each->next) {
            if (each->loaded != NULL) {
                kilni_serving_loaded_drain(each->loaded);
            }
        }
    }
    pthread_mutex_unlock(&serving->lock);
}

/// The devices go last: they hold the context, and with it the environment.
void kiln_serving_destroy(kiln_serving *serving)
{
    if (serving == NULL) {
        return;
    }
    kiln_device *devices[64];
    uint32_t n_devices = serving->n_devices;
    memcpy(devices, serving->devices, sizeof(devices));
    pthread_mutex_lock(&serving->lock);
    serving->stopping = true;
    serving->draining = true;
    pthread_cond_broadcast(&serving->changed);
    pthread_mutex_unlock(&serving->lock);
    if (serving->keeping) {
        (void)pthread_join(serving->keeper, NULL);
    }
    kilni_serving_unload_all(serving);
    kilni_serving_regions_fini(&serving->regions);
    pthread_cond_destroy(&serving->changed);
    pthread_mutex_destroy(&serving->lock);
    pthread_mutex_destroy(&serving->loading);
    for (uint32_t i = 0; i < serving->n_load; i++) {
        kiln_free(serving->env, serving->load[i]);
    }
    kiln_free(serving->env, serving->folder);
    kiln_free(serving->env, serving);
    for (uint32_t i = 0; i < n_devices; i++) {
        kiln_device_release(devices[i]);
    }
}
