// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser that accepts nothing: the smallest plugin that is complete. Copy the folder, change the
// two names, and fill in `takes` (which operations join a block) and `describe` (the kernel that
// does their work). Everything else keeps the rules of the ABI already: clone, reset and replay are
// exact, nothing depends on time or addresses.
#include "kf_util.h"

#define PLUGIN_ID "org.example.my-fuser"
#define PLUGIN_VERSION "0.1.0"

KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, 0, KF_OPSET_MAX, 0, 0);

struct kf_fuser { // one per device: read-only after its creation
    const kf_host *host;
    kf_cost cost;
};

struct kf_builder { // what has been accepted: plain data, so that a clone is a copy
    const kf_fuser *fuser;
    uint32_t closed;
    uint32_t len; // operations covered, drops included
    uint32_t n_ops; // without drops
};

struct kf_opt { // a finished block: immutable
    uint32_t len;
};

// ---- yours to write ----------------------------------------------------------------------------

/* The operators that this fuser takes: none yet. Add yours, as `kind == KF_OP_RELU`. */
static uint32_t is_mine(uint32_t kind)
{
    (void)kind;
    return 0;
}

/// Does the operation join the block? Copy what you need of it: `op` lives during this call only.
static uint32_t takes(const kf_builder *builder, const kf_op *op)
{
    // The operators that you take come first: everything else is declined by name, not by its
    // attributes.
    if (!is_mine(op->kind)) {
        return kf_decline(builder->fuser->host, KF_CODE_UNKNOWN_OP, op->position,
                          "not an operator of this fuser");
    }
    // Attributes that you know, such as KF_ATTR_AXIS. Any other critical one closes the block.
    static const uint32_t keys[] = {KF_ATTR_AXIS};
    if (!kf_op_understood(op, 1, keys, sizeof(keys) / sizeof(keys[0]))) {
        return kf_decline(builder->fuser->host, KF_CODE_NOT_UNDERSTOOD, op->position,
                          "something newer than this fuser");
    }
    return 1;
}

/// Would `finish` give a program now?
static uint32_t is_ready(const kf_builder *builder)
{
    return builder->n_ops > 0;
}

/// The program: sources, launches with their arguments, steps. See kiln_fuser.h, and for a worked
/// example plugins/elementwise in Kiln's repository.
static kf_status describe(const kf_opt *opt, kf_program *out)
{
    kf_program program;
    (void)opt;
    memset(&program, 0, sizeof(program));
    program.struct_size = (uint32_t)sizeof(program);
    KF_OUT(out, &program);
    return KF_E_UNSUPPORTED;
}

// ---- the ABI's objects -------------------------------------------------------------------------

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
    state.ready = is_ready(builder);
    if (state.ready) {
        state.len = builder->len;
        state.launches = 1;
        state.confidence = KF_CONFIDENCE_GUESS;
    }
    KF_OUT(out, &state);
    return KF_OK;
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    uint64_t i;
    (void)block; // ask it for the value of a dimension or scalar only when you cannot do without
    for (i = 0; i < n && !builder->closed; i++) {
        if (ops[i]->kind == KF_OP_DROP) { // accepted always: remember which of your tensors died
            builder->len++;
        } else if (takes(builder, ops[i])) {
            builder->len++;
            builder->n_ops++;
        } else {
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
    *out = NULL;
    if (!is_ready(builder)) {
        return KF_E_INVALID;
    }
    *out = (kf_opt *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->len = builder->len;
    return KF_OK;
}

static void builder_destroy(kf_builder *builder)
{
    free(builder);
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    static const kf_str name = KF_STR_INIT("my-fuser");
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = opt->len;
    info.n_variants = 1;
    info.name = name;
    info.key.ptr = &opt->len; // all that the program depends on
    info.key.len = sizeof(opt->len);
    KF_OUT(out, &info);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    return variant == 0 ? describe(opt, out) : KF_E_INVALID;
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

static const kf_str fuser_ids[] = {KF_STR_INIT("my-fuser")};

static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT(PLUGIN_ID),
    .version = KF_STR_INIT(PLUGIN_VERSION),
    .vendor = KF_STR_INIT("Example"),
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
