// SPDX-License-Identifier: MIT OR Apache-2.0
// The candidates: files of the shipped folder and of the plugin path in a fixed order, and files
// added by path. Each gets a state and a reason; a bad one never makes the whole fail. The order of
// work for one file is loader.c.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse_map.h"
#include "plugin_load.h"
#include "plugin_record.h"
#include "plugin_trust.h"

enum { SCAN_LIMIT_MS = 10000 };

typedef struct name_list {
    char **names;
    uint32_t count;
    uint32_t capacity;
} name_list;

static void free_names(const kiln_env *env, name_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        kiln_free(env, list->names[i]);
    }
    kiln_free(env, (void *)list->names);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_library(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && name[0] != '.' && strcmp(name + length - 3, ".so") == 0;
}

static char *join(const kiln_env *env, const char *folder, const char *name)
{
    size_t at = strlen(folder);
    while (at > 1 && folder[at - 1] == '/') {
        at--;
    }
    size_t bytes = at + strlen(name) + 2;
    char *path = kiln_alloc(env, bytes);
    if (path != NULL) {
        snprintf(path, bytes, "%.*s/%s", (int)at, folder, name);
    }
    return path;
}

static bool add_name(const kiln_env *env, name_list *list, char *name)
{
    if (name == NULL || !kilni_fuse_grow(env, &list->names, &list->capacity,
                                         (uint64_t)list->count + 1, sizeof(char *))) {
        kiln_free(env, name);
        return false;
    }
    list->names[list->count++] = name;
    return true;
}

/// The libraries of a folder, sorted. One that cannot be read has none.
static bool list_folder(const kiln_env *env, const char *folder, kilni_fuse_trust trust,
                        name_list *out_list)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        bool asked = trust == KILNI_FUSE_TRUST_PATH;
        kiln_log_write(env, asked ? KILN_LOG_WARN : KILN_LOG_INFO, KILNI_FUSE_MODULE,
                       "plugin folder %s cannot be read", folder);
        return true;
    }
    bool ok = true;
    for (struct dirent *entry = readdir(dir); entry != NULL && ok; entry = readdir(dir)) {
        if (is_library(entry->d_name)) {
            ok = add_name(env, out_list, join(env, folder, entry->d_name));
        }
    }
    closedir(dir);
    if (out_list->count > 1) {
        qsort((void *)out_list->names, out_list->count, sizeof(char *), compare_names);
    }
    return ok;
}

/// Position of the file among the plugins, or their count.
static uint32_t find_file(const kiln_fuse_registry *registry, const char *path)
{
    uint32_t i = 0;
    while (i < registry->n_plugins && strcmp(registry->plugins[i]->info.path, path) != 0) {
        i++;
    }
    return i;
}

static void forget_file(kiln_fuse_registry *registry, uint32_t at)
{
    kilni_fuse_plugin_destroy(registry->env, registry->plugins[at]);
    registry->n_plugins--;
    memmove((void *)(registry->plugins + at), (void *)(registry->plugins + at + 1),
            (registry->n_plugins - at) * sizeof(kilni_fuse_plugin *));
}

/// Whoever named the folder expects its fusers, unless the mode is one that takes none.
static bool is_surprise(const kiln_env *env, kiln_status status)
{
    return status == KILN_STATUS_PERMISSION_DENIED &&
           strcmp(kiln_config_string(env->config, KILN_OPTION_PLUGIN_MODE), "off") != 0;
}

