// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs of a bundle, made ready on a device. Decides what a program is made from: a binary that
// fits, else its source where the device compiles and the caller lets it. A miss names the kernel
// and its file.

#include "bundle_internal.h"

#include <stdio.h>
#include <string.h>

/// A launch for each kernel. Arguments are of no kind that the backend would pack.
static kiln_status describe(kiln_bundle *bundle, const bundle_program *from, bundle_ready *ready,
                            kiln_error *err)
{
    kiln_program_launch *launches =
        kiln_arena_alloc(&bundle->arena, (from->n_kernels + 1) * sizeof(*launches));
    if (launches == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
    }
    for (uint32_t i = 0; i < from->n_kernels; i++) {
        kiln_program_arg *args =
            kiln_arena_alloc(&bundle->arena, (from->kernels[i].n_args + 1) * sizeof(*args));
        if (args == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
        }
        for (uint32_t k = 0; k < from->kernels[i].n_args; k++) {
            args[k].kind = KILN_ARG_LOCAL;
        }
        launches[i] = (kiln_program_launch){.kernel = from->kernels[i].name,
                                            .n_dims = 1,
                                            .args = args,
                                            .n_args = from->kernels[i].n_args};
    }
    ready->launches = launches;
    ready->program = (kiln_program){.key = kiln_hash_bytes(from->key, strlen(from->key)),
                                    .sources = &ready->source,
                                    .n_sources = 1,
                                    .launches = launches,
                                    .n_launches = from->n_kernels};
    return KILN_STATUS_OK;
}

static kiln_status build(kiln_bundle *bundle, const bundle_program *from, kiln_source_format format,
                         bundle_ready *ready, kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
    ready->source = (kiln_program_source){.format = format,
                                          .code = ready->code.data,
                                          .length = ready->code.length,
                                          .math = from->exact ? 0 : KILN_MATH_APPROXIMATE,
                                          .options = from->options};
    return backend->program->build(backend, &ready->program, &ready->built, err);
}

static void drop_code(const kiln_bundle *bundle, bundle_ready *ready)
{
    kiln_free(bundle->env, ready->code.data);
    ready->code = (kiln_blob){0};
}

static const char *first_kernel(const bundle_program *program)
{
    return program->n_kernels > 0 ? program->kernels[0].name : "of no name";
}

/// Leaves `ready->built` NULL where there is no binary, with the reason in `why`, or where the
/// driver refuses it.
static kiln_status load(kiln_bundle *bundle, uint32_t index, char why[BUNDLE_WHY_ROOM],
                        kiln_error *err)
{
    bundle_ready *ready = &bundle->ready[index];
    const bundle_program *from = &bundle->manifest.programs[index];
    const bundle_target *target = kilni_bundle_target_find(
        bundle->targets, &bundle->manifest, index, kiln_device_info_of(bundle->device), why);
    if (target == NULL) {
        return KILN_STATUS_OK;
    }
    const char *file = target->files[index];
    kiln_error refused = KILN_ERROR_INIT;
    kiln_status status = kilni_bundle_folder_read(&target->folder, file, &ready->code, err);
    if (status == KILN_STATUS_NOT_FOUND) {
        snprintf(why, BUNDLE_WHY_ROOM, "; " BUNDLE_BINARIES "/%.40s/%.50s is missing", target->name,
                 file);
        return KILN_STATUS_OK;
    }
    if (status == KILN_STATUS_OK &&
        build(bundle, from, KILN_SOURCE_BINARY, ready, &refused) == KILN_STATUS_OK) {
        bundle->info.loaded++;
        return status;
    }
    if (status == KILN_STATUS_OK) {
        kiln_log_write(bundle->env, KILN_LOG_WARN, "bundle", "%s/%s is refused: %s",
                       target->folder.path, file, refused.message);
        snprintf(why, BUNDLE_WHY_ROOM, "; the driver refuses " BUNDLE_BINARIES "/%.40s/%.40s",
                 target->name, file);
    }
    drop_code(bundle, ready);
    return status;
}

