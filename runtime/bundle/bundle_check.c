// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device would miss of a bundle, by its facts, which may come from another machine. Decides
// what counts as missing: sizes, features, and programs that it has neither a binary of nor can
// compile.

#include "bundle_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct bundle_checking {
    const bundle_manifest *manifest;
    const bundle_target *targets;
    const kiln_device_info *facts;
    kiln_bundle_miss_fn miss;
    void *user;
    uint32_t misses;
} bundle_checking;

static void tell_miss(bundle_checking *checking, const char *text)
{
    checking->misses++;
    if (checking->miss != NULL) {
        checking->miss(text, checking->user);
    }
}

static bool is_there(const bundle_folder *folder, const char *name)
{
    char path[BUNDLE_PATH_ROOM];
    FILE *file = kilni_bundle_path(folder->path, name, path, NULL) == KILN_STATUS_OK
                     ? fopen(path, "rb")
                     : NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL;
}

/// A size of 0 among the facts is not known.
static void check_size(bundle_checking *checking, const char *what, uint64_t wanted, uint64_t has)
{
    char text[160];
    if (has != 0 && wanted > has) {
        snprintf(text, sizeof(text), "%s: wants %llu, the device has %llu", what,
                 (unsigned long long)wanted, (unsigned long long)has);
        tell_miss(checking, text);
    }
}

static void check_features(bundle_checking *checking, const bundle_wants *wants)
{
    char text[160];
    bundle_wants left = *wants;
    const bundle_feature *lacks = NULL;
    while ((lacks = kilni_bundle_lacks(&left, checking->facts)) != NULL) {
        snprintf(text, sizeof(text), "%s: the programs use %s, which the device has not",
                 lacks->name, lacks->what);
        tell_miss(checking, text);
        left.features &= ~lacks->feature;
    }
}

static void check_program(bundle_checking *checking, const bundle_folder *folder, uint32_t index)
{
    char why[BUNDLE_WHY_ROOM] = "";
    char text[320];
    const bundle_program *program = &checking->manifest->programs[index];
    const kiln_device_info *facts = checking->facts;
    bool source = is_there(folder, program->file);
    if (facts == NULL) {
        if (!source) {
            snprintf(text, sizeof(text), "%s is missing", program->file);
            tell_miss(checking, text);
        }
        return;
    }
    const bundle_target *target =
        kilni_bundle_target_find(checking->targets, checking->manifest, index, facts, why);
    if (target != NULL && is_there(&target->folder, target->files[index])) {
        return;
    }
    if (source && (facts->features & KILN_FEATURE_COMPILER) != 0) {
        return;
    }
    snprintf(text, sizeof(text), "kernel %.60s of %.80s: no binary%s%s",
             program->n_kernels > 0 ? program->kernels[0].name : "", program->file, why,
             source ? "" : ", and no source");
    tell_miss(checking, text);
}

static void check_all(bundle_checking *checking, const bundle_folder *folder)
{
    const bundle_wants *wants = &checking->manifest->wants;
    const kiln_device_info *facts = checking->facts;
    for (uint32_t i = 0; i < checking->manifest->n_programs; i++) {
        check_program(checking, folder, i);
    }
    if (!is_there(folder, BUNDLE_CONSTANTS)) {
        tell_miss(checking, BUNDLE_CONSTANTS " is missing");
    }
    if (facts == NULL) {
        return;
    }
    check_size(checking, "work-items of a group", wants->work_group, facts->max_work_group);
    check_size(checking, "bytes of a buffer", wants->buffer_bytes, facts->max_alloc_bytes);
    check_size(checking, "bytes of memory", wants->memory_bytes, facts->memory_bytes);
    check_size(checking, "bytes of local memory", wants->local_bytes, facts->local_bytes);
    check_size(checking, "bytes of arguments", wants->parameter_bytes, facts->max_parameter_bytes);
    check_features(checking, wants);
}

kiln_status kiln_bundle_check(const kiln_env *env, const char *folder,
                              const kiln_device_info *facts, kiln_bundle_miss_fn miss, void *user,
                              uint32_t *out_misses, kiln_error *err)
{
    kiln_arena arena;
    bundle_manifest manifest = {0};
    bundle_target *targets = NULL;
    if (env == NULL || folder == NULL || miss == NULL || out_misses == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "folder, miss and out_misses must not be NULL");
    }
    kiln_arena_init(&arena, env);
    bundle_folder place = {.env = env, .path = folder, .arena = &arena};
    *out_misses = 0;
    kiln_status status =
        kilni_bundle_files_read(&place, &manifest, &targets, /*constants=*/true, err);
    if (status == KILN_STATUS_OK) {
        bundle_checking checking = {
            .manifest = &manifest, .targets = targets, .facts = facts, .miss = miss, .user = user};
        check_all(&checking, &place);
        *out_misses = checking.misses;
    }
    kiln_arena_fini(&arena);
    return status;
}
