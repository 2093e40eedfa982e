// SPDX-License-Identifier: MIT OR Apache-2.0
// Making a bundle: its lists of programs, kernels and constants, each once, and its files. What a
// device did is bundle_record.c's.

#include "bundle_json.h"
#include "bundle_maker.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// ---- the maker ----

kiln_status kilni_bundle_stage(kiln_bundle_maker *maker, bundle_stage stage, kiln_error *err)
{
    static const char *const names[] = {"create", "add",   "single", "merge",
                                        "order",  "banks", "write"};
    bool repeats = stage == BUNDLE_STAGE_ADD || stage == BUNDLE_STAGE_WRITE;
    if (maker->stage > stage || (maker->stage == stage && !repeats)) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "kiln_bundle_maker_%s was called after kiln_bundle_maker_%s", names[stage],
                         names[maker->stage]);
    }
    maker->stage = stage;
    return KILN_STATUS_OK;
}

kiln_status kiln_bundle_maker_create(const kiln_env *env, kiln_bundle_maker **out_maker,
                                     kiln_error *err)
{
    if (env == NULL || out_maker == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "env and out_maker must not be NULL");
    }
    *out_maker = NULL;
    kiln_bundle_maker *maker = kiln_alloc(env, sizeof(*maker));
    if (maker == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle");
    }
    maker->env = env;
    kiln_arena_init(&maker->arena, env);
    maker->last_chunk = &maker->chunks;
    maker->manifest.device = "";
    maker->manifest.driver = "";
    maker->manifest.programs =
        kiln_arena_alloc(&maker->arena, BUNDLE_PROGRAMS * sizeof(bundle_program));
    maker->manifest.shapes = kiln_arena_alloc(&maker->arena, BUNDLE_SHAPES * sizeof(bundle_shapes));
    if (maker->manifest.programs == NULL || maker->manifest.shapes == NULL) {
        kiln_bundle_maker_destroy(maker);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle");
    }
    *out_maker = maker;
    return KILN_STATUS_OK;
}

void kiln_bundle_maker_destroy(kiln_bundle_maker *maker)
{
    if (maker == NULL) {
        return;
    }
    for (bundle_chunk *chunk = maker->chunks; chunk != NULL; chunk = chunk->next) {
        kiln_free(maker->env, chunk->data);
    }
    kiln_arena_fini(&maker->arena);
    kiln_free(maker->env, maker);
}

kiln_status kilni_bundle_chunk_add(kiln_bundle_maker *maker, void *take_data, uint64_t length,
                                   uint64_t *out_offset, kiln_error *err)
{
    kiln_hash128 hash = kiln_hash_bytes(take_data, (size_t)length);
    for (const bundle_chunk *chunk = maker->chunks; chunk != NULL; chunk = chunk->next) {
        if (chunk->length == length && kiln_hash_same(chunk->hash, hash)) {
            kiln_free(maker->env, take_data);
            *out_offset = chunk->offset;
            return KILN_STATUS_OK;
        }
    }
    bundle_chunk *made = kiln_arena_alloc(&maker->arena, sizeof(*made));
    if (made == NULL) {
        kiln_free(maker->env, take_data);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant");
    }
    *made = (bundle_chunk){
        .hash = hash, .offset = maker->constant_bytes, .length = length, .data = take_data};
    *maker->last_chunk = made;
    maker->last_chunk = &made->next;
    maker->constant_bytes += length;
    *out_offset = made->offset;
    return KILN_STATUS_OK;
}

// ---- programs ----

/// What people call it: the file of a built-in kernel, or a fuser's first kernel.
static void name_source(const char *label, uint32_t number, char out_name[96])
{
    char plain[48];
    size_t length = 0;
    for (const char *at = label; length < sizeof(plain) - 1 && *at != '\0' && *at != '.'; at++) {
        bool good = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '_';
        if (!good) {
            break;
        }
        plain[length++] = *at;
    }
    plain[length] = '\0';
    (void)snprintf(out_name, 96, "src/p%03u_%s.cl", number, plain);
}

char *kilni_bundle_program_key(kiln_bundle_maker *maker, const bundle_program *program)
{
    char hex[33];
    const kiln_hash128 parts[2] = {kiln_hash_bytes(program->text, strlen(program->text)),
                                   kiln_hash_bytes(program->options, strlen(program->options))};
    kiln_hash_hex(kiln_hash_bytes(parts, sizeof(parts)), hex);
    return kiln_arena_copy(&maker->arena, hex, sizeof(hex));
}

