// SPDX-License-Identifier: MIT OR Apache-2.0
// Plans on disk: the second engine starts with those of the first, a change of anything that a plan
// depends on is a miss, and so is every damaged byte.
#include <stdio.h>
#include <string.h>

#include "fuse_fixture.h"

static const char *const one[] = {"chain", NULL};

/* A program of two chains with a product between; `length` and `offset` change its facts. */
static kiln_tensor_desc program(fuse_fixture *f, int64_t length, bool dense, uint8_t align)
{
    kiln_tensor_desc a = fixture_vector(f, length);
    if (!dense) {
        a.flags = KILN_TENSOR_PLACED;
    }
    a.align_log2 = align;
    kiln_tensor_desc b = fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 2.5);
    kiln_tensor_desc c = fixture_op(f, KILN_OP_EXP, &b, NULL);
    fixture_drop(f, &b);
    kiln_tensor_desc d = fixture_op(f, KILN_OP_ADD, &c, &a);
    fixture_drop(f, &c);
    return d;
}

typedef struct change { ///< what is different from the first process
    const char *name;
    const char *driver;
    const char *device;
    uint64_t fingerprint;
    uint32_t compute_units;
    uint32_t memory_align;
    void (*device_fact)(kiln_device_info *device); ///< another one
    uint32_t max_segment;
    char plugin_hash;
    const char *plugin_version;
    const char *plugin;
    bool deterministic;
    bool fuse_slower;
    int64_t length;
    bool strided;
    uint8_t align;
    bool fuser_out;
} change;

static void apply(fuse_fixture *f, const change *c)
{
    f->device.driver = c->driver != NULL ? c->driver : f->device.driver;
    f->device.name = c->device != NULL ? c->device : f->device.name;
    f->device.fingerprint.low += c->fingerprint;
    f->device.compute_units += c->compute_units;
    f->device.memory_align = c->memory_align != 0 ? c->memory_align : f->device.memory_align;
    if (c->device_fact != NULL) {
        c->device_fact(&f->device);
    }
    if (c->plugin_version != NULL) {
        kiln_free(&f->env, (void *)(uintptr_t)f->registry->plugins[0]->info.version);
        f->registry->plugins[0]->info.version = kiln_strdup(&f->env, c->plugin_version);
    }
    if (c->fuser_out) {
        atomic_store(&f->registry->plugins[0]->strikes[0], KILNI_FUSE_STRIKES_MAX);
    }
    if (c->plugin_hash != 0) {
        f->registry->plugins[0]->info.hash[0] = c->plugin_hash;
    }
}

/* Runs the program once with the changes; gives what the engine counted. */
static kiln_fuse_stats process(const char *folder, const change *c, char *steps, size_t capacity)
{
    fuse_fixture f;
    kiln_fuse_stats stats = {0};
    kiln_store *store = NULL;
    kiln_fuse_engine *engine = NULL;
    kiln_fuse_stream *stream = NULL;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    const char *const other[] = {c->plugin, NULL};
    if (!fixture_open(&f, c->plugin != NULL ? other : one)) {
        return stats;
    }
    KILN_CHECK_INT(kiln_config_create(&f.env.allocator, NULL, false, &f.env.config, NULL), 0);
    KILN_CHECK_INT(kiln_config_set(f.env.config, "deterministic", c->deterministic ? "1" : "0",
                                   KILN_ORIGIN_FLAG, NULL),
                   0);
    KILN_CHECK_INT(kiln_config_set(f.env.config, "fuse-slower", c->fuse_slower ? "1" : "0",
                                   KILN_ORIGIN_FLAG, NULL),
                   0);
    apply(&f, c);
    KILN_CHECK_INT(kiln_store_open(&f.env, folder, &store, NULL), KILN_STATUS_OK);
    options.store = store;
    options.max_segment = c->max_segment;
    KILN_CHECK_INT(kiln_fuse_engine_create(f.registry, &f.device, &options, &engine, NULL), 0);
    KILN_CHECK_INT(kiln_fuse_stream_create(engine, false, &stream, NULL), 0);
    kiln_fuse_stream *own = f.stream;
    f.stream = stream;
    (void)program(&f, c->length != 0 ? c->length : 1000, !c->strided, c->align != 0 ? c->align : 7);
    snprintf(steps, capacity, "%s", fixture_run(&f, true));
    kiln_fuse_engine_stats(engine, &stats);
    f.stream = own;
    kiln_fuse_stream_destroy(stream);
    kiln_fuse_engine_destroy(engine);
    kiln_store_close(store);
    kiln_config_destroy(f.env.config);
    f.env.config = NULL;
    fixture_close(&f);
    return stats;
}

