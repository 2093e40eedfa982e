// SPDX-License-Identifier: MIT OR Apache-2.0
// The context: configuration, cache and providers of backends. Decides when each of them is made;
// what they do is theirs. Fusers (kiln_plugin.c) and devices are opened when first needed, so an
// empty context is cheap.

#define _GNU_SOURCE // dladdr, realpath
#include "rt_context.h"
#include "rt_local.h"
#include "rt_trace.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    context->n_providers = kilni_local_providers(context->providers);
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
    if (context->registry != NULL) {
        context->registry_destroy(context->registry);
    }
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

// ---- what ships beside libkiln ----

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

bool kilni_find_beside(const char *tail, char *out_path, size_t capacity)
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
    if (!kilni_find_beside(name, out_path, capacity)) {
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

size_t kilni_context_providers(kiln_context *context,
                               const kiln_backend_provider *out_providers[KILNI_PROVIDERS])
{
    pthread_mutex_lock(&context->lock);
    size_t count = context->n_providers;
    memcpy(out_providers, context->providers, sizeof(context->providers));
    pthread_mutex_unlock(&context->lock);
    return count;
}

const char *kiln_version(void)
{
    return KILN_VERSION_STRING;
}

void kiln_text_free(kiln_context *context, char *text)
{
    if (context == NULL) {
        return;
    }
    kiln_free(&context->env, text);
}
