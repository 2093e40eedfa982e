// SPDX-License-Identifier: MIT OR Apache-2.0
// The matrix product as a plugin: five fusers, which differ in how a product is cut into work. They
// compete for the same blocks: plain tiles, the sum in parts for few tiles and long sums, one for
// small products, and on GPUs two for few rows. Here are the ABI's objects and nothing else.
#include "matmul_internal.h"

static const mm_fuser fusers[] = {{"matmul", 0, 0, 0, NULL},
                                  {"matmul_parts", 1, 0, 0, NULL},
                                  {"matmul_small", 0, 1, 0, NULL},
                                  {"matmul_few", 0, 0, 1, NULL},
                                  {"matmul_few_parts", 1, 0, 1, NULL}};

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
    kf_chain_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    mm_block block;
    mm_plan plan; // of the last answer
    kf_estimate estimate;
};

struct kf_opt {
    mm_program *program;
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    uint32_t few = fusers[fuser->index].few;
    if (device->code_shape != KF_SHAPE_BLOCK &&
        (device->max_group_size < 256 || device->local_bytes < (few ? 32768u : 17408u))) {
        kf_decline(fuser->host, KF_CODE_DEVICE, KF_NONE, "it needs 256 work-items and %u KiB",
                   few ? 32 : 17);
        return KF_DECLINED;
    }
    if (device->code_shape == KF_SHAPE_BLOCK && few) {
        kf_decline(fuser->host, KF_CODE_DEVICE, KF_NONE, "few rows are matmul's and matmul_parts'");
        return KF_DECLINED;
    }
    kf_chain_device_init(&fuser->device, device);
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    mm_block_init(&builder->block);
    builder->block.floats_only = builder->fuser->index != 0;
    // Of several products the packed form has all tiles of a place; the first fuser always takes
    // that form where the left operand has rows.
    builder->block.several = builder->fuser->index == 0 && builder->fuser->device.block_shape;
    builder->block.together = builder->block.several;
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    mm_block_copy(&to->block, &from->block);
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    (void)values; // no value is ever needed: the kernels take sizes and scalars as arguments
    mm_block_push(&builder->block, &builder->fuser->device, builder->fuser->host, op);
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->block.closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return mm_block_is_ready(&builder->block);
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    mm_plan_make(&builder->plan, &builder->block, &builder->fuser->device,
                 &fusers[builder->fuser->index]);
    uint32_t launches = mm_estimate_make(&builder->estimate, &builder->plan);
    kf_estimate_answer(&builder->estimate, builder->block.len, launches, state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->program =
        mm_program_create(&builder->block, &builder->fuser->device, &fusers[builder->fuser->index]);
    return opt->program != NULL ? KF_OK : KF_E_NOMEM;
}

static void opt_fini(kf_opt *opt)
{
    mm_program_destroy(opt->program);
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    mm_program_info(opt->program, out);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    mm_program_describe(opt->program, out);
}

#define KF_PLUGIN_ID "org.kiln.matmul"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS                                                                           \
    KF_STR_INIT("matmul"), KF_STR_INIT("matmul_parts"), KF_STR_INIT("matmul_small"),               \
        KF_STR_INIT("matmul_few"), KF_STR_INIT("matmul_few_parts")
#include "kf_plugin.h"