static kiln_status compile(kiln_bundle *bundle, uint32_t index, const char *why, kiln_error *err)
{
    bundle_ready *ready = &bundle->ready[index];
    const bundle_program *from = &bundle->manifest.programs[index];
    kiln_status status = kilni_bundle_folder_read(&bundle->folder, from->file, &ready->code, err);
    if (status == KILN_STATUS_NOT_FOUND) {
        return kiln_fail(err, NOT_FOUND,
                         "kernel %.40s: its file %.50s is missing, and there is no binary of it "
                         "for this device%.60s",
                         first_kernel(from), from->file, why);
    }
    if (status == KILN_STATUS_OK) {
        status = build(bundle, from, KILN_SOURCE_OPENCL_C, ready, err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "%.60s", from->file);
        }
    }
    if (status == KILN_STATUS_OK) {
        bundle->info.compiled++;
    } else {
        drop_code(bundle, ready);
    }
    return status;
}

static kiln_status missing(const kiln_bundle *bundle, uint32_t index, const char *why,
                           kiln_error *err)
{
    const bundle_program *program = &bundle->manifest.programs[index];
    const kiln_device_info *device = kiln_device_info_of(bundle->device);
    return kiln_fail(err, UNIMPLEMENTED,
                     "kernel %.40s of %.50s has no binary for %.60s, driver %.20s%.60s",
                     first_kernel(program), program->file, device->name, device->driver, why);
}

/// Its compiler would take the text for what it is not, or make instructions that it has not.
static kiln_status lacking(const kiln_bundle *bundle, uint32_t index, const bundle_feature *lacks,
                           kiln_error *err)
{
    const bundle_program *program = &bundle->manifest.programs[index];
    return kiln_fail(err, UNIMPLEMENTED,
                     "kernel %.40s of %.50s has no binary for %.60s, which lacks %s: the bundle "
                     "wants %s",
                     first_kernel(program), program->file,
                     kiln_device_info_of(bundle->device)->name, lacks->what, lacks->name);
}

static kiln_status make_program(kiln_bundle *bundle, uint32_t index,
                                const kiln_bundle_options *options, kiln_error *err)
{
    bundle_ready *ready = &bundle->ready[index];
    char why[BUNDLE_WHY_ROOM] = "";
    kiln_status status = describe(bundle, &bundle->manifest.programs[index], ready, err);
    if (status == KILN_STATUS_OK && options->no_binaries == 0) {
        status = load(bundle, index, why, err);
    }
    if (status != KILN_STATUS_OK || ready->built != NULL) {
        return status;
    }
    if (options->no_compile != 0) {
        return missing(bundle, index, why, err);
    }
    const bundle_feature *lacks =
        kilni_bundle_lacks(&bundle->manifest.wants, kiln_device_info_of(bundle->device));
    if (lacks != NULL) {
        return lacking(bundle, index, lacks, err);
    }
    status = compile(bundle, index, why, err);
    return status != KILN_STATUS_UNIMPLEMENTED
               ? status
               : missing(bundle, index, why[0] != '\0' ? why : ", and it does not compile", err);
}

kiln_status kilni_bundle_make_programs(kiln_bundle *bundle, const kiln_bundle_options *options,
                                       kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    bundle->ready =
        kiln_arena_alloc(&bundle->arena, (bundle->manifest.n_programs + 1) * sizeof(bundle_ready));
    if (bundle->ready == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for programs");
    }
    for (uint32_t i = 0; i < bundle->manifest.n_programs && status == KILN_STATUS_OK; i++) {
        status = make_program(bundle, i, options, err);
    }
    return status;
}

void kilni_bundle_free_programs(kiln_bundle *bundle)
{
    kiln_backend *backend = bundle->device->backend;
    for (uint32_t i = 0; bundle->ready != NULL && i < bundle->manifest.n_programs; i++) {
        if (bundle->ready[i].built != NULL) {
            backend->program->free(backend, bundle->ready[i].built);
        }
        drop_code(bundle, &bundle->ready[i]);
    }
    bundle->ready = NULL;
}
