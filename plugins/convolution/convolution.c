// SPDX-License-Identifier: MIT OR Apache-2.0
// Regions of convolutions as a plugin, for processors and for GPUs: here are the ABI's objects, the
// device's facts that plans go by, and the estimate, which is kept up as operations join.
#include "convolution_form.h"

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
    cv_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    cv_region region;
    cv_region offered; // while it waits
    uint32_t waits; // for the rest of a transposed convolution, which may not come
    kf_estimate estimate; // of the last answer
};

struct kf_opt {
    cv_program *program;
};

enum {
    WIDE = 28, ///< sums that leave registers for weights and inputs
    NARROW = 6
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    const cv_form *form = device->code_shape == KF_SHAPE_BLOCK ? &cv_form_blocks : &cv_form_nhwc;
    if (device->max_group_size < form->least_items || device->local_bytes < form->least_local) {
        kf_decline(fuser->host, KF_CODE_DEVICE, KF_NONE,
                   "its work-groups or local memory are small");
        return KF_DECLINED;
    }
    fuser->device.form = form;
    fuser->device.cost = kf_cost_of(device);
    fuser->device.is_wide = device->vector_bytes >= 64;
    fuser->device.registers = fuser->device.is_wide ? WIDE : NARROW;
    fuser->device.features = device->features;
    // Not for a bundle, which may merge programs, or make loops in a single work-item of them.
    fuser->device.chains = form == &cv_form_blocks && device->device_type == KF_DEVICE_CPU &&
                           (device->features & KF_FEATURE_PREPARED) == 0;
    fuser->device.param_bytes = (uint32_t)device->max_param_bytes;
    fuser->device.units = device->compute_units > 0 ? device->compute_units : 1;
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    cv_region_init(&builder->region);
    builder->waits = 0;
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    cv_region_copy(&to->region, &from->region);
    to->waits = from->waits;
    if (from->waits) {
        cv_region_copy(&to->offered, &from->offered);
    }
}

static void builder_push(kf_builder *builder, const kf_block *block, const kf_op *op)
{
    if (!builder->waits && (op->kind == KF_OP_RESHAPE || op->kind == KF_OP_MATMUL)) {
        cv_region_copy(&builder->offered, &builder->region);
    }
    cv_region_push(&builder->region, &builder->fuser->device, builder->fuser->host, block, op);
    builder->waits = !cv_region_is_passed(&builder->region);
}

static const cv_region *offered(const kf_builder *builder)
{
    return builder->waits ? &builder->offered : &builder->region;
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->region.closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return cv_region_is_ready(offered(builder));
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    const cv_region *region = offered(builder);
    const kf_cost *cost = &builder->fuser->device.cost;
    uint32_t launches = region->n_passes + region->n_outside + cv_region_results(region);
    kf_estimate_init(&builder->estimate);
    kf_formula_imm(&builder->estimate.ns,
                   (int64_t)(cv_region_ps(region, &builder->fuser->device) / 1000));
    kf_formula_product(&builder->estimate.ns, &region->batch, 1);
    kf_formula_op(&builder->estimate.ns, KF_INS_MUL);
    kf_formula_imm_op(&builder->estimate.ns, launches * cost->launch_ns, KF_INS_ADD);
    kf_estimate_answer(&builder->estimate, region->len, launches, state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->program = cv_program_create(offered(builder), &builder->fuser->device);
    return opt->program != NULL ? KF_OK : KF_E_NOMEM;
}

static void opt_fini(kf_opt *opt)
{
    cv_program_destroy(opt->program);
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    cv_program_info(opt->program, out);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    cv_program_describe(opt->program, out);
}

#define KF_PLUGIN_ID "org.kiln.convolution"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS KF_STR_INIT("convolution")
#include "kf_plugin.h"
