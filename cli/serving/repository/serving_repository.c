// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads and unloads models. New versions are made ready beside the old ones, which go when nobody
// uses them any more; a load that fails leaves what ran. One load at a time; calls go on meanwhile.

#include "serving_repository.h"

#include "base_wait.h"
#include "serving_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char READY[] = "READY";
static const char UNAVAILABLE[] = "UNAVAILABLE";
static const char UNLOADING[] = "UNLOADING";

// ---- the table ----

/// Under the lock.
static kilni_serving_model *find_model(kiln_serving *serving, const char *name)
{
    kilni_serving_model *model = serving->models;
    while (model != NULL && strcmp(model->name, name) != 0) {
        model = model->next;
    }
    return model;
}

/// Under the lock. NULL: no memory.
static kilni_serving_model *add_model(kiln_serving *serving, const char *name)
{
    kilni_serving_model **link = &serving->models;
    kilni_serving_model *made = find_model(serving, name);
    if (made != NULL) {
        return made;
    }
    made = kiln_alloc(serving->env, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    snprintf(made->name, sizeof(made->name), "%s", name);
    snprintf(made->reason, sizeof(made->reason), "not loaded");
    while (*link != NULL && strcmp((*link)->name, name) < 0) {
        link = &(*link)->next;
    }
    made->next = *link;
    *link = made;
    return made;
}

static void add_found(const char *name, void *to)
{
    kiln_serving *serving = to;
    pthread_mutex_lock(&serving->lock);
    (void)add_model(serving, name);
    pthread_mutex_unlock(&serving->lock);
}

static void free_versions(const kiln_env *env, kilni_serving_version *versions)
{
    while (versions != NULL) {
        kilni_serving_version *next = versions->next;
        kilni_serving_loaded_close(versions->loaded);
        kiln_free(env, versions);
        versions = next;
    }
}

/// Waits until nobody uses versions that are in no list any more, and frees them.
static void retire(kiln_serving *serving, kilni_serving_version *versions)
{
    pthread_mutex_lock(&serving->lock);
    for (kilni_serving_version *each = versions; each != NULL; each = each->next) {
        while (each->refs > 0) {
            (void)pthread_cond_wait(&serving->changed, &serving->lock);
        }
    }
    pthread_mutex_unlock(&serving->lock);
    free_versions(serving->env, versions);
}

// ---- loading ----

/// What a model's folder says before any version is opened.
typedef struct model_folder {
    kiln_arena arena;
    char path[4096];
    char file[KILN_MODEL_NAME];
    kilni_serving_node *config;
    kilni_serving_choice choice;
    uint64_t numbers[KILN_MODEL_VERSIONS];
    uint32_t n_numbers;
} model_folder;

static kiln_status read_folder(const kiln_serving *serving, const char *name, model_folder *out,
                               kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if ((size_t)snprintf(out->path, sizeof(out->path), "%s/%s", serving->folder, name) >=
        sizeof(out->path)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the path of model %.60s is too long", name);
    }
    KILN_TRY(out, status, kilni_serving_folder_config(&out->arena, out->path, &out->config, err));
    KILN_TRY(out, status,
             kilni_serving_policy_choose(out->config, name, out->file, &out->choice, err));
    out->n_numbers = kilni_serving_folder_versions(out->path, &out->choice, out->numbers);
    if (out->n_numbers == 0) {
        return kiln_fail(err, NOT_FOUND, "the folder has no version: %.60s/1/%.60s is expected",
                         name, out->file);
    }
out:
    return status;
}

/// Opens one version; one that fails is made too, with its reason. NULL: no memory.
static kilni_serving_version *open_version(kiln_serving *serving, const char *name,
                                           const model_folder *folder, uint64_t number)
{
    char path[4096 + 24];
    kiln_error why = KILN_ERROR_INIT;
    kilni_serving_version *made = kiln_alloc(serving->env, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/%" PRIu64, folder->path, number);
    const kilni_serving_source source = {.env = serving->env,
                                         .devices = serving->devices,
                                         .n_devices = serving->n_devices,
                                         .defaults = serving->defaults,
                                         .name = name,
                                         .folder = path,
                                         .file = folder->file,
                                         .number = number,
                                         .config = folder->config};
    kiln_status status = kilni_serving_loaded_open(&source, &made->loaded, &why);
    made->number = number;
    made->state = status == KILN_STATUS_OK ? READY : UNAVAILABLE;
    snprintf(made->reason, sizeof(made->reason), "%s", why.message);
    kiln_log_write(serving->env, status == KILN_STATUS_OK ? KILN_LOG_INFO : KILN_LOG_WARN,
                   "serving", "model %s version %" PRIu64 ": %s", name, number,
                   status == KILN_STATUS_OK ? "ready" : why.message);
    return made;
}

/// All versions that the choice takes, newest first. Gives how many are ready.
static uint32_t open_versions(kiln_serving *serving, const char *name, const model_folder *folder,
                              kilni_serving_version **out_versions)
{
    uint32_t ready = 0;
    for (uint32_t i = 0; i < folder->n_numbers; i++) {
        kilni_serving_version *made = open_version(serving, name, folder, folder->numbers[i]);
        if (made != NULL) {
            ready += made->loaded != NULL;
            *out_versions = made;
            out_versions = &made->next;
        }
    }
    return ready;
}

/// Puts new versions in the place of the old ones, unless only the old ones can be used.
static kilni_serving_version *replace_versions(kiln_serving *serving, const char *name,
                                               kilni_serving_version *fresh, uint32_t ready,
                                               const char *reason, uint64_t signature)
{
    kilni_serving_version *gone = fresh;
    pthread_mutex_lock(&serving->lock);
    kilni_serving_model *model = add_model(serving, name);
    bool serves = false;
    for (kilni_serving_version *each = model != NULL ? model->versions : NULL; each != NULL;
         each = each->next) {
        serves = serves || each->loaded != NULL;
    }
    if (model != NULL && (ready > 0 || !serves)) {
        gone = model->versions;
        model->versions = fresh;
    }
    if (model != NULL) {
        snprintf(model->reason, sizeof(model->reason), "%s", reason);
        model->signature = signature;
    }
    pthread_mutex_unlock(&serving->lock);
    return gone;
}

static kiln_status load_model(kiln_serving *serving, const char *name, kiln_error *err)
{
    kilni_serving_version *fresh = NULL;
    uint32_t ready = 0;
    kiln_error why = KILN_ERROR_INIT;
    model_folder *folder = kiln_alloc(serving->env, sizeof(*folder));
    if (folder == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for model %.60s", name);
    }
    kiln_arena_init(&folder->arena, serving->env);
    kiln_status status = read_folder(serving, name, folder, &why);
    uint64_t signature = kilni_serving_folder_signature(folder->path);
    if (status == KILN_STATUS_OK) {
        ready = open_versions(serving, name, folder, &fresh);
    }
    if (status == KILN_STATUS_OK && ready == 0) {
        status = kiln_fail(&why, UNAVAILABLE, "version %" PRIu64 ": %s",
                           fresh != NULL ? fresh->number : 0,
                           fresh != NULL ? fresh->reason : "no memory");
    }
    bool tried = fresh != NULL;
    kilni_serving_version *gone =
        replace_versions(serving, name, fresh, ready, why.message, signature);
    retire(serving, gone);
    kiln_arena_fini(&folder->arena);
    kiln_free(serving->env, folder);
    if (status != KILN_STATUS_OK) {
        if (!tried) { // a version has said it for itself
            kiln_log_write(serving->env, KILN_LOG_WARN, "serving", "model %s: %s", name,
                           why.message);
        }
        return kiln_fail(err, UNAVAILABLE, "model %.60s cannot be loaded: %s", name, why.message);
    }
    return KILN_STATUS_OK;
}

typedef struct name_search {
    const char *name;
    bool found;
} name_search;

static void compare_name(const char *name, void *to)
{
    name_search *search = to;
    search->found = search->found || strcmp(search->name, name) == 0;
}

kiln_status kilni_serving_load(kiln_serving *serving, const char *name, kiln_error *err)
{
    name_search search = {.name = name};
    if (serving->poll_seconds > 0) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "this server follows its folder; it was started with --poll");
    }
    kilni_serving_folder_models(serving->folder, compare_name, &search);
    if (!search.found) {
        return kiln_fail(err, NOT_FOUND, "there is no model \"%.60s\"", name);
    }
    pthread_mutex_lock(&serving->loading);
    kiln_status status = load_model(serving, name, err);
    pthread_mutex_unlock(&serving->loading);
    return status;
}

