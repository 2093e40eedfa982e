// SPDX-License-Identifier: MIT OR Apache-2.0
// The last step of loading a plugin: each of its fusers is made for an invented device, shown two
// operations, and what it then says and emits is verified like anything else of it. A fuser that
// declines is well. This finds the broken plugin before a program depends on it; it does not find
// the wrong one: that is `kiln plugin check`. A registry is made here, since it needs the test.
#include <string.h>

#include "blocks.h"
#include "plugin_load.h"

static const kiln_device_info invented = {
    .name = "invented",
    .vendor = "",
    .platform = "",
    .driver = "",
    .extensions = "",
    .type = KILN_DEVICE_CPU,
    .features = KILN_FEATURE_COMPILER | KILN_FEATURE_PROGRAMS,
    .compute_units = 4,
    .vector_bytes = 32,
    .memory_align = 128,
    .cl_version = 120,
    .memory_bytes = 1u << 30,
    .max_alloc_bytes = 1u << 28,
    .local_bytes = 32768,
    .max_work_group = 1024,
    .bytes_per_s = 10000000000u,
    .flops_f32 = 100000000000u,
    .launch_ns = 5000,
};

/// relu(a + b) over 64 elements, its intermediate dropped.
static kiln_status record_sample(kilni_fuse_recorded *recorded, kiln_error *err)
{
    kiln_tensor_desc t[4];
    for (uint32_t i = 0; i < 4; i++) {
        t[i] = (kiln_tensor_desc){.id = i + 1,
                                  .dtype = KILN_DTYPE_F32,
                                  .rank = 1,
                                  .flags = KILN_TENSOR_PLACED | KILN_TENSOR_CONTIGUOUS,
                                  .align_log2 = 7,
                                  .dims = {64}};
    }
    const kiln_op_record ops[] = {
        {.op = KILN_OP_ADD, .n_inputs = 2, .n_outputs = 1, .inputs = &t[0], .outputs = &t[2]},
        {.op = KILN_OP_RELU, .n_inputs = 1, .n_outputs = 1, .inputs = &t[2], .outputs = &t[3]},
        {.op = KILN_OP_DROP, .n_inputs = 1, .inputs = &t[2]},
    };
    void *tokens[3] = {NULL, NULL, NULL};
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) && status == KILN_STATUS_OK; i++) {
        status = kilni_fuse_recorded_push(recorded, &ops[i], tokens, NULL, err);
    }
    return status;
}

/// Every fuser that wants the device takes part in a search of the sample.
static kiln_status search_sample(kiln_fuse_engine *engine, kilni_fuse_recorded *recorded,
                                 kiln_error *err)
{
    kilni_fuse_position position;
    kilni_fuse_blocks blocks = {0};
    kiln_arena arena;
    kilni_fuse_position_init(&position);
    kiln_arena_init(&arena, engine->env);
    kiln_status status = kilni_fuse_search(engine, recorded, recorded->n_ops, KILNI_FUSE_COVER_ALL,
                                           &position, &arena, &blocks, err);
    for (uint32_t i = 0; i < engine->n_fusers && status == KILN_STATUS_OK; i++) {
        if (position.started && position.trials[i].broken) {
            status = kiln_fail(err, FAILED_PRECONDITION, "smoke test of fuser %s: %s",
                               engine->fusers[i].id, position.trials[i].diag.text);
        }
    }
    kilni_fuse_position_fini(&position, engine);
    kiln_arena_fini(&arena);
    kilni_fuse_blocks_fini(&blocks, engine->env);
    return status;
}

/// `plugin` as the only one of a registry.
static kiln_status smoke_test(const kiln_env *env, kilni_fuse_plugin *plugin, kiln_error *err)
{
    kilni_fuse_plugin *plugins[1] = {plugin};
    kiln_fuse_registry registry = {.env = env,
                                   .plugins = plugins,
                                   .n_plugins = 1,
                                   .complete = true}; // others may be named, too
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    kiln_fuse_engine *engine = NULL;
    kiln_fuse_plugin_state state = plugin->info.state;
    plugin->info.state = KILN_FUSE_TAKEN;
    kilni_fuse_recorded recorded;
    kilni_fuse_recorded_init(&recorded, env, invented.memory_align);
    kiln_status status = kiln_fuse_engine_create(&registry, &invented, &options, &engine, err);
    KILN_TRY(out, status, status);
    KILN_TRY(out, status, record_sample(&recorded, err));
    KILN_TRY(out, status, search_sample(engine, &recorded, err));
out:
    kiln_fuse_engine_destroy(engine);
    kilni_fuse_recorded_fini(&recorded);
    plugin->info.state = state;
    return status;
}

kiln_status kiln_fuse_registry_create(const kiln_env *env,
                                      const kiln_fuse_registry_options *options,
                                      kiln_fuse_registry **out_registry, kiln_error *err)
{
    return kilni_fuse_registry_open(env, options, smoke_test, out_registry, err);
}