static kiln_status add_file(kiln_fuse_registry *registry, const char *path, kilni_fuse_trust trust,
                            kiln_error *err)
{
    const kiln_env *env = registry->env;
    uint32_t before = find_file(registry, path);
    if (before < registry->n_plugins) {
        if (trust != KILNI_FUSE_TRUST_ADDED ||
            registry->plugins[before]->info.state == KILN_FUSE_TAKEN) {
            return KILN_STATUS_OK;
        }
        forget_file(registry, before); // what lies in the plugin path is judged again when named
    }
    kilni_fuse_plugin *plugin = kiln_alloc(env, sizeof(*plugin));
    if (plugin == NULL ||
        !kilni_fuse_grow(env, &registry->plugins, &registry->plugins_capacity,
                         (uint64_t)registry->n_plugins + 1, sizeof(kilni_fuse_plugin *))) {
        kiln_free(env, plugin);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a plugin");
    }
    kiln_status status = kilni_fuse_plugin_load(registry, plugin, path, trust, err);
    registry->plugins[registry->n_plugins++] = plugin;
    kiln_log_write(env,
                   trust == KILNI_FUSE_TRUST_PATH && is_surprise(env, status) ? KILN_LOG_WARN
                                                                              : KILN_LOG_INFO,
                   KILNI_FUSE_MODULE, "plugin %s: %s", plugin->info.path, plugin->info.reason);
    return status;
}

/// What becomes of one file is its own affair; only running out of memory ends the whole.
static kiln_status add_folder(kiln_fuse_registry *registry, const char *folder,
                              kilni_fuse_trust trust, kiln_error *err)
{
    name_list list = {0};
    kiln_status status = KILN_STATUS_OK;
    if (!list_folder(registry->env, folder, trust, &list)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to list plugins");
    }
    for (uint32_t i = 0; i < list.count && status == KILN_STATUS_OK; i++) {
        kiln_error reason = KILN_ERROR_INIT;
        status = add_file(registry, list.names[i], trust, &reason);
        if (status == KILN_STATUS_RESOURCE_EXHAUSTED && err != NULL) {
            *err = reason;
        }
        status = status == KILN_STATUS_RESOURCE_EXHAUSTED ? status : KILN_STATUS_OK;
    }
    free_names(registry->env, &list);
    return status;
}

static kiln_status add_path(kiln_fuse_registry *registry, const char *path, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (*path != 0 && status == KILN_STATUS_OK) {
        size_t length = strcspn(path, ":");
        char *folder = kiln_alloc(registry->env, length + 1);
        if (folder == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the plugin path");
        }
        memcpy(folder, path, length);
        if (length > 0 && folder[0] != '/') {
            kiln_log_write(registry->env, KILN_LOG_WARN, KILNI_FUSE_MODULE,
                           "plugin folder %s is left out: it is not absolute", folder);
        } else if (length > 0) {
            status = add_folder(registry, folder, KILNI_FUSE_TRUST_PATH, err);
        }
        kiln_free(registry->env, folder);
        path += length + (path[length] == ':');
    }
    return status;
}

static int compare_plugins(const void *a, const void *b)
{
    const kilni_fuse_plugin *x = *(kilni_fuse_plugin *const *)a;
    const kilni_fuse_plugin *y = *(kilni_fuse_plugin *const *)b;
    return strcmp(x->info.path, y->info.path);
}

static void sort_plugins(kiln_fuse_registry *registry)
{
    if (registry->n_plugins > 1) {
        qsort((void *)registry->plugins, registry->n_plugins, sizeof(kilni_fuse_plugin *),
              compare_plugins);
    }
}

static bool has_plugin(const kiln_fuse_registry *registry, const char *id, size_t length)
{
    for (uint32_t i = 0; i < registry->n_plugins; i++) {
        const char *other = registry->plugins[i]->info.id;
        if (other != NULL && strlen(other) == length && strncmp(other, id, length) == 0) {
            return true;
        }
    }
    return false;
}

/// Names in the list of plugins that nothing has: most likely misspelt.
static void warn_of_unknown(const kiln_fuse_registry *registry)
{
    const char *list = kiln_config_string(registry->env->config, KILN_OPTION_PLUGINS);
    if (list == NULL || strcmp(list, "off") == 0) {
        return;
    }
    for (list += strspn(list, ", "); *list != 0; list += strspn(list, ", ")) {
        size_t length = strcspn(list, ", ");
        size_t minus = list[0] == '-' ? 1 : 0;
        bool folder = minus == 1 && list[1] == '/';
        if (!folder && !has_plugin(registry, list + minus, strcspn(list + minus, ", /"))) {
            kiln_log_write(registry->env, KILN_LOG_WARN, KILNI_FUSE_MODULE,
                           "plugins: no plugin has the id %.*s", (int)(length - minus),
                           list + minus);
        }
        list += length;
    }
}

