// SPDX-License-Identifier: MIT OR Apache-2.0
// Binaries beside the sources. Decides which one is a device's: that of its name and driver, made
// of this very source with these options. A name of a folder means nothing, save that the first of
// two that fit is taken.

#include "bundle_target.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bundle_json.h"

enum { MOST_TARGETS = 256 };

// ---- reading ----

static void read_binaries(const bundle_manifest *manifest, bundle_json_reader *reader,
                          const bundle_json *root, bundle_target *target)
{
    const bundle_json *list = kilni_bundle_json_get(reader, root, "programs", BUNDLE_JSON_LIST);
    const bundle_json *item = list != NULL ? list->first : NULL;
    for (; item != NULL; item = item->next) {
        uint64_t program = kilni_bundle_json_number(reader, item, "program", UINT32_MAX);
        const char *file = kilni_bundle_json_text(reader, item, "file");
        const char *key = kilni_bundle_json_text(reader, item, "key");
        if (program < manifest->n_programs) {
            target->files[program] = file;
            target->keys[program] = key;
        }
    }
}

static kiln_status read_target(const bundle_manifest *manifest, bundle_target *target,
                               kiln_error *err)
{
    kiln_arena *arena = target->folder.arena;
    const bundle_json *root = NULL;
    bundle_json_reader reader = {0};
    kiln_blob text = {0};
    kiln_status status = KILN_STATUS_OK;
    target->files = kiln_arena_alloc(arena, (manifest->n_programs + 1) * sizeof(char *));
    target->keys = kiln_arena_alloc(arena, (manifest->n_programs + 1) * sizeof(char *));
    if (target->files == NULL || target->keys == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a list of binaries");
    }
    KILN_TRY(out, status, kilni_bundle_folder_open(&target->folder, err));
    KILN_TRY(out, status, kilni_bundle_folder_check(&target->folder, NULL, err));
    KILN_TRY(out, status, kilni_bundle_folder_read(&target->folder, BUNDLE_TARGET, &text, err));
    KILN_TRY(out, status, kilni_bundle_json_read(arena, text.data, text.length, &root, err));
    target->device = kilni_bundle_json_text(&reader, root, "device");
    target->driver = kilni_bundle_json_text(&reader, root, "driver");
    read_binaries(manifest, &reader, root, target);
    status = kilni_bundle_json_done(&reader, target->folder.path, err);
out:
    kiln_free(target->folder.env, text.data);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/// Names of what lies below bin/, sorted.
static kiln_status list_names(const bundle_folder *folder, const char *names[MOST_TARGETS],
                              uint32_t *out_count, kiln_error *err)
{
    char path[BUNDLE_PATH_ROOM];
    *out_count = 0;
    kiln_status status = kilni_bundle_path(folder->path, BUNDLE_BINARIES, path, err);
    DIR *listing = status == KILN_STATUS_OK ? opendir(path) : NULL;
    if (listing == NULL) {
        return status; // without the folder there are none
    }
    for (const struct dirent *entry = readdir(listing); entry != NULL && *out_count < MOST_TARGETS;
         entry = readdir(listing)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        const char *name = kiln_arena_copy(folder->arena, entry->d_name, strlen(entry->d_name) + 1);
        if (name == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a list of binaries");
            break;
        }
        names[(*out_count)++] = name;
    }
    (void)closedir(listing);
    qsort(names, *out_count, sizeof(names[0]), compare_names);
    return status;
}

static char *join(kiln_arena *arena, const char *folder, const char *name)
{
    size_t length = strlen(folder) + strlen(name) + sizeof("/" BUNDLE_BINARIES "/");
    char *path = kiln_arena_alloc(arena, length);
    if (path != NULL) {
        (void)snprintf(path, length, "%s/" BUNDLE_BINARIES "/%s", folder, name);
    }
    return path;
}

kiln_status kilni_bundle_targets_read(const bundle_folder *folder, const bundle_manifest *manifest,
                                      bundle_target **out_targets, kiln_error *err)
{
    const char *names[MOST_TARGETS];
    uint32_t count = 0;
    *out_targets = NULL;
    kiln_status status = list_names(folder, names, &count, err);
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        bundle_target *target = kiln_arena_alloc(folder->arena, sizeof(*target));
        char *path = join(folder->arena, folder->path, names[i]);
        if (target == NULL || path == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a list of binaries");
        }
        target->name = names[i];
        target->folder = (bundle_folder){.env = folder->env, .path = path, .arena = folder->arena};
        status = read_target(manifest, target, err);
        *out_targets = target;
        out_targets = &target->next;
    }
    return status;
}

