// SPDX-License-Identifier: MIT OR Apache-2.0
// Facts of a device as a file: what a plan is made by, and what a bundle is checked against, on a
// machine that has no such device. Decides which numbers are possible. Files are hostile.

#include "bundle_json.h"
#include "kiln_bundle.h"

#include "bundle_manifest.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { FACTS_VERSION = 2 };

typedef struct fact_number {
    const char *name;
    size_t offset;
    uint64_t least;
    uint64_t most;
    bool may_lack; ///< older files have none: 0
} fact_number;

#define FACT(name, member, least, most)                                                            \
    {                                                                                              \
        name, offsetof(kiln_device_info, member), least, most, false                               \
    }

static const fact_number facts_32[] = {
    FACT("vendor_id", vendor_id, 0, UINT32_MAX),
    FACT("compute_units", compute_units, 1, 1 << 20),
    FACT("vector_bytes", vector_bytes, 16, 256),
    FACT("memory_align", memory_align, 1, 1 << 20),
    FACT("cl_version", cl_version, 100, 999),
    FACT("cl_c_version", cl_c_version, 0, 999),
    FACT("subgroup_size", subgroup_size, 0, 1 << 20),
    FACT("cache_line_bytes", cache_line_bytes, 0, 1 << 20),
};

/// The limits of sizes leave room for sums and products of them.
static const fact_number facts_64[] = {
    FACT("work_group", max_work_group, 1, 1 << 30),
    FACT("work_items_x", max_work_items[0], 0, 1 << 30),
    FACT("work_items_y", max_work_items[1], 0, 1 << 30),
    FACT("work_items_z", max_work_items[2], 0, 1 << 30),
    FACT("buffer_bytes", max_alloc_bytes, 1, INT64_MAX / 4),
    FACT("memory_bytes", memory_bytes, 1, INT64_MAX / 4),
    FACT("local_bytes", local_bytes, 1, INT64_MAX / 4),
    FACT("parameter_bytes", max_parameter_bytes, 0, 1 << 30),
    FACT("cache_bytes", cache_bytes, 0, INT64_MAX / 4),
    FACT("bytes_per_s", bytes_per_s, 0, INT64_MAX / 4),
    FACT("launch_ns", launch_ns, 0, INT64_MAX / 4),
    FACT("flops_f32", flops_f32, 0, INT64_MAX / 4),
    FACT("flops_f16", flops_f16, 0, INT64_MAX / 4),
    FACT("flops_f64", flops_f64, 0, INT64_MAX / 4),
    {"subgroup_sizes", offsetof(kiln_device_info, subgroup_sizes), 0, UINT32_MAX, true},
};

static const bundle_feature fact_features[] = {
    {"compiler", "a compiler", KILN_FEATURE_COMPILER, false},
    {"fp16", "f16", KILN_FEATURE_FP16, false},
    {"fp64", "f64", KILN_FEATURE_FP64, false},
    {"single_work_item", "loops in a work-item", KILN_FEATURE_SINGLE_WORK_ITEM, false},
    {"int64_atomics", "atomics of 64 bits", KILN_FEATURE_INT64_ATOMICS, false},
    {"float_atomics", "atomics of floats", KILN_FEATURE_FLOAT_ATOMICS, false},
    {"subgroups", "subgroups", KILN_FEATURE_SUBGROUPS, false},
    {"images", "images", KILN_FEATURE_IMAGES, false},
    {"denormals", "denormal numbers", KILN_FEATURE_DENORMALS, false},
    {"rounded_divide_sqrt", "rounded quotients and roots", KILN_FEATURE_ROUNDED_DIVIDE_SQRT, false},
    {"wgmma", "tensor cores of sm_90a", KILN_FEATURE_WGMMA, true},
};

static const struct {
    const char *name;
    kiln_device_type type;
} fact_types[] = {
    {"cpu", KILN_DEVICE_CPU}, {"gpu", KILN_DEVICE_GPU}, {"accelerator", KILN_DEVICE_ACCELERATOR}};

#define FACTS_OF(table) (sizeof(table) / sizeof((table)[0]))

const bundle_feature *kilni_bundle_features(size_t *out_count)
{
    *out_count = FACTS_OF(fact_features);
    return fact_features;
}

const bundle_feature *kilni_bundle_lacks(const bundle_wants *wants, const kiln_device_info *device)
{
    const uint32_t lacks = wants->features & ~device->features;
    for (size_t i = 0; i < FACTS_OF(fact_features); i++) {
        if ((lacks & fact_features[i].feature) != 0) {
            return &fact_features[i];
        }
    }
    return NULL;
}

// ---- written ----

static void write_text_fact(kiln_string *out, const char *name, const char *value)
{
    kiln_string_printf(out, ",\n  \"%s\": ", name);
    kilni_bundle_json_quote(out, value);
}

static void write_number_facts(kiln_string *out, const kiln_device_info *info)
{
    for (size_t i = 0; i < FACTS_OF(facts_32); i++) {
        uint32_t value = 0;
        memcpy(&value, (const char *)info + facts_32[i].offset, sizeof(value));
        kiln_string_printf(out, ",\n  \"%s\": %u", facts_32[i].name, value);
    }
    for (size_t i = 0; i < FACTS_OF(facts_64); i++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)info + facts_64[i].offset, sizeof(value));
        kiln_string_printf(out, ",\n  \"%s\": %llu", facts_64[i].name, (unsigned long long)value);
    }
}