// ---- unloading ----

static void unload_model(kiln_serving *serving, const char *name, const char *reason)
{
    kilni_serving_version *gone = NULL;
    pthread_mutex_lock(&serving->lock);
    kilni_serving_model *model = find_model(serving, name);
    if (model != NULL) {
        gone = model->versions;
        model->versions = NULL;
        snprintf(model->reason, sizeof(model->reason), "%s", reason);
    }
    for (kilni_serving_version *each = gone; each != NULL; each = each->next) {
        each->state = UNLOADING;
    }
    pthread_mutex_unlock(&serving->lock);
    retire(serving, gone);
}

kiln_status kilni_serving_unload(kiln_serving *serving, const char *name, kiln_error *err)
{
    if (serving->poll_seconds > 0) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "this server follows its folder; it was started with --poll");
    }
    pthread_mutex_lock(&serving->lock);
    bool known = find_model(serving, name) != NULL;
    pthread_mutex_unlock(&serving->lock);
    if (!known) {
        return kiln_fail(err, NOT_FOUND, "there is no model \"%.60s\"", name);
    }
    pthread_mutex_lock(&serving->loading);
    unload_model(serving, name, "unloaded");
    pthread_mutex_unlock(&serving->loading);
    return KILN_STATUS_OK;
}

void kilni_serving_unload_all(kiln_serving *serving)
{
    while (serving->models != NULL) {
        kilni_serving_model *model = serving->models;
        unload_model(serving, model->name, "");
        serving->models = model->next;
        kiln_free(serving->env, model);
    }
}

