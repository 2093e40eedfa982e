// SPDX-License-Identifier: MIT OR Apache-2.0
// The elementwise fuser as a plugin: any chain of elementwise operators over one shape becomes one
// kernel; what the chain drops again is never written. Here are the ABI's objects and nothing else:
// which operations join is in elementwise_block.c, the kernel in elementwise_layout.c and
// elementwise_emit.c, the program in elementwise_program.c.
#include "elementwise_internal.h"

#define PLUGIN_ID "org.kiln.elementwise"
#define PLUGIN_VERSION "1.0.0"

KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, 0, KF_OPSET_MAX, 0, 0);

struct kf_fuser {
    const kf_host *host;
    kf_chain_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    ew_block block;
    ew_estimate estimate;
};

struct kf_opt {
    ew_program *program;
};

// ---- fuser -------------------------------------------------------------------------------------

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    kf_fuser *fuser;
    *out = NULL;
    if (index != 0) {
        return KF_E_INVALID;
    }
    if ((device->features & KF_FEATURE_COMPILER) == 0) {
        kf_decline(host, KF_CODE_DEVICE, KF_NONE, "the device has no compiler");
        return KF_DECLINED;
    }
    fuser = (kf_fuser *)calloc(1, sizeof(*fuser));
    if (fuser == NULL) {
        return KF_E_NOMEM;
    }
    fuser->host = host;
    kf_chain_device_init(&fuser->device, device);
    *out = fuser;
    return KF_OK;
}

static void fuser_destroy(kf_fuser *fuser)
{
    free(fuser);
}

// ---- builder -----------------------------------------------------------------------------------

static kf_status builder_create(const kf_fuser *fuser, kf_builder **out)
{
    kf_builder *builder = (kf_builder *)malloc(sizeof(*builder));
    *out = builder;
    if (builder == NULL) {
        return KF_E_NOMEM;
    }
    builder->fuser = fuser;
    ew_block_init(&builder->block);
    return KF_OK;
}

static kf_status builder_clone(const kf_builder *builder, kf_builder **out)
{
    kf_status status = builder_create(builder->fuser, out);
    if (status == KF_OK) {
        ew_block_copy(&(*out)->block, &builder->block);
    }
    return status;
}

/// Ready as soon as something would be written. A block without results (all dropped) has nothing
/// to do.
static uint32_t is_ready(const ew_block *block)
{
    for (uint32_t i = block->chain.n_values; i > 0; i--) {
        if (kf_chain_is_output(&block->chain.values[i - 1])) {
            return 1;
        }
    }
    return 0;
}

static void answer(kf_builder *builder, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = builder->block.closed ? KF_CLOSED : KF_OPEN;
    state.ready = is_ready(&builder->block);
    if (state.ready) {
        ew_estimate_make(&builder->estimate, &builder->block, &builder->fuser->device);
        state.len = builder->block.len;
        state.confidence = KF_CONFIDENCE_MODEL;
        state.launches = 1;
        state.est_ns = kf_formula_expr(&builder->estimate.ns);
        state.est_bytes_read = kf_formula_expr(&builder->estimate.read);
        state.est_bytes_written = kf_formula_expr(&builder->estimate.written);
        state.est_flops = kf_formula_expr(&builder->estimate.flops);
    }
    KF_OUT(out, &state);
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    for (uint64_t i = 0; i < n; i++) {
        ew_block_push(&builder->block, &builder->fuser->device, builder->fuser->host, block,
                      ops[i]);
    }
    answer(builder, out);
    return KF_OK;
}

static kf_status builder_state(const kf_builder *builder, kf_state *out)
{
    // Calls on one builder never overlap, so its storage for estimates may be refreshed here.
    answer((kf_builder *)(uintptr_t)builder, out);
    return KF_OK;
}

static kf_status builder_reset(kf_builder *builder)
{
    ew_block_init(&builder->block);
    return KF_OK;
}

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    kf_opt *opt;
    *out = NULL;
    if (!is_ready(&builder->block)) {
        return KF_E_INVALID;
    }
    opt = (kf_opt *)calloc(1, sizeof(*opt));
    if (opt == NULL) {
        return KF_E_NOMEM;
    }
    opt->program = ew_program_create(&builder->block, &builder->fuser->device);
    if (opt->program == NULL) {
        free(opt);
        return KF_E_NOMEM;
    }
    *out = opt;
    return KF_OK;
}

static void builder_destroy(kf_builder *builder)
{
    free(builder);
}

// ---- optimization ------------------------------------------------------------------------------

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    ew_program_info(opt->program, out);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    if (variant != 0) {
        return KF_E_INVALID;
    }
    ew_program_describe(opt->program, out);
    return KF_OK;
}

static void opt_destroy(kf_opt *opt)
{
    if (opt != NULL) {
        ew_program_destroy(opt->program);
        free(opt);
    }
}

// ---- plugin ------------------------------------------------------------------------------------

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

static const kf_str fuser_ids[] = {KF_STR_INIT("elementwise")};

static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT(PLUGIN_ID),
    .version = KF_STR_INIT(PLUGIN_VERSION),
    .vendor = KF_STR_INIT("Kiln"),
    .fuser_ids = fuser_ids,
    .n_fusers = 1,
    .init = init,
    .deinit = deinit,
    .fuser_create = fuser_create,
    .fuser_destroy = fuser_destroy,
    .builder_create = builder_create,
    .builder_clone = builder_clone,
    .builder_fuse = builder_fuse,
    .builder_state = builder_state,
    .builder_reset = builder_reset,
    .builder_finish = builder_finish,
    .builder_destroy = builder_destroy,
    .opt_info = opt_info,
    .opt_describe = opt_describe,
    .opt_destroy = opt_destroy,
};

KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    (void)host_abi_minor;
    return &plugin;
}
