// SPDX-License-Identifier: MIT OR Apache-2.0
// Binaries into a bundle: those of the device that it runs on, and those that other tools made.
// Decides which source a file is of: that of the same name. Where they lie is bundle_target.c's.

#include "bundle_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct kept_binary { ///< of the device, copied
    const kiln_env *env;
    kiln_blob bytes;
    bool failed;
} kept_binary;

static void take_binary_part(uint32_t source, const char *options, const void *binary, size_t bytes,
                             void *user)
{
    kept_binary *kept = user;
    (void)source;
    (void)options;
    kiln_free(kept->env, kept->bytes.data);
    kept->bytes = (kiln_blob){.data = kiln_alloc(kept->env, bytes + 1), .length = bytes};
    kept->failed = kept->bytes.data == NULL;
    if (!kept->failed) {
        memcpy(kept->bytes.data, binary, bytes);
    }
}

/// The file's name without folder and ending.
static void stem_of(const char *path, char out_stem[128])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t length = dot != NULL ? (size_t)(dot - name) : strlen(name);
    (void)snprintf(out_stem, 128, "%.*s", (int)(length < 120 ? length : 120), name);
}

static char *binary_name(kiln_arena *arena, const char *source)
{
    char stem[128];
    char name[160];
    stem_of(source, stem);
    int length = snprintf(name, sizeof(name), "%s.bin", stem);
    return kiln_arena_copy(arena, name, (size_t)length + 1);
}

static kiln_status take_binary(kiln_bundle *bundle, uint32_t index, kept_binary *kept,
                               kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
    pthread_mutex_lock(&bundle->device->lock);
    kiln_status status = backend->program->parts(backend, &bundle->ready[index].program,
                                                 take_binary_part, kept, err);
    pthread_mutex_unlock(&bundle->device->lock);
    if (status == KILN_STATUS_OK && (kept->failed || kept->bytes.data == NULL)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the binary of %.80s",
                           bundle->manifest.programs[index].file);
    }
    return status;
}

static void free_kept(const kiln_env *env, kept_binary *kept, uint32_t count)
{
    for (uint32_t i = 0; kept != NULL && i < count; i++) {
        kiln_free(env, kept[i].bytes.data);
    }
    kiln_free(env, kept);
}

kiln_status kiln_bundle_keep(kiln_bundle *bundle, kiln_error *err)
{
    if (bundle == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "bundle must not be NULL");
    }
    uint32_t count = bundle->manifest.n_programs;
    const kiln_device_info *device = kiln_device_info_of(bundle->device);
    kept_binary *kept = kiln_alloc_array(bundle->env, count + 1u, sizeof(*kept));
    bundle_target_file *files = kiln_alloc_array(bundle->env, count + 1u, sizeof(*files));
    kiln_status status = kept != NULL && files != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for binaries");
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        kept[i].env = bundle->env;
        status = take_binary(bundle, i, &kept[i], err);
        files[i] = (bundle_target_file){
            .name = binary_name(&bundle->arena, bundle->manifest.programs[i].file),
            .bytes = kept[i].bytes.data,
            .length = kept[i].bytes.length};
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_target_write(&bundle->folder, &bundle->manifest, device->name,
                                           device->driver, files, err);
    }
    free_kept(bundle->env, kept, kept != NULL ? count : 0);
    kiln_free(bundle->env, files);
    return status;
}

// ---- what other tools made ----

static kiln_status find_program(const bundle_manifest *manifest, const char *file,
                                uint32_t *out_program, kiln_error *err)
{
    char stem[128];
    char source[128];
    stem_of(file, stem);
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        stem_of(manifest->programs[i].file, source);
        if (strcmp(stem, source) == 0) {
            *out_program = i;
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, NOT_FOUND, "%.100s: the bundle has no source %.60s.cl", file, stem);
}

/// With what the folder has of the device already, so that programs can come one by one.
static kiln_status begin_files(const bundle_manifest *manifest, const bundle_target *targets,
                               const char *device, const char *driver, bundle_target_file *files,
                               kept_binary *kept, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (const bundle_target *target = targets; target != NULL; target = target->next) {
        bool same = strcmp(target->device, device) == 0 && strcmp(target->driver, driver) == 0;
        for (uint32_t i = 0; same && i < manifest->n_programs && status == KILN_STATUS_OK; i++) {
            if (target->files[i] == NULL || kept[i].bytes.data != NULL ||
                strcmp(target->keys[i], manifest->programs[i].key) != 0) {
                continue;
            }
            status =
                kilni_bundle_folder_read(&target->folder, target->files[i], &kept[i].bytes, err);
            files[i] = (bundle_target_file){.name = target->files[i],
                                            .bytes = kept[i].bytes.data,
                                            .length = kept[i].bytes.length};
        }
    }
    return status;
}

static kiln_status add_files(bundle_folder *folder, const bundle_manifest *manifest,
                             const char *const *paths, size_t n_paths, bundle_target_file *files,
                             kept_binary *kept, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_paths && status == KILN_STATUS_OK; i++) {
        uint32_t program = 0;
        status = find_program(manifest, paths[i], &program, err);
        if (status != KILN_STATUS_OK) {
            break;
        }
        kiln_free(folder->env, kept[program].bytes.data);
        status = kilni_bundle_read(folder->env, paths[i], &kept[program].bytes, err);
        const char *slash = strrchr(paths[i], '/');
        files[program] = (bundle_target_file){.name = slash != NULL ? slash + 1 : paths[i],
                                              .bytes = kept[program].bytes.data,
                                              .length = kept[program].bytes.length};
    }
    return status;
}

kiln_status kiln_bundle_add(const kiln_env *env, const char *folder, const char *device,
                            const char *driver, const char *const *paths, size_t n_paths,
                            kiln_error *err)
{
    kiln_arena arena;
    bundle_manifest manifest = {0};
    bundle_target *targets = NULL;
    bundle_target_file *files = NULL;
    kept_binary *kept = NULL;
    kiln_status status = KILN_STATUS_OK;
    bool given = env != NULL && folder != NULL && device != NULL && driver != NULL &&
                 (paths != NULL || n_paths == 0);
    for (size_t i = 0; given && i < n_paths; i++) {
        given = paths[i] != NULL;
    }
    if (!given) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "folder, device, driver and files must not be NULL");
    }
    kiln_arena_init(&arena, env);
    bundle_folder place = {.env = env, .path = folder, .arena = &arena};
    KILN_TRY(out, status,
             kilni_bundle_files_read(&place, &manifest, &targets, /*constants=*/true, err));
    files = kiln_alloc_array(env, manifest.n_programs + 1u, sizeof(*files));
    kept = kiln_alloc_array(env, manifest.n_programs + 1u, sizeof(*kept));
    if (files == NULL || kept == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for binaries");
        goto out;
    }
    KILN_TRY(out, status, begin_files(&manifest, targets, device, driver, files, kept, err));
    KILN_TRY(out, status, add_files(&place, &manifest, paths, n_paths, files, kept, err));
    KILN_TRY(out, status, kilni_bundle_target_write(&place, &manifest, device, driver, files, err));
out:
    free_kept(env, kept, manifest.n_programs);
    kiln_free(env, files);
    kiln_arena_fini(&arena);
    return status;
}
