// SPDX-License-Identifier: MIT OR Apache-2.0
// The fusers of a context: its registry, made when first needed, and what is asked of it. Decides
// where fusers are looked for and where it is remembered what they did.

#include "kiln_plugin.h"
#include "rt_context.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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
    options.shipped_folder =
        kilni_find_beside("kiln/plugins", folder, sizeof(folder)) ? folder : NULL;
    char state[4200], helper[4096];
    bool remembered = kiln_config_bool(context->env.config, KILN_OPTION_PLUGIN_FAILURES) &&
                      state_folder(context, state, sizeof(state));
    options.state_folder = remembered ? state : NULL;
    options.scan_helper =
        kilni_find_beside("kiln/kiln-plugin-scan", helper, sizeof(helper)) ? helper : NULL;
    context->registry_destroy = kiln_fuse_registry_destroy;
    return kiln_fuse_registry_create(&context->env, &options, &context->registry, err);
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

void kiln_context_interrupted(kiln_context *context)
{
    if (context == NULL) {
        return;
    }
    if (context->registry != NULL) { // without the lock, which the interrupted thread may hold
        kiln_fuse_registry_interrupted(context->registry);
    }
}
