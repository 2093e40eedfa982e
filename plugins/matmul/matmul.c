// SPDX-License-Identifier: MIT OR Apache-2.0
// The matrix product as a plugin: three fusers, which differ in how a product is cut into work.
// They compete for the same blocks: plain tiles, the sum in parts for few tiles and long sums, and
// small tiles for GPUs. Here are the ABI's objects and nothing else.
#include "matmul_internal.h"

#define PLUGIN_ID "org.kiln.matmul"
#define PLUGIN_VERSION "1.0.0"

KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, 0, KF_OPSET_MAX, 0, 0);

struct kf_fuser {
    const kf_host *host;
    kf_chain_device device;
    uint32_t index;
};

struct kf_builder {
    const kf_fuser *fuser;
    mm_block block;
    mm_plan plan; // of the last answer
    mm_estimate estimate;
};

struct kf_opt {
    mm_program *program;
};

enum { FUSERS = 3, SMALL_TILES = 2 };

// ---- fuser -------------------------------------------------------------------------------------

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    kf_fuser *fuser;
    *out = NULL;
    if (index >= FUSERS) {
        return KF_E_INVALID;
    }
    if (index == SMALL_TILES && device->code_shape == KF_SHAPE_BLOCK) {
        kf_decline(host, KF_CODE_DEVICE, KF_NONE, "small tiles are for devices of work-items");
        return KF_DECLINED;
    }
    if ((device->features & KF_FEATURE_COMPILER) == 0) {
        kf_decline(host, KF_CODE_DEVICE, KF_NONE, "the device has no compiler");
        return KF_DECLINED;
    }
    if (device->code_shape != KF_SHAPE_BLOCK &&
        (device->max_group_size < 256 || device->local_bytes < 17408)) {
        kf_decline(host, KF_CODE_DEVICE, KF_NONE, "a tile needs 256 work-items and 17 KiB");
        return KF_DECLINED;
    }
    fuser = (kf_fuser *)calloc(1, sizeof(*fuser));
    if (fuser == NULL) {
        return KF_E_NOMEM;
    }
    fuser->host = host;
    fuser->index = index;
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
    mm_block_init(&builder->block);
    return KF_OK;
}

static kf_status builder_clone(const kf_builder *builder, kf_builder **out)
{
    kf_status status = builder_create(builder->fuser, out);
    if (status == KF_OK) {
        mm_block_copy(&(*out)->block, &builder->block);
    }
    return status;
}

static void answer(kf_builder *builder, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = builder->block.closed ? KF_CLOSED : KF_OPEN;
    state.ready = mm_block_is_ready(&builder->block);
    if (state.ready) {
        mm_plan_make(&builder->plan, &builder->block, &builder->fuser->device,
                     builder->fuser->index);
        mm_estimate_make(&builder->estimate, &builder->plan);
        state.len = builder->block.len;
        state.confidence = KF_CONFIDENCE_MODEL;
        state.launches = builder->estimate.launches;
        state.est_ns = kf_formula_expr(&builder->estimate.ns);
        state.est_bytes_read = kf_formula_expr(&builder->estimate.read);
        state.est_bytes_written = kf_formula_expr(&builder->estimate.written);
        state.est_flops = kf_formula_expr(&builder->estimate.flops);
        state.temp_bytes = kf_formula_expr(&builder->estimate.temp);
    }
    KF_OUT(out, &state);
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    (void)block; // no value is ever needed: the kernels take sizes and scalars as arguments
    for (uint64_t i = 0; i < n; i++) {
        mm_block_push(&builder->block, &builder->fuser->device, builder->fuser->host, ops[i]);
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
    mm_block_init(&builder->block);
    return KF_OK;
}

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    kf_opt *opt;
    *out = NULL;
    if (!mm_block_is_ready(&builder->block)) {
        return KF_E_INVALID;
    }
    opt = (kf_opt *)calloc(1, sizeof(*opt));
    if (opt == NULL) {
        return KF_E_NOMEM;
    }
    opt->program =
        mm_program_create(&builder->block, &builder->fuser->device, builder->fuser->index);
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
    mm_program_info(opt->program, out);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    if (variant != 0) {
        return KF_E_INVALID;
    }
    mm_program_describe(opt->program, out);
    return KF_OK;
}

static void opt_destroy(kf_opt *opt)
{
    if (opt != NULL) {
        mm_program_destroy(opt->program);
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

static const kf_str fuser_ids[] = {KF_STR_INIT("matmul"), KF_STR_INIT("matmul_parts"),
                                   KF_STR_INIT("matmul_small")};

static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT(PLUGIN_ID),
    .version = KF_STR_INIT(PLUGIN_VERSION),
    .vendor = KF_STR_INIT("Kiln"),
    .fuser_ids = fuser_ids,
    .n_fusers = FUSERS,
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