kiln_status kilni_bundle_program_add(kiln_bundle_maker *maker, const bundle_program *program,
                                     const char *label, uint32_t *out_index, kiln_error *err)
{
    bundle_manifest *manifest = &maker->manifest;
    char name[96];
    const char *key = kilni_bundle_program_key(maker, program);
    if (key == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
    }
    for (*out_index = 0; *out_index < manifest->n_programs; ++*out_index) {
        const bundle_program *other = &manifest->programs[*out_index];
        if (strcmp(other->key, key) == 0 && other->exact == program->exact) {
            return KILN_STATUS_OK;
        }
    }
    if (manifest->n_programs == BUNDLE_PROGRAMS) {
        return kiln_fail(err, OUT_OF_RANGE, "a bundle of more than %d programs", BUNDLE_PROGRAMS);
    }
    name_source(label, manifest->n_programs, name);
    bundle_program *made = &manifest->programs[manifest->n_programs];
    *made = (bundle_program){
        .file = kiln_arena_copy(&maker->arena, name, strlen(name) + 1),
        .options = kiln_arena_copy(&maker->arena, program->options, strlen(program->options) + 1),
        .text = kiln_arena_copy(&maker->arena, program->text, strlen(program->text) + 1),
        .kernels = kiln_arena_alloc(&maker->arena, BUNDLE_KERNELS * sizeof(bundle_kernel)),
        .exact = program->exact,
        .key = key};
    if (made->file == NULL || made->options == NULL || made->text == NULL ||
        made->kernels == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a program");
    }
    manifest->n_programs++;
    return KILN_STATUS_OK;
}

kiln_status kilni_bundle_kernel_add(kiln_bundle_maker *maker, uint32_t program, const char *name,
                                    uint32_t n_args, uint32_t *out_index, kiln_error *err)
{
    bundle_program *of = &maker->manifest.programs[program];
    for (*out_index = 0; *out_index < of->n_kernels; ++*out_index) {
        if (strcmp(of->kernels[*out_index].name, name) == 0) {
            return KILN_STATUS_OK;
        }
    }
    char *copy = kiln_arena_copy(&maker->arena, name, strlen(name) + 1);
    if (copy == NULL || of->n_kernels == BUNDLE_KERNELS) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no room for kernel %.80s", name);
    }
    of->kernels[of->n_kernels++] = (bundle_kernel){.name = copy, .n_args = n_args};
    return KILN_STATUS_OK;
}

void kilni_bundle_use(bundle_shapes *shapes, uint32_t buffer, uint32_t step)
{
    if (buffer != UINT32_MAX) {
        bundle_buffer *used = &shapes->buffers[buffer];
        used->first = used->first == UINT32_MAX ? step : used->first;
        used->last = step;
    }
}

// ---- files ----

/// Constants as safetensors has them: the length of a header, the header, the bytes. Each is a list
/// of bytes, for layouts are the kernels'.
static kiln_status join_constants(const kiln_bundle_maker *maker, kiln_blob *out_file,
                                  uint64_t *out_start, kiln_error *err)
{
    kiln_string header;
    kiln_string_init(&header, maker->env);
    kiln_string_append(&header, "{", 1);
    uint32_t number = 0;
    for (const bundle_chunk *chunk = maker->chunks; chunk != NULL; chunk = chunk->next) {
        kiln_string_printf(
            &header, "%s\"c%u\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}",
            number > 0 ? "," : "", number, (unsigned long long)chunk->length,
            (unsigned long long)chunk->offset, (unsigned long long)(chunk->offset + chunk->length));
        number++;
    }
    kiln_string_append(&header, "}", 1);
    while (!header.failed && header.length % 8 != 0) {
        kiln_string_append(&header, " ", 1);
    }
    *out_start = sizeof(uint64_t) + header.length;
    *out_file = (kiln_blob){.data = kiln_alloc(maker->env, *out_start + maker->constant_bytes),
                            .length = *out_start + maker->constant_bytes};
    if (header.failed || out_file->data == NULL) {
        kiln_string_fini(&header);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %llu bytes of constants",
                         (unsigned long long)maker->constant_bytes);
    }
    unsigned char *bytes = out_file->data;
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)header.length >> 8 * i);
    }
    memcpy(bytes + 8, header.text, header.length);
    for (const bundle_chunk *chunk = maker->chunks; chunk != NULL; chunk = chunk->next) {
        memcpy(bytes + *out_start + chunk->offset, chunk->data, chunk->length);
    }
    kiln_string_fini(&header);
    return KILN_STATUS_OK;
}