static void test_second_process_searches_nothing(void)
{
    char first[256], second[256];
    const change none = {0};
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "plans");
    kiln_fuse_stats a = process(folder, &none, first, sizeof(first));
    kiln_fuse_stats b = process(folder, &none, second, sizeof(second));
    KILN_CHECK_INT(a.plans_searched, 1);
    KILN_CHECK_INT(a.plans_loaded, 0);
    KILN_CHECK_INT(b.plans_searched, 0);
    KILN_CHECK_INT(b.plans_loaded, 1);
    KILN_CHECK_INT(b.ops_fused, 3);
    KILN_CHECK_STR(second, first);
    const change longer = {.length = 1001};
    b = process(folder, &longer, second, sizeof(second));
    KILN_CHECK_INT(b.plans_loaded, 0); // divisible by nothing: another program
    const change alike = {.length = 1004}; // another size of the same class
    b = process(folder, &alike, second, sizeof(second));
    KILN_CHECK_INT(b.plans_loaded, 1);
}

static void other_speeds(kiln_device_info *device)
{
    device->bytes_per_s *= 5;
    device->flops_f32 /= 7;
    device->launch_ns *= 300;
}

/* Speeds that were measured meanwhile do not change what was planned: only tournaments do. */
static void test_a_later_process_makes_the_same_plan(void)
{
    char first[256], later[256];
    const change none = {0}, measured = {.device_fact = other_speeds};
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "plans");
    (void)process(folder, &none, first, sizeof(first));
    for (int i = 0; i < 2; i++) {
        kiln_fuse_stats stats = process(folder, &measured, later, sizeof(later));
        KILN_CHECK_INT(stats.plans_searched, 0);
        KILN_CHECK_INT(stats.plans_loaded, 1);
        KILN_CHECK_STR(later, first);
    }
}

static void other_c_version(kiln_device_info *device)
{
    device->cl_c_version = 200;
}

static void other_items(kiln_device_info *device)
{
    device->max_work_items[2] = 64;
}

static void other_subgroup(kiln_device_info *device)
{
    device->subgroup_size = 32;
}

static void other_subgroups(kiln_device_info *device)
{
    device->subgroup_sizes = 1 << 4;
}

static void other_cache_line(kiln_device_info *device)
{
    device->cache_line_bytes = 128;
}

static void other_accelerated(kiln_device_info *device)
{
    device->accelerated_dtypes = 1ull << KILN_DTYPE_F16;
}

static void other_type(kiln_device_info *device)
{
    device->type = device->type == KILN_DEVICE_CPU ? KILN_DEVICE_ACCELERATOR : KILN_DEVICE_CPU;
}

static void other_platform(kiln_device_info *device)
{
    device->platform = "another";
}

static void other_extensions(kiln_device_info *device)
{
    device->extensions = "cl_khr_none";
}

static void other_features(kiln_device_info *device)
{
    device->features ^= KILN_FEATURE_FP64;
}

static void other_vectors(kiln_device_info *device)
{
    device->vector_bytes += 16;
}

static void other_local_memory(kiln_device_info *device)
{
    device->local_bytes += 1024;
}

static void other_cache(kiln_device_info *device)
{
    device->cache_bytes += 1024;
}

