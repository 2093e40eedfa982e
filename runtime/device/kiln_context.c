// SPDX-License-Identifier: MIT OR Apache-2.0
// The context: configuration, cache, providers of backends and the registry of fusers. Decides when
// each of them is made; what they do is theirs. Fusers and devices are opened when first needed, so
// an empty context is cheap.

#define _GNU_SOURCE // dladdr, realpath
#include "rt_context.h"
#include "rt_local.h"
#include "rt_trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static kiln_status open_store(kiln_context *context, kiln_error *err)
{
    char folder[4096];
    kiln_error ignored = KILN_ERROR_INIT;
    if (kiln_cache_dir(&context->env, folder, sizeof(folder), &ignored) != KILN_STATUS_OK) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_store_open(&context->env, folder, &context->store, &ignored);
    if (status == KILN_STATUS_RESOURCE_EXHAUSTED) {
        *err = ignored;
        return status;
    }
    if (status != KILN_STATUS_OK) {
        kiln_log_write(&context->env, KILN_LOG_WARN, "runtime", "going on without a cache: %s",
                       ignored.message);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_context_create(const kiln_context_options *options, kiln_context **out_context,
                                kiln_error *err)
{
    if (out_context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_context must not be NULL");
    }
    *out_context = NULL;
    kiln_context_options defaults = KILN_CONTEXT_OPTIONS_INIT;
    kiln_error local = KILN_ERROR_INIT;
    err = err == NULL ? &local : err;
    options = options == NULL ? &defaults : options;
    kiln_env env = {.log = options->log, .log_user = options->log_user};
    env.allocator = options->allocator != NULL ? *options->allocator : kiln_allocator_default();

    kiln_context *context = kiln_alloc(&env, sizeof(*context));
    if (context == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a context");
    }
    kiln_status status = kiln_config_create(&env.allocator, options->config_path,
                                            options->ignore_environment == 0, &env.config, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(&env, context);
        return status;
    }
    atomic_init(&context->refs, 1);
    context->env = env;
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_init(&context->groups_lock, NULL);
    pthread_cond_init(&context->groups_changed, NULL);
    if (kilni_local_provider() != NULL) {
        context->providers[context->n_providers++] = kilni_local_provider();
    }
    context->providers[context->n_providers++] = kiln_ir_reference_provider();
    context->providers[context->n_providers++] = kiln_ir_null_provider();
    if (options->ignore_environment == 0) {
        kiln_config_warn_environment(&context->env);
    }
    kiln_config_warn_log(&context->env);
    *out_context = context;
    return KILN_STATUS_OK;
}

void kilni_context_retain(kiln_context *context)
{
    atomic_fetch_add(&context->refs, 1);
}

void kilni_context_release(kiln_context *context)
{
    if (context == NULL || atomic_fetch_sub(&context->refs, 1) != 1) {
        return;
    }
    if (context->mover != NULL) {
        context->mover_destroy(context->mover);
    }
    kilni_trace_end(context);
    kiln_env env = context->env;
    kiln_fuse_registry_destroy(context->registry);
    kiln_store_close(context->store);
    pthread_cond_destroy(&context->groups_changed);
    pthread_mutex_destroy(&context->groups_lock);
    pthread_mutex_destroy(&context->lock);
    kiln_free(&env, context);
    kiln_config_destroy(env.config);
}

kiln_status kiln_context_set(kiln_context *context, const char *name, const char *value,
                             kiln_error *err)
{
    if (context == NULL || name == NULL || value == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context, name and value must not be NULL");
    }
    kiln_status status = kiln_config_set(context->env.config, name, value, KILN_ORIGIN_FLAG, err);
    if (status == KILN_STATUS_OK && strcmp(name, kiln_option_name(KILN_OPTION_LOG)) == 0) {
        kiln_config_warn_log(&context->env);
    }
    return status;
}

void kiln_context_interrupted(kiln_context *context)
{
    if (context == NULL) {
        return;
    }
    if (context->registry != NULL) { // without the lock, which the interrupted thread may hold
        kiln_fuse_registry_interrupted(context->registry);
    }
}

const kiln_env *kiln_context_env(const kiln_context *context)
{
    return &context->env;
}

kiln_store *kiln_context_store(const kiln_context *context)
{
    if (context == NULL) {
        return NULL;
    }
    kiln_context *self = (kiln_context *)(uintptr_t)context;
    kiln_error err = KILN_ERROR_INIT;
    pthread_mutex_lock(&self->lock);
    if (self->store == NULL && open_store(self, &err) != KILN_STATUS_OK) {
        kiln_log_write(&self->env, KILN_LOG_WARN, "runtime", "%s", err.message);
    }
    kiln_store *store = self->store;
    pthread_mutex_unlock(&self->lock);
    return store;
}

kiln_status kiln_context_add_provider(kiln_context *context, const kiln_backend_provider *provider,
                                      kiln_error *err)
{
    if (context == NULL || provider == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context and provider must not be NULL");
    }
    kiln_status status = kiln_backend_provider_check(provider, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&context->lock);
    for (size_t i = 0; i < context->n_providers && status == KILN_STATUS_OK; i++) {
        if (strcmp(context->providers[i]->scheme, provider->scheme) == 0) {
            status = kiln_fail(err, ALREADY_EXISTS, "a provider of \"%s\" is there already",
                               provider->scheme);
        }
    }
    size_t capacity = sizeof(context->providers) / sizeof(context->providers[0]);
    if (status == KILN_STATUS_OK && context->n_providers == capacity) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no more than %zu providers", capacity);
    }
    if (status == KILN_STATUS_OK) {
        context->providers[context->n_providers++] = provider;
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}

// ---- fusers ----

/// The folder that holds libkiln, or the program when Kiln is linked into it.
static bool own_folder(char out_path[4096])
{
    Dl_info info;
    union {
        const char *(*function)(void);
        void *address;
    } here = {.function = kiln_version};
    if (dladdr(here.address, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *self = strchr(info.dli_fname, '/') != NULL ? info.dli_fname : "/proc/self/exe";
    char *slash = realpath(self, out_path) != NULL ? strrchr(out_path, '/') : NULL;
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

/// Finds `tail` from our own folder or, in a program, from the `lib` beside its folder. The layout
/// is the same in the build tree and when installed.
static bool find_beside(const char *tail, char *out_path, size_t capacity)
{
    static const char *const heads[] = {"", "../lib/"};
    char folder[4096];
    for (size_t i = 0; own_folder(folder) && i < sizeof(heads) / sizeof(heads[0]); i++) {
        char candidate[4352];
        char real[4096];
        snprintf(candidate, sizeof(candidate), "%s/%s%s", folder, heads[i], tail);
        if (realpath(candidate, real) != NULL && strlen(real) < capacity) {
            memcpy(out_path, real, strlen(real) + 1);
            return true;
        }
    }
    return false;
}

kiln_status kilni_library_beside(const char *name, char *out_path, size_t capacity, kiln_error *err)
{
    if (!find_beside(name, out_path, capacity)) {
        return kiln_fail(err, NOT_FOUND, "%s is not beside libkiln", name);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_library_symbol(kiln_context *context, const char *file, const char *symbol,
                                 void **out_address, kiln_error *err)
{
    char path[4200];
    kiln_dynlib *library = NULL;
    *out_address = NULL;
    kiln_status status = kilni_library_beside(file, path, sizeof(path), err);
    if (status == KILN_STATUS_OK) {
        status = kiln_dynlib_open(&context->env, path, /*keep=*/true, &library, err);
    }
    if (status == KILN_STATUS_OK) {
        *out_address = kiln_dynlib_symbol(library, symbol);
        kiln_dynlib_close(library);
        status = *out_address != NULL
                     ? KILN_STATUS_OK
                     : kiln_fail(err, FAILED_PRECONDITION, "%s has no %s", path, symbol);
    }
    return status;
}

/// Where it is remembered what plugins did: a folder of the cache. False: there is no cache.
static bool state_folder(const kiln_context *context, char *out_path, size_t capacity)
{
    char folder[4096];
    if (kiln_cache_dir(&context->env, folder, sizeof(folder), NULL) != KILN_STATUS_OK) {
        return false;
    }
    snprintf(out_path, capacity, "%s/plugins", folder);
    for (char *slash = strchr(out_path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(out_path, 0700);
        *slash = '/';
    }
    return mkdir(out_path, 0700) == 0 || errno == EEXIST;
}

static kiln_status registry_locked(kiln_context *context, kiln_error *err)
{
    if (context->registry != NULL) {
        return KILN_STATUS_OK;
    }
    char folder[4096];
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    options.shipped_folder = find_beside("kiln/plugins", folder, sizeof(folder)) ? folder : NULL;
    char state[4200], helper[4096];
    bool remembered = kiln_config_bool(context->env.config, KILN_OPTION_PLUGIN_FAILURES) &&
                      state_folder(context, state, sizeof(state));
    options.state_folder = remembered ? state : NULL;
    options.scan_helper =
        find_beside("kiln/kiln-plugin-scan", helper, sizeof(helper)) ? helper : NULL;
    return kiln_fuse_registry_create(&context->env, &options, &context->registry, err);
}

size_t kilni_context_providers(kiln_context *context,
                               const kiln_backend_provider *out_providers[KILNI_PROVIDERS])
{
    pthread_mutex_lock(&context->lock);
    size_t count = context->n_providers;
    memcpy(out_providers, context->providers, sizeof(context->providers));
    pthread_mutex_unlock(&context->lock);
    return count;
}

kiln_status kilni_context_registry(kiln_context *context, kiln_fuse_registry **out_registry,
                                   kiln_error *err)
{
    pthread_mutex_lock(&context->lock);
    kiln_status status = registry_locked(context, err);
    *out_registry = context->registry;
    pthread_mutex_unlock(&context->lock);
    return status;
}

kiln_status kiln_plugin_load(kiln_context *context, const char *path, kiln_error *err)
{
    if (context == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context and path must not be NULL");
    }
    pthread_mutex_lock(&context->lock);
    kiln_status status = registry_locked(context, err);
    if (status == KILN_STATUS_OK && context->devices != NULL) {
        status =
            kiln_fail(err, FAILED_PRECONDITION, "load fusers before the first device is opened");
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_fuse_registry_add(context->registry, path, err);
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}

kiln_status kiln_plugin_reset(kiln_context *context, const char *id, uint32_t *out_count,
                              kiln_error *err)
{
    if (out_count == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_count must not be NULL");
    }
    char folder[4200];
    *out_count = 0;
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    if (!state_folder(context, folder, sizeof(folder))) {
        return kiln_fail(err, FAILED_PRECONDITION, "nothing is remembered: the cache is off");
    }
    *out_count = kiln_fuse_registry_reset(folder, id);
    return KILN_STATUS_OK;
}

static const char *state_name(kiln_fuse_plugin_state state)
{
    switch (state) {
    case KILN_FUSE_TAKEN:
        return "taken";
    case KILN_FUSE_SWITCHED_OFF:
        return "off";
    default:
        return "refused";
    }
}

static kiln_status describe_plugin(kiln_context *context, size_t index, kiln_plugin_info *out_info,
                                   kiln_error *err)
{
    kiln_status status = registry_locked(context, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_fuse_registry *registry = context->registry;
    kiln_fuse_registry_complete(registry);
    if (index >= kiln_fuse_registry_count(registry)) {
        return kiln_fail(err, NOT_FOUND, "there are %zu plugin files",
                         kiln_fuse_registry_count(registry));
    }
    const kiln_fuse_plugin_info *found = kiln_fuse_registry_plugin(registry, index);
    uint32_t size = out_info->struct_size;
    kiln_plugin_info info = {
        .struct_size = size,
        .n_fusers = found->n_fusers,
        .path = found->path,
        .id = found->id,
        .version = found->version,
        .vendor = found->vendor,
        .state = state_name(found->state),
        .reason = found->reason,
        .load_ns = found->load_ns,
        .n_operators = found->n_operators,
    };
    memcpy(out_info, &info, size < sizeof(info) ? size : sizeof(info));
    return KILN_STATUS_OK;
}

kiln_status kiln_plugin_get(kiln_context *context, size_t index, kiln_plugin_info *out_info,
                            kiln_error *err)
{
    if (out_info == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_info must not be NULL");
    }
    if (context == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context must not be NULL");
    }
    pthread_mutex_lock(&context->lock);
    kiln_status status = describe_plugin(context, index, out_info, err);
    pthread_mutex_unlock(&context->lock);
    return status;
}

const char *kiln_version(void)
{
    return KILN_VERSION_STRING;
}