/// Definitions alone: what every compiler takes.
static void write_defines(const char *options, kiln_string *out)
{
    for (const char *at = options; *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (strncmp(at, "-D", 2) == 0) {
            kiln_string_printf(out, " %.*s", (int)length, at);
        }
        at += length;
    }
}

static void write_aoc_rule(const bundle_program *program, int stem, kiln_string *out)
{
    kiln_string_printf(out, "out/%.*s.aocx: %s | out\n\t$(AOC) $(AOC_FLAGS)%s -board=$(BOARD)",
                       stem, program->file + strlen("src/"), program->file,
                       program->connections != NULL ? " $(AOC_BANKS)" : "");
    write_defines(program->options, out);
    kiln_string_printf(out, " $< -o $@\n");
}

/// The banks are named as the platform names them, which the make's user knows.
static void write_vpp_rule(const bundle_program *program, int stem, kiln_string *out)
{
    const char *file = program->file + strlen("src/");
    const bool banks = program->connections != NULL;
    if (banks) {
        kiln_string_printf(out,
                           "out/%.*s.cfg: src/%.*s.cfg | out\n\tsed 's/:DDR/:$(MEMORY)/' $< > $@\n",
                           stem, file, stem, file);
    }
    kiln_string_printf(out, "out/%.*s.xclbin: %s", stem, file, program->file);
    if (banks) {
        kiln_string_printf(out, " out/%.*s.cfg", stem, file);
    }
    kiln_string_printf(out, " | out\n\t$(VPP) -t hw --platform $(PLATFORM) $(VPP_FLAGS)%s -c",
                       banks ? " $(VPP_PORTS)" : "");
    write_defines(program->options, out);
    kiln_string_printf(out, " $< -o $@.xo\n\t$(VPP) -t hw --platform $(PLATFORM) $(VPP_FLAGS) -l");
    if (banks) {
        kiln_string_printf(out, " --config out/%.*s.cfg", stem, file);
    }
    kiln_string_printf(out, " $@.xo -o $@\n");
}

/// SPIR-V without optimising: llvm-spirv 14 does not know all that optimised code has.
static void write_rules(const bundle_program *program, kiln_string *out)
{
    const char *file = program->file + strlen("src/");
    int stem = (int)(strlen(file) - strlen(".cl"));
    write_aoc_rule(program, stem, out);
    write_vpp_rule(program, stem, out);
    kiln_string_printf(out,
                       "out/%.*s.spv: %s | out\n\t$(CLANG) -c -target spir64 -O0 -emit-llvm "
                       "-Xclang -finclude-default-header -D__OPENCL_VERSION__=120 %s $< -o $@.bc\n"
                       "\t$(LLVM_SPIRV) $@.bc -o $@\n",
                       stem, file, program->file, program->options);
}

/// A word that makes all files with an ending.
static void write_all_rule(const bundle_manifest *manifest, const char *word, const char *ending,
                           kiln_string *out)
{
    kiln_string_printf(out, "%s:", word);
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const char *file = manifest->programs[i].file + strlen("src/");
        kiln_string_printf(out, " out/%.*s.%s", (int)(strlen(file) - strlen(".cl")), file, ending);
    }
    kiln_string_printf(out, "\n");
}

/// For make: a rule for each offline compiler, as their manuals have the commands.
static void write_makefile(const bundle_manifest *manifest, kiln_string *out)
{
    static const char head[] =
        "# Made by `kiln bundle`. `make device` compiles for the OpenCL device of this machine,\n"
        "# `make aoc BOARD=...`, `make vpp PLATFORM=...` and `make spirv` by an offline compiler\n"
        "# into out/. Then: kiln bundle add . --facts FACTS.json out/*.aocx\n"
        "KILN ?= kiln\nAOC ?= aoc\nVPP ?= v++\nCLANG ?= clang-14\nLLVM_SPIRV ?= llvm-spirv-14\n"
        "BOARD ?= select-a-board\nPLATFORM ?= select-a-platform\nAOC_FLAGS ?=\nVPP_FLAGS ?=\n\n"
        "device:\n\t$(KILN) bundle compile .\n\ncheck:\n\t$(KILN) bundle check .\n\n";
    static const char banks[] = "# Banks: what the platform calls its memory, a port for each "
                                "argument, and no interleaving.\n"
                                "MEMORY ?= DDR\nVPP_PORTS ?= --max_memory_ports all\n"
                                "AOC_BANKS ?= -no-interleaving=default\n\n";
    kiln_string_append(out, head, sizeof(head) - 1);
    kiln_string_append(out, banks, manifest->n_banks > 0 ? sizeof(banks) - 1 : 0);
    write_all_rule(manifest, "aoc", "aocx", out);
    write_all_rule(manifest, "vpp", "xclbin", out);
    write_all_rule(manifest, "spirv", "spv", out);
    kiln_string_printf(out, "\nout:\n\tmkdir -p out\n\n");
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        write_rules(&manifest->programs[i], out);
    }
    kiln_string_printf(out, ".PHONY: device check aoc vpp spirv\n");
}