static void other_work_group(kiln_device_info *device)
{
    device->max_work_group += 1;
}

static void other_parameters(kiln_device_info *device)
{
    device->max_parameter_bytes = 4352;
}

static void other_allocation(kiln_device_info *device)
{
    device->max_alloc_bytes += 4096;
}

static const change changes[] = {
    {.name = "device_type", .device_fact = other_type},
    {.name = "platform", .device_fact = other_platform},
    {.name = "cl_c_version", .device_fact = other_c_version},
    {.name = "work_items", .device_fact = other_items},
    {.name = "subgroup", .device_fact = other_subgroup},
    {.name = "subgroup_sizes", .device_fact = other_subgroups},
    {.name = "cache_line", .device_fact = other_cache_line},
    {.name = "accelerated", .device_fact = other_accelerated},
    {.name = "extensions", .device_fact = other_extensions},
    {.name = "features", .device_fact = other_features},
    {.name = "vector_bytes", .device_fact = other_vectors},
    {.name = "local_memory", .device_fact = other_local_memory},
    {.name = "cache", .device_fact = other_cache},
    {.name = "work_group", .device_fact = other_work_group},
    {.name = "parameters", .device_fact = other_parameters},
    {.name = "allocation", .device_fact = other_allocation},
    {.name = "plugin_version", .plugin_version = "99.0"},
    {.name = "driver", .driver = "2.0"},
    {.name = "device", .device = "another"},
    {.name = "fingerprint", .fingerprint = 1},
    {.name = "compute_units", .compute_units = 1},
    {.name = "alignment_of_buffers", .memory_align = 32},
    {.name = "plugin_hash", .plugin_hash = 'z'},
    {.name = "set_of_plugins", .plugin = "chain_slow"},
    {.name = "max_segment", .max_segment = 100},
    {.name = "deterministic", .deterministic = true},
    {.name = "fuse_slower", .fuse_slower = true},
    {.name = "class_of_sizes", .length = 3000},
    {.name = "strides", .strided = true},
    {.name = "alignment", .align = 2},
    {.name = "fuser_out", .fuser_out = true},
};

static void test_each_part_of_the_key(void)
{
    char first[256], second[256];
    const change none = {0};
    const char *folder = kiln_test_path(kiln_test_tmpdir(), "keys");
    (void)process(folder, &none, first, sizeof(first));
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        kiln_fuse_stats stats = process(folder, &changes[i], second, sizeof(second));
        if (stats.plans_loaded != 0 || stats.plans_searched != 1) {
            KILN_FAIL("%s: %u plans loaded, %u searched", changes[i].name,
                      (unsigned)stats.plans_loaded, (unsigned)stats.plans_searched);
        }
    }
    kiln_fuse_stats again = process(folder, &none, second, sizeof(second));
    KILN_CHECK_INT(again.plans_loaded, 1); // the first entry is still there
    KILN_CHECK_INT(again.ops_fused, 3);
}

/* Another set of operators cannot be had in one process: the key's input is changed instead. */
static void test_operators_are_in_the_key(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_hash128 before = f.engine->disk_key;
        KILN_CHECK(kilni_fuse_disk_init(f.engine));
        KILN_CHECK(f.engine->disk_key.low == before.low && f.engine->disk_key.high == before.high);
        f.engine->disk_opset++;
        KILN_CHECK(kilni_fuse_disk_init(f.engine));
        KILN_CHECK(f.engine->disk_key.low != before.low);
    }
    fixture_close(&f);
}

static bool decodes(fuse_fixture *f, const kilni_fuse_recorded *recorded, const void *bytes,
                    size_t length)
{
    kilni_fuse_blocks blocks = {0};
    kiln_arena arena;
    kiln_arena_init(&arena, &f->env);
    bool found = kilni_fuse_disk_decode(f->engine, recorded, recorded->n_ops, bytes, length, &arena,
                                        &blocks);
    kilni_fuse_blocks_fini(&blocks, &f->env);
    kiln_arena_fini(&arena);
    return found;
}

