// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening and closing a bundle, and what it says of itself. Decides the order: files are checked
// before the device hears of anything, programs are made before memory.

#include "bundle_internal.h"

#include <string.h>

kiln_status kilni_bundle_files_read(bundle_folder *folder, bundle_manifest *out_manifest,
                                    bundle_target **out_targets, bool constants, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_blob text = {0};
    KILN_TRY(out, status, kilni_bundle_folder_open(folder, err));
    KILN_TRY(out, status,
             kilni_bundle_folder_check(folder, constants ? NULL : BUNDLE_CONSTANTS, err));
    KILN_TRY(out, status, kilni_bundle_folder_read(folder, BUNDLE_MANIFEST, &text, err));
    KILN_TRY(out, status,
             kilni_bundle_manifest_read(folder->arena, text.data, text.length, out_manifest, err));
    KILN_TRY(out, status, kilni_bundle_targets_read(folder, out_manifest, out_targets, err));
out:
    kiln_free(folder->env, text.data);
    return status;
}

static void tell_manifest(const bundle_manifest *manifest, kiln_bundle_info *out)
{
    out->n_shapes = manifest->n_shapes;
    out->n_inputs = manifest->n_inputs;
    out->n_outputs = manifest->n_outputs;
    out->n_programs = manifest->n_programs;
    out->reprograms = manifest->n_shapes > 0 ? kilni_bundle_reprograms(&manifest->shapes[0]) : 0;
}

static kiln_status make_ready(kiln_bundle *bundle, const kiln_bundle_options *options,
                              kiln_error *err)
{
    if (bundle->device->backend->program == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "device %s takes no programs",
                         bundle->device->address);
    }
    pthread_mutex_lock(&bundle->device->lock);
    kiln_status status = kilni_bundle_make_programs(bundle, options, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_make_memory(bundle, options->poison != 0, err);
    }
    pthread_mutex_unlock(&bundle->device->lock);
    return status;
}

static kiln_status bundle_create(kiln_device *device, const char *path, kiln_bundle **out_bundle,
                                 kiln_error *err)
{
    const kiln_env *env = &device->context->env;
    kiln_bundle *bundle = kiln_alloc(env, sizeof(*bundle));
    *out_bundle = NULL;
    if (bundle == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle");
    }
    bundle->env = env;
    bundle->device = kiln_device_retain(device);
    kiln_arena_init(&bundle->arena, env);
    char *copy = kiln_arena_copy(&bundle->arena, path, strlen(path) + 1);
    bundle->folder = (bundle_folder){.env = env, .path = copy, .arena = &bundle->arena};
    *out_bundle = bundle;
    return copy != NULL ? KILN_STATUS_OK
                        : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle");
}

kiln_status kiln_bundle_open(kiln_device *device, const char *folder,
                             const kiln_bundle_options *options, kiln_bundle **out_bundle,
                             kiln_error *err)
{
    kiln_bundle_options all = KILN_BUNDLE_OPTIONS_INIT;
    kiln_bundle *bundle = NULL;
    if (device == NULL || folder == NULL || out_bundle == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device, folder and out_bundle must not be NULL");
    }
    *out_bundle = NULL;
    device = kilni_core(device);
    if (options != NULL) {
        memcpy(&all, options,
               options->struct_size < sizeof(all) ? options->struct_size : sizeof(all));
    }
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, bundle_create(device, folder, &bundle, err));
    KILN_TRY(out, status,
             kilni_bundle_files_read(&bundle->folder, &bundle->manifest, &bundle->targets,
                                     /*constants=*/false, err));
    KILN_TRY(out, status, make_ready(bundle, &all, err));
    tell_manifest(&bundle->manifest, &bundle->info);
    *out_bundle = bundle;
    bundle = NULL;
out:
    kiln_bundle_close(bundle);
    return status;
}

void kiln_bundle_close(kiln_bundle *bundle)
{
    if (bundle == NULL) {
        return;
    }
    kiln_device *device = bundle->device;
    pthread_mutex_lock(&device->lock);
    kilni_bundle_free_memory(bundle);
    kilni_bundle_free_programs(bundle);
    pthread_mutex_unlock(&device->lock);
    kiln_arena_fini(&bundle->arena);
    kiln_free(bundle->env, bundle);
    kiln_device_release(device);
}

static void give_info(kiln_bundle_info info, kiln_bundle_info *out_info)
{
    uint32_t size = out_info->struct_size;
    info.struct_size = size;
    memcpy(out_info, &info, size < sizeof(info) ? size : sizeof(info));
}

void kiln_bundle_info_get(const kiln_bundle *bundle, kiln_bundle_info *out_info)
{
    if (bundle != NULL && out_info != NULL) {
        give_info(bundle->info, out_info);
    }
}

kiln_status kiln_bundle_info_read(const kiln_env *env, const char *folder,
                                  kiln_bundle_info *out_info, kiln_error *err)
{
    kiln_arena arena;
    bundle_manifest manifest = {0};
    bundle_target *targets = NULL;
    kiln_bundle_info info = {0};
    if (env == NULL || folder == NULL || out_info == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env, folder and out_info must not be NULL");
    }
    kiln_arena_init(&arena, env);
    bundle_folder place = {.env = env, .path = folder, .arena = &arena};
    kiln_status status =
        kilni_bundle_files_read(&place, &manifest, &targets, /*constants=*/false, err);
    if (status == KILN_STATUS_OK) {
        tell_manifest(&manifest, &info);
        give_info(info, out_info);
    }
    kiln_arena_fini(&arena);
    return status;
}

const kiln_bundle_value *kiln_bundle_input(const kiln_bundle *bundle, uint32_t shapes,
                                           uint32_t index)
{
    return bundle != NULL && shapes < bundle->manifest.n_shapes && index < bundle->manifest.n_inputs
               ? &bundle->manifest.shapes[shapes].inputs[index].shown
               : NULL;
}

const kiln_bundle_value *kiln_bundle_output(const kiln_bundle *bundle, uint32_t shapes,
                                            uint32_t index)
{
    return bundle != NULL && shapes < bundle->manifest.n_shapes &&
                   index < bundle->manifest.n_outputs
               ? &bundle->manifest.shapes[shapes].outputs[index].shown
               : NULL;
}