static kiln_status make_empty(const char *folder, kiln_error *err)
{
    char path[BUNDLE_PATH_ROOM];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return kiln_fail(err, UNAVAILABLE, "%.150s: %s", folder, strerror(errno));
    }
    DIR *listing = opendir(folder);
    bool empty = listing != NULL;
    for (const struct dirent *entry = empty ? readdir(listing) : NULL; entry != NULL && empty;
         entry = readdir(listing)) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    if (listing == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%.150s: %s", folder, strerror(errno));
    }
    (void)closedir(listing);
    if (!empty) {
        return kiln_fail(err, ALREADY_EXISTS,
                         "%.150s is not empty: remove it or name another folder", folder);
    }
    kiln_status status = kilni_bundle_path(folder, "src", path, err);
    if (status == KILN_STATUS_OK && mkdir(path, 0777) != 0) {
        status = kiln_fail(err, UNAVAILABLE, "%.150s: %s", path, strerror(errno));
    }
    return status;
}

static kiln_status write_connections(kiln_bundle_maker *maker, const bundle_folder *into,
                                     kiln_string *hashes, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < maker->manifest.n_programs && status == KILN_STATUS_OK; i++) {
        const bundle_program *program = &maker->manifest.programs[i];
        size_t stem = strlen(program->file) - strlen(".cl");
        char *name = kiln_arena_alloc(&maker->arena, stem + sizeof(".cfg"));
        if (program->connections == NULL) {
            continue;
        }
        if (name == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a file's name");
        }
        memcpy(name, program->file, stem);
        memcpy(name + stem, ".cfg", sizeof(".cfg"));
        status = kilni_bundle_folder_write(into, hashes, name, program->connections,
                                           strlen(program->connections), err);
    }
    return status;
}

static kiln_status write_parts(kiln_bundle_maker *maker, const bundle_folder *into,
                               kiln_string *hashes, kiln_error *err)
{
    bundle_manifest *manifest = &maker->manifest;
    kiln_status status = KILN_STATUS_OK;
    kiln_blob constants = {0};
    kiln_string text;
    kiln_string makefile;
    kiln_string_init(&text, maker->env);
    kiln_string_init(&makefile, maker->env);
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const bundle_program *program = &manifest->programs[i];
        KILN_TRY(out, status,
                 kilni_bundle_folder_write(into, hashes, program->file, program->text,
                                           strlen(program->text), err));
    }
    KILN_TRY(out, status, write_connections(maker, into, hashes, err));
    KILN_TRY(out, status, join_constants(maker, &constants, &manifest->constants_start, err));
    KILN_TRY(out, status,
             kilni_bundle_folder_write(into, hashes, BUNDLE_CONSTANTS, constants.data,
                                       constants.length, err));
    kilni_bundle_manifest_write(manifest, &text);
    write_makefile(manifest, &makefile);
    if (text.failed || makefile.failed) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for " BUNDLE_MANIFEST);
        goto out;
    }
    KILN_TRY(
        out, status,
        kilni_bundle_folder_write(into, hashes, "Makefile", makefile.text, makefile.length, err));
    KILN_TRY(out, status,
             kilni_bundle_folder_write(into, hashes, BUNDLE_MANIFEST, text.text, text.length, err));
out:
    kiln_free(maker->env, constants.data);
    kiln_string_fini(&text);
    kiln_string_fini(&makefile);
    return status;
}

kiln_status kiln_bundle_maker_write(kiln_bundle_maker *maker, const char *folder, kiln_error *err)
{
    if (maker == NULL || folder == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "maker and folder must not be NULL");
    }
    const bundle_folder into = {.env = maker->env, .path = folder, .arena = &maker->arena};
    kiln_string hashes;
    kiln_string_init(&hashes, maker->env);
    kiln_status status = kilni_bundle_stage(maker, BUNDLE_STAGE_WRITE, err);
    if (status == KILN_STATUS_OK) {
        status = make_empty(folder, err);
    }
    if (status == KILN_STATUS_OK) {
        status = write_parts(maker, &into, &hashes, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_folder_close(&into, &hashes, err);
    }
    kiln_string_fini(&hashes);
    return status;
}
