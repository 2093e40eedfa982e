// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser that takes one chain of operations and nothing else, and is ready only at its end: what
// `kiln plugin check` has to find by itself. CHAIN is compiled in: {operator, inputs that have to
// be earlier results, as their places in the chain, -1: anything}.
#include "kf_util.h"

KF_MANIFEST("org.example.picky", "1.0.0", 0, KF_OPSET_MAX, 0, 0);

typedef struct link {
    uint32_t op;
    int inputs[2];
} link;

#ifdef ATTENTION // product, scale, mask, the parts of a softmax, product
static const link chain[] = {
    {KF_OP_MATMUL, {-1, -1}}, {KF_OP_MUL_SCALAR, {0, -1}}, {KF_OP_ADD, {1, -1}},
    {KF_OP_MAX, {2, -1}},     {KF_OP_SUB, {2, 3}},         {KF_OP_EXP, {4, -1}},
    {KF_OP_SUM, {5, -1}},     {KF_OP_DIV, {5, 6}},         {KF_OP_MATMUL, {7, -1}}};
#else // a scan between a gather and an epilogue
static const link chain[] = {
    {KF_OP_SELECT, {-1, -1}}, {KF_OP_CUM_SUM, {0, -1}}, {KF_OP_CAST, {1, -1}}};
#endif
enum { LENGTH = sizeof(chain) / sizeof(chain[0]) };

struct kf_fuser {
    int unused;
};
struct kf_builder {
    uint32_t n, len, closed, results[LENGTH];
};
struct kf_opt {
    int unused;
};

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    static kf_fuser only;
    (void)host;
    (void)device;
    *out = index == 0 ? &only : NULL;
    return index == 0 ? KF_OK : KF_E_INVALID;
}

static void fuser_destroy(kf_fuser *fuser)
{
    (void)fuser;
}

static kf_status builder_create(const kf_fuser *fuser, kf_builder **out)
{
    (void)fuser;
    *out = (kf_builder *)calloc(1, sizeof(**out));
    return KF_OK;
}

static kf_status builder_clone(const kf_builder *builder, kf_builder **out)
{
    *out = (kf_builder *)malloc(sizeof(**out));
    **out = *builder;
    return KF_OK;
}

/// Reductions over the last axis, which stays with length 1; all else in batches of matrices.
static inline uint32_t has_shape(const kf_op *op)
{
    const kf_tensor *in = op->inputs[0], *out = op->outputs[0];
    uint32_t last = in->rank - 1;
    if (in->rank < 3 || out->rank != in->rank || in->dims[last].symbol == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < last; i++) {
        if (in->dims[i].symbol == 0 || out->dims[i].symbol != in->dims[i].symbol) {
            return 0;
        }
    }
    uint32_t reduces = op->kind == KF_OP_MAX || op->kind == KF_OP_SUM;
    return op->kind == KF_OP_MATMUL || (out->dims[last].symbol == 0) == reduces;
}

static uint32_t is_next(const kf_builder *b, const kf_op *op)
{
    uint32_t good = b->n < LENGTH && op->kind == chain[b->n].op;
#ifdef ATTENTION
    good = good && has_shape(op);
#endif
    for (uint32_t i = 0; good && i < 2; i++) {
        int from = chain[b->n].inputs[i];
        good = from < 0 || (i < op->n_inputs && op->inputs[i]->id == b->results[from]);
    }
    return good;
}

static void answer(const kf_builder *b, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = b->closed ? KF_CLOSED : KF_OPEN;
    state.ready = b->n == LENGTH;
    state.len = b->n == LENGTH ? b->len : 0;
    KF_OUT(out, &state);
}

static kf_status builder_fuse(kf_builder *b, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    (void)block;
    for (uint64_t i = 0; i < n && !b->closed; i++) {
        if (ops[i]->kind != KF_OP_DROP) {
            b->closed = !is_next(b, ops[i]);
            if (!b->closed) {
                b->results[b->n++] = ops[i]->outputs[0]->id;
            }
        }
        b->len += !b->closed;
    }
    answer(b, out);
    return KF_OK;
}

static kf_status builder_state(const kf_builder *b, kf_state *out)
{
    answer(b, out);
    return KF_OK;
}

static kf_status builder_reset(kf_builder *b)
{
    memset(b, 0, sizeof(*b));
    return KF_OK;
}

static kf_status builder_finish(kf_builder *b, kf_opt **out)
{
    (void)b;
    *out = NULL;
    return KF_E_INTERNAL; // nobody asks: what it takes is all that is looked at
}

static void builder_destroy(kf_builder *b)
{
    free(b);
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    (void)opt;
    (void)out;
    return KF_E_INTERNAL;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    (void)opt;
    (void)variant;
    (void)out;
    return KF_E_INTERNAL;
}

static void opt_destroy(kf_opt *opt)
{
    (void)opt;
}

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

static const kf_str ids[] = {KF_STR_INIT("picky")};
static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT("org.example.picky"),
    .version = KF_STR_INIT("1.0.0"),
    .vendor = KF_STR_INIT("Example"),
    .fuser_ids = ids,
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
