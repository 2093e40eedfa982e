// SPDX-License-Identifier: MIT OR Apache-2.0
// Built-in kernels: from (file, defines, kernel) to a kernel made ready, fast when it was asked for
// before. Also where the text of a file comes from. Which kernels exist is the matter of kernels/.

#include <stdio.h>
#include <string.h>

#include "cl_kernel.h"
#include "cl_program.h"
#include "cl_state.h"

static const char prelude_name[] = "prelude.cl";

// ---- texts ----

static const kilni_cl_source *embedded(const char *name)
{
    for (const kilni_cl_source *source = kilni_cl_sources; source->name != NULL; source++) {
        if (strcmp(source->name, name) == 0) {
            return source;
        }
    }
    return NULL;
}

static FILE *open_in_folder(const char *folder, const char *name)
{
    char path[1024];
    return (size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path)
               ? fopen(path, "rb")
               : NULL;
}

// Appends the file from the folder of KILN_KERNEL_DIR, which is like kernels/ or flat. Gives false
// when there is none such.
static bool append_from_folder(const kilni_cl_backend *backend, const char *name, kiln_string *text)
{
    const char *folder = kiln_config_string(backend->env->config, KILN_OPTION_KERNEL_DIR);
    const kilni_cl_source *source = embedded(name);
    if (folder == NULL || folder[0] == '\0') {
        return false;
    }
    FILE *file = open_in_folder(folder, name);
    if (file == NULL && source != NULL) {
        file = open_in_folder(folder, source->place);
    }
    if (file == NULL) {
        return false;
    }
    char block[4096];
    for (size_t n = fread(block, 1, sizeof(block), file); n > 0;
         n = fread(block, 1, sizeof(block), file)) {
        kiln_string_append(text, block, n);
    }
    fclose(file);
    return true;
}

static kiln_status append_file(const kilni_cl_backend *backend, const char *name, kiln_string *text,
                               kiln_error *err)
{
    kiln_string_printf(text, "#line 1 \"%s\"\n", name);
    if (append_from_folder(backend, name, text)) {
        return KILN_STATUS_OK;
    }
    const kilni_cl_source *source = embedded(name);
    if (source == NULL) {
        return kiln_fail(err, NOT_FOUND, "no kernel source is called %s", name);
    }
    kiln_string_append(text, source->text, source->length);
    return KILN_STATUS_OK;
}

static uint32_t count_lines(const char *from, const char *end)
{
    uint32_t lines = 0;
    for (const char *at = from; at < end; at++) {
        lines += *at == '\n';
    }
    return lines;
}

// Appends a file with each line `#include "other.cl"` replaced by that file.
static kiln_status append_whole(const kilni_cl_backend *backend, const char *name,
                                kiln_string *text, kiln_error *err)
{
    static const char before[] = "\n#include \"";
    kiln_status status = KILN_STATUS_OK;
    kiln_string file;
    kiln_string_init(&file, backend->env);
    KILN_TRY(out, status, append_file(backend, name, &file, err));
    if (file.failed) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the source of %s", name);
        goto out;
    }
    const char *rest = file.text;
    uint32_t line = 0; // at `rest`; the first names the file
    for (const char *at = strstr(rest, before); at != NULL; at = strstr(rest, before)) {
        const char *other = at + strlen(before);
        size_t length = strcspn(other, "\"\n");
        char included[64];
        snprintf(included, sizeof(included), "%.*s", (int)length, other);
        line += count_lines(rest, at + 1);
        kiln_string_append(text, rest, (size_t)(at - rest) + 1);
        KILN_TRY(out, status, append_file(backend, included, text, err));
        kiln_string_printf(text, "\n#line %u \"%s\"", line + 1, name);
        rest = other + length + (other[length] == '"');
    }
    kiln_string_append(text, rest, strlen(rest));
out:
    kiln_string_fini(&file);
    return status;
}

// ---- the table of kernels ----

static uint64_t key_hash(const kilni_cl_kernel_key *key)
{
    uint64_t hash = kiln_hash64(key->file, strlen(key->file), 0);
    hash = kiln_hash64(key->defines, strlen(key->defines), hash);
    return kiln_hash64(key->kernel, strlen(key->kernel), hash);
}

static bool slot_matches(const kilni_cl_kernel_slot *slot, uint64_t hash,
                         const kilni_cl_kernel_key *key)
{
    if (slot->hash != hash) {
        return false;
    }
    const char *defines = slot->texts + strlen(slot->texts) + 1;
    const char *kernel = defines + strlen(defines) + 1;
    return strcmp(slot->texts, key->file) == 0 && strcmp(defines, key->defines) == 0 &&
           strcmp(kernel, key->kernel) == 0;
}