// ---- finding ----

const bundle_target *kilni_bundle_target_find(const bundle_target *targets,
                                              const bundle_manifest *manifest, uint32_t program,
                                              const kiln_device_info *device,
                                              char why[BUNDLE_WHY_ROOM])
{
    const char *const key = manifest->programs[program].key;
    why[0] = '\0';
    for (const bundle_target *target = targets; target != NULL; target = target->next) {
        if (target->files[program] == NULL) {
            continue;
        }
        if (strcmp(target->device, device->name) != 0) {
            snprintf(why, BUNDLE_WHY_ROOM, "; there is one for %.60s", target->device);
        } else if (target->driver[0] != '\0' && strcmp(target->driver, device->driver) != 0) {
            snprintf(why, BUNDLE_WHY_ROOM, "; there is one for driver %.60s", target->driver);
        } else if (strcmp(target->keys[program], key) != 0) {
            snprintf(why, BUNDLE_WHY_ROOM, "; %.60s was made of another source",
                     target->files[program]);
        } else {
            return target;
        }
    }
    return NULL;
}

// ---- writing ----

static bool make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/// The name of a device's folder: its letters and digits, and a hash, for drivers differ.
static void name_target(const char *device, const char *driver, char out_name[64])
{
    size_t length = 0;
    for (const char *at = device; *at != '\0' && length < 40; at++) {
        bool plain =
            (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        if (plain || (length > 0 && out_name[length - 1] != '-')) {
            out_name[length++] = plain ? *at : '-';
        }
    }
    uint64_t hash = kiln_hash64(driver, strlen(driver), kiln_hash64(device, strlen(device), 0));
    (void)snprintf(out_name + length, 64 - length, "%s%08llx", length > 0 ? "-" : "",
                   (unsigned long long)(hash & 0xffffffff));
}

static void write_index(const bundle_manifest *manifest, const char *device, const char *driver,
                        const bundle_target_file *files, kiln_string *out)
{
    kiln_string_printf(out, "{\n  \"device\": ");
    kilni_bundle_json_quote(out, device);
    kiln_string_printf(out, ",\n  \"driver\": ");
    kilni_bundle_json_quote(out, driver);
    kiln_string_printf(out, ",\n  \"programs\": [");
    const char *between = "\n";
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        if (files[i].name != NULL) {
            kiln_string_printf(out, "%s    {\"program\": %u, \"file\": ", between, i);
            kilni_bundle_json_quote(out, files[i].name);
            kiln_string_printf(out, ", \"key\": ");
            kilni_bundle_json_quote(out, manifest->programs[i].key);
            kiln_string_printf(out, "}");
            between = ",\n";
        }
    }
    kiln_string_printf(out, "\n  ]\n}\n");
}

static kiln_status write_files(const bundle_folder *into, const bundle_manifest *manifest,
                               const char *device, const char *driver,
                               const bundle_target_file *files, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_string hashes;
    kiln_string index;
    kiln_string_init(&hashes, into->env);
    kiln_string_init(&index, into->env);
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        if (files[i].name != NULL) {
            KILN_TRY(out, status,
                     kilni_bundle_folder_write(into, &hashes, files[i].name, files[i].bytes,
                                               files[i].length, err));
        }
    }
    write_index(manifest, device, driver, files, &index);
    if (index.failed) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a list of binaries");
        goto out;
    }
    KILN_TRY(
        out, status,
        kilni_bundle_folder_write(into, &hashes, BUNDLE_TARGET, index.text, index.length, err));
    KILN_TRY(out, status, kilni_bundle_folder_close(into, &hashes, err));
out:
    kiln_string_fini(&hashes);
    kiln_string_fini(&index);
    return status;
}

kiln_status kilni_bundle_target_write(const bundle_folder *folder, const bundle_manifest *manifest,
                                      const char *device, const char *driver,
                                      const bundle_target_file *files, kiln_error *err)
{
    char name[64];
    char path[BUNDLE_PATH_ROOM];
    char below[BUNDLE_PATH_ROOM];
    name_target(device, driver, name);
    kiln_status status = kilni_bundle_path(folder->path, BUNDLE_BINARIES, path, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_path(path, name, below, err);
    }
    if (status == KILN_STATUS_OK && (!make_folder(path) || !make_folder(below))) {
        status = kiln_fail(err, UNAVAILABLE, "%.150s: %s", below, strerror(errno));
    }
    const bundle_folder into = {.env = folder->env, .path = below, .arena = folder->arena};
    return status == KILN_STATUS_OK ? write_files(&into, manifest, device, driver, files, err)
                                    : status;
}
