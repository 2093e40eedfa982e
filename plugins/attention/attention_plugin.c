// SPDX-License-Identifier: MIT OR Apache-2.0
// Attention as a plugin: one fuser, which has no choice to make. Here are the ABI's
// objects and nothing else.
#include "attention_internal.h"

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
    kf_chain_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    at_block block;
    at_plan plan; // of the last answer
    kf_estimate estimate;
};

struct kf_opt {
    at_program *program;
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    kf_chain_device_init(&fuser->device, device);
    if (!fuser->device.block_shape && fuser->device.max_group < AT_GROUP_ITEMS) {
        kf_decline(fuser->host, KF_CODE_DEVICE, KF_NONE,
                   "the device has no work-groups of %u work-items", (unsigned)AT_GROUP_ITEMS);
        return KF_DECLINED;
    }
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    at_block_init(&builder->block);
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    at_block_copy(&to->block, &from->block);
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    at_block_push(&builder->block, &builder->fuser->device, builder->fuser->host, values, op);
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->block.closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return at_block_is_ready(&builder->block);
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    at_plan_make(&builder->plan, &builder->block, &builder->fuser->device);
    at_estimate_make(&builder->estimate, &builder->plan);
    kf_estimate_answer(&builder->estimate, builder->block.len, at_launches(&builder->block), state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->program = at_program_create(&builder->block, &builder->fuser->device);
    return opt->program != NULL ? KF_OK : KF_E_NOMEM;
}

static void opt_fini(kf_opt *opt)
{
    at_program_destroy(opt->program);
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    at_program_info(opt->program, out);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    at_program_describe(opt->program, out);
}

#define KF_PLUGIN_ID "org.kiln.attention"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS KF_STR_INIT("attention")
#include "kf_plugin.h"
