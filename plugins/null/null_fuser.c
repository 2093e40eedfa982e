// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser that accepts nothing: the smallest plugin that is complete. For tests of the loader and
// of what a host pays for a fuser that never wins; it is not installed.
#include "kf_util.h"

#define PLUGIN_ID "org.kiln.null"
#define PLUGIN_VERSION "0.1.0"

KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, 0, KF_OPSET_MAX, 0, 0);

struct kf_fuser { // one per device: read-only after its creation
    const kf_host *host;
    kf_cost cost;
};

struct kf_builder { // what has been accepted: plain data, so that a clone is a copy
    const kf_fuser *fuser;
    uint32_t closed;
};

struct kf_opt { // never made
    uint32_t unused;
};

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    *out = NULL;
    if (index != 0) {
        return KF_E_INVALID;
    }
    *out = (kf_fuser *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->host = host;
    (*out)->cost = kf_cost_of(device);
    return KF_OK;
}

static void fuser_destroy(kf_fuser *fuser)
{
    free(fuser);
}

static kf_status builder_create(const kf_fuser *fuser, kf_builder **out)
{
    *out = (kf_builder *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->fuser = fuser;
    return KF_OK;
}

static kf_status builder_clone(const kf_builder *builder, kf_builder **out)
{
    kf_status status = builder_create(builder->fuser, out);
    if (status == KF_OK) {
        **out = *builder;
    }
    return status;
}

static kf_status builder_state(const kf_builder *builder, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = builder->closed ? KF_CLOSED : KF_OPEN;
    KF_OUT(out, &state);
    return KF_OK;
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    uint64_t i;
    (void)block;
    for (i = 0; i < n && !builder->closed; i++) {
        if (ops[i]->kind != KF_OP_DROP) { // drops are accepted always
            kf_decline(builder->fuser->host, KF_CODE_UNKNOWN_OP, ops[i]->position,
                       "not an operator of this fuser");
            builder->closed = 1;
        }
    }
    return builder_state(builder, out);
}

static kf_status builder_reset(kf_builder *builder)
{
    const kf_fuser *fuser = builder->fuser;
    memset(builder, 0, sizeof(*builder));
    builder->fuser = fuser;
    return KF_OK;
}

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    (void)builder;
    *out = NULL;
    return KF_E_INVALID;
}

static void builder_destroy(kf_builder *builder)
{
    free(builder);
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    (void)opt;
    (void)out;
    return KF_E_INVALID;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    (void)opt;
    (void)variant;
    (void)out;
    return KF_E_INVALID;
}

static void opt_destroy(kf_opt *opt)
{
    free(opt);
}

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

static const kf_str fuser_ids[] = {KF_STR_INIT("null")};

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