static kilni_cl_kernel_slot *find_slot(const kilni_cl_kernels *kernels, uint64_t hash,
                                       const kilni_cl_kernel_key *key)
{
    for (uint32_t i = (uint32_t)hash & (kernels->capacity - 1);;
         i = (i + 1) & (kernels->capacity - 1)) {
        kilni_cl_kernel_slot *slot = &kernels->slots[i];
        if (slot->kernel == NULL || (key != NULL && slot_matches(slot, hash, key))) {
            return slot;
        }
    }
}

static bool grow(kilni_cl_backend *backend)
{
    kilni_cl_kernels *kernels = &backend->kernels;
    if (kernels->used * 2 < kernels->capacity) {
        return true;
    }
    kilni_cl_kernels grown = {.capacity = kernels->capacity != 0 ? kernels->capacity * 2 : 128};
    grown.slots = kiln_alloc_array(backend->env, grown.capacity, sizeof(*grown.slots));
    if (grown.slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < kernels->capacity; i++) {
        if (kernels->slots[i].kernel != NULL) {
            *find_slot(&grown, kernels->slots[i].hash, NULL) = kernels->slots[i];
        }
    }
    kiln_free(backend->env, kernels->slots);
    kernels->slots = grown.slots;
    kernels->capacity = grown.capacity;
    return true;
}

static char *join_key(const kilni_cl_backend *backend, const kilni_cl_kernel_key *key,
                      size_t *out_length)
{
    size_t file = strlen(key->file) + 1;
    size_t defines = strlen(key->defines) + 1;
    size_t kernel = strlen(key->kernel) + 1;
    char *texts = kiln_alloc(backend->env, file + defines + kernel);
    if (texts != NULL) {
        memcpy(texts, key->file, file);
        memcpy(texts + file, key->defines, defines);
        memcpy(texts + file + defines, key->kernel, kernel);
    }
    *out_length = file + defines + kernel;
    return texts;
}

// ---- making a kernel ----

static kiln_status build(kilni_cl_backend *backend, const kilni_cl_kernel_key *key,
                         kilni_cl_kernel **out_kernel, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kilni_cl_program *program = NULL;
    kiln_string text;
    kiln_string options;
    kiln_string label;
    kiln_string_init(&text, backend->env);
    kiln_string_init(&options, backend->env);
    kiln_string_init(&label, backend->env);
    if (embedded(prelude_name) != NULL) {
        KILN_TRY(out, status, append_whole(backend, prelude_name, &text, err));
    }
    KILN_TRY(out, status, append_whole(backend, key->file, &text, err));
    kiln_string_printf(&options, "-cl-std=CL1.2 %s%s", backend->compiler.exact_options,
                       key->defines);
    kiln_string_printf(&label, "%s %s", key->file, key->defines);
    if (text.failed || options.failed || label.failed) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the source of %s", key->file);
        goto out;
    }
    kilni_cl_build what = {.format = KILN_SOURCE_OPENCL_C,
                           .code = text.text,
                           .length = text.length,
                           .options = options.text,
                           .label = label.text};
    KILN_TRY(out, status, kilni_cl_program_get(backend, &what, &program, err));
    KILN_TRY(out, status, kilni_cl_program_kernel(backend, program, key->kernel, out_kernel, err));
    program = NULL;
out:
    kilni_cl_program_release(backend, program);
    kiln_string_fini(&text);
    kiln_string_fini(&options);
    kiln_string_fini(&label);
    return status;
}

kiln_status kilni_cl_kernel_get(kilni_cl_backend *backend, const kilni_cl_kernel_key *key,
                                kilni_cl_kernel **out_kernel, kiln_error *err)
{
    *out_kernel = NULL;
    if (!grow(backend)) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the table of kernels");
    }
    uint64_t hash = key_hash(key);
    kilni_cl_kernel_slot *slot = find_slot(&backend->kernels, hash, key);
    if (slot->kernel != NULL) {
        *out_kernel = slot->kernel;
        return KILN_STATUS_OK;
    }
    kiln_status status = build(backend, key, out_kernel, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    slot->texts = join_key(backend, key, &slot->length);
    if (slot->texts == NULL) {
        *out_kernel = NULL;
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the table of kernels");
    }
    slot->hash = hash;
    slot->kernel = *out_kernel;
    backend->kernels.used++;
    return KILN_STATUS_OK;
}

void kilni_cl_kernels_close(kilni_cl_backend *backend)
{
    kilni_cl_kernels *kernels = &backend->kernels;
    for (uint32_t i = 0; i < kernels->capacity; i++) {
        kiln_free(backend->env, kernels->slots[i].texts);
    }
    kiln_free(backend->env, kernels->slots);
    kernels->slots = NULL;
    kernels->capacity = 0;
    kernels->used = 0;
}
