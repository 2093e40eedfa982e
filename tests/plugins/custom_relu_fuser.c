// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser that knows an operator of another plugin by its name: acme::mish_clip followed by relu,
// dense f32, in one kernel. For the test that fusers see operators of plugins.
#include "kf_operators.h"
#include "kf_util.h"

KF_MANIFEST("test.custom-relu", "1.0", 0, KF_OPSET_MAX, 0, 0);

struct kf_fuser {
    const kf_host *host;
};

struct kf_builder { // plain data: a clone is a copy
    const kf_fuser *fuser;
    uint32_t closed;
    uint32_t len;
    uint32_t ids[3]; // x, mish_clip(x), relu of it
    float clip;
    kf_formula work;
};

struct kf_opt {
    kf_text code;
    uint32_t len;
    kf_formula work;
    kf_karg args[2];
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    (void)index;
    (void)device;
    *out = (kf_fuser *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->host = host;
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

static uint32_t is_named(const kf_op *op, const char *name, int64_t version)
{
    const kf_attr *text = kf_op_attr(op, KF_ATTR_NAME);
    const kf_attr *number = kf_op_attr(op, KF_ATTR_VERSION);
    return text != NULL && number != NULL && number->v.i == version &&
           text->v.b->len == strlen(name) && memcmp(text->v.b->ptr, name, strlen(name)) == 0;
}

static uint32_t takes(kf_builder *b, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_NAME, KF_ATTR_VERSION, KF_PARAM_KEY(0)};
    uint32_t dense = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    if (b->len == 0 && op->kind == KF_OP_CUSTOM && is_named(op, "acme::mish_clip", 1) &&
        kf_op_understood(op, 1, keys, 3) && op->inputs[0]->dtype == KF_DTYPE_F32 &&
        (op->inputs[0]->facts & dense) == dense) {
        b->ids[0] = op->inputs[0]->id;
        b->ids[1] = op->outputs[0]->id;
        b->clip = (float)kf_op_attr(op, KF_PARAM_KEY(0))->v.f;
        kf_formula_numel(&b->work, op->inputs[0]);
        return 1;
    }
    if (b->len == 1 && op->kind == KF_OP_RELU && op->inputs[0]->id == b->ids[1]) {
        b->ids[2] = op->outputs[0]->id;
        return 1;
    }
    return b->len == 2 && op->kind == KF_OP_DROP && op->inputs[0]->id == b->ids[1];
}

static kf_status builder_state(const kf_builder *builder, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = builder->closed ? KF_CLOSED : KF_OPEN;
    state.ready = builder->len == 3;
    state.len = builder->len;
    state.launches = 1;
    KF_OUT(out, &state);
    return KF_OK;
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    uint64_t i;
    (void)block;
    for (i = 0; i < n && !builder->closed; i++) {
        builder->closed = !takes(builder, ops[i]);
        builder->len += !builder->closed;
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

static void builder_destroy(kf_builder *builder)
{
    free(builder);
}

static void bind(kf_karg *arg, uint32_t access, uint32_t ref)
{
    arg->kind = KF_ARG_TENSOR;
    arg->access = access;
    arg->ref = ref;
    arg->dtype = KF_DTYPE_F32;
}

static void write_code(kf_text *code, float clip)
{
    uint32_t bits;
    memcpy(&bits, &clip, sizeof(bits));
    kf_text_addf(code,
                 "__kernel void mish_relu(__global const float *x, __global float *y) {\n"
                 "    const size_t i = get_global_id(0);\n"
                 "    const float clip = as_float(0x%08xu);\n"
                 "    const float v = x[i], e = exp(v), n = e * (e + 2.0f);\n"
                 "    float r = v > 20.0f ? v : v < -100.0f ? -0.0f : v * (n / (n + 2.0f));\n"
                 "    r = r > clip ? clip : r < -clip ? -clip : r;\n"
                 "    y[i] = r < 0.0f ? 0.0f : r;\n}\n",
                 bits);
}

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    kf_opt *opt = (kf_opt *)calloc(1, sizeof(*opt));
    *out = opt;
    if (opt == NULL) {
        return KF_E_NOMEM;
    }
    opt->len = builder->len;
    opt->work = builder->work;
    write_code(&opt->code, builder->clip);
    bind(&opt->args[0], KF_ACCESS_READ, builder->ids[0]);
    bind(&opt->args[1], KF_ACCESS_WRITE, builder->ids[2]);
    opt->source.struct_size = (uint32_t)sizeof(opt->source);
    opt->source.format = KF_FORMAT_OPENCL_C;
    opt->source.code.ptr = opt->code.ptr;
    opt->source.code.len = opt->code.len;
    opt->source.cl_c_version = 120;
    opt->sources[0] = &opt->source;
    opt->launch.struct_size = (uint32_t)sizeof(opt->launch);
    opt->launch.dims = 1;
    opt->launch.n_args = 2;
    opt->launch.kernel.ptr = "mish_relu";
    opt->launch.kernel.len = 9;
    opt->launch.global[0] = kf_formula_expr(&opt->work);
    opt->launch.args = opt->args;
    opt->launches[0] = &opt->launch;
    opt->step.kind = KF_STEP_LAUNCH;
    return KF_OK;
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = opt->len;
    info.n_variants = 1;
    info.name.ptr = "mish_clip+relu";
    info.name.len = 14;
    info.key.ptr = opt->code.ptr;
    info.key.len = opt->code.len;
    KF_OUT(out, &info);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    kf_program view;
    (void)variant;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.sources = opt->sources;
    view.n_sources = 1;
    view.launches = opt->launches;
    view.n_launches = 1;
    view.steps = &opt->step;
    view.n_steps = 1;
    KF_OUT(out, &view);
    return KF_OK;
}

static void opt_destroy(kf_opt *opt)
{
    if (opt != NULL) {
        kf_text_free(&opt->code);
        free(opt);
    }
}

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

static const kf_str fuser_ids[] = {KF_STR_INIT("custom-relu")};

static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT("test.custom-relu"),
    .version = KF_STR_INIT("1.0"),
    .vendor = KF_STR_INIT("tests"),
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