// ---- the keeper ----

static bool is_stopping(kiln_serving *serving)
{
    pthread_mutex_lock(&serving->lock);
    bool stopping = serving->stopping;
    pthread_mutex_unlock(&serving->lock);
    return stopping;
}

static void load_quietly(kiln_serving *serving, const char *name)
{
    kiln_error why = KILN_ERROR_INIT;
    if (!is_stopping(serving)) {
        pthread_mutex_lock(&serving->loading);
        (void)load_model(serving, name, &why); // the list says why
        pthread_mutex_unlock(&serving->loading);
    }
}

static bool is_wanted(const kiln_serving *serving, const char *name)
{
    bool wanted = serving->n_load == 0 && !serving->load_nothing;
    for (uint32_t i = 0; i < serving->n_load; i++) {
        wanted = wanted || strcmp(serving->load[i], name) == 0;
    }
    return wanted;
}

/// The names of the table, one behind the other; they are not taken off before the end.
static kilni_serving_model *next_model(kiln_serving *serving, kilni_serving_model *after)
{
    pthread_mutex_lock(&serving->lock);
    kilni_serving_model *next = after != NULL ? after->next : serving->models;
    pthread_mutex_unlock(&serving->lock);
    return next;
}

static void load_first(kiln_serving *serving)
{
    kilni_serving_folder_models(serving->folder, add_found, serving);
    for (kilni_serving_model *each = NULL; (each = next_model(serving, each)) != NULL;) {
        if (is_wanted(serving, each->name)) {
            load_quietly(serving, each->name);
        }
    }
    pthread_mutex_lock(&serving->lock);
    serving->loaded = true;
    pthread_mutex_unlock(&serving->lock);
}

static void follow_folder(kiln_serving *serving)
{
    kilni_serving_folder_models(serving->folder, add_found, serving);
    for (kilni_serving_model *each = NULL; (each = next_model(serving, each)) != NULL;) {
        name_search search = {.name = each->name};
        char path[4096];
        if (!is_wanted(serving, each->name) ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", serving->folder, each->name) >=
                sizeof(path)) {
            continue;
        }
        kilni_serving_folder_models(serving->folder, compare_name, &search);
        if (!search.found && each->signature != 0) {
            pthread_mutex_lock(&serving->loading);
            unload_model(serving, each->name, "its folder is gone");
            each->signature = 0;
            pthread_mutex_unlock(&serving->loading);
        } else if (search.found && kilni_serving_folder_signature(path) != each->signature) {
            load_quietly(serving, each->name);
        }
    }
}

/// False at the end.
static bool wait_poll(kiln_serving *serving)
{
    uint64_t poll_ns = kiln_time_ns() + serving->poll_seconds * UINT64_C(1000000000);
    pthread_mutex_lock(&serving->lock);
    while (!serving->stopping && kiln_cond_wait_until(&serving->changed, &serving->lock, poll_ns)) {
    }
    bool stopping = serving->stopping;
    pthread_mutex_unlock(&serving->lock);
    return !stopping;
}

static void *keep(void *pointer)
{
    kiln_serving *serving = pointer;
    load_first(serving);
    while (serving->poll_seconds > 0 && wait_poll(serving)) {
        follow_folder(serving);
    }
    return NULL;
}

kiln_status kilni_serving_keep(kiln_serving *serving, kiln_error *err)
{
    serving->keeping = pthread_create(&serving->keeper, NULL, keep, serving) == 0;
    return serving->keeping ? KILN_STATUS_OK
                            : kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for models");
}

// ---- use ----

