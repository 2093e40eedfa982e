// SPDX-License-Identifier: MIT OR Apache-2.0
// The plugin around block.c and kernels.c. Nothing here depends on time, addresses or earlier
// blocks, so that clone, reset and replay are exact.
#include "attention.h"

struct kf_fuser { // one per device: read-only after its creation
    const kf_host *host;
    uint32_t index;
    fuser_facts facts;
};

struct kf_builder {
    const kf_fuser *fuser;
    estimate estimate; // what the last answer's formulas point into
    block block;
};

struct kf_opt { // a finished block: immutable
    plan plan;
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    fuser->facts.items =
        (ATTENTION_FORM != 0 ? ATTENTION_FORM : device->code_shape) == KF_SHAPE_NDRANGE;
    fuser->facts.local_bytes = device->local_bytes;
    if (fuser->facts.items && device->max_group_size < GROUP) {
        kf_decline(fuser->host, KF_CODE_DEVICE, KF_NONE, "work-groups of %d are too large", GROUP);
        return KF_DECLINED;
    }
    fuser->facts.host = fuser->host;
    kf_chain_device_init(&fuser->facts.device, device);
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    block_init(&builder->block);
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    block_copy(&to->block, &from->block);
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    block_push(&builder->block, &builder->fuser->facts, values, op);
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->block.closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return block_is_ready(&builder->block);
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    make_estimate(&builder->estimate, &builder->block, &builder->fuser->facts);
    kf_estimate_answer(&builder->estimate.parts, builder->block.len, /*launches=*/2, state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    if (!make_plan(&opt->plan, &builder->block, &builder->fuser->facts)) {
        free_plan(&opt->plan);
        return KF_E_NOMEM;
    }
    return KF_OK;
}

static void opt_fini(kf_opt *opt)
{
    free_plan(&opt->plan);
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info_fill(out, opt->plan.len, &opt->plan.name, (const uint8_t *)opt->plan.key,
                     sizeof(opt->plan.key));
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    kf_program program;
    memset(&program, 0, sizeof(program));
    program.struct_size = (uint32_t)sizeof(program);
    program.flags = KF_PROGRAM_DETERMINISTIC;
    program.sources = opt->plan.sources;
    program.n_sources = 1;
    program.launches = opt->plan.launch_list;
    program.n_launches = 2;
    program.temps = opt->plan.temps;
    program.n_temps = 3;
    program.steps = opt->plan.steps;
    program.n_steps = 2;
    KF_OUT(out, &program);
}

#define KF_PLUGIN_ID "org.example.attention"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Example"
#define KF_PLUGIN_FUSERS KF_STR_INIT("attention")
#include <kiln/kf_plugin.h>