static void write_facts(kiln_string *out, const kiln_device_info *info)
{
    kiln_string_printf(out, "{\n  \"kiln_facts\": %d", FACTS_VERSION);
    write_text_fact(out, "name", info->name);
    write_text_fact(out, "driver", info->driver);
    write_text_fact(out, "platform", info->platform);
    write_text_fact(out, "extensions", info->extensions);
    for (size_t i = 0; i < FACTS_OF(fact_types); i++) {
        if (fact_types[i].type == info->type) {
            write_text_fact(out, "type", fact_types[i].name);
        }
    }
    for (size_t i = 0; i < FACTS_OF(fact_features); i++) {
        kiln_string_printf(out, ",\n  \"%s\": %s", fact_features[i].name,
                           (info->features & fact_features[i].feature) != 0 ? "true" : "false");
    }
    write_number_facts(out, info);
    kiln_string_printf(out, "\n}\n");
}

kiln_status kiln_bundle_facts(kiln_device *device, char **out_text, kiln_error *err)
{
    if (device == NULL || out_text == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and out_text must not be NULL");
    }
    *out_text = NULL;
    const kiln_device_info *info = kiln_device_info_of(device);
    kiln_string text;
    if (info->cl_version == 0) {
        return kiln_fail(err, UNIMPLEMENTED, "facts are of OpenCL devices; %s is none", info->name);
    }
    kiln_string_init(&text, kiln_context_env(kiln_device_context(device)));
    write_facts(&text, info);
    if (text.failed) {
        kiln_string_fini(&text);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for facts");
    }
    *out_text = text.text;
    return KILN_STATUS_OK;
}

// ---- read ----

static uint64_t read_number(bundle_json_reader *reader, const bundle_json *root,
                            const fact_number *fact)
{
    char text[96];
    if (fact->may_lack && kilni_bundle_json_find(root, fact->name) == NULL) {
        return 0;
    }
    uint64_t value = kilni_bundle_json_number(reader, root, fact->name, fact->most);
    if (value < fact->least) {
        (void)snprintf(text, sizeof(text), "%s is less than %llu", fact->name,
                       (unsigned long long)fact->least);
        kilni_bundle_json_wrong(reader, text);
    }
    return value;
}

static void read_numbers(bundle_json_reader *reader, const bundle_json *root,
                         kiln_device_info *out_facts)
{
    for (size_t i = 0; i < FACTS_OF(facts_32); i++) {
        uint32_t value = (uint32_t)read_number(reader, root, &facts_32[i]);
        memcpy((char *)out_facts + facts_32[i].offset, &value, sizeof(value));
    }
    for (size_t i = 0; i < FACTS_OF(facts_64); i++) {
        uint64_t value = read_number(reader, root, &facts_64[i]);
        memcpy((char *)out_facts + facts_64[i].offset, &value, sizeof(value));
    }
    if ((out_facts->vector_bytes & (out_facts->vector_bytes - 1)) != 0 ||
        (out_facts->memory_align & (out_facts->memory_align - 1)) != 0) {
        kilni_bundle_json_wrong(reader, "vector_bytes or memory_align is no power of two");
    }
}

static void read_kind(bundle_json_reader *reader, const bundle_json *root,
                      kiln_device_info *out_facts)
{
    const char *type = kilni_bundle_json_text(reader, root, "type");
    for (size_t i = 0; i < FACTS_OF(fact_types); i++) {
        out_facts->type =
            strcmp(type, fact_types[i].name) == 0 ? fact_types[i].type : out_facts->type;
    }
    if (out_facts->type == 0) {
        kilni_bundle_json_wrong(reader, "type is none of cpu, gpu and accelerator");
    }
    for (size_t i = 0; i < FACTS_OF(fact_features); i++) {
        if (fact_features[i].may_lack &&
            kilni_bundle_json_find(root, fact_features[i].name) == NULL) {
            continue;
        }
        const bundle_json *has =
            kilni_bundle_json_get(reader, root, fact_features[i].name, BUNDLE_JSON_BOOL);
        out_facts->features |= has != NULL && has->number != 0 ? fact_features[i].feature : 0;
    }
}

static kiln_status read_facts(const bundle_json *root, const char *path,
                              kiln_device_info *out_facts, kiln_error *err)
{
    bundle_json_reader reader = {0};
    uint64_t version = kilni_bundle_json_number(&reader, root, "kiln_facts", INT64_MAX);
    if (reader.wrong[0] == '\0' && version != FACTS_VERSION) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "%.150s has facts of version %llu, this library reads version %d: write "
                         "them again with kiln bundle facts",
                         path, (unsigned long long)version, FACTS_VERSION);
    }
    out_facts->name = kilni_bundle_json_text(&reader, root, "name");
    out_facts->driver = kilni_bundle_json_text(&reader, root, "driver");
    out_facts->platform = kilni_bundle_json_text(&reader, root, "platform");
    out_facts->extensions = kilni_bundle_json_text(&reader, root, "extensions");
    out_facts->vendor = "";
    read_kind(&reader, root, out_facts);
    read_numbers(&reader, root, out_facts);
    return kilni_bundle_json_done(&reader, path, err);
}

kiln_status kiln_bundle_facts_read(const kiln_env *env, const char *path, kiln_arena *arena,
                                   kiln_device_info *out_facts, kiln_error *err)
{
    const bundle_json *root = NULL;
    kiln_blob text = {0};
    if (env == NULL || path == NULL || arena == NULL || out_facts == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "path, arena and out_facts must not be NULL");
    }
    kiln_status status = kilni_bundle_read(env, path, &text, err);
    memset(out_facts, 0, sizeof(*out_facts));
    if (status == KILN_STATUS_OK) {
        status = kilni_bundle_json_read(arena, text.data, text.length, &root, err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "%.150s", path);
        }
    }
    kiln_free(env, text.data);
    return status == KILN_STATUS_OK ? read_facts(root, path, out_facts, err) : status;
}
