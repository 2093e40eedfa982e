// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser that accepts nothing: the smallest plugin that is complete. For tests of the loader and
// of what a host pays for a fuser that never wins; it is not installed.
#include "kf_util.h"

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
};

struct kf_builder { // what has been accepted: plain data, so that a clone is a copy
    const kf_fuser *fuser;
    uint32_t closed;
};

struct kf_opt { // never made
    uint32_t unused;
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    (void)fuser;
    (void)device;
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    builder->closed = 0;
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    *to = *from;
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    (void)values;
    if (op->kind != KF_OP_DROP) { // drops are accepted always
        kf_decline(builder->fuser->host, KF_CODE_UNKNOWN_OP, op->position,
                   "not an operator of this fuser");
        builder->closed = 1;
    }
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    (void)builder;
    return 0;
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    (void)builder;
    (void)state;
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    (void)opt;
    (void)builder;
    return KF_E_INVALID;
}

static void opt_fini(kf_opt *opt)
{
    (void)opt;
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    (void)opt;
    (void)out;
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    (void)opt;
    (void)out;
}

#define KF_PLUGIN_ID "org.kiln.null"
#define KF_PLUGIN_VERSION "0.1.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS KF_STR_INIT("null")
#include "kf_plugin.h"
