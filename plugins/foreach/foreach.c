// SPDX-License-Identifier: MIT OR Apache-2.0
// The foreach fuser as a plugin ("multi-tensor apply", horizontal fusion): the same elementwise
// chain over many tensors, as an optimiser's step has it, becomes one launch for as many of them as
// fit. It knows nothing of optimisers. Here are the ABI's objects and nothing else.
#include "foreach_internal.h"

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
    kf_chain_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    fe_block block;
    fe_split split; ///< scratch
    kf_estimate estimate;
};

struct kf_opt {
    fe_program *program;
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    kf_chain_device_init(&fuser->device, device);
    if (device->max_param_bytes >= FE_LARGE_BYTES) {
        uint64_t named = device->max_param_bytes;
        fuser->device.max_param_bytes = named < FE_PARAM_BYTES ? (uint32_t)named : FE_PARAM_BYTES;
    }
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    fe_block_init(&builder->block);
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    fe_block_copy(&to->block, &from->block);
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    (void)values;
    fe_block_push(&builder->block, &builder->split, &builder->fuser->device, builder->fuser->host,
                  op);
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->block.closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return builder->block.good_len > 0;
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    const fe_block *block = &builder->block;
    (void)fe_split_make(&builder->split, block, block->good_ops, block->good_len,
                        &builder->fuser->device);
    fe_estimate_make(&builder->estimate, &builder->split, block, &builder->fuser->device);
    kf_estimate_answer(&builder->estimate, block->good_len, /*launches=*/1, state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->program = fe_program_create(&builder->block, &builder->fuser->device);
    return opt->program != NULL ? KF_OK : KF_E_NOMEM;
}

static void opt_fini(kf_opt *opt)
{
    fe_program_destroy(opt->program);
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    fe_program_info(opt->program, out);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    fe_program_describe(opt->program, out);
}

#define KF_PLUGIN_ID "org.kiln.foreach"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS KF_STR_INIT("foreach")
#include "kf_plugin.h"