/// Under the lock. NULL: it is not ready.
static kilni_serving_version *find_version(const kilni_serving_model *model, uint64_t number)
{
    kilni_serving_version *each = model->versions;
    while (each != NULL && (each->loaded == NULL || (number > 0 && each->number != number))) {
        each = each->next;
    }
    return each;
}

/// Under the lock.
static kiln_status explain_missing(const kilni_serving_model *model, uint64_t number,
                                   kiln_error *err)
{
    for (const kilni_serving_version *each = model->versions; each != NULL; each = each->next) {
        if (number == 0 || each->number == number) {
            return kiln_fail(err, UNAVAILABLE, "model %.60s version %" PRIu64 " is not ready: %s",
                             model->name, each->number, each->reason);
        }
    }
    if (model->versions != NULL) {
        return kiln_fail(err, NOT_FOUND, "model %.60s has no version %" PRIu64, model->name,
                         number);
    }
    return kiln_fail(err, UNAVAILABLE, "model %.60s is not ready: %s", model->name, model->reason);
}

kiln_status kilni_serving_hold(kiln_serving *serving, const char *name, const char *version,
                               kilni_serving_version **out_version, kiln_error *err)
{
    char *end = NULL;
    uint64_t number = strtoull(version, &end, 10);
    kiln_status status = KILN_STATUS_OK;
    bool bad =
        version[0] != '\0' && (*end != '\0' || number == 0 || version[0] < '0' || version[0] > '9');
    *out_version = NULL;
    pthread_mutex_lock(&serving->lock);
    const kilni_serving_model *model = find_model(serving, name);
    kilni_serving_version *found = model != NULL && !bad ? find_version(model, number) : NULL;
    if (model == NULL) {
        status = kiln_fail(err, NOT_FOUND, "there is no model \"%.60s\"", name);
    } else if (bad) {
        status = kiln_fail(err, INVALID_ARGUMENT, "\"%.20s\" is no version: a number is", version);
    } else if (found == NULL) {
        status = explain_missing(model, number, err);
    } else {
        found->refs++;
    }
    pthread_mutex_unlock(&serving->lock);
    *out_version = found;
    return status;
}

void kilni_serving_drop(kiln_serving *serving, kilni_serving_version *version)
{
    if (version == NULL) {
        return;
    }
    pthread_mutex_lock(&serving->lock);
    if (--version->refs == 0) {
        pthread_cond_broadcast(&serving->changed);
    }
    pthread_mutex_unlock(&serving->lock);
}

void kilni_serving_index(kiln_serving *serving, bool ready_only, kiln_model_row_fn fn, void *to)
{
    pthread_mutex_lock(&serving->lock);
    for (const kilni_serving_model *model = serving->models; model != NULL; model = model->next) {
        const kiln_model_row bare = {model->name, "", UNAVAILABLE, model->reason};
        if (model->versions == NULL && !ready_only) {
            fn(&bare, to);
        }
        for (const kilni_serving_version *each = model->versions; each != NULL; each = each->next) {
            char number[KILN_MODEL_VERSION];
            const kiln_model_row row = {model->name, number, each->state, each->reason};
            snprintf(number, sizeof(number), "%" PRIu64, each->number);
            if (each->loaded != NULL || !ready_only) {
                fn(&row, to);
            }
        }
    }
    pthread_mutex_unlock(&serving->lock);
}

kilni_serving_version *kilni_serving_next(kiln_serving *serving, kilni_serving_version *after)
{
    kilni_serving_version *found = NULL;
    bool passed = after == NULL;
    pthread_mutex_lock(&serving->lock);
    for (const kilni_serving_model *model = serving->models; model != NULL && found == NULL;
         model = model->next) {
        for (kilni_serving_version *each = model->versions; each != NULL && found == NULL;
             each = each->next) {
            found = passed && each->loaded != NULL ? each : NULL;
            passed = passed || each == after;
        }
    }
    if (found != NULL) {
        found->refs++;
    }
    pthread_mutex_unlock(&serving->lock);
    kilni_serving_drop(serving, after);
    return found;
}

void kilni_serving_ready_versions(kiln_serving *serving, const char *name, kiln_model_info *info)
{
    pthread_mutex_lock(&serving->lock);
    const kilni_serving_model *model = find_model(serving, name);
    info->n_versions = 0;
    for (const kilni_serving_version *each = model != NULL ? model->versions : NULL; each != NULL;
         each = each->next) {
        if (each->loaded != NULL && info->n_versions < KILN_MODEL_VERSIONS) {
            info->versions[info->n_versions++] = each->number;
        }
    }
    pthread_mutex_unlock(&serving->lock);
}
