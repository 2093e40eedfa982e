// SPDX-License-Identifier: MIT OR Apache-2.0
// Matrix products on the tensor cores of NVIDIA's compute capability 9.0 as a plugin: three
// fusers, as of matmul. Here are the ABI's objects, sizes of tiles, and what a product costs.
#include "nvidia_tensor.h"

static void size_plan(mm_plan *plan, uint32_t small)
{
    uint32_t is_f32 = kf_dtype_of(plan->block->chain.values[plan->block->result].dtype).bytes == 4;
    uint32_t as_bf16 = (plan->device->features & KF_FEATURE_ROUND_BF16) != 0;
    uint32_t once = !is_f32 || as_bf16 || (plan->device->features & KF_FEATURE_ROUND_TF32) != 0;
    uint32_t large = !small && !plan->split; // whoever adds up the parts of a large tile takes long
    plan->rows = large ? 128 : 64;
    plan->columns = !large ? 64 : once ? 256 : 128;
    plan->lanes = plan->width;
    plan->copies = once ? 1 : 2;
    plan->step = is_f32 && !as_bf16 ? 32 : 64;
    plan->depth = plan->step;
    plan->items = plan->rows / TENSOR_TEAM_ROWS * TENSOR_TEAM + TENSOR_TEAM;
}

/// As measured on an H200, whose f32 rate is 60 TFLOP/s (README).
static uint32_t share(const mm_plan *plan)
{
    uint32_t large = plan->rows > TENSOR_TEAM_ROWS;
    uint32_t once = plan->columns > 128 ? 1100 : large ? 950 : 500;
    return plan->copies == 1 ? once * 2 / tensor_element_bytes(plan)
           : large           ? 210
           : plan->plain     ? 100
                             : 120;
}

static const kf_str defines[] = {KF_STR_INIT("KILN_PTX_TARGET=sm_90a")};

static const mm_tensor tensor = {.size = size_plan,
                                 .functions = tensor_emit_pack_functions,
                                 .pack = tensor_emit_pack,
                                 .product = tensor_emit_product,
                                 .share = share,
                                 .defines = defines,
                                 .n_defines = 1};

static const mm_tensor plain = {.size = size_plan,
                                .functions = tensor_emit_pack_functions,
                                .pack = tensor_emit_pack,
                                .product = tensor_emit_product,
                                .share = share,
                                .plain = 1,
                                .defines = defines,
                                .n_defines = 1};

static const mm_fuser fusers[] = {{"nvidia_tensor", 0, 0, 0, &tensor},
                                  {"nvidia_tensor_parts", 1, 0, 0, &tensor},
                                  {"nvidia_tensor_small", 0, 1, 0, &tensor},
                                  {"nvidia_tensor_plain", 0, 0, 0, &plain},
                                  {"nvidia_tensor_plain_parts", 1, 0, 0, &plain},
                                  {"nvidia_tensor_plain_small", 0, 1, 0, &plain}};

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
    if ((device->features & KF_FEATURE_WGMMA) == 0) {
        kf_decline(fuser->host, KF_CODE_DEVICE, KF_NONE,
                   "no tensor cores of NVIDIA's compute capability 9.0");
        return KF_DECLINED;
    }
    kf_chain_device_init(&fuser->device, device);
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    mm_block_init(&builder->block);
    builder->block.floats_only = 1;
    builder->block.several = 1;
    builder->block.merges = fusers[builder->fuser->index].tensor->plain;
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    mm_block_copy(&to->block, &from->block);
}

/// One row or column is no work for tensor cores, nor is f64.
static uint32_t is_taken(const kf_builder *builder, const mm_block *block)
{
    return mm_outer_symbol(block, &block->left) != 0 &&
           mm_outer_symbol(block, &block->right) != 0 &&
           tensor_takes(&builder->fuser->device, block->chain.values[block->result].dtype);
}

/// Whether the left operand may be read as it lies: its rows are runs of whole pieces of 16 bytes,
/// or heads, nothing is done with them first, it is not packed once for ever, and f32 is as three
/// products.
static uint32_t is_plain(const kf_builder *builder, const mm_block *block)
{
    const mm_operand *left = &block->left;
    const kf_chain_value *source = &block->chain.values[left->source];
    uint32_t bytes = kf_dtype_of(source->dtype).bytes;
    uint32_t once = KF_FEATURE_ROUND_TF32 | KF_FEATURE_ROUND_BF16;
    uint32_t runs = left->source == left->value && left->inner + 1 == source->rank &&
                    source->contiguous && source->div_by * bytes % 16 == 0;
    return (runs || left->upper != 0) && !left->constant &&
           (bytes == 2 || (builder->fuser->device.features & once) == 0);
}

static void take_conv(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    mm_block *block = &builder->block;
    if (!tensor_take_conv(block, &builder->fuser->device, builder->fuser->host, values, op)) {
        block->closed = 1;
        return;
    }
    block->shown[block->n_shown++] = "conv";
    block->len++;
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    mm_block *block = &builder->block;
    uint32_t had_product = block->has_product;
    uint32_t as_it_lies = fusers[builder->fuser->index].tensor->plain;
    if (op->kind == KF_OP_CONV && !as_it_lies && !had_product && !block->closed &&
        block->len == 0) {
        take_conv(builder, values, op);
        return;
    }
    if (block->window.is_there && !block->closed && op->kind != KF_OP_DROP &&
        !tensor_may_follow(block, builder->fuser->host, op)) {
        block->closed = 1;
        return;
    }
    mm_block_push(block, &builder->fuser->device, builder->fuser->host, op);
    if (!had_product && block->has_product && !block->closed && !is_taken(builder, block)) {
        kf_decline(builder->fuser->host, KF_CODE_SHAPE, op->position,
                   "tensor cores take matrices of f16, bf16 and f32 only, of f32 if not strict");
        block->closed = 1;
        block->has_product = 0;
    } else if (!had_product && block->has_product && as_it_lies && !is_plain(builder, block)) {
        kf_decline(builder->fuser->host, KF_CODE_SHAPE, op->position,
                   "the left operand is not read as it lies");
        block->closed = 1;
        block->has_product = 0;
    }
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

#define KF_PLUGIN_ID "org.kiln.nvidia_tensor"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS                                                                           \
    KF_STR_INIT("nvidia_tensor"), KF_STR_INIT("nvidia_tensor_parts"),                              \
        KF_STR_INIT("nvidia_tensor_small"), KF_STR_INIT("nvidia_tensor_plain"),                    \
        KF_STR_INIT("nvidia_tensor_plain_parts"), KF_STR_INIT("nvidia_tensor_plain_small")
#include "kf_plugin.h"