/* Writes a sum that is right for what the entry says now. */
static void close_entry(kiln_string *entry)
{
    kiln_hash128 sum = kiln_hash_bytes(entry->text + 24, entry->length - 24);
    memcpy(entry->text + 8, &sum, sizeof(sum));
}

/* Arguments that are scalars, made to say that they write memory: how many were found, and how many
 * of these entries were believed. */
static uint32_t scalars_that_write(fuse_fixture *f, const kilni_fuse_recorded *recorded,
                                   kiln_string *entry, uint32_t *out_believed)
{
    uint32_t found = 0;
    for (size_t at = 24; at + 56 <= entry->length; at++) {
        const uint64_t scalar[] = {KILN_ARG_SCALAR, 0, 0, 0, 0, KILN_DTYPE_F32, 0};
        if (memcmp(entry->text + at, scalar, sizeof(scalar)) != 0) {
            continue;
        }
        const uint64_t write = KILN_ACCESS_WRITE;
        memcpy(entry->text + at + sizeof(write), &write, sizeof(write));
        close_entry(entry);
        found++;
        *out_believed += decodes(f, recorded, entry->text, entry->length);
        memcpy(entry->text + at, scalar, sizeof(scalar));
    }
    close_entry(entry);
    return found;
}

static void test_damage_is_a_miss(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kilni_fuse_blocks blocks = {0};
        kiln_arena arena;
        kiln_string entry;
        kiln_arena_init(&arena, &f.env);
        (void)program(&f, 1000, true, 7);
        const kilni_fuse_recorded *recorded = &f.stream->recorded[f.stream->active];
        KILN_CHECK_INT(kilni_fuse_search(f.engine, recorded, recorded->n_ops, KILNI_FUSE_COVER_ALL,
                                         &f.stream->first, &arena, &blocks, NULL),
                       KILN_STATUS_OK);
        KILN_CHECK_INT(blocks.n_blocks, 1);
        KILN_CHECK(kilni_fuse_disk_encode(f.engine, recorded, recorded->n_ops, &blocks, &entry));
        KILN_CHECK(decodes(&f, recorded, entry.text, entry.length));
        uint32_t accepted = 0;
        for (size_t i = 0; i < entry.length; i++) {
            for (int bit = 0; bit < 8; bit++) {
                entry.text[i] = (char)(entry.text[i] ^ (1 << bit));
                accepted += decodes(&f, recorded, entry.text, entry.length);
                entry.text[i] = (char)(entry.text[i] ^ (1 << bit));
            }
        }
        for (size_t length = 0; length < entry.length; length++) {
            accepted += decodes(&f, recorded, entry.text, length);
        }
        KILN_CHECK_INT(accepted, 0);
        // With a right sum too, what is inside is not believed.
        uint32_t sound = 0;
        for (size_t i = 24; i < entry.length; i++) {
            entry.text[i] = (char)(entry.text[i] ^ 0x55);
            close_entry(&entry);
            sound += decodes(&f, recorded, entry.text, entry.length);
            entry.text[i] = (char)(entry.text[i] ^ 0x55);
        }
        KILN_CHECK(sound < entry.length / 2); // names, scores and source text may be anything
        uint32_t believed = 0;
        KILN_CHECK(scalars_that_write(&f, recorded, &entry, &believed) > 0);
        KILN_CHECK_INT(believed, 0);
        kiln_string_fini(&entry);
        kilni_fuse_blocks_fini(&blocks, &f.env);
        kiln_arena_fini(&arena);
    }
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/fusion_host/plan_disk", KILN_TEST(test_second_process_searches_nothing),
               KILN_TEST(test_a_later_process_makes_the_same_plan),
               KILN_TEST(test_each_part_of_the_key), KILN_TEST(test_operators_are_in_the_key),
               KILN_TEST(test_damage_is_a_miss))