void kiln_fuse_registry_complete(kiln_fuse_registry *registry)
{
    if (!atomic_exchange(&registry->complete, true)) {
        warn_of_unknown(registry);
    }
}

/// Where plugins are remembered, and who looks at new ones.
static kiln_status take_places(kiln_fuse_registry *registry,
                               const kiln_fuse_registry_options *options, kiln_error *err)
{
    const kiln_env *env = registry->env;
    if (options->scan_helper != NULL) {
        registry->scan_helper = kiln_strdup(env, options->scan_helper);
    }
    if (options->state_folder != NULL) {
        registry->state_folder = kiln_strdup(env, options->state_folder);
    }
    if ((options->scan_helper != NULL && registry->scan_helper == NULL) ||
        (options->state_folder != NULL && registry->state_folder == NULL)) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the plugin registry");
    }
    if (registry->state_folder != NULL) {
        registry->crash_record = kilni_fuse_crash_record_create(env, registry->state_folder);
    }
    return KILN_STATUS_OK;
}

uint32_t kiln_fuse_registry_reset(const char *state_folder, const char *id)
{
    return kilni_fuse_record_reset(state_folder, id);
}

kiln_status kilni_fuse_registry_open(const kiln_env *env, const kiln_fuse_registry_options *options,
                                     kilni_fuse_smoke_test_fn smoke_test,
                                     kiln_fuse_registry **out_registry, kiln_error *err)
{
    *out_registry = NULL;
    kiln_fuse_registry *registry = kiln_alloc(env, sizeof(*registry));
    if (registry == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the plugin registry");
    }
    registry->env = env;
    registry->smoke_test = smoke_test;
    registry->developer = options->developer != 0;
    registry->scan_limit_ms = options->scan_limit_ms != 0 ? options->scan_limit_ms : SCAN_LIMIT_MS;
    kiln_status status = take_places(registry, options, err);
    if (status == KILN_STATUS_OK && options->shipped_folder != NULL) {
        status = add_folder(registry, options->shipped_folder, KILNI_FUSE_TRUST_SHIPPED, err);
    }
    if (status == KILN_STATUS_OK) {
        status = add_path(registry, kiln_config_string(env->config, KILN_OPTION_PLUGIN_PATH), err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_fuse_registry_destroy(registry);
        return status;
    }
    sort_plugins(registry);
    *out_registry = registry;
    return KILN_STATUS_OK;
}

void kiln_fuse_registry_destroy(kiln_fuse_registry *registry)
{
    if (registry == NULL) {
        return;
    }
    for (uint32_t i = 0; i < registry->n_plugins; i++) {
        kilni_fuse_plugin_destroy(registry->env, registry->plugins[i]);
    }
    kilni_fuse_crash_record_destroy(registry->crash_record);
    kiln_free(registry->env, registry->state_folder);
    kiln_free(registry->env, registry->scan_helper);
    kiln_free(registry->env, (void *)registry->plugins);
    kiln_free(registry->env, registry);
}

kiln_status kiln_fuse_registry_add(kiln_fuse_registry *registry, const char *path, kiln_error *err)
{
    char real[PATH_MAX];
    // What a descriptor alone leads to has no other name.
    bool named = realpath(path, real) != NULL && access(real, F_OK) == 0;
    kiln_status status = access(path, F_OK) != 0
                             ? kiln_fail(err, NOT_FOUND, "plugin %s does not exist", path)
                             : add_file(registry, named ? real : path, KILNI_FUSE_TRUST_ADDED, err);
    sort_plugins(registry);
    return status;
}

size_t kiln_fuse_registry_count(const kiln_fuse_registry *registry)
{
    return registry->n_plugins;
}

const kiln_fuse_plugin_info *kiln_fuse_registry_plugin(const kiln_fuse_registry *registry,
                                                       size_t index)
{
    return index < registry->n_plugins ? &registry->plugins[index]->info : NULL;
}
