// SPDX-License-Identifier: MIT OR Apache-2.0
// The elementwise fuser as a plugin: any chain of elementwise operators over one shape becomes one
// kernel; what the chain drops again is never written. Here are the ABI's objects and nothing else:
// which operations join is in elementwise_block.c, the kernel in elementwise_layout.c and
// elementwise_emit.c, the program in elementwise_program.c.
#include "elementwise_internal.h"

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
    kf_chain_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    ew_block block;
    kf_estimate estimate;
};

struct kf_opt {
    ew_program *program;
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    kf_chain_device_init(&fuser->device, device);
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    ew_block_init(&builder->block);
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    ew_block_copy(&to->block, &from->block);
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    ew_block_push(&builder->block, &builder->fuser->device, builder->fuser->host, values, op);
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->block.closed;
}

/// Ready as soon as something would be written. A block without results (all dropped) has nothing
/// to do; what is gathered and kept is better moved as it is, by the operator's own kernel.
static uint32_t builder_is_ready(const kf_builder *builder)
{
    const ew_block *block = &builder->block;
    for (uint32_t i = 0; i < block->n_gathers; i++) {
        if (kf_chain_is_output(&block->chain.values[block->gathers[i].result])) {
            return 0;
        }
    }
    for (uint32_t i = block->chain.n_values; i > 0; i--) {
        if (kf_chain_is_output(&block->chain.values[i - 1])) {
            return 1;
        }
    }
    return 0;
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    ew_estimate_make(&builder->estimate, &builder->block, &builder->fuser->device);
    kf_estimate_answer(&builder->estimate, builder->block.len, /*launches=*/1, state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->program = ew_program_create(&builder->block, &builder->fuser->device);
    return opt->program != NULL ? KF_OK : KF_E_NOMEM;
}

static void opt_fini(kf_opt *opt)
{
    ew_program_destroy(opt->program);
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    ew_program_info(opt->program, out);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    ew_program_describe(opt->program, out);
}

#define KF_PLUGIN_ID "org.kiln.elementwise"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS KF_STR_INIT("elementwise")
#include "kf_plugin.h"
